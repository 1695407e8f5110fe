#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the models that tools/coreml_zoo.py converts, and compares with PyTorch: in fp32 within 1e-4 of the largest value, in
fp16 within twice the error that fp16 PyTorch has against fp32 (where PyTorch has no fp16 run: within 2e-2). Then each
package is read and written by Propane, and coremltools must find the same program in it, operation by operation.

coreml_check.py [PROPANE [FOLDER [NAME...]]]: the zoo is made there first, unless it is there already.
Exit code 77 with the reason where PyTorch or coremltools are not here."""
import json
import os
import subprocess
import sys
import tempfile

os.environ.setdefault("TQDM_DISABLE", "1")
try:
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import coremltools as ct
    import numpy as np
    import torch  # noqa: F401
except ImportError as e:
    print(f"PyTorch or coremltools is not here: {e}")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
PROPANE = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", "build", "release", "propane")
FP32, FP16_FLOOR, FP16_WITHOUT = 1e-4, 2e-3, 2e-2


def command(*arguments):
    done = subprocess.run([PROPANE, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
    return done.stdout


def error(got, want):
    got, want = got.astype(np.float64).reshape(-1), want.astype(np.float64).reshape(-1)
    if got.shape != want.shape:
        return float("inf")
    scale = np.abs(want).max()
    return float(np.abs(got - want).max() / (scale if scale > 0 else 1))


def run(package, folder, note, precision, work, outputs):
    """The largest error of each output over all steps; the package's names stand beside the arrays'."""
    worst = [0.0] * len(note["outputs"])
    for t in range(note["steps"]):
        tail = f".{t}" if note["steps"] > 1 else ""
        given = []
        for name in note["inputs"]:
            given += ["--input", f"{name}={os.path.join(folder, name + tail + '.npy')}"]
        for name in note["states"] if t else []:
            given += ["--input", f"{name}={os.path.join(work, name + '.npy')}"]
        command("run", package, *given, "--precision", precision, "--output", work)
        for i, name in enumerate(note["outputs"]):
            worst[i] = max(worst[i], error(np.load(os.path.join(work, outputs[i] + ".npy")), np.load(os.path.join(folder, name + tail + ".npy"))))
    return worst


def same_value(a, b):
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes() if a.dtype != object else list(a) == list(b)


def operands(op, names):
    """Constants by value, the rest by name: coreml_update_state and literals get names of the reader's own."""
    out = {}
    for key, given in op.inputs.items():
        if key.startswith("_") or given is None:
            continue
        out[key] = [v.val if v.op is not None and v.op.op_type == "const" else names.get(v.name, v.name) for v in (given if isinstance(given, (list, tuple)) else [given])]
    return out


def same_operands(p, q, names):
    a, b = operands(p, {}), operands(q, names)
    if a.keys() != b.keys():
        return False
    plain = lambda v: isinstance(v, str)
    return all(len(a[k]) == len(b[k]) and all(x == y if plain(x) and plain(y) else same_value(x, y) for x, y in zip(a[k], b[k])) for k in a)


def same_block(a, b, where, names=None):
    """Operation by operation: kind, names, operands, constants, types, nested blocks."""
    names = {} if names is None else names  # of the second program, where they are the reader's own
    first, second = ([op for op in block.operations if op.op_type != "const"] for block in (a, b))
    if len(first) != len(second):
        return f"{where}: {len(first)} operations, then {len(second)}"
    for p, q in zip(first, second):
        here = f"{where}/{p.name}"
        if p.op_type == q.op_type == "coreml_update_state":
            names[q.outputs[0].name] = p.outputs[0].name
        elif p.op_type != q.op_type or p.name != q.name or [o.name for o in p.outputs] != [o.name for o in q.outputs]:
            return f"{here}: {p.op_type} became {q.op_type} {q.name}"
        if [str(o.sym_type) for o in p.outputs] != [str(o.sym_type) for o in q.outputs]:
            return f"{here}: another type"
        if not same_operands(p, q, names):
            return f"{here}: other operands"
        for x, y in zip(p.blocks, q.blocks):
            difference = same_block(x, y, here, names)
            if difference:
                return difference
    if [o.name for o in a.outputs] != [names.get(o.name, o.name) for o in b.outputs]:
        return f"{where}: other outputs"
    return None


def program_of(path):
    from coremltools.converters.mil.frontend.milproto.load import load

    model = ct.models.MLModel(path, skip_model_load=True)
    spec = model.get_spec()
    return spec, load(spec, specification_version=spec.specificationVersion, file_weights_dir=model.weights_dir)


def round_trip(package, work):
    out = os.path.join(work, "again.mlpackage")
    command("convert", package, out)
    first_spec, first = program_of(package)
    second_spec, second = program_of(out)
    if first_spec.specificationVersion != second_spec.specificationVersion:
        return "another specification version"
    if first_spec.description.SerializeToString(deterministic=True) != second_spec.description.SerializeToString(deterministic=True):
        return "another description"
    if list(first.functions) != list(second.functions):
        return "other functions"
    for name, f in first.functions.items():
        difference = same_block(f, second.functions[name], name)
        if difference:
            return difference
    return None


def check(name, folder):
    where = os.path.join(folder, name)
    with open(os.path.join(where, "zoo.json")) as f:
        note = json.load(f)
    half, wide = where + ".mlpackage", where + ".fp32.mlpackage"
    with tempfile.TemporaryDirectory() as work:
        if os.path.isdir(wide):
            exact = run(wide, where, note, "fp32", work, note["outputs_fp32"])
        else:
            exact = run(half, where, note, "fp32", work, note["outputs"])
        typed = run(half, where, note, "fp16", work, note["outputs"])
        difference = round_trip(half, work)
    limit = [max(2 * e, FP16_FLOOR) for e in note["fp16_error"]] if note["fp16_error"] else [FP16_WITHOUT] * len(typed)
    bad = []
    if max(exact) > FP32:
        bad.append(f"fp32 differs by {max(exact):.2e}")
    if not note["unstable"] and any(e > m for e, m in zip(typed, limit)):
        bad.append(f"fp16 differs by {max(typed):.2e}, allowed {max(limit):.2e}")
    if difference:
        bad.append(f"written again: {difference}")
    print(f"{'FAILED' if bad else 'ok':<8}{name:<22} fp32 {max(exact):.1e}  fp16 {max(typed):.1e} (allowed {max(limit):.1e}) {'; '.join(bad)}", flush=True)
    return not bad


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(HERE, "..", "build", "zoo")
    names = sys.argv[3:]
    if not os.path.isdir(folder):
        subprocess.run([sys.executable, os.path.join(HERE, "coreml_zoo.py"), folder, *names])
    names = names or sorted(n for n in os.listdir(folder) if os.path.exists(os.path.join(folder, n, "zoo.json")))
    good = 0
    for name in names:
        try:
            good += check(name, folder)
        except (RuntimeError, OSError, ValueError) as e:
            print(f"FAILED  {name:<22} {e}", flush=True)
    print(f"{good} of {len(names)} models agree with PyTorch")
    return 0 if good == len(names) and good >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
