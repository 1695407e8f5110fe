#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares decoding with llama2.c: the same random model of Stories110M's shape in both, in alternation, in tokens/s and
bytes of weights/s.

    llama2c.py --peer FOLDER [--propane build/release/propane] [--rounds 3] [--count 200] [--threads 2] [--rows fp32,fp16,int8,...]

FOLDER contains llama2.c's programs `run` and, for int8, `runq`, built from its sources (gcc -Ofast -march=native -fopenmp).
The model has 12 layers, width 768, hidden 2048, 12 heads, 32,000 ids, context 1024 and a separate head (with a tied head, a
random model repeats its first id, at which llama2.c stops). The int8 file contains the same weights in groups of 64.
llama2.c excludes its first token from the time that it prints; Propane's time includes all tokens. With fp32, the greedy ids
of both are compared. Prints medians over the rounds. Exits with 1 if the ids differ, 77 if a program is missing.
"""
import argparse
import array
import os
import pty
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile

DIM, HIDDEN, LAYERS, HEADS, VOCAB, CONTEXT, GROUP = 768, 2048, 12, 12, 32000, 1024, 64
TILE = 1 << 20  # weights repeat this many random numbers, starting at another place in each tensor
HEADER = (DIM, HIDDEN, LAYERS, HEADS, HEADS)
MATRICES = {"embed": VOCAB * DIM, "q": LAYERS * DIM * DIM, "k": LAYERS * DIM * DIM, "v": LAYERS * DIM * DIM, "o": LAYERS * DIM * DIM,
            "gate": LAYERS * DIM * HIDDEN, "down": LAYERS * DIM * HIDDEN, "up": LAYERS * DIM * HIDDEN, "head": VOCAB * DIM}
READ = sum(MATRICES.values()) - MATRICES["embed"]  # weights that each token reads
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1 + 2 / 32, "int4": 0.5 + 2 / 32, "run": 4, "runq": 1 + 4 / GROUP}
BESIDE = {"fp32": "run", "fp16": "run", "bf16": "run", "int8": "runq", "int4": "runq"}


def stretch(tile, item, name, count):
    """Returns `count` numbers of the tile (bytes, `item` for each group of 64), starting at the tensor's own offset."""
    at = list(MATRICES).index(name) * 977 * GROUP % TILE // GROUP * item
    out, need = [], count // GROUP * item
    while need:
        part = tile[at:at + need]
        out.append(part)
        need -= len(part)
        at = 0
    return b"".join(out)


def write_models(folder):
    rng = random.Random(7)
    values = array.array("f", (rng.gauss(0, 0.03) for _ in range(TILE)))
    tile, ones = values.tobytes(), lambda n: array.array("f", [1.0] * n).tobytes()
    put = lambda f, name, part=None: f.write(stretch(tile, 4 * GROUP, name, MATRICES[name]))
    with open(os.path.join(folder, "model.bin"), "wb") as f:
        f.write(struct.pack("<7i", *HEADER, -VOCAB, CONTEXT))
        put(f, "embed")
        f.write(ones(LAYERS * DIM))
        for name in "qkvo":
            put(f, name)
        f.write(ones(LAYERS * DIM))
        for name in ("gate", "down", "up"):
            put(f, name)
        f.write(ones(DIM) + bytes(4 * CONTEXT * DIM // HEADS))
        put(f, "head")
    whole, scales = array.array("b"), array.array("f")
    for g in range(0, TILE, GROUP):
        scale = max(map(abs, values[g:g + GROUP])) / 127
        scales.append(scale)
        whole.extend(round(v / scale) for v in values[g:g + GROUP])
    whole, scales = whole.tobytes(), scales.tobytes()

    def put_int8(f, name, pieces):
        count = MATRICES[name] // GROUP * GROUP
        q, s = stretch(whole, GROUP, name, count), stretch(scales, 4, name, count)
        for i in range(pieces):
            f.write(q[i * len(q) // pieces:(i + 1) * len(q) // pieces] + s[i * len(s) // pieces:(i + 1) * len(s) // pieces])

    with open(os.path.join(folder, "model_q.bin"), "wb") as f:
        head = struct.pack("<Ii7iBi", 0x616B3432, 2, *HEADER, VOCAB, CONTEXT, 0, GROUP)
        f.write(head + bytes(256 - len(head)) + ones((2 * LAYERS + 1) * DIM))
        put_int8(f, "embed", 1)
        for name in ("q", "k", "v", "o", "gate", "down", "up"):
            put_int8(f, name, LAYERS)
        put_int8(f, "head", 1)
    with open(os.path.join(folder, "tokenizer.bin"), "wb") as f:  # each id's text is its number
        f.write(struct.pack("<i", 8))
        for i in range(VOCAB):
            word = f"#{i} ".encode()
            f.write(struct.pack("<fi", 0.0, len(word)) + word)


def run_peer(options, folder, name):
    model = os.path.join(folder, "model_q.bin" if name == "runq" else "model.bin")
    done = subprocess.run([os.path.join(options.peer, name), model, "-t", "0.0", "-n", str(options.count), "-z", os.path.join(folder, "tokenizer.bin")],
                          capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(options.threads)})
    speed = re.search(r"achieved tok/s: ([0-9.]+)", done.stderr)
    if not speed:
        sys.exit(f"llama2c: {name} told no speed: {done.stderr.strip()[-200:]}")
    return float(speed.group(1)), [int(i) for i in re.findall(r"#(\d+)", done.stdout)]


def run_ours(options, folder, name):
    """Returns the speed that `generate` prints on a terminal."""
    command = [options.propane, "generate", os.path.join(folder, "model.bin"), "--prompt-ids", "1", "--count", str(options.count), "--temperature", "0",
               "--ignore-end", "--print-ids", "--weights", name, "--threads", str(options.threads)]
    leader, follower = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, text=True)
    os.close(follower)
    told = os.read(leader, 4096).decode()
    os.close(leader)
    speed = re.search(r"(\d+) tokens in ([0-9.]+) s", told)
    if not speed:
        sys.exit(f"llama2c: propane told no speed: {told.strip()[-200:]}")
    return int(speed.group(1)) / float(speed.group(2)), [int(i) for i in done.stdout.split()[1:]]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.strip())
    parser.add_argument("--peer", required=True)
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", default="fp32,fp16,int8,int4")
    parser.add_argument("--models", default="", help="a folder that keeps the model files for the next call")
    options = parser.parse_args()
    rows = options.rows.split(",")
    for path in [options.propane] + [os.path.join(options.peer, BESIDE[r]) for r in rows]:
        if not os.path.exists(path):
            print(f"llama2c: {path} is not there")
            return 77
    with tempfile.TemporaryDirectory() as folder:
        if options.models:
            folder = options.models
            os.makedirs(folder, exist_ok=True)
        if not os.path.exists(os.path.join(folder, "tokenizer.bin")):
            write_models(folder)
        speeds, ids = {}, {}
        for _ in range(options.rounds):
            for name in dict.fromkeys(x for r in rows for x in (BESIDE[r], r)):
                speed, ids[name] = (run_peer if name in BESIDE.values() else run_ours)(options, folder, name)
                speeds.setdefault(name, []).append(speed)
    print(f"{options.threads} threads, {options.count} tokens, median of {options.rounds}")
    rate = {}
    for name in speeds:
        speed = statistics.median(speeds[name])
        rate[name] = speed * READ * BYTES[name] / 1e9
        comparison = f"   {rate[name] / rate[BESIDE[name]]:.2f} times {BESIDE[name]}'s bytes/s" if name in BESIDE else "   (llama2.c)"
        print(f"{name:6} {speed:8.1f} tokens/s {rate[name]:8.2f} GB/s{comparison}")
    if "fp32" not in ids:
        return 0
    same = sum(a == b for a, b in zip(ids["run"], ids["fp32"]))
    print(f"fp32: {same} of {min(len(ids['run']), len(ids['fp32']))} greedy ids are the same")
    return 0 if same >= min(40, len(ids["run"])) else 1


if __name__ == "__main__":
    sys.exit(main())
