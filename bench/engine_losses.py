#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares training on a simulated engine with training on the CPU: Stories15M's shape (6 layers of width 288), several seeds.

    bench/engine_losses.py TEXT FOLDER [--steps 1000] [--seeds 3] [--jobs 2] [--only all-weights] [--table]

Two kinds of runs, each on `cpu` and on `sim:m4`, with all products of the simulated runs in the engine's arithmetic:

    all-weights   the first half of TEXT, by bytes; the head and the weight gradients run on the engine, whose sums go over
                  all positions of a batch (16 x 64)
    adapters      the second half of TEXT; adapters of rank 8 on every matrix, and the base (the all-weights run of the same
                  seed on `cpu`) in constants

Runs are kept in FOLDER, and a run that was interrupted continues from its last checkpoint. At the end it prints a Markdown
table of the losses; --table prints it from the existing runs. Then `restarts` trains the first seed of both kinds for a few steps,
kills the process, and resumes: the losses and the weights must have the same bits as without it.
"""
import argparse
import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

SHAPE = ["--kind", "bytes", "--layers", "6", "--width", "288", "--heads", "6", "--hidden", "768"]
ENGINE = ["--device", "sim:m4", "--plan", "layer", "--head", "device"]
KINDS = {"all-weights": ["--batch", "16", "--context", "64"],
         "adapters": ["--batch", "4", "--context", "64", "--lora-rank", "8", "--lora-targets", "all"]}
UNITS = {("all-weights", "cpu"): ["--device", "cpu"], ("adapters", "cpu"): ["--device", "cpu"],
         ("all-weights", "sim:m4"): [*ENGINE, "--gradients", "device", "--weights", "inputs"],
         ("adapters", "sim:m4"): [*ENGINE, "--weights", "baked"]}
LAST = 100


def folder_of(a, kind, unit, seed):
    return os.path.join(a.folder, f"{kind}-{unit.replace(':', '-')}-{seed}")


def records(run):
    """Returns the losses by step (the later record counts), the last validation loss, and whether the run is done."""
    losses, validation, done = {}, None, False
    try:
        with open(os.path.join(run, "log.jsonl")) as log:
            lines = log.readlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            r = json.loads(line)
        except ValueError:  # the last line of a killed run
            continue
        if r.get("event") == "done":
            done = True
        if r.get("val_loss") is not None:
            validation = r["val_loss"]
        if "loss" in r and "step" in r:
            losses[r["step"]] = r["loss"]
    return losses, validation, done


def command(a, kind, unit, seed, run, every):
    first, second = (os.path.join(a.folder, half) for half in ("first.txt", "second.txt"))
    source = ["--data", first, *SHAPE] if kind == "all-weights" else ["--data", second, "--init", folder_of(a, kind="all-weights", unit="cpu", seed=seed)]
    resume = ["--resume"] if os.path.exists(os.path.join(run, "checkpoint.safetensors")) else []
    return [a.propane, "train", *source, *KINDS[kind], *UNITS[kind, unit], "--steps", str(a.steps), "--seed", str(seed), "--threads", "1",
            "--eval-every", "0", "--eval-batches", "50", "--checkpoint-every", str(every), "--keep", "last", "--no-report", "--json", "--run", run,
            *resume]


def train(a, kind, unit, seed):
    run = folder_of(a, kind, unit, seed)
    if records(run)[2]:
        return
    with open(run + ".out", "a") as out:
        subprocess.run(command(a, kind, unit, seed, run, 50), stdout=out, stderr=subprocess.STDOUT, check=True)


def train_all(a):
    """The runs of a seed on the CPU come first, because its adapters need a base."""
    work, seeds = queue.Queue(), range(1, a.seeds + 1)
    base = {seed: threading.Event() for seed in seeds}
    for unit, kind in (("cpu", "all-weights"), ("sim:m4", "all-weights"), ("cpu", "adapters"), ("sim:m4", "adapters")):
        for seed in seeds:
            if a.only in (None, kind) or (kind, unit) == ("all-weights", "cpu"):
                work.put((kind, unit, seed))
    failures = []

    def worker():
        while True:
            try:
                kind, unit, seed = work.get_nowait()
            except queue.Empty:
                return
            if kind == "adapters":
                base[seed].wait()
            try:
                train(a, kind, unit, seed)
            except subprocess.CalledProcessError as e:
                failures.append(f"{folder_of(a, kind, unit, seed)}.out: exit code {e.returncode}")
            if (kind, unit) == ("all-weights", "cpu"):
                base[seed].set()

    workers = [threading.Thread(target=worker) for _ in range(a.jobs)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    if failures:
        sys.exit("\n".join(failures))


def mean(values):
    return sum(values) / len(values)


def table(a):
    print(f"| run | seeds | steps | training loss, last {LAST}: cpu | sim:m4 | difference | each seed | validation: cpu | sim:m4 | difference |\n"
          "|---|---|---|---:|---:|---:|---|---:|---:|---:|")
    for kind in KINDS:
        pairs = []
        for seed in range(1, a.seeds + 1):
            both = [records(folder_of(a, kind, unit, seed)) for unit in ("cpu", "sim:m4")]
            steps = min((max(losses, default=0) for losses, _, _ in both))
            if steps >= LAST:
                pairs.append((steps, [mean([losses[s] for s in range(steps - LAST + 1, steps + 1)]) for losses, _, _ in both],
                              [validation for _, validation, done in both if done and validation is not None]))
        if not pairs:
            continue
        train_cpu, train_sim = (mean([p[1][i] for p in pairs]) for i in (0, 1))
        row = [kind, str(len(pairs)), ", ".join(sorted({str(p[0]) for p in pairs})), f"{train_cpu:.4f}", f"{train_sim:.4f}",
               f"{train_sim - train_cpu:+.4f}", ", ".join(f"{p[1][1] - p[1][0]:+.4f}" for p in pairs)]
        ended = [p[2] for p in pairs if len(p[2]) == 2]
        if len(ended) == len(pairs):
            cpu, sim = (mean([e[i] for e in ended]) for i in (0, 1))
            row += [f"{cpu:.4f}", f"{sim:.4f}", f"{sim - cpu:+.4f}"]
        else:
            row += ["-"] * 3
        print("| " + " | ".join(row) + " |")


def bits(run):
    with open(os.path.join(run, "checkpoint.safetensors"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return records(run)[0], digest


def restarts(a, kind, steps=12, kill_at=8, every=5):
    """Trains once in one process, and once in two processes with the first one killed. Returns whether the bits are the same."""
    short = argparse.Namespace(**{**vars(a), "steps": steps})
    runs = [os.path.join(a.folder, f"restart-{kind}-{name}") for name in ("whole", "killed")]
    for run in runs:
        subprocess.run(["rm", "-rf", run], check=True)
    with open(os.path.join(a.folder, "restart.out"), "a") as out:
        subprocess.run(command(short, kind, "sim:m4", 1, runs[0], every), stdout=out, stderr=out, check=True)
        child = subprocess.Popen(command(short, kind, "sim:m4", 1, runs[1], every), stdout=out, stderr=out)
        while child.poll() is None and max(records(runs[1])[0], default=0) < kill_at:
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        reached = max(records(runs[1])[0], default=0)
        subprocess.run(command(short, kind, "sim:m4", 1, runs[1], every), stdout=out, stderr=out, check=True)
    same = bits(runs[0]) == bits(runs[1])
    print(f"{kind}: killed after step {reached}, resumed, {steps} steps: {'the same bits' if same else 'DIFFERENT BITS'}")
    return same


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("folder")
    p.add_argument("--propane", default="build/release/propane")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--only", choices=tuple(KINDS))
    p.add_argument("--table", action="store_true")
    p.add_argument("--restarts", action="store_true", help="only the killed and resumed runs")
    a = p.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    if not a.table:
        with open(a.text, "rb") as file:
            text = file.read()
        for name, half in (("first.txt", text[:len(text) // 2]), ("second.txt", text[len(text) // 2:])):
            with open(os.path.join(a.folder, name), "wb") as file:
                file.write(half)
        if not a.restarts:
            train_all(a)
    table(a)
    if not a.table and not all([restarts(a, kind) for kind in KINDS if a.only in (None, kind)]):
        sys.exit(1)


main()
