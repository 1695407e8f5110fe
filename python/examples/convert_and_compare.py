# SPDX-License-Identifier: MIT
"""From PyTorch to Core ML on Linux: converts a small network with coremltools, predicts through Propane, compares with
PyTorch, and tells where float16 parts from float32. Needs torch and coremltools."""
import logging
import os
import sys
import tempfile
from typing import Any
import warnings

import numpy as np

import propane_ml as propane
import propane_ml.coremltools

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
try:
    propane_ml.coremltools.enable()
    import coremltools as ct
    import torch
except ImportError as missing:
    print(missing)
    sys.exit(77)


def main() -> int:
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                              torch.nn.Flatten(), torch.nn.Linear(8 * 16 * 16, 10), torch.nn.Softmax(1)).eval()
    x = torch.rand(1, 3, 32, 32)
    trace: Any = torch.jit.trace  # typed in some versions of PyTorch only
    traced = trace(net, x)
    model = ct.convert(traced, inputs=[ct.TensorType(name="x", shape=x.shape)], outputs=[ct.TensorType(name="p")],
                       minimum_deployment_target=ct.target.iOS16, convert_to="mlprogram")
    made = model.predict({"x": x.numpy()})["p"]  # coremltools' own call, on any machine
    apart = float(np.abs(made - net(x).detach().numpy()).max())
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.mlpackage")
        model.save(path)
        program = propane.load(path)
        print(program.diff({"x": x.numpy()}))
        print(program.check("m1,m4").worst, "is the worst finding for m1 and m4")
        print(program.estimate("m4"))
    print(f"PyTorch and the package differ by at most {apart:.1e}")
    return 0 if apart < 2e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
