#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the training steps of bench_step in PyTorch, in alternation with bench_step itself, and prints the ratio.

    pytorch_step.py [--bench build/release/bench/bench_step] [--rows stories110M_b1,...] [--rounds 3] [--steps 6]
                    [--variants tuned,compiled,stock] [--precision fp32|bf16|fp16] [--threads N]

The model is the same: Llama blocks (RMSNorm, rotary positions, causal attention, SwiGLU), tied embeddings, mean
cross-entropy, gradients clipped by their norm, AdamW with weight decay. Each variant runs in a separate process per round:

    stock     as installed: no settings, the default torch.optim.AdamW, scaled_dot_product_attention
    tuned     fused AdamW, memory kept between steps and in huge pages (GLIBC_TUNABLES), scaled_dot_product_attention
    math      the same with attention written out
    compiled  tuned, and the model through torch.compile

All programs of a row run at the same time and alternate after each step, or after a few short ones, so that other work on
the machine affects all of them. Times are medians over all steps. "times ours" is the median of the ratios of the turns,
which a busy minute changes least. Memory is the largest resident size of the process. Exits with 77 if PyTorch is not
installed or bench_step is not built.
"""
import argparse
import importlib.metadata
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from needs import require

ROWS = {  # as in bench_step.c: layers, width, hidden, heads, vocabulary, context, batch
    "stories110M_b1": (12, 768, 2048, 12, 32000, 256, 1),
    "stories110M_b4": (12, 768, 2048, 12, 32000, 256, 4),
    "layer_t512": (1, 768, 2048, 12, 256, 512, 1),
    "gpt2_size_4x64": (12, 768, 2048, 12, 50257, 64, 4),
    "stories15M_b4": (6, 288, 768, 6, 32000, 256, 4),
    "stories42M_b4": (8, 512, 1376, 8, 32000, 256, 4),
    "layer_t64": (1, 768, 2048, 12, 256, 64, 1),
    "layer_t256": (1, 768, 2048, 12, 256, 256, 1),
    "layer_t1024": (1, 768, 2048, 12, 256, 1024, 1),
    "layer_t2048": (1, 768, 2048, 12, 256, 2048, 1),
    "layer_t4096": (1, 768, 2048, 12, 256, 4096, 1),
}
TUNABLES = "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184:glibc.malloc.hugetlb=1"


def build_model(torch, row, math_attention):
    nn, F = torch.nn, torch.nn.functional
    layers, width, hidden, heads, vocab, context, _ = row
    hd = width // heads

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return F.rms_norm(x, (width,), self.weight, 1e-5)

    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-b, a), dim=-1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = Norm(), Norm()
            self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
            self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
            self.down = nn.Linear(hidden, width, bias=False)

        def forward(self, x, cos, sin, mask):
            b, t, _ = x.shape
            h = self.n1(x)
            q, k, v = (p(h).view(b, t, heads, hd).transpose(1, 2) for p in (self.q, self.k, self.v))
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            if math_attention:
                y = F.softmax(q @ k.transpose(-1, -2) * hd**-0.5 + mask, dim=-1) @ v
            else:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(y.transpose(1, 2).reshape(b, t, width))
            h = self.n2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocab, width)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))
            self.norm = Norm()
            angle = torch.outer(torch.arange(context), 1e4 ** (-torch.arange(0, hd, 2) / hd))
            self.register_buffer("cos", torch.cat((angle.cos(), angle.cos()), dim=-1))
            self.register_buffer("sin", torch.cat((angle.sin(), angle.sin()), dim=-1))
            self.register_buffer("mask", torch.full((context, context), -1e9).triu(1))

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin, self.mask)
            logits = F.linear(self.norm(x), self.embed.weight)
            return F.cross_entropy(logits.float().view(-1, vocab), targets.view(-1))

    torch.manual_seed(1)
    model = Model()
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, 0, 0.02)
    return model


def child(options):
    import torch

    row = ROWS[options.rows]
    if options.threads:
        torch.set_num_threads(options.threads)
    model = build_model(torch, row, options.child == "math")
    run = torch.compile(model) if options.child == "compiled" else model
    fused = {} if options.child == "stock" else {"fused": True}
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, **fused)
    vocab, context, batch = row[4], row[5], row[6]
    index = torch.arange(2 * batch * context)
    tokens = ((index * 7919 + 13) % vocab).view(2, batch, context)
    low = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[options.precision]
    # as in bench_step: with one thread the thread's processor time, so that other work on the machine counts less
    clock = time.process_time if options.threads == 1 else time.perf_counter

    def step():
        start = clock()
        with torch.autocast("cpu", dtype=low or torch.bfloat16, enabled=low is not None):
            loss = run(tokens[0], tokens[1])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=options.child == "stock")
        loss.item()
        return (clock() - start) * 1e3

    for line in sys.stdin:  # number of steps: a short one is run once more before those that count
        count = int(line)
        if count != 1:
            step()
        print("steps", *(step() for _ in range(count)), flush=True)
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, flush=True)


class Program:
    """A process that waits for a line before its steps and then prints their times."""

    def __init__(self, command, env):
        self.errors = tempfile.TemporaryFile("w+")  # not a pipe, because nothing would read it
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True)
        self.rounds = []

    def run(self, count):
        """Runs a round of `count` steps if it is PyTorch's; bench_step decides itself how many it makes."""
        try:
            self.process.stdin.write(f"{count}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self.process.stdout:
            if line.startswith("steps"):
                self.rounds.append([float(word) for word in line.split()[1:]])
                return self.rounds[-1]
        self.process.wait()
        self.errors.seek(0)
        why = self.errors.read().strip().splitlines()
        raise RuntimeError(why[-1] if why else "failed")

    def finish(self):
        self.process.stdin.close()
        rest = [line.rstrip("\n") for line in self.process.stdout]  # communicate() would lose lines that were already buffered
        self.process.wait()
        return rest


def start(options, row, variant):
    env = dict(os.environ)
    if variant == "propane":
        if options.threads:
            env["PROPANE_THREADS"] = str(options.threads)
        return Program([options.bench, str(options.steps + 1), row, options.precision, "wait"], env)
    if variant != "stock":
        env["GLIBC_TUNABLES"] = TUNABLES
    return Program([sys.executable, os.path.abspath(__file__), "--child", variant, "--rows", row, "--precision",
                    options.precision, "--threads", str(options.threads)], env)


def run_process(options, row, results):
    """Starts all programs and lets one run at a time; its steps, peaks and bench_step's limits go to `results`."""
    programs = {name: start(options, row, name) for name in ["propane", *options.variants.split(",")] if name}
    for turn in range(options.steps + 1):  # the first does not count
        count = 1
        for name, program in list(programs.items()):
            try:
                steps = program.run(count)
            except RuntimeError as why:
                if name == "propane":
                    raise
                del programs[name]
                options.variants = ",".join(v for v in options.variants.split(",") if v != name)
                print(f"{row}: {name} does not run here: {why}", file=sys.stderr)
                continue
            if turn == 0:
                continue
            if name == "propane":
                count = len(steps)
            results.setdefault(name, {"rounds": [], "peak": []})["rounds"].append(steps)
    for name, program in programs.items():
        words = next(line.split() for line in program.finish() if line.startswith(("peak", row)))
        results[name]["peak"].append(int(words[-1]))
        if name == "propane":
            results[name].setdefault("limits", []).append((float(words[7]), float(words[9])))


def compare(options, row):
    results = {}
    for _ in range(options.rounds):
        run_process(options, row, results)
    ours = [statistics.median(steps) for steps in results["propane"]["rounds"]]
    units, products = (statistics.median(limits) for limits in zip(*results["propane"]["limits"]))
    for name, found in results.items():
        ms = statistics.median(t for steps in found["rounds"] for t in steps)
        best = min(t for steps in found["rounds"] for t in steps)
        ratio = statistics.median(statistics.median(steps) / own for steps, own in zip(found["rounds"], ours))
        print(f"{row:16} {name:9} {ms:9.1f} ms  {100 * products / ms:5.1f} % of the products' limit "
              f"{100 * units / ms:5.1f} % of the units'  {ratio:5.2f} times ours  best {best:9.1f} ms  "
              f"{max(found['peak']):6d} MB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", default="build/release/bench/bench_step")
    parser.add_argument("--rows", default="stories110M_b1,stories110M_b4,layer_t512")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--variants", default="tuned,compiled,stock")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.child:
        return child(options)
    # found, not imported: the parent's resident memory would count for the processes that it starts
    require(["torch"], [options.bench])
    print(f"PyTorch {importlib.metadata.version('torch')}, {options.threads or os.cpu_count()} threads, {options.precision}; "
          f"medians of {options.rounds} processes of {options.steps} turns")
    for row in options.rows.split(","):
        compare(options, row)


if __name__ == "__main__":
    main()
