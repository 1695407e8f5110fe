#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that what `propane convert` writes is what transformers reads, and the other way round.

    python3 tools/transformers_check.py [PROPANE]      (exit 1: different; 77: a package is missing)

A random Llama (grouped queries, tied and separate heads, biases none) made by transformers, saved in one file and in shards,
goes through Propane's folder, safetensors, GGUF and llama2.c forms; loaded again by transformers its logits are equal to the
bit (F32) or to the rounding of the type. A short training run's folder is exported and loads too, with its tokenizer, whose
ids are Propane's.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
except ImportError as e:
    print(f"transformers_check: {e}")
    sys.exit(77)

bad = count = 0


def expect(good, what):
    global bad, count
    count += 1
    print(("ok    " if good else "WRONG ") + what)
    bad += not good


def run(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        print(" ".join(args), r.stdout, r.stderr)
    return r.returncode == 0


def logits(path, ids):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(ids).logits


def check_model(propane, folder, tied):
    torch.manual_seed(3)
    config = LlamaConfig(vocab_size=320, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=128, rope_parameters={"rope_type": "default", "rope_theta": 10000.0 if tied else 50000.0}, rms_norm_eps=1e-5, tie_word_embeddings=tied, bos_token_id=1, eos_token_id=2)
    model = LlamaForCausalLM(config).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, 1.0 if p.dim() == 1 else 0.0, 0.1)
    ids = torch.randint(0, 320, (2, 40))
    with torch.no_grad():
        want = model(ids).logits
    at = lambda name: os.path.join(folder, f"{name}-{'tied' if tied else 'separate'}")
    model.save_pretrained(at("hf"))
    model.save_pretrained(at("shards"), max_shard_size="100KB")
    expect(os.path.exists(os.path.join(at("shards"), "model.safetensors.index.json")), "the sharded folder has an index")
    say = f"({'tied' if tied else 'separate'} head)"
    for name, steps, tolerance in (("folder", [], 0), ("shards", [], 0), ("safetensors", [(".safetensors",)], 0), ("gguf", [(".gguf",)], 0),
                                   ("llama2.c", [(".bin",)], 0), ("gguf f16", [(".gguf", "--dtype", "f16")], 2e-2), ("gguf q8_0", [(".gguf", "--dtype", "q8_0")], 0.5)):
        if name == "llama2.c" and not tied:  # that form cannot say another theta than 10000
            continue
        source = at("shards") if name == "shards" else at("hf")
        for n, (end, *flags) in enumerate(steps):
            target = at(name.replace(" ", "-")) + end
            expect(run(propane, "convert", source, target, *flags), f"convert to {name} {say}")
            source = target
        out = at("out-" + name.replace(" ", "-"))
        if not run(propane, "convert", source, out):
            expect(False, f"convert from {name} {say}")
            continue
        got = logits(out, ids)
        worst = (got - want).abs().max().item()
        expect(worst <= tolerance, f"logits by way of {name} {say}: largest difference {worst:.3g}, logits up to {want.abs().max().item():.3g}")
        g = json.load(open(os.path.join(out, "generation_config.json")))
        expect(name == "llama2.c" or g.get("eos_token_id") == 2, f"generation_config.json by way of {name}")


def check_run(propane, folder):
    text, other = os.path.join(folder, "text.txt"), os.path.join(folder, "lines.txt")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = open(os.path.join(root, "README.md")).read()
    open(text, "w").write(words * 3)
    lines = [line for line in words.split("\n") if line] + ["naïve café — 你好 😀", "  two  spaces"]
    open(other, "w").write("\n".join(lines) + "\n")
    for kind, flags in (("bpe", ["--vocab", "400"]), ("bytes", [])):
        vocabulary, model, out = (os.path.join(folder, kind + x) for x in (".json", "-run", "-out"))
        expect(run(propane, "tokenize", text, "--kind", kind, *flags, "--out", vocabulary), f"tokenizer {kind}")
        expect(run(propane, "train", "--data", text, "--tokenizer", vocabulary, "--run", model, "--steps", "3", "--layers", "1", "--width", "32", "--heads", "2", "--context", "32", "--batch", "2"), f"training run, {kind}")
        if not run(propane, "convert", model, out):
            expect(False, f"convert of the run, {kind}")
            continue
        t = AutoTokenizer.from_pretrained(out)
        ids = subprocess.run([propane, "tokenize", other, "--tokenizer", vocabulary, "--print-ids", "lines"], capture_output=True, text=True).stdout
        ours = [[int(i) for i in row.split()] for row in ids.split("\n")[:-1]]
        expect(ours == [t(line, add_special_tokens=False)["input_ids"] for line in lines], f"{kind}: transformers' tokenizer gives Propane's ids on {len(lines)} lines")
        expect([t.decode(i) for i in ours] == lines, f"{kind}: and decodes them")
        expect(logits(out, torch.tensor([ours[0][:20]])).isfinite().all().item(), f"{kind}: the run's model loads")


def main(propane):
    with tempfile.TemporaryDirectory() as folder:
        check_model(propane, folder, False)
        check_model(propane, folder, True)
        check_run(propane, folder)
    print(f"{count - bad} of {count} checks are good")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(__doc__)
        sys.exit(2)
    program = sys.argv[1] if len(sys.argv) == 2 else os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release", "propane")
    if not os.path.exists(program):
        print(f"transformers_check: {program} is not built: run make")
        sys.exit(77)
    sys.exit(main(program))
