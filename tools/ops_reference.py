#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/ops_reference.txt: the results of PyTorch and numpy, in double precision, for every MIL operation and
combinations of its arguments. tests/ops/test_reference compares the slow reference (src/core/mil/eval/eval_*.c) with it, so
nothing here may be derived from that. Needs numpy and torch; the build and the tests do not.

    python3 tools/ops_reference.py > tests/data/ops_reference.txt

A case has two lines: "OP DTYPE LINE" in the language of tests/support/op_cases.c, then "[dims] values" for each result.
Inputs are multiples of 1/64 and thus exact in every element type. A whole program, for operations that show nothing by
themselves, has three lines: "@ROWS MIL TEXT", "[dims] values" of the inputs, and those of the results and then of the
states. A distribution has two lines: "~OP DTYPE LINE", then "[edges] values" and "[rows, edges + 1] probabilities" of the
bins between them.
"""
import itertools
import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(20)
torch.set_default_dtype(torch.float64)
T = torch.from_numpy


def f32(x):
    return float(np.float32(x))


def num(v):
    v = float(v)
    if not np.isfinite(v):
        return 'nan' if np.isnan(v) else 'inf' if v > 0 else '-inf'
    return str(int(v)) if v == int(v) and abs(v) < 1e15 else ('%.15g' % v)


def shape(a):
    return '[' + ','.join(str(d) for d in a.shape) + ']'


class In:
    """A tensor operand: its values, and how they are written."""
    def __init__(self, a, dtype='', const=False):
        self.a, self.dtype, self.const = np.asarray(a, dtype=np.float64), dtype, const

    def __str__(self):
        return (self.dtype + shape(self.a) + '~=' + ','.join(num(v) for v in self.a.ravel()) + ('!' if self.const else ''))


def normal(*dims, scale=1.0):
    return np.round(rng.normal(size=dims) * scale * 64) / 64


def positive(*dims):
    return np.round(rng.uniform(0.25, 3, size=dims) * 64) / 64


def away(*dims):
    a = normal(*dims)
    return np.where(np.abs(a) < 0.25, 0.5, a)


def ints(*dims, low=-9, high=9):
    return rng.integers(low, high + 1, size=dims).astype(np.float64)


def write(value):
    if isinstance(value, In):
        return str(value)
    if isinstance(value, list) and value and isinstance(value[0], In):
        return '|'.join(str(v) for v in value)
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(write(v) for v in value) + ']'
    return value if isinstance(value, str) else num(value)


def case(op, want, dtype='fp32', **args):
    """Writes one record. `want`: an array or a list of arrays; arguments that are None are omitted. A name may end in "=" if
    it would clash (dtype)."""
    line = ' '.join(k.rstrip('=') + '=' + write(v) for k, v in args.items() if v is not None)
    results = want if isinstance(want, list) else [want]
    results = [np.asarray(r.numpy() if isinstance(r, torch.Tensor) else r, dtype=np.float64) for r in results]
    print(op, dtype, line)
    print(' '.join(shape(r) + ' ' + ' '.join(num(v) for v in r.ravel()) for r in results))


# ---- elementwise, two operands
pairs = [((5,), (5,)), ((), (4,)), ((2, 1), (1, 3)), ((2, 3), (3,)), ((2, 1, 2), (3, 1))]
floats = {'add': torch.add, 'sub': torch.sub, 'mul': torch.mul, 'real_div': torch.div, 'floor_div': torch.floor_divide,
          'mod': torch.remainder, 'maximum': torch.maximum, 'minimum': torch.minimum}
for (name, f), (a, b) in itertools.product(floats.items(), pairs):
    x, y = normal(*a), away(*b)
    case(name, f(T(np.asarray(x)), T(np.asarray(y))), x=In(x), y=In(y))
for a, b in pairs:
    x, y = positive(*a), normal(*b)
    case('pow', torch.pow(T(np.asarray(x)), T(np.asarray(y))), x=In(x), y=In(y))
whole = {'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'floor_div': np.floor_divide, 'mod': np.mod,
         'maximum': np.maximum, 'minimum': np.minimum}
for name, f in whole.items():
    x, y = ints(2, 6), ints(6, low=1, high=5) * rng.choice([-1, 1], size=6)
    case(name, f(x.astype(np.int32), y.astype(np.int32)), dtype='int32', x=In(x), y=In(y))
compare = {'equal': np.equal, 'not_equal': np.not_equal, 'less': np.less, 'less_equal': np.less_equal,
           'greater': np.greater, 'greater_equal': np.greater_equal}
for (name, f), (a, b) in itertools.product(compare.items(), pairs):
    x, y = ints(*a, low=-1, high=1), ints(*b, low=-1, high=1)
    case(name, f(x, y), x=In(x), y=In(y))
for name, f in {'logical_and': np.logical_and, 'logical_or': np.logical_or, 'logical_xor': np.logical_xor}.items():
    x, y = ints(2, 1, low=0, high=1), np.array([0.0, 1.0])
    case(name, f(x, y), x=In(x), y=In(y))
case('logical_not', np.logical_not([0.0, 1.0, 1.0]), x=In([0, 1, 1]))
for c, a, b in [((4,), (4,), (4,)), ((2, 1), (3,), (2, 3)), ((), (2, 2), (2,)), ((3,), (2, 1), ())]:
    cond, x, y = ints(*c, low=0, high=1), normal(*a), normal(*b)
    case('select', np.where(cond != 0, x, y), cond=In(cond), a=In(x), b=In(y))

# ---- elementwise, one operand
unary = {'abs': torch.abs, 'sign': torch.sign, 'ceil': torch.ceil, 'floor': torch.floor, 'round': torch.round,
         'square': torch.square, 'exp': torch.exp, 'exp2': torch.exp2, 'sin': torch.sin, 'cos': torch.cos,
         'tanh': torch.tanh, 'erf': torch.erf, 'sigmoid': torch.sigmoid, 'relu': F.relu, 'relu6': F.relu6, 'silu': F.silu,
         'softplus': F.softplus, 'softsign': F.softsign, 'identity': torch.clone}
for name, f in unary.items():
    for x in (normal(12, scale=3.0), np.array(-0.5), np.array([[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]])):
        case(name, f(T(x)), x=In(x))
for name, f in {'sqrt': torch.sqrt, 'rsqrt': lambda t: torch.rsqrt(t + 1e-12), 'inverse': lambda t: torch.reciprocal(t + 1e-4),
                'log': torch.log}.items():
    x = positive(3, 4)
    case(name, f(T(x)), x=In(x))
for eps in (0.5, 0.001):
    x = positive(5)
    case('rsqrt', torch.rsqrt(T(x) + f32(eps)), x=In(x), epsilon=eps)
    case('inverse', torch.reciprocal(T(x) + f32(eps)), x=In(x), epsilon=eps)
    case('log', torch.log(T(x) + f32(eps)), x=In(x), epsilon=eps)
x = normal(12, scale=2.0)
case('gelu', F.gelu(T(x)), x=In(x))
case('gelu', F.gelu(T(x)), x=In(x), mode='EXACT')
case('gelu', F.gelu(T(x), approximate='tanh'), x=In(x), mode='TANH_APPROXIMATION')
case('gelu', T(x) * torch.sigmoid(1.702 * T(x)), x=In(x), mode='SIGMOID_APPROXIMATION')
for alpha in (0.25, 1.5):
    case('leaky_relu', F.leaky_relu(T(x), alpha), x=In(x), alpha=alpha)
    case('elu', F.elu(T(x), alpha), x=In(x), alpha=alpha)
    case('sigmoid_hard', torch.clamp(alpha * T(x) + 0.5, 0, 1), x=In(x), alpha=alpha, beta=0.5)
    case('clip', torch.clamp(T(x), -alpha, 2 * alpha), x=In(x), alpha=-alpha, beta=2 * alpha)
x = normal(12, scale=3.0)
for dtype, np_type in {'int32': np.int32, 'int8': np.int8, 'int16': np.int16, 'bool': np.bool_}.items():
    case('cast', x.astype(np_type), x=In(x), **{'dtype=': dtype})

# ---- reductions
x3 = away(2, 3, 4)
reductions = {'reduce_sum': torch.sum, 'reduce_mean': torch.mean, 'reduce_max': torch.amax, 'reduce_min': torch.amin,
              'reduce_l1_norm': lambda t, dim, keepdim: torch.linalg.vector_norm(t, 1, dim, keepdim),
              'reduce_l2_norm': lambda t, dim, keepdim: torch.linalg.vector_norm(t, 2, dim, keepdim),
              'reduce_sum_square': lambda t, dim, keepdim: torch.sum(t * t, dim, keepdim),
              'reduce_log_sum': lambda t, dim, keepdim: torch.log(torch.sum(t, dim, keepdim)),
              'reduce_log_sum_exp': torch.logsumexp}
for name, f in reductions.items():
    x = np.abs(x3) if name == 'reduce_log_sum' else x3
    for axes, keep in [(None, None), (None, True), ([0], None), ([1], True), ([-1], False), ([0, 2], None), ([-2, 0], True)]:
        dim = tuple(range(3)) if axes is None else tuple(axes)
        case(name, f(T(x), dim, bool(keep)), x=In(x), axes=axes, keep_dims=keep)
for axes, keep in [(None, None), ([0], None), ([1, 2], True)]:
    case('reduce_prod', np.prod(x3, axis=None if axes is None else tuple(axes), keepdims=bool(keep)), x=In(x3), axes=axes,
         keep_dims=keep)
xi = ints(2, 5)
case('reduce_sum', xi.sum(0), dtype='int32', x=In(xi), axes=[0])
case('reduce_max', xi.max(1), dtype='int32', x=In(xi), axes=[1])
for axis, keep in [(None, None), (0, None), (1, True), (-1, None)]:
    for name, f in {'reduce_argmax': np.argmax, 'reduce_argmin': np.argmin}.items():
        case(name, f(x3, axis=-1 if axis is None else axis, keepdims=bool(keep)), x=In(x3), axis=axis, keep_dims=keep)
for axis, exclusive, reverse in itertools.product((None, 1, -1), (None, True), (None, True)):
    a = 0 if axis is None else axis
    y = np.flip(x3, a) if reverse else x3
    s = np.cumsum(y, a)
    if exclusive:
        s = s - y
    case('cumsum', np.flip(s, a) if reverse else s, x=In(x3), axis=axis, exclusive=exclusive, reverse=reverse)

# ---- normalisation
for axis in (None, 0, 1, -1):
    case('softmax', torch.softmax(T(x3), -1 if axis is None else axis), x=In(x3), axis=axis)
    case('softmax', torch.softmax(T(x3 * 100), -1 if axis is None else axis), x=In(x3 * 100), axis=axis)
g, b = normal(4), normal(4)
case('layer_norm', F.layer_norm(T(x3), (4,), eps=1e-5), x=In(x3), axes=[-1])
case('layer_norm', F.layer_norm(T(x3), (4,), T(g), T(b), 0.25), x=In(x3), axes=[2], gamma=In(g), beta=In(b), epsilon=0.25)
case('layer_norm', F.layer_norm(T(x3), (2, 3, 4), eps=1e-5), x=In(x3))
g, b = normal(3, 4), normal(3, 4)
case('layer_norm', F.layer_norm(T(x3), (3, 4), T(g), T(b), 1e-5), x=In(x3), axes=[1, 2], gamma=In(g), beta=In(b))
g = normal(3)
case('layer_norm', F.layer_norm(T(x3).transpose(1, 2), (3,), T(g), None, 1e-5).transpose(1, 2), x=In(x3), axes=[1], gamma=In(g))
mean, var, g, b = normal(3), positive(3), normal(3), normal(3)
case('batch_norm', F.batch_norm(T(x3), T(mean), T(var), eps=1e-5), x=In(x3), mean=In(mean), variance=In(var))
x4 = normal(2, 3, 2, 2)
case('batch_norm', F.batch_norm(T(x4), T(mean), T(var), T(g), T(b), eps=0.5), x=In(x4), mean=In(mean, const=True),
     variance=In(var, const=True), gamma=In(g), beta=In(b), epsilon=0.5)
case('instance_norm', F.instance_norm(T(x3)), x=In(x3))
case('instance_norm', F.instance_norm(T(x4), weight=T(g), bias=T(b), eps=0.25), x=In(x4), gamma=In(g), beta=In(b), epsilon=0.25)
case('l2_norm', x4 / np.sqrt((x4 ** 2).sum(axis=(1, 2, 3), keepdims=True) + 1e-6), x=In(x4))
case('l2_norm', x3 / np.sqrt((x3 ** 2).sum() + 0.5), x=In(x3), epsilon=0.5)

# ---- matrix products
for a, b in [((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3), (3, 4)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (3, 3, 2)),
             ((2, 3), (2, 3, 2)), ((3,), (2, 3, 2)), ((2, 2, 3), (3,))]:
    x, y = normal(*a), normal(*b)
    case('matmul', torch.matmul(T(x), T(y)), x=In(x), y=In(y))
    if len(a) > 1 and len(b) > 1:
        xt, yt = np.swapaxes(x, -1, -2).copy(), np.swapaxes(y, -1, -2).copy()
        case('matmul', x @ y, x=In(xt), y=In(y), transpose_x=True)
        case('matmul', x @ y, x=In(x), y=In(yt), transpose_y=True)
        case('matmul', x @ y, x=In(xt), y=In(yt), transpose_x=True, transpose_y=True)
xi, yi = ints(2, 3), ints(3, 2)
case('matmul', xi @ yi, dtype='int32', x=In(xi), y=In(yi))
x, w, b = normal(2, 2, 3), normal(4, 3), normal(4)
case('linear', F.linear(T(x), T(w)), x=In(x), weight=In(w))
case('linear', F.linear(T(x), T(w), T(b)), x=In(x), weight=In(w), bias=In(b, const=True))

convs = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def conv(xs, ws, strides=None, dilations=None, groups=None, pad_type=None, pad=None, bias=False):
    x, w, n = normal(*xs), normal(*ws), len(xs) - 2
    b = normal(ws[0]) if bias else None
    s, d = strides or [1] * n, dilations or [1] * n
    before, after = [0] * n, [0] * n
    for i in range(n):
        if pad_type in ('same', 'same_lower'):
            reach = (ws[i + 2] - 1) * d[i] + 1
            total = max(0, (-(-xs[i + 2] // s[i]) - 1) * s[i] + reach - xs[i + 2])
            small, large = total // 2, total - total // 2
            before[i], after[i] = (small, large) if pad_type == 'same' else (large, small)
        elif pad_type == 'custom':
            before[i], after[i] = pad[2 * i], pad[2 * i + 1]
    flat = [p for i in reversed(range(n)) for p in (before[i], after[i])]
    y = convs[n](F.pad(T(x), flat), T(w), None if b is None else T(b), s, 0, d, groups or 1)
    if pad_type == 'same' and all(v == 1 for v in s):  # and as PyTorch pads
        assert torch.allclose(y, convs[n](T(x), T(w), None if b is None else T(b), 1, 'same', d, groups or 1))
    case('conv', y, x=In(x), weight=In(w), bias=None if b is None else In(b), strides=strides, pad_type=pad_type, pad=pad,
         dilations=dilations, groups=groups)


conv((1, 3, 1, 4), (2, 3, 1, 1))
conv((2, 2, 6), (3, 2, 3), bias=True)
conv((1, 2, 7), (2, 2, 3), strides=[2], dilations=[2])
conv((1, 2, 7), (2, 2, 2), strides=[2], pad_type='same')
conv((1, 2, 7), (2, 2, 2), strides=[2], pad_type='same_lower')
conv((1, 2, 4, 5), (2, 2, 3, 2), pad_type='same', bias=True)
conv((1, 2, 4, 5), (2, 2, 3, 2), pad_type='same_lower', strides=[1, 2])
conv((1, 2, 4, 5), (2, 2, 2, 2), pad_type='custom', pad=[1, 0, 2, 1])
conv((1, 2, 4, 5), (2, 2, 2, 2), pad_type='custom', pad=[0, 1, 1, 1], strides=[2, 3], dilations=[1, 2])
conv((1, 4, 3, 3), (4, 2, 2, 2), groups=2, pad_type='valid')
conv((1, 3, 4), (6, 1, 3), groups=3, pad_type='same', bias=True)
conv((1, 2, 2, 3, 3), (2, 1, 2, 2, 2), groups=2)
conv((1, 1, 3, 3, 3), (2, 1, 2, 3, 1), pad_type='same', strides=[1, 2, 1])
for eq, dims in {'ij,jk->ik': [(2, 3), (3, 2)], 'nchw,nwhu->nchu': [(1, 2, 2, 3), (1, 3, 2, 2)], 'chw,whr->chr': [(2, 2, 3), (3, 2, 2)],
                 'bhqd,bhkd->bhqk': [(1, 2, 2, 3), (1, 2, 3, 3)], 'i,i->': [(4,), (4,)], 'i,j->ji': [(3,), (2,)], 'ii->i': [(3, 3)],
                 'ij->j': [(2, 3)], 'ab,bc,cd->da': [(2, 2), (2, 3), (3, 2)]}.items():
    values = [normal(*d) for d in dims]
    case('einsum', torch.einsum(eq, *[T(v) for v in values]), values=[In(v) for v in values], equation=eq)
for dims, v, mask in [((1, 2, 3), 3, None), ((2, 2, 2, 4), 2, 'float'), ((1, 2, 2, 3), 3, 'bool'), ((2, 3, 2), 2, 'row')]:
    q, k, val = normal(*dims), normal(*dims), normal(*dims[:-1], v)
    n = dims[-2]
    m = {None: None, 'float': In(normal(n, n)), 'bool': In(np.tril(np.ones((n, n))), 'bool'), 'row': In(normal(n))}[mask]
    t = None if m is None else T(m.a != 0 if mask == 'bool' else m.a)
    if mask == 'row':
        t = t.expand(n, n)
    case('scaled_dot_product_attention', F.scaled_dot_product_attention(T(q), T(k), T(val), t), query=In(q), key=In(k), value=In(val),
         attn_mask=m)

# ---- layout
x = normal(2, 3, 4)
for s in [[6, 4], [-1], [0, -1, 2], [4, 3, 2, 1]]:
    case('reshape', x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(s)]), x=In(x), shape=s)
for p in [[0, 2, 1], [2, 1, 0], [1, -1, 0]]:
    case('transpose', np.transpose(x, p), x=In(x), perm=p)
for axes in [[0], [-1], [1, 3]]:
    case('expand_dims', np.expand_dims(x, tuple(axes)), x=In(x), axes=axes)
y = normal(2, 1, 3, 1)
case('squeeze', np.squeeze(y), x=In(y))
case('squeeze', torch.squeeze(T(y), (0, 3)), x=In(y), axes=[0, 3])
case('slice_by_size', x[1:2, 0:2, 1:4], x=In(x), begin=[1, 0, 1], size=[1, 2, 3])
case('slice_by_size', x[:, -2:-1, 2:], x=In(x), begin=[0, -2, 2], size=[-1, 1, -1])
for begin, end, stride in [([0, 1, 0], [2, 3, 4], None), ([0, -2, -3], [2, -1, -1], None), ([1, 2, 3], [0, 0, 0], [-1, -1, -2]),
                           ([0, 0, 1], [9, 9, 9], [1, 2, 2])]:
    cut = tuple(slice(b, e, s) for b, e, s in zip(begin, end, stride or [1] * 3))
    case('slice_by_index', x[cut], x=In(x), begin=begin, end=end, stride=stride)
case('slice_by_index', x[:, 1:, ::-1], x=In(x), begin=[1, 1, 1], end=[1, 1, 1], stride=[1, 1, -1], begin_mask=[True, False, True],
     end_mask=[True, True, True])
case('slice_by_index', x[1, :, -1], x=In(x), begin=[1, 0, -1], end=[0, 3, 0], squeeze_mask=[True, False, True])
case('split', np.split(x, 2, 2), x=In(x), num_splits=2, axis=2)
case('split', np.split(x, [1], 1), x=In(x), split_sizes=[1, 2], axis=-2)
for axis in (0, 1, -1):
    case('concat', np.concatenate([x, 2 * x], axis), values=[In(x), In(2 * x)], axis=axis)
    case('stack', np.stack([x, 2 * x], axis), values=[In(x), In(2 * x)], axis=axis)
u, v = normal(2, 3), normal(2, 3)
case('concat', np.stack([u, v], 2).reshape(2, 6), values=[In(u), In(v)], axis=1, interleave=True)
case('concat', np.stack([u, v], 1).reshape(4, 3), values=[In(u), In(v)], axis=0, interleave=True)
case('tile', np.tile(u, (2, 3)), x=In(u), reps=[2, 3])
case('reverse', np.flip(x), x=In(x))
case('reverse', np.flip(x, (0, 2)), x=In(x), axes=[0, -1])
for mode, np_mode in [(None, 'constant'), ('constant', 'constant'), ('reflect', 'reflect'), ('replicate', 'edge')]:
    case('pad', np.pad(x, ((0, 0), (1, 2), (3, 1)), mode=np_mode), x=In(x), pad=[1, 2, 3, 1], mode=mode)
    case('pad', np.pad(u, ((1, 1), (0, 2)), mode=np_mode), x=In(u), pad=[1, 1, 0, 2], mode=mode)
case('pad', np.pad(u, ((0, 0), (2, 1)), constant_values=1.5), x=In(u), pad=[2, 1], mode='constant', constant_val=1.5)
for axis, idx in [(None, np.array([1, 0, -1])), (1, np.array([[2, 0], [1, -3]])), (-1, np.array(3))]:
    case('gather', np.take(x, idx, axis or 0), x=In(x), indices=In(idx), axis=axis)
idx = np.array([[1, 0], [2, 1]])
case('gather', np.stack([np.take(x[i], idx[i], 0) for i in range(2)]), x=In(x), indices=In(idx), axis=1, batch_dims=1)
case('gather', np.stack([np.take(x[i], idx[i], 1) for i in range(2)]), x=In(x), indices=In(idx), axis=2, batch_dims=1)
i = np.array([2, 0, 1, 1])
hot = np.eye(3)[i]
case('one_hot', hot, indices=In(i), one_hot_vector_size=3)
case('one_hot', (hot * 3 - 1).T, indices=In(i), one_hot_vector_size=3, axis=0, on_value='fp32(2)', off_value='fp32(-1)')
m = normal(2, 3, 4)
case('band_part', torch.tril(T(m)), x=In(m), lower=-1, upper=0)
case('band_part', torch.triu(T(m)), x=In(m), lower=0)
case('band_part', torch.triu(torch.tril(T(m), 2), -1), x=In(m), lower=1, upper=2)
case('fill', np.full((2, 3), 1.5), shape=[2, 3], value='fp32(1.5)')

# ---- quantization: PyTorch's, and for constants the formula of the format
x = normal(3, 4, scale=4.0)
q = torch.quantize_per_tensor(T(x).float(), 0.125, 3, torch.qint8)
case('quantize', q.int_repr(), input=In(x), scale='fp32(0.125)', zero_point='int8(3)', output_dtype='int8')
case('dequantize', q.dequantize(), input=In(q.int_repr().numpy(), 'int8'), scale='fp32(0.125)', zero_point='int8(3)')
scale, zero = np.array([0.125, 0.5, 0.0625]), np.array([0, 10, 5])
q = torch.quantize_per_channel(T(x).float(), T(scale), T(zero), 0, torch.quint8)
case('quantize', q.int_repr(), input=In(x), scale=In(scale), zero_point=In(zero, 'uint8'), output_dtype='uint8', axis=0)
case('dequantize', q.dequantize(), input=In(q.int_repr().numpy(), 'uint8'), scale=In(scale, 'fp32'), zero_point=In(zero, 'uint8'), axis=0)
case('constexpr_affine_dequantize', q.dequantize(), quantized_data=In(q.int_repr().numpy(), 'uint8'), scale=In(scale, 'fp32'),
     zero_point=In(zero, 'uint8'), axis=0)

# ---- further activations and trigonometry
for name, f in {'tan': torch.tan, 'asin': torch.asin, 'acos': torch.acos, 'atan': torch.atan, 'sinh': torch.sinh, 'cosh': torch.cosh,
                'atanh': torch.atanh}.items():
    for x in (np.round(rng.uniform(-0.9, 0.9, size=6) * 64) / 64, np.array(0.0), np.array([[-0.75], [0.5]]), np.array([0.984375]),
              np.array([-0.984375, 0.015625])):
        case(name, f(T(np.asarray(x))), x=In(x))
for i, (alpha, beta) in enumerate([(1.5, 0.5), (-0.25, 2), (0, 1), (2, -1), (0.125, 6)]):
    x = normal(*[(5,), (), (2, 3), (1, 2, 2), (4,)][i], scale=3.0)
    t = T(np.asarray(x))
    case('linear_activation', alpha * t + beta, x=In(x), alpha=alpha, beta=beta)
    case('scaled_tanh', alpha * torch.tanh(beta * t), x=In(x), alpha=alpha, beta=beta)
    case('clamped_relu', torch.clamp_max(F.leaky_relu(t, alpha), beta), x=In(x), alpha=alpha, beta=beta)
    case('thresholded_relu', torch.where(t >= alpha, t, torch.zeros_like(t)), x=In(x), alpha=alpha)
    case('threshold', torch.clamp_min(t, beta), x=In(x), alpha='fp32(%s)' % num(beta))
case('threshold', np.array([3, 3, 5]), dtype='int32', x=In([1, -7, 5]), alpha='int32(3)')
for dims in [(2, 3, 4), (1, 2, 2, 3), (2, 2, 1, 2, 2), (1, 1, 5), (3, 4, 1)]:
    x, a, b = normal(*dims, scale=2.0), normal(dims[1]), away(dims[1])
    wide = lambda v: T(v).reshape([1, -1] + [1] * (len(dims) - 2))
    case('prelu', F.prelu(T(x), T(a)), x=In(x), alpha=In(a))
    case('softplus_parametric', wide(a) * F.softplus(T(x) * wide(b), threshold=1e9), x=In(x), alpha=In(a), beta=In(b))

# ---- windows
pools = {1: (F.max_pool1d, F.avg_pool1d), 2: (F.max_pool2d, F.avg_pool2d), 3: (F.max_pool3d, F.avg_pool3d)}


def pool(xs, kernel, strides=None, pad_type='valid', pad=None, ceil=None):
    x, n = normal(*xs), len(xs) - 2
    s = strides or [1] * n
    args = dict(x=In(x), kernel_sizes=kernel, strides=strides, pad_type=pad_type, pad=pad, ceil_mode=ceil)
    if pad_type in ('valid', 'custom') and (pad is None or all(pad[2 * i] == pad[2 * i + 1] for i in range(n))):
        p = [0] * n if pad is None else pad[::2]
        most, mean = pools[n]
        case('max_pool', most(T(x), kernel, s, p, 1, bool(ceil)), **args)
        case('avg_pool', mean(T(x), kernel, s, p, bool(ceil), True), **args)
        case('avg_pool', mean(T(x), kernel, s, p, bool(ceil), False), exclude_padding_from_average=True, **args)
        if not any(p) and not ceil:
            case('l2_pool', torch.sqrt(mean(T(x) ** 2, kernel, s) * float(np.prod(kernel))), **args)
        return
    sides = []  # before, after of each dimension
    for i in range(n):
        if pad_type == 'custom':
            sides.append((pad[2 * i], pad[2 * i + 1]))
        else:
            total = max(0, (-(-xs[i + 2] // s[i]) - 1) * s[i] + kernel[i] - xs[i + 2])
            small, large = total // 2, total - total // 2
            sides.append((small, large) if pad_type == 'same' else (large, small))
    flat = [v for pair in reversed(sides) for v in pair]
    most, mean = pools[n]
    sums = mean(F.pad(T(x), flat), kernel, s) * float(np.prod(kernel))
    inside = mean(F.pad(torch.ones_like(T(x)), flat), kernel, s) * float(np.prod(kernel))
    case('max_pool', most(F.pad(T(x), flat, value=-np.inf), kernel, s), **args)
    case('avg_pool', sums / float(np.prod(kernel)), **args)
    case('avg_pool', sums / inside, exclude_padding_from_average=True, **args)
    case('l2_pool', torch.sqrt(mean(F.pad(T(x), flat) ** 2, kernel, s) * float(np.prod(kernel))), **args)


pool((1, 2, 6), [3])
pool((1, 1, 4, 5), [2, 2], [2, 2])
pool((1, 1, 4, 5), [2, 3], [1, 2], 'custom', [1, 1, 1, 1])
pool((1, 1, 5, 5), [3, 3], [2, 2], 'custom', [1, 1, 1, 1], True)
pool((1, 1, 6), [3], [2], 'valid', None, True)
pool((1, 1, 4, 5), [3, 2], [2, 2], 'same')
pool((1, 1, 4, 5), [2, 4], [1, 2], 'same_lower')
pool((1, 1, 3, 4), [2, 3], None, 'custom', [1, 0, 0, 2])
pool((1, 1, 3, 3, 4), [2, 2, 3], [1, 2, 1])
for dims, axis, size, stride in [((7,), 0, 3, None), ((2, 6), 1, 2, 2), ((5, 2), -2, 5, 1), ((2, 5, 2), 1, 2, 3), ((1, 4), -1, 1, None)]:
    x = normal(*dims)
    moved = T(x).unfold(axis, size, stride or 1)  # the window comes last
    case('sliding_windows', torch.movedim(moved, -1, axis % len(dims) + 1), x=In(x), axis=axis, size=size, stride=stride)
for dims, size, alpha, beta, k in [((1, 5, 3), 3, None, None, None), ((2, 4, 2), 4, 0.5, 0.5, 2), ((1, 3, 2, 2), 5, 0.125, 1, 1),
                                   ((1, 2, 2, 1, 2), 1, 2, 0.25, 0.5), ((1, 6, 1), 2, 1, 0.75, None)]:
    x = normal(*dims)
    want = F.local_response_norm(T(x), size, 1e-4 if alpha is None else alpha,
                                 0.75 if beta is None else beta, 1.0 if k is None else k)
    case('local_response_norm', want, x=In(x), size=size, alpha=alpha, beta=beta, k=k)

# ---- transposed and quantized convolution
transposed = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def conv_transpose(xs, ws, strides=None, pad=None, extra=None, dilations=None, groups=None, bias=False):
    n, g = len(xs) - 2, groups or 1
    x, w = normal(*xs), normal(*ws)
    b = normal(ws[1] * g) if bias else None
    want = transposed[n](T(x), T(w), None if b is None else T(b), strides or 1, 0 if pad is None else pad, extra or 0, g, dilations or 1)
    case('conv_transpose', want, x=In(x), weight=In(w), bias=None if b is None else In(b), strides=strides, dilations=dilations, groups=groups,
         pad=None if pad is None else [p for p in pad for _ in (0, 1)], pad_type=None if pad is None else 'custom',
         output_shape=list(want.shape) if extra else None)


conv_transpose((1, 2, 4), (2, 2, 3))
conv_transpose((1, 2, 3, 3), (2, 1, 2, 3), strides=[2, 2], bias=True)
conv_transpose((1, 2, 3, 3), (2, 2, 3, 3), strides=[2, 2], pad=[1, 1], extra=[1, 1])
conv_transpose((1, 4, 2, 3), (4, 1, 3, 2), groups=2, pad=[1, 0], dilations=[1, 2])
conv_transpose((1, 2, 2, 2, 2), (2, 1, 2, 2, 2), strides=[1, 2, 1], groups=2)
x, w = normal(1, 2, 3, 4), normal(2, 2, 4, 4)
case('conv_transpose', F.conv_transpose2d(T(x), T(w), None, 2, 1), x=In(x), weight=In(w), strides=[2, 2], pad_type='same')
for g, scale, shift, bias in [(1, 0.125, -1.0, False), (2, 0.0625, 0.0, True), (1, 0.5, 0.25, True), (1, 1.0, -8.0, False), (2, 0.25, -2.0, False)]:
    x, q = normal(1, 4, 5), ints(2, 4 // g, 2, low=0, high=15)
    b = normal(2) if bias else None
    case('conv_quantized', F.conv1d(T(x), T(q) * scale + shift, None if b is None else T(b), groups=g), x=In(x), weight=In(q, 'uint8'),
         bias=None if b is None else In(b), quantization_type='linear', nbits=4, quant_scale='fp32(%s)' % num(scale),
         quant_bias='fp32(%s)' % num(shift), groups=g)

# ---- images
x = normal(1, 2, 3, 4)
for size in [(6, 8), (5, 3), (1, 1), (2, 9), (3, 4)]:
    case('resize_nearest_neighbor', F.interpolate(T(x), size, mode='nearest-exact'), x=In(x), target_size_height=size[0], target_size_width=size[1])
    case('resize_bilinear', F.interpolate(T(x), size, mode='bilinear', align_corners=True), x=In(x), target_size_height=size[0],
         target_size_width=size[1], sampling_mode='STRICT_ALIGN_CORNERS')
    case('resize_bilinear', F.interpolate(T(x), size, mode='bilinear', align_corners=False), x=In(x), target_size_height=size[0],
         target_size_width=size[1], sampling_mode='UNALIGN_CORNERS')
    case('resize', F.interpolate(T(x), size, mode='nearest-exact'), x=In(x), shape=list(size), resized_dims=2,
         interpolation_mode='NEAREST_NEIGHBOR', sampling_mode='UNALIGN_CORNERS')


def grid(mode, size, count):
    """The grids from the operation's documentation, written independently."""
    i = np.arange(count)
    if mode == 'DEFAULT':
        at = i * size / count
    elif mode == 'OFFSET_CORNERS':
        at = (i + 0.5) * max(1, size - 1) / count
    else:
        at = np.array([(size - 1) / 2]) if count == 1 else i * (size - 1) / (count - 1)
    return np.clip(at, 0, size - 1)


for mode in ('DEFAULT', 'OFFSET_CORNERS', 'ALIGN_CORNERS'):
    for size in [(6, 5), (1, 7), (2, 4)]:
        rows = np.apply_along_axis(lambda v: np.interp(grid(mode, 4, size[1]), np.arange(4), v), 3, x)
        want = np.apply_along_axis(lambda v: np.interp(grid(mode, 3, size[0]), np.arange(3), v), 2, rows)
        case('resize_bilinear', want, x=In(x), target_size_height=size[0], target_size_width=size[1], sampling_mode=mode)
        case('resize', want, x=In(x), shape=list(size), resized_dims=2, sampling_mode=mode)
for h, w in [(2, 3), (1, 2), (3, 1), (2, 2)]:
    case('upsample_nearest_neighbor', F.interpolate(T(x), scale_factor=(h, w), mode='nearest'), x=In(x), scale_factor_height='int32(%d)' % h,
         scale_factor_width='int32(%d)' % w)
for h, w, align in [(2, 3, None), (1.5, 2.5, True), (2, 2, False), (0.7, 3, False), (1.4, 1.3, False)]:
    want = F.interpolate(T(x), scale_factor=(h, w), mode='bilinear', align_corners=align is not False, recompute_scale_factor=True)
    case('upsample_bilinear', want, x=In(x), scale_factor_height='fp32(%s)' % num(h), scale_factor_width='fp32(%s)' % num(w), align_corners=align)
case('upsample_nearest_neighbor', F.interpolate(T(x), scale_factor=(1.5, 0.5), mode='nearest', recompute_scale_factor=True), x=In(x),
     scale_factor_height='fp32(1.5)', scale_factor_width='fp32(0.5)')
for h, w in [((1, 1), (0, 2)), ((0, 0), (1, 0)), ((2, 0), (0, 0)), ((0, 1), (1, 2)), ((1, 0), (3, 0))]:
    case('crop', x[:, :, h[0]:3 - h[1], w[0]:4 - w[1]], x=In(x), crop_height=list(h), crop_width=list(w))
for mode, torch_mode, align in [('bilinear', 'bilinear', True), ('bilinear', 'bilinear', False), ('nearest', 'nearest', True),
                                ('nearest', 'nearest', False)]:
    for pad, torch_pad in [('constant', 'zeros'), ('border', 'border'), ('reflection' if align else 'symmetric', 'reflection')]:
        at = np.round(rng.uniform(-1.8, 1.8, size=(1, 2, 4, 2)) * 64) / 64 + 1 / 1024
        case('resample', F.grid_sample(T(x), T(at), torch_mode, torch_pad, align), x=In(x), coordinates=In(at), sampling_mode=mode, padding_mode=pad,
             padding_value=0, coordinates_mode='normalized_minus_one_to_one', align_corners=align)
for m in ([1, 0, 0, 0, 1, 0], [0.5, 0, 0.25, 0, 0.5, -0.25], [0, 1, 0, -1, 0, 0], [-1, 0, 0, 0, 1, 0], [2, 0.5, 0, 0, 2, 0]):
    m = np.array([m], dtype=np.float64)
    want = F.grid_sample(T(x), F.affine_grid(T(m.reshape(1, 2, 3)), (1, 2, 5, 3), align_corners=True), align_corners=True)
    case('affine', want, x=In(x), transform_matrix=In(m), output_height=5, output_width=3, sampling_mode='bilinear', padding_mode='constant',
         padding_value=0, coordinates_mode='normalized_minus_one_to_one', align_corners=True)
# boxes inside the image, on the grid that torch makes from the same corners
for boxes, h, w in [([[0.25, 0.5, 1.5, 2.25]], 3, 2), ([[0, 0, 2, 3], [1, 1, 1, 1]], 2, 2), ([[2, 3, 0.5, 1]], 4, 3), ([[0.5, 0.5, 1, 3]], 2, 5),
                    ([[1, 0, 2, 3]], 3, 4)]:
    want = []
    for y0, z0, y1, z1 in boxes:
        ys, zs = np.linspace(y0, y1, h), np.linspace(z0, z1, w)
        at = np.stack(np.meshgrid(zs / 1.5 - 1, ys - 1), -1)[None]
        want.append(F.grid_sample(T(x), T(at), align_corners=True)[0].numpy())
    case('crop_resize', np.stack(want), x=In(x), boxes=In(np.array(boxes)), box_indices=In(np.zeros(len(boxes)), 'int32'), target_height=h,
         target_width=w, sampling_mode='STRICT_ALIGN_CORNERS')
for f in (1, 2, 3):
    x = normal(2, f * f * 2, 2, 1)
    shuffled = F.pixel_shuffle(T(x), f)
    case('pixel_shuffle', shuffled, x=In(x), upscale_factor=f)
    case('pixel_unshuffle', x, x=In(shuffled.numpy()), downscale_factor=f)
    # the position in the block is the slow part of the channel
    y = x.reshape(2, f, f, 2, 2, 1).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 2 * f, f)
    case('depth_to_space', y, x=In(x), block_size=f)
    case('space_to_depth', x, x=In(y), block_size=f)
for n, c in [(1, 1), (3, 2)]:
    x = normal(n, c * 4, 1, 2)
    case('pixel_shuffle', F.pixel_shuffle(T(x), 2), x=In(x), upscale_factor=2)
    case('pixel_unshuffle', x, x=In(F.pixel_shuffle(T(x), 2).numpy()), downscale_factor=2)
    y = x.reshape(n, 2, 2, c, 1, 2).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, 2, 4)
    case('depth_to_space', y, x=In(x), block_size=2)
    case('space_to_depth', x, x=In(y), block_size=2)
for block, pads, dims in [((2, 2), ((0, 0), (0, 0)), (1, 2, 2, 4)), ((2, 3), ((1, 0), (1, 1)), (2, 1, 3, 4)), ((1, 2), ((0, 3), (2, 0)), (1, 1, 2, 2)),
                          ((2, 1), ((1, 1), (0, 0)), (3, 1, 2, 1)), ((1, 1), ((0, 0), (1, 0)), (1, 1, 1, 2))]:
    x = normal(*dims)
    p = np.pad(x, ((0, 0), (0, 0)) + pads)
    n, c, h, w = p.shape
    many = p.reshape(n, c, h // block[0], block[0], w // block[1], block[1]).transpose(3, 5, 0, 1, 2, 4).reshape(-1, c, h // block[0], w // block[1])
    case('space_to_batch', many, x=In(x), block_shape=list(block), paddings=In(np.array(pads), 'int32'))
    case('batch_to_space', x, x=In(many), block_shape=list(block), crops=In(np.array(pads), 'int32'))


def suppress(boxes, scores, limit, most, per_class):
    """Greedy suppression in its textbook form: boxes [B, 4] as centre and size, scores [B, K]."""
    order, kept = np.argsort(-scores.max(1), kind='stable'), []
    corners = np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)
    for i in order:
        good = True
        for j in kept:
            if per_class and scores[i].argmax() != scores[j].argmax():
                continue
            sides = np.clip(np.minimum(corners[i, 2:], corners[j, 2:]) - np.maximum(corners[i, :2], corners[j, :2]), 0, None)
            both = sides.prod()
            good &= not both / (boxes[i, 2:].prod() + boxes[j, 2:].prod() - both) > limit
        if good and len(kept) < most:
            kept.append(i)
    return kept


for count, classes, limit, most, per_class in [(6, 1, 0.5, 4, None), (8, 3, 0.25, 8, True), (8, 3, 0.25, 3, False), (3, 2, 0.9, 5, None), (5, 2, 0, 5, True)]:
    b, s = np.concatenate([normal(count, 2), positive(count, 2)], 1), rng.permutation(count * classes).reshape(count, classes) / 64
    kept = suppress(b, s, limit, most, bool(per_class))
    rest = most - len(kept)
    case('non_maximum_suppression', [np.pad(b[kept].T, ((0, 0), (0, rest)))[None], np.pad(s[kept].T, ((0, 0), (0, rest)))[None],
                                     np.pad(np.array(kept), (0, rest), constant_values=-1)[None]],
         boxes=In(b.T[None]), scores=In(s.T[None]), iou_threshold=limit, max_boxes=most, per_class_suppression=per_class)

# ---- recurrent
def gates(weight, order):
    return np.concatenate([np.split(np.asarray(weight), len(order))[k] for k in order])


def cells(kind, steps, batch, inputs, hidden, bias, reverse):
    args = dict(x=normal(steps, batch, inputs), initial_h=normal(batch, hidden))
    n = {'lstm': 4, 'gru': 3, 'rnn': 1}[kind]
    w = [normal(n * hidden, inputs), normal(n * hidden, hidden), normal(n * hidden), normal(n * hidden)]
    if not bias:
        w[2] = w[3] = np.zeros(n * hidden)
    x, h = T(args['x']), T(args['initial_h'])
    if reverse:
        x = x.flip(0)
    if kind == 'lstm':
        args['initial_c'] = normal(batch, hidden)
        m = torch.nn.LSTM(inputs, hidden)
        state = (h[None], T(args['initial_c'])[None])
    else:
        m = (torch.nn.GRU if kind == 'gru' else torch.nn.RNN)(inputs, hidden)
        state = h[None]
    for name, value in zip(('weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0'), w):
        getattr(m, name).data = T(value)
    with torch.no_grad():
        y, last = m(x, state)
    return args, w, y.numpy(), last


for steps, batch, inputs, hidden, bias, reverse, sequence in [(3, 2, 2, 2, True, False, True), (1, 1, 3, 2, True, False, None),
                                                              (4, 1, 2, 3, False, True, True), (2, 2, 1, 1, True, True, False), (3, 1, 2, 2, False, False, None)]:
    direction = 'reverse' if reverse else None
    for kind, order in (('lstm', (0, 1, 3, 2)), ('gru', (0, 2, 1)), ('rnn', (0,))):  # PyTorch has i f z o, and r z o
        args, w, y, last = cells(kind, steps, batch, inputs, hidden, bias, reverse)
        h = last[0] if kind == 'lstm' else last
        want = [y if sequence else h.numpy(), h[0].numpy()] + ([last[1][0].numpy()] if kind == 'lstm' else [])
        extra = dict(weight_ih=In(gates(w[0], order), const=True), weight_hh=In(gates(w[1], order), const=True), direction=direction,
                     output_sequence=sequence)
        if kind == 'gru':  # PyTorch applies the reset gate after the matrix product
            extra.update(reset_after=True, bias=In(gates(w[3], order), const=True), input_bias=In(gates(w[2], order), const=True))
        elif bias:
            extra['bias'] = In(gates(w[2] + w[3], order), const=True)
        case(kind, want, **{k: In(v) for k, v in args.items()}, **extra)
args, w, y, last = cells('lstm', 3, 1, 2, 2, True, False)
m = torch.nn.LSTM(2, 2, bidirectional=True)
parts = [normal(*s) for s in ((8, 2), (8, 2), (8,), (8,)) * 2]
for name, value in zip([n + s for s in ('', '_reverse') for n in ('weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0')], parts):
    getattr(m, name).data = T(value)
x, h, c = normal(3, 1, 2), normal(2, 1, 2), normal(2, 1, 2)
with torch.no_grad():
    y, (hn, cn) = m(T(x), (T(h), T(c)))
order, side = (0, 1, 3, 2), lambda v: np.concatenate([v[0], v[1]], 1)
case('lstm', [y, side(hn.numpy()), side(cn.numpy())], x=In(x), initial_h=In(side(h)), initial_c=In(side(c)), weight_ih=In(gates(parts[0], order)),
     weight_hh=In(gates(parts[1], order)), bias=In(gates(parts[2] + parts[3], order)), weight_ih_back=In(gates(parts[4], order), const=True),
     weight_hh_back=In(gates(parts[5], order), const=True), bias_back=In(gates(parts[6] + parts[7], order), const=True), direction='bidirectional',
     output_sequence=True)

# ---- indices
for dims, axis, k, up in [((5,), None, None, None), ((2, 4), 1, 2, None), ((4, 2), 0, 3, True), ((2, 3, 2), -2, 1, False), ((3, 4), -1, 4, True)]:
    x = (rng.permutation(int(np.prod(dims))).reshape(dims) - 4) / 8
    v, i = torch.topk(T(x), k or 1, -1 if axis is None else axis, largest=not up)
    case('topk', [v, i], x=In(x), k=k, axis=axis, ascending=up)
    case('argsort', torch.argsort(T(x), -1 if axis is None else axis, descending=not up), x=In(x), axis=axis, ascending=up)
case('argsort', np.array([1, 2, 0, 3]), x=In([1, 2, 2, 0]))
for dims, picks, axis in [((5,), (3,), None), ((2, 4), (2, 3), 1), ((3, 2), (5, 2), -2), ((2, 3, 2), (2, 1, 2), 1), ((2, 2), (2, 2), -1)]:
    a, x = axis or 0, normal(*dims)
    i = rng.integers(0, dims[a], size=picks)
    u = away(*picks)
    case('gather_along_axis', torch.gather(T(x), a, T(i)), x=In(x), indices=In(i), axis=axis)
    case('scatter_along_axis', torch.scatter_add(T(x), a, T(i), T(u)), data=In(x), indices=In(i), updates=In(u), axis=axis)
    for mode, torch_mode in [('mul', 'prod'), ('max', 'amax'), ('min', 'amin')]:
        case('scatter_along_axis', torch.scatter_reduce(T(x), a, T(i), T(u), torch_mode), data=In(x), indices=In(i), updates=In(u), axis=axis, mode=mode)
for dims, axis, mode in [((5,), None, None), ((3, 4), 1, 'add'), ((4, 2), 0, 'sub'), ((2, 3), -1, 'update'), ((3, 2, 2), 0, 'mul'), ((4,), 0, 'div'),
                         ((4, 2), 0, 'max'), ((2, 4), 1, 'min')]:
    a, x = (axis or 0) % len(dims), normal(*dims)
    i = rng.permutation(dims[a])[:2]
    u = away(*[2 if d == a else n for d, n in enumerate(dims)])
    want, cut = x.copy(), tuple(i if d == a else slice(None) for d in range(len(dims)))
    f = {None: np.add, 'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'div': np.divide, 'max': np.maximum, 'min': np.minimum,
         'update': lambda old, new: new}[mode]
    want[cut] = f(want[cut], u)
    case('scatter', want, data=In(x), indices=In(i), updates=In(u), axis=axis, mode=mode)
    if a == 0:
        case('scatter_nd', want, data=In(x), indices=In(i[:, None]), updates=In(u), mode=mode)
twice = np.zeros(3)
np.add.at(twice, [1, 1, 2], [1, 2, 4])
case('scatter', twice, data=In(np.zeros(3)), indices=In([1, 1, 2]), updates=In([1, 2, 4]))
x, i = normal(3, 2, 2), np.array([[0, 1], [2, -1], [1, 0]])
case('gather_nd', x[i[:, 0], i[:, 1]], x=In(x), indices=In(i))
case('gather_nd', x[i[:, :1].ravel()], x=In(x), indices=In(i[:, :1]))
case('gather_nd', x[tuple(i[[0, 1, 1]].T)], x=In(x), indices=In(i[[0, 1, 1]]))
case('gather_nd', x[2, 1, 0], x=In(x), indices=In([2, 1, 0]))
i = i % 2
case('gather_nd', np.stack([x[b, i[b]] for b in range(3)]), x=In(x), indices=In(i[:, :, None]), batch_dims=1)
case('gather_nd', np.stack([x[b, 1, i[b, 0]] for b in range(3)]), x=In(x), indices=In(np.stack([np.ones(3), i[:, 0]], 1)), batch_dims=1)
for a in (np.array([0, 1, 0, -2]), np.array([[1, 0], [0, 3]]), np.array([[[0, 0, 5]]]), np.array([2]), np.eye(3)):
    case('non_zero', np.argwhere(a), x=In(a, 'fp32'))
for start, end, step in [(0, 5, 1), (2, 9, 3), (4, -3, -2), (-1.5, 1, 0.5), (1, 1.25, 1)]:
    case('range_1d', np.arange(start, end, step), end='fp32(%s)' % num(end), start='fp32(%s)' % num(start), step='fp32(%s)' % num(step))

# ---- layout, again
x = normal(2, 3, 4)
for axis, dims in [(None, (2, 12)), (0, (1, 24)), (2, (6, 4)), (-1, (6, 4)), (3, (24, 1))]:
    case('flatten2d', x.reshape(dims), x=In(x), axis=axis)
for dims, refs, begins, ends, masks in [((6, 4), [(6, 9), (4, 2)], '0|0', '1|1', 'false|false'), ((24,), [(5, 24)], '1', '0', 'true'),
                                        ((2, 3, 4), [(2, 3, 4)], '-3', '3', 'false'), ((3, 8), [(1, 3, 8, 7)], '1', '-1', 'false'),
                                        ((4, 6), [(4, 6), (9,)], '0|1', '2|1', 'false|true')]:
    case('reshape_like', x.reshape(dims), x=In(x), ref_tensors=[In(np.zeros(r)) for r in refs], begins=begins, ends=ends, end_masks=masks)
for lengths, seq, batch in [((0, 2), 1, 0), ((3, 1), 1, None), ((4, 3), -1, 0), ((1, 4, 2), 2, 1), ((2, 0, 1), 0, 1)]:
    y, b = x.copy(), batch or 0
    for k, n in enumerate(lengths):
        cut = [slice(None)] * 3
        cut[b] = k
        cut[seq] = slice(0, n)
        y[tuple(cut)] = np.flip(x[tuple(cut)], seq % 3 - (seq % 3 > b))
    case('reverse_sequence', y, x=In(x), lengths=In(lengths, 'int32'), seq_axis=seq, batch_axis=batch)
for begin, end, stride, masks in [((0, 1, 0), (2, 3, 4), None, {}), ((1, 0, 1), (2, 3, 4), (1, 2, 2), {}), ((0, -1, -2), (2, 3, 4), None, {}),
                                  ((0, 0, 3), (2, 3, 0), (1, 1, -2), {}), ((1, 1, 1), (1, 1, 1), None, dict(begin_mask=[True] * 3, end_mask=[True] * 3))]:
    cut = tuple(slice(None) if masks else slice(b, e, s) for b, e, s in zip(begin, end, stride or (1, 1, 1)))
    y = x.copy()
    u = normal(*y[cut].shape)
    y[cut] = u
    case('slice_update', y, x=In(x), update=In(u), begin=In(begin, 'int32'), end=In(end, 'int32', const=True), stride=stride and list(stride), **masks)
for value in (None, 'fp32(1.5)', 'int32(-3)', 'bool(1)', 'fp16(0.25)'):
    want = {None: 0, 'fp32(1.5)': 1.5, 'int32(-3)': -3, 'bool(1)': 1, 'fp16(0.25)': 0.25}[value]
    case('fill_like', np.full((2, 3), want), ref_tensor=In(normal(2, 3)), value=value)

# ---- compressed constants: the formulas of the format
case('constexpr_cast', x, source_val=In(x, 'fp16'), **{'output_dtype': 'fp32'})
for bits in (1, 2, 4, 6, 8):
    entries, count = 1 << bits, 12
    lut, idx = normal(entries), rng.integers(0, entries, size=(3, 4))
    stream = np.concatenate([(idx.ravel()[:, None] >> np.arange(bits)) & 1])
    packed = np.packbits(stream.ravel().astype(np.uint8), bitorder='little')
    case('constexpr_lut_to_dense', lut[idx], indices=In(packed, 'uint8'), lut=In(lut, 'fp32'), shape=[3, 4])
    mask = rng.integers(0, 2, size=(2, 5))
    mask[0, 0] = 1
    data = normal(int(mask.sum()))
    dense = np.zeros((2, 5))
    dense[mask != 0] = data
    case('constexpr_sparse_to_dense', dense, nonzero_data=In(data, 'fp32'), mask=In(mask, 'uint1'))
    case('constexpr_sparse_to_dense', dense, nonzero_data=In(data, 'fp32'), mask=In(np.packbits(mask.ravel().astype(np.uint8), bitorder='little'), 'uint8'),
         shape=[2, 5])
    sign, low = ('int4', -8) if bits < 5 else ('int8', -100)
    q, s, o = ints(4, 6, low=low, high=-low - 1), positive(2, 3), ints(2, 3, low=low, high=-low - 1)
    wide = lambda v: v.repeat(2, 0).repeat(2, 1)
    case('constexpr_blockwise_shift_scale', wide(s) * (q - wide(o)), data=In(q, sign), scale=In(s, 'fp32'), offset=In(o, sign))
    case('constexpr_blockwise_shift_scale', wide(s) * q, data=In(q, sign), scale=In(s, 'fp32'))
    if bits == 6:
        continue
    mask = rng.integers(0, 2, size=(4, 6))
    mask[0, 0] = 1
    case('constexpr_sparse_blockwise_shift_scale', [mask, (wide(s) * (q - wide(o)))[mask != 0]], data_mask=In(mask, 'uint1'),
         nonzero_data=In(q[mask != 0], sign), scale=In(s, 'fp32'), offset=In(o, sign))
    if bits > 2:
        continue
    index, lut = rng.integers(0, entries, size=(2, 3)), normal(1, 3, entries, 2)  # one palette per column
    for axis in (0, 1):
        vectors = np.stack([[lut[0, c, index[r, c]] for c in range(3)] for r in range(2)])  # [2, 3, vector]
        wide_out = vectors.transpose(0, 2, 1).reshape(4, 3) if axis == 0 else vectors.reshape(2, 6)
        case('constexpr_lut_to_dense', wide_out, indices=In(index, 'uint%d' % bits), lut=In(lut, 'fp32'), vector_axis=axis)
        for keep in ([[1, 0, 1], [0, 1, 1]], [[1, 1, 1], [0, 0, 1]]):
            keep = np.array(keep)
            wide_mask = keep.repeat(2, axis)
            case('constexpr_lut_to_sparse', [wide_mask, wide_out[wide_mask != 0]], indices_mask=In(keep, 'uint1'),
                 indices_nonzero_data=In(index[keep != 0], 'uint%d' % bits), lut=In(lut, 'fp32'), vector_axis=axis)

# ---- at least five combinations of every row that had fewer
for dims, scale in [((3, 2), 0.5), ((1,), 30.0), ((2, 1, 2), 6.0)]:
    for name, f in unary.items():
        x = normal(*dims, scale=scale)
        if name not in ('exp', 'exp2') or scale < 30:
            case(name, f(T(x)), x=In(x))
for name in ('exp', 'exp2'):
    case(name, unary[name](T(np.array([-80.0, 0.0, 8.0]))), x=In([-80, 0, 8]))
for dims in [(2,), (), (2, 2, 2), (1, 3)]:
    x, a, b = positive(*dims), normal(*dims, scale=3.0), normal(*dims, scale=3.0)
    case('sqrt', torch.sqrt(T(np.asarray(x))), x=In(x))
    case('rsqrt', torch.rsqrt(T(np.asarray(x)) + f32(0.125)), x=In(x), epsilon=0.125)
    case('inverse', torch.reciprocal(T(np.asarray(x)) + f32(0.125)), x=In(x), epsilon=0.125)
    case('log', torch.log(T(np.asarray(x)) + f32(0.125)), x=In(x), epsilon=0.125)
    case('leaky_relu', F.leaky_relu(T(np.asarray(a)), -0.5), x=In(a), alpha=-0.5)
    case('elu', F.elu(T(np.asarray(a)), 2), x=In(a), alpha=2)
    case('clip', torch.clamp(T(np.asarray(a)), -1, 0.5), x=In(a), alpha=-1, beta=0.5)
    case('sigmoid_hard', torch.clamp(0.125 * T(np.asarray(a)) + 0.25, 0, 1), x=In(a), alpha=0.125, beta=0.25)
    case('gelu', F.gelu(T(np.asarray(a)), approximate='tanh'), x=In(a), mode='TANH_APPROXIMATION')
    p, q = ints(*dims, low=0, high=1), ints(*dims, low=0, high=1)
    case('logical_and', np.logical_and(p, q), x=In(p), y=In(q))
    case('logical_or', np.logical_or(p, q), x=In(p), y=In(q))
    case('logical_xor', np.logical_xor(p, q), x=In(p), y=In(q))
    case('logical_not', np.logical_not(p), x=In(p))
    case('select', np.where(p != 0, a, b), cond=In(p), a=In(a), b=In(b))
    case('cast', np.asarray(a).astype(np.int32), x=In(a), **{'dtype=': 'int32'})
    for value in ('fp32(2.5)', 'int32(-4)'):
        case('fill', np.full(dims or (1,), float(value[value.index('(') + 1:-1])), shape=list(dims or (1,)), value=value)
x = away(2, 3, 2)
for axes, keep in [([2], None), ([0, 1], True), ([-1, 0], False)]:
    case('reduce_prod', np.prod(x, axis=tuple(axes), keepdims=bool(keep)), x=In(x), axes=axes, keep_dims=keep)
for axis, keep in [(1, None), (-3, True)]:
    case('reduce_argmax', np.argmax(x, axis, keepdims=bool(keep)), x=In(x), axis=axis, keep_dims=keep)
    case('reduce_argmin', np.argmin(x, axis, keepdims=bool(keep)), x=In(x), axis=axis, keep_dims=keep)
for dims in [(1, 2, 3), (2, 2, 2, 1), (1, 1, 2, 2, 2)]:
    x, m, v, g, b = normal(*dims), normal(dims[1]), positive(dims[1]), normal(dims[1]), normal(dims[1])
    case('batch_norm', F.batch_norm(T(x), T(m), T(v), None, T(b), eps=0.125), x=In(x), mean=In(m), variance=In(v), beta=In(b), epsilon=0.125)
    case('l2_norm', x / np.sqrt((x ** 2).sum(axis=(-3, -2, -1), keepdims=True) + 0.25), x=In(x), epsilon=0.25)
    if len(dims) < 5:
        case('instance_norm', F.instance_norm(T(x), weight=T(g), bias=T(b), eps=0.5), x=In(x), gamma=In(g), beta=In(b), epsilon=0.5)
x, b = normal(2, 1, 5), normal(5)
case('instance_norm', F.instance_norm(T(x), bias=T(b[:1]), weight=T(np.ones(1)), eps=0.25), x=In(x), beta=In(b[:1]), epsilon=0.25)
for dims, n in [((3,), 2), ((1, 3), 1), ((2, 1, 2, 3), 2)]:
    x, w, b = normal(*dims), normal(n, 3), normal(n)
    case('linear', F.linear(T(x), T(w), T(b)), x=In(x), weight=In(w), bias=In(b))
q, k, v = normal(1, 2, 3, 2), normal(1, 2, 4, 2), normal(1, 2, 4, 5)
case('scaled_dot_product_attention', F.scaled_dot_product_attention(T(q), T(k), T(v)), query=In(q), key=In(k), value=In(v))
x = normal(2, 3, 4)
case('reshape', x.reshape(3, 8), x=In(x), shape=[3, -1])
for perm in ([1, 2, 0], [-1, 0, 1]):
    case('transpose', np.transpose(x, perm), x=In(x), perm=perm)
for axes in ([0, 2], [-2, -1]):
    case('expand_dims', np.expand_dims(x, tuple(axes)), x=In(x), axes=axes)
for dims, axes in [((1, 2, 1), [0]), ((1, 2, 1), [-1]), ((3, 1, 1, 2), [1, 2])]:
    y = normal(*dims)
    case('squeeze', np.squeeze(y, tuple(axes)), x=In(y), axes=axes)
for begin, size in [([0, 0, 0], [2, 3, 4]), ([1, -3, -1], [1, 2, 1]), ([0, 2, 1], [-1, -1, 2])]:
    cut = tuple(slice(b % d, d if s == -1 else b % d + s) for b, s, d in zip(begin, size, x.shape))
    case('slice_by_size', x[cut], x=In(x), begin=begin, size=size)
for parts, axis in [(3, 1), (1, 0), (4, -1)]:
    case('split', np.split(x, parts, axis), x=In(x), num_splits=parts, axis=axis)
for axis in (1, -2):
    case('stack', np.stack([x, x + 1, x * 2], axis), values=[In(x), In(x + 1), In(x * 2)], axis=axis)
for reps in ([1, 1, 1], [2, 1, 1], [1, 2, 3], [3, 1, 2]):
    case('tile', np.tile(x, reps), x=In(x), reps=reps)
for axes in ([0], [1], [-1, 1]):
    case('reverse', np.flip(x, tuple(axes)), x=In(x), axes=axes)
for lower, upper in [(0, 0), (2, 1)]:
    case('band_part', torch.triu(torch.tril(T(x), upper), -lower), x=In(x), lower=lower, upper=upper)
for count, axis in [(4, None), (3, 0), (5, -2)]:
    i = rng.integers(0, count, size=(2, 3))
    hot = np.eye(count)[i] * 1.5 + 0.5
    case('one_hot', np.moveaxis(hot, -1, 2 if axis is None else axis % 3), indices=In(i), one_hot_vector_size=count, axis=axis, on_value='fp32(2)',
         off_value='fp32(0.5)')
for axis, dtype in [(0, 'int8'), (1, 'uint8'), (-1, 'int8')]:
    x = normal(3, 4, scale=4.0)
    n = x.shape[axis]
    scale, zero = 2.0 ** rng.integers(-4, 0, size=n), rng.integers(0, 9, size=n)
    q = torch.quantize_per_channel(T(x).float(), T(scale), T(zero), axis % 2, torch.qint8 if dtype == 'int8' else torch.quint8)
    z = In(zero, dtype)
    case('quantize', q.int_repr(), input=In(x), scale=In(scale), zero_point=z, output_dtype=dtype, axis=axis)
    case('dequantize', q.dequantize(), input=In(q.int_repr().numpy(), dtype), scale=In(scale, 'fp32'), zero_point=z, axis=axis)
    case('constexpr_affine_dequantize', q.dequantize(), quantized_data=In(q.int_repr().numpy(), dtype), scale=In(scale, 'fp32'), zero_point=z, axis=axis)
case('constexpr_affine_dequantize', np.array([0.5, -1.0]), quantized_data=In([3, -3], 'int8'), zero_point='int8(1)', scale='fp32(0.25)', axis=0)
for dims in [(3,), (1, 2), (2, 2, 1), (4, 1)]:
    x = normal(*dims)
    case('constexpr_cast', x, source_val=In(x, 'fp16'), **{'output_dtype': 'fp32'})
mask = np.array([[1, 1, 0, 0], [1, 0, 1, 1]])
q, s = ints(2, 4, low=-8, high=7), positive(1, 2)
case('constexpr_sparse_blockwise_shift_scale', [mask, (s.repeat(2, 1) * q)[mask != 0]], data_mask=In(mask, 'uint1'), nonzero_data=In(q[mask != 0], 'int4'),
     scale=In(s, 'fp32'))

# ---- edges: NaN and infinity, ties, one element, five dimensions, negative integers
nan, inf = np.nan, np.inf
odd = np.array([nan, inf, -inf, 0.0, -1.5, 2.0])
for name, f in {'add': np.add, 'sub': np.subtract, 'mul': np.multiply, 'maximum': np.maximum, 'minimum': np.minimum, 'equal': np.equal,
                'not_equal': np.not_equal, 'less': np.less, 'less_equal': np.less_equal, 'greater': np.greater,
                'greater_equal': np.greater_equal}.items():
    with np.errstate(all='ignore'):
        case(name, f(odd, odd[::-1]), x=In(odd), y=In(odd[::-1]))
        case(name, f(odd, 2.0), x=In(odd), y=In(np.array(2.0)))
    x, y = ints(2, 1, 2, 1, 3, low=-3, high=3), ints(1, 2, 1, 2, 1, low=-3, high=3)
    case(name, f(x, y), dtype='int32', x=In(x), y=In(y))
    case(name, f(x, y), dtype='fp16', x=In(x), y=In(y))
case('real_div', np.array([inf, -inf, 0.5, nan]), x=In([1, -1, 1, nan]), y=In([0, 0, 2, 1]))
for name, f in {'floor_div': np.floor_divide, 'mod': np.mod}.items():
    x, y = np.array([7.0, -7, 7, -7, 6, -6, 0, 1]), np.array([2.0, 2, -2, -2, 3, 3, -5, -5])
    case(name, f(x, y), dtype='int32', x=In(x), y=In(y))
    case(name, f(x / 4, y), dtype='fp16', x=In(x / 4), y=In(y))
    with np.errstate(all='ignore'):
        x, y = np.array([1, -1, 1, -1, inf, inf, 0, nan, 5, -5, 0, -7, 1]), np.array([inf, inf, -inf, -inf, 2, inf, inf, 1, 0, 0, 0, nan, -3])
        case(name, f(x, y), x=In(x), y=In(y))
        case(name, f(x, y), dtype='fp16', x=In(x), y=In(y))
        x, y = np.array([[0.1, 0.3, 0.7], [1.0, -1.0, 49.0]], np.float32), np.array([0.1, 0.01, 0.7], np.float32)
        x, y = np.float64(x), np.float64(y)  # exactly these; their quotients round up to integers in fp32
        case(name, f(x, y), x=In(x), y=In(y))
        x, y = np.array([2.0 ** 100, -2.0 ** 100, 2.0 ** -149, -2.0 ** -149]), np.array([3.0, 7, 2.0 ** 127, 2.0 ** 127])
        case(name, f(x, y), x=In(x), y=In(y))
case('pow', np.power([0.0, 2, 2, -2, -2, inf, 1], [0.0, -1, 0.5, 3, 2, -1, nan]), x=In([0, 2, 2, -2, -2, inf, 1]), y=In([0, -1, 0.5, 3, 2, -1, nan]))
for name, f in {'abs': np.abs, 'sign': np.sign, 'square': np.square, 'exp': np.exp, 'exp2': np.exp2, 'tanh': np.tanh, 'floor': np.floor,
                'ceil': np.ceil, 'round': np.round}.items():
    case(name, f(odd), x=In(odd))
    case(name, f(normal(1, 2, 1, 2, 1) * 0 + 2.5), x=In(np.full((1, 2, 1, 2, 1), 2.5)))
for name in ('relu', 'relu6', 'sigmoid', 'silu', 'softplus'):
    x = np.array([nan, inf, -20.0, 0.0, 30.0])
    case(name, unary[name](T(x)), x=In(x))
case('sqrt', np.array([nan, inf, 0.0, nan]), x=In([nan, inf, 0, -1]))
case('round', np.round([0.5, 1.5, 2.5, -0.5, -1.5]), x=In([0.5, 1.5, 2.5, -0.5, -1.5]))
for dims, axes in [((1,), None), ((1, 1), [0]), ((2, 1, 3, 1, 2), [1, 3]), ((2, 2, 1, 2, 2), [-1, 0]), ((2, 3, 1, 1, 1), None)]:
    x = ints(*dims)
    a = tuple(axes) if axes else None
    for name, f in {'reduce_sum': np.sum, 'reduce_max': np.max, 'reduce_min': np.min, 'reduce_prod': np.prod}.items():
        case(name, f(x, axis=a), dtype='int32', x=In(x), axes=axes)
    case('reduce_sum_square', np.sum(x * x, axis=a, keepdims=True), dtype='int32', x=In(x), axes=axes, keep_dims=True)
    case('reduce_l1_norm', np.sum(np.abs(x), axis=a, keepdims=True), dtype='fp16', x=In(x), axes=axes, keep_dims=True)
    case('reduce_mean', np.mean(x, axis=a), dtype='fp16', x=In(x), axes=axes)
    case('reduce_l2_norm', np.sqrt(np.sum(x * x, axis=a)), dtype='fp16', x=In(x), axes=axes)
    case('reduce_log_sum_exp', torch.logsumexp(T(x), a if a is not None else tuple(range(x.ndim))), x=In(x), axes=axes)
case('reduce_max', np.array([nan, 2.0]), x=In([[1, nan, 3], [-inf, 2, 1]]), axes=[1])
case('reduce_min', np.array([nan, -inf]), x=In([[1, nan, 3], [-inf, 2, 1]]), axes=[1])
case('reduce_log_sum_exp', np.array([np.log(np.exp(-1) + 1) + 1000, -inf]), x=In([[1000, 999], [-inf, -inf]]), axes=[-1])
for name, f in {'reduce_argmax': np.argmax, 'reduce_argmin': np.argmin}.items():
    for x, axis in [([3, 3, 1, 1, 3], 0), ([[2, 2], [2, 2]], 1), ([[5], [5], [-5]], 0), ([[[1, 2], [2, 1]]], -1)]:
        x = np.array(x, dtype=np.float64)
        case(name, f(x, axis=axis), dtype='int32', x=In(x), axis=axis)
        case(name, f(x, axis=axis), dtype='fp16', x=In(x), axis=axis, output_dtype='uint16')
for dims, axis in [((1,), 0), ((5,), 0), ((2, 1, 2, 3, 1), 3), ((2, 2, 2), -3)]:
    x = ints(*dims)
    case('cumsum', np.cumsum(x, axis), dtype='int32', x=In(x), axis=axis)
    case('cumsum', np.flip(np.cumsum(np.flip(x, axis), axis), axis), dtype='fp16', x=In(x), axis=axis, reverse=True)
case('softmax', np.array([[1.0, 0, 0], [0.5, 0.5, 0]]), x=In([[0, -inf, -inf], [2, 2, -inf]]), axis=1)
for dims, axis in [((2, 1, 2, 1, 3), 2), ((1,), 0), ((3, 1), 1)]:
    x = normal(*dims)
    case('softmax', torch.softmax(T(x), axis), dtype='fp16', x=In(x), axis=axis)
for x, axis, k in [([2, 1, 2, 1, 2], 0, 4), ([[1, 1], [1, 1], [0, 1]], 0, 2), ([[[3, -3, 3]]], -1, 3), ([[7]], 1, 1)]:
    x = np.array(x, dtype=np.float64)
    for up in (True, False):
        order = np.argsort(x if up else -x, axis, kind='stable')
        first = np.take(order, np.arange(k), axis)
        for dtype in ('int32', 'fp16'):
            case('topk', [np.take_along_axis(x, first, axis), first], dtype=dtype, x=In(x), k=k, axis=axis, ascending=up)
            case('argsort', order, dtype=dtype, x=In(x), axis=axis, ascending=up)
case('topk', np.array([9.0, 4]), x=In([4, 9, 1]), k=2, return_indices=False, sort=True)
for a, b in [((1, 2, 1, 2, 3), (2, 1, 3, 3, 2)), ((1, 1), (1, 1)), ((1, 5), (5, 1)), ((5, 1), (1, 5))]:
    x, y = ints(*a), ints(*b)
    case('matmul', np.matmul(x, y), dtype='int32', x=In(x), y=In(y))
    case('matmul', np.matmul(x, y), dtype='fp16', x=In(x), y=In(y))
for eq, dims in {'bij,bjk->bik': [(2, 2, 3), (2, 3, 2)], 'bhwc,hkc->bhwk': [(2, 2, 1, 3), (2, 2, 3)], 'abc->cba': [(2, 1, 3)], 'ij,ij->i': [(2, 3), (2, 3)],
                 'bnij,bnjk->bnik': [(1, 2, 2, 2), (1, 2, 2, 3)], 'ij,kj->ki': [(2, 3), (4, 3)], 'i,ij,j->': [(2,), (2, 3), (3,)], 'bld,hde->bhle': [(2, 3, 2), (2, 2, 1)]}.items():
    values = [ints(*d) for d in dims]
    case('einsum', np.einsum(eq, *values), dtype='fp16', values=[In(v) for v in values], equation=eq)
conv((1, 2, 5), (2, 2, 1), strides=[3])
conv((2, 3, 1), (2, 3, 3), pad_type='same', dilations=[2])
conv((1, 4, 5, 1), (4, 1, 3, 1), groups=4, pad_type='custom', pad=[2, 3, 0, 0], dilations=[2, 1])
conv((1, 2, 3, 2, 3), (2, 2, 2, 1, 3), pad_type='same_lower', strides=[2, 1, 2], bias=True)
conv_transpose((1, 2, 3), (2, 1, 2), strides=[3])
conv_transpose((2, 2, 1, 1), (2, 2, 2, 2), strides=[3, 1], groups=2, bias=True)
pool((1, 3, 1), [1])
pool((2, 1, 3, 7), [3, 3], [3, 2], 'same')
pool((1, 1, 2, 5, 5), [2, 2, 2], [2, 2, 2], 'valid', None, True)
pool((1, 1, 7), [2], [3], 'custom', [1, 1], True)
for value, fill_with, dtype in [(ints(2, 3), -7, 'int32'), (ints(2, 3, low=0, high=1), 1, 'bool'), (normal(1, 2, 1, 2, 1), -2, 'fp16'), (normal(1), 0.5, 'fp32')]:
    edge = ((0, 0),) * (value.ndim - 1) + ((2, 1),)
    case('pad', np.pad(value, edge, constant_values=fill_with), dtype=dtype, x=In(value), pad=[2, 1], mode='constant', constant_val=fill_with)
x = normal(2, 2, 3, 4)
case('pad', np.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), mode='reflect'), x=In(x), pad=[2, 1, 3, 2], mode='reflect')
case('pad', np.pad(x, ((0, 0), (1, 1), (2, 1), (3, 5)), mode='edge'), dtype='fp16', x=In(x), pad=[1, 1, 2, 1, 3, 5], mode='replicate')
for kind in ('int16', 'uint16', 'int8', 'uint8', 'int32'):
    i = ints(2, 2, low=0, high=2)
    x = ints(3, 2, 2)
    case('gather', np.take(x, i.astype(int), 0), dtype='int32', x=In(x), indices=In(i, kind), axis=0)
    case('gather_along_axis', np.take_along_axis(x[:, 0], i.astype(int), 0), dtype='fp16', x=In(x[:, 0]), indices=In(i, kind), axis=0)
    case('gather_nd', x[i[:, 0].astype(int), i[:, 1].astype(int) % 2], dtype='int32', x=In(x), indices=In(np.stack([i[:, 0], i[:, 1] % 2], 1), kind))
    want = x.copy()
    np.add.at(want, i[0].astype(int), 1)
    case('scatter', want, dtype='int32', data=In(x), indices=In(i[0], kind), updates=In(np.ones((2, 2, 2))), axis=0, mode='add')
    case('scatter_nd', want, dtype='int32', data=In(x), indices=In(i[0][:, None], kind), updates=In(np.ones((2, 2, 2))), mode='add')
bits = ints(3, 4, low=0, high=1)
case('gather', bits[[2, 0]], dtype='bool', x=In(bits), indices=In([2, 0]))
x = normal(2, 2, 3, 2)
i = np.array([[[0, 2], [1, 1]], [[2, 0], [0, 0]]])
case('gather', np.stack([np.stack([x[a, b][i[a, b]] for b in range(2)]) for a in range(2)]), x=In(x), indices=In(i), axis=2, batch_dims=2)
for dims, axes in [((1,), [0]), ((2, 1, 2, 1, 2), [0, 2, 4]), ((4,), None)]:
    x = ints(*dims, low=0, high=1)
    case('reverse', np.flip(x, None if axes is None else tuple(axes)), dtype='bool', x=In(x), axes=axes)
for dims, lower, upper in [((3, 3), 5, 0), ((2, 5), 0, -1), ((1, 4), 0, 0), ((2, 1, 3, 2), -1, 9)]:
    x = ints(*dims)
    keep = np.ones_like(x)
    keep = keep if lower < 0 else np.triu(keep, -lower)
    keep = keep if upper < 0 else np.tril(keep, upper)
    case('band_part', x * keep, dtype='int32', x=In(x), lower=lower, upper=upper)
for kind in ('int8', 'uint8', 'int32'):
    case('one_hot', np.where(np.eye(4)[[3, 0]] != 0, 7, -7), indices=In([3, 0], kind), one_hot_vector_size=4, on_value='int32(7)', off_value='int32(-7)')
for start, end, step in [(5, 0, -1), (0, 1, 3), (3, 4, 1)]:
    case('range_1d', np.arange(start, end, step), end='int32(%d)' % end, start='int32(%d)' % start, step='int32(%d)' % step)
x = np.array([-300.0, -129, -128.5, -0.5, 0.5, 1.5, 127.5, 128, 300])
case('quantize', torch.quantize_per_tensor(T(x).float(), 1.0, 0, torch.qint8).int_repr(), input=In(x), scale='fp32(1)', output_dtype='int8')
case('quantize', torch.quantize_per_tensor(T(x).float(), 2.0, 128, torch.quint8).int_repr(), input=In(x), scale='fp32(2)', zero_point='uint8(128)',
     output_dtype='uint8')
for value, to in [([0.5, -0.5, 2.9, -2.9], 'int32'), ([0, -0.0, 3, nan], 'bool'), ([1, 2048, 65504, 0.25], 'fp16'), ([-5, 5, 100], 'fp32')]:
    np_type = {'int32': np.int32, 'bool': np.bool_, 'fp16': np.float16, 'fp32': np.float32}[to]
    case('cast', np.array(value).astype(np_type), x=In(value), **{'dtype=': to})
for lengths in [(1,), (2,)]:
    x = normal(1, 2)
    case('reverse_sequence', np.flip(x, 1) if lengths[0] == 2 else x, dtype='fp16', x=In(x), lengths=In(lengths, 'int32'), seq_axis=1, batch_axis=0)

# ---- constants and shapes
for value, dtype in [(normal(3), 'fp32'), (np.array(2.5), 'fp16'), (ints(2, 1, 2), 'int32'), (ints(2, 2, low=0, high=1), 'bool'), (ints(5, low=-128, high=127), 'int8'),
                     (ints(5, low=0, high=255), 'uint8'), (np.array([nan, inf, -inf]), 'fp16')]:
    case('const', value, val=In(value, dtype))
case('const', np.array([0.1, 1 / 3, 65519.0]).astype(np.float16), val=In([0.1, 1 / 3, 65519.0], 'fp16'))
for dims, dtype in [((5,), 'fp32'), ((2, 3), 'fp16'), ((1, 4, 1, 3), 'bool'), ((2, 1, 1, 1, 1), 'int32'), ((1,), 'int32')]:
    case('shape', np.array(dims), dtype=dtype, x=In(np.zeros(dims)))

# ---- random numbers: their ranges and frequencies
from math import erf


def falls(op, edges, probabilities, **args):
    """Returns the probabilities of a result below edges[0], in [edges[i], edges[i + 1]), and above the last edge; one row
    each."""
    line = ' '.join(k + '=' + write(v) for k, v in args.items() if v is not None)
    p = np.atleast_2d(np.asarray(probabilities, dtype=np.float64))
    print('~' + op, 'fp32', line)
    print('[%d]' % len(edges), ' '.join(num(v) for v in edges), shape(p), ' '.join(num(v) for v in p.ravel()))


for p, dims, seed in [(None, [3000], None), (0.25, [60, 50], 7), (0, [500], 3), (1, [5, 100], 1), (0.9, [10, 1, 300], 11)]:
    q = 0.5 if p is None else p
    falls('random_bernoulli', [0, 1e-9, 1, 1 + 1e-9], [0, 1 - q, 0, q, 0], shape=dims, prob=p, seed=seed)
for low, high, dims, seed in [(None, None, [4000], None), (-1, 0.5, [40, 100], 7), (5, 6, [3000], 2), (-100, 100, [2, 2, 1000], 9), (0, 1e-3, [1000], 4)]:
    a, b = (0 if low is None else low), (1 if high is None else high)
    falls('random_uniform', np.linspace(a, b, 9), [0] + [1 / 8] * 8 + [0], shape=dims, low=low, high=high, seed=seed)
for mean, deviation, dims, seed in [(None, None, [4000], None), (1.5, 0.25, [40, 100], 7), (-3, 10, [3000], 2), (100, 1, [2, 2, 1000], 9), (0, 1e-3, [1000], 4)]:
    m, d = (0 if mean is None else mean), (1 if deviation is None else deviation)
    at = np.array([-2, -1, -0.5, 0, 0.5, 1, 2])
    below = np.array([0] + [(1 + erf(v / 2 ** 0.5)) / 2 for v in at] + [1])
    falls('random_normal', m + d * at, np.diff(below), shape=dims, mean=mean, stddev=deviation, seed=seed)
for x, mode, size, seed in [(normal(5), None, 3000, None), (normal(2, 4), 'logits', 2000, 1), (positive(3), 'probs', 3000, 5), (positive(2, 2), 'probs', 1000, 6),
                            (np.array([[40.0, -40, 0]]), 'logits', 500, 2)]:
    p = x / x.sum(-1, keepdims=True) if mode == 'probs' else torch.softmax(T(x), -1).numpy()
    falls('random_categorical', np.arange(x.shape[-1] + 1), np.pad(np.atleast_2d(p), ((0, 0), (1, 1))), x=In(x), mode=mode, size=size, seed=seed)

# ---- whole programs: control flow, states, lists. The expected results come from Python's own if, while and lists.
def program(rows, text, inputs, want):
    print('@' + rows, 'program(1.3) { func main' + ' '.join(text.split()) + ' }')
    for line in (inputs, want):
        arrays = [np.asarray(v, dtype=np.float64) for v in line]
        print(' '.join(shape(v) + ' ' + ' '.join(num(e) for e in v.ravel()) for v in arrays))


x = normal(3)
for p in (True, False):
    program('cond', """<ios15>(tensor<fp32, [3]> x, bool p) {
        tensor<fp32, [3]> y = cond(pred = p) { tensor<fp32, [3]> a = mul(x = x, y = x); } -> (a), { tensor<fp32, [3]> a = sub(x = x, y = fp32(1)); } -> (a);
        } -> (y);""", [x, p], [x * x if p else x - 1])
    program('cond', """<ios15>(tensor<fp32, [3]> x, bool p, bool q) {
        tensor<fp32, [3]> y, int32 n = cond(pred = p) {
            tensor<fp32, [3]> z, int32 k = cond(pred = q) { tensor<fp32, [3]> a = abs(x = x); int32 one = const()[val = int32(1)]; } -> (a, one),
                { tensor<fp32, [3]> b = relu(x = x); int32 two = const()[val = int32(2)]; } -> (b, two);
        } -> (z, k), { int32 three = const()[val = int32(3)]; } -> (x, three);
        } -> (n, y);""", [x, p, not p], [2 if p else 3, np.maximum(x, 0) if p else x])
for v in (-4.0, 4.0):
    program('cond', """<ios16>(tensor<fp16, [1]> v) {
        tensor<bool, [1]> c = less(x = v, y = fp16(0)); bool p = squeeze(x = c);
        tensor<fp16, [1]> y = cond(pred = p) { tensor<fp16, [1]> a = mul(x = v, y = fp16(-0.5)); } -> (a), { tensor<fp16, [1]> b = sqrt(x = v); } -> (b);
        } -> (y);""", [[v]], [[v * -0.5 if v < 0 else np.sqrt(v)]])
for limit, start in [(10, 1), (1, 1), (1000, 3), (-5, 2), (64, 4)]:
    n, total = start, 0.0
    while n < limit:
        n, total = n * 2, total + 1 / n
    program('while_loop', """<ios15>(int32 limit, int32 start) {
        int32 n, fp32 t = while_loop(loop_vars = (start, fp32(0))) (int32 a, fp32 s) { bool more = less(x = a, y = limit); } -> (more), (int32 a, fp32 s) {
            int32 b = mul(x = a, y = int32(2)); fp32 f = cast(x = a, dtype = "fp32"); fp32 r = real_div(x = fp32(1), y = f); fp32 u = add(x = s, y = r); } -> (b, u);
        } -> (n, t);""", [limit, start], [n, total])
for rounds in (0, 1, 5):
    m, v = np.array([[1, 1], [1, 0]]), np.eye(2)
    for _ in range(rounds):
        v = m @ v
    program('while_loop', """<ios17>(tensor<fp32, [2, 2]> m, int32 rounds) {
        tensor<fp32, [2, 2]> e = const()[val = tensor<fp32, [2, 2]>([[1, 0], [0, 1]])];
        int32 k, tensor<fp32, [2, 2]> v = while_loop(loop_vars = (int32(0), e)) (int32 i, tensor<fp32, [2, 2]> a) { bool more = less(x = i, y = rounds); } -> (more),
            (int32 i, tensor<fp32, [2, 2]> a) { tensor<fp32, [2, 2]> b = matmul(x = m, y = a); int32 j = add(x = i, y = int32(1)); } -> (j, b);
        } -> (v);""", [m, rounds], [v])
for value in (5, 6, 27):  # the number of Collatz' steps: a choice inside a loop
    n, steps = value, 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    program('while_loop,cond', """<ios15>(int32 start) {
        int32 n, int32 steps = while_loop(loop_vars = (start, int32(0))) (int32 a, int32 s) { bool more = not_equal(x = a, y = int32(1)); } -> (more), (int32 a, int32 s) {
            int32 rest = mod(x = a, y = int32(2)); bool even = equal(x = rest, y = int32(0));
            int32 b = cond(pred = even) { int32 h = floor_div(x = a, y = int32(2)); } -> (h), { int32 t = mul(x = a, y = int32(3)); int32 u = add(x = t, y = int32(1)); } -> (u);
            int32 s1 = add(x = s, y = int32(1)); } -> (b, s1);
        } -> (steps, n);""", [value], [steps, n])
for dtype, dims in [('fp32', (2,)), ('fp16', (1, 3)), ('int32', ()), ('fp32', (2, 2)), ('int32', (3,))]:
    kind = 'tensor<%s, [%s]>' % (dtype, ', '.join(map(str, dims))) if dims else dtype
    length = int(rng.integers(2, 5))
    a, at = ints(*dims), int(rng.integers(0, length))
    have = [np.zeros(dims) for _ in range(length)]
    have[at] = a
    have[(at + 1) % length] = have[(at + 1) % length] + 2 * a
    picks = [at, 0, at]
    got = [have[k] for k in picks]
    have2 = list(have)
    for where, what in zip((length - 1, 0, length - 1), got):  # the last one is kept
        have2[where] = what
    program('make_list,list_write,list_read,list_length,list_gather,list_scatter', """<ios15>(%(k)s x, int32 at, int32 next) {
        list<%(k)s, %(n)d> l = make_list(init_length = int32(%(n)d), dynamic_length = false, elem_shape = %(s)s, dtype = "%(t)s");
        list<%(k)s, %(n)d> m = list_write(ls = l, index = at, value = x); int32 n = list_length(ls = m); %(k)s y = add(x = x, y = x);
        list<%(k)s, %(n)d> o = list_write(ls = m, index = next, value = y); %(k)s z = list_read(ls = o, index = next);
        tensor<int32, [3]> w = const()[val = tensor<int32, [3]>([%(w)s])];
        tensor<%(t)s, [%(g)s]> some = list_gather(ls = o, indices = w);
        list<%(k)s, %(n)d> q = list_scatter(ls = o, indices = tensor<int32, [3]>([%(last)d, 0, %(last)d]), value = some);
        %(k)s first = list_read(ls = q, index = int32(0)); %(k)s end = list_read(ls = q, index = int32(%(last)d));
        } -> (n, z, some, first, end);""" % dict(k=kind, n=length, t=dtype, s='(' + ', '.join('int32(%d)' % d for d in dims) + ')' if dims else 'tensor<int32, [0]>([])',
                                                w=', '.join(map(str, picks)), g=', '.join(map(str, (3,) + dims)), last=length - 1),
            [a, at, (at + 1) % length], [length, have[(at + 1) % length], np.stack(got), have2[0], have2[-1]])
for count in (1, 3, 6):  # running sums, written and read inside a loop
    x = normal(count, 2)
    program('make_list,list_write,list_gather,while_loop', """<ios15>(tensor<fp32, [%(n)d, 2]> x) {
        list<tensor<fp32, [2]>, %(n)d> l = make_list(init_length = int32(%(n)d), dynamic_length = true, elem_shape = (int32(2)), dtype = "fp32");
        tensor<fp32, [2]> none = const()[val = tensor<fp32, [2]>([0, 0])];
        int32 k, tensor<fp32, [2]> s, list<tensor<fp32, [2]>, %(n)d> all = while_loop(loop_vars = (int32(0), none, l))
            (int32 i, tensor<fp32, [2]> a, list<tensor<fp32, [2]>, %(n)d> b) { bool more = less(x = i, y = int32(%(n)d)); } -> (more),
            (int32 i, tensor<fp32, [2]> a, list<tensor<fp32, [2]>, %(n)d> b) { tensor<fp32, [2]> row = gather(x = x, indices = i, axis = int32(0));
                tensor<fp32, [2]> c = add(x = a, y = row); list<tensor<fp32, [2]>, %(n)d> d = list_write(ls = b, index = i, value = c); int32 j = add(x = i, y = int32(1)); } -> (j, c, d);
        tensor<int32, [%(n)d]> order = const()[val = tensor<int32, [%(n)d]>([%(o)s])]; tensor<fp32, [%(n)d, 2]> y = list_gather(ls = all, indices = order);
        } -> (y, s);""" % dict(n=count, o=', '.join(map(str, range(count)))), [x], [np.cumsum(x, 0), x.sum(0)])
for dtype, dims in [('fp16', (2,)), ('fp32', (1, 3)), ('fp16', (2, 1, 2)), ('fp32', (1,)), ('fp16', (1, 1, 1, 4))]:
    t = '%s, [%s]' % (dtype, ', '.join(map(str, dims)))
    x, s = ints(*dims), ints(*dims)
    now = s * x
    program('read_state,write_state,coreml_update_state', """<ios18>(tensor<%(t)s> x, state<tensor<%(t)s>> acc) {
        tensor<%(t)s> old = read_state(input = acc); tensor<%(t)s> new = mul(x = old, y = x); write_state(data = new, input = acc);
        tensor<%(t)s> now = read_state(input = acc); tensor<%(t)s> more = add(x = now, y = old); tensor<%(t)s> last = coreml_update_state(state = acc, value = more);
        tensor<%(t)s> y = sub(x = last, y = x); } -> (y, old);""" % dict(t=t), [x, s], [now + s - x, s, now + s])

# ---- argmax and argmin with NaN: the first NaN, in rows of every kind of length
for dims, axis in [((7,), 0), ((2, 1100), 1), ((3, 5), 0), ((2, 130, 2), 1)]:
    x = ints(*dims, low=-50, high=50)
    for name, f in {'reduce_argmax': np.argmax, 'reduce_argmin': np.argmin}.items():
        case(name, f(x, axis), dtype='fp16', x=In(x), axis=axis)
    flat = x.ravel()
    flat[rng.integers(0, flat.size, size=2)] = nan
    for name, f in {'reduce_argmax': np.argmax, 'reduce_argmin': np.argmin}.items():
        case(name, f(x, axis), x=In(x), axis=axis)

# ---- an lstm with a clipped cell and peepholes, written out: PyTorch has neither
for direction in ('forward', 'reverse'):
    steps, batch, inputs, hidden = 4, 2, 2, 2
    x, h, c = normal(steps, batch, inputs), normal(batch, hidden), normal(batch, hidden)
    w_ih, w_hh, bias, peephole = normal(4 * hidden, inputs), normal(4 * hidden, hidden), normal(4 * hidden), normal(3 * hidden)
    now, cell, line = h.astype(np.float64), c.astype(np.float64), []
    for t in range(steps) if direction == 'forward' else reversed(range(steps)):
        i, f, o, z = np.split(x[t] @ w_ih.T + now @ w_hh.T + bias, 4, 1)
        p_i, p_f, p_o = np.split(peephole, 3)
        gate = lambda v: 1 / (1 + np.exp(-v))
        cell = np.clip(gate(f + p_f * cell) * cell + gate(i + p_i * cell) * np.tanh(z), -0.25, 0.25)
        now = gate(o + p_o * cell) * np.tanh(cell)
        line.append(now)
    case('lstm', [np.stack(line), now, cell], x=In(x), initial_h=In(h), initial_c=In(c), weight_ih=In(w_ih, const=True), weight_hh=In(w_hh, const=True),
         bias=In(bias, const=True), peephole=In(peephole, const=True), direction=direction, output_sequence=True, clip=0.25, activation='scaled_tanh')

# ---- resize to the nearest element; attention whose batches are broadcast
x = normal(1, 2, 5)
at = [(2 * i + 1) * 5 // 14 for i in range(7)]
case('resize', x[:, :, at], x=In(x), shape=[7], resized_dims=1, interpolation_mode='NEAREST_NEIGHBOR')
q, k, v = normal(1, 3, 4), normal(2, 5, 4), normal(1, 5, 6)
case('scaled_dot_product_attention', F.scaled_dot_product_attention(T(q), T(k), T(v)), query=In(q), key=In(k), value=In(v))

# ---- an initial state with more rows than the batch: the first ones count
for direction in ('forward', 'reverse'):
    steps, batch, inputs, hidden = 3, 2, 3, 2
    x, h, c = normal(steps, batch, inputs), normal(batch + 3, hidden), normal(batch + 1, hidden)
    w_ih, w_hh = normal(4 * hidden, inputs), normal(4 * hidden, hidden)
    now, cell, line = h[:batch].astype(np.float64), c[:batch].astype(np.float64), []
    for t in range(steps) if direction == 'forward' else reversed(range(steps)):
        i, f, o, z = np.split(x[t] @ w_ih.T + now @ w_hh.T, 4, 1)
        gate = lambda v: 1 / (1 + np.exp(-v))
        cell = gate(f) * cell + gate(i) * np.tanh(z)
        now = gate(o) * np.tanh(cell)
        line.append(now)
    case('lstm', [np.stack(line), now, cell], x=In(x), initial_h=In(h), initial_c=In(c), weight_ih=In(w_ih, const=True), weight_hh=In(w_hh, const=True),
         direction=direction, output_sequence=True)

# ---- lists that grow: by an index past the end, by a scatter, in a loop that swaps its two lists and reads the old
# one after writing the new one; a choice returns one list unchanged or a longer one; earlier elements stay
for far, rounds, longer in [(4, 3, True), (1, 0, False), (7, 5, True), (2, 9, False)]:
    a, b = ints(2), ints(2)
    first = [np.zeros(2)] * 2
    first[0] = a
    second = first + [np.zeros(2)] * max(0, far + 1 - len(first))
    second[far] = b
    third = second + [np.zeros(2)] * max(0, far + 3 - len(second))
    third[far + 2], third[1] = a, b
    chosen = third + [a + b] if longer else third
    p, q, last = list(chosen), list(second), np.zeros(2)
    for i in range(rounds):
        p = p + [np.zeros(2)] * max(0, 2 * i + 1 - len(p))
        before, p = p, list(p)
        p[2 * i] = p[2 * i] + a + i
        last = last + before[2 * i] * 2
        p, q = q, p
    program('make_list,list_write,list_read,list_length,list_scatter,while_loop,cond', """<ios15>(tensor<fp32, [2]> a, tensor<fp32, [2]> b, int32 far, int32 rounds, bool longer) {
        list<tensor<fp32, [2]>, 2> l = make_list(init_length = int32(2), elem_shape = (int32(2)), dtype = "fp32");
        list<tensor<fp32, [2]>, 2> l1 = list_write(ls = l, index = int32(0), value = a);
        list<tensor<fp32, [2]>, 2> l2 = list_write(ls = l1, index = far, value = b);
        int32 n1 = list_length(ls = l1); int32 n2 = list_length(ls = l2); int32 further = add(x = far, y = int32(2));
        tensor<int32, [1]> w0 = expand_dims(x = further, axes = [0]);
        tensor<int32, [2]> w = concat(values = (w0, tensor<int32, [1]>([1])), axis = 0); tensor<fp32, [2, 2]> ab = stack(values = (a, b), axis = 0);
        list<tensor<fp32, [2]>, 2> l3 = list_scatter(ls = l2, indices = w, value = ab); int32 n3 = list_length(ls = l3);
        list<tensor<fp32, [2]>, 2> l4 = cond(pred = longer) { tensor<fp32, [2]> s = add(x = a, y = b); list<tensor<fp32, [2]>, 2> t = list_write(ls = l3, index = n3, value = s); } -> (t), { int32 unused = add(x = n3, y = n3); } -> (l3);
        tensor<fp32, [2]> zero = const()[val = tensor<fp32, [2]>([0, 0])];
        int32 k, list<tensor<fp32, [2]>, 2> p, list<tensor<fp32, [2]>, 2> q, tensor<fp32, [2]> last = while_loop(loop_vars = (int32(0), l4, l2, zero))
            (int32 i, list<tensor<fp32, [2]>, 2> p_x, list<tensor<fp32, [2]>, 2> q_x, tensor<fp32, [2]> z) { bool more = less(x = i, y = rounds); } -> (more),
            (int32 i, list<tensor<fp32, [2]>, 2> p_x, list<tensor<fp32, [2]>, 2> q_x, tensor<fp32, [2]> z) {
                int32 at = mul(x = i, y = int32(2)); int32 have = list_length(ls = p_x); bool there = less(x = at, y = have);
                list<tensor<fp32, [2]>, 2> room = cond(pred = there) { int32 unused1 = add(x = at, y = at); } -> (p_x),
                    { list<tensor<fp32, [2]>, 2> made = list_write(ls = p_x, index = at, value = zero); } -> (made);
                tensor<fp32, [2]> old = list_read(ls = room, index = at); fp32 count = cast(x = i, dtype = "fp32");
                tensor<fp32, [2]> new = add(x = old, y = a); tensor<fp32, [2]> new1 = add(x = new, y = count);
                list<tensor<fp32, [2]>, 2> p_y = list_write(ls = room, index = at, value = new1);
                tensor<fp32, [2]> still = list_read(ls = room, index = at); tensor<fp32, [2]> both = add(x = old, y = still);
                tensor<fp32, [2]> z1 = add(x = z, y = both); int32 j = add(x = i, y = int32(1)); } -> (j, q_x, p_y, z1);
        int32 n4 = list_length(ls = l4); int32 np = list_length(ls = p); int32 nq = list_length(ls = q); int32 n3_after = list_length(ls = l3);
        int32 end_p = sub(x = np, y = int32(1)); int32 end_q = sub(x = nq, y = int32(1));
        tensor<fp32, [2]> tail_p = list_read(ls = p, index = end_p); tensor<fp32, [2]> head_p = list_read(ls = p, index = int32(0));
        tensor<fp32, [2]> tail_q = list_read(ls = q, index = end_q); tensor<fp32, [2]> head_q = list_read(ls = q, index = int32(0));
        tensor<fp32, [2]> head = list_read(ls = l4, index = int32(0)); tensor<fp32, [2]> one = list_read(ls = l2, index = int32(1));
        } -> (n1, n2, n3, n4, np, nq, n3_after, tail_p, head_p, tail_q, head_q, head, one, last);""",
            [a, b, far, rounds, longer], [2, len(second), len(third), len(chosen), len(p), len(q), len(third), p[-1], p[0], q[-1], q[0], a, second[1], last])
