# SPDX-License-Identifier: MIT
"""The gradient of a MIL program is a MIL program: this example differentiates softmax(x w), compares the result with finite
differences, and minimizes with it."""
import sys

import numpy as np

import propane_ml as propane

LOSS = """program(1.3)
{
func main<ios16>(tensor<fp32, [8, 4]> x, tensor<fp32, [4, 3]> w, tensor<fp32, [8, 3]> wanted) {
    bool no = const()[name = string("no"), val = bool(false)];
    tensor<int32, [2]> all = const()[name = string("all"), val = tensor<int32, [2]>([0, 1])];
    tensor<fp32, [8, 3]> scores = matmul(x = x, y = w, transpose_x = no, transpose_y = no)[name = string("scores")];
    tensor<fp32, [8, 3]> p = softmax(x = scores, axis = int32(1))[name = string("p")];
    tensor<fp32, [8, 3]> far = sub(x = p, y = wanted)[name = string("far")];
    tensor<fp32, [8, 3]> squares = square(x = far)[name = string("squares")];
    tensor<fp32, []> loss = reduce_sum(x = squares, axes = all, keep_dims = no)[name = string("loss")];
} -> (loss);
}
"""


def main() -> int:
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 4)), rng.standard_normal((4, 3))
    wanted = np.eye(3)[rng.integers(0, 3, 8)]
    program = propane.parse(LOSS)
    gradient = program.gradient(["w"])

    def loss(at: np.ndarray) -> float:
        return float(program.predict({"x": x, "w": at, "wanted": wanted})["loss"])

    slope = gradient.predict({"x": x, "w": w, "wanted": wanted, "d_loss": 1.0})["d_w"]
    worst = 0.0
    for index in np.ndindex(*w.shape):
        step = np.zeros_like(w)
        step[index] = 1e-2
        worst = max(worst, abs((loss(w + step) - loss(w - step)) / 2e-2 - float(slope[index])))
    print(f"largest difference to slopes of the loss: {worst:.1e}")
    first = loss(w)
    for _ in range(200):
        w = w - 0.3 * gradient.predict({"x": x, "w": w, "wanted": wanted, "d_loss": 1.0})["d_w"]
    print(f"loss {first:.3f} before, {loss(w):.3f} after 200 steps")
    return 0 if worst < 1e-3 and loss(w) < first / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
