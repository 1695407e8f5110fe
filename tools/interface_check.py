#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the interface of Core ML programs: packages that coremltools creates with image inputs of several sizes, labels of
both kinds and several functions are read by Propane, run, and written again. coremltools must then find them unchanged.

interface_check.py [PROPANE]; exits with 77 and the reason if PyTorch or coremltools is missing.
"""
import os
import subprocess
import sys
import tempfile

import coreml_check  # exits if PyTorch or coremltools is missing
import coremltools as ct
import numpy as np
import torch
import torch.nn as nn

SIZES = [(1, 3, 16, 16), (1, 3, 32, 24)]


def run(package, work, *flags):
    """Returns the printed lines and the arrays."""
    out = os.path.join(work, "out")
    lines = coreml_check.command("run", package, "--output", out, *flags).splitlines()
    return lines, {n[:-4]: np.load(os.path.join(out, n)) for n in os.listdir(out)}


def same(package, work):
    return coreml_check.round_trip(package, work) or coreml_check.same_as_text(package, work)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, classes)

    def forward(self, x):
        return torch.softmax(self.head(torch.relu(self.conv(x)).mean((2, 3))), 1)


def classifier(work, labels, shape, sizes):
    torch.manual_seed(1)
    model = Net(len(labels)).eval()
    picture = np.random.RandomState(2).randint(0, 256, sizes[-1]).astype(np.float32)
    package = os.path.join(work, "classifier.mlpackage")
    image = ct.ImageType(name="image", shape=shape, scale=1 / 127.5, bias=[-1, -1, -1], color_layout=ct.colorlayout.BGR)
    traced = torch.jit.trace(model, torch.zeros(SIZES[0]))
    ct.convert(traced, inputs=[image], classifier_config=ct.ClassifierConfig(labels), convert_to="mlprogram", skip_model_load=True,
               compute_precision=ct.precision.FLOAT32, minimum_deployment_target=ct.target.iOS16).save(package)
    np.save(os.path.join(work, "image.npy"), picture)
    with torch.no_grad():
        want = model(torch.from_numpy(picture) / 127.5 - 1)[0].numpy()
    lines, arrays = run(package, work, "--input", f"image={os.path.join(work, 'image.npy')}", "--shape",
                        "image=" + ",".join(map(str, sizes[-1])))
    got = next(a for a in arrays.values() if a.size == len(labels)).reshape(-1)
    if np.abs(got - want).max() > 1e-5:  # observed 6e-8
        return f"probabilities differ by {np.abs(got - want).max():.1e}"
    if f"classLabel: {labels[int(want.argmax())]}" not in lines:
        return f"the label is not {labels[int(want.argmax())]}"
    return same(package, work)


def grayscale(work):
    """An image in, an image out."""
    model = nn.Sequential(nn.Conv2d(1, 1, 3, padding=1), nn.Sigmoid()).eval()
    package = os.path.join(work, "gray.mlpackage")
    traced = torch.jit.trace(model, torch.zeros(1, 1, 8, 8))
    gray = ct.colorlayout.GRAYSCALE
    ct.convert(traced, inputs=[ct.ImageType(name="image", shape=(1, 1, 8, 8), color_layout=gray)],
               outputs=[ct.ImageType(name="mask", color_layout=gray)], convert_to="mlprogram", skip_model_load=True,
               minimum_deployment_target=ct.target.iOS16).save(package)
    run(package, work, "--seed", "1")
    return same(package, work)


def functions(work):
    """Two functions that share weights."""
    torch.manual_seed(3)
    shared = nn.Linear(64, 64)
    descriptor = ct.utils.MultiFunctionDescriptor()
    x = np.random.RandomState(4).randn(2, 64).astype(np.float32)
    want = {}
    np.save(os.path.join(work, "x.npy"), x)
    for name, last in (("plain", nn.Identity()), ("squashed", nn.Tanh())):
        model = nn.Sequential(shared, last).eval()
        path = os.path.join(work, name + ".mlpackage")
        ct.convert(torch.jit.trace(model, torch.zeros(2, 64)), inputs=[ct.TensorType(name="x", shape=(2, 64))], outputs=[ct.TensorType(name="y")],
                   convert_to="mlprogram", skip_model_load=True, compute_precision=ct.precision.FLOAT32,
                   minimum_deployment_target=ct.target.iOS18).save(path)
        descriptor.add_function(path, "main", name)
        with torch.no_grad():
            want[name] = model(torch.from_numpy(x)).numpy()
    descriptor.default_function_name = "squashed"
    package = os.path.join(work, "both.mlpackage")
    ct.utils.save_multifunction(descriptor, package)
    for name in (None, "plain", "squashed"):
        flags = ["--function", name] if name else []
        _, arrays = run(package, work, "--input", f"x={os.path.join(work, 'x.npy')}", *flags)
        if np.abs(arrays["y"] - want[name or "squashed"]).max() > 1e-5:  # observed 5e-7
            return f"function {name}: the results differ"
    return same(package, work)


def main():
    cases = [("labels, sizes", lambda w: classifier(w, ["cat", "dog", "fox"], ct.EnumeratedShapes(SIZES), SIZES)),
             ("numbers, a range", lambda w: classifier(w, [7, 11, 13, 17], (1, 3, ct.RangeDim(16, 40, default=16), ct.RangeDim(16, 64, default=16)),
                                                       [(1, 3, 33, 50)])),
             ("gray images", grayscale), ("two functions", functions)]
    good = 0
    for name, case in cases:
        with tempfile.TemporaryDirectory() as work:
            try:
                difference = case(work)
            except (RuntimeError, subprocess.SubprocessError) as e:
                difference = str(e)
        print(f"{'FAILED' if difference else 'ok':<8}{name:<18} {difference or ''}", flush=True)
        good += not difference
    print(f"{good} of {len(cases)} interfaces stay as they are")
    return 0 if good == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
