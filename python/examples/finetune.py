# SPDX-License-Identifier: MIT
"""Fine-tuning on any machine: a tiny language model is trained on a text, adapters for it on answers, and a program's
weights on arrays."""
import sys
import tempfile

import numpy as np

import propane_ml as propane

TEXT = "the cat sat on the mat. the dog sat on the log. " * 60
LINEAR = """program(1.3)
{
func main<ios16>(tensor<fp32, [1, 3]> x) {
    tensor<fp32, [1, 3]> w = const()[name = string("w"), val = tensor<fp32, [1, 3]>([[0.1, 0.2, 0.3]])];
    tensor<fp32, [1]> b = const()[name = string("b"), val = tensor<fp32, [1]>([0.0])];
    tensor<fp32, [1, 1]> y = linear(x = x, weight = w, bias = b)[name = string("y")];
} -> (y);
}
"""


def main() -> int:
    trainer = propane.Trainer(text=TEXT, kind="chars", layers=1, width=32, heads=2, context=32, steps=80, batch=4, lr=0.01, warmup=5)
    print(trainer.run())
    print("it writes:", trainer.model().complete("the ", count=40, temperature=0.5).text)
    with tempfile.TemporaryDirectory() as folder:
        trainer.write(folder + "/base")
        pairs = [{"prompt": "the cat", "completion": " sat on the mat"}, {"prompt": "the dog", "completion": " sat on the log"}]
        adapters = propane.Trainer(folder + "/base", examples=pairs * 8, chat="plain", lora=4, steps=20, batch=2, context=32,
                                   lr=0.02, warmup=1, held_out=0, eval_every=0)
        trained = adapters.run()
    print("adapters:", trained, adapters.parameters, "numbers trained")
    x = np.random.default_rng(1).standard_normal((64, 3))
    y = x @ [[1.0], [-2.0], [0.5]]
    better = propane.parse(LINEAR).finetune({"x": x, "y": y}, loss="mse", trainable="*", lr=0.05, epochs=20, batch=8)
    apart = max(abs(float(better.predict({"x": x[i:i + 1]})["y"][0, 0]) - y[i, 0]) for i in range(8))
    print(f"the program's answers are within {apart:.3f} of the targets")
    return 0 if trained.losses[-1] < trained.losses[0] and apart < 0.2 else 1


if __name__ == "__main__":
    sys.exit(main())
