# SPDX-License-Identifier: MIT
# %% [markdown]
# # A MIL kernel's gradient
# The gradient of a MIL program is a MIL program: it can be read, checked for a chip and run like any other.

# %%
import numpy as np

import propane_ml as propane

kernel = propane.parse("""program(1.3)
{
func main<ios16>(tensor<fp32, [8, 4]> x, tensor<fp32, [4, 3]> w) {
    bool no = const()[name = string("no"), val = bool(false)];
    tensor<fp32, [8, 3]> scores = matmul(x = x, y = w, transpose_x = no, transpose_y = no)[name = string("scores")];
    tensor<fp32, [8, 3]> y = tanh(x = scores)[name = string("y")];
} -> (y);
}
""")
gradient = kernel.gradient(["w"])
print(gradient.text())

# %% [markdown]
# ## Comparison with finite differences

# %%
rng = np.random.default_rng(1)
x, w, d_y = rng.standard_normal((8, 4)), rng.standard_normal((4, 3)), rng.standard_normal((8, 3))
d_w = gradient.predict({"x": x, "w": w, "d_y": d_y})["d_w"]
step = np.zeros_like(w)
step[1, 2] = 1e-2
slope = float(((np.tanh(x @ (w + step)) - np.tanh(x @ (w - step))) * d_y).sum() / 2e-2)
print(f"gradient {d_w[1, 2]:.5f}, slope {slope:.5f}")
assert abs(d_w[1, 2] - slope) < 2e-3

# %% [markdown]
# ## Findings of the chips' rules

# %%
print(gradient.check("m1,m4"))
