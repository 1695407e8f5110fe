#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chats with a GGUF file with llama.cpp (package xllamacpp): the tokens of each prompt, and greedy answers to
twenty questions.

    python3 tools/llamacpp_check.py MODEL.gguf [PROPANE]     (exit 1: different; 77: a package is missing)

llama.cpp rounds activations to eight bits if weights are in blocks, so its answers for such a file drift from exact
arithmetic. The file is therefore also written as F32 (by Propane), which llama.cpp multiplies exactly. These answers must
agree in 18 of 20 cases.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

QUESTIONS = ("What is the capital of Japan?|Why is the sky blue?|What is 12 plus 30?|Name three fruits.|Write a haiku about rain.|Who wrote Hamlet?|"
             "What is a prime number?|Translate 'good morning' to French.|How many legs does a spider have?|Explain gravity in one sentence.|"
             "What is the largest planet?|Tell me a joke.|What colour is grass?|What is the boiling point of water?|Who was Albert Einstein?|"
             "Name a country in Africa.|What do bees make?|What is 7 times 8?|Give me a synonym for happy.|What day comes after Monday?").split("|")
PORT = 18779


def peer(path):
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup = path, 2048, 1, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(p)

    def ask(messages):
        r = server.handle_chat_completions({"messages": messages, "max_tokens": 40, "temperature": 0, "top_k": 1})
        return json.loads(r) if isinstance(r, (str, bytes)) else r
    return ask


def own(messages):
    body = json.dumps({"messages": messages, "max_tokens": 40, "temperature": 0}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/v1/chat/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request))


def text(answer):
    return answer["choices"][0]["message"]["content"]


def compare(name, ask):
    lengths, answers, talk = 0, 0, []
    for q in QUESTIONS:
        a, b = ask([{"role": "user", "content": q}]), own([{"role": "user", "content": q}])
        lengths += a["usage"]["prompt_tokens"] == b["usage"]["prompt_tokens"]
        answers += text(a) == text(b)
    for q in QUESTIONS[:4]:  # one conversation
        talk.append({"role": "user", "content": q})
        a, b = ask(talk), own(talk)
        lengths += a["usage"]["prompt_tokens"] == b["usage"]["prompt_tokens"]
        talk.append({"role": "assistant", "content": text(a)})
    print(f"{name}: {lengths} of 24 prompts have the same number of tokens, {answers} of 20 greedy answers are equal")
    return lengths == 24, answers


def main(model, propane):
    server = subprocess.Popen([propane, "serve", model, "--port", str(PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/models")
                break
            except OSError:
                time.sleep(0.1)
        with tempfile.TemporaryDirectory() as folder:
            exact = os.path.join(folder, "f32.gguf")
            subprocess.run([propane, "convert", model, exact, "--dtype", "f32"], check=True, stdout=subprocess.DEVNULL)
            same, _ = compare("the file itself", peer(model))
            same_too, answers = compare("written as F32 for llama.cpp", peer(exact))
        return 0 if same and same_too and answers >= 18 else 1
    finally:
        server.terminate()


if __name__ == "__main__":
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not 2 <= len(sys.argv) <= 3:
        print(__doc__)
        sys.exit(2)
    try:
        import xllamacpp  # noqa: F401
    except ImportError as missing:
        print(f"llamacpp_check: {missing}")
        sys.exit(77)
    code = main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else os.path.join(root, "build", "release", "propane"))
    sys.stdout.flush()
    os._exit(code)  # llama.cpp's threads do not end by themselves
