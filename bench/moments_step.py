#!/usr/bin/env python3
"""Measures how much memory compact AdamW moments save and how they affect the time of a step, for Stories110M's shape at
batch 1.

    bench/moments_step.py TEXT TOKENIZER [--propane build/release/propane] [--rounds 3] [--steps 4] [--threads 2]

TOKENIZER has about 32,000 ids (llama2.c's tokenizer.bin). Runs fp32, bf16 and int8 in alternation. Prints the peak memory of
each, how many bytes per parameter it is below that of fp32, and the median step time relative to fp32. The first step of a
run is omitted.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 768, "intermediate_size": 2048,
          "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 12, "vocab_size": 32000,
          "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
          "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2}
FORMS = ("fp32", "bf16", "int8")


def run(a, form, folder):
    """Returns (peak bytes, step times in ms, parameters)."""
    command = [a.propane, "train", "--data", a.text, "--tokenizer", a.tokenizer, "--config", folder + "/config.json", "--batch", "1",
               "--context", "256", "--steps", str(a.steps), "--threads", str(a.threads), "--eval-every", "0", "--eval-batches",
               "1", "--checkpoint-every", "0", "--moments", form, "--run", folder + "/run-" + form, "--no-report", "--json"]
    with open(folder + "/log", "w+") as log:
        child = subprocess.Popen(command, stdout=log)
        # Writing the checkpoint holds no second copy of the moments; the peak is that of the whole run.
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit("propane train failed")
        log.seek(0)
        lines = [json.loads(line) for line in log if line.startswith("{")]
    subprocess.run(["rm", "-rf", folder + "/run-" + form], check=True)
    times = [256e3 / r["tokens_per_s"] for r in lines if r.get("step", 0) > 1 and "tokens_per_s" in r]
    return usage.ru_maxrss * 1024, times


def main():
    p = argparse.ArgumentParser()
    p.add_argument("text")
    p.add_argument("tokenizer")
    p.add_argument("--propane", default="build/release/propane")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--threads", type=int, default=2)
    a = p.parse_args()
    peak, times = {f: 0 for f in FORMS}, {f: [] for f in FORMS}
    c = CONFIG
    layer = 4 * c["hidden_size"] ** 2 + 3 * c["hidden_size"] * c["intermediate_size"] + 2 * c["hidden_size"]
    parameters = c["vocab_size"] * c["hidden_size"] + c["num_hidden_layers"] * layer + c["hidden_size"]
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/config.json", "w") as file:
            json.dump(CONFIG, file)
        for _ in range(a.rounds):
            for form in FORMS:
                bytes_, ms = run(a, form, folder)
                peak[form] = max(peak[form], bytes_)
                times[form] += ms
    for form in FORMS:
        print("%s: peak %.0f MB, %.2f bytes per parameter less than fp32; step %.3f of fp32's time (median of %d)"
              % (form, peak[form] / 1e6, (peak["fp32"] - peak[form]) / parameters,
                 statistics.median(times[form]) / statistics.median(times["fp32"]), len(times[form])))


main()
