#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes Llama models with random bf16 weights, as Hugging Face's folders: the sizes of real models where speed is
measured and words do not matter. Needs numpy.

    random_model.py FOLDER smollm2-135m|qwen3-0.6b [--vocabulary 32000]
"""
import argparse
import json
import struct
from pathlib import Path

SIZES = {  # layers, width, hidden, heads, key and value heads, width of a head
    "smollm2-135m": (30, 576, 1536, 9, 3, 64),
    "qwen3-0.6b": (28, 1024, 3072, 16, 8, 128),
}


def tensors(name, vocabulary):
    layers, width, hidden, heads, kv_heads, head = SIZES[name]
    yield "model.embed_tokens.weight", (vocabulary, width)
    for i in range(layers):
        p = f"model.layers.{i}."
        for part, shape in (("self_attn.q_proj", (heads * head, width)), ("self_attn.k_proj", (kv_heads * head, width)),
                            ("self_attn.v_proj", (kv_heads * head, width)), ("self_attn.o_proj", (width, heads * head)),
                            ("mlp.gate_proj", (hidden, width)), ("mlp.up_proj", (hidden, width)), ("mlp.down_proj", (width, hidden)),
                            ("input_layernorm", (width,)), ("post_attention_layernorm", (width,))):
            yield p + part + ".weight", shape
    yield "model.norm.weight", (width,)


def write(folder, name, vocabulary=32000, context=4096):
    import numpy as np
    layers, width, hidden, heads, kv_heads, head = SIZES[name]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=width, intermediate_size=hidden,
                  num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head, vocab_size=vocabulary,
                  max_position_embeddings=context, rms_norm_eps=1e-5, rope_theta=10000.0, tie_word_embeddings=True, torch_dtype="bfloat16",
                  bos_token_id=1, eos_token_id=2)
    (folder / "config.json").write_text(json.dumps(config))
    header, at, random = {}, 0, np.random.default_rng(1)
    listed = list(tensors(name, vocabulary))
    for key, shape in listed:
        size = 2 * int(np.prod(shape))
        header[key] = dict(dtype="BF16", shape=list(shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for key, shape in listed:
            x = random.standard_normal(shape, dtype=np.float32) * 0.03 if len(shape) == 2 else np.ones(shape, np.float32)
            f.write((x.view(np.uint32) >> 16).astype(np.uint16).tobytes())
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("sizes", choices=SIZES)
    parser.add_argument("--vocabulary", type=int, default=32000)
    o = parser.parse_args()
    write(o.folder, o.sizes, o.vocabulary)


if __name__ == "__main__":
    main()
