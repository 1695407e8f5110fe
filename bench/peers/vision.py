#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the latency of one image for ResNet-50, MobileNetV3-Large (224 x 224) and ViT-B/16, converted by coremltools and
run by `propane run`, in alternation with ONNX Runtime and PyTorch on the same random fp32 weights. Prints times and ratios.

    vision.py [--propane build/release/propane] [--models resnet50,mobilenetv3,vit] [--peers onnxruntime,pytorch]
              [--rounds 3] [--runs 10] [--threads N] [--folder build/vision] [--profile]
    vision.py --zoo 30 [--models swin_t,zoo:conformer] [--threads 1]

--zoo takes models of torchvision (224 x 224) and the small models of tools/coreml_zoo.py (zoo:NAME; those without states,
compression or operations of their own), and prints a table of medians and ratios. A sample is the median of 3 runs, by the
wall clock; samples of Propane and ONNX Runtime alternate, and each of Propane's is from a new process. Models that cannot be
exported to ONNX are listed. Exits with 1 if Propane takes more than 3 times as long for a model, or if an output differs.

With one thread, all times are processor times, so that other work on the machine counts less; otherwise they are wall times.
A round has one process of each. The figure is the median of all runs (with one thread: of the rounds' means). The packages
and ONNX files are created once, in the folder. The largest difference from PyTorch's output is printed with the times. Exits
with 77 if PyTorch, coremltools or propane is missing; without onnxruntime and onnx, that peer is omitted.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
import warnings

from needs import absent, require

warnings.filterwarnings("ignore")
os.environ.setdefault("TQDM_DISABLE", "1")


def resnet50(nn, F):
    def conv(i, o, k, s=1, act=True):
        return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), *([nn.ReLU()] if act else []))

    class Bottleneck(nn.Module):
        def __init__(self, i, mid, s):
            super().__init__()
            self.body = nn.Sequential(conv(i, mid, 1), conv(mid, mid, 3, s), conv(mid, 4 * mid, 1, act=False))
            self.skip = nn.Identity() if i == 4 * mid else conv(i, 4 * mid, 1, s, act=False)

        def forward(self, x):
            return F.relu(self.body(x) + self.skip(x))

    blocks, width = [], 64
    for stage, (mid, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for i in range(count):
            blocks.append(Bottleneck(width, mid, 2 if stage and i == 0 else 1))
            width = 4 * mid
    return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def mobilenetv3(nn, F):
    relu, swish = nn.ReLU, nn.Hardswish

    def conv(i, o, k=1, s=1, g=1, act=None):
        return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o, eps=1e-3), *([act()] if act else []))

    class Squeeze(nn.Module):
        def __init__(self, c):
            super().__init__()
            mid = max(8, (c // 4 + 4) // 8 * 8)
            self.down, self.up, self.gate = nn.Conv2d(c, mid, 1), nn.Conv2d(mid, c, 1), nn.Hardsigmoid()

        def forward(self, x):
            return x * self.gate(self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1)))))

    class Inverted(nn.Module):
        def __init__(self, i, k, mid, o, squeeze, act, s):
            super().__init__()
            self.add = i == o and s == 1
            layers = [conv(i, mid, act=act)] if mid != i else []
            layers += [conv(mid, mid, k, s, mid, act)] + ([Squeeze(mid)] if squeeze else []) + [conv(mid, o)]
            self.body = nn.Sequential(*layers)

        def forward(self, x):
            y = self.body(x)
            return x + y if self.add else y

    rows = [(16, 3, 16, 16, 0, relu, 1), (16, 3, 64, 24, 0, relu, 2), (24, 3, 72, 24, 0, relu, 1), (24, 5, 72, 40, 1, relu, 2),
            (40, 5, 120, 40, 1, relu, 1), (40, 5, 120, 40, 1, relu, 1), (40, 3, 240, 80, 0, swish, 2), (80, 3, 200, 80, 0, swish, 1),
            (80, 3, 184, 80, 0, swish, 1), (80, 3, 184, 80, 0, swish, 1), (80, 3, 480, 112, 1, swish, 1), (112, 3, 672, 112, 1, swish, 1),
            (112, 5, 672, 160, 1, swish, 2), (160, 5, 960, 160, 1, swish, 1), (160, 5, 960, 160, 1, swish, 1)]
    return nn.Sequential(conv(3, 16, 3, 2, act=swish), *(Inverted(*r) for r in rows), conv(160, 960, act=swish), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(960, 1280), swish(), nn.Linear(1280, 1000))


def vit(nn, F):
    import torch

    width, heads, layers, tokens = 768, 12, 12, 197

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            q, k, v = (t.view(1, tokens, heads, width // heads).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, tokens, width)
            x = x + self.out(y)
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.cls = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.randn(1, 1, width))
            self.place = nn.Parameter(0.02 * torch.randn(1, tokens, width))
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

        def forward(self, x):
            x = torch.cat([self.cls, self.patch(x).flatten(2).transpose(1, 2)], 1) + self.place
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()


MODELS = {"resnet50": resnet50, "mobilenetv3": mobilenetv3, "vit": vit}
TORCHVISION = """resnet18 vgg11 squeezenet1_1 densenet121 googlenet mobilenet_v2 mobilenet_v3_small mnasnet0_5 shufflenet_v2_x0_5
efficientnet_b0 regnet_y_400mf resnext50_32x4d convnext_tiny swin_t maxvit_t lraspp_mobilenet_v3_large
deeplabv3_mobilenet_v3_large""".split()
TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools")


def zoo_cases():
    """Returns the cases of tools/coreml_zoo.py that are plain PyTorch modules: ONNX Runtime can run those, too."""
    sys.path.insert(0, TOOLS)
    import coreml_zoo

    return coreml_zoo, [name for name, make_case in coreml_zoo.ZOO.items() if zoo_is_plain(make_case())]


def zoo_is_plain(case):
    return not (case.states or case.built or case.after or case.script or case.flexible or isinstance(case.inputs, list))


def torchvision_model(name):
    import torch
    import torchvision

    class Out(torch.nn.Module):
        """Takes the map out of the dictionary that a segmentation model returns."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x)["out"]

    segments = "_mobilenet_v3_large" in name
    more = {"init_weights": True} if name == "googlenet" else {"weights_backbone": None} if segments else {}
    model = torchvision.models.get_model(name, weights=None, **more)
    return Out(model) if segments else model


def model_of(name):
    """Sets the same weights in every process, and running statistics as after training, from a few random images. Returns the
    model and its inputs by name."""
    import torch

    torch.manual_seed(sum(name.encode()))
    if name.startswith("zoo:"):
        zoo, _ = zoo_cases()
        torch.manual_seed(sum(name.encode()))
        case = zoo.ZOO[name[4:]]()
        zoo.randomise(case.model)
        return case.model.eval(), case.inputs
    model = MODELS[name](torch.nn, torch.nn.functional) if name in MODELS else torchvision_model(name)
    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for m in norms:
        m.momentum = None
    if norms:
        with torch.no_grad():
            model.train()(torch.randn(4, 3, 224, 224))
    return model.eval(), {"image": torch.randn(1, 3, 224, 224)}


def base_of(options, name):
    return os.path.join(options.folder, name.replace(":", "."))


def make(options, name):
    """Writes NAME.mlpackage, NAME.onnx, NAME.npz (the inputs) and NAME.out.npz (PyTorch's results) in a separate process."""
    import logging

    logging.disable(logging.WARNING)
    import coremltools as ct
    import numpy as np
    import torch

    model, inputs = model_of(name)
    base = base_of(options, name)
    os.makedirs(options.folder, exist_ok=True)
    with torch.no_grad():
        given = tuple(inputs.values())
        traced = torch.jit.trace(model, given, check_trace=False)
        results = model(*given)
        results = results if isinstance(results, tuple) else (results,)
        if "onnxruntime" in options.peers:
            torch.onnx.export(model, given, base + ".onnx", opset_version=17, input_names=list(inputs), dynamo=False)
    types = [ct.TensorType(name=k, shape=tuple(v.shape), dtype=np.int32 if v.dtype == torch.int32 else np.float32) for k, v in inputs.items()]
    package = ct.convert(traced, inputs=types, convert_to="mlprogram", skip_model_load=True, compute_precision=ct.precision.FLOAT32,
                         minimum_deployment_target=ct.target.iOS17)
    package.save(base + ".mlpackage")
    np.savez(base + ".out.npz", *[y.numpy() for y in results])
    np.savez(base + ".npz", **{k: v.numpy() for k, v in inputs.items()})


# ---- peers, each in a separate process
# ------------------------------------------------------------------------------------------


def onnx_runner(options, name):
    import numpy as np
    import onnxruntime as ort

    given = ort.SessionOptions()
    given.intra_op_num_threads, given.inter_op_num_threads = options.threads, 1
    session = ort.InferenceSession(base_of(options, name) + ".onnx", given, providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    inputs = {k: v for k, v in np.load(base_of(options, name) + ".npz").items() if k in wanted}
    return (lambda: session.run(None, inputs)), ort.__version__


def alternate(options, name):
    """Prints the samples of both, in milliseconds."""
    run, _ = onnx_runner(options, name)
    run()
    ours, theirs = [], []
    for _ in range(options.zoo):
        out, _ = propane(options, name, "--warmup", "3", "--iterations", "3", "--json")
        ours.append(json.loads(out)["median_ms"])
        times = []
        for _ in range(4):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        theirs.append(statistics.median(times[1:]))
    print(json.dumps([ours, theirs]))


def child(options):
    name, threads = options.models, options.threads
    if options.child == "make":
        return make(options, name)
    if options.child == "alternate":
        return alternate(options, name)
    if options.child == "onnxruntime":
        run, version = onnx_runner(options, name)
    else:
        import torch

        torch.set_num_threads(threads)
        model, inputs = model_of(name)
        (x,), version = inputs.values(), torch.__version__
        if options.child == "pytorch":  # its fastest form without a compiler: traced, frozen, operations fused
            with torch.no_grad():
                model = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(model, x, check_trace=False)))

        def run():
            with torch.inference_mode():
                return model(x)

    clock = time.process_time if threads == 1 else time.perf_counter
    times = []
    for _ in range(options.runs + 3):
        start = clock()
        run()
        times.append((clock() - start) * 1e3)
    print(json.dumps({"ms": times[3:], "version": version}))


def run_child(options, name, kind):
    command = [sys.executable, os.path.abspath(__file__), "--child", kind, "--models", name, "--runs", str(options.runs),
               "--threads", str(options.threads), "--folder", options.folder, "--peers", options.peers, "--zoo", str(options.zoo),
               "--propane", options.propane]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "failed")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


# ---- ours ------------------------------------------------------------------------------------------------------------------------


def propane(options, name, *arguments):
    base = base_of(options, name)
    env = dict(os.environ, PROPANE_THREADS=str(options.threads))
    command = [options.propane, "run", base + ".mlpackage", "--input", base + ".npz", *arguments]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_ours(options, name):
    out, seconds = propane(options, name, "--warmup", "3", "--iterations", str(options.runs), "--json")
    if options.threads != 1:
        return [json.loads(out)["median_ms"]]
    _, start = propane(options, name, "--warmup", "2", "--iterations", "1", "--json")
    return [(seconds - start) / options.runs * 1e3]


def difference(options, name):
    """Returns the largest difference from PyTorch's outputs, relative to the largest value of each."""
    import numpy as np

    folder, worst = base_of(options, name) + ".result", 0.0
    names = [o["name"] for o in json.loads(propane(options, name, "--output", folder, "--json")[0])["outputs"]]
    for which, want in zip(names, np.load(base_of(options, name) + ".out.npz").values()):
        got = np.load(os.path.join(folder, which + ".npy")).reshape(-1)
        worst = max(worst, float(np.abs(got - want.reshape(-1)).max() / max(np.abs(want).max(), 1e-9)))
    return worst


def make_once(options, name):
    wanted = [".mlpackage", ".npz"] + [".onnx"] * ("onnxruntime" in options.peers)
    if not all(os.path.exists(base_of(options, name) + end) for end in wanted):
        run_child(options, name, "make")


def compare(options, name):
    make_once(options, name)
    worst, results = difference(options, name), {"propane": []}
    peers = options.peers.split(",") if options.peers else []
    for _ in range(options.rounds):
        results["propane"] += run_ours(options, name)
        for peer in list(peers):
            try:
                results.setdefault(peer, []).extend(json.loads(run_child(options, name, peer))["ms"])
            except RuntimeError as why:
                peers.remove(peer)
                results.pop(peer, None)
                print(f"{name}: {peer} does not run here: {why}", file=sys.stderr)
    ours = statistics.median(results["propane"])
    for who, ms in results.items():
        middle = statistics.median(ms)
        tail = f"difference {worst:.1e}" if who == "propane" else f"ours / {who} {ours / middle:5.2f}"
        print(f"{name:12} {who:12} {middle:8.2f} ms   least {min(ms):8.2f}   {tail}", flush=True)
    if options.profile:
        print(propane(options, name, "--warmup", "3", "--iterations", str(options.runs), "--profile")[0])


def compare_zoo(options, names):
    """Prints the table of --zoo. Returns 1 if a ratio is above 3 or an output differs."""
    options.peers, ratios, left, bad = "onnxruntime", [], [], False
    print(f"| model | Propane, ms | ONNX Runtime, ms | ratio | ratio of the least | difference |\n|{' --- |' * 6}")
    for name in names:
        try:
            make_once(options, name)
            ours, theirs = json.loads(run_child(options, name, "alternate"))
        except RuntimeError as why:
            left.append(f"{name} ({str(why)[:80]})")
            continue
        worst, middle, other = difference(options, name), statistics.median(ours), statistics.median(theirs)
        ratios.append(middle / other)
        bad |= ratios[-1] > 3 or not worst < 1e-3
        print(f"| {name} | {middle:.3f} | {other:.3f} | {middle / other:.2f} | {min(ours) / min(theirs):.2f} | {worst:.0e} |", flush=True)
    if ratios:
        print(f"{len(ratios)} models; the median of the ratios is {statistics.median(ratios):.2f}, the largest {max(ratios):.2f}")
    if left:
        print("left out: " + "; ".join(left))
    return 1 if bad or not ratios else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--propane", default="build/release/propane")
    parser.add_argument("--models", help="comma-separated; default: all")
    parser.add_argument("--zoo", type=int, default=0, help="samples of each model in a table next to ONNX Runtime")
    parser.add_argument("--peers", default="onnxruntime,pytorch", help="also: eager (PyTorch without tracing)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", default="build/vision")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--child", default="")
    options = parser.parse_args()
    if options.child:
        return child(options)
    from importlib.metadata import version

    def versions(names):
        return ", ".join(f"{name} {version(name)}" for name in names)

    require(["torch", "coremltools", "numpy"], [options.propane])
    peers = versions(("torch", "coremltools"))
    if "onnxruntime" in options.peers:
        gone = absent(["onnxruntime", "onnx"])
        if gone:
            options.peers = ",".join(peer for peer in options.peers.split(",") if peer != "onnxruntime")
            print(f"onnxruntime is left out; not installed: {', '.join(gone)}; pip install {' '.join(gone)}")
        else:
            peers += ", " + versions(("onnxruntime", "onnx"))
    print(f"{peers}, fp32, threads {options.threads}, "
          + (f"{options.zoo} samples in alternation; wall time" if options.zoo else
             f"{options.rounds} processes of {options.runs} runs; {'processor time' if options.threads == 1 else 'wall time'}"))
    if options.zoo:
        names = options.models.split(",") if options.models else [*MODELS, *TORCHVISION, *("zoo:" + n for n in zoo_cases()[1])]
        return compare_zoo(options, names)
    for name in options.models.split(",") if options.models else MODELS:
        compare(options, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
