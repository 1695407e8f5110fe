#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the models of Core ML's older kinds in tests/mil/older with coremltools, and stores the expected outputs in each.

python3 tools/older_models.py [FOLDER] needs coremltools, NumPy and PyTorch. Every input follows a formula that
tests/mil/test_older.c also has: element i of an input is ((37 i + 11) mod 64 - 32) / 16. The expected outputs are computed
here with PyTorch or NumPy and stored in the model's metadata as "want.NAME": the number of elements, the sum of (i mod 7 +
1) * element i, and 16 elements, element k * count / 16 for each k (all elements if there are at most 16). A label is stored
with its probability.
"""
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import torch
import torch.nn.functional as F
import coremltools as ct
from coremltools.models import datatypes
from coremltools.models.neural_network import NeuralNetworkBuilder

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "tests/mil/older"


def values(*shape):
    """Returns the contents of every input."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((37 * i + 11) % 64 - 32) / 16).astype(np.float32).reshape(shape)


def exact(array):
    """Returns the array in fp64 for the expected outputs. There, PyTorch's kernels differ only far beyond the stored digits, so
    every machine writes the same files."""
    return torch.from_numpy(np.asarray(array, np.float64))


def weights(seed, *shape):
    """Returns other numbers that are exact in fp16."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((29 * i + 7 * seed + 3) % 31 - 15) / 32).astype(np.float32).reshape(shape)


def save(spec, name, wants):
    for key, want in wants.items():
        want = want.detach().numpy() if isinstance(want, torch.Tensor) else np.asarray(want)
        flat = want.reshape(-1)
        if want.dtype.kind in "OU":
            text = " ".join(flat)
        else:
            total = float((flat.astype(np.float64) * (np.arange(flat.size) % 7 + 1)).sum())
            few = flat if flat.size <= 16 else flat[[k * flat.size // 16 for k in range(16)]]
            text = " ".join([str(flat.size), "%.7g" % total] + ["%.7g" % v for v in few])
        spec.description.metadata.userDefined["want." + key] = text
    with open(f"{FOLDER}/{name}.mlmodel", "wb") as f:
        f.write(spec.SerializeToString(deterministic=True))


class Network:
    """One input and many layers, each of which is an output."""

    def __init__(self, inputs, exact=True, **options):
        self.inputs = inputs
        self.wants = {}
        self.builder = NeuralNetworkBuilder([(k, datatypes.Array(*s)) for k, s in inputs.items()], [("unset", None)],
                                            disable_rank5_shape_mapping=exact, **options)

    def want(self, name, value):
        self.wants[name] = value

    def save(self, name):
        spec = self.builder.spec
        del spec.description.output[:]
        for key, want in self.wants.items():
            out = spec.description.output.add()
            out.name = key
            out.type.multiArrayType.dataType = ct.proto.FeatureTypes_pb2.ArrayFeatureType.DOUBLE
        save(spec, name, self.wants)


def linear(x, w, b):
    return exact(x) @ exact(w).T + exact(b)


def images():
    """Image layers in a network of the first versions: an input [C, H, W]."""
    n = Network({"x": (4, 6, 8)}, exact=False)
    b, x = n.builder, exact(values(1, 4, 6, 8))
    t = exact

    w, bias = weights(1, 6, 2, 3, 3), weights(2, 6)
    b.add_convolution("conv", 2, 6, 3, 3, 2, 1, "valid", 2, w.transpose(2, 3, 1, 0), bias, True, input_name="x", output_name="conv",
                      padding_top=1, padding_bottom=0, padding_left=2, padding_right=1)
    n.want("conv", F.conv2d(F.pad(x, (2, 1, 1, 0)), t(w), t(bias), stride=(2, 1), groups=2))
    w = weights(3, 5, 4, 3, 2)
    b.add_convolution("conv_same", 4, 5, 3, 2, 2, 3, "same", 1, w.transpose(2, 3, 1, 0), None, False, input_name="x",
                      output_name="conv_same")
    n.want("conv_same", F.conv2d(F.pad(x, (0, 0, 0, 1)), t(w), stride=(2, 3)))
    w = weights(4, 4, 3, 3, 3)
    b.add_convolution("deconv", 4, 3, 3, 3, 2, 2, "valid", 1, w.transpose(2, 3, 0, 1), bias[:3], True, is_deconv=True,
                      input_name="x", output_name="deconv", padding_top=1, padding_bottom=1, padding_left=1, padding_right=0)
    n.want("deconv", F.conv_transpose2d(x, t(w), t(bias[:3]), stride=2)[:, :, 1:-1, 1:])
    b.add_convolution("deconv_dilated", 4, 3, 3, 3, 2, 1, "valid", 1, w.transpose(2, 3, 0, 1), None, False, is_deconv=True,
                      input_name="x", output_name="deconv_dilated", dilation_factors=[1, 2])
    n.want("deconv_dilated", F.conv_transpose2d(x, t(w), stride=(2, 1), dilation=(1, 2)))
    b.add_convolution("dilated", 4, 5, 2, 2, 1, 1, "valid", 1, weights(5, 5, 4, 2, 2).transpose(2, 3, 1, 0), None, False,
                      input_name="x", output_name="dilated", dilation_factors=[2, 3])
    n.want("dilated", F.conv2d(x, t(weights(5, 5, 4, 2, 2)), dilation=(2, 3)))

    b.add_pooling("pool", 2, 2, 2, 2, "MAX", "VALID", "x", "pool")
    n.want("pool", F.max_pool2d(x, 2))
    b.add_pooling("pool_average", 3, 3, 2, 2, "AVERAGE", "VALID", "x", "pool_average", exclude_pad_area=True, padding_top=1,
                  padding_bottom=1, padding_left=1, padding_right=1)
    n.want("pool_average", F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    b.add_pooling("pool_last", 3, 3, 2, 2, "MAX", "INCLUDE_LAST_PIXEL", "x", "pool_last", padding_top=0, padding_left=0)
    n.want("pool_last", F.max_pool2d(x, 3, 2, 0, ceil_mode=True))
    b.add_pooling("pool_all", 1, 1, 1, 1, "AVERAGE", "VALID", "x", "pool_all", is_global=True)
    n.want("pool_all", x.mean((2, 3), keepdim=True))
    b.add_pooling("pool_l2", 2, 2, 2, 2, "L2", "VALID", "x", "pool_l2")
    n.want("pool_l2", F.lp_pool2d(x, 2.0, 2))

    scale, shift, mean, variance = weights(6, 4), weights(7, 4), weights(8, 4), weights(9, 4) ** 2 + 0.5
    b.add_batchnorm("bn", 4, scale, shift, mean, variance, "x", "bn", epsilon=1e-3)
    n.want("bn", F.batch_norm(x, t(mean), t(variance), t(scale), t(shift), eps=1e-3))
    b.add_batchnorm("instance", 4, scale, shift, input_name="x", output_name="instance", compute_mean_var=True,
                    instance_normalization=True, epsilon=1e-3)
    n.want("instance", F.instance_norm(x, weight=t(scale), bias=t(shift), eps=1e-3))
    b.add_lrn("lrn", "x", "lrn", 0.3, 0.7, 3, 1.5)
    n.want("lrn", F.local_response_norm(x, 3, 0.3, 0.7, 1.5))
    b.add_softmax("softmax", "x", "softmax")
    n.want("softmax", x.softmax(1))
    b.add_mvn("mvn", "x", "mvn", across_channels=False, normalize_variance=True, epsilon=1e-4)
    n.want("mvn", (x - x.mean((2, 3), keepdim=True)) / torch.sqrt(x.var((2, 3), keepdim=True, correction=0) + 1e-4))
    b.add_l2_normalize("l2", "x", "l2", epsilon=1e-4)
    n.want("l2", x / torch.sqrt((x**2).sum() + 1e-4))

    b.add_padding("pad_reflect", 1, 2, 2, 3, padding_type="reflection", input_name="x", output_name="pad_reflect")
    n.want("pad_reflect", F.pad(x, (1, 2, 2, 3), mode="reflect"))
    b.add_padding("pad", 1, 0, 0, 2, value=2.5, input_name="x", output_name="pad")
    n.want("pad", F.pad(x, (1, 0, 0, 2), value=2.5))
    b.add_crop("crop", 1, 2, 3, 0, [0, 0], ["x"], "crop")
    n.want("crop", x[:, :, 3:, 1:-2])
    b.add_upsample("up", 2, 3, "x", "up", mode="NN")
    n.want("up", x.repeat_interleave(2, 2).repeat_interleave(3, 3))
    b.add_upsample("up_corners", 2, 2, "x", "up_corners", mode="BILINEAR", linear_upsample_mode="ALIGN_CORNERS_TRUE")
    n.want("up_corners", F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True))
    b.add_upsample("up_centres", 2, 2, "x", "up_centres", mode="BILINEAR", linear_upsample_mode="ALIGN_CORNERS_FALSE")
    n.want("up_centres", F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
    b.add_upsample("up_default", 2, 2, "x", "up_default", mode="BILINEAR")
    n.want("up_default", sampled(x, [min(5, i / 2 * 1.0) for i in grid(6, 12)], [min(7, i / 2 * 1.0) for i in grid(8, 16)]))
    b.add_resize_bilinear("resize", "x", "resize", 4, 5, "STRICT_ALIGN_ENDPOINTS_MODE")
    n.want("resize", sampled(x, np.linspace(0, 5, 4), np.linspace(0, 7, 5)))
    b.add_resize_bilinear("resize_up", "x", "resize_up", 9, 5, "UPSAMPLE_MODE")
    n.want("resize_up", sampled(x, np.minimum(5, np.linspace(0, 6 - 6 / 9, 9)), np.minimum(7, np.linspace(0, 8 - 8 / 5, 5))))
    b.add_reorganize_data("to_depth", "x", "to_depth", mode="SPACE_TO_DEPTH", block_size=2)
    n.want("to_depth", x.reshape(1, 4, 3, 2, 4, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 16, 3, 4))
    b.add_reorganize_data("to_space", "x", "to_space", mode="DEPTH_TO_SPACE", block_size=2)
    n.want("to_space", x.reshape(1, 2, 2, 1, 6, 8).permute(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 16))
    b.add_slice("slice", "x", "slice", "width", 1, -1, 2)
    n.want("slice", x[:, :, :, 1:-1:2])
    for mode, f in (("sum", torch.sum), ("avg", torch.mean), ("L2", lambda v, axes, keepdim: v.norm(dim=axes, keepdim=keepdim)), ("max", torch.amax)):
        b.add_reduce("reduce_" + mode, "x", "reduce_" + mode, "HW", mode)
        n.want("reduce_" + mode, f(x, (2, 3), keepdim=True))
    b.add_reduce("reduce_arg", "x", "reduce_arg", "C", "argmax")
    n.want("reduce_arg", x.argmax(1, keepdim=True).float())
    n.save("images")


def grid(size, count):
    """Twice as many points: the layer's own grid, with spacing (Xin - Xin / Xout) / (Xout - 1)."""
    spacing = (size - size / count) / (count - 1)
    return [min(size - 1, i * spacing) * 2 for i in range(count)]


def sampled(x, rows, columns):
    """Interpolates bilinearly at the points of a grid."""
    def along(a, points, axis):
        low = [int(np.floor(p)) for p in points]
        high = [min(i + 1, a.shape[axis] - 1) for i in low]
        f = torch.tensor([p - i for p, i in zip(points, low)], dtype=torch.float64)
        f = f.reshape([-1] + [1] * (a.ndim - 1 - axis))
        return a.index_select(axis, torch.tensor(low)) * (1 - f) + a.index_select(axis, torch.tensor(high)) * f
    return along(along(x, rows, 2), columns, 3)


def arrays():
    """Layers of any rank."""
    n = Network({"x": (2, 3, 4)})
    b, v = n.builder, values(2, 3, 4)
    x, t = exact(v), exact

    def add(name, how, want, *rest, inputs=("x",), **options):
        getattr(b, "add_" + how)(name, *rest, input_names=list(inputs), output_name=name, **options)
        n.want(name, want)

    def one(name, how, want, *rest, source="x", **options):
        getattr(b, "add_" + how)(name, *rest, input_name=source, output_name=name, **options)
        n.want(name, want)

    w, bias = weights(1, 5, 4), weights(2, 5)
    b.add_inner_product("inner", w, bias, 4, 5, True, "x", "inner")
    n.want("inner", F.linear(x, t(w), t(bias)))
    add("matmul", "batched_mat_mul", x @ t(w.T.copy()) + t(bias), weight_matrix_rows=4, weight_matrix_columns=5, W=w.T.copy(),
        bias=bias)
    b.add_load_constant_nd("c", "c", weights(3, 4, 2), [4, 2])
    add("matmul_two", "batched_mat_mul", x @ t(weights(3, 4, 2)), inputs=("x", "c"))
    one("softmax", "softmax_nd", x.softmax(1), axis=1)
    one("transpose", "transpose", x.permute(2, 0, 1), axes=[2, 0, 1])
    one("reshape", "reshape_static", x.reshape(4, 6), output_shape=[4, -1])
    one("keep_rank", "rank_preserving_reshape", x.reshape(2, 6, 2), output_shape=[0, 6, -1])
    one("expand", "expand_dims", x[:, None, :, :, None], axes=[1, -1])
    one("squeeze", "squeeze", x, source="expand", axes=[1, 4])
    one("flat", "flatten_to_2d", x.reshape(6, 4), axis=2)
    add("concat", "concat_nd", torch.cat([x, x], 1), axis=1, inputs=("x", "x"))
    add("stack", "stack", torch.stack([x, x], 1), axis=1, inputs=("x", "x"))
    b.add_split_nd("split", "x", ["split_a", "split_b"], 2, split_sizes=[1, 3])
    n.want("split_a", x[:, :, :1])
    n.want("split_b", x[:, :, 1:])
    one("tile", "tile", x.repeat(1, 2, 3), reps=[1, 2, 3])
    one("slice", "slice_static", x[:, [2, 1], 1:], begin_ids=[0, 2, 1], end_ids=[2, 0, -9], strides=[1, -1, 1],
        begin_masks=[True, False, False], end_masks=[True, False, True])
    one("slice_one", "slice_static", x[1, :, 1::2], begin_ids=[1, 0, 1], end_ids=[2, 3, 4], strides=[1, 1, 2],
        begin_masks=[False] * 3, end_masks=[False] * 3, squeeze_masks=[True, False, False])
    one("windows", "sliding_windows", x.unfold(2, 2, 1), axis=2, window_size=2, step=1)
    one("reverse", "reverse", x.flip(2), reverse_dim=[False, False, True])
    b.add_load_constant_nd("i", "i", np.array([2, 0]), [2])
    add("gather", "gather", x[:, [2, 0]], axis=1, inputs=("x", "i"))
    b.add_load_constant_nd("ij", "ij", np.array([[1, 2], [0, 0], [1, 1]]), [3, 2])
    add("gather_nd", "gather_nd", x[[1, 0, 1], [2, 0, 1]], inputs=("x", "ij"))
    b.add_load_constant_nd("u", "u", weights(4, 2, 2, 4), [2, 2, 4])
    scattered = x.clone()
    scattered[:, [2, 0]] += t(weights(4, 2, 2, 4))
    add("scatter", "scatter", scattered, axis=1, mode="ADD", inputs=("x", "i", "u"))
    b.add_get_shape("shape", "x", "shape")
    n.want("shape", np.array([2, 3, 4]))
    b.add_load_constant_nd("to", "to", np.array([3, 8]), [2])
    add("reshape_to", "reshape_dynamic", x.reshape(3, 8), inputs=("x", "to"))
    add("reshape_as", "reshape_like", x.reshape(6, 4), inputs=("x", "flat"))
    one("fill", "fill_like", torch.full((2, 3, 4), 1.5), value=1.5)
    one("broadcast", "broadcast_to_static", x.expand(2, 2, 3, 4), output_shape=[2, 2, 3, 4])
    b.add_range_static("range", "range", end=7, start=1, step=2)
    n.want("range", np.array([1, 3, 5]))
    add("pad", "constant_pad", F.pad(x, (2, 0, 0, 1), value=-1), value=-1, pad_to_given_output_size_mode=False,
        pad_amounts=[0, 0, 0, 1, 2, 0])
    one("lower", "lower_triangular", x.tril(-1), k=-1)
    one("upper", "upper_triangular", x.triu(0), k=0)
    one("band", "matrix_band_part", x.triu(-1).tril(1), num_lower=1, num_upper=1)
    b.add_cumsum("cumsum", ["x"], "cumsum", axis=1, reverse=True, exclusive=False)
    n.want("cumsum", x.flip(1).cumsum(1).flip(1))
    b.add_one_hot("hot", ["i"], "hot", one_hot_vector_size=4, axis=-1, on_value=2, off_value=-1)
    n.want("hot", F.one_hot(torch.tensor([2, 0]), 4) * 3.0 - 1)
    b.add_topk("top", ["x"], ["top", "top_at"], 2, -1, False)
    n.want("top", x.topk(2, -1).values)
    n.want("top_at", x.topk(2, -1).indices.float())
    b.add_argsort("sorted", "x", "sorted", axis=2, descending=True)
    n.want("sorted", x.argsort(2, descending=True).float())
    b.add_argmax("arg", "x", "arg", axis=1, keepdims=False)
    n.want("arg", x.argmax(1).float())
    for how, want in (("sum", x.sum((0, 2))), ("max", x.amax((0, 2))), ("logsumexp", x.logsumexp((0, 2))),
                      ("l2", x.norm(dim=(0, 2))), ("sumsquare", (x * x).sum((0, 2)))):
        getattr(b, "add_reduce_" + how)("reduce_" + how, "x", "reduce_" + how, axes=[0, 2], keepdims=False)
        n.want("reduce_" + how, want)
    gamma, beta = weights(5, 4), weights(6, 4)
    b.add_layer_normalization("norm", "x", "norm", [4], gamma, beta, eps=1e-4)
    n.want("norm", F.layer_norm(x, [4], t(gamma), t(beta), 1e-4))
    add("greater", "greater_than", (x > 0.25).float(), alpha=0.25)
    add("equal", "equal", (x == x).float(), inputs=("x", "x"))
    add("either", "logical", (x > 0.25).float(), mode="AND", inputs=("greater", "equal"))
    add("where", "where_broadcastable", torch.where(x > 0.25, x, torch.full_like(x, 1.5)), inputs=("greater", "x", "fill"))
    add("mod", "mod_broadcastable", x % 1.5, inputs=("x", "fill"))
    add("divide", "divide_broadcastable", x / 1.5, inputs=("x", "fill"))
    add("floor_div", "floor_div_broadcastable", torch.floor(x / 1.5), inputs=("x", "fill"))
    one("clip", "clip", x.clamp(-0.5, 1), min_value=-0.5, max_value=1)
    one("clamped", "clamped_relu", torch.minimum(torch.where(x >= 0, x, 0.5 * x), torch.tensor(1.25)), alpha=0.5, beta=1.25)
    one("gelu", "gelu", F.gelu(x, approximate="tanh"), mode="TANH_APPROXIMATION")
    for how, want in (("erf", torch.erf(x)), ("sinh", x.sinh()), ("atan", x.atan()), ("asinh", x.asinh()), ("sign", x.sign()),
                      ("floor", x.floor()), ("exp2", torch.exp2(x)), ("cos", x.cos())):
        one(how, how, want)
    table = weights(7, 6, 5)
    b.add_expand_dims("i_column", "i", "i_column", axes=[-1])
    b.add_embedding_nd("embedding", "i_column", "embedding", 6, 5, W=table.T.copy(), b=bias, is_quantized_weight=False)
    n.want("embedding", t(table)[[2, 0]] + t(bias))
    # ONNX's form of x.view(x.size(0), -1): there are no scalars, so the parts of the shape are [1, 1] and [1].
    b.add_get_shape("sizes", "x", "sizes")
    b.add_load_constant_nd("zero", "zero", np.zeros(1, np.float32), (1,))
    b.add_gather("size", ["sizes", "zero"], "size")
    b.add_expand_dims("size_row", "size", "size_row", axes=[0])
    b.add_load_constant_nd("rest", "rest", np.full(1, -1, np.float32), (1,))
    b.add_concat_nd("flat_shape", ["size_row", "rest"], "flat_shape", axis=0)
    b.add_reshape_dynamic("by_first", ["x", "flat_shape"], "by_first")
    n.want("by_first", x.reshape(x.shape[0], -1))
    n.save("arrays")


def functions():
    """Functions of one value, activations, quantized weights and a copy, in a network of the first versions with a vector
    input."""
    n = Network({"x": (6,)}, exact=False)
    b, x, t = n.builder, exact(values(1, 6, 1, 1)), exact
    for name, mode, params, want in (
            ("relu", "RELU", None, x.relu()), ("leaky", "LEAKYRELU", [0.2], F.leaky_relu(x, 0.2)), ("tanh", "TANH", None, x.tanh()),
            ("scaled", "SCALED_TANH", [1.5, 0.5], 1.5 * (0.5 * x).tanh()), ("sigmoid", "SIGMOID", None, x.sigmoid()),
            ("hard", "SIGMOID_HARD", [0.3, 0.4], (0.3 * x + 0.4).clamp(0, 1)), ("elu", "ELU", 0.7, F.elu(x, 0.7)),
            ("linear", "LINEAR", [2, 1], 2 * x + 1), ("threshold", "THRESHOLDEDRELU", 0.5, torch.where(x >= 0.5, x, 0.0)),
            ("sign", "SOFTSIGN", None, F.softsign(x)), ("plus", "SOFTPLUS", None, F.softplus(x)),
            ("prelu", "PRELU", weights(1, 6), torch.where(x >= 0, x, x * t(weights(1, 6)).reshape(1, 6, 1, 1))),
            ("plus_parts", "PARAMETRICSOFTPLUS", [weights(1, 6) + 1, weights(2, 6) + 1],
             t(weights(1, 6) + 1).reshape(1, 6, 1, 1) * F.softplus(x * t(weights(2, 6) + 1).reshape(1, 6, 1, 1)))):
        b.add_activation("act_" + name, mode, "x", "act_" + name, params)
        n.want("act_" + name, want)
    p = x * 0.25 + 0.75
    for name, how, want in (("root", "sqrt", p.sqrt()), ("rroot", "rsqrt", 1 / (p + 1e-3).sqrt()), ("inverse", "inverse", 1 / (p + 1e-3)),
                            ("power", "power", p**2.5), ("exp", "exp", p.exp()), ("log", "log", (p + 1e-3).log()), ("abs", "abs", p.abs()),
                            ("most", "threshold", p.clamp(min=2.5))):
        b.add_unary(name, "x", name, how, alpha=2.5, shift=0.75, scale=0.25, epsilon=1e-3)
        n.want(name, want)
    b.add_bias("bias", weights(3, 6), "x", "bias", [6])
    n.want("bias", x + t(weights(3, 6)).reshape(1, 6, 1, 1))
    b.add_scale("scale", weights(4, 6), weights(5, 1), True, "x", "scale", [6], [1])
    n.want("scale", x * t(weights(4, 6)).reshape(1, 6, 1, 1) + float(weights(5, 1)[0]))
    b.add_elementwise("sum", ["x", "bias", "scale"], "sum", "ADD")
    n.want("sum", x + n.wants["bias"] + n.wants["scale"])
    b.add_elementwise("average", ["x", "bias"], "average", "AVE")
    n.want("average", (x + n.wants["bias"]) / 2)
    b.add_elementwise("largest", ["x", "bias"], "largest", "MAX")
    n.want("largest", torch.maximum(x, n.wants["bias"]))
    b.add_elementwise("cosine", ["x", "bias"], "cosine", "COS")
    n.want("cosine", F.cosine_similarity(x, n.wants["bias"], 1).reshape(1, 1, 1, 1))
    b.add_elementwise("joined", ["x", "bias"], "joined", "CONCAT")
    n.want("joined", torch.cat([x, n.wants["bias"]], 1))
    b.add_reshape("reshape", "joined", "reshape", [3, 2, 2], 0)
    n.want("reshape", n.wants["joined"].reshape(1, 3, 2, 2))
    b.add_reshape("reshape_last", "reshape", "reshape_last", [2, 3, 2], 1)
    n.want("reshape_last", n.wants["reshape"].permute(0, 2, 3, 1).reshape(1, 3, 2, 2).permute(0, 3, 1, 2))
    b.add_permute("permute", [0, 3, 1, 2], "reshape", "permute")
    n.want("permute", n.wants["reshape"].permute(0, 3, 1, 2))
    b.add_flatten("flat", 1, "reshape", "flat")
    n.want("flat", n.wants["reshape"].permute(0, 2, 3, 1).reshape(1, 12, 1, 1))
    b.add_split("split", "joined", ["part_a", "part_b", "part_c"])
    for name, part in zip(("part_a", "part_b", "part_c"), n.wants["joined"].split(4, 1)):
        n.want(name, part)
    w = weights(6, 3, 6)
    for name, bits, how in (("half", 16, None), ("linear8", 8, "linear"), ("table3", 3, "table"), ("linear5", 5, "linear")):
        b.add_inner_product(name, w, None, 6, 3, False, "x", name)
        params = b.nn_spec.layers[-1].innerProduct.weights
        params.ClearField("floatValue")
        used = w
        if how is None:
            params.float16Value = w.astype(np.float16).tobytes()
        else:
            q = ((np.arange(18) * 7 + 3) % (1 << bits)).astype(np.uint8)
            every = np.unpackbits(q.reshape(-1, 1), axis=1)[:, 8 - bits:]
            params.rawValue = np.packbits(every.reshape(-1)).tobytes()
            params.quantization.numberOfBits = bits
            if how == "table":
                table = weights(7, 1 << bits)
                params.quantization.lookupTableQuantization.floatValue.extend([float(v) for v in table])
                used = table[q].reshape(3, 6)
            else:
                scale, bias = weights(8, 3), weights(9, 3)
                params.quantization.linearQuantization.scale.extend([float(v) for v in scale])
                params.quantization.linearQuantization.bias.extend([float(v) for v in bias])
                used = (q.reshape(3, 6) * scale[:, None] + bias[:, None]).astype(np.float32)
        n.want(name, t(used) @ x.reshape(6))
    n.save("functions")


def sequences():
    """Recurrent layers: a sequence of batches from an embedding."""
    n = Network({"x": (5, 1, 3, 1, 1)})
    b, x, t = n.builder, exact(values(5, 1, 3)), exact
    h = 2

    def w(seed, gates, columns):
        return [weights(seed + i, h, columns) for i in range(gates)]

    def lstm(seed):
        return w(seed, 4, h), w(seed + 4, 4, 3), [weights(seed + 8 + i, h) for i in range(4)], [weights(seed + 12 + i, h) for i in range(3)]

    def steps(state_h, state_c, rh, rx, bias, peep, order):
        """The builder's gates are i, f, o, z."""
        out = []
        for k in order:
            v = x[k, 0]
            gate = [t(rx[i]) @ v + t(rh[i]) @ state_h + t(bias[i]) for i in range(4)]
            i = torch.sigmoid(gate[0] + t(peep[0]) * state_c)
            f = torch.sigmoid(gate[1] + t(peep[1]) * state_c)
            state_c = state_c * f + i * torch.tanh(gate[3])
            o = torch.sigmoid(gate[2] + t(peep[2]) * state_c)
            state_h = torch.tanh(state_c) * o
            out.append(state_h)
        return torch.stack(out), state_h, state_c

    zero = torch.zeros(h, dtype=torch.float64)
    rh, rx, bias, peep = lstm(1)
    b.add_unilstm("lstm", rh, rx, bias, h, 3, ["x"], ["lstm", "lstm_h", "lstm_c"], peep=peep, output_all=True)
    y, last, cell = steps(zero, zero, rh, rx, bias, peep, range(5))
    n.want("lstm", y), n.want("lstm_h", last), n.want("lstm_c", cell)
    other = lstm(20)
    b.add_bidirlstm("both", rh, rx, bias, other[0], other[1], other[2], h, 3, ["x"],
                        ["both", "both_h", "both_c", "both_hr", "both_cr"], peep=peep, peep_back=other[3], output_all=True)
    back, last_back, cell_back = steps(zero, zero, *other, range(4, -1, -1))
    n.want("both", torch.cat([y, back.flip(0)], 1)), n.want("both_h", last), n.want("both_c", cell)
    n.want("both_hr", last_back), n.want("both_cr", cell_back)

    rh, rx, bias = w(3, 3, h), w(7, 3, 3), [weights(11 + i, h) for i in range(3)]
    b.add_gru("gru", rh, rx, bias, h, 3, ["x"], ["gru", "gru_h"], inner_activation="SIGMOID", output_all=True)
    state, out = zero, []
    for k in range(5):
        z = torch.sigmoid(t(rx[0]) @ x[k, 0] + t(rh[0]) @ state + t(bias[0]))
        r = torch.sigmoid(t(rx[1]) @ x[k, 0] + t(rh[1]) @ state + t(bias[1]))
        o = torch.tanh(t(rx[2]) @ x[k, 0] + t(rh[2]) @ (r * state) + t(bias[2]))
        state = (1 - z) * o + z * state
        out.append(state)
    n.want("gru", torch.stack(out)), n.want("gru_h", state)

    rh, rx, bias = weights(5, h, h), weights(6, h, 3), weights(7, h)
    b.add_simple_rnn("rnn", rh, rx, bias, h, 3, "TANH", ["x"], ["rnn", "rnn_h"], reverse_input=True)
    state = zero
    for k in range(4, -1, -1):
        state = torch.tanh(t(rx) @ x[k, 0] + t(rh) @ state + t(bias))
    n.want("rnn", state), n.want("rnn_h", state)
    b.add_sequence_repeat("repeat", 2, "x", "repeat")
    n.want("repeat", x.repeat(2, 1, 1))
    n.save("sequences")


def control():
    """A loop that doubles until a sum is reached, a loop with three iterations, and a branch."""
    n = Network({"x": (4,)})
    b, x = n.builder, exact(values(4)).abs() + 1
    b.add_unary("positive", "x", "a", "abs")
    b.add_elementwise("one more", ["a"], "v0", "ADD", alpha=1)
    b.add_copy("begin", "v0", "v")
    b.add_copy("begin w", "v0", "w")
    loop = b.add_loop("grow", condition="small")
    test = NeuralNetworkBuilder(nn_spec=loop.loop.conditionNetwork)
    test.add_reduce_sum("sum", "v", "total", axes=[0], keepdims=True)
    test.add_less_than("test", ["total"], "small", alpha=100)
    body = NeuralNetworkBuilder(nn_spec=loop.loop.bodyNetwork)
    body.add_elementwise("twice", ["v"], "v2", "MULTIPLY", alpha=2)
    body.add_copy("again", "v2", "v")
    turns = b.add_loop("turns", max_iterations=3)
    body = NeuralNetworkBuilder(nn_spec=turns.loop.bodyNetwork)
    body.add_elementwise("more", ["w"], "w2", "ADD", alpha=0.5)
    body.add_copy("again", "w2", "w")
    b.add_reduce_max("largest", "w", "largest", axes=[0], keepdims=True)
    b.add_greater_than("large", ["largest"], "is_large", alpha=3)
    branch = b.add_branch("choose", "is_large")
    for net, alpha in ((branch.branch.ifBranch, 10), (branch.branch.elseBranch, 20)):
        side = NeuralNetworkBuilder(nn_spec=net)
        side.add_elementwise("side", ["w"], "y", "MULTIPLY", alpha=alpha)
    b.add_elementwise("end v", ["v"], "grown", "ADD", alpha=0)
    b.add_elementwise("end y", ["y"], "chosen", "ADD", alpha=0)
    # The form in which TensorFlow's lists are rebuilt if an element has another shape: the condition is known, and the side not taken
    # has a shape that is not.
    b.add_copy("keep", "v0", "kept")
    b.add_get_shape("length", "x", "length")
    b.add_not_equal("other", ["length"], "is_other", alpha=4)
    again = b.add_branch("make again", "is_other")
    side = NeuralNetworkBuilder(nn_spec=again.branch.ifBranch)
    side.add_concat_nd("new shape", ["length", "largest"], "new_shape", axis=0)
    side.add_fill_dynamic("fill", "new_shape", "filled", value=9)
    side.add_copy("replace", "filled", "kept")
    b.add_elementwise("end kept", ["kept"], "as_it_was", "ADD", alpha=0)
    n.want("as_it_was", x)
    grown = x.clone()
    while grown.sum() < 100:
        grown = grown * 2
    n.want("grown", grown)
    n.want("chosen", (x + 1.5) * (10 if (x + 1.5).max() > 3 else 20))
    n.save("control")


def breaks():
    """Loops that a break ends, or whose iterations a continue ends: in a branch, on its other side, two branches deep, in a
    loop inside a loop, and without a condition."""
    n = Network({"x": (4,)})
    b, x = n.builder, exact(values(4)).abs() + 1
    inside = lambda net: NeuralNetworkBuilder(nn_spec=net)  # noqa: E731

    def more(net, name, amount, mode="ADD"):
        """Adds to a value that the loop carries."""
        net.add_elementwise(f"{name} {mode} {amount}", [name], f"{name}_{mode}", mode, alpha=amount)
        net.add_copy(f"{name} keeps {amount}", f"{name}_{mode}", name)

    def above(net, name, limit):
        """Returns the two sides of a branch that asks whether a value is above a limit."""
        net.add_greater_than(f"{name} above {limit}", [name], f"{name}_above", alpha=limit)
        side = net.add_branch(f"branch {name} {limit}", f"{name}_above").branch
        return inside(side.ifBranch), inside(side.elseBranch)

    b.add_unary("positive", "x", "a", "abs")
    b.add_elementwise("one more", ["a"], "v", "ADD", alpha=1)
    for name in "gtkscmoyzu":
        b.add_load_constant_nd(f"begin {name}", name, np.zeros(1, np.float32), [1])

    body = inside(b.add_loop("grow", max_iterations=50).loop.bodyNetwork)  # v doubles, t counts, g misses the last
    more(body, "v", 2, "MULTIPLY")
    more(body, "t", 1)
    body.add_reduce_sum("sum", "v", "sum", axes=[0], keepdims=True)
    above(body, "sum", 100)[0].add_loop_break("enough")
    more(body, "g", 1)
    n.want("v", x * 16), n.want("t", [4]), n.want("g", [3])

    body = inside(b.add_loop("some", max_iterations=6).loop.bodyNetwork)  # s adds 1 to 3 only
    more(body, "k", 1)
    above(body, "k", 3)[0].add_loop_continue("not this one")
    body.add_elementwise("s + k", ["s", "k"], "s_k", "ADD")
    body.add_copy("s keeps", "s_k", "s")
    n.want("k", [6]), n.want("s", [6])

    body = inside(b.add_loop("outer", max_iterations=4).loop.bodyNetwork)  # c counts inner turns: 3 in each of 4
    body.add_load_constant_nd("zero m", "m", np.zeros(1, np.float32), [1])
    inner = inside(body.add_loop("inner", max_iterations=9).loop.bodyNetwork)
    more(inner, "c", 1)
    more(inner, "m", 1)
    large, small = above(inner, "m", 2)
    more(small, "o", 1)
    large.add_loop_break("leave the inner one")
    more(body, "o", 10)
    n.want("c", [12]), n.want("o", [48])

    body = inside(b.add_loop("deep", max_iterations=9).loop.bodyNetwork)
    more(body, "y", 1)
    large, small = above(body, "y", 2)
    more(large, "z", 1)
    above(large, "y", 4)[0].add_loop_break("two deep")
    more(large, "z", 100)
    small.add_loop_continue("the other side")
    more(body, "z", 1000)
    n.want("y", [5]), n.want("z", [2203])

    body = inside(b.add_loop("once", max_iterations=9).loop.bodyNetwork)
    more(body, "u", 1)
    body.add_loop_break("always")
    more(body, "u", 2)
    n.want("u", [1])
    n.save("breaks")


def computed():
    """Shapes that depend on values: ranges, fills, reshapes, slices, repetitions, and nonzero elements."""
    n = Network({"x": (2, 3)})
    b, x = n.builder, values(2, 3)
    b.add_unary("size", "x", "size", "abs")
    b.add_reduce_max("largest", "size", "largest", axes=[0, 1], keepdims=False)
    b.add_ceil("end", "largest", "end")
    end = float(np.ceil(np.abs(x).max()))  # 2
    count = np.arange(end, dtype=np.float32)
    b.add_range_dynamic("range", ["end"], "range")
    n.want("range", count)
    b.add_load_constant_nd("start", "start", np.array([-1], np.float32), [1])
    b.add_load_constant_nd("step", "step", np.array([0.75], np.float32), [1])
    b.add_range_dynamic("steps", ["end", "start", "step"], "steps")
    n.want("steps", np.arange(-1, end, 0.75, dtype=np.float32))
    b.add_expand_dims("column", "range", "column", [1])
    b.add_add_broadcastable("added", ["x", "column"], "added")
    b.add_softmax_nd("softmax", "added", "softmax", axis=-1)
    n.want("softmax", exact(x + count[:, None]).softmax(-1))
    b.add_concat_nd("twice", ["range", "range"], "twice", axis=0)
    b.add_reshape_static("square", "twice", "square", output_shape=[2, -1])
    n.want("square", np.stack([count, count]))
    b.add_load_constant_nd("one", "one", np.array([1], np.float32), [1])
    b.add_elementwise("three", ["end"], "three", "ADD", alpha=1)
    b.add_concat_nd("shape", ["three", "end"], "shape", axis=0)
    b.add_fill_dynamic("fill", "shape", "fill", value=2.5)
    n.want("fill", np.full((3, 2), 2.5))
    b.add_reshape_dynamic("reshape", ["x", "shape"], "reshape")
    n.want("reshape", x.reshape(3, 2))
    b.add_concat_nd("times", ["end", "one"], "times", axis=0)
    b.add_tile("tile", ["x", "times"], "tile")
    n.want("tile", np.tile(x, (2, 1)))
    b.add_tile("tile fewer", ["x", "end"], "tile_fewer")
    n.want("tile_fewer", np.tile(x, 2))
    b.add_load_constant_nd("zero", "zero", np.array([0], np.float32), [1])
    b.add_concat_nd("from", ["zero", "one"], "from", axis=0)
    b.add_concat_nd("to", ["end", "three"], "to", axis=0)
    b.add_slice_dynamic("slice", ["x", "from", "to"], "slice", strides=[1, 1], begin_masks=[False] * 2, end_masks=[False] * 2)
    n.want("slice", x[:, 1:])
    b.add_elementwise("at", ["end"], "at", "ADD", alpha=-1)
    b.add_slice_by_size("window", ["x", "at"], "window", axis=1, size=2)
    n.want("window", x[:, 1:3])
    b.add_concat_nd("wide", ["end", "end", "three"], "wide", axis=0)
    b.add_broadcast_to_dynamic("broadcast", ["x", "wide"], "broadcast")
    n.want("broadcast", np.broadcast_to(x, (2, 2, 3)))
    b.add_expand_dims("more dims", "fill", "more_dims", [0, 2])
    b.add_squeeze("fewer dims", "more_dims", "fewer_dims", axes=[0, 2])
    n.want("fewer_dims", np.full((3, 2), 2.5))
    b.add_load_constant_nd("row", "row", np.array([[7, 8]], np.float32), [1, 2])
    b.add_scatter("scatter", ["fill", "one", "row"], "scatter", axis=0, mode="UPDATE")
    n.want("scatter", [[2.5, 2.5], [7, 8], [2.5, 2.5]])
    b.add_topk("top", ["x", "end"], ["top", "top_at"], k=0, axis=1)
    n.want("top", exact(x).topk(2, 1)[0])
    b.add_activation("relu", "RELU", "x", "relu")
    b.add_where_nonzero("places", "relu", "places")
    b.add_gather_nd("positive", ["x", "places"], "positive")
    n.want("positive", x[x > 0])
    n.save("computed")


def image_classifier():
    """An image classifier with scale and bias, whose colours are BGR."""
    builder = NeuralNetworkBuilder([("image 1", datatypes.Array(3, 4, 6))], [("probabilities", datatypes.Array(3))],
                                   mode="classifier", disable_rank5_shape_mapping=False)
    w, bias = weights(1, 3, 3, 4, 6), weights(2, 3)
    builder.add_convolution("conv", 3, 3, 4, 6, 1, 1, "valid", 1, w.transpose(2, 3, 1, 0), bias, True, input_name="image 1",
                            output_name="conv")
    builder.add_softmax("softmax", "conv", "probabilities")
    builder.set_pre_processing_parameters(image_input_names=["image 1"], is_bgr=True, blue_bias=-0.5, green_bias=0.25, red_bias=0.125,
                                          image_scale=0.25)
    builder.set_class_labels(["ant", "bee", "cat"], "classLabel", "probabilities")
    x = values(1, 3, 4, 6) * np.float32(0.25) + np.array([-0.5, 0.25, 0.125], np.float32).reshape(1, 3, 1, 1)
    p = F.conv2d(exact(x), exact(w), exact(bias)).reshape(3).softmax(0)
    best = int(p.argmax())
    save(builder.spec, "image_classifier", {"classLabel": np.array([["ant", "bee", "cat"][best], "%.7g" % float(p[best])])})


def feature(description, kind, name, **type_of):
    f = getattr(description, kind).add()
    f.name = name
    if "array" in type_of:
        f.type.multiArrayType.shape.extend(type_of["array"])
        f.type.multiArrayType.dataType = ct.proto.FeatureTypes_pb2.ArrayFeatureType.DOUBLE
    else:
        getattr(f.type, type_of["scalar"]).SetInParent()


def part(pipeline, inputs, outputs, version=1):
    model = pipeline.models.add()
    model.specificationVersion = version
    for kind, features in (("input", inputs), ("output", outputs)):
        for name, how in features.items():
            feature(model.description, kind, name, **({"array": how} if isinstance(how, list) else {"scalar": how}))
    return model


def tables():
    """Numbers in columns, scaled, followed by a linear model."""
    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    for name in ("room count", "area"):
        feature(spec.description, "input", name, scalar="doubleType")
    feature(spec.description, "input", "place", array=[3])
    feature(spec.description, "output", "price", scalar="doubleType")
    spec.description.predictedFeatureName = "price"
    pipeline = spec.pipelineRegressor.pipeline
    m = part(pipeline, {"room count": "doubleType"}, {"filled": "doubleType"})
    m.imputer.imputedDoubleValue, m.imputer.replaceDoubleValue = 2.5, (11 - 32) / 16
    m = part(pipeline, {"filled": "doubleType", "area": "doubleType", "place": [3]}, {"__v__": [5]})
    for name, n in (("area", 1), ("place", 3), ("filled", 1)):
        m.featureVectorizer.inputList.add(inputColumn=name, inputDimensions=n)
    m = part(pipeline, {"__v__": [5]}, {"scaled": [5]})
    m.scaler.shiftValue.extend([1, 2, 3, 4, 5])
    m.scaler.scaleValue.append(0.5)
    m = part(pipeline, {"scaled": [5]}, {"unit": [5]})
    m.normalizer.normType = 2
    m = part(pipeline, {"unit": [5]}, {"price": "doubleType"})
    m.glmRegressor.weights.add(value=[1, -2, 3, -4, 5])
    m.glmRegressor.offset.append(0.25)
    x = np.concatenate([values(1), values(3), [2.5]])
    x = (x + [1, 2, 3, 4, 5]) * 0.5
    save(spec, "tables", {"price": [x / np.linalg.norm(x) @ [1, -2, 3, -4, 5] + 0.25]})

    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    feature(spec.description, "input", "three (cm)", array=[3])
    classes = {"the class": "stringType", "odds of it": "dictionaryType"}
    for name, how in classes.items():
        feature(spec.description, "output", name, scalar=how)
    spec.description.output[1].type.dictionaryType.stringKeyType.SetInParent()
    spec.description.predictedFeatureName, spec.description.predictedProbabilitiesName = classes
    pipeline = spec.pipelineClassifier.pipeline
    m = part(pipeline, {"three (cm)": [3]}, {"less one": [3]})
    m.scaler.shiftValue.append(-1)
    m = part(pipeline, {"less one": [3]}, {"filled": [3]})
    m.imputer.imputedInt64Array.vector.extend([7, 8, 9])
    m.imputer.replaceInt64Value = 0
    m = part(pipeline, {"filled": [3]}, classes)
    m.description.output[1].type.dictionaryType.stringKeyType.SetInParent()
    m.description.predictedFeatureName, m.description.predictedProbabilitiesName = classes
    m.glmClassifier.weights.add(value=[0.25, 0.125, -0.5])
    m.glmClassifier.offset.append(-0.75)
    m.glmClassifier.stringClassLabels.vector.extend(["no", "yes"])
    x = values(3) - 1
    assert x[1] == 0
    p = 1 / (1 + np.exp(0.75 - np.array([x[0], 8, x[2]]) @ [0.25, 0.125, -0.5]))
    save(spec, "columns", {"the_class": np.array([["no", "yes"][int(p > 0.5)], "%.7g" % max(p, 1 - p)])})

    for encoding in (0, 1):
        spec = ct.proto.Model_pb2.Model(specificationVersion=1)
        feature(spec.description, "input", "x", array=[4])
        feature(spec.description, "output", "label", scalar="stringType")
        feature(spec.description, "output", "p", scalar="dictionaryType")
        spec.description.output[1].type.dictionaryType.stringKeyType.SetInParent()
        spec.description.predictedFeatureName, spec.description.predictedProbabilitiesName = "label", "p"
        rows = 3 if encoding else 2
        w = weights(encoding, rows, 4)
        for row in w:
            spec.glmClassifier.weights.add(value=[float(v) for v in row])
        spec.glmClassifier.offset.extend([0.5, -0.25, 0.125][:rows])
        spec.glmClassifier.classEncoding = encoding
        spec.glmClassifier.stringClassLabels.vector.extend(["red", "green", "blue"])
        score = w @ values(4) + np.array([0.5, -0.25, 0.125][:rows])
        p = 1 / (1 + np.exp(-score)) if encoding else np.exp(np.append(0, score))
        save(spec, "linear_one_vs_rest" if encoding else "linear_reference",
             {"label": np.array([["red", "green", "blue"][int(p.argmax())], "%.7g" % (p.max() / p.sum())])})


def categories():
    """Text and a dictionary, which the program takes as arrays, then a linear model; a text mapped to numbers."""
    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    places, words = ["old town", "harbour", "Zürich"], ["pool", "garden", "two\nlines", "7", ""]
    feature(spec.description, "input", "place of it", scalar="stringType")
    feature(spec.description, "input", "words", scalar="dictionaryType")
    spec.description.input[1].type.dictionaryType.stringKeyType.SetInParent()
    feature(spec.description, "input", "area", scalar="doubleType")
    feature(spec.description, "output", "price", scalar="doubleType")
    spec.description.predictedFeatureName = "price"
    pipeline = spec.pipelineRegressor.pipeline
    m = part(pipeline, {"place of it": "stringType"}, {"place of it": "dictionaryType"})
    m.description.output[0].type.dictionaryType.int64KeyType.SetInParent()
    m.oneHotEncoder.stringCategories.vector.extend(places)
    m.oneHotEncoder.outputSparse = True
    m = part(pipeline, {"words": "dictionaryType"}, {"counts": "dictionaryType"})
    m.description.input[0].type.dictionaryType.stringKeyType.SetInParent()
    m.description.output[0].type.dictionaryType.int64KeyType.SetInParent()
    m.dictVectorizer.stringToIndex.vector.extend(words)
    m = part(pipeline, {"place of it": "dictionaryType", "counts": "dictionaryType", "area": "doubleType"}, {"__v__": [9]})
    for i, (name, n) in enumerate((("counts", 5), ("area", 1), ("place of it", 3))):
        m.featureVectorizer.inputList.add(inputColumn=name, inputDimensions=n)
        if i < 2:
            m.description.input[i].type.dictionaryType.int64KeyType.SetInParent()
    m = part(pipeline, {"__v__": [9]}, {"price": "doubleType"})
    m.glmRegressor.weights.add(value=range(1, 10))
    m.glmRegressor.offset.append(0.25)
    x = np.concatenate([values(5), values(1), values(3)])
    save(spec, "categories", {"price": [x @ np.arange(1, 10) + 0.25]})

    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    feature(spec.description, "input", "colour", scalar="stringType")
    feature(spec.description, "output", "code", scalar="int64Type")
    for name, code in (("red", 3), ("green", -2), ("blue", 40)):
        spec.categoricalMapping.stringToInt64Map.map[name] = code
    spec.categoricalMapping.int64Value = 7
    codes = [spec.categoricalMapping.stringToInt64Map.map[k] - 7 for k in ("blue", "green", "red")]
    save(spec, "mapping", {"code": [values(3) @ codes + 7]})


COMPARE = [lambda x, t: x <= t, lambda x, t: x < t, lambda x, t: x >= t, lambda x, t: x > t, lambda x, t: x == t, lambda x, t: x != t]


def grow(trees, x, count, dimensions, numbers):
    """Trees of random nodes, with thresholds at, above and below the input's values; returns their results for x and for
    missing values."""
    got, missed = np.zeros(dimensions), np.zeros(dimensions)
    for tree in range(count):
        nodes, waiting = {}, [(7, 0)]  # ids need not begin at 0
        while waiting:
            node, level = waiting.pop()
            leaf = level == 4 or (level > 1 and numbers.random() < 0.2)
            nodes[node] = None if leaf else [int(numbers.integers(6)), int(numbers.integers(x.size)), 0.0, 2 * node, 2 * node + 1,
                                             bool(numbers.integers(2))]
            if not leaf:
                near = float(x[nodes[node][1]])
                nodes[node][2] = near + float(numbers.choice([0, 0, 1e-9, -1e-9, 0.1, -0.1]))
                waiting += [(2 * node, level + 1), (2 * node + 1, level + 1)]
        for node, what in sorted(nodes.items(), key=lambda n: -n[0]):
            new = trees.nodes.add(treeId=tree, nodeId=node, nodeBehavior=what[0] if what else 6)
            if what:
                new.branchFeatureIndex, new.branchFeatureValue, new.trueChildNodeId, new.falseChildNodeId = what[1:5]
                new.missingValueTracksTrueChild = what[5]
                continue
            for k in range(dimensions):
                new.evaluationInfo.add(evaluationIndex=k, evaluationValue=float(numbers.integers(-8, 9)) / 8)
        for total, missing in ((got, False), (missed, True)):
            at = 7
            while nodes[at]:
                way, index, threshold, yes, no, tracks = nodes[at]
                at = yes if (tracks if missing else COMPARE[way](float(x[index]), threshold)) else no
            leaf = next(n for n in trees.nodes if n.treeId == tree and n.nodeId == at)
            total += [v.evaluationValue for v in leaf.evaluationInfo]
    trees.numPredictionDimensions = dimensions
    trees.basePredictionValue.extend([0.5 + k for k in range(dimensions)])
    return got + trees.basePredictionValue, missed + trees.basePredictionValue


def trees():
    """A tree regressor after a scaler whose result has the name of its input, and a classifier."""
    numbers = np.random.default_rng(5)
    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    feature(spec.description, "input", "x", array=[6])
    feature(spec.description, "output", "y", scalar="doubleType")
    spec.description.predictedFeatureName = "y"
    m = part(spec.pipelineRegressor.pipeline, {"x": [6]}, {"x": [6]})
    m.scaler.shiftValue.extend([1, 2, 3, 4, 5, 6])
    m.scaler.scaleValue.append(0.5)
    m = part(spec.pipelineRegressor.pipeline, {"x": [6]}, {"y": "doubleType"})
    x = (values(6) + np.arange(1, 7, dtype=np.float32)) * np.float32(0.5)
    y, missed = grow(m.treeEnsembleRegressor.treeEnsemble, x, 30, 1, numbers)
    spec.description.metadata.userDefined["missing.y"] = "%.7g" % missed[0]
    save(spec, "trees", {"y": y})

    spec = ct.proto.Model_pb2.Model(specificationVersion=1)
    feature(spec.description, "input", "x", array=[6])
    feature(spec.description, "output", "label", scalar="stringType")
    feature(spec.description, "output", "p", scalar="dictionaryType")
    spec.description.output[1].type.dictionaryType.stringKeyType.SetInParent()
    spec.description.predictedFeatureName, spec.description.predictedProbabilitiesName = "label", "p"
    y, _ = grow(spec.treeEnsembleClassifier.treeEnsemble, values(6), 12, 3, numbers)
    spec.treeEnsembleClassifier.postEvaluationTransform = 1
    spec.treeEnsembleClassifier.stringClassLabels.vector.extend(["red", "green", "blue"])
    p = np.exp(y - y.max())
    save(spec, "tree_classifier", {"label": np.array([["red", "green", "blue"][int(p.argmax())], "%.7g" % (p.max() / p.sum())])})


if __name__ == "__main__":
    for make in (images, arrays, functions, sequences, control, breaks, computed, image_classifier, tables, categories, trees):
        make()
