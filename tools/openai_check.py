#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the official openai client against `propane serve`: completion, chat, streams, errors, many requests at once.

usage: openai_check.py PROPANE          exit 0: good; 77: the client is not installed; 1: something differs
"""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile

try:
    import openai
except ImportError:
    print("the Python package openai is not here")
    sys.exit(77)

propane = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build/release/propane")
work = tempfile.mkdtemp(prefix="propane-openai-")
done = []


def check(name, condition, shown=""):
    if not condition:
        print(f"FAILED {name}: {shown}")
        sys.exit(1)
    done.append(name)


def refused(kind, call, part):
    try:
        call()
    except kind as error:
        check(kind.__name__, part in str(error), error)
        return
    check(kind.__name__, False, "no error came")


def run(*words):
    subprocess.run([propane, *words], cwd=work, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def serve(model):
    server = subprocess.Popen([propane, "serve", model, "--port", "0"], cwd=work, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split(" at ")[1].split(" ")[0].rstrip(";")
    return server, openai.OpenAI(base_url=url, api_key="none", max_retries=0)


def finish(server):
    server.send_signal(signal.SIGTERM)
    check("its end is clean", server.wait(20) == 0, server.returncode)


with open(os.path.join(work, "text"), "w") as f:
    f.write("".join(f"line {i * i % 977} of {i % 7}\n" for i in range(3000)))
run("tokenize", "text", "--vocab", "300", "--out", "v.json", "--tokens", "ids")
run("train", "--data", "ids", "--tokenizer", "v.json", "--layers", "1", "--width", "32", "--heads", "2", "--kv-heads", "1",
    "--context", "64", "--batch", "4", "--steps", "100", "--warmup", "5", "--lr", "1e-2", "--eval-batches", "2", "--run", "m")
server, client = serve("m")
ask = [{"role": "system", "content": "be short"}, {"role": "user", "content": "line 1"}]

check("models", [m.id for m in client.models.list()] == ["m"])
check("model", client.models.retrieve("m").owned_by == "propane")

c = client.completions.create(model="m", prompt="line 1", max_tokens=30, temperature=0)
check("completion", c.usage.completion_tokens == 30 and c.choices[0].finish_reason == "length" and c.choices[0].text, c)
whole = c.choices[0].text
parts = list(client.completions.create(model="m", prompt="line 1", max_tokens=30, temperature=0, stream=True,
                                       stream_options={"include_usage": True}))
check("stream", "".join(p.choices[0].text for p in parts if p.choices) == whole, parts)
check("usage of a stream", parts[-1].usage.completion_tokens == 30 and not parts[-1].choices)
stop = whole[5:8]
c = client.completions.create(model="m", prompt="line 1", max_tokens=30, temperature=0, stop=[stop])
check("stop", c.choices[0].text == whole[:whole.index(stop)] and c.choices[0].finish_reason == "stop", c)
c = client.completions.create(model="m", prompt=["line 1", "of"], n=2, max_tokens=4, logprobs=3, seed=1)
check("several prompts and choices", [x.index for x in c.choices] == [0, 1, 2, 3])
check("logprobs", all(len(x.logprobs.tokens) == 4 and len(x.logprobs.top_logprobs[0]) <= 3 for x in c.choices), c)

c = client.chat.completions.create(model="m", messages=ask, max_tokens=20, seed=7, logprobs=True, top_logprobs=2)
check("chat", c.choices[0].message.role == "assistant" and c.choices[0].message.content is not None, c)
check("logprobs of a chat", len(c.choices[0].logprobs.content[0].top_logprobs) == 2, c)
parts = list(client.chat.completions.create(model="m", messages=ask, max_tokens=20, seed=7, stream=True))
check("stream of a chat", "".join(p.choices[0].delta.content or "" for p in parts) == c.choices[0].message.content, parts)
check("its end", parts[-1].choices[0].finish_reason in ("stop", "length") and parts[0].choices[0].delta.role == "assistant")

refused(openai.NotFoundError, lambda: client.completions.create(model="other", prompt="a"), "does not exist")
refused(openai.BadRequestError, lambda: client.completions.create(model="m", prompt="a", temperature=3), "temperature")
refused(openai.BadRequestError, lambda: client.completions.create(model="m", prompt="line " * 2000), "context has room")
refused(openai.BadRequestError, lambda: client.chat.completions.create(model="m", messages=[]), "messages")
refused(openai.BadRequestError, lambda: client.chat.completions.create(
    model="m", messages=ask, tools=[{"type": "function", "function": {"name": "f"}}]), "does not use <tool_call>")


e = client.embeddings.create(model="m", input=["one", "two", "one"])
vectors = [d.embedding for d in e.data]
check("embeddings", [d.index for d in e.data] == [0, 1, 2] and vectors[0] == vectors[2] != vectors[1] and e.usage.prompt_tokens > 0, e.usage)
check("their length", abs(sum(x * x for x in vectors[0]) - 1) < 1e-5)
floats = client.embeddings.create(model="m", input="one", encoding_format="float").data[0].embedding
check("as numbers", max(abs(x - y) for x, y in zip(floats, vectors[0])) < 1e-7 and len(floats) == len(vectors[0]))


r = client.responses.create(model="m", input="a", instructions="b", max_output_tokens=5, temperature=0)
check("responses", isinstance(r.output_text, str) and r.status == "incomplete" and r.usage.output_tokens == 5, r)
refused(openai.BadRequestError, lambda: client.responses.create(model="m", input="a", stream=True), "'stream' is not supported")


async def many():
    other = openai.AsyncOpenAI(base_url=client.base_url, api_key="none", max_retries=0)

    async def one(i):
        if i % 2:
            c = await other.completions.create(model="m", prompt="line 1", max_tokens=30, temperature=0)
            return c.choices[0].text
        s = await other.completions.create(model="m", prompt="line 1", max_tokens=30, temperature=0, stream=True)
        return "".join([p.choices[0].text async for p in s])

    return await asyncio.gather(*(one(i) for i in range(200)))


check("200 at once", set(asyncio.run(many())) == {whole})
finish(server)

# A model that has memorized one conversation, including a tool call, through its own template.
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern"}}}
TEMPLATE = ("{% for t in tools or [] %}({{ t.function.name }}){% endfor %}{% for m in messages %}<{{ m.role[0] }}>{{ m.content or '' }}"
            "{% for c in m.tool_calls or [] %}<tool_call>{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}"
            "</tool_call>{% endfor %}<e>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}")


def check_tools():
    with open(os.path.join(work, "calls.jsonl"), "w") as f:
        for answer in ("no", "yes") * 30:
            talk = [{"role": "user", "content": "Rain?"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "content": answer}, {"role": "assistant", "content": f"It says {answer}."}]
            f.write(json.dumps({"messages": talk, "tools": [TOOL]}) + "\n")
    with open(os.path.join(work, "words"), "w") as f:
        f.write("".join(chr(c) for c in range(32, 127)) * 40)
    run("tokenize", "words", "--kind", "bytes", "--out", "b.json", "--tokens", "bids")
    run("train", "--data", "bids", "--tokenizer", "b.json", "--layers", "1", "--width", "64", "--heads", "4", "--context", "256", "--batch", "1",
        "--steps", "1", "--eval-batches", "1", "--run", "base")
    with open(os.path.join(work, "base", "tokenizer_config.json"), "w") as f:
        json.dump({"chat_template": TEMPLATE}, f)
    run("train", "--init", "base", "--data", "calls.jsonl", "--batch", "4", "--steps", "250", "--lr", "1e-2", "--warmup", "10",
        "--eval-every", "0", "--run", "caller", "--no-report")
    server, client = serve("caller")
    asked = [{"role": "user", "content": "Rain?"}]
    options = {"model": "caller", "tools": [TOOL], "temperature": 0, "max_tokens": 120, "stop": ["<e>"]}
    c = client.chat.completions.create(messages=asked, **options).choices[0]
    calls = c.message.tool_calls
    check("tool call", c.finish_reason == "tool_calls" and len(calls) == 1 and c.message.content is None, c)
    check("its arguments", calls[0].function.name == "weather" and json.loads(calls[0].function.arguments) == {"city": "Bern"}, calls)
    parts = list(client.chat.completions.create(messages=asked, stream=True, **options))
    said = [d for p in parts for d in p.choices[0].delta.tool_calls or []]
    check("tool call in a stream", [(d.function.name, d.function.arguments) for d in said] == [(calls[0].function.name, calls[0].function.arguments)], parts)
    check("its finish", parts[-1].choices[0].finish_reason == "tool_calls", parts[-1])
    asked += [c.message, {"role": "tool", "tool_call_id": calls[0].id, "content": "yes"}]
    c = client.chat.completions.create(messages=asked, **options).choices[0]
    check("after the tool's answer", c.message.content == "It says yes." and c.message.tool_calls is None, c)
    finish(server)


if subprocess.run(["python3", "-c", "import jinja2"], capture_output=True).returncode == 0:
    check_tools()
else:
    print("skipped: tools: python3 has no jinja2")
print(f"{len(done)} checks with openai {openai.__version__}: all good")
