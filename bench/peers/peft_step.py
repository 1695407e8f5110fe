# SPDX-License-Identifier: MIT
"""Trains adapters of a model folder with the package `peft`, in fp32: peft_step.py FOLDER STEPS RANK BATCH CONTEXT THREADS.
The optimizer is the fused AdamW. The program that calls it measures time and memory. bench/goals.py runs it next to `propane train --lora-rank`."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

folder, (steps, rank, batch, context, threads) = sys.argv[1], map(int, sys.argv[2:])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=16, target_modules=["q_proj", "v_proj"]))
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=2e-4, fused=True)
ids = torch.arange(batch * context).view(batch, context) * 7919 % 256
for _ in range(steps):
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad()
