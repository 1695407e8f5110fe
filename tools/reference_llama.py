#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/data/llama_gqa: a tiny grouped-query Llama in plain PyTorch, trained for ten steps.

    python3 tools/reference_llama.py [FOLDER]        (needs torch and numpy; the tests need neither)

config.json            the model, in Hugging Face's terms
reference.safetensors  F32 unless said otherwise
    weights.NAME       before step 1; NAME as in Hugging Face (model.layers.0.self_attn.q_proj.weight, ...)
    grads.NAME         of step 1's loss, not clipped
    after.NAME         weights after step 10 (only the four of `AFTER`, to keep the file small)
    tokens             I32 [steps, batch, sequence + 1]: inputs are [:, :, :-1], targets [:, :, 1:]
    losses             F64 [steps]: mean cross-entropy over all targets, nats, before the step's update
    grad_norms         F64 [steps]: global 2-norm of the unclipped gradient
    metadata           the optimiser's settings, as below, as strings

The arithmetic is float64 throughout (so that a float32 program is compared with the truth, not with another rounding);
weights and gradients are stored rounded to float32, and the float64 run starts from the rounded weights.
AdamW, torch.optim.AdamW's form: p *= 1 - lr * decay; p -= lr * m_hat / (sqrt(v_hat) + eps). Decay on matrices only
(embedding included), not on norm weights. Constant learning rate. The gradient is scaled by
min(1, clip / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does.
"""
import json
import math
import os
import struct
import sys

import numpy as np
import torch

CONFIG = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=32, intermediate_size=48,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=8, vocab_size=40,
    max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=False)
STEPS, BATCH, SEQUENCE, SEED = 10, 3, 16, 1234
LR, BETA1, BETA2, EPS, DECAY, CLIP = 1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0
AFTER = ["model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight", "model.layers.1.mlp.down_proj.weight",
         "model.norm.weight"]

D, H, L, V = (CONFIG[k] for k in ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size"))
NH, NKV, HD = (CONFIG[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim"))


def shapes():
    yield "model.embed_tokens.weight", (V, D)
    for i in range(L):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (D,)
        yield p + "self_attn.q_proj.weight", (NH * HD, D)
        yield p + "self_attn.k_proj.weight", (NKV * HD, D)
        yield p + "self_attn.v_proj.weight", (NKV * HD, D)
        yield p + "self_attn.o_proj.weight", (D, NH * HD)
        yield p + "post_attention_layernorm.weight", (D,)
        yield p + "mlp.gate_proj.weight", (H, D)
        yield p + "mlp.up_proj.weight", (H, D)
        yield p + "mlp.down_proj.weight", (D, H)
    yield "model.norm.weight", (D,)
    yield "lm_head.weight", (V, D)


def rms_norm(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * w


def rope(x):  # [B, heads, S, HD], pairs (i, i + HD/2)
    s, half = x.shape[-2], HD // 2
    rate = CONFIG["rope_theta"] ** (-torch.arange(half, dtype=x.dtype) * 2 / HD)
    angle = torch.arange(s, dtype=x.dtype)[:, None] * rate[None]
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def forward(w, ids):
    b, s = ids.shape
    x = w["model.embed_tokens.weight"][ids]
    seen = torch.ones(s, s, dtype=torch.bool).tril()
    for i in range(L):
        p = f"model.layers.{i}."
        n = rms_norm(x, w[p + "input_layernorm.weight"])
        q = (n @ w[p + "self_attn.q_proj.weight"].T).view(b, s, NH, HD).transpose(1, 2)
        k = (n @ w[p + "self_attn.k_proj.weight"].T).view(b, s, NKV, HD).transpose(1, 2)
        v = (n @ w[p + "self_attn.v_proj.weight"].T).view(b, s, NKV, HD).transpose(1, 2)
        q, k = rope(q), rope(k)
        k, v = (t.repeat_interleave(NH // NKV, dim=1) for t in (k, v))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(HD)).masked_fill(~seen, -math.inf)
        mix = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, s, NH * HD)
        x = x + mix @ w[p + "self_attn.o_proj.weight"].T
        n = rms_norm(x, w[p + "post_attention_layernorm.weight"])
        gate, up = n @ w[p + "mlp.gate_proj.weight"].T, n @ w[p + "mlp.up_proj.weight"].T
        x = x + (torch.nn.functional.silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    return rms_norm(x, w["model.norm.weight"]) @ w["lm_head.weight"].T


def save(path, tensors, metadata):
    names = {np.dtype("float32"): "F32", np.dtype("float64"): "F64", np.dtype("int32"): "I32"}
    header, offset = {"__metadata__": metadata}, 0
    for name, a in tensors.items():
        header[name] = dict(dtype=names[a.dtype], shape=list(a.shape), data_offsets=[offset, offset + a.nbytes])
        offset += a.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for a in tensors.values():
            f.write(np.ascontiguousarray(a).tobytes())


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../tests/data/llama_gqa")
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(SEED)
    torch.set_default_dtype(torch.float64)
    w = {}
    for name, shape in shapes():
        # norm weights away from 1, and matrices large enough that every gradient matters
        t = 1 + 0.2 * torch.randn(shape) if len(shape) == 1 else torch.randn(shape) * (0.7 if "embed" in name else 1.0 / math.sqrt(shape[1]))
        w[name] = t.float().double().requires_grad_()
    # learnable text: a noisy walk over the vocabulary
    ids = torch.zeros(STEPS, BATCH, SEQUENCE + 1, dtype=torch.long)
    ids[..., 0] = torch.randint(V, (STEPS, BATCH))
    for t in range(SEQUENCE):
        jump = torch.rand(STEPS, BATCH) < 0.2
        ids[..., t + 1] = torch.where(jump, torch.randint(V, (STEPS, BATCH)), (ids[..., t] * 3 + 1) % V)

    out = {"weights." + n: t.detach().float().numpy().copy() for n, t in w.items()}
    groups = [dict(params=[t for t in w.values() if t.dim() == 2], weight_decay=DECAY),
              dict(params=[t for t in w.values() if t.dim() == 1], weight_decay=0.0)]
    optimiser = torch.optim.AdamW(groups, lr=LR, betas=(BETA1, BETA2), eps=EPS)
    losses, norms = [], []
    for step in range(STEPS):
        optimiser.zero_grad()
        logits = forward(w, ids[step, :, :-1])
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, V), ids[step, :, 1:].reshape(-1))
        loss.backward()
        if step == 0:
            out.update({"grads." + n: t.grad.float().numpy().copy() for n, t in w.items()})
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(w.values()), CLIP)))
        losses.append(float(loss.detach()))
        optimiser.step()
    out.update({"after." + n: w[n].detach().float().numpy() for n in AFTER})
    out["tokens"] = ids.numpy().astype(np.int32)
    out["losses"], out["grad_norms"] = np.array(losses), np.array(norms)
    settings = dict(steps=STEPS, batch=BATCH, sequence=SEQUENCE, lr=LR, beta1=BETA1, beta2=BETA2, eps=EPS,
                    weight_decay=DECAY, clip=CLIP, torch=torch.__version__)
    save(os.path.join(folder, "reference.safetensors"), out, {k: str(v) for k, v in settings.items()})
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(CONFIG, f, indent=2)
        f.write("\n")
    print("losses", *(f"{x:.6f}" for x in losses))
    print("gradient norms", *(f"{x:.4f}" for x in norms))


if __name__ == "__main__":
    main()
