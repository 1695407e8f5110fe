#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the same GGUF files in llama.cpp (package xllamacpp) and in Propane, in alternation: prompts, decoding, and the first
token from program start.

    llamacpp.py MODEL.gguf [--propane build/release/propane] [--rounds 3] [--count 128] [--words 400] [--threads 2]
                [--rows q8_0:auto,q4_0:auto,f16:auto]

A row is a GGUF type, created from MODEL by `propane convert`, or `file` for MODEL itself, with Propane's --weights for it.
Both are called through the same interface (llama.cpp within this process, Propane's server by HTTP): a prompt of about
--words words with an answer of one token, then the same with --count more, on a new prompt each time. Decoding is the
difference of the two; the figures are medians over the rounds. "first" is the time from a program's start to its first token
after a short prompt. Exits with 77 if the package or propane is missing.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from needs import require

PORT = 18781
WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part".split()


def body(prompt, count):
    return {"messages": [{"role": "user", "content": prompt}], "max_tokens": count, "temperature": 0, "ignore_eos": True, "cache_prompt": False}


class Peer:
    def __init__(self, xllamacpp, path, threads):
        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.warmup = path, 4096, 1, False
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(p)

    def ask(self, prompt, count):
        r = self.server.handle_chat_completions(body(prompt, count))
        return json.loads(r) if isinstance(r, (str, bytes)) else r

    def close(self):
        del self.server


class Own:
    def __init__(self, options, path, weights):
        self.process = subprocess.Popen([options.propane, "serve", path, "--port", str(PORT), "--weights", weights, "--threads", str(options.threads), "--context", "4096"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v1/models")
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("propane serve does not answer")

    def ask(self, prompt, count):
        own = {k: v for k, v in body(prompt, count).items() if k not in ("ignore_eos", "cache_prompt")}
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}/v1/chat/completions", json.dumps(own).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    def close(self):
        self.process.terminate()
        self.process.wait()


def timed(program, prompt, count):
    begin = time.monotonic()
    usage = program.ask(prompt, count)["usage"]
    return time.monotonic() - begin, usage["prompt_tokens"], usage["completion_tokens"]


def measure(options, program, rng, found):
    """Runs a prompt with one token, and another with more. Returns the tokens/s of both parts."""
    prompt = lambda: "Tell a very long story with all of these words: " + " ".join(rng.choice(WORDS) for _ in range(options.words))
    short, tokens, _ = timed(program, prompt(), 1)
    found["prompt"].append(tokens / short)
    for _ in range(5):  # an answer may end early
        long, more, made = timed(program, prompt(), options.count + 1)
        if made > options.count // 2:
            found["decode"].append((made - 1) / max(long - short * more / tokens, 1e-6))
            return


def first_token(options, path, weights):
    own = [options.propane, "generate", path, "--prompt", "Once", "--count", "1", "--temperature", "0", "--weights", weights, "--threads", str(options.threads)]
    code = "import sys, time, xllamacpp\np = xllamacpp.CommonParams()\np.model.path, p.n_ctx, p.n_parallel, p.warmup = sys.argv[1], 256, 1, False\n" \
           "p.cpuparams.n_threads = int(sys.argv[2])\nbegin = time.monotonic()\ns = xllamacpp.Server(p)\n" \
           "s.handle_completions({'prompt': 'Once', 'n_predict': 1})\nprint('first', time.monotonic() - begin, flush=True)\nimport os; os._exit(0)"
    begin = time.monotonic()
    subprocess.run(own, check=True, stdout=subprocess.DEVNULL)
    mine = time.monotonic() - begin
    out = subprocess.run([sys.executable, "-c", code, path, str(options.threads)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return mine, next((float(line.split()[1]) for line in out.splitlines() if line.startswith("first ")), float("nan"))


def row(options, xllamacpp, folder, kind, weights):
    path = options.model if kind == "file" else os.path.join(folder, kind + ".gguf")
    if kind != "file":
        subprocess.run([options.propane, "convert", options.model, path, "--dtype", kind], check=True, stdout=subprocess.DEVNULL)
    rng, found, starts = random.Random(3), {n: {"prompt": [], "decode": []} for n in ("propane", "llama.cpp")}, []
    starts = [first_token(options, path, weights) for _ in range(options.rounds)]
    programs = {"propane": Own(options, path, weights), "llama.cpp": Peer(xllamacpp, path, options.threads)}
    for turn in range(options.rounds + 1):
        for name, program in programs.items():
            measure(options, program, rng, found[name] if turn else {"prompt": [], "decode": []})
    for program in programs.values():
        program.close()
    middle = lambda name, what: statistics.median(found[name][what] or [float("nan")])
    for what in ("prompt", "decode"):
        a, b = middle("propane", what), middle("llama.cpp", what)
        print(f"{kind} {what}: {a:.1f} tokens/s, llama.cpp {b:.1f}, {a / b:.2f} times", flush=True)
    print(f"{kind} first token from start: {statistics.median(s[0] for s in starts):.2f} s, llama.cpp {statistics.median(s[1] for s in starts):.2f} s (without Python's own start)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=128)
    parser.add_argument("--words", type=int, default=400)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="q8_0:auto,q4_0:auto,f16:auto")
    options = parser.parse_args()
    require(["xllamacpp"], [options.propane])
    import xllamacpp

    with tempfile.TemporaryDirectory() as folder:
        for one in options.rows.split(","):
            row(options, xllamacpp, folder, *one.split(":"))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # llama.cpp's threads do not end by themselves
