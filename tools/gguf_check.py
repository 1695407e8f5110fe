#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares Propane's GGUF with the package `gguf`: files written by one are read by the other.

    python3 tools/gguf_check.py [PROPANE]      (exit 1: different; 77: a package is missing)

Written: every type that Propane writes, metadata, permuted query and key rows, and both kinds of vocabulary. (gguf cannot
write Q4_K and Q6_K, so only the changes they cause are checked.) Read: every type that both support (blocks of random bytes
if gguf cannot write them), and the hashes in tests/model/test_gguf.c. If llama-cpp-python, torch and transformers are
installed, a random model of each architecture is also compared: Propane's greedy text must equal llama.cpp's. Otherwise
that part is skipped with a message.
"""
import hashlib
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

try:
    import gguf
    import numpy as np
    from gguf import GGMLQuantizationType as Q
    from safetensors.numpy import load_file, save_file
except ImportError as e:
    print(f"gguf_check: {e}")
    sys.exit(77)

C = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", hidden_size=256, intermediate_size=512, num_hidden_layers=2,
         num_attention_heads=8, num_key_value_heads=4, head_dim=32, vocab_size=320, max_position_embeddings=64, rms_norm_eps=1e-5, rope_theta=50000.0,
         tie_word_embeddings=False)
PARTS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
# Types in which any bytes are a valid block, and the offsets of its fp16 numbers.
BLOCKS = {Q.Q2_K: (80, 82), Q.Q3_K: (108,), Q.Q4_K: (0, 2), Q.Q5_K: (0, 2), Q.Q6_K: (208,), Q.IQ4_NL: (0,), Q.IQ4_XS: (0,), Q.MXFP4: ()}
bad = count = 0


def expect(good, what):
    global bad, count
    count += 1
    print(("ok    " if good else "WRONG ") + what)
    bad += not good


def names():
    yield "model.embed_tokens.weight", "token_embd.weight", (C["vocab_size"], C["hidden_size"])
    d, h, q, kv = C["hidden_size"], C["intermediate_size"], C["num_attention_heads"] * C["head_dim"], C["num_key_value_heads"] * C["head_dim"]
    shapes = {"attn_norm": (d,), "attn_q": (q, d), "attn_k": (kv, d), "attn_v": (kv, d), "attn_output": (d, q), "ffn_norm": (d,), "ffn_gate": (h, d), "ffn_up": (h, d), "ffn_down": (d, h)}
    for i in range(C["num_hidden_layers"]):
        for ours, theirs in PARTS.items():
            yield f"model.layers.{i}.{ours}.weight", f"blk.{i}.{theirs}.weight", shapes[theirs]
    yield "model.norm.weight", "output_norm.weight", (d,)
    yield "lm_head.weight", "output.weight", (C["vocab_size"], d)


def permute(w, heads):  # as llama.cpp's convert_hf_to_gguf.py does
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def theirs(name, w):
    return permute(w, C["num_attention_heads"]) if "attn_q." in name else permute(w, C["num_key_value_heads"]) if "attn_k." in name else w


def run(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode:
        print(r.stdout + r.stderr)
    return r.returncode == 0


def check_written(propane, folder, weights):
    for kind in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q4_K, Q.Q6_K):
        dtype = kind.name.lower()
        path = os.path.join(folder, dtype + ".gguf")
        if not run(propane, "convert", folder, path, "--dtype", dtype):
            expect(False, f"{dtype}: written")
            continue
        r = gguf.GGUFReader(path)
        field = lambda k: r.fields[k].contents()
        keys = {"general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256, "llama.attention.head_count_kv": 4,
                "llama.rope.dimension_count": 32, "llama.rope.freq_base": 50000.0, "llama.context_length": 64}
        expect(all(field(k) == v for k, v in keys.items()), f"{dtype}: metadata")
        tensors = {t.name: t for t in r.tensors}
        good = len(tensors) == len(list(names()))
        for ours, name, shape in names():
            t, want = tensors[name], theirs(name, weights[ours])
            of = Q.F32 if len(shape) == 1 else kind
            if of in BLOCKS:  # gguf-py does not make them
                got = gguf.quants.dequantize(t.data, of).reshape(want.shape)
                error = float(np.sqrt(((got - want) ** 2).sum() / (want ** 2).sum()))
                good = good and t.tensor_type == of and error < (0.08 if of == Q.Q4_K else 0.02)
                continue
            raw = gguf.quants.quantize(want, of)
            good = good and t.tensor_type == of and list(reversed(t.shape.tolist())) == list(shape)
            good = good and np.array_equal(np.ascontiguousarray(t.data).view(np.uint8).reshape(-1), np.ascontiguousarray(raw).view(np.uint8).reshape(-1))
        expect(good, f"{dtype}: every byte of {len(tensors)} tensors as gguf.quants makes it")
        back = os.path.join(folder, dtype + "-back.safetensors")
        expect(run(propane, "convert", path, back), f"{dtype}: read back")
        got = load_file(back)
        if kind in (Q.Q4_K, Q.Q6_K):
            continue
        expect(all(np.array_equal(got[ours], gguf.quants.dequantize(gguf.quants.quantize(weights[ours], Q.F32 if len(s) == 1 else kind), Q.F32 if len(s) == 1 else kind)) for ours, _, s in names()),
               f"{dtype}: values after reading back")


def check_read(propane, folder, weights, rng):
    for kind in (Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, *BLOCKS):
        path, back = os.path.join(folder, "theirs.gguf"), os.path.join(folder, "theirs.safetensors")
        w = gguf.GGUFWriter(path, "llama")
        w.add_block_count(2), w.add_context_length(64), w.add_embedding_length(256), w.add_feed_forward_length(512), w.add_head_count(8), w.add_head_count_kv(4)
        w.add_layer_norm_rms_eps(1e-5), w.add_rope_freq_base(50000.0), w.add_rope_dimension_count(32), w.add_vocab_size(320)
        want = {}
        for ours, name, shape in names():
            of = Q.F32 if len(shape) == 1 else kind
            if of in BLOCKS:  # gguf-py decodes these but does not make them; any bytes are a block
                block, size = gguf.GGML_QUANT_SIZES[of]
                raw = rng.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
                halves = rng.uniform(-0.01, 0.01, raw.shape[:2]).astype(np.float16).view(np.uint8).reshape(*raw.shape[:2], 2)
                for at in BLOCKS[of]:
                    raw[:, :, at : at + 2] = halves
                if of == Q.MXFP4:
                    raw[:, :, 0] = rng.integers(100, 125, raw.shape[:2])
                raw = raw.reshape(shape[0], -1)
            else:
                raw = gguf.quants.quantize(weights[ours], of)
            w.add_tensor(name, raw, raw_dtype=of)
            want[ours] = gguf.quants.dequantize(raw, of)
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
        if not run(propane, "convert", path, back):
            expect(False, f"{kind.name}: read")
            continue
        got, worst = load_file(back), 0.0
        for ours, name, _ in names():
            worst = max(worst, float(np.abs(theirs(name, got[ours]) - want[ours]).max()))
        expect(worst == 0, f"{kind.name}: values as gguf.quants takes them apart (largest difference {worst:.2g})")


def check_hashes():
    """Decodes the blocks of tests/model/test_gguf.c."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "model", "test_gguf.c")
    for name, scale, low, want in re.findall(r'\{GGUF_TYPE_(\w+), (-?\d+), (-?\d+), "(\w+)"\}', open(path).read()):
        kind, scale, low = Q[name], int(scale), int(low)
        size = gguf.GGML_QUANT_SIZES[kind][1]
        raw = ((np.arange(50 * size, dtype=np.uint64) * 2654435761 & 0xFFFFFFFF) >> 24).astype(np.uint8).reshape(50, size)
        for n in range(50):
            for at, bits in ((scale, 0x2000 + 37 * n), (low, 0x2800 + 11 * n)):
                if at >= 0:
                    raw[n, at : at + 2] = (bits & 255, bits >> 8)
            if kind == Q.MXFP4:
                raw[n, 0] = n if n < 2 else 100 + n
        values = gguf.quants.dequantize(raw.reshape(1, -1), kind).astype("<f4")
        expect(hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest().startswith(want), f"{name}: the hash in test_gguf.c")


def check_vocabularies(propane, folder):
    data = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data", "tokenizers")
    for name, model, pre in (("gpt2", "gpt2", "gpt-2"), ("llama3", "gpt2", "llama-bpe"), ("qwen", "gpt2", "qwen2"), ("sentencepiece", "llama", "default")):
        t = json.load(open(os.path.join(data, name + ".json")))
        size = 1 + max(list(t["model"]["vocab"].values()) + [a["id"] for a in t["added_tokens"]])
        make_model(folder, size)
        path = os.path.join(folder, name + ".gguf")
        if not run(propane, "convert", folder, path, "--tokenizer", os.path.join(data, name + ".json")):
            expect(False, f"{name}: written")
            continue
        r = gguf.GGUFReader(path)
        tokens = [k for _, k in sorted({**{i: k for k, i in t["model"]["vocab"].items()}, **{a["id"]: a["content"] for a in t["added_tokens"]}}.items())]
        good = r.fields["tokenizer.ggml.model"].contents() == model and r.fields["tokenizer.ggml.pre"].contents() == pre
        good = good and r.fields["tokenizer.ggml.tokens"].contents() == tokens
        if model == "gpt2":
            good = good and r.fields["tokenizer.ggml.merges"].contents() == [" ".join(m) if isinstance(m, list) else m for m in t["model"]["merges"]]
        expect(good, f"{name}: vocabulary of {size} in the file")
        text = os.path.join(folder, "text")  # the llama kind encodes a mark in the text as bytes, as llama2.c does
        open(text, "w").write("\n".join(c[0].replace("\n", " ") for c in json.load(open(os.path.join(data, name + ".cases.json")))["cases"] if c[0] and "<" not in c[0] and (model == "gpt2" or "▁" not in c[0])) + "\n")
        ids = [subprocess.run([propane, "tokenize", text, "--tokenizer", p, "--print-ids", "lines"], capture_output=True).stdout for p in (path, os.path.join(data, name + ".json"))]
        expect(ids[0] == ids[1] and len(ids[0]) > 1000, f"{name}: the vocabulary read back gives the same ids")


def tiny_models(vocab):
    """Yields name, vocabulary of tests/data/tokenizers, model: one of each architecture, with weights that make its choices
    clear."""
    from transformers.utils import logging
    logging.disable_progress_bar()
    import torch
    from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)
    sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256)
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    scaled = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
    ends = lambda n: dict(vocab_size=n, bos_token_id=None, eos_token_id=None)
    for name, words, make in (("llama", "sentencepiece", lambda n: LlamaForCausalLM(LlamaConfig(**sizes, **ends(n), rope_parameters=plain, tie_word_embeddings=False))),
                              ("llama3", "llama3", lambda n: LlamaForCausalLM(LlamaConfig(**sizes, **ends(n), rope_parameters=scaled, tie_word_embeddings=True))),
                              ("qwen2", "qwen", lambda n: Qwen2ForCausalLM(Qwen2Config(**sizes, **ends(n), rope_parameters=plain, tie_word_embeddings=True))),
                              ("qwen3", "qwen", lambda n: Qwen3ForCausalLM(Qwen3Config(**sizes, **ends(n), rope_parameters=plain, head_dim=32, tie_word_embeddings=True))),
                              ("gpt2", "gpt2", lambda n: GPT2LMHeadModel(GPT2Config(**ends(n), n_embd=64, n_layer=2, n_head=4, n_positions=256)))):
        torch.manual_seed(11)
        model = make(vocab[words])
        for p_name, p in model.named_parameters():
            table = p is model.get_input_embeddings().weight or "wpe" in p_name
            if p.dim() == 1:
                torch.nn.init.normal_(p, 0.0 if p_name.endswith("bias") else 1.0, 0.2)
            else:
                torch.nn.init.normal_(p, 0.0, 0.5 if table else 1.5 * p.shape[0 if name == "gpt2" else 1] ** -0.5)
        yield name, words, model.eval()


def check_llama_cpp(propane, folder):
    """Returns llama.cpp's greedy text for Propane's files. Its matrix products round the activations to the weights' type (8
    bits if these are in blocks), and Propane's do not. With F32 the ids are equal; with other types they may differ if two
    ids are about equally likely. Observed differences of log p: F32 9e-6 (GPT-2 2e-3, because ggml computes GELU from an
    fp16 table), F16 0.02, BF16 0.11, Q8_0 0.22, Q4_0 0.33."""
    try:
        import llama_cpp
        import torch, transformers
    except ImportError as missing:
        print(f"skipped: text of llama.cpp: {missing}")
        return
    data = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "data", "tokenizers")
    vocab = {}
    for words in ("gpt2", "llama3", "qwen", "sentencepiece"):
        t = json.load(open(os.path.join(data, words + ".json")))
        vocab[words] = 1 + max(list(t["model"]["vocab"].values()) + [a["id"] for a in t["added_tokens"]])
    prompt, count = [5, 17, 40, 3, 99], 64
    for name, words, model in tiny_models(vocab):
        source = os.path.join(folder, "source-" + name)
        model.save_pretrained(source)
        for dtype, bound in (("f32", 4e-3), ("f16", 0.04), ("bf16", 0.2), ("q8_0", 0.5), ("q4_0", 0.6)):
            path = os.path.join(folder, f"{name}-{dtype}.gguf")
            if not run(propane, "convert", source, path, "--tokenizer", os.path.join(data, words + ".json"), "--dtype", dtype):
                expect(False, f"{name} {dtype}: written")
                continue
            done = subprocess.run([propane, "generate", path, "--prompt-ids", " ".join(map(str, prompt)), "--count", str(count), "--temperature", "0",
                                   "--ignore-end", "--json", "--logprobs", "0"], capture_output=True, text=True)
            if done.returncode:
                print(done.stderr)
                expect(False, f"{name} {dtype}: text")
                continue
            tokens = json.loads(done.stdout)["tokens"]
            ours, told = [t["id"] for t in tokens], np.array([t["logprob"] for t in tokens])
            try:
                theirs_model = llama_cpp.Llama(model_path=path, n_ctx=256, logits_all=True, type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, verbose=False)
            except Exception as why:
                expect(False, f"{name} {dtype}: llama.cpp opens it ({why})")
                continue
            theirs_model.eval(prompt + ours[:-1])
            scores = np.array(theirs_model.scores[len(prompt) - 1:len(prompt) + count - 1], dtype=np.float64)
            log_p = scores - np.log(np.exp(scores - scores.max(1, keepdims=True)).sum(1, keepdims=True)) - scores.max(1, keepdims=True)
            worst = float(np.abs(log_p[np.arange(count), ours] - told).max())
            same = int((log_p.argmax(1) == ours).sum())
            gap = float((log_p.max(1) - log_p[np.arange(count), ours]).max())
            expect(len(ours) == count and worst <= bound and (same == count if dtype == "f32" else gap <= bound / 2),
                   f"{name} {dtype}: {same} of {count} greedy ids are llama.cpp's, of {len(set(ours))} kinds; log p differs by {worst:.2g} at most, the best is {gap:.2g} above ours")
            theirs_model.close()


def make_model(folder, vocab):
    C["vocab_size"] = vocab
    rng = np.random.default_rng(5)
    weights = {ours: rng.standard_normal(shape).astype(np.float32) * np.float32(0.05) for ours, _, shape in names()}
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    json.dump(C, open(os.path.join(folder, "config.json"), "w"))
    return weights


def main(propane):
    with tempfile.TemporaryDirectory() as folder:
        weights = make_model(folder, 320)
        check_written(propane, folder, weights)
        check_read(propane, folder, weights, np.random.default_rng(6))
        check_hashes()
        check_vocabularies(propane, folder)
        check_llama_cpp(propane, folder)
    print(f"{count - bad} of {count} checks are good")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(__doc__)
        sys.exit(2)
    program = sys.argv[1] if len(sys.argv) == 2 else os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release", "propane")
    if not os.path.exists(program):
        print(f"gguf_check: {program} is not built: run make")
        sys.exit(77)
    sys.exit(main(program))
