#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/data/arch_*: a tiny random model of each architecture as transformers writes it, and the results of transformers.

    python3 tools/reference_models.py [FOLDER [NAME...]]      (needs torch and transformers; Propane and its tests need neither)

arch_NAME/config.json, model.safetensors    as save_pretrained leaves them
arch_NAME/reference.safetensors             F32 unless said otherwise
    tokens      I32 [batch, sequence + 1]: inputs are [:, :-1], targets [:, 1:]
    logits      [batch, sequence, vocabulary]
    loss        F64 [1]: mean cross-entropy over all targets
    grads.NAME  of the loss; NAME and shape as in model.safetensors

The arithmetic is float64 on the float32 weights. Norm weights are around 1, and biases around 0 (none is 0).
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GraniteConfig,
                          GraniteForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM,
                          Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)

BATCH, SEQUENCE, VOCABULARY = 2, 16, 40
SIZES = dict(vocab_size=VOCABULARY, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


def models():
    yield "llama3", LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LLAMA3, attention_bias=True, mlp_bias=True, head_dim=8, tie_word_embeddings=False))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**SIZES, rope_parameters=PLAIN, tie_word_embeddings=True))
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**SIZES, rope_parameters=PLAIN, head_dim=8, tie_word_embeddings=True))
    yield "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=4, n_positions=24, bos_token_id=1, eos_token_id=2))
    # There is no padding token, because transformers drops its gradient. Windows are shorter than the sequence of 16.
    yield "mistral", MistralForCausalLM(MistralConfig(**SIZES, rope_parameters=PLAIN, head_dim=8, sliding_window=6, tie_word_embeddings=False))
    yield "granite", GraniteForCausalLM(GraniteConfig(**SIZES, rope_parameters=PLAIN, embedding_multiplier=12.0, residual_multiplier=0.22,
                                                      attention_multiplier=0.3, logits_scaling=6.0, tie_word_embeddings=True))
    yield "olmo2", Olmo2ForCausalLM(Olmo2Config(**SIZES, pad_token_id=None, rope_parameters=PLAIN, tie_word_embeddings=False))
    yield "phi3", Phi3ForCausalLM(Phi3Config(**{**SIZES, "hidden_size": 32}, rope_parameters={**PLAIN, "partial_rotary_factor": 0.5},
                                             partial_rotary_factor=0.5, sliding_window=7, pad_token_id=None, tie_word_embeddings=False))
    yield "smollm3", SmolLM3ForCausalLM(SmolLM3Config(**{**SIZES, "num_hidden_layers": 4}, rope_parameters={**PLAIN, "rope_theta": 2e6}, pad_token_id=None,
                                                      tie_word_embeddings=True))
    yield "gemma2", Gemma2ForCausalLM(Gemma2Config(**SIZES, rope_parameters=PLAIN, head_dim=8, query_pre_attn_scalar=5, sliding_window=5,
                                                   attn_logit_softcapping=2.0, final_logit_softcapping=3.0, pad_token_id=None))
    yield "gemma3", Gemma3ForCausalLM(Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, head_dim=8, query_pre_attn_scalar=8, sliding_window=5,
                                                       sliding_window_pattern=3, pad_token_id=None, rope_parameters={
        "sliding_attention": PLAIN, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}))
    # Phi-4-mini: contexts of 64, trained with 32.
    yield "phi4", Phi3ForCausalLM(Phi3Config(**{**SIZES, "hidden_size": 32}, original_max_position_embeddings=32, rope_parameters={
        "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75, "short_factor": [1.0, 1.25, 2.5], "long_factor": [1.5, 4.0, 9.0]},
                                             partial_rotary_factor=0.75, sliding_window=None, pad_token_id=None, tie_word_embeddings=True))
    experts = {**SIZES, "head_dim": 8, "rope_parameters": PLAIN, "moe_intermediate_size": 8, "pad_token_id": None}
    yield "qwen3_moe", Qwen3MoeForCausalLM(Qwen3MoeConfig(**experts, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True))
    yield "qwen3_moe_plain", Qwen3MoeForCausalLM(Qwen3MoeConfig(**experts, num_experts=6, num_experts_per_tok=3, norm_topk_prob=False))


def as_stored(name, value):
    """Returns the name of a parameter in the files; transformers holds all experts of a layer in two tensors."""
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        return {name: value}
    base, last = name.rsplit(".", 1)
    parts = {"down_proj": value} if last == "down_proj" else dict(zip(("gate_proj", "up_proj"), value.chunk(2, 1)))
    return {f"{base}.{e}.{part}.weight": v[e] for part, v in parts.items() for e in range(len(v))}


def main(root, wanted=()):
    for seed, (name, model) in enumerate(models()):
        if wanted and name not in wanted:
            continue
        torch.manual_seed(100 + seed)
        for p_name, p in model.named_parameters():
            table = p is model.get_input_embeddings().weight or "wpe" in p_name
            if p.dim() == 1:
                torch.nn.init.normal_(p, 0.0 if p_name.endswith("bias") or "gemma" in name else 1.0, 0.2)
                if "gemma" in name:  # so that adding 1 and subtracting it again loses nothing
                    p.data = (p.data * 4096).round() / 4096
            else:
                torch.nn.init.normal_(p, 0.0, 0.5 if table else p.shape[0 if name == "gpt2" else -1] ** -0.5)
                if p_name.endswith("mlp.gate.weight"):  # so that fp16 makes the same choices
                    p.data *= 3
        folder = os.path.join(root, "arch_" + name)
        shutil.rmtree(folder, ignore_errors=True)
        model.set_attn_implementation("eager")  # soft caps
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")  # grouped matrix products do not support double
        model.eval().save_pretrained(folder)
        os.remove(os.path.join(folder, "generation_config.json"))
        double = model.double()
        tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1))
        logits = double(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
        loss.backward()
        out = {"grads." + n: g.float().contiguous() for of, p in double.named_parameters() for n, g in as_stored(of, p.grad).items()}
        out |= {"tokens": tokens.int(), "logits": logits.detach().float(), "loss": loss.detach()[None]}
        save_file(out, os.path.join(folder, "reference.safetensors"), {"made_by": "tools/reference_models.py"})
        bytes_of = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f"{name}: loss {loss.item():.6f}, {len(out)} tensors, {bytes_of} bytes")


if __name__ == "__main__":
    main(*(sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else (os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "data"),))
