#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes one table of the speed goals: each row's goal and result, next to those of its peers.

    goals.py MODEL --tokenizer FILE [--second MODEL] [--propane build/release/propane] [--old PROPANE] [--quick] [--json FILE]
             [--rows decode,streams,...] [--formats f16,q8_0,...] [--rounds 3] [--count 64] [--zoo FOLDER]

MODEL is anything that `propane convert` reads, or the name of a shape (smollm2-135m, qwen3-0.6b): random weights of that size,
with the vocabulary of --tokenizer. --second is used for the first token and for adapters (default: qwen3-0.6b). The groups of rows:

    decode    one token of one stream, per weight format, against llama.cpp: one and two threads, also after 2,000 tokens
    streams   the token rate of four streams relative to one
    first     a command's start to its first token, against loading and one token in llama.cpp, also for the second model
    auto      the choice of `--precision auto` on this processor, and a training step in bf16 relative to fp32
    train     a training step against PyTorch (bench/peers/pytorch_step.py)
    lora      a step with adapters against peft; peak memory with a base of 8 and 4 bits relative to fp32
    plan      planning 100,000 operations relative to 10,000; opening the packages in --zoo
    images    one image against ONNX Runtime (bench/peers/vision.py)
    build     `make` from scratch, without ccache
    python    `pip install ./python` with a built library

Programs run in alternation, and so does --old, another build. Its ratio is in the column "before" (training: if bench_step is
built there). With one thread, times are user seconds of whole commands; otherwise they are wall-clock times, which need a quiet
machine. A figure is the minimum over the rounds. A time per token is the time of a long answer minus that of a short one. A row
whose package is missing says so. --quick takes fewer rounds and formats. With --json, finished groups are written to FILE, and
those that are already in FILE are not measured again.
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "peers"))
from needs import absent  # noqa: E402

PACKAGES = "xllamacpp torch transformers peft coremltools onnxruntime onnx".split()
WORDS = " time year people way day man thing woman life child world school state family student group country problem hand part"
LLAMA = """import os, sys, xllamacpp
path, prompt, count, threads = sys.argv[1], open(sys.argv[2]).read(), int(sys.argv[3]), int(sys.argv[4])
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx, p.n_parallel, p.warmup = path, 4096, 1, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
s = xllamacpp.Server(p)
s.handle_completions({'prompt': prompt, 'n_predict': count, 'temperature': 0, 'ignore_eos': True})
os._exit(0)"""


# ---- measuring -------------------------------------------------------------------------------------------------------------------


class Failed(Exception):
    """A command ended with an error. The message is one line."""


def used(command, env=None):
    """Runs a command. Returns its wall-clock, user and system seconds and its peak memory in MB."""
    with tempfile.TemporaryFile("w+") as errors:
        begin = time.monotonic()
        child = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=errors, stdin=subprocess.DEVNULL, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["no message"]
            raise Failed(f"{Path(str(command[0])).name} ended with {child.returncode}: {lines[-1]}")
    return {"wall": wall, "user": usage.ru_utime, "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss / 1024}


def least(rounds, commands, clock):
    """Returns the minimum time of each command by that clock. The commands run in turn."""
    columns = zip(*[[used(c)[clock] for c in commands] for _ in range(rounds)])
    return [min(column) for column in columns]


def per_unit(times, count):
    """Returns the milliseconds per token or step, from pairs of a short and a long run."""
    return [(times[i + 1] - times[i]) / count * 1e3 for i in range(0, len(times), 2)]


def ratio(above, below):
    return above / below if above > 0 and below > 0 else "not measured: other work hid the difference of two runs"


def lines_of(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise Failed(((done.stderr or done.stdout).strip().splitlines() or ["failed"])[-1])
    return done.stdout.splitlines()


class Bench:
    """The options, the files made from the models, and the rows of the current group."""

    def __init__(self, options, folder):
        self.o, self.folder, self.rows, self.shown = options, Path(folder), [], {}
        self.programs = [options.propane] + ([options.old] if options.old else [])
        self.short, self.long = self.folder / "short.txt", self.folder / "long.txt"
        self.short.write_text("Once")
        self.long.write_text(("Once" + WORDS * 100).strip())  # 20 words of one token each

    def row(self, name, reached=None, goal=None, most=False, before=None, note=""):
        """`reached` is a number, or a sentence if there is none. The goal is a lower bound for it, or with `most` an upper bound."""
        met = "" if goal is None or isinstance(reached, str) else "yes" if (reached <= goal if most else reached >= goal) else "no"
        sign = "" if goal is None else f"{'at most' if most else 'at least'} {goal:g}"
        text = lambda v: "" if v is None else v if isinstance(v, str) else f"{v:.2f}" if v < 20 else f"{v:.0f}"
        self.rows.append([name, sign, text(reached), met, text(before), note])
        show(self.rows[-1])

    def lacks(self, name, packages):
        gone = absent(packages)
        if gone:
            self.row(name, f"not measured: not installed: {', '.join(gone)}")
        return bool(gone)

    def source(self, model):
        """Returns a model's path. The model of a shape is written first."""
        if Path(model).exists():
            return Path(model)
        if absent(["numpy"]):
            raise Failed("numpy is not installed; it is needed for random weights of a shape")
        import shapes

        if model not in shapes.SHAPES:
            raise SystemExit(f"goals.py: no model {model}: give a file, a folder or one of {', '.join(shapes.SHAPES)}")
        folder = self.folder / model
        if not folder.exists():
            self.shown[model] = shapes.write(folder, model, self.o.vocab)
        return folder

    def file(self, model, kind):
        path = self.folder / f"{Path(model).name}.{kind}.gguf"
        if not path.exists():
            vocabulary = ["--tokenizer", self.o.tokenizer] if self.o.tokenizer else []
            used([self.o.propane, "convert", self.source(model), path, "--dtype", kind, *vocabulary])
        return path

    def generate(self, program, path, count, prompt, threads):
        where = ["--prompts", prompt] if isinstance(prompt, str) else ["--prompt", prompt.read_text()]
        return [program, "generate", path, *where, "--count", count, "--temperature", "0", "--ignore-end", "--threads", threads]

    def llama(self, path, count, prompt, threads):
        return [sys.executable, "-c", LLAMA, path, prompt, count, threads]


def show(cells):
    print("| " + " | ".join(str(c).replace("|", "/") for c in cells) + " |", flush=True)


# ---- language models -------------------------------------------------------------------------------------------------------------


def decode(b):
    if b.lacks("decoding against llama.cpp", ["xllamacpp"]):
        return
    few = [k for k in b.o.formats if k in ("f16", "q4_0")] or b.o.formats[:1]
    for prompt, label, kinds in ((b.short, "", b.o.formats), (b.long, " after 2,000 tokens", few if b.o.quick else b.o.formats)):
        for kind in kinds:
            path = b.file(b.o.model, kind)
            for threads in (1, 2):
                ends = (8, 8 + b.o.count)
                commands = [b.generate(p, path, n, prompt, threads) for p in b.programs for n in ends]
                commands += [b.llama(path, n, prompt, threads) for n in ends]
                each = per_unit(least(b.o.rounds, commands, "user" if threads == 1 else "wall"), b.o.count)
                b.row(f"decoding {kind}{label}, {threads} thread{'s' * (threads > 1)}: llama.cpp's time over ours", ratio(each[-1], each[0]), 1.15,
                      before=ratio(each[-1], each[1]) if b.o.old else None, note=f"{each[0]:.2f} and {each[-1]:.2f} ms per token")


def streams(b):
    lines = b.folder / "lines.txt"
    lines.write_text("Once\nThe\nThere\nThis\n")
    for kind in b.o.formats:
        path = b.file(b.o.model, kind)
        commands = [b.generate(p, path, n, where, 1) for p in b.programs for where in (b.short, str(lines)) for n in (8, 8 + b.o.count)]
        t = least(b.o.rounds, commands, "user")
        each = per_unit(t, b.o.count)
        gain = [ratio(4 * each[i], each[i + 1]) for i in range(0, len(each), 2)]
        b.row(f"four streams {kind}, 1 thread: tokens over one stream's", gain[0], 2.5, before=gain[1] if b.o.old else None,
              note=f"{each[0]:.2f} and {each[1]:.2f} ms per step")


def first(b):
    if b.lacks("first token against llama.cpp", ["xllamacpp"]):
        return
    second = [k for k in b.o.formats if k in ("f16", "q8_0", "q4_0")]
    for model, kinds in ((b.o.model, b.o.formats), (b.o.second, second)):
        for kind in kinds:
            path = b.file(model, kind)
            commands = [b.generate(p, path, 1, b.short, 2) for p in b.programs] + [b.llama(path, 1, b.short, 2), [sys.executable, "-c", "import xllamacpp"]]
            t = least(b.o.rounds, commands, "wall")
            peer = max(t[-2] - t[-1], 1e-3)
            b.row(f"first token {Path(model).name} {kind}, 2 threads: our time over llama.cpp's", t[0] / peer, 1, most=True,
                  before=t[1] / peer if b.o.old else None, note=f"{t[0]:.2f} and {peer:.2f} s, without Python's start")


# ---- training --------------------------------------------------------------------------------------------------------------------


def bench_step(program):
    return Path(program).parent / "bench" / "bench_step"


def auto(b):
    text, run = b.folder / "text.txt", b.folder / "auto"
    text.write_text(WORDS * 200)
    for shape, batch in (("stories110M_b1", 1), ("stories110M_b4", 4)):
        shutil.rmtree(run, ignore_errors=True)
        used([b.o.propane, "train", "--data", text, "--kind", "bytes", "--layers", "1", "--width", "768", "--hidden", "2048", "--heads", "12",
              "--context", "256", "--batch", batch, "--held-out", "0", "--eval-every", "0", "--steps", "1", "--precision", "auto", "--run", run])
        taken = re.search(r'"precision":\s*"(\w+)"', (run / "train.json").read_text()).group(1)
        t = {"fp32": [], "bf16": []}
        for _ in range(b.o.rounds):
            for precision in t:
                line = next(x for x in lines_of([bench_step(b.o.propane), "3", shape, precision]) if x.startswith(shape))
                t[precision].append(float(line.split()[1]))  # the best step
        slower = min(t["bf16"]) / min(t["fp32"])
        right = (taken == "bf16") == (slower < 1)
        b.row(f"--precision auto on cpu, {shape}: bf16's time over fp32's", slower,
              note=f"auto takes {taken}, which is {'the faster' if right else 'the slower'} one")


def train(b):
    rows = "stories110M_b1,stories110M_b4,layer_t512" + ("" if b.o.quick else ",gpt2_size_4x64")
    for precision in ("fp32", "bf16"):
        if b.lacks(f"a training step in {precision} against PyTorch", ["torch"]):
            continue
        found = []
        for program in (p for p in b.programs if p == b.o.propane or bench_step(p).exists()):
            script = [sys.executable, HERE / "peers" / "pytorch_step.py", "--bench", bench_step(program), "--rows", rows, "--variants", "tuned",
                      "--precision", precision, "--rounds", max(1, b.o.rounds - 1), "--steps", 3 if b.o.quick else 5]
            found.append({m[1] + " " + m[2]: m for line in lines_of(script)
                          if (m := re.match(r"(\S+)\s+(propane|tuned)\s+([\d.]+) ms.*?([\d.]+) times ours.*?(\d+) MB", line))})
        for name in rows.split(","):
            ours, peer = found[0].get(name + " propane"), found[0].get(name + " tuned")
            if not ours or not peer:
                b.row(f"training {name} {precision}", "not measured: PyTorch did not run")
                continue
            before = found[1].get(name + " tuned") if len(found) > 1 else None
            b.row(f"training {name} {precision}: tuned PyTorch's time over ours", float(peer[4]), 1.3, before=float(before[4]) if before else None,
                  note=f"{ours[3]} and {peer[3]} ms, peak {ours[5]} and {peer[5]} MB")


def adapters(b, program, base, steps):
    run = b.folder / "adapters"
    shutil.rmtree(run, ignore_errors=True)
    vocabulary = ["--tokenizer", b.o.tokenizer] if b.o.tokenizer and Path(base).is_dir() else []
    return used([program, "train", "--init", base, "--data", b.folder / "words.txt", "--lora-rank", 8, "--steps", steps, "--batch", 1, "--context", 256,
                 "--held-out", 0, "--eval-every", 0, "--threads", 2, "--run", run, *vocabulary])


def lora(b):
    (b.folder / "words.txt").write_text(WORDS * 400)
    count = 4 if b.o.quick else 8
    for model in (b.o.model, b.o.second):
        base, name = b.source(model), Path(model).name
        gone = absent(["torch", "peft", "transformers"])
        kinds = [[adapters(b, p, base, n) for p in b.programs for n in (2, 2 + count)]
                 + [used([sys.executable, HERE / "peers" / "peft_step.py", base, n, 8, 1, 256, 2]) for n in (2, 2 + count) if not gone]
                 for _ in range(max(1, b.o.rounds - 1))]
        wall = [min(round[i]["wall"] for round in kinds) for i in range(len(kinds[0]))]
        peak = [max(round[i]["peak"] for round in kinds) for i in range(len(kinds[0]))]
        each = per_unit(wall, count)
        if b.lacks(f"LoRA {name} against peft", ["torch", "peft", "transformers"]):
            b.row(f"LoRA {name}: time", note=f"{each[0]:.0f} ms per step, peak {peak[1]:.0f} MB")
        else:
            b.row(f"LoRA {name}, rank 8, 1 x 256, fp32: peft's time over ours", ratio(each[-1], each[0]), 1.3, before=ratio(each[-1], each[1]) if b.o.old else None,
                  note=f"{each[0]:.0f} and {each[-1]:.0f} ms, peak {peak[1]:.0f} and {peak[-1]:.0f} MB")
        wide = adapters(b, b.o.propane, b.file(model, "f32"), 2)["peak"]
        for kind in ("f16", "q8_0", "q4_0"):
            small = adapters(b, b.o.propane, b.file(model, kind), 2)["peak"]
            b.row(f"LoRA {name} on a base in {kind}: peak memory over that with fp32", small / wide, note=f"{small:.0f} and {wide:.0f} MB")


# ---- programs, images and building -----------------------------------------------------------------------------------------------


def plan(b):
    paths = []
    for count in (10000, 100000):
        paths.append(b.folder / f"{count}.mil")
        kind = "tensor<fp32, [1, 16]>"
        body = "".join(f'{kind} v{i + 1} = tanh(x = v{i})[name = string("v{i + 1}")];\n' for i in range(count))
        paths[-1].write_text(f"program(1.3)\n{{ func main<ios18>({kind} v0) {{\n{body}}} -> (v{count}); }}\n")
    t = least(b.o.rounds, [[p, "run", path, "--seed", "1"] for p in b.programs for path in paths], "user")
    b.row("planning and running 100,000 operations over 10,000", t[1] / t[0], 10, most=True, before=t[3] / t[2] if b.o.old else None,
          note=f"{t[0] * 100:.1f} and {t[1] * 10:.1f} us per operation, 10 is linear")
    packages = sorted(Path(b.o.zoo).glob("*.mlpackage"))
    if not packages:
        return b.row("opening and running the zoo once", f"not measured: no packages in {b.o.zoo}; tools/coreml_zoo.py writes some")
    t, refused = [0.0] * len(b.programs), 0
    for package in packages:
        try:
            each = least(b.o.rounds, [[p, "run", package, "--seed", "1"] for p in b.programs], "user")
        except Failed:
            refused += 1
            continue
        t = [x + y for x, y in zip(t, each)]
    b.row(f"opening and running {len(packages) - refused} packages once, user seconds", t[0], before=t[1] if b.o.old else None,
          note=f"{refused} without a result" if refused else "")


def images(b):
    if b.lacks("images against ONNX Runtime", ["torch", "coremltools", "numpy", "onnxruntime", "onnx"]):
        return
    found = [lines_of([sys.executable, HERE / "peers" / "vision.py", "--propane", p, "--peers", "onnxruntime", "--rounds", max(1, b.o.rounds - 1),
                       "--runs", 5 if b.o.quick else 10, "--folder", b.o.vision]) for p in b.programs]
    tables = [{m[1]: m for line in lines if (m := re.match(r"(\S+)\s+onnxruntime\s+([\d.]+) ms.*?onnxruntime\s+([\d.]+)", line))} for lines in found]
    for name in ("resnet50", "mobilenetv3", "vit"):
        if name not in tables[0]:
            b.row(f"{name}", "not measured: ONNX Runtime did not run")
            continue
        b.row(f"{name}: our time over ONNX Runtime's", float(tables[0][name][3]), 0.92 if name == "resnet50" else 1.1, most=True,
              before=float(tables[1][name][3]) if b.o.old and name in tables[1] else None, note=f"ONNX Runtime: {tables[0][name][2]} ms")


def build(b):
    path = ":".join(p for p in os.environ["PATH"].split(":") if "ccache" not in p)
    t = used(["make", "-s", "-C", HERE.parent, "-j2", f"BUILD={b.folder / 'build'}"], env={**os.environ, "PATH": path, "CCACHE_DISABLE": "1"})
    b.row("`make -j2` from nothing, seconds", t["wall"], 45, most=True, note=f"{t['cpu']:.0f} processor seconds")
    shutil.rmtree(b.folder / "build", ignore_errors=True)


def python(b):
    if b.lacks("`pip install ./python`", ["pip", "cffi", "setuptools"]):
        return
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--upgrade", "--target", b.folder / "site", HERE.parent / "python"]
    t = [used(command)["wall"] for _ in range(2)]
    b.row("`pip install ./python` with a built library, seconds", t[1], note=f"{t[0]:.0f} s the first time")


# ---- the table -------------------------------------------------------------------------------------------------------------------

GROUPS = {f.__name__: f for f in (decode, streams, first, auto, train, lora, plan, images, build, python)}


def processor():
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"model name\s*: (.*)", text)
    flags = [f for f in ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16") if re.search(rf"\b{f}\b", text)]
    return f"{name[1] if name else platform.processor() or platform.machine()} ({', '.join(flags) or 'no AVX'}), {os.cpu_count()} threads"


def header(o):
    have = [f"{p} {metadata.version(p)}" for p in PACKAGES if not absent([p])]
    own = [line for p in [o.propane] + ([o.old] if o.old else []) for line in lines_of([p, "--version"])[:1]]
    return [processor(), f"load {os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}; {'; '.join(own)}", ", ".join(have) or "no peers",
            f"model {o.model}, second {o.second}, {o.rounds} rounds of {o.count} tokens{', --quick' if o.quick else ''}"]


def measure(b, name):
    b.rows = []
    begin = time.monotonic()
    try:
        GROUPS[name](b)
    except (Failed, AttributeError, StopIteration, OSError) as why:
        b.row(name, f"failed: {type(why).__name__ if not str(why) else why}")
        return None
    print(f"goals.py: {name} took {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
    return b.rows


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, standard in (("--second", "qwen3-0.6b"), ("--propane", "build/release/propane"), ("--old", None), ("--tokenizer", None), ("--json", None),
                           ("--zoo", "build/vision"), ("--vision", "build/vision"), ("--rows", ",".join(GROUPS)), ("--formats", None)):
        parser.add_argument(name, default=standard)
    parser.add_argument("model")
    for name in ("--rounds", "--count"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--vocab", type=int, default=32000, help="size of the vocabulary of --tokenizer, for shapes")
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    o.rows = o.rows.split(",")
    o.formats = (o.formats or "f16,bf16,q8_0,q4_0,q4_k,q6_k").split(",")
    o.rounds, o.count = o.rounds or (2 if o.quick else 3), o.count or (48 if o.quick else 64)
    for unknown in (g for g in o.rows if g not in GROUPS):
        parser.error(f"no rows '{unknown}'; there are {', '.join(GROUPS)}")
    for path in (o.propane, o.old):
        if path and not shutil.which(path):
            parser.error(f"no program {path}: `make benches` builds all")
    return o


def main():
    o = options()
    kept = json.loads(Path(o.json).read_text()) if o.json and Path(o.json).exists() else {"machine": header(o), "groups": {}}
    print("\n".join(f"- {line}" for line in kept["machine"]), end="\n\n")
    show(["row", "goal", "reached", "met", "before", "note"])
    show(["---", "---:", "---:", "---", "---:", "---"])
    with tempfile.TemporaryDirectory() as folder:
        b = Bench(o, folder)
        for name in o.rows:
            if name in kept["groups"]:
                for cells in kept["groups"][name]:
                    show(cells)
                continue
            rows = measure(b, name)
            if o.json and rows is not None:
                kept["groups"][name] = rows
                Path(o.json).write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
