#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Converts ordinary models with random weights by coremltools and asks `propane check` what M1 to M5 do with them through Core ML.

Usage: tools/check_models.py PROPANE [--most SECONDS] [NAME...]     needs torch, torchvision, coremltools; timm and transformers if
they are there. Prints a line a model: what is refused, which rules move operations, how many. Exit code 1 if a model is refused
on a chip: an ordinary model runs through Core ML, so the rule is wrong. Prints "skipped: why" and ends with 0 without torch.
"""
import argparse, json, subprocess, sys, tempfile, time, warnings

TORCHVISION = ("resnet18 mobilenet_v2 mobilenet_v3_small squeezenet1_1 efficientnet_b0 shufflenet_v2_x0_5 densenet121 regnet_y_400mf "
               "swin_t mnasnet0_5 alexnet resnet50").split()
TIMM = ("vit_tiny_patch16_224 mobilevit_xxs convnext_atto ghostnet_100 efficientformerv2_s0 repvgg_a0 tf_efficientnet_lite0 levit_128s "
        "edgenext_xx_small mobilevitv2_050 pvt_v2_b0 hrnet_w18_small poolformer_s12 fastvit_t8 xcit_nano_12_p16_224 fbnetc_100 "
        "mobilenetv4_conv_small tinynet_e regnetx_002 seresnext26t_32x4d coat_lite_tiny dla34 lcnet_050 mixnet_s rexnet_100").split()
TRANSFORMERS = "Bert DistilBert Roberta GPT2 Llama ViT".split()


def torchvision_model(name):
    import torch, torchvision
    return torchvision.models.get_model(name, weights=None), torch.zeros(1, 3, 224, 224)


def timm_model(name):
    import timm, torch
    model = timm.create_model(name, pretrained=False)
    return model, torch.zeros(1, *model.default_cfg["input_size"])


def transformers_model(name):
    import torch, transformers
    config = getattr(transformers, name + "Config")()
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000,
             "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "image_size": 64,
             "num_key_value_heads": 4, "head_dim": 16}
    for key, value in sizes.items():
        if key in config.attribute_map or key in config.to_dict():
            setattr(config, key, value)
    config.use_cache, config._attn_implementation = False, "eager"
    model = getattr(transformers, name + "Model")(config)
    return model, torch.zeros(1, 3, 64, 64) if name == "ViT" else torch.zeros(1, 32, dtype=torch.int32)


def convert(make, name, target, path):
    import coremltools, numpy, torch
    model, example = make(name)

    class First(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            y = self.model(x)
            return y if isinstance(y, torch.Tensor) else y[0]

    with torch.no_grad():
        traced = torch.jit.trace(First().eval(), example, check_trace=False, strict=False)
    dtype = numpy.float32 if example.dtype == torch.float32 else numpy.int32
    coremltools.convert(traced, inputs=[coremltools.TensorType(name="x", shape=example.shape, dtype=dtype)], convert_to="mlprogram",
                        minimum_deployment_target=target, skip_model_load=True).save(path)


def check(propane, path):
    done = subprocess.run([propane, "check", path, "--target", "m1,m2,m3,m4,m5", "--json"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{path}: {done.stderr}")
    report = json.loads(done.stdout)
    refused = [c["chip"] for c in report["chips"] if c["verdict"] == "refused"]
    rules = sorted({f["rule"] for f in report["findings"] if f["falls_back"]})
    moved = max(c["segments"]["operations_off_engine"] for c in report["chips"])
    return report["path"], refused, rules, moved


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("propane")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--most", type=float, default=3600, help="seconds after which no further model is begun")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    try:
        import coremltools, torch, torchvision
    except ImportError as missing:
        print(f"skipped: {missing}")
        return 0
    targets = [coremltools.target.iOS15, coremltools.target.iOS16, coremltools.target.iOS17, coremltools.target.iOS18]
    models = [(torchvision_model, n) for n in TORCHVISION] + [(timm_model, n) for n in TIMM] + [(transformers_model, n) for n in TRANSFORMERS]
    start, seen, wrong, falling = time.monotonic(), 0, 0, 0
    for i, (make, name) in enumerate(models):
        if (options.names and name not in options.names) or time.monotonic() - start > options.most:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{name}.mlpackage"
            try:
                convert(make, name, targets[i % 4], path)
            except Exception as why:  # of coremltools or a package that is not there: nothing that check could be blamed for
                print(f"{name:28} skipped: {str(why).splitlines()[0][:90]}")
                continue
            route, refused, rules, moved = check(options.propane, path)
        seen, wrong, falling = seen + 1, wrong + bool(refused), falling + bool(rules)
        print(f"{name:28} {targets[i % 4].name:6} {'refused on ' + ' '.join(refused) if refused else 'not refused'}"
              + (f", {moved} operations fall back by {' '.join(rules)}" if rules else ""), flush=True)
        wrong += route != "coreml"
    print(f"{seen} models, {wrong} refused, of {falling} some operations fall back")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
