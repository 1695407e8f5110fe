# SPDX-License-Identifier: MIT
# %% [markdown]
# # From PyTorch to a Neural Engine, on Linux
# coremltools converts a network; Propane answers `predict()`, checks the package against the known rules of the chips,
# shows where float16 differs from float32, fine-tunes the weights and estimates the time. Needs torch and coremltools.

# %%
import logging
import os
import sys
import tempfile
import warnings
from typing import Any

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

# %% [markdown]
# ## Convert

# %%
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).eval()
example = torch.rand(1, 3, 4, 4)
trace: Any = torch.jit.trace
model = ct.convert(trace(net, example), inputs=[ct.TensorType(name="x", shape=example.shape)], outputs=[ct.TensorType(name="y")],
                   minimum_deployment_target=ct.target.iOS16, convert_to="mlprogram")
folder = tempfile.mkdtemp()
path = os.path.join(folder, "net.mlpackage")
model.save(path)

# %% [markdown]
# ## Check for chips
# *No known rule refuses it* is what can be said without the chip: nothing here ran on one.

# %%
program = propane.load(path)
print(program.check("m1,m4"))

# %% [markdown]
# ## Compare numerics
# coremltools' own `predict()`, on any machine, compared with PyTorch; then every value in float16 compared with
# float32.

# %%
made = model.predict({"x": example.numpy()})["y"]
apart = float(np.abs(made - net(example).detach().numpy()).max())
print(f"PyTorch and the package differ by at most {apart:.1e}")
assert apart < 2e-3
print(program.diff({"x": example.numpy()}))

# %% [markdown]
# ## Fine-tune
# The package learns the answers of another network.

# %%
x = np.random.default_rng(1).random((64, 3, 4, 4)).astype(np.float32)
wanted = np.stack([x.mean((1, 2, 3)), x[:, 0].mean((1, 2)), x[:, 1].mean((1, 2))], 1)


def error(of: propane.Program) -> float:
    return float(np.mean([(of.predict({"x": x[i:i + 1]})["y"][0] - wanted[i]) ** 2 for i in range(16)]))


better = program.finetune({"x": x, "y": wanted[:, None, :].reshape(64, 3)}, loss="mse", trainable="*", lr=0.01, epochs=8, batch=8)
print(f"mean squared error {error(program):.4f} before, {error(better):.4f} after")
assert error(better) < error(program) / 2
better.save(os.path.join(folder, "better.mlpackage"))

# %% [markdown]
# ## Estimate

# %%
print(better.estimate("m1,m4"))
