#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares LoRA with the package `peft`. For Llama, Qwen3 and GPT-2 models with random weights, an adapter created by peft
is trained for 20 steps by peft and by `propane train` on the same tokens, and the losses must be equal. Each then uses the
adapter that the other has trained; losses after loading, and logits after `propane convert --merge`, must be equal.

    python3 tools/lora_check.py [PROPANE]        (exit 1: different; 77: a package is missing)
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
program = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else os.path.join(ROOT, "build", "release", "propane")
if not os.path.exists(program):
    print(f"lora_check: {program} is not built: run make")
    sys.exit(77)
try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config
except ImportError as missing:
    print(f"lora_check: {missing}")
    sys.exit(77)

STEPS, CONTEXT, LR = 20, 48, 1e-2
COMMON = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
              vocab_size=256, max_position_embeddings=128, bos_token_id=None, eos_token_id=None)
MODELS = {"llama": LlamaConfig(**COMMON, tie_word_embeddings=False),
          "qwen3": Qwen3Config(**COMMON, head_dim=24, tie_word_embeddings=True)}
for kind in ("gpt2", "gpt2-all"):  # its matrices are Conv1D, [in, out]; c_attn holds queries, keys and values
    MODELS[kind] = GPT2Config(n_embd=64, n_layer=3, n_head=4, vocab_size=256, n_positions=128, resid_pdrop=0.0,
                              embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
LORA = {"llama": dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
        "qwen3": dict(r=3, lora_alpha=12, target_modules=["q_proj", "k_proj", "o_proj", "gate_proj", "down_proj"]),
        "gpt2": dict(r=4, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True),
        "gpt2-all": dict(r=5, lora_alpha=10, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)}


def run(*arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode:
        print(f"lora_check: propane {' '.join(arguments)}: {done.stderr}")
        sys.exit(1)
    return done.stdout


def steps(text):
    return [row["loss"] for row in map(json.loads, text.splitlines()) if "loss" in row]


def main():
    worst_loss = worst_logits = worst_use = 0.0
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        torch.manual_seed(3)
        ids = torch.randint(32, 127, (1, CONTEXT + 1))
        with open("text", "wb") as out:
            out.write(bytes(ids[0].tolist()))
        run("tokenize", "text", "--kind", "bytes", "--out", "bytes.json")
        for name, config in MODELS.items():
            torch.manual_seed(7)
            base = AutoModelForCausalLM.from_config(config)
            base.save_pretrained(f"{name}-base")
            model = get_peft_model(base, LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, bias="none", **LORA[name]))
            with torch.no_grad():
                for key, value in model.named_parameters():
                    if "lora_B" in key:
                        value.normal_(0, 0.05)
            model.save_pretrained(f"{name}-start")
            optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=LR, betas=(0.9, 0.95),
                                          eps=1e-8, weight_decay=0.0)
            theirs = []
            for _ in range(STEPS):
                loss = model(ids[:, :-1]).logits.log_softmax(-1).gather(2, ids[:, 1:, None]).mean().neg()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                theirs.append(loss.item())
            model.save_pretrained(f"{name}-theirs")
            train = ["train", "--init", f"{name}-base", "--tokenizer", "bytes.json", "--data", "text", "--context",
                     str(CONTEXT), "--batch", "1", "--held-out", "0", "--eval-every", "0", "--warmup", "0", "--lr", str(LR),
                     "--min-lr", str(LR), "--weight-decay", "0", "--clip", "0", "--json"]
            ours = steps(run(*train, "--adapter", f"{name}-start", "--steps", str(STEPS), "--run", f"{name}-ours"))
            worst_loss = max(worst_loss, max(abs(a - b) for a, b in zip(ours, theirs)))
            if len(ours) != STEPS or not ours[-1] < ours[0] - 0.1:
                print(f"{name}: {ours}")
                sys.exit(1)

            def loss_of(m):
                with torch.no_grad():
                    return m(ids[:, :-1]).logits.log_softmax(-1).gather(2, ids[:, 1:, None]).mean().neg().item()

            def logits_of(m):
                with torch.no_grad():
                    return m.eval()(ids[:, :-1]).logits

            for adapter in (f"{name}-theirs", f"{name}-ours"):
                fresh = AutoModelForCausalLM.from_pretrained(f"{name}-base")
                loaded = PeftModel.from_pretrained(fresh, adapter)
                run("convert", f"{name}-base", f"{adapter}-merged", "--merge", adapter, "--tokenizer", "bytes.json")
                merged = AutoModelForCausalLM.from_pretrained(f"{adapter}-merged")
                worst_logits = max(worst_logits, (logits_of(loaded) - logits_of(merged)).abs().max().item())
                here = json.loads(run("eval", f"{name}-base", "--adapter", adapter, "--data", "text", "--tokenizer",
                                      "bytes.json", "--json"))["loss"]
                worst_use = max(worst_use, abs(here - loss_of(loaded)))
                first = steps(run(*train, "--adapter", adapter, "--steps", "1", "--run", f"{adapter}-again"))[0]
                worst_use = max(worst_use, abs(first - loss_of(loaded)))
    print(f"{len(MODELS)} models: losses of {STEPS} steps differ by {worst_loss:.1e}, of loaded adapters by {worst_use:.1e}, "
          f"logits of merged models by {worst_logits:.1e}")
    return worst_loss > 1e-3 or worst_use > 1e-4 or worst_logits > 1e-4


sys.exit(main())
