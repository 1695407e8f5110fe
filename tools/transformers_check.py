#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that transformers reads what `propane convert` writes, and the reverse.

    python3 tools/transformers_check.py [PROPANE [NAME]]      (exit 1: different; 77: a package is missing)

For each architecture, transformers creates tiny random models (grouped queries, tied and separate heads, biases, scaled
RoPE). Propane's logits, loss and every gradient, in each plan, are compared with transformers in float64; every form that
Propane writes is read back and loaded in transformers. NAME: only the architectures that begin with it.

A random Llama from transformers (grouped queries, tied and separate heads, no biases), saved in one file and in shards, is
converted to Propane's folder, safetensors, GGUF and llama2.c forms. When transformers loads the result, its logits are equal
to the bit (F32) or within the rounding of the type. The folder of a short training run is exported and also loads, with its
tokenizer, whose ids are Propane's.
"""
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    import torch
    from safetensors.torch import load_file
    from transformers import (AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config,
                              GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM,
                              Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, SmolLM3Config, SmolLM3ForCausalLM)
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from reference_models import as_stored
except ImportError as e:
    print(f"transformers_check: {e}")
    sys.exit(77)

try:
    import gguf
    from gguf import GGUFReader
except ImportError:
    GGUFReader = None

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
        if name == "llama2.c" and not tied:  # that format has no theta other than 10000
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


# ---- every architecture: logits, loss, gradients, export -----------------------------------------------------------------

def architectures():
    """Yields the name, a tiny model from transformers, and the plans that are tried with it."""
    common = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 32}
    linear = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
    yield "llama", LlamaForCausalLM(LlamaConfig(**common, rope_parameters=plain, tie_word_embeddings=True))
    yield "llama-biases", LlamaForCausalLM(LlamaConfig(**common, rope_parameters=plain, tie_word_embeddings=False,
                                                       attention_bias=True, mlp_bias=True, head_dim=16))
    yield "llama-llama3", LlamaForCausalLM(LlamaConfig(**common, rope_parameters=llama3, tie_word_embeddings=False, rms_norm_eps=1e-5))
    yield "llama-linear", LlamaForCausalLM(LlamaConfig(**common, rope_parameters=linear, tie_word_embeddings=True))
    yield "qwen2", Qwen2ForCausalLM(Qwen2Config(**common, rope_parameters=plain, tie_word_embeddings=True))
    yield "qwen2-separate", Qwen2ForCausalLM(Qwen2Config(**common, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=False))
    yield "qwen3", Qwen3ForCausalLM(Qwen3Config(**common, rope_parameters=plain, tie_word_embeddings=True, head_dim=16))
    yield "qwen3-separate", Qwen3ForCausalLM(Qwen3Config(**common, rope_parameters={"rope_type": "default", "rope_theta": 1e6}, tie_word_embeddings=False, head_dim=24, attention_bias=True))
    for raw in (False, True):
        yield "qwen3-moe" + raw * "-plain", Qwen3MoeForCausalLM(Qwen3MoeConfig(
            **common, rope_parameters=plain, head_dim=16, num_experts=6, num_experts_per_tok=3 - raw, moe_intermediate_size=20, norm_topk_prob=not raw))
    yield "mistral-window", MistralForCausalLM(MistralConfig(**common, rope_parameters=plain, sliding_window=9, tie_word_embeddings=False))
    yield "smollm3", SmolLM3ForCausalLM(SmolLM3Config(**{**common, "num_hidden_layers": 4}, rope_parameters=plain, pad_token_id=None))
    yield "gemma2", Gemma2ForCausalLM(Gemma2Config(**common, rope_parameters=plain, head_dim=16, query_pre_attn_scalar=10, sliding_window=7, pad_token_id=None))
    yield "gemma3", Gemma3ForCausalLM(Gemma3TextConfig(**{**common, "num_hidden_layers": 4}, head_dim=16, query_pre_attn_scalar=16, sliding_window=7,
                                                       sliding_window_pattern=3, pad_token_id=None))
    gpt2 = dict(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2)
    yield "gpt2", GPT2LMHeadModel(GPT2Config(**gpt2))
    yield "gpt2-separate", GPT2LMHeadModel(GPT2Config(**gpt2, n_inner=80, tie_word_embeddings=False))


def randomise(model, seed):
    """Moves every weight away from its initial value: norms around 1, biases around 0, matrices large enough to matter."""
    torch.manual_seed(seed)
    tables = {id(model.get_input_embeddings().weight)}
    for name, p in model.named_parameters():
        if p.dim() == 1:
            torch.nn.init.normal_(p, 0.0 if name.endswith("bias") or "Gemma" in type(model).__name__ else 1.0, 0.2)
        else:
            torch.nn.init.normal_(p, 0.0, 0.5 if id(p) in tables or "wpe" in name else p.shape[1] ** -0.5)
    return model.eval()


def relative(got, want):
    """Returns the largest difference relative to the largest value."""
    return ((got - want).abs().max() / want.abs().max().clamp_min(1e-12)).item()


def truth(model, ids):
    double = copy.deepcopy(model).double()
    if hasattr(double, "set_experts_implementation"):
        double.set_experts_implementation("eager")  # grouped matrix products do not support double
    logits = double(ids[None]).logits[0]
    loss = torch.nn.functional.cross_entropy(logits[:-1], ids[1:])
    loss.backward()
    grads = {n: g for of, p in double.named_parameters() for n, g in as_stored(of, p.grad).items()}
    return logits.detach(), loss.item(), grads


def check_numbers(propane, folder, name, model, model_path, ids):
    logits, loss, grads = truth(model, ids)
    text = os.path.join(folder, "ids.txt")
    open(text, "w").write(" ".join(map(str, ids.tolist())) + "\n")
    for precision, plan, tolerance in (("fp32", "layer", 1e-4), ("fp32", "six", 1e-4), ("fp32", "ten", 1e-4), ("fp16", "layer", 2e-2), ("fp16", "six", 2e-2), ("fp16", "ten", 2e-2)):
        say = f"{name} {precision} {plan}"
        out, gradients = os.path.join(folder, "logits.safetensors"), os.path.join(folder, "gradients.safetensors")
        r = subprocess.run([propane, "eval", model_path, "--ids", text, "--precision", precision, "--plan", plan, "--logits", out,
                            "--gradients", gradients, "--json"], capture_output=True, text=True)
        if r.returncode:
            expect(False, f"{say}: {r.stderr.strip()}")
            continue
        if plan == "layer":  # logits do not depend on the plan
            worst = relative(load_file(out)["logits"].double(), logits)
            expect(worst <= tolerance, f"{say}: logits differ by {worst:.2g} of the largest")
            off = abs(json.loads(r.stdout)["loss"] - loss)
            expect(off <= tolerance, f"{say}: loss differs by {off:.2g}, loss {loss:.4f}")
        ours = load_file(gradients)
        missing = sorted(set(grads) ^ set(ours))
        expect(not missing, f"{say}: {len(grads)} gradients, by name {missing[:4]}")
        worst, where = max((relative(ours[n].double(), g), n) for n, g in grads.items() if n in ours)
        expect(worst <= tolerance, f"{say}: gradients differ by {worst:.2g} of the largest, most in {where}")


def check_forms(propane, folder, name, model, source, ids):
    """Writes every form and reads it back: the folder loads in transformers, and its logits are equal."""
    with torch.no_grad():
        want = model(ids[None]).logits[0]
    model.save_pretrained(os.path.join(folder, "shards"), max_shard_size="20KB")
    model.base_model.save_pretrained(os.path.join(folder, "bare")) if model.config.tie_word_embeddings else None
    for form, start, steps, tolerance in (("folder", source, [], 0), ("shards", "shards", [], 0), ("bare model", "bare", [], 0),
                                          ("safetensors", source, ["one.safetensors"], 0), ("gguf", source, ["one.gguf"], 0), ("gguf f16", source, ["half.gguf"], 1e-2)):
        if form == "bare model" and not model.config.tie_word_embeddings or "gguf" in form and not getattr(model.config, "norm_topk_prob", True):
            continue
        path = start if os.path.isabs(start) else os.path.join(folder, start)
        good = True
        for step in steps:
            good = good and run(propane, "convert", path, os.path.join(folder, step), "--dtype", "f16" if "f16" in form else "f32")
            path = os.path.join(folder, step)
        out = os.path.join(folder, "out")
        shutil.rmtree(out, ignore_errors=True)
        if not good or not run(propane, "convert", path, out):
            expect(False, f"{name}: by way of {form}")
            continue
        back, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True)
        with torch.no_grad():
            worst = relative(back.eval()(ids[None]).logits[0], want)
        clean = not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
        expect(worst <= tolerance and clean, f"{name}: by way of {form} transformers' logits differ by {worst:.2g}{'' if clean else ', keys: ' + str(info)}")
    if GGUFReader and os.path.exists(os.path.join(folder, "one.gguf")):
        reader = GGUFReader(os.path.join(folder, "one.gguf"))
        arch = bytes(reader.fields["general.architecture"].parts[-1]).decode()
        known = gguf_names(arch, model.config.num_hidden_layers)
        names = {t.name for t in reader.tensors}
        called = {"mistral": "llama", "gemma3_text": "gemma3", "qwen3_moe": "qwen3moe"}.get(model.config.model_type, model.config.model_type)
        expect(arch == called and names <= known, f"{name}: gguf opens it, {len(names)} tensors with known names {sorted(names - known)[:3]}")


def gguf_names(arch, layers):
    """Returns the tensor names that the package knows for an architecture."""
    code = {v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch]
    bases = [gguf.TENSOR_NAMES[t].format(bid=b) for t in gguf.MODEL_TENSORS[code] for b in range(layers)]
    return {b + end for b in bases for end in (".weight", ".bias")}


def check_training(propane, folder, arch):
    """Trains a new model of the architecture; its run loads directly."""
    text, out, model = (os.path.join(folder, x) for x in ("t.txt", "fresh-out", "fresh"))
    open(text, "w").write(open(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "README.md")).read())
    good = run(propane, "train", "--data", text, "--kind", "bytes", "--arch", arch, "--run", model, "--steps", "4", "--layers", "2", "--width", "32", "--heads", "2",
               "--context", "32", "--batch", "2", "--eval-every", "0") and run(propane, "convert", model, out)
    expect(good, f"{arch}: a fresh model trains and is exported")
    if good:
        back, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True)
        direct = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        ids = torch.arange(20)[None]
        with torch.no_grad():
            same = torch.equal(back(ids).logits, direct(ids).logits)
        expect(same and back.config.model_type == arch and not info["missing_keys"], f"{arch}: transformers loads the export and the run's own folder alike")


def check_architectures(propane, folder, only):
    for n, (name, model) in enumerate(architectures()):
        if only and not name.startswith(only):
            continue
        at = os.path.join(folder, name)
        os.makedirs(at)
        randomise(model, 11 + n)
        source = os.path.join(at, "hf")
        model.save_pretrained(source)
        ids = torch.randint(3, 97, (33,), generator=torch.Generator().manual_seed(n))
        check_numbers(propane, at, name, model, source, ids)
        check_forms(propane, at, name, model, source, ids)
    for arch in ("llama", "qwen2", "qwen3", "gpt2", "qwen3_moe"):
        if not only or arch.startswith(only):
            at = os.path.join(folder, "train-" + arch)
            os.makedirs(at)
            check_training(propane, at, arch)


def main(propane, only):
    with tempfile.TemporaryDirectory() as folder:
        check_architectures(propane, folder, only)
        if not only:
            check_model(propane, folder, False)
            check_model(propane, folder, True)
            check_run(propane, folder)
    print(f"{count - bad} of {count} checks are good")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) > 3:
        print(__doc__)
        sys.exit(2)
    program = sys.argv[1] if len(sys.argv) >= 2 else os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build", "release", "propane")
    if not os.path.exists(program):
        print(f"transformers_check: {program} is not built: run make")
        sys.exit(77)
    sys.exit(main(program, sys.argv[2] if len(sys.argv) == 3 else None))
