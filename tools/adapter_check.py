#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares adapters as GGUF files with llama.cpp (package xllamacpp). A small Llama is trained, then an adapter for all its
matrices, and both are written as GGUF. llama.cpp with the adapter must produce the greedy texts of `propane generate
--adapter`, and different ones without it.

    python3 tools/adapter_check.py [PROPANE]     (exit 1: different; 77: a package is missing)
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
program = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else os.path.join(ROOT, "build", "release", "propane")
try:
    import xllamacpp
except ImportError as missing:
    print(f"adapter_check: {missing}")
    sys.exit(77)
COUNT = 16


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        print(f"adapter_check: propane {' '.join(arguments)}: {done.stderr}")
        sys.exit(1)
    return done.stdout


def peer(model, adapter):
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup = model, 64, 1, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 2
    if adapter:
        one = xllamacpp.CommonAdapterLoraInfo()
        one.path, one.scale = adapter, 1.0
        p.lora_adapters = [one]
    server = xllamacpp.Server(p)

    def ask(prompt):
        r = server.handle_completions({"prompt": prompt, "n_predict": COUNT, "max_tokens": COUNT, "temperature": 0, "top_k": 1})
        r = json.loads(r) if isinstance(r, (str, bytes)) else r
        return r["choices"][0]["text"] if "choices" in r else r["content"]
    return ask


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for name, step in (("text", 7), ("other", 11)):
            with open(name, "w") as out:
                out.writelines(f"line {i * i % 97} of {i * step % 9}, then {i % 5}\n" for i in range(4000))
        run("train", "--data", "text", "--vocab", "300", "--layers", "2", "--width", "64", "--heads", "4", "--kv-heads", "2",
            "--context", "64", "--steps", "150", "--eval-every", "0", "--run", "base")
        run("train", "--init", "base", "--data", "other", "--context", "64", "--lora-rank", "4", "--lora-targets", "all", "--lr", "2e-2",
            "--steps", "60", "--eval-every", "0", "--run", "tuned")
        run("convert", "base", "base.gguf")
        run("convert", "tuned", "tuned.gguf")
        prompts = [f"line {n} of" for n in (4, 16, 25, 49, 64, 81, 36, 9)]
        own = [run("generate", "base", "--adapter", "tuned", "--prompt", p, "--count", str(COUNT), "--temperature", "0", "--json")
               for p in prompts]
        own = [json.loads(o)["text"] for o in own]
        theirs = list(map(peer("base.gguf", "tuned.gguf"), prompts))
        plain = list(map(peer("base.gguf", None), prompts))
        def alike(a, b, p):
            a = a[len(p):] if a.startswith(p) else a
            return a.strip() == b.strip()
        same = sum(alike(a, b, p) for a, b, p in zip(own, theirs, prompts))
        moved = sum(not alike(a, b, p) for a, b, p in zip(own, plain, prompts))
        print(f"adapter_check: {same} of {len(prompts)} greedy texts are equal with the adapter; without it {moved} differ")
        if same < len(prompts):
            print(own, theirs, sep="\n")
        return same < len(prompts) or moved == 0


code = main()
sys.stdout.flush()
os._exit(code)  # llama.cpp's threads do not end by themselves
