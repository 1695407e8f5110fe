#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes one table of the goals for speed: each row's goal and what was reached, next to its peers.

    goals.py MODEL [--propane build/release/propane] [--old PROPANE] [--rounds 3] [--count 64] [--rows decode,streams,...]
                   [--formats f16,q8_0,q4_0,q4_k] [--tokenizer FILE]

MODEL is a GGUF file with a tokenizer, or anything that `propane convert` reads. Decoding and streams are user
seconds of whole commands, first tokens also the kernel's, minima over the rounds, so that other work changes them little. A time per token is
that of a long answer less that of a short one. Programs run in alternation; --old is another build, for comparison. A row
whose package is missing says so. The groups of rows:

    decode    one token of one stream, per weight format, against llama.cpp (package xllamacpp), one thread
    streams   tokens of four streams over those of one
    first     `propane generate -n 1` against loading and one token in llama.cpp
    plan      planning 100,000 operations over planning 10,000
    build     processor seconds of `make` from nothing, without ccache
    train     bench/peers/pytorch_step.py;  images: bench/peers/vision.py (their own output, if installed)
"""
import argparse
import os
import resource
import subprocess
import sys
import tempfile

from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from needs import absent  # noqa: E402

LLAMA = """import sys, resource, os, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.n_parallel, p.warmup = sys.argv[1], 512, 1, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
s = xllamacpp.Server(p)
s.handle_completions({'prompt': 'Once', 'n_predict': int(sys.argv[2]), 'temperature': 0, 'ignore_eos': True})
os._exit(0)"""


def user_seconds(command, **more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"goals.py: {command[0]}: {done.stderr.strip()}")
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def minima(rounds, commands, system=0):
    """The least user seconds of each command, and `system` times those of the kernel; the commands run in turn."""
    once = lambda command: (lambda used: used[0] + system * used[1])(user_seconds(command))
    return [min(column) for column in zip(*[[once(c) for c in commands] for _ in range(rounds)])]


def generate(program, path, count, prompts=None):
    where = ["--prompts", prompts] if prompts else ["--prompt", "Once"]
    return [program, "generate", path, *where, "--count", count, "--temperature", "0", "--ignore-end", "--threads", "1"]


def row(name, goal, reached, note=""):
    print(f"| {name} | {goal} | {reached} | {note} |", flush=True)


def programs_of(o):
    return [o.propane] + ([o.old] if o.old else [])


def old_note(unit, values):
    return f"before: {values[1]:{unit}}" if len(values) > 1 else ""


def decode(o, files):
    peer = not absent(["xllamacpp"])
    for kind, path in files.items():
        commands = [generate(p, path, n) for p in programs_of(o) for n in (8, 8 + o.count)]
        commands += [[sys.executable, "-c", LLAMA, path, n] for n in (8, 8 + o.count)] if peer else []
        t = minima(o.rounds, commands)
        each = [(t[i + 1] - t[i]) / o.count * 1e3 for i in range(0, len(t), 2)]
        reached = f"{each[-1] / each[0]:.2f}" if peer else "not measured: no package xllamacpp"
        row(f"decoding {kind}, one thread, llama.cpp's time over ours", "1.15", reached,
            f"{each[0]:.2f} ms per token" + (f"; before: {each[1]:.2f}" if o.old else ""))


def streams(o, files):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as lines:
        lines.write("Once\nThe\nThere\nThis\n")
        lines.flush()
        for kind, path in files.items():
            commands = [generate(p, path, n, f) for p in programs_of(o) for f in (None, lines.name) for n in (8, 8 + o.count)]
            t = minima(o.rounds, commands)
            gain = [4 * (t[i + 1] - t[i]) / (t[i + 3] - t[i + 2]) for i in range(0, len(t), 4)]
            row(f"four streams {kind}, tokens over one stream's", "2.5", f"{gain[0]:.2f}", old_note(".2f", gain))


def first(o, files):
    peer = not absent(["xllamacpp"])
    for kind, path in files.items():
        commands = [generate(p, path, 1) for p in programs_of(o)]
        commands += [[sys.executable, "-c", LLAMA, path, 1], [sys.executable, "-c", "import xllamacpp"]] if peer else []
        t = minima(o.rounds, commands, 1)
        reached = f"{t[0] / max(t[-2] - t[-1], 1e-3):.2f}" if peer else "not measured: no package xllamacpp"
        row(f"first token {kind}, our processor time over llama.cpp's", "1.0", reached, f"{t[0]:.2f} s")


def plan(o, _):
    with tempfile.TemporaryDirectory() as folder:
        commands = []
        for count in (10000, 100000):
            path = Path(folder) / f"{count}.mil"
            kind = "tensor<fp32, [1, 16]>"
            body = "".join(f'{kind} v{i + 1} = tanh(x = v{i})[name = string("v{i + 1}")];\n' for i in range(count))
            path.write_text(f"program(1.3)\n{{ func main<ios18>({kind} v0) {{\n{body}}} -> (v{count}); }}\n")
            commands.append([o.propane, "run", path, "--seed", "1"])
        t = minima(o.rounds, commands)
    row("100,000 operations over 10,000, user time", "10", f"{t[1] / t[0]:.1f}", f"{t[1]:.2f} s")


def build(o, _):
    with tempfile.TemporaryDirectory() as folder:
        path = ":".join(p for p in os.environ["PATH"].split(":") if "ccache" not in p)
        used = user_seconds(["make", "-s", "-C", HERE.parent, "-j2", f"BUILD={folder}"], env={**os.environ, "PATH": path})
    row("`make` from nothing, processor seconds", "90 (45 s on two cores)", f"{sum(used):.0f}")


def peer_script(name, package, script, arguments=()):
    def run(o, _):
        if absent([package]):
            row(name, "see its own help", f"not measured: no package {package}")
            return
        done = subprocess.run([sys.executable, str(HERE / "peers" / script), *arguments], capture_output=True, text=True)
        for line in (done.stdout if done.returncode == 0 else done.stderr).splitlines():
            row(name, "", line)
    return run


GROUPS = {"decode": decode, "streams": streams, "first": first, "plan": plan, "build": build,
          "train": peer_script("training next to PyTorch", "torch", "pytorch_step.py", ["--steps", "5"]),
          "images": peer_script("images next to ONNX Runtime", "onnxruntime", "vision.py", ["--rounds", "1", "--runs", "3"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--old")
    parser.add_argument("--tokenizer")
    parser.add_argument("--formats", default="f16,q8_0,q4_0,q4_k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--rows", default=",".join(GROUPS))
    o = parser.parse_args()
    unknown = [g for g in o.rows.split(",") if g not in GROUPS]
    if unknown:
        parser.error(f"no rows '{unknown[0]}'; there are {', '.join(GROUPS)}")
    print(f"Load {os.getloadavg()[0]:.0f}.\n\n| row | goal | reached | |\n| --- | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for kind in o.formats.split(",") if {"decode", "streams", "first"} & set(o.rows.split(",")) else ():
            files[kind] = f"{folder}/{kind}.gguf"
            subprocess.run([o.propane, "convert", o.model, files[kind], "--dtype", kind, *(["--tokenizer", o.tokenizer] if o.tokenizer else [])],
                           check=True, stdout=subprocess.DEVNULL)
        for group in o.rows.split(","):
            GROUPS[group](o, files)


if __name__ == "__main__":
    main()
