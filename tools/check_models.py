#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs ordinary models from torchvision, timm and transformers, converted by coremltools with default options, through
`propane check --path coreml` for M1 to M5. None may be refused, and each operation that falls back must name a rule with its
source.

    check_models.py OUT.csv [NAME...]     PROPANE names the command; rows that OUT.csv already has are not computed again

Weights are random (seed 0), so nothing is downloaded; batch norms see a few random batches. The columns are: model, library,
target, operations, the verdict for the worst chip, operations off the engine (on the worst chip), the rules responsible,
switches between engine and CPU, and the largest error of `propane run` relative to the largest value of PyTorch in fp32.
Targets iOS15 to iOS18 are used in turn. Exits with 1 if a model is refused or gives wrong results, and with 77 if a library
is missing.
"""
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TQDM_DISABLE", "1")
warnings.filterwarnings("ignore")
try:
    import logging

    logging.disable(logging.WARNING)
    import coremltools as ct
    import numpy as np
    import timm
    import torch
    import torchvision
    import transformers
except ImportError as e:
    print(f"a library is not here: {e}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PROPANE = os.environ.get("PROPANE", os.path.join(HERE, "..", "build", "release", "propane"))
CHIPS = "m1,m2,m3,m4,m5"
TARGETS = ["iOS15", "iOS16", "iOS17", "iOS18"]
# fp16 against fp32: random weights give some of these models a bad scale. Observed: at most 5.7e-2 (resnext50_32x4d).
WORST = 1e-1

VISION = """alexnet vgg11 squeezenet1_1 resnet18 resnet50 resnext50_32x4d densenet121 googlenet mobilenet_v2
mobilenet_v3_small mobilenet_v3_large mnasnet0_5 shufflenet_v2_x0_5 efficientnet_b0 regnet_y_400mf convnext_tiny swin_t""".split()
SEGMENTATION = ["lraspp_mobilenet_v3_large", "deeplabv3_mobilenet_v3_large"]
TIMM = """deit_tiny_patch16_224 mobilevit_xxs ghostnet_100 edgenext_xx_small poolformer_s12 levit_128s
fastvit_t8 repvgg_a0 mobileone_s0 tinynet_e lcnet_050 pit_ti_224 xcit_nano_12_p16_224 dla34 hrnet_w18_small
cspresnet50 res2net50_26w_4s efficientvit_b0 efficientformer_l1 mixer_s32_224 gmixer_12_224 rexnet_100
vit_tiny_patch16_224 convnext_atto efficientformerv2_s0 tf_efficientnet_lite0 mobilevitv2_050 pvt_v2_b0 fbnetc_100
mobilenetv4_conv_small regnetx_002 seresnext26t_32x4d coat_lite_tiny mixnet_s""".split()


class First(torch.nn.Module):
    """Returns the first tensor of a model's output."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        y = self.model(*inputs)
        if hasattr(y, "to_tuple"):
            y = y.to_tuple()
        while not isinstance(y, torch.Tensor):
            y = list(y.values())[0] if isinstance(y, dict) else y[0]
        return y


def language():
    t = transformers
    small = dict(vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
    ids = torch.arange(32).reshape(1, 32) % 199
    plain = dict(attn_implementation="eager")
    yield "bert", t.BertModel(t.BertConfig(**small, **plain)), ids
    yield "roberta", t.RobertaModel(t.RobertaConfig(**small, max_position_embeddings=64, **plain)), ids
    yield "electra", t.ElectraModel(t.ElectraConfig(**small, embedding_size=32, **plain)), ids
    yield "albert", t.AlbertModel(t.AlbertConfig(**small, embedding_size=32, **plain)), ids
    yield "distilbert", t.DistilBertModel(t.DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=128,
                                                             **plain)), ids
    yield "t5_encoder", t.T5EncoderModel(t.T5Config(vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4)), ids
    picture = torch.randn(1, 3, 64, 64)
    seen = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
    yield "clip_vision", t.CLIPVisionModel(t.CLIPVisionConfig(**seen, **plain)), picture
    yield "vit", t.ViTModel(t.ViTConfig(**seen, **plain)), picture
    yield "segformer", t.SegformerModel(t.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 64])), picture
    yield "whisper_encoder", t.WhisperModel(t.WhisperConfig(
        vocab_size=200, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=128, decoder_ffn_dim=128, num_mel_bins=40, max_source_positions=100, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, **plain)).encoder, torch.randn(1, 40, 200)
    yield "wav2vec2", t.Wav2Vec2Model(t.Wav2Vec2Config(**small, conv_dim=[32, 32], conv_stride=[5, 2], conv_kernel=[10, 3],
                                                       num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4,
                                                       num_feat_extract_layers=2, **plain)), torch.randn(1, 4000)


def models():
    """Yields (name, library, model, example input); each model is created when its turn comes."""
    for name in VISION:
        side = 96 if name in ("googlenet", "alexnet", "vgg11") else 64
        yield name, "torchvision", lambda n=name, s=side: (
            torchvision.models.get_model(n, weights=None, **({"init_weights": True} if n == "googlenet" else {})),
            torch.randn(1, 3, s, s))
    for name in SEGMENTATION:
        yield name, "torchvision", lambda n=name: (torchvision.models.get_model(n, weights=None, weights_backbone=None),
                                                   torch.randn(1, 3, 64, 64))
    for name in TIMM:
        def make(n=name):
            model = timm.create_model(n, pretrained=False)
            return model, torch.randn(1, *model.default_cfg["input_size"])
        yield name, "timm", make
    for name, model, x in language():
        yield name, "transformers", lambda m=model, v=x: (m, v)


def settle(model, x):
    """Sets the statistics of batch norms from a few random batches; without them, random weights leave the range of fp16."""
    norms = [m for m in model.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for m in norms:
        m.momentum = None  # averages over all batches
    if not norms:
        return
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(4, *x.shape[1:]))


def convert(model, x, target, path):
    settle(model, x)
    model = First(model.eval()).eval()
    with torch.no_grad():
        traced = torch.jit.trace(model, x, check_trace=False)
        want = model(x).float().numpy()
    kind = np.int32 if x.dtype == torch.int64 else np.float32
    made = ct.convert(traced, inputs=[ct.TensorType(name="x", shape=tuple(x.shape), dtype=kind)],
                      minimum_deployment_target=getattr(ct.target, target))
    made.save(path)
    return want, x.numpy().astype(kind)


def error_of(package, x, want, folder):
    np.save(os.path.join(folder, "x.npy"), np.ascontiguousarray(x))
    subprocess.run([PROPANE, "run", package, "--input", f"x={folder}/x.npy", "-o", folder], check=True, capture_output=True)
    got = [f for f in os.listdir(folder) if f.endswith(".npy") and f != "x.npy"]
    y = np.load(os.path.join(folder, got[0])).astype(np.float64)
    return float(np.abs(y - want).max() / max(np.abs(want).max(), 1e-9))


def count_of(package):
    shown = subprocess.run([PROPANE, "show", package, "--json"], check=True, capture_output=True, text=True)
    kinds = json.loads(shown.stdout)["functions"][0]["operation_counts"]
    return sum(n for kind, n in kinds.items() if kind != "const")


def row_of(name, library, make, target):
    torch.manual_seed(0)
    model, x = make()
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "m.mlpackage")
        want, data = convert(model, x, target, package)
        told = subprocess.run([PROPANE, "check", package, "--path", "coreml", "--target", CHIPS, "--json"],
                              capture_output=True, text=True)
        report = json.loads(told.stdout)
        refused = sum(c["refusals"] for c in report["chips"])
        off = max(c["segments"]["operations_off_engine"] for c in report["chips"])
        switches = max(c["segments"]["switches"] for c in report["chips"])
        rules = sorted({f["rule"] for f in report["findings"] if f["severity"] in ("refused", "falls back")})
        unsourced = [f["rule"] for f in report["findings"] if f["severity"] == "falls back" and not f.get("source")]
        verdict = "refused" if refused else "falls back" if off else "engine"
        return [name, library, target, count_of(package), verdict, off, " ".join(rules), switches,
                f"{error_of(package, data, want, folder):.2g}"], unsourced


def main():
    out, wanted = sys.argv[1], sys.argv[2:]
    rows = {}
    if os.path.exists(out):
        with open(out, newline="") as f:
            rows = {r[0]: r for r in list(csv.reader(f))[1:]}
    bad = 0
    for i, (name, library, make) in enumerate(models()):
        if name in rows or (wanted and name not in wanted):
            continue
        try:
            row, unsourced = row_of(name, library, make, TARGETS[i % 4])
        except Exception as e:  # a failure of the converter is reported, not counted
            print(f"{name}: not converted: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}", flush=True)
            continue
        print(",".join(map(str, row)), *unsourced, flush=True)
        rows[name] = row
        bad += row[4] == "refused" or float(row[8]) > WORST or bool(unsourced)
        with open(out, "w", newline="") as f:
            w = csv.writer(f, lineterminator="\n")
            w.writerow("model library target operations verdict off_engine rules switches error".split())
            w.writerows(rows.values())
    print(f"{len(rows)} models, {bad} bad")
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main())
