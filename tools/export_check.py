#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the packages that `propane convert MODEL NAME.mlpackage` creates from language models.

export_check.py [PROPANE]: for every architecture, with a separate and with a tied head, tiny random models from transformers
become packages. (Without transformers, the committed models in tests/data are used, whose logits transformers computed.)
`propane run` calls them token by token, with all steps in one run, and in pieces. The logits must match transformers within
1e-4 of the largest (fp32) or 1e-2 (fp16), and the greedy continuation must equal that of `propane generate`. If coremltools is
installed, it loads each package, its shape inference succeeds with the call length left open, its operations are those that
Propane prints, and a package read and written again by Propane is the same program. Exits with 77 if neither is installed;
the last line reports what was done.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PROPANE = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "build", "release", "propane")
CONTEXT, PIECE, TOKENS = 48, 8, 32
FP32, FP16 = 1e-4, 1e-2  # observed 1.2e-6 and 2.8e-3

try:
    import torch
    import transformers
except ImportError:
    transformers = None
try:
    import coreml_check  # exits if PyTorch or coremltools is missing
except SystemExit:
    coreml_check = None


def command(*arguments):
    done = subprocess.run([PROPANE, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"propane {' '.join(arguments)}: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    return done.stdout


def tensors(path):
    """Reads a safetensors file without the safetensors package."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    kinds = {"F32": np.float32, "I32": np.int32, "F64": np.float64}
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], kinds[v["dtype"]]).reshape(v["shape"])
            for k, v in header.items() if k != "__metadata__"}


def committed():
    """Yields name, folder, ids, logits."""
    data = os.path.join(HERE, "..", "tests", "data")
    for name in sorted(os.listdir(data)):
        if name.startswith("arch_"):
            t = tensors(os.path.join(data, name, "reference.safetensors"))
            yield name[5:], os.path.join(data, name), t["tokens"][0, :t["logits"].shape[1]], t["logits"][0]


def fresh(folder):
    from transformers import GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

    common = {"vocab_size": 320, "bos_token_id": 1, "eos_token_id": 2}
    shape = {"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
             "max_position_embeddings": 64, **common}
    for tied in (False, True):
        for name, config in (("llama", LlamaConfig(**shape, tie_word_embeddings=tied)),
                             ("qwen2", Qwen2Config(**shape, tie_word_embeddings=tied)),
                             ("qwen3", Qwen3Config(**shape, head_dim=16, tie_word_embeddings=tied)),
                             ("gpt2", GPT2Config(**common, n_embd=64, n_layer=3, n_head=4, n_positions=64, tie_word_embeddings=tied))):
            torch.manual_seed(5)
            model = transformers.AutoModelForCausalLM.from_config(config).eval()
            for p in model.parameters():
                torch.nn.init.normal_(p, 1.0 if p.dim() == 1 else 0.0, 0.1)
            if tied:
                model.tie_weights()
            ids = torch.randint(3, 320, (1, TOKENS))
            where = os.path.join(folder, f"{name}-{'tied' if tied else 'own'}")
            model.save_pretrained(where)
            with torch.no_grad():
                yield f"{name}, {'tied' if tied else 'own'} head", where, ids[0].numpy(), model(ids).logits[0].float().numpy()


def off(got, want):
    return float(np.abs(got.astype(np.float64) - want).max() / np.abs(want).max())


def call(package, work, ids, position, context, length, states=None):
    """Every `length` ids are one call, and all calls are one run. Returns the logits of all calls, and the location of the
    states."""
    steps = len(ids) // length
    wide = {"inputIds": np.asarray(ids, np.int32).reshape(steps, 1, length),
            "position": np.asarray([[position + length * i] for i in range(steps)], np.int32)}
    rows = position + np.arange(steps * length).reshape(steps, 1, 1, length, 1)
    wide["causalMask"] = np.where(np.arange(context) > rows, -1e4, 0).astype(np.float32)
    np.savez(os.path.join(work, "in.npz"), **wide)
    given = [x for name in ("keyCache", "valueCache") if states for x in ("--input", f"{name}={os.path.join(states, name + '.npy')}")]
    out = os.path.join(work, f"out-{position}-{length}")
    command("run", package, "--input", os.path.join(work, "in.npz"), *given, "--output", out, "--shape", f"inputIds=1,{length}", "--shape",
            f"causalMask=1,1,{length},{context}")
    return np.load(os.path.join(out, "logits.npy")).astype(np.float32).reshape(steps * length, -1), out


def check(name, source, ids, logits, work):
    bad, context = [], min(CONTEXT, json.load(open(os.path.join(source, "config.json"))).get("n_positions", CONTEXT))
    worst = {}
    for dtype, limit in (("f32", FP32), ("f16", FP16)):
        package = os.path.join(work, f"{dtype}.mlpackage")
        command("convert", source, package, "--dtype", dtype, "--context", str(context), "--tokens", f"1,{PIECE}")
        single, _ = call(package, work, ids, 0, context, 1)
        begin, states = call(package, work, ids[:PIECE], 0, context, PIECE)
        rest, _ = call(package, work, ids[PIECE:], PIECE, context, 1, states)
        worst[dtype] = max(off(single, logits), off(np.concatenate([begin, rest]), logits))
        if not worst[dtype] <= limit:
            bad.append(f"{dtype}: logits differ by {worst[dtype]:.1e}")
    plain = os.path.join(work, "plain.mlpackage")
    command("convert", source, plain, "--stateless", str(len(ids)))
    np.save(os.path.join(work, "ids.npy"), np.asarray(ids, np.int32)[None])
    command("run", plain, "--input", f"inputIds={os.path.join(work, 'ids.npy')}", "--output", os.path.join(work, "plain"))
    worst["stateless"] = off(np.load(os.path.join(work, "plain", "logits.npy"))[0], logits)
    if not worst["stateless"] <= FP16:
        bad.append(f"stateless: logits differ by {worst['stateless']:.1e}")
    # The ids that `propane generate` draws after the first four, given to the package: each must be the most probable
    # one after those before it.
    written = command("generate", source, "--prompt-ids", " ".join(map(str, ids[:4])), "--temperature", "0", "--ignore-end", "--count", str(context - 5),
                      "--print-ids")
    chain = [int(i) for i in written.replace(",", " ").split()]
    chain = chain if chain[:4] == list(ids[:4]) else list(ids[:4]) + chain
    got, _ = call(os.path.join(work, "f32.mlpackage"), work, chain[:-1], 0, context, 1)
    if [int(i) for i in got[3:].argmax(1)] != chain[4:]:
        bad.append("another greedy continuation than propane generate's")
    if coreml_check:
        for kind in ("f16", "plain"):
            package = os.path.join(work, f"{kind}.mlpackage")
            difference = coreml_check.round_trip(package, work) or coreml_check.same_as_text(package, work)
            if difference:
                bad.append(f"{kind}: {difference}")
        spec, program = coreml_check.program_of(os.path.join(work, "f16.mlpackage"))
        open_length = not coreml_check.is_number(program.functions["main"].inputs["inputIds"].shape[1])
        if spec.specificationVersion != 9 or not open_length:
            bad.append("not of version 9 with an open length")
    print(f"{'FAILED' if bad else 'ok':<8}{name:<18} fp32 {worst['f32']:.1e}  fp16 {worst['f16']:.1e}  stateless fp16 {worst['stateless']:.1e}  "
          f"{len(chain) - 4} greedy ids {'; '.join(bad)}", flush=True)
    return not bad


def main():
    if not transformers and not coreml_check:
        print("neither transformers nor coremltools is here")
        return 77
    good = total = 0
    with tempfile.TemporaryDirectory() as models:
        for case in fresh(models) if transformers else committed():
            with tempfile.TemporaryDirectory() as work:
                total += 1
                good += check(*case, work)
    print(f"{good} of {total} packages are right ({'transformers' if transformers else 'stored logits'}; "
          f"{'coremltools reads them' if coreml_check else 'coremltools is not here'})")
    return 0 if good == total and good else 1


if __name__ == "__main__":
    sys.exit(main())
