#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the models that tools/coreml_zoo.py converts, and compares them with PyTorch: in fp32 within 1e-4 of the largest
value, in fp16 within twice the error of fp16 PyTorch relative to fp32 (or within 2e-2 if PyTorch cannot run in fp16). Then
Propane reads and writes each package, and coremltools must find the same program in it, operation by operation. The
operations that Propane prints must also match coremltools' program in kind, order, name and type.

coreml_check.py [PROPANE [FOLDER [NAME...]]] creates the models in FOLDER first, unless they already exist. Exits with 77 and
the reason if PyTorch or coremltools is missing.
"""
import json
import os
import re
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
    from coremltools.converters.mil.mil import types as mil_types
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
    """Returns the largest error of each output over all steps. The package's names are next to the arrays'."""
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
    """Compares constants by value and the rest by name; the reader chooses its own names for coreml_update_state and
    literals."""
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
    """Compares operation by operation: kind, names, operands, constants, types, nested blocks."""
    names = {} if names is None else names  # of the second program, in which the reader chose them
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


# "tensor<fp16, [1, 2]> a, bool b = op(...)": results have types in the text that Propane prints.
STATEMENT = re.compile(r"^ *(?:(.*[\w>] [\w@.]+) = )?([a-z]\w*)\(.*\)?\[?.*$")
RESULT = re.compile(r"((?:state<)?(?:tensor<\w+, \[[\d, ]*\]>|\w+(?:<[^=]*?>)?)>?) ([\w@.]+)(?:, |$)")


def statements(text):
    """Returns, for each function, the kind, names and types of every operation except constants, with blocks after their
    operation."""
    functions, out, pending = {}, [], False
    for line in text.split("\n"):
        if line.startswith("    func "):
            out = functions.setdefault(re.match(r" *func ([\w@.]+)", line).group(1), [])
        found = STATEMENT.match(line)
        if not found or found.group(2) in ("func", "program", "const") or line.lstrip().startswith(("}", "[", "func ")):
            continue
        results = RESULT.findall(found.group(1) or "")
        if pending and found.group(2) == "read_state":  # a single operation there, including the preceding write_state
            pending = False
            continue
        pending = found.group(2) == "write_state"
        kind = "coreml_update_state" if pending else found.group(2)
        out.append((kind, [name for _, name in results], [kind_of(t) for t, _ in results]))
    return functions


def kind_of(text):
    """Returns the element type and dimensions of a type in text, or None if it is not a tensor."""
    found = re.fullmatch(r"tensor<(\w+), \[([\d, ]*)\]>", text)
    if found:
        return found.group(1), [int(d) for d in found.group(2).split(",") if d.strip()]
    return (text, []) if re.fullmatch(r"(fp|u?int)\d+|bool", text) else None


def operations(block):
    for op in block.operations:
        if op.op_type != "const":
            yield op
        for inner in op.blocks:
            yield from operations(inner)


def same_as_text(package, work):
    """Checks that every operation of coremltools' program is in Propane's text, in the same order, with the same names and
    types."""
    path = os.path.join(work, "program.mil")
    command("convert", package, path)
    with open(path) as f:
        ours = statements(f.read())
    _, program = program_of(package)
    if sorted(ours) != sorted(program.functions):
        return "other functions"
    for name, f in program.functions.items():
        difference = same_statements(ours[name], list(operations(f)))
        if difference:
            return f"{name}: {difference}"
    return None


def same_statements(ours, theirs):
    if len(ours) != len(theirs):
        return f"{len(theirs)} operations; Propane has {len(ours)}"
    for (kind, names, types), op in zip(ours, theirs):
        if kind != op.op_type or (kind != "coreml_update_state" and names != [o.name for o in op.outputs]):
            return f"{op.op_type} {op.name} is {kind} {names}"
        for mine, o in zip(types, op.outputs):
            if mine is None or not hasattr(o, "shape") or not mil_types.is_tensor(o.sym_type):
                continue
            if mine[0] != mil_types.builtin_to_string(o.dtype) or len(mine[1]) != len(o.shape) or any(
                    is_number(d) and int(d) != m for m, d in zip(mine[1], o.shape)):
                return f"{op.op_type} {op.name}: {mine}, there {o.sym_type}"
    return None


def is_number(d):
    return isinstance(d, (int, np.integer))


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
        unlike = same_as_text(half, work)
    limit = [max(2 * e, FP16_FLOOR) for e in note["fp16_error"]] if note["fp16_error"] else [FP16_WITHOUT] * len(typed)
    bad = []
    if max(exact) > FP32:
        bad.append(f"fp32 differs by {max(exact):.2e}")
    if not note["unstable"] and any(e > m for e, m in zip(typed, limit)):
        bad.append(f"fp16 differs by {max(typed):.2e}, allowed {max(limit):.2e}")
    if difference:
        bad.append(f"written again: {difference}")
    if unlike:
        bad.append(f"in Propane: {unlike}")
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
