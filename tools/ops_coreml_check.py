#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares Propane's operations with coremltools' own. Every operation of its registry for iOS 15 to 18 must be a row of
ops.def with the same opset and the same parameters. If coremltools computes values itself (its value inference), they must
equal tests/data/ops_reference.txt, which is the reference for the rows. Intended differences are listed below and in
docs/coreml-differences.md. Skipped (exit 77) if coremltools is missing.

    python3 tools/ops_coreml_check.py build/release/propane
"""
import json
import logging
import os
import subprocess
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")
try:
    logging.disable(logging.CRITICAL)
    import coremltools as ct
    from coremltools.converters.mil.mil import Builder as mb, Function
    from coremltools.converters.mil.mil import types
    from coremltools.converters.mil.mil.ops import defs  # noqa: F401: fills the registry
    from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry
except ImportError as error:
    print("coremltools is not here: %s" % error)
    sys.exit(77)

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
propane = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "build/release/propane")
targets = {"ios15": ct.target.iOS15, "ios16": ct.target.iOS16, "ios17": ct.target.iOS17, "ios18": ct.target.iOS18}
# ---- known differences ------------------------------------------------------------------------------------------------
# In the registry: its helpers, and operations that exist only in the text form.
OWN = {"_const_symbolic": "a helper of the converters, never written", "write_state": "only in programs as Core ML writes them"}
# Dialects are coremltools' intermediate forms: they are lowered before a program is written, except this one.
WRITTEN_DIALECT = "coreml_update_state"
# Operations that coremltools refuses to build although their text allows it, or accepts in fewer forms.
REFUSES = {
    "cumsum": "inference fails with exclusive, and axes below -1 are refused",
    "layer_norm": "inference of the default axes fails",
    "scaled_dot_product_attention": "query, key and value of one batch",
    "matmul": "no vectors as operands",
    "einsum": "two operands of a few forms of equation alone",
    "squeeze": "only dimensions of 1",
    "prelu": "one alpha for rank 3 and 5",
    "l2_pool": "no three spatial dimensions",
    "max_pool": "no ceil_mode with three spatial dimensions",
    "avg_pool": "no ceil_mode with three spatial dimensions",
    "conv_quantized": "wants a bias of the weight's element type",
    "flatten2d": "inference fails for axis 0",
    "scatter": "int32 indices alone",
    "scatter_nd": "int32 indices alone",
    "one_hot": "int32 indices alone",
    "gather": "no bool",
    "pad": "floats alone",
}
# Operations whose value inference gives another result; their texts agree with our results.
VALUES = {
    "concat": "inference leaves interleave out",
    "clamped_relu": "a beta below zero counts twice: min(max(x, 0), beta) + min(alpha min(x, 0), beta)",
    "scatter_along_axis": "inference writes the updates, whatever the mode",
    "reduce_log_sum_exp": "NaN where all elements are -inf",
}
# Attributes that must be unsigned.
UNSIGNED = {("resize", "resized_dims"), ("pixel_unshuffle", "downscale_factor"), ("constexpr_lut_to_dense", "shape"), ("constexpr_sparse_to_dense", "shape")}


def rows():
    lines = subprocess.run([propane, "ops", "--json"], check=True, capture_output=True, text=True).stdout.splitlines()
    return {row["op"]: row for row in map(json.loads, lines)}


# ---- the registry -----------------------------------------------------------------------------------------------------
def check_registry(have):
    wrong, counts = [], {name: 0 for name in targets}
    theirs = dict(SSAOpRegistry.core_ops)
    theirs[WRITTEN_DIALECT] = SSAOpRegistry.dialect_ops[WRITTEN_DIALECT]
    for op, versions in sorted(theirs.items()):
        if op in OWN:
            continue
        if op not in have:
            wrong.append("%s is no row of ops.def" % op)
            continue
        by_target = versions if isinstance(versions, dict) else {targets["ios18"]: versions}
        first = next(name for name, target in targets.items() if target in by_target)
        if op != WRITTEN_DIALECT and have[op]["since"] != first:
            wrong.append("%s is there since %s, in ops.def since %s" % (op, first, have[op]["since"]))
        ours = {p["name"] for p in have[op]["parameters"]} - {"captured"}
        used = set()
        for name, target in targets.items():
            if target not in by_target:
                continue
            counts[name] += 1
            used |= set(by_target[target].input_spec.input_types)
        used = {name for name in used if name[0] != "_"}  # used only by the builder
        if used != ours:
            wrong.append("%s: parameters %s are not in ops.def, %s not in coremltools" % (op, sorted(used - ours), sorted(ours - used)))
    for op in have:
        if op not in theirs and op not in OWN:
            wrong.append("%s is a row, but not in coremltools" % op)
    return wrong, counts


# ---- values -----------------------------------------------------------------------------------------------------------
numpy_types = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "bool": np.bool_, "int8": np.int8, "uint8": np.uint8, "int16": np.int16,
               "uint16": np.uint16}
packed_types = {"int4": "int4", "uint4": "uint4", "uint1": "uint1", "uint2": "uint2", "uint3": "uint3", "uint6": "uint6"}


def array(text, dtype):
    """Returns an array of a MIL element type; those with few bits are coremltools' own numpy types."""
    values = [float(v) for v in text.split(",") if v]
    if dtype in packed_types:
        kind = types.type_mapping.string_to_nptype(dtype) if hasattr(types.type_mapping, "string_to_nptype") else types.nptype_from_builtin(types.string_to_builtin(dtype))
        return np.array(values).astype(kind)
    with np.errstate(all="ignore"):
        return np.array(values).astype(numpy_types[dtype])


def tensor(spec, dtype):
    head, spec = spec[:min(spec.find(c) for c in "[(" if c in spec)], spec[min(spec.find(c) for c in "[(" if c in spec):]
    dtype = head if head and head != "$" else dtype
    if spec[0] == "(":
        return array(spec[1:-1], dtype)[0]
    dims = [int(v) for v in spec[1:spec.index("]")].split(",") if v]
    return array(spec[spec.index("~=") + 2:].rstrip("!"), dtype).reshape(dims)


standard = {"bool": "bool", "int": "int32", "int8|uint8": "int8"}


def argument(spec, klass, dtype):
    if klass == "const string":
        return spec
    if klass in ("const ints", "const int"):
        values = [int(v) for v in spec.strip("[]").split(",") if v]
        return np.int32(values[0]) if klass == "const int" else np.array(values, dtype=np.int32)
    if klass in ("const bools", "const bool"):
        values = [v == "true" for v in spec.strip("[]").split(",")]
        return values[0] if klass == "const bool" else np.array(values)
    if klass == "const number":
        return array(spec, dtype)[0]
    if klass == "const float":
        return np.float16(spec) if dtype == "fp16" else np.float32(spec)
    return tensor(spec, standard.get(klass, dtype))


def arguments(row, line, dtype):
    kinds = {p["name"]: p for p in row["parameters"]}
    out = {}
    for word in line.split():
        name, spec = word.split("=", 1)
        if name == "opset":
            continue
        p = kinds[name]
        parts = [argument(s, p["class"], dtype) for s in spec.split("|")]
        if (row["op"], name) in UNSIGNED:
            parts = [part.astype(np.uint32) for part in parts]
        out[name] = tuple(parts) if p["need"] == "variadic" else parts[0]
    return out


def wanted(line):
    out, rest = [], line.strip()
    while rest:
        dims = [int(v) for v in rest[1:rest.index("]")].split(",") if v]
        words = rest[rest.index("]") + 1:].split(" ")[1:]
        count = int(np.prod(dims))
        out.append(np.array([float(v) for v in words[:count]]).reshape(dims))
        rest = " ".join(words[count:]).strip()
    return out


def infer(op, args):
    """Returns what coremltools itself computes, or None if it does not. The newest opset that accepts the arguments is used."""
    failure = None
    for target in reversed(list(targets.values())):
        try:
            with Function({}, opset_version=target):
                out = getattr(mb, op)(**args)
            out = out if isinstance(out, (list, tuple)) else [out]
            values = [o.val for o in out]
            if op.startswith("constexpr_"):  # kept packed until needed
                values = out[0].op.materialized_val_inference()
                values = list(values) if isinstance(values, tuple) else [values]
            return [None if v is None else np.asarray(v) for v in values], None
        except Exception as error:  # any error of the builder
            failure = failure or error
    return None, failure


def close(have, want, dtype):
    if have.shape != want.shape:
        return False
    have, finite = have.astype(np.float64), np.abs(want[np.isfinite(want)])
    scale = max(1.0, finite.max() if finite.size else 1.0)
    return np.allclose(have, want, rtol=0, atol=scale * (2e-3 if dtype == "fp16" else 2e-5), equal_nan=True)


def check_values(have):
    compared, silent, wrong, seen = {}, set(), [], set()
    with open(os.path.join(here, "tests/data/ops_reference.txt")) as f:
        lines = iter(f.read().splitlines())
    for line in lines:
        want = next(lines)
        if line[0] == "@":
            next(lines)
            continue
        if line[0] == "~":
            continue
        op, dtype, text = line.split(" ", 2)
        out, failure = infer(op, arguments(have[op], text, dtype))
        if out is None:
            if op not in REFUSES:
                wrong.append("%s: coremltools refuses: %s" % (line[:150], str(failure)[:200]))
            seen.add(("refuses", op))
            continue
        if any(o is None for o in out):
            silent.add(op)
            continue
        compared[op] = compared.get(op, 0) + 1
        expected = wanted(want)
        bad = len(out) != len(expected) or not all(close(o, w, dtype) for o, w in zip(out, expected))
        if bad:
            seen.add(("values", op))
            if op not in VALUES:
                wrong.append("%s: coremltools gives %s, here is %s" % (line[:200], " ".join(str(o.tolist()) for o in out)[:200], want[:200]))
    wrong += ["%s no longer differs: take it off the list" % op for op in VALUES if ("values", op) not in seen]
    wrong += ["%s is no longer refused: take it off the list" % op for op in REFUSES if ("refuses", op) not in seen]
    return compared, silent - set(compared), wrong


if __name__ == "__main__":
    table = rows()
    wrong, counts = check_registry(table)
    compared, silent, differing = check_values(table)
    for line in wrong + differing:
        print(line)
    print("without values of coremltools' own: " + " ".join(sorted(silent)))
    print("%s operations of coremltools %s are rows; %d cases of %d operations have its values, %d have none" %
          ("/".join(str(n) for n in counts.values()), ct.__version__, sum(compared.values()), len(compared), len(silent)))
    sys.exit(1 if wrong + differing else 0)
