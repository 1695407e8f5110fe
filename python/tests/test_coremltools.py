# SPDX-License-Identifier: MIT
"""coremltools' predict() through Propane, used as in its own documentation, on any machine."""
import os
import sys
import warnings

import numpy as np
import pytest
from conftest import refused, unary

import propane_ml as propane
import propane_ml.coremltools as bridge

bridge_ct = pytest.importorskip("coremltools")


@pytest.fixture(autouse=True)
def ct():
    with bridge.enabled():
        yield bridge_ct


def spec(ct, *shape, dtype=None):
    from coremltools.converters.mil.mil import types
    return ct.converters.mil.Builder.TensorSpec(shape=shape, dtype=getattr(types, dtype or "fp32"))


def relu(ct):
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[spec(ct, 2, 3)], opset_version=ct.target.iOS17)
    def program(x):
        return mb.relu(x=x, name="y")
    return ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17)


def test_predict_batches_and_kinds_of_arrays(ct):
    model, x = relu(ct), np.array([[1, -2, 3], [-4, 5, -6]])
    for given in (x, x.astype(np.float16), x.astype(np.float64), x.tolist()):
        np.testing.assert_array_equal(model.predict({"x": given})["y"], np.maximum(x, 0))
    many = model.predict([{"x": x}, {"x": -x}])
    np.testing.assert_array_equal(many[1]["y"], np.maximum(-x, 0))
    assert many[0]["y"].dtype == np.float32 and model.last_predict_duration_in_nano_seconds > 0
    assert model.load_duration_in_nano_seconds > 0
    with pytest.raises(KeyError, match="does not match any of the model input"):
        model.predict({"z": x})
    with refused("invalid", "shape"):
        model.predict({"x": np.zeros((3, 3))})


def test_compiled_models_and_assets(ct, tmp_path):
    model, x = relu(ct), np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    path = str(tmp_path / "m.mlpackage")
    model.save(path)
    compiled = ct.models.utils.compile_model(path, str(tmp_path / "m.mlmodelc"))
    for one in (ct.models.CompiledMLModel(compiled), ct.models.MLModel(path),
                ct.models.CompiledMLModel(model.get_compiled_model_path(), ct.ComputeUnit.CPU_ONLY)):
        np.testing.assert_array_equal(one.predict({"x": x.copy()})["y"], np.maximum(x, 0))
    data = os.path.join(path, "Data", "com.apple.CoreML")
    with open(os.path.join(data, "model.mlmodel"), "rb") as file:
        asset = ct.models.model.MLModelAsset.from_memory(file.read(), {})
    loaded = ct.models.CompiledMLModel.from_asset(asset)
    np.testing.assert_array_equal(loaded.predict({"x": x})["y"], np.maximum(x, 0))


def test_states(ct):
    from coremltools.converters.mil.mil import types
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[mb.TensorSpec(shape=(2,), dtype=types.fp16), mb.StateTensorSpec(shape=(2,), dtype=types.fp16)],
                opset_version=ct.target.iOS18)
    def program(x, s):
        return mb.identity(x=mb.coreml_update_state(state=s, value=mb.add(x=mb.read_state(input=s), y=x)), name="y")
    model = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18)
    one, two = model.make_state(), model.make_state()
    assert [model.predict({"x": np.ones(2)}, s)["y"][0] for s in (one, one, two, one)] == [1, 2, 1, 3]
    two.write_state("s", np.array([5.0, 6]))
    assert model.predict({"x": np.ones(2)}, two)["y"].tolist() == [6, 7] == two.read_state("s").tolist()
    with pytest.raises(RuntimeError, match="must be an MLState"):
        model.predict({"x": np.ones(2)})
    with pytest.raises(RuntimeError, match="no state 'z'"):
        one.read_state("z")


def test_functions(ct, tmp_path):
    paths = []
    for name in ("relu", "square"):
        mb = ct.converters.mil.Builder

        @mb.program(input_specs=[spec(ct, 3)], opset_version=ct.target.iOS18)
        def program(x):
            return getattr(mb, name)(x=x, name="y")
        paths.append(str(tmp_path / f"{name}.mlpackage"))
        ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS18).save(paths[-1])
    both = ct.utils.MultiFunctionDescriptor()
    for path, name in zip(paths, ("first", "second")):
        both.add_function(path, src_function_name="main", target_function_name=name)
    both.default_function_name = "second"
    ct.utils.save_multifunction(both, str(tmp_path / "both.mlpackage"))
    x = np.array([-1, 2, 3], np.float32)
    for name, want in (("first", [0, 2, 3]), ("second", [1, 4, 9]), (None, [1, 4, 9])):
        model = ct.models.MLModel(str(tmp_path / "both.mlpackage"), function_name=name)
        assert model.predict({"x": x})["y"].tolist() == want


def test_results_that_are_inputs_keep_their_names(ct):
    torch = pytest.importorskip("torch")

    class Same(torch.nn.Module):
        def forward(self, x):
            return torch.broadcast_tensors(x)
    model = ct.convert(torch.jit.trace(Same(), torch.rand(2, 3)), inputs=[ct.TensorType(name="x", shape=(2, 3))],
                       convert_to="mlprogram", minimum_deployment_target=ct.target.iOS16)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = model.predict({"x": x})
    assert list(made) == [f.name for f in model.get_spec().description.output]
    np.testing.assert_array_equal(next(iter(made.values())), x)


def test_an_input_that_is_twice_an_output_has_its_name(ct):
    @ct.converters.mil.Builder.program(input_specs=[spec(ct, 2, 2)])
    def program(x):
        return x, x
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    made = ct.convert(program, convert_to="mlprogram").predict({"x": x})
    assert list(made) == ["x"]
    np.testing.assert_array_equal(made["x"], x)


def test_shapes_that_a_file_does_not_allow(ct):
    torch = pytest.importorskip("torch")
    traced = torch.jit.trace(torch.nn.ReLU(), torch.rand(1, 3))
    for shape, given, sentence in (
            (ct.Shape((1, ct.RangeDim(2, 5, 3))), (1, 9), r"Size \(9\) of dimension \(1\) is not in allowed range \(2\.\.5\)"),
            (ct.EnumeratedShapes([(1, 3), (1, 4)]), (1, 5), r"MultiArray Shape \(1 x 5\) was not in enumerated set")):
        model = ct.convert(traced, inputs=[ct.TensorType(name="x", shape=shape)], convert_to="mlprogram",
                           minimum_deployment_target=ct.target.iOS16)
        with refused("invalid", sentence):
            model.predict({"x": np.zeros(given)})
        assert next(iter(model.predict({"x": np.ones((1, 4))}).values())).shape == (1, 4)


def test_classifiers_and_pictures(ct):
    from PIL import Image
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x.mean((2, 3)), 1)
    traced = torch.jit.trace(Net().eval(), torch.rand(1, 3, 4, 5))
    model = ct.convert(traced, inputs=[ct.ImageType(name="image", shape=(1, 3, 4, 5), scale=1 / 255.0)],
                       classifier_config=ct.ClassifierConfig(["red", "green", "blue"]), convert_to="mlprogram",
                       minimum_deployment_target=ct.target.iOS16)
    made = model.predict({"image": Image.new("RGB", (5, 4), (10, 200, 30))})
    assert made["classLabel"] == "green"
    scores = next(v for v in made.values() if isinstance(v, dict))
    assert set(scores) == {"red", "green", "blue"} and max(scores, key=scores.get) == "green"

    class Swap(torch.nn.Module):
        def forward(self, x):
            return 255 - x
    for layout, mode, colour, want in (("RGB", "RGB", (10, 200, 30), (245, 55, 225, 255)),
                                       ("BGR", "RGB", (10, 200, 30), (245, 55, 225, 255)), ("GRAYSCALE", "L", 10, 245),
                                       ("GRAYSCALE_FLOAT16", "F", 10.5, 244.5)):
        shape = (1, 1 if mode != "RGB" else 3, 4, 5)
        kind = getattr(ct.colorlayout, layout)
        traced = torch.jit.trace(Swap().eval(), torch.rand(shape))
        model = ct.convert(traced, inputs=[ct.ImageType(name="image", shape=shape, color_layout=kind)],
                           outputs=[ct.ImageType(name="out", color_layout=kind)], convert_to="mlprogram",
                           minimum_deployment_target=ct.target.iOS16)
        out = model.predict({"image": Image.new(mode, (5, 4), colour)})["out"]
        assert out.getpixel((0, 0)) == want and out.size == (5, 4), layout


def detector(ct):
    """A pipeline as exporters write it: a network followed by non-maximum suppression, with thresholds as optional inputs."""
    from coremltools.models import MLModel, datatypes
    from coremltools.models.pipeline import Pipeline
    from coremltools.proto import Model_pb2
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[spec(ct, 6, 4), spec(ct, 6, 2)], opset_version=ct.target.iOS16)
    def program(at, how):
        return mb.mul(x=at, y=np.float32(1), name="raw_at"), mb.mul(x=how, y=np.float32(1), name="raw_how")
    network = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS16,
                         compute_precision=ct.precision.FLOAT32)
    described = network.get_spec()
    for output in described.description.output:
        output.type.multiArrayType.shape[:] = [6, 4 if output.name == "raw_at" else 2]
    last = Model_pb2.Model()
    last.specificationVersion = 5
    nms = last.nonMaximumSuppression
    for name, of, width in (("confidence", "raw_how", 2), ("coordinates", "raw_at", 4)):
        given = next(o for o in described.description.output if o.name == of)
        last.description.input.add().CopyFrom(given)
        made = last.description.output.add()
        made.CopyFrom(given)
        made.name = name
        del made.type.multiArrayType.shape[:]
        for lower, upper in ((0, -1), (width, width)):
            made.type.multiArrayType.shapeRange.sizeRanges.add(lowerBound=lower, upperBound=upper)
        setattr(nms, name + "InputFeatureName", of)
        setattr(nms, name + "OutputFeatureName", name)
    nms.iouThreshold, nms.confidenceThreshold, nms.pickTop.perClass = 0.5, 0.25, False
    nms.iouThresholdInputFeatureName, nms.confidenceThresholdInputFeatureName = "iouThreshold", "confidenceThreshold"
    both = Pipeline([("at", datatypes.Array(6, 4)), ("how", datatypes.Array(6, 2)), ("iouThreshold", datatypes.Double()),
                     ("confidenceThreshold", datatypes.Double())], ["confidence", "coordinates"])
    both.add_model(MLModel(described, weights_dir=network.weights_dir))
    both.add_model(MLModel(last))
    for i in (0, 1):
        both.spec.description.output[i].CopyFrom(last.description.output[i])
        both.spec.description.input[2 + i].type.isOptional = True
    both.spec.specificationVersion = described.specificationVersion
    return MLModel(both.spec, weights_dir=network.weights_dir)


def test_pipelines_with_suppression(ct):
    model = detector(ct)
    at = np.array([[10, 10, 8, 8], [12, 10, 8, 8], [40, 40, 9, 9], [41, 40, 9, 9], [70, 70, 5, 5], [90, 90, 4, 4]], np.float32)
    how = np.array([[.9, .1], [.8, .1], [.7, .2], [.1, .6], [.3, .2], [.05, .01]], np.float32)
    for given, kept in (({}, [0, 2, 4]), ({"iouThreshold": 1.0}, [0, 1, 2, 3, 4]), ({"confidenceThreshold": 0.65}, [0, 2]),
                        ({"confidenceThreshold": 2.0}, []), ({}, [0, 2, 4])):
        made = model.predict({"at": at, "how": how, **given})
        assert set(made) == {"confidence", "coordinates"}
        np.testing.assert_array_equal(made["confidence"], how[kept].reshape(-1, 2))
        np.testing.assert_array_equal(made["coordinates"], at[kept].reshape(-1, 4))


def test_compute_units_choose_the_device(ct):
    """An engine's own rules apply to it: float16 in and out, rows of 64 bytes."""
    from coremltools.converters.mil.mil import types
    bridge.enable(neural_engine="sim:m1")
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, 32, 1, 64), dtype=types.fp16)], opset_version=ct.target.iOS17)
    def program(x):
        return mb.relu(x=x, name="y")
    engine = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17)
    assert engine.__proxy__.program.device == "sim:m1"
    cpu = ct.models.MLModel(engine.package_path, compute_units=ct.ComputeUnit.CPU_ONLY)
    assert cpu.__proxy__.program.device == "cpu"
    x = np.ones((1, 32, 1, 64), np.float32)
    assert engine.predict({"x": x})["y"].tolist() == cpu.predict({"x": x})["y"].tolist() == x.tolist()


def test_it_is_taken_away_again(ct):
    model = relu(ct)
    bridge.disable()
    assert ct.models.model._MLModelProxy is not bridge._MLModelProxy and not ct.models.utils._is_macos()
    assert model.predict({"x": np.ones((2, 3))})["y"].sum() == 6
    with pytest.raises(Exception, match="macOS"):
        model.make_state()


def test_defaults_that_fit_no_run(ct):
    """A flexible dimension's default is its lower bound, 1, but the program may need another size."""
    mb = ct.converters.mil.Builder
    symbols = [ct.converters.mil.mil.get_new_symbol() for _ in range(2)]

    @mb.program(input_specs=[spec(ct, *symbols)], opset_version=ct.target.iOS17)
    def program(x):
        return mb.linear(x=mb.add(x=x, y=1.0), weight=np.ones((2, 5), np.float32), bias=np.zeros(2, np.float32), name="y")
    for upper in ((4, 5), (4, 9)):  # 9: no size that is tried fits, but the array's does
        model = ct.convert(program, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17,
                           inputs=[ct.TensorType(name="x", shape=tuple(ct.RangeDim(1, u) for u in upper))])
        assert (model.predict({"x": np.ones((3, 5))})["y"] == 10).all()
        path = model.package_path
        if upper[1] == 5:
            assert propane.load(path).inputs[0].shape == (4, 5)
        else:
            with refused("invalid", "weight has 5 inputs"):
                propane.load(path)
        with propane.load(path, shapes={"x": (2, 5)}) as loaded:
            assert loaded.inputs[0].shape == (2, 5) and loaded.check("m1").verdicts
            assert (loaded.predict({"x": np.ones((2, 5), np.float16)})["y"] == 10).all()
        with refused("invalid", "the file allows"):
            propane.load(path, shapes={"x": (5, 5)})


def test_fractions_for_integers(ct):
    """Fractions are truncated with a warning; NaN is an error."""
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[spec(ct, 5), spec(ct, 3, dtype="int32")], opset_version=ct.target.iOS17)
    def gathered(x, z):
        return mb.gather(x=x, indices=z, axis=0, name="y")
    model = ct.convert(gathered, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17)
    x, z = np.arange(5, dtype=np.float32), np.array([1.7, 2.2, -0.9])
    with pytest.warns(RuntimeWarning, match=r"'z' has fractions, but the input needs integers \(int32\); they are truncated"):
        assert model.predict({"x": x, "z": z})["y"].tolist() == [1, 2, 0]
    assert z.tolist() == [1.7, 2.2, -0.9]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict({"x": x, "z": np.array([4.0, 0.0, 3.0])})["y"].tolist() == [4, 0, 3]
    with refused("invalid", "'z' has fractions or NaN"):
        model.predict({"x": x, "z": np.array([1.0, np.nan, 0.0])})


def test_an_open_rank_and_an_optional_input(ct):
    mb = ct.converters.mil.Builder

    @mb.program(input_specs=[spec(ct, ct.converters.mil.mil.get_new_symbol(), dtype="int32")], opset_version=ct.target.iOS17)
    def filled(shape):
        return mb.fill(shape=shape, value=2.0, name="y")
    model = ct.convert(filled, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17,
                       inputs=[ct.TensorType(name="shape", shape=(3,), dtype=np.int32)])
    made = model.predict({"shape": np.array([2, 1, 3], np.int32)})["y"]
    assert made.shape == (2, 1, 3) and (made == 2).all()

    @mb.program(input_specs=[spec(ct, 2), spec(ct, 2)], opset_version=ct.target.iOS17)
    def sums(x, z):
        return mb.add(x=x, y=z, name="y")
    model = ct.convert(sums, convert_to="mlprogram", minimum_deployment_target=ct.target.iOS17,
                       inputs=[ct.TensorType(name="x", shape=(2,)),
                               ct.TensorType(name="z", shape=(2,), default_value=np.full(2, 3, np.float32))])
    x = np.array([1, 2], np.float32)
    assert model.predict({"x": x})["y"].tolist() == [4, 5]
    assert model.predict({"x": x, "z": np.ones(2)})["y"].tolist() == [2, 3]
    assert model.predict({"x": x})["y"].tolist() == [4, 5]
    for given in ({}, {"z": np.ones(2)}):
        with refused("invalid", "no value was given for x .*required but not specified"):
            model.predict(given)
    with propane.load(model.package_path) as loaded, loaded.session() as session:
        assert session.run({"x": x.astype(np.float16)})["y"].tolist() == [4, 5]
        assert loaded.inputs[1].standard == 3


def test_a_compiled_models_text(ct):
    model = relu(ct)
    with open(os.path.join(model.get_compiled_model_path(), "model.mil"), encoding="utf-8") as file:
        assert '[name = tensor<string, []>(' in file.read()


def test_the_older_formats_quantization_is_left_as_it_was():
    from coremltools.models import datatypes, utils
    from coremltools.models.neural_network import NeuralNetworkBuilder, quantization_utils
    builder = NeuralNetworkBuilder([("x", datatypes.Array(3))], [("y", datatypes.Array(2))])
    builder.add_inner_product("ip", np.ones((2, 3)), None, 3, 2, False, "x", "y")
    model = bridge_ct.models.MLModel(builder.spec, skip_model_load=True)
    half = quantization_utils.quantize_weights(model, 16, "linear")
    spec_of = half.get_spec() if hasattr(half, "get_spec") else half
    assert spec_of.neuralNetwork.layers[0].innerProduct.weights.float16Value
    bridge.disable()
    assert quantization_utils._macos_version is utils._macos_version
    assert utils._is_macos() == (sys.platform == "darwin")


def test_structures_and_plans(ct, tmp_path):
    from coremltools.models.compute_device import MLComputeDevice, MLCPUComputeDevice
    from coremltools.models.compute_plan import MLComputePlan, MLModelStructure
    model = relu(ct)
    path = model.get_compiled_model_path()
    compiled = tmp_path / "bare.mlmodelc"  # like a model from Core ML's compiler: without a specification
    compiled.mkdir()
    (compiled / "model.mil").write_text(unary('relu'))
    for given in (path, str(compiled)):
        main = MLModelStructure.load_from_path(given).program.functions["main"]
        op = next(op for op in main.block.operations if op.operator_name == "relu")
        known = {v.name for v in main.inputs} | {v.name for o in main.block.operations for v in o.outputs}
        assert [b.name in known for b in op.inputs["x"].bindings] == [True]
        assert main.block.output_names == [main.block.operations[-1].outputs[0].name]
    plan = MLComputePlan.load_from_path(path)
    for op in plan.model_structure.program.functions["main"].block.operations:
        usage = plan.get_compute_device_usage_for_mlprogram_operation(op)
        assert usage is None if op.operator_name == "const" else isinstance(usage.preferred_compute_device, MLCPUComputeDevice)
    assert len(MLComputeDevice.get_all_compute_devices()) == 1
    with refused("not found", "does not exist"):
        MLModelStructure.load_from_path(str(tmp_path / "none.mlmodelc"))


def test_a_networks_structure_has_its_layers(ct):
    from coremltools.models import datatypes
    from coremltools.models.compute_plan import MLModelStructure
    from coremltools.models.neural_network import NeuralNetworkBuilder
    builder = NeuralNetworkBuilder([("x", datatypes.Array(3))], [("y", datatypes.Array(2))])
    builder.add_inner_product("ip", np.ones((2, 3)), None, 3, 2, False, "x", "y")
    model = ct.models.MLModel(builder.spec)
    (layer,) = MLModelStructure.load_from_path(model.get_compiled_model_path()).neuralnetwork.layers
    assert (layer.name, layer.type, layer.input_names, layer.output_names) == ("ip", "innerProduct", ["x"], ["y"])


def test_a_failed_prediction_begins_as_core_mls(ct):
    from coremltools.converters.mil import Builder as mb

    @mb.program(input_specs=[mb.TensorSpec(shape=(3,)), mb.TensorSpec(shape=(1,), dtype=ct.converters.mil.mil.types.int32)])
    def program(x, at):
        return mb.gather(x=x, indices=at)
    model = ct.convert(program, convert_to="mlprogram")
    with refused("invalid", "^Unable to compute the prediction using ML Program: .*index 0 is 7"):
        model.predict({"x": np.ones(3, np.float32), "at": np.array([7], np.int32)})
