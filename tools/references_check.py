#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recomputes the committed reference data with the installed PyTorch and NumPy, and compares: the values of operations
(tests/data/ops_reference.txt) and the tiny Llama's losses and gradients (tests/data/llama_gqa)."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(script, *arguments):
    return subprocess.run([sys.executable, os.path.join(here, "tools", script), *arguments], check=True, capture_output=True, text=True).stdout


def numbers(text):
    for line in text.splitlines():
        yield line, [float(w) for w in line.replace("[", " ").replace("]", " ").replace(",", " ").split() if w[0] in "-+.0123456789in" and is_number(w)]


def is_number(word):
    try:
        float(word)
        return True
    except ValueError:
        return False


def compare_operations():
    fresh = list(numbers(run("ops_reference.py")))
    with open(os.path.join(here, "tests/data/ops_reference.txt")) as f:
        stored = list(numbers(f.read()))
    assert len(fresh) == len(stored), "ops_reference.txt has %d lines, computed again %d" % (len(stored), len(fresh))
    worst = 0.0
    for (line, new), (old_line, old) in zip(fresh, stored):
        assert len(new) == len(old), "differs: %s / %s" % (old_line[:100], line[:100])
        for a, b in zip(new, old):
            if a == b or (np.isnan(a) and np.isnan(b)):
                continue
            worst = max(worst, abs(a - b) / max(1.0, abs(b)))
    assert worst < 1e-12, "ops_reference.txt: largest relative difference %g" % worst
    return worst


def tensors(path):
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    types = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}
    return {name: np.frombuffer(data[8 + length + t["data_offsets"][0]:8 + length + t["data_offsets"][1]], types[t["dtype"]])
            for name, t in header.items() if name != "__metadata__"}


def compare_llama():
    with tempfile.TemporaryDirectory() as folder:
        run("reference_llama.py", folder)
        fresh = tensors(os.path.join(folder, "reference.safetensors"))
    stored = tensors(os.path.join(here, "tests/data/llama_gqa/reference.safetensors"))
    assert fresh.keys() == stored.keys()
    worst = 0.0
    for name, old in stored.items():
        scale = max(1e-12, float(np.max(np.abs(old))))
        worst = max(worst, float(np.max(np.abs(fresh[name].astype(np.float64) - old.astype(np.float64)))) / scale)
    assert worst < 1e-6, "llama_gqa: largest relative difference %g" % worst
    return worst


if __name__ == "__main__":
    print("operations within %.1e, tiny Llama within %.1e of what is committed" % (compare_operations(), compare_llama()))
