#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains LoRA adapters of rank 8 on all matrices of a model with peft and with `propane train`, in alternation, and prints
the time of a step and the peak memory of each.

    peft_step.py MODEL TOKENIZER TEXT [--propane build/release/propane] [--rounds 2] [--steps 6] [--batch 4] [--context 256]

MODEL is a Hugging Face folder of a Llama model (random_model.py writes one), TOKENIZER a vocabulary of at most its ids. peft
has fp32 weights, fused AdamW and scaled_dot_product_attention. Times are medians of the steps after the first two, wall
time, with as many threads as there are cores. Exits with 77 if a package is missing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from needs import require

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def child(o):
    import peft
    import torch
    import transformers
    model = transformers.AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.float32)
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, lora_alpha=16, target_modules=TARGETS, task_type="CAUSAL_LM"))
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4, fused=True)
    for _ in range(o.steps + 2):
        ids = torch.randint(0, model.config.vocab_size, (o.batch, o.context))
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print((time.perf_counter() - begin) * 1e3, flush=True)


def measured(command):
    """Runs a command. Returns its output and its largest resident memory in MB."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, errors = process.stdout.read(), process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"peft_step.py: {command[0]}: {errors.strip()[-300:]}")
    return out, used.ru_maxrss // 1024


def ours(o, model, folder, rank=8, more=()):
    """Returns the median time of a step of `propane train` in ms, and its memory in MB."""
    run = tempfile.mkdtemp(dir=folder)
    _, memory = measured([o.propane, "train", "--init", model, "--tokenizer", o.tokenizer, "--data", o.text, "--steps", o.steps + 2,
                          "--batch", o.batch, "--context", o.context, "--eval-every", 0, "--no-report", "--run", run,
                          *(["--lora-rank", rank, "--lora-targets", ",".join(TARGETS)] if rank else []), *more])
    steps = [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines() if line.startswith('{"step"')]
    return statistics.median(o.batch * o.context / s["tokens_per_s"] * 1e3 for s in steps[2:] if "tokens_per_s" in s), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.child:
        return child(o)
    require(["torch", "transformers", "peft"], [o.propane])
    mine, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(o.rounds):
            mine.append(ours(o, o.model, folder))
            out, memory = measured([sys.executable, __file__, o.model, o.tokenizer, o.text, "--child", "--steps", o.steps, "--batch", o.batch,
                                    "--context", o.context])
            theirs.append((statistics.median(map(float, out.split()[2:])), memory))
    (a, m), (b, n) = ((statistics.median(c) for c in zip(*rows)) for rows in (mine, theirs))
    print(f"LoRA rank 8: propane {a:.0f} ms and {m:.0f} MB, peft {b:.0f} ms and {n:.0f} MB: {b / a:.2f} times ours, {n / m:.2f} times our memory")


if __name__ == "__main__":
    main()
