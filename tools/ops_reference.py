#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/ops_reference.txt: what PyTorch and numpy compute, in double precision, for most MIL operations and
combinations of their arguments. tests/ops/test_reference compares the slow meanings (src/mil/eval_*.c) with it, so nothing
here may be derived from them. Needs numpy and torch; the build and the tests do not.

    python3 tools/ops_reference.py > tests/data/ops_reference.txt

Two lines a case: "OP DTYPE LINE" in the language of tests/support/op_cases.c, then "[dims] values" for each result.
Inputs are multiples of 1/64 and thus exact in every element type.
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
    return str(int(v)) if v == int(v) and abs(v) < 1e15 else ('%.15g' % v)


def shape(a):
    return '[' + ','.join(str(d) for d in a.shape) + ']'


class In:
    """A tensor operand: values, and how they are written."""
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
    """One record. `want`: an array or a list of arrays; arguments that are None are left out.
    A name may end in "=" where it would clash (dtype)."""
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
    if pad_type == 'same' and all(v == 1 for v in s):  # and as PyTorch itself pads
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

# ---- quantisation: PyTorch's own, and for constants the formula of the format
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
