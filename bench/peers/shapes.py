# SPDX-License-Identifier: MIT
"""Writes model folders with the sizes of published models and random weights, because times do not depend on the values. The
vocabulary comes from the given tokenizer, not from the published model."""
import json
import struct
from pathlib import Path

import numpy as np

#         width, hidden, layers, heads, key and value heads, size of a head
SHAPES = {"smollm2-135m": (576, 1536, 30, 9, 3, 64),
          "qwen3-0.6b": (1024, 3072, 28, 16, 8, 128)}  # as Llama blocks: without norms of queries and keys


def tensors(shape, vocab):
    width, hidden, layers, heads, groups, size = shape
    yield "model.embed_tokens.weight", (vocab, width)
    for i in range(layers):
        for name, rows, columns in (("self_attn.q", heads * size, width), ("self_attn.k", groups * size, width), ("self_attn.v", groups * size, width),
                                    ("self_attn.o", width, heads * size), ("mlp.gate", hidden, width), ("mlp.up", hidden, width), ("mlp.down", width, hidden)):
            yield f"model.layers.{i}.{name}_proj.weight", (rows, columns)
        for name in ("input", "post_attention"):
            yield f"model.layers.{i}.{name}_layernorm.weight", (width,)
    yield "model.norm.weight", (width,)


def write(folder, name, vocab, context=4096):
    """Writes config.json and model.safetensors (bf16) to `folder`. Returns the number of parameters."""
    width, hidden, layers, heads, groups, size = SHAPES[name]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=width, intermediate_size=hidden,
                  num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=groups, head_dim=size, vocab_size=vocab,
                  max_position_embeddings=context, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, torch_dtype="bfloat16")
    (folder / "config.json").write_text(json.dumps(config))
    table, header, at = list(tensors(SHAPES[name], vocab)), {"__metadata__": {"format": "pt"}}, 0
    for key, shape in table:
        size = 2 * int(np.prod(shape))
        header[key] = dict(dtype="BF16", shape=list(shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = np.random.default_rng(1).standard_normal(1 << 20, dtype=np.float32) * np.float32(0.03)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, shape in table:
            values = np.resize(block, shape) if len(shape) == 2 else np.ones(shape, np.float32)
            f.write((values.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return at // 2
