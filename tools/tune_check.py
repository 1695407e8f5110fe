#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fine-tunes converted classifiers with Propane and with PyTorch on the same images, and compares.

A set of small images (two shapes, each in four textures, in noise: eight classes) is drawn by a seeded script. A
ResNet-shaped and a ViT-shaped classifier with seeded random weights are converted to fp16 packages by coremltools; the
ResNet's batch norms are folded into its convolutions first, as the converter itself does, so that both sides train the same
numbers. Then both train with AdamW at the same rate, on the same samples in the same order, in fp32:
  - gradients of the first step agree within 1e-4 of each tensor's largest;
  - Propane's accuracy on other images is at least 98 % of PyTorch's;
  - coremltools opens the tuned package and finds in it the weights of Propane's checkpoint, and no other change.

tune_check.py [PROPANE]. Exits with 77 and the reason if PyTorch or coremltools is missing."""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads starve each other on a busy machine
try:
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import coremltools as ct
    import numpy as np
    import torch
    import torch.nn.functional as F
    from PIL import Image
    from torch import nn
except ImportError as e:
    print(f"PyTorch, coremltools or Pillow is not here: {e}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PROPANE = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "build", "release", "propane")
STEPS = {"resnet": 300, "vit": 400}
SIZE, TRAIN, VAL, BATCH, SEED = 32, 1200, 400, 16, 7
MEAN, STD, NOISE = 0.5, 0.25, 10
GRADIENT, SHARE = 1e-4, 0.98
CLASSES = [f"{shape}_{texture}" for shape in ("disc", "frame") for texture in ("checks", "columns", "plain", "rows")]

# ---- the images ------------------------------------------------------------------------------------------------------


def draw(rng, kind):
    shape, texture = kind.split("_")
    y, x = np.mgrid[0:SIZE, 0:SIZE]
    cx, cy, r = *rng.uniform(12, SIZE - 12, 2), rng.uniform(8, 11)
    far, wide = np.hypot(x - cx, y - cy), np.maximum(abs(x - cx), abs(y - cy))
    inside = {"disc": far < r, "frame": (wide < r) & (wide > 0.55 * r)}[shape]
    by_rows, by_columns = (y + rng.integers(4)) // 2 % 2 == 0, (x + rng.integers(4)) // 2 % 2 == 0
    bright = {"plain": True, "rows": by_rows, "columns": by_columns, "checks": by_rows ^ by_columns}[texture]
    back, front = rng.uniform(60, 200, 3), rng.uniform(60, 200, 3)
    front += np.where(front > back, 40, -40)
    picture = np.where((inside & bright)[..., None], front, back)
    return np.clip(picture + rng.normal(0, NOISE, picture.shape), 0, 255).astype(np.uint8)


def make_pictures(folder):
    """Writes files in class folders, and returns them as arrays in the order in which the command lists them."""
    out = {}
    for part, count, seed in (("train", TRAIN, 1), ("val", VAL, 2)):
        rng = np.random.default_rng(seed)
        pictures, labels = [], []
        for label, kind in enumerate(CLASSES):
            where = os.path.join(folder, part, kind)
            os.makedirs(where)
            for i in range(count // len(CLASSES)):
                picture = draw(rng, kind)
                Image.fromarray(picture).save(os.path.join(where, f"{i:04d}.png"))
                pictures.append(picture)
                labels.append(label)
        x = np.stack(pictures).transpose(0, 3, 1, 2)
        out[part] = (((x / 255.0 - MEAN) / STD).astype(np.float32), np.array(labels, np.int32))
    return out


MASK = (1 << 64) - 1


def mix(x):
    x ^= x >> 30
    x = x * 0xbf58476d1ce4e5b9 & MASK
    x ^= x >> 27
    x = x * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def pick(n, count):
    """Returns the order in which `propane train` sees the samples: src/lm/data/token_windows.c."""
    key = mix((SEED * 0x9e3779b97f4a7c15 + n // count + 1) & MASK)
    half = 1
    while half < 31 and 1 << 2 * half < count:
        half += 1
    low, index = (1 << half) - 1, n % count
    while True:
        left, right = index >> half, index & low
        for i in range(4):
            left, right = right, left ^ mix((key + i * 0x9e3779b97f4a7c15 + right) & MASK) & low
        index = left << half | right
        if index < count:
            return index


# ---- the models --------------------------------------------------------------------------------------------------------


def conv_bn(i, o, k=3, s=1, act=True):
    return [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), *([nn.ReLU()] if act else [])]


class Residual(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(i, o, 3, s), *conv_bn(o, o, 3, act=False))
        self.skip = nn.Sequential(*conv_bn(i, o, 1, s, act=False)) if s > 1 or i != o else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def folded(module):
    """Folds the batch norms after convolutions into them."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Sequential):
            kept = []
            for layer in child:
                if isinstance(layer, nn.BatchNorm2d):
                    kept[-1] = torch.nn.utils.fuse_conv_bn_eval(kept[-1], layer)
                else:
                    kept.append(folded(layer))
            setattr(module, name, nn.Sequential(*kept))
        else:
            folded(child)
    return module


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*conv_bn(3, 16), nn.MaxPool2d(3, 2, 1), Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 48, 2))
        self.head = nn.Linear(48, len(CLASSES))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Block(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.n1, self.n2, self.qkv, self.out = nn.LayerNorm(d), nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down, self.h = nn.Linear(d, 3 * d), nn.Linear(3 * d, d), h

    def forward(self, x):
        b, t, d = 1 if torch.jit.is_tracing() else x.shape[0], (SIZE // 4) ** 2 + 1, self.out.in_features
        q, k, v = (y.view(b, t, self.h, d // self.h).transpose(1, 2) for y in self.qkv(self.n1(x)).chunk(3, -1))
        y = (q @ k.transpose(-2, -1) / (d // self.h) ** 0.5).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class ViT(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, d, 4, 4), nn.Parameter(torch.randn(1, 1, d) * 0.1)
        self.pos = nn.Parameter(torch.randn(1, (SIZE // 4) ** 2 + 1, d) * 0.1)
        self.blocks, self.norm, self.head = nn.Sequential(*(Block(d, 4) for _ in range(3))), nn.LayerNorm(d), nn.Linear(d, len(CLASSES))

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        cls = self.cls if torch.jit.is_tracing() else self.cls.expand(x.shape[0], -1, -1)
        x = torch.cat([cls, x], 1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])


def build(kind):
    torch.manual_seed(SEED)
    model = (ResNet if kind == "resnet" else ViT)().eval()
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight)
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
    model = folded(model)
    for p in model.parameters():
        p.data = p.data.half().float()
        p.requires_grad_(True)  # folded biases are not
    return model


def convert(model, path, classify):
    class Probabilities(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x).softmax(-1)

    whole = Probabilities().eval() if classify else model
    traced = torch.jit.trace(whole, torch.zeros(1, 3, SIZE, SIZE), check_trace=False)
    options = {"classifier_config": ct.ClassifierConfig(CLASSES)} if classify else {}
    ct.convert(traced, inputs=[ct.TensorType(name="image", shape=(1, 3, SIZE, SIZE))], convert_to="mlprogram", skip_model_load=True,
               minimum_deployment_target=ct.target.iOS16, **options).save(path)


# ---- training ----------------------------------------------------------------------------------------------------------


def accuracy(model, x, y):
    with torch.no_grad():
        return float((model(torch.from_numpy(x)).argmax(-1).numpy() == y).mean())


def rate(lr, step, steps):
    """The schedule of src/train/optim/schedule.c without a warm-up: half a cosine down to 0, where runs with different
    rounding converge again."""
    return lr * (1 + math.cos(math.pi * step / steps)) / 2


def train_torch(model, data, lr, steps):
    """Returns the trained model, and the gradients of its first step by name."""
    x, y = data["train"]
    optimiser = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    first = {}
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(lr, step, steps)
        at = [pick(step * BATCH + i, len(y)) for i in range(BATCH)]
        optimiser.zero_grad()
        F.cross_entropy(model(torch.from_numpy(x[at])), torch.from_numpy(y[at]).long()).backward()
        if step == 0:
            first = {n: p.grad.clone().numpy() for n, p in model.named_parameters()}
        optimiser.step()
    return first


def propane(*arguments):
    done = subprocess.run([PROPANE, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")] if "--json" in arguments else done.stdout


def checkpoint(path):
    with open(path, "rb") as f:
        blob = f.read()
    n = struct.unpack("<Q", blob[:8])[0]
    header, body = json.loads(blob[8:8 + n]), blob[8 + n:]
    return {k: np.frombuffer(body[v["data_offsets"][0]:v["data_offsets"][1]], "<f4").reshape(v["shape"]) for k, v in header.items() if k != "__metadata__"}


def worst_gradient(arrays, begin, first):
    """Matches constants to parameters by their values; lr 0 leaves the values unchanged."""
    worst, left = 0.0, dict(begin)
    for name, value in arrays.items():
        if name.startswith("optimizer."):
            continue
        same = [n for n, v in left.items() if v.size == value.size and np.abs(v.reshape(-1) - value.reshape(-1)).max() < 1e-6]
        if len(same) != 1 and not all(np.ptp(left[n]) == 0 for n in same):  # fresh norms and biases are all alike
            raise RuntimeError(f"{name} {value.shape}: {len(same)} parameters are like it")
        got = arrays["optimizer.1." + name].reshape(-1).astype(np.float64) / 0.1
        errors = {n: np.abs(got - first[n].reshape(-1)).max() / max(np.abs(first[n]).max(), 1e-8) for n in same}
        if not errors:
            raise RuntimeError(f"{name} {value.shape}: no parameter is like it")
        best = min(errors, key=errors.get)
        worst = max(worst, errors[best])
        del left[best]
    if left:
        raise RuntimeError(f"parameters that the package does not have: {sorted(left)}")
    return worst


def constants(path):
    from coremltools.converters.mil.frontend.milproto.load import load

    model = ct.models.MLModel(path, skip_model_load=True)
    spec = model.get_spec()
    program = load(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)
    ops = program.functions["main"].operations
    arrays = {o.outputs[0].name: np.asarray(o.outputs[0].val) for o in ops if o.op_type == "const"}
    return {n: v for n, v in arrays.items() if v.dtype.kind == "f" and v.ndim}, [o.op_type for o in ops]


def check_package(before, after, tuned):
    old, kinds = constants(before)
    new, new_kinds = constants(after)
    if kinds != new_kinds or old.keys() != new.keys():
        return "the program is another one"
    changed = {n for n in old if old[n].tobytes() != new[n].tobytes()}
    for name, value in tuned.items():
        if name.startswith("optimizer."):
            continue
        if name not in new:
            return f"{name} is not in the package"
        if new[name].dtype != old[name].dtype or not np.array_equal(new[name].reshape(-1), value.astype(new[name].dtype).reshape(-1)):
            return f"{name} is not what was learnt"
        changed.discard(name)
    return f"{sorted(changed)} changed, too" if changed else None


def check(kind, work, data, lr):
    package = os.path.join(work, kind + ".mlpackage")
    model = build(kind)
    convert(model, package, kind == "resnet")
    begin = {n: p.detach().numpy().copy() for n, p in model.named_parameters()}
    samples = os.path.join(work, "images") if kind == "resnet" else os.path.join(work, "arrays")
    common = ["train", package, "--data", samples, "--loss", "cross_entropy", "--trainable", "*", "--batch", str(BATCH), "--seed", str(SEED), "--json"]
    if kind == "resnet":
        common += ["--mean", str(MEAN), "--std", str(STD)]
    propane(*common, "--steps", "1", "--lr", "0", "--run", os.path.join(work, kind + "-first"))
    start = time.time()
    first = train_torch(model, data, lr, STEPS[kind])
    torch_time = time.time() - start
    gradient = worst_gradient(checkpoint(os.path.join(work, kind + "-first", "checkpoint.safetensors")), begin, first)
    start = time.time()
    run = os.path.join(work, kind + "-run")
    told = propane(*common, "--steps", str(STEPS[kind]), "--lr", str(lr), "--min-lr", "0", "--run", run)
    own_time = time.time() - start
    got, want = [t["val_accuracy"] for t in told if "val_accuracy" in t][-1], accuracy(model, *data["val"])
    bad = []
    if gradient > GRADIENT:
        bad.append(f"gradients differ by {gradient:.1e}")
    if got < SHARE * want:
        bad.append("the accuracy is too low")
    if want < 2 / len(CLASSES) or want > 0.999:
        bad.append("PyTorch's accuracy says nothing")
    difference = check_package(package, os.path.join(run, "model.mlpackage"), checkpoint(os.path.join(run, "checkpoint.safetensors")))
    if difference:
        bad.append(f"the package: {difference}")
    print(f"{'FAILED' if bad else 'ok':<8}{kind:<8} gradients {gradient:.1e}  accuracy {100 * got:.2f} % (PyTorch {100 * want:.2f} %)  "
          f"{STEPS[kind]} steps: {own_time:.1f} s (PyTorch {torch_time:.1f} s) {'; '.join(bad)}", flush=True)
    return not bad


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    work = tempfile.mkdtemp(prefix="propane-tune.")
    try:
        data = make_pictures(os.path.join(work, "images"))
        for part, (x, y) in data.items():
            os.makedirs(os.path.join(work, "arrays", part))
            np.save(os.path.join(work, "arrays", part, "image.npy"), x)
            np.save(os.path.join(work, "arrays", part, "y.npy"), y)
        good = [check(kind, work, data, lr) for kind, lr in (("resnet", 1e-3), ("vit", 1e-3))]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{sum(good)} of {len(good)} classifiers are tuned as PyTorch tunes them")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
