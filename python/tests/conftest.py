# SPDX-License-Identifier: MIT
"""Helpers for the tests of the package: small programs as MIL text, and the repository's test data."""
import os

import pytest

import propane_ml as propane

ROOT = os.environ.get("PROPANE_ROOT") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def mil(body: str, inputs: str, results: str, opset: str = "ios18") -> str:
    return "program(1.3)\n{\nfunc main<%s>(%s) {\n%s\n} -> (%s);\n}\n" % (opset, inputs, body, results)


def unary(op: str, dtype: str = "fp32", shape: str = "[4]") -> str:
    t = f"tensor<{dtype}, {shape}>"
    return mil(f'{t} y = {op}(x = x)[name = string("y")];', f"{t} x", "y")


ADDER = mil('tensor<fp16, [4]> before = read_state(input = sum)[name = string("before")];\n'
            'tensor<fp16, [4]> after = add(x = before, y = x)[name = string("after")];\n'
            'write_state(data = after, input = sum)[name = string("w")];\n'
            'fp16 two = const()[name = string("two"), val = fp16(2)];\n'
            'tensor<fp16, [4]> twice = mul(x = after, y = two)[name = string("twice")];',
            "state<tensor<fp16, [4]>> sum, tensor<fp16, [4]> x", "twice")
JUDGE = mil('tensor<fp32, [3]> p = softmax(x = x, axis = int32(0))[name = string("p")];\n'
            'tensor<string, [3]> names = const()[name = string("names"), '
            'val = tensor<string, [3]>(["ant", "bee", "cat"])];\n'
            'string label, dict<string, fp64> all = classify(probabilities = p, classes = names)[name = string("c")];',
            "tensor<fp32, [3]> x", "label, all")


def data(*names: str) -> str:
    """Returns a file of the repository's tests, and skips the test if the package is tested without a clone."""
    path = os.path.join(ROOT, *names)
    if not os.path.exists(path):
        pytest.skip(f"{'/'.join(names)} is not here: the package is tested outside of its repository")
    return path


def refused(status: str, sentence: str):
    """Expects a PropaneError with this status and message."""
    context = pytest.raises(propane.PropaneError, match=sentence)

    class Both:
        def __enter__(self):
            self.seen = context.__enter__()
            return self.seen

        def __exit__(self, *what):
            result = context.__exit__(*what)
            assert self.seen.value.status == status
            return result
    return Both()
