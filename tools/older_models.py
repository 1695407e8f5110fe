#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the models of Core ML's older kinds in tests/mil/older with coremltools, and in each what it must give.

python3 tools/older_models.py [FOLDER] needs coremltools, NumPy and PyTorch. Every input is a formula that tests/mil/test_older.c
has too: element i of an input is ((37 i + 11) mod 64 - 32) / 16. What an output must be is computed here, by PyTorch or NumPy,
and is in the model's metadata as "want.NAME": the number of elements, the sum of (i mod 7 + 1) * element i, and 16 elements,
element k * count / 16 for each k (all of 16 or fewer). A label has its probability with it.
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
    """What every input holds."""
    i = np.arange(int(np.prod(shape)), dtype=np.int64)
    return (((37 * i + 11) % 64 - 32) / 16).astype(np.float32).reshape(shape)


def weights(seed, *shape):
    """Other numbers, which are exact in fp16."""
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
    """One input, many layers, each of them an output."""

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
    return torch.from_numpy(x) @ torch.from_numpy(w).T + torch.from_numpy(b)


def images():
    """Layers of images, in a network of the first versions: an input [C, H, W]."""
    n = Network({"x": (4, 6, 8)}, exact=False)
    b, x = n.builder, torch.from_numpy(values(1, 4, 6, 8))
    t = torch.from_numpy

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
    """Twice as many points: the layer's own grid, spacing (Xin - Xin / Xout) / (Xout - 1)."""
    spacing = (size - size / count) / (count - 1)
    return [min(size - 1, i * spacing) * 2 for i in range(count)]


def sampled(x, rows, columns):
    """Bilinear, at the points of a grid."""
    def along(a, points, axis):
        low = [int(np.floor(p)) for p in points]
        high = [min(i + 1, a.shape[axis] - 1) for i in low]
        f = torch.tensor([p - i for p, i in zip(points, low)], dtype=torch.float32)
        f = f.reshape([-1] + [1] * (a.ndim - 1 - axis))
        return a.index_select(axis, torch.tensor(low)) * (1 - f) + a.index_select(axis, torch.tensor(high)) * f
    return along(along(x, rows, 2), columns, 3)


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
    """Numbers in columns, scaled, and a linear model of them."""
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


if __name__ == "__main__":
    tables()
    images()
