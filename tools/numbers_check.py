#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the cpu device's results with NumPy, for the generated operations with numbers of all sizes from
tests/campaign/test_numbers (tests/support/extreme_cases.c): fp32, fp16 and integers, edge cases included. If there is only
one rounding, NumPy computes in the element type and the bits must be equal. Functions are computed in double. Intended
differences from NumPy are listed in docs/coreml-differences.md and below, in the function of each operation. Skipped (exit
77) if NumPy or the test is missing.

    python3 tools/numbers_check.py build/release/propane [cases [seed]]
"""
import json
import math
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError as error:
    print("NumPy is not here: %s" % error)
    sys.exit(77)

TYPES = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "int16": np.int16, "uint16": np.uint16, "int8": np.int8,
         "uint8": np.uint8, "bool": np.bool_}
ULPS = 8  # of fp32, in functions and sums; observed: 5.0 (pow)


class Unknown(Exception):
    """Raised if there is nothing to compare with."""


def tensor(t):
    if t["dtype"] not in TYPES:
        raise Unknown(t["dtype"])
    return np.array(t["values"], dtype=np.float64).reshape(t["shape"]).astype(TYPES[t["dtype"]])


class Case:
    def __init__(self, line):
        self.line = json.loads(line)
        self.op, self.operands = self.line["op"], self.line["operands"]
        self.out = self.line["results"][0]["dtype"]

    def __call__(self, name, default=None):
        """Returns an operand as an array; a default is returned unchanged."""
        if name not in self.operands:
            return default
        v = self.operands[name][0]
        if v is None:
            raise Unknown("a text")
        return v if isinstance(v, str) else tensor(v)

    def number(self, name, default):
        v = self(name, default)
        return v.item() if isinstance(v, np.ndarray) else v

    def axes(self, rank):
        v = self("axes")
        return tuple(range(rank)) if v is None else tuple(int(a) % rank for a in v)


def is_int(a):
    return a.dtype.kind in "iu"


def nearest(exact, dtype):
    """Rounds exact numbers to the nearest value of an integer type, where NumPy wraps; NaN becomes 0."""
    info = np.iinfo(dtype)
    flat = [0 if v != v else int(min(max(v, info.min), info.max)) for v in np.asarray(exact, dtype=object).ravel()]
    return np.array(flat, dtype=dtype).reshape(np.shape(exact))


def two(f, whole=None):
    """Computes with one rounding, in the element type; integers exactly by `whole`, then rounded to the nearest."""
    def compute(c):
        x, y = c("x"), c("y")
        if is_int(x) and whole:
            pairs = np.broadcast_arrays(x, y)
            exact = np.array([whole(int(a), int(b)) for a, b in zip(pairs[0].ravel(), pairs[1].ravel())], dtype=object)
            return nearest(exact.reshape(pairs[0].shape), x.dtype)
        return f(x, y)
    return compute


def by_zero(x):
    return math.inf if x > 0 else -math.inf if x < 0 else math.nan


def quotient(x, y):
    """Uses the exact quotient: NumPy's own in fp32 rounds x - x mod y first, and is off by one from about 2^22."""
    return np.floor_divide(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def truncated(x, y):
    return by_zero(x) if y == 0 else int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def int_pow(x, y):
    if y >= 0:
        return x ** min(y, 2000 + y % 2) if abs(x) > 1 else x ** (y % 2 + 2 * (y > 0))
    return by_zero(1) if x == 0 else (x if y % 2 else 1) if abs(x) == 1 else 0


def one(f):
    return lambda c: f(c("x"))


def wide(f):
    """Computes a function in double."""
    return lambda c: f(c("x").astype(np.float64))


def limit(f):
    """Returns the limit at minus infinity, -0, where the formula is infinity times 0."""
    return wide(lambda x: np.where(x == -np.inf, -0.0, f(x)))


def gelu(c):
    x, mode = c("x").astype(np.float64), c("mode", "EXACT")
    if mode == "EXACT":
        y = x * 0.5 * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2))
    else:
        u = 2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3) if mode[0] == "T" else 1.702 * x
        y = x / (1 + np.exp(-u))
    return np.where(x == -np.inf, -0.0, y)


def cast(c):
    x, to = c("x"), TYPES[c.out]
    if np.dtype(to).kind in "iu":
        return nearest(np.trunc(x.astype(np.float64)), to)
    return x.astype(to)


def reduced(f, whole=None):
    def compute(c):
        x = c("x")
        axes, keep = c.axes(x.ndim), bool(c.number("keep_dims", False))
        if is_int(x):
            if not whole:
                raise Unknown("integers")
            return nearest(whole(x.astype(object), axes, keep), x.dtype)
        return f(x.astype(np.float64), axis=axes, keepdims=keep) if axes else f(x.astype(np.float64)[None], axis=0)
    return compute


def log_sum_exp(x, axis, keepdims=False):
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdims else np.squeeze(y, axis=axis)


def best(f):
    def compute(c):
        return f(c("x"), axis=int(c.number("axis", -1)), keepdims=bool(c.number("keep_dims", False))).astype(TYPES[c.out])
    return compute


def argsort(c):
    """NaN comes last in both directions; of equal values, the first comes first."""
    x, axis = c("x").astype(np.float64), int(c.number("axis", -1))
    key = x if c.number("ascending", False) else -x
    return np.argsort(key, axis=axis, kind="stable").astype(np.int32)


def cumsum(c):
    x, axis = c("x"), int(c.number("axis", 0))
    if c.number("exclusive", False) or c.number("reverse", False):
        raise Unknown("no such cumsum")
    if is_int(x):
        return nearest(np.cumsum(x.astype(object), axis=axis), x.dtype)
    return np.cumsum(x.astype(np.float64), axis=axis)


def softmax(c):
    x, axis = c("x").astype(np.float64), int(c.number("axis", -1))
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def quantize(c):
    x, scale, zero = c("input").astype(np.float64), c("scale").astype(np.float64), c("zero_point", np.zeros(()))
    if scale.ndim or zero.ndim:
        raise Unknown("an axis")
    return nearest(np.rint(x / scale) + zero.astype(np.float64), TYPES[c.out])


def dequantize(c):
    scale, zero = c("scale"), c("zero_point", np.zeros(()))
    if scale.ndim or zero.ndim:
        raise Unknown("an axis")
    return ((c("input").astype(np.float64) - zero.astype(np.float64)) * scale.astype(np.float64)).astype(scale.dtype)


def clip(c):
    x = c("x").astype(np.float64)
    return np.minimum(np.maximum(x, c.number("alpha", 0)), c.number("beta", 0))


def gather(c):
    if c.number("batch_dims", 0):
        raise Unknown("batches")
    return np.take(c("x"), c("indices").astype(np.int64), axis=int(c.number("axis", 0)))


def topk(c):
    if "output_indices_dtype" in c.operands:
        raise Unknown("another type of index")
    x, axis, k = c("x"), int(c.number("axis", -1)), int(c.number("k", 1))
    key = x.astype(np.float64)
    order = np.argsort(key if c.number("ascending", False) else -key, axis=axis, kind="stable")
    return np.take_along_axis(x, np.take(order, np.arange(k), axis=axis), axis=axis)


def pad(c):
    x, amount, mode = c("x"), c("pad"), c("mode", "constant")
    pairs = [(0, 0)] * (x.ndim - len(amount) // 2) + [tuple(int(v) for v in p) for p in amount.reshape(-1, 2)]
    if mode == "constant":
        v = c("constant_val", np.zeros(()))
        return np.pad(x, pairs, constant_values=nearest(np.trunc(v.astype(np.float64)), x.dtype) if is_int(x) else v.astype(x.dtype))
    return np.pad(x, pairs, mode="reflect" if mode == "reflect" else "edge")


def band_part(c):
    x, lower, upper = c("x"), int(c.number("lower", -1)), int(c.number("upper", -1))
    rows, columns = np.indices(x.shape[-2:])
    keep = ((lower < 0) | (rows - columns <= lower)) & ((upper < 0) | (columns - rows <= upper))
    return np.where(keep, x, np.zeros((), x.dtype))


def each(name):
    """Returns all values of a variadic parameter."""
    return lambda c: [tensor(v) for v in c.operands[name]]


def concat(c):
    if c.number("interleave", False):
        raise Unknown("interleaved")
    return np.concatenate([np.atleast_1d(v) for v in each("values")(c)], axis=int(c.number("axis", 0)))


def matmul(c):
    x, y = c("x"), c("y")
    if x.ndim < 2 or y.ndim < 2:
        raise Unknown("vectors")
    x = np.swapaxes(x, -1, -2) if c.number("transpose_x", False) else x
    y = np.swapaxes(y, -1, -2) if c.number("transpose_y", False) else y
    if is_int(x) and is_int(y):
        return nearest(np.matmul(x.astype(object), y.astype(object)), np.int32)
    y = np.matmul(x.astype(np.float64), y.astype(np.float64))
    return nearest(np.trunc(y), np.int32) if c.out == "int32" else y


def linear(c):
    x, w, b = c("x"), c("weight"), c("bias")
    if is_int(x):
        raise Unknown("integers")
    return np.matmul(x.astype(np.float64), w.astype(np.float64).T) + (0 if b is None else b.astype(np.float64))


def copied(c):
    return c("x").reshape(c.line["results"][0]["shape"])


def shifted(c, epsilon):
    """The sum of x and epsilon is computed in fp32."""
    return (c("x").astype(np.float32) + np.float32(c.number("epsilon", epsilon))).astype(np.float64)


def affine(c):
    return c("x").astype(np.float64) * c.number("alpha", 0) + c.number("beta", 0)


OR, AND, XOR = np.logical_or, np.logical_and, np.logical_xor
EXACT = {
    "add": two(np.add, lambda x, y: x + y), "sub": two(np.subtract, lambda x, y: x - y), "mul": two(np.multiply, lambda x, y: x * y),
    "real_div": two(np.divide, truncated), "floor_div": two(quotient, lambda x, y: by_zero(x) if y == 0 else x // y),
    "mod": two(np.mod, lambda x, y: 0 if y == 0 else x % y), "maximum": two(np.maximum), "minimum": two(np.minimum),
    "equal": two(np.equal), "not_equal": two(np.not_equal), "less": two(np.less), "less_equal": two(np.less_equal),
    "greater": two(np.greater), "greater_equal": two(np.greater_equal), "logical_and": two(AND), "logical_or": two(OR),
    "logical_xor": two(XOR), "logical_not": one(np.logical_not),
    "select": lambda c: np.where(c("cond"), c("a"), c("b")),
    "abs": lambda c: nearest(np.abs(c("x").astype(object)), np.int32) if is_int(c("x")) else np.abs(c("x")),
    "square": lambda c: nearest(c("x").astype(object) ** 2, np.int32) if is_int(c("x")) else np.square(c("x")),
    "sign": one(np.sign), "ceil": one(np.ceil), "floor": one(np.floor), "round": one(np.rint), "sqrt": one(np.sqrt),
    "relu": one(lambda x: np.maximum(x, x.dtype.type(0))),
    "relu6": one(lambda x: np.minimum(np.maximum(x, x.dtype.type(0)), x.dtype.type(6))), "clip": clip,
    "identity": one(lambda x: x), "cast": cast, "quantize": quantize, "dequantize": dequantize,
    "reduce_max": reduced(np.max, lambda x, a, k: np.max(x, axis=a, keepdims=k) if a else x),
    "reduce_min": reduced(np.min, lambda x, a, k: np.min(x, axis=a, keepdims=k) if a else x),
    "reduce_argmax": best(np.argmax), "reduce_argmin": best(np.argmin), "argsort": argsort, "topk": topk,
    "gather": gather, "transpose": lambda c: np.transpose(c("x"), c("perm")),
    "reverse": lambda c: np.flip(c("x"), c.axes(c("x").ndim)), "tile": lambda c: np.tile(c("x"), c("reps")),
    "expand_dims": lambda c: np.expand_dims(c("x"), tuple(c("axes"))),
    "reshape": copied, "squeeze": copied, "flatten2d": copied, "reshape_like": copied, "pad": pad, "band_part": band_part,
    "concat": concat, "stack": lambda c: np.stack(each("values")(c), axis=int(c.number("axis", 0))),
    "fill_like": lambda c: np.full(c("ref_tensor").shape, c.number("value", 0.0)),
    "one_hot": lambda c: np.moveaxis(np.where(c("indices")[..., None] == np.arange(int(c.number("one_hot_vector_size", 1))),
                                              c.number("on_value", 1), c.number("off_value", 0)), -1, int(c.number("axis", -1))),
    "threshold": lambda c: np.maximum(c("x"), c("alpha")),
    "thresholded_relu": lambda c: np.where(c("x") < c.number("alpha", 1), 0, c("x")),
    "gather_along_axis": lambda c: np.take_along_axis(c("x"), c("indices").astype(np.int64), int(c.number("axis", 0))),
}
NEAR = {
    "pow": lambda c: nearest(two(None, int_pow)(c), np.int32) if is_int(c("x")) else np.power(c("x").astype(np.float64), c("y").astype(np.float64)),
    "exp": wide(np.exp), "exp2": lambda c: nearest(np.exp2(c("x").astype(np.float64)), np.int32) if is_int(c("x")) else np.exp2(c("x").astype(np.float64)),
    "sin": wide(np.sin), "cos": wide(np.cos), "tan": wide(np.tan), "asin": wide(np.arcsin), "acos": wide(np.arccos),
    "atan": wide(np.arctan), "sinh": wide(np.sinh), "cosh": wide(np.cosh), "tanh": wide(np.tanh), "atanh": wide(np.arctanh),
    "erf": wide(np.vectorize(math.erf, otypes=[float])), "sigmoid": wide(lambda x: 1 / (1 + np.exp(-x))),
    "silu": limit(lambda x: x / (1 + np.exp(-x))), "softsign": wide(lambda x: x / (1 + np.abs(x))),
    "softplus": wide(lambda x: np.logaddexp(x, 0)),
    "log": lambda c: np.log(shifted(c, 1e-45)), "rsqrt": lambda c: 1 / np.sqrt(shifted(c, 1e-12)),
    "inverse": lambda c: 1 / shifted(c, 1e-4),
    "elu": lambda c: np.where(c("x") < 0, c.number("alpha", 0) * np.expm1(c("x").astype(np.float64)), c("x").astype(np.float64)),
    "leaky_relu": lambda c: np.where(c("x") < 0, c("x").astype(np.float64) * c.number("alpha", 0), c("x").astype(np.float64)),
    "gelu": gelu, "softmax": softmax, "reduce_log_sum_exp": reduced(log_sum_exp),
    "reduce_sum": reduced(np.sum, lambda x, a, k: np.sum(x, axis=a, keepdims=k) if a else x),
    "reduce_l1_norm": reduced(lambda x, **k: np.sum(np.abs(x), **k)), "cumsum": cumsum, "reduce_mean": reduced(np.mean),
    "reduce_sum_square": reduced(lambda x, **k: np.sum(x * x, **k)), "reduce_prod": reduced(np.prod),
    "reduce_l2_norm": reduced(lambda x, **k: np.sqrt(np.sum(x * x, **k))),
    "matmul": matmul, "linear": linear, "linear_activation": affine,
    "sigmoid_hard": lambda c: np.minimum(np.maximum(affine(c), 0), 1),
    "scaled_tanh": lambda c: c.number("alpha", 0) * np.tanh(c.number("beta", 0) * c("x").astype(np.float64)),
    "clamped_relu": lambda c: np.minimum(np.where(c("x") < 0, c.number("alpha", 0), 1) * c("x").astype(np.float64), c.number("beta", 0)),
}
# IEEE does not define which of two zeros is larger, and sums begin with a zero.
ANY_ZERO = {"matmul", "linear", "sigmoid_hard", "clamped_relu", "threshold", "reduce_mean", "linear_activation", "maximum", "minimum", "relu", "relu6", "clip", "reduce_max", "reduce_min", "reduce_sum", "reduce_l1_norm", "cumsum"}


def scale_of(c, want):
    """Returns the value whose last place is the unit: a sum's terms, the value to which an epsilon is added, or a rounded
    argument."""
    x = np.abs(np.asarray(c("x"), dtype=np.float64))
    x = np.where(np.isfinite(x), x, 0)
    if c.op in ("matmul", "linear"):
        most = [np.max(np.abs(v)[np.isfinite(v)], initial=0) for v in map(lambda n: np.asarray(c(n, 0), np.float64), ("x", "y", "weight", "bias"))]
        return np.full_like(want, most[0] * (most[1] + most[2]) * x.shape[-1] + most[3])
    if c.op in ("linear_activation", "sigmoid_hard"):
        return x * abs(c.number("alpha", 0)) + abs(c.number("beta", 0))
    if c.op in ("reduce_sum_square", "reduce_l2_norm", "scaled_tanh", "reduce_prod"): # intermediate values leave fp32 in both directions
        least = np.min(x[x > 0], initial=1)
        gone = np.max(x, initial=1) * abs(c.number("alpha", 1)) > 2.0 ** 60 or least < 2.0 ** -60
        gone |= c.op == "reduce_prod" and np.sum(np.abs(np.log2(x[x > 0]))) > 120
        return np.full_like(want, np.inf) if gone else np.abs(want) * max(x.size, 1)
    if c.op in ("reduce_sum", "reduce_l1_norm", "cumsum", "reduce_mean"):
        return np.full_like(want, np.sum(x))
    if c.op == "reduce_log_sum_exp":
        return np.maximum(np.abs(want), np.max(x, initial=1))
    if c.op in ("log", "gelu", "softmax", "inverse", "rsqrt"):
        return np.abs(want) * 64 + (1 if c.op == "log" else 0)
    return np.abs(want)


def wrong(c, want, got, exact):
    """Returns how many elements differ, and the first of them."""
    dtype = got.dtype
    if exact or dtype.kind != "f":
        want = np.asarray(want).astype(dtype)
        same = (want == got) | (np.isnan(want) & np.isnan(got) if dtype.kind == "f" else False)
    else:
        want = np.asarray(want, dtype=np.float64)
        off = np.where(np.isfinite(want), ULPS * 2.0 ** -24 * scale_of(c, want), 0) + 2.0 ** -142
        if np.any(scale_of(c, want) > np.finfo(np.float32).max):
            raise Unknown("a sum that leaves fp32")
        low, high = (want - off).astype(dtype), (want + off).astype(dtype)
        same = ((low <= got) & (got <= high)) | (np.isnan(want) & np.isnan(got))
        want = want.astype(dtype)
    if dtype.kind == "f" and c.op not in ANY_ZERO:
        zeros = (want == 0) & (got == 0)
        same &= ~zeros | (np.signbit(want) == np.signbit(got))
    bad = np.flatnonzero(~same.ravel())
    if not len(bad):
        return 0, ""
    k = bad[0]
    return len(bad), "[%d] is %r, NumPy has %r" % (k, got.ravel()[k], want.ravel()[k])


def main():
    propane = sys.argv[1] if len(sys.argv) > 1 else "build/release/propane"
    cases = sys.argv[2] if len(sys.argv) > 2 else "20000"
    seed = sys.argv[3] if len(sys.argv) > 3 else "1"
    test = os.path.join(os.path.dirname(propane), "tests/campaign/test_numbers")
    if not os.path.exists(test):
        print("%s is not built (make tests)" % test)
        sys.exit(77)
    np.seterr(all="ignore")
    compared, ops, left, bad = 0, set(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cases.jsonl")
        subprocess.run([test], check=True, stdout=subprocess.DEVNULL, env={**os.environ, "NUMBERS": cases, "SEED": seed, "NUMBERS_WRITE": path})
        with open(path) as f:
            for line in f:
                c = Case(line)
                if c.op not in EXACT and c.op not in NEAR:
                    left += 1
                    continue
                try:
                    want = (EXACT.get(c.op) or NEAR[c.op])(c)
                    got = tensor(c.line["results"][0])
                    if np.shape(want) != got.shape:
                        raise Unknown("another shape: %s, not %s" % (np.shape(want), got.shape))
                    count, first = wrong(c, want, got, c.op in EXACT)
                except Unknown:
                    left += 1
                    continue
                compared += 1
                ops.add(c.op)
                if count:
                    bad += 1
                    if bad <= 40:
                        print("%s: %d elements differ: %s" % (c.line["label"], count, first))
    print("%d cases of %d operations compared with NumPy %s, %d differ; %d cases have nothing to compare with" %
          (compared, len(ops), np.__version__, bad, left))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
