#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes one table of the goals for speed: each row's goal and what was reached, next to its peers.

    goals.py TOKENIZER [--model MODEL] [--propane build/release/propane] [--old PROPANE] [--rounds 3] [--count 64]
                       [--rows decode,streams,...] [--formats f16,q8_0,q4_0,q4_k] [--text FILE] [--json FILE]

MODEL is anything that `propane convert` reads; without it, a model of SmolLM2-135M's sizes with random weights and
TOKENIZER's ids is made. Decoding and streams are user seconds of whole commands, first tokens also the kernel's, minima over
the rounds, so that other work changes them little; rows with two threads are wall time and need a quiet machine. A time per
token is that of a long answer less that of a short one. Programs run in alternation; --old is another build, for
comparison. A row whose package is missing says so. The groups of rows:

    decode    one token of one stream, per weight format, against llama.cpp (package xllamacpp), one thread and two
    long      the same after a prompt of about 2,000 tokens
    streams   tokens of four streams over those of one
    first     `propane generate -n 1` against loading and one token in llama.cpp
    plan      planning 100,000 operations over planning 10,000
    build     seconds of `make` from nothing, without ccache
    train     bench/peers/pytorch_step.py, fp32 and bf16; what bf16 costs on this processor
    lora      bench/peers/peft_step.py: adapters against peft, time and memory; memory with a GGUF file as the base
    images    bench/peers/vision.py: ResNet-50, MobileNetV3 and ViT against ONNX Runtime
"""
import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from needs import absent  # noqa: E402

LLAMA = """import sys, resource, os, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.n_parallel, p.warmup = sys.argv[1], 4096, 1, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[3])
s = xllamacpp.Server(p)
s.handle_completions({'prompt': sys.argv[4], 'n_predict': int(sys.argv[2]), 'temperature': 0, 'ignore_eos': True})
os._exit(0)"""


def user_seconds(command, **more):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"goals.py: {command[0]}: {done.stderr.strip()}")
    return after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime


def wall_seconds(command):
    begin = time.perf_counter()
    user_seconds(command)
    return time.perf_counter() - begin


def minima(rounds, commands, system=0, wall=False):
    """The least user seconds of each command, and `system` times those of the kernel, or the wall time; the commands run in
    turn."""
    once = lambda command: (lambda used: used[0] + system * used[1])(user_seconds(command))
    return [min(column) for column in zip(*[[(wall_seconds if wall else once)(c) for c in commands] for _ in range(rounds)])]


def generate(program, path, count, prompts=None, threads=1, prompt="Once"):
    where = ["--prompts", prompts] if prompts else ["--prompt", prompt]
    return [program, "generate", path, *where, "--count", count, "--temperature", "0", "--ignore-end", "--threads", threads]


def llama(path, count, threads=1, prompt="Once"):
    return [sys.executable, "-c", LLAMA, path, count, threads, prompt]


ROWS = []


def row(name, goal, reached, note=""):
    ROWS.append({"row": name, "goal": goal, "reached": reached, "note": note})
    print(f"| {name} | {goal} | {reached} | {note} |", flush=True)


def programs_of(o):
    return [o.propane] + ([o.old] if o.old else [])


def old_note(unit, values):
    return f"before: {values[1]:{unit}}" if len(values) > 1 else ""


def decode_rows(o, files, what, threads, prompt="Once"):
    peer = not absent(["xllamacpp"])
    for kind, path in files.items():
        commands = [generate(p, path, n, threads=threads, prompt=prompt) for p in programs_of(o) for n in (8, 8 + o.count)]
        commands += [llama(path, n, threads, prompt) for n in (8, 8 + o.count)] if peer else []
        t = minima(o.rounds, commands, wall=threads > 1)
        each = [(t[i + 1] - t[i]) / o.count * 1e3 for i in range(0, len(t), 2)]
        reached = f"{each[-1] / each[0]:.2f}" if peer else "not measured: no package xllamacpp"
        row(f"{what} {kind}, {threads} thread{'s' * (threads > 1)}, llama.cpp's time over ours", "1.15", reached,
            f"{each[0]:.2f} ms per token" + (f"; before: {each[1]:.2f}" if o.old else ""))


def decode(o, files):
    for threads in (1, 2):
        decode_rows(o, files, "decoding", threads)


def long(o, files):
    decode_rows(o, files, "decoding after 2,000 tokens,", 1, "the day of man and the way of life, " * 200)


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
        commands += [llama(path, 1), [sys.executable, "-c", "import xllamacpp"]] if peer else []
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
        begin = time.perf_counter()
        used = user_seconds(["make", "-s", "-C", HERE.parent, "-j2", f"BUILD={folder}"], env={**os.environ, "PATH": path})
        spent = time.perf_counter() - begin
    row("`make` from nothing, two jobs, seconds", "45", f"{spent:.0f}", f"{sum(used):.0f} processor seconds")


def script_lines(o, name, packages, script, arguments):
    """Returns the lines that a comparison prints; if it cannot run, none, and the row says why."""
    gone = absent(packages)
    if gone:
        row(name, "", f"not measured: no package {', '.join(gone)}")
        return []
    done = subprocess.run([sys.executable, str(HERE / "peers" / script), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        row(name, "", "not measured: " + (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200])
    return done.stdout.splitlines() if done.returncode == 0 else []


STEPS = ("stories110M_b1", "stories110M_b4", "gpt2_size_4x64", "layer_t512")


def train(o, _):
    ours = {}
    for precision in ("fp32", "bf16"):
        lines = script_lines(o, f"training step, {precision}, next to PyTorch", ["torch"], "pytorch_step.py",
                             ["--bench", o.bench, "--rows", ",".join(STEPS), "--rounds", 1, "--steps", o.rounds + 2, "--variants", "tuned",
                              "--precision", precision])
        for line in lines:
            m = re.match(r"(\S+) +(\S+) +([\d.]+) ms.*?([\d.]+) times ours .*?(\d+) MB", line)
            if m and m[2] == "propane":
                ours[m[1], precision] = float(m[3]), m[5]
            elif m:
                ms, memory = ours[m[1], precision]
                row(f"training step {m[1]}, {precision}, PyTorch's time over ours", "1.3", m[4], f"{ms:.0f} ms; {memory} MB, PyTorch {m[5]} MB")
    pairs = [ours[name, "bf16"][0] / ours[name, "fp32"][0] for name in STEPS if (name, "bf16") in ours and (name, "fp32") in ours]
    if pairs:
        row("bf16's step over fp32's on this processor", "", f"{statistics.median(pairs):.2f}", "--precision auto takes fp32 on cpu")


def lora(o, _):
    for line in script_lines(o, "LoRA next to peft", ["torch", "transformers", "peft"], "peft_step.py",
                             [o.folder_model, o.tokenizer, o.text, "--propane", o.propane, "--rounds", o.rounds, "--steps", 4]):
        m = re.search(r"propane (\d+) ms and (\d+) MB, peft (\d+) ms and (\d+) MB: ([\d.]+) times ours, ([\d.]+)", line)
        row("LoRA rank 8 on all matrices, peft's time over ours", "1.3", m[5], f"{m[1]} ms; peft {m[3]} ms")
        row("the same, peft's memory over ours", "1", m[6], f"{m[2]} MB; peft {m[4]} MB")


def images(o, _):
    for line in script_lines(o, "images next to ONNX Runtime", ["torch", "coremltools", "onnxruntime", "onnx"], "vision.py",
                             ["--propane", o.propane, "--rounds", min(o.rounds, 2), "--runs", 5, "--peers", "onnxruntime"]):
        m = re.match(r"(\S+) +onnxruntime +([\d.]+) ms.*onnxruntime +([\d.]+)", line)
        if m:
            row(f"{m[1]}, our time over ONNX Runtime's", "0.92" if m[1] == "resnet50" else "1.1", m[3], f"ONNX Runtime {m[2]} ms")


GROUPS = {"decode": decode, "long": long, "streams": streams, "first": first, "plan": plan, "build": build, "train": train,
          "lora": lora, "images": images}
NEED_MODEL = {"decode", "long", "streams", "first", "lora"}


def processor():
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else []
    return names[0] if names else platform.processor() or platform.machine()


def make_files(o, folder, wanted):
    """Writes the model in each format, and a random model first if none is given."""
    o.folder_model = o.model
    if not o.model and wanted & NEED_MODEL:
        if absent(["numpy"]):
            raise SystemExit("goals.py: not installed: numpy, which a random model needs; or give --model")
        import random_model
        o.folder_model = random_model.write(Path(folder) / "model", "smollm2-135m")
    files = {}
    for kind in o.formats.split(",") if wanted & (NEED_MODEL - {"lora"}) else ():
        files[kind] = f"{folder}/{kind}.gguf"
        subprocess.run([o.propane, "convert", o.folder_model, files[kind], "--dtype", kind, "--tokenizer", o.tokenizer], check=True,
                       stdout=subprocess.DEVNULL)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer")
    parser.add_argument("--model")
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--bench", default="build/release/bench/bench_step")
    parser.add_argument("--old")
    parser.add_argument("--text", help="training text of the row lora; default: this repository's documents")
    parser.add_argument("--formats", default="f16,q8_0,q4_0,q4_k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--rows", default=",".join(GROUPS))
    parser.add_argument("--json")
    o = parser.parse_args()
    wanted = o.rows.split(",")
    unknown = [g for g in wanted if g not in GROUPS]
    if unknown:
        parser.error(f"no rows '{unknown[0]}'; there are {', '.join(GROUPS)}")
    o.text = o.text or str(HERE.parent / "docs" / "*.md")
    print(f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {o.rounds} rounds.\n\n"
          "| row | goal | reached | |\n| --- | ---: | ---: | --- |")
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(o, folder, set(wanted))
        for group in wanted:
            GROUPS[group](o, files)
    if o.json:
        Path(o.json).write_text(json.dumps({"processor": processor(), "rows": ROWS}, indent=1) + "\n")


if __name__ == "__main__":
    main()
