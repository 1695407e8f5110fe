# SPDX-License-Identifier: MIT
# Runs chat templates with Jinja2, sandboxed, for src/lm/text/chat_jinja.c. The process reads requests from standard
# input and writes answers to standard output, each a length of four bytes (big endian) followed by JSON of that length.
# It has no other descriptor and little memory, may write no file, and exits when its input ends.
#
# {"template", "bos", "eos", "messages", "tools", "date" (these may be missing), "ask"} returns
# {"text", "answers": [[begin, end], ...]} in bytes (without `ask`; null if the template hides them), or {"error"}.
# {"template", "bos", "eos", "talks": [{"messages", "ask"}, ...]} returns {"end", "texts"}: the text after an answer, and
# the template's text of each conversation (null if it refuses). A date in them is replaced by a random text, so that a
# template that writes the date equals no fixed text.
import sys

sys.path[:] = [p for p in sys.path if p not in ("", ".")]
import datetime
import json
import os
import re
import secrets
import signal
import struct

try:
    import resource

    for what, most in ((resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        try:
            resource.setrlimit(what, (most, most))
        except (ValueError, OSError):
            pass
except ImportError:
    pass
os.closerange(3, 4096)


def write(answer):
    data = json.dumps(answer).encode()
    sys.stdout.buffer.write(struct.pack(">I", len(data)) + data)
    sys.stdout.buffer.flush()


try:
    import jinja2
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment
except ImportError as missing:
    write({"error": f"{sys.executable} has no jinja2 ({missing})"})
    sys.exit(1)

PATIENCE = 15  # seconds for a request; who asks gives up after 10
OPEN, CLOSE = ("\ue000" + secrets.token_hex(8) + mark for mark in "+-")


class Generation(Extension):
    """{% generation %} ... {% endgeneration %} encloses what a model is trained to write."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        return OPEN + caller() + CLOSE


class Refusal(jinja2.exceptions.TemplateError):
    """An error message from the template itself."""


def refuse(message):
    raise Refusal(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
environment.filters["tojson"] = to_json
environment.globals["raise_exception"] = refuse
today = lambda form: datetime.datetime.now().strftime(form)
now = today
environment.globals["strftime_now"] = lambda form: now(form)
compiled = {}


def template(request):
    text = request["template"]
    if text not in compiled:
        compiled[text] = environment.from_string(text)
    return compiled[text]


def render(request, messages, ask):
    return template(request).render(
        messages=messages, tools=request.get("tools"), documents=None, add_generation_prompt=ask,
        bos_token=request["bos"], eos_token=request["eos"])


def marked(text):
    """Returns a text without the marks of {% generation %}, and the parts that were between them."""
    out, spans, length = [], [], 0
    for i, piece in enumerate(re.split(f"({re.escape(OPEN)}|{re.escape(CLOSE)})", text)):
        if i % 2 == 0:
            out.append(piece)
            length += len(piece)
        elif piece == OPEN:
            spans.append([length, length])
        elif spans:
            spans[-1][1] = length
    return "".join(out), spans


def places(request):
    return [i for i, message in enumerate(request["messages"]) if message.get("role") == "assistant"]


def answers(request, whole):
    """Finds answers without marks: an answer is the text of a longer conversation after the prefix of the answer."""
    spans = []
    for i in places(request):
        before = marked(render(request, request["messages"][:i], True))[0]
        after = marked(render(request, request["messages"][: i + 1], False))[0].rstrip()
        if not after.startswith(before) or not whole.startswith(after):
            return None
        mark = ending(request)
        end = len(after) + (len(mark) if mark and not after.endswith(mark) and whole.startswith(mark, len(after)) else 0)
        spans.append([len(before), end])
    return spans


def ways_to_mark(content):
    """Yields a content with marks around it, or around its part after a thought, with and without outer white space."""
    thought = content.rfind("</think>") + 8 if "</think>" in content else 0
    for begin in {0, thought}:
        lead, rest = content[:begin], content[begin:]
        yield lead + OPEN + rest + CLOSE
        lead += rest[: len(rest) - len(rest.lstrip())]
        yield lead + OPEN + rest.lstrip() + CLOSE
        yield lead + OPEN + rest.strip() + CLOSE


def answers_by_content(request, whole):
    """Finds answers by marks around the contents, provided that they change nothing else. It is for templates that write the
    end of a conversation differently from its middle. An answer includes the text that ends it, and the text that the
    template writes before its content, after the prefix of the answer."""
    contents = [list(ways_to_mark(request["messages"][i].get("content") or "")) for i in places(request)]
    for way in range(6):
        talk = [dict(m) for m in request["messages"]]
        for i, ways in zip(places(request), contents):
            talk[i]["content"] = ways[way % len(ways)]
        text, spans = marked(render(request, talk, False))
        if text != whole or len(spans) != len(places(request)):
            continue
        mark, last = ending(request), 0
        for span, i in zip(spans, places(request)):
            before = marked(render(request, request["messages"][:i], True))[0]
            if last <= len(before) <= span[0] and whole.startswith(before):
                span[0] = len(before)
            if whole.startswith(mark, span[1]):
                span[1] += len(mark)
            last = span[1]
        return spans
    return None


def with_objects(message):
    """Converts a call's arguments from OpenAI's string to the object that templates expect."""
    for call in message.get("tool_calls") or []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            try:
                function["arguments"] = json.loads(function["arguments"])
            except ValueError:
                pass
    return message


def with_thoughts(message):
    """Stores a thought under the names that templates read."""
    names = ("reasoning_content", "thinking", "reasoning")
    thought = next((message[name] for name in names if message.get(name) is not None), None)
    return message if thought is None else {"thinking": thought, **message, "reasoning_content": thought}


def with_contents(request, text):
    """For a tool call without content, some templates write the word None and others fail; it then gets an empty content.
    `text` is the template's text of the conversation, or None if it fails."""
    if all(message.get("content") is not None for message in request["messages"]):
        return text
    for message in (filled := [dict(message) for message in request["messages"]]):
        message["content"] = message.get("content") or ""
    try:
        plain = marked(render(request, filled, request["ask"]))[0]
    except Exception:
        return text
    said = lambda t: t.count("None") + t.count("null")
    if text is not None and said(text) <= said(plain):
        return text
    request["messages"] = filled
    return plain


def write_text(request):
    """Returns the text and the parts between the marks of {% generation %}."""
    problem, text = None, None
    try:
        text = marked(render(request, request["messages"], request["ask"]))[0]
    except MemoryError:
        raise
    except Exception as failed:
        problem = failed
    text = with_contents(request, text)
    if text is not None:
        return marked(render(request, request["messages"], request["ask"]))
    if isinstance(problem, Refusal):
        raise problem
    what = str(problem) or type(problem).__name__
    try:
        render({**request, "tools": []}, request["messages"], request["ask"])
    except Exception:
        raise Refusal(f"it fails on this conversation ({what}); choose a format with --chat") from problem
    raise Refusal(f"it is for conversations with tools, and this one has none ({what}); choose a format with --chat")


def conversation(request):
    global now
    if "date" in request:
        now = datetime.datetime.fromisoformat(request["date"]).strftime
    request["messages"] = [with_thoughts(with_objects(message)) for message in request["messages"]]
    text, spans = write_text(request)
    if request["ask"]:
        return {"text": text, "answers": None}
    for find in (answers, answers_by_content):
        try:
            spans = spans or find(request, text)
        except Exception:  # the template's, of a part of the conversation
            spans = None
    in_bytes = lambda at: len(text[:at].encode())
    return {"text": text, "answers": None if spans is None else [[in_bytes(b), in_bytes(e)] for b, e in spans]}


def ending(request):
    word = secrets.token_hex(8)
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": word}]
    mark = r"<[^<>\s]*>|\[[^\[\]\s]*\]"
    try:
        rest = marked(render(request, talk, False))[0].partition(word)[2].split()
        if rest:
            return found.group() if (found := re.match(mark, rest[0])) else rest[0]
        talk.append({"role": "user", "content": "b"})  # some write it only where the conversation goes on
        found = re.match(r"\s*(" + mark + ")", marked(render(request, talk, True))[0].partition(word)[2])
        return found.group(1) if found else ""
    except Exception:
        return ""


def text_of(request, talk):
    try:
        return marked(render(request, talk["messages"], talk["ask"]))[0]
    except MemoryError:
        raise
    except Exception:
        return None


def probe(request):
    global now
    template(request)  # what is no template at all is reported at once
    now = lambda form: OPEN[1:]
    return {"end": ending(request), "texts": [text_of(request, talk) for talk in request["talks"]]}


write({"engine": "Jinja2 " + jinja2.__version__})
while len(head := sys.stdin.buffer.read(4)) == 4:
    now = today
    signal.alarm(PATIENCE)  # its default action ends the process, also where whoever asked has gone
    try:
        request = json.loads(sys.stdin.buffer.read(struct.unpack(">I", head)[0]))
        answer = probe(request) if "talks" in request else conversation(request)
    except MemoryError:
        answer = {"error": "it needs more than 1 GB"}
    except Exception as problem:  # of the template's, whatever it is
        answer = {"error": (str(problem) or type(problem).__name__)[:300]}
    signal.alarm(0)
    write(answer)
