# SPDX-License-Identifier: MIT
"""Arrays in and out: what is accepted, refused, and not copied; states, classifiers, flexible shapes, reports."""
import os
import time
import warnings

import numpy as np
import pytest
from conftest import ADDER, JUDGE, ROOT, mil, refused, unary

import propane_ml as propane
from propane_ml import arrays


@pytest.mark.parametrize("given", [np.array([-1.0, 0, 2, 3]), [-1, 0, 2, 3], np.array([-1, 0, 2, 3]),
                                   np.array([-1, 0, 2, 3], np.float16), np.array([-1, 9, 0, 9, 2, 9, 3, 9], np.float32)[::2],
                                   np.array([-1, 0, 2, 3], ">f4"), np.array([-1, 0, 2, 3], np.int8)])
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_floats_of_every_kind(given, dtype):
    made = propane.parse(unary("relu", dtype)).predict({"x": given})["y"]
    np.testing.assert_array_equal(made, [0, 0, 2, 3])
    assert made.dtype == {"fp16": np.float16, "fp32": np.float32}[dtype]


def test_whole_numbers():
    program = propane.parse(unary("abs", "int32"))
    for given in ([-1, 2, -3, 4], np.array([-1.0, 2, -3, 4]), np.array([-1, 2, -3, 4], np.int64)):
        np.testing.assert_array_equal(program.predict({"x": given})["y"], [1, 2, 3, 4])
    for bad, sentence in ((np.array([0.5, 1, 2, 3]), "'x' has fractions or NaN"), ([np.nan] * 4, "fractions or NaN"),
                          (np.array([2 ** 40, 0, 0, 0]), "int32 holds"), (np.array(["a"] * 4), "has element type")):
        with refused("invalid", sentence):
            program.predict({"x": bad})


def test_shapes_and_names():
    program = propane.parse(unary("relu"))
    with refused("invalid", r"'x' has the shape \[2, 2\]; the input takes \[4\]"):
        program.predict({"x": np.zeros((2, 2))})
    with refused("not found", "there is no input 'z'; available: x"):
        program.predict({"z": np.zeros(4)})
    with refused("invalid", r"no value was given for x \[4\]"):
        program.predict({})
    with refused("not found", "no function 'f'"):
        program.predict({}, function="f")
    one = propane.parse(unary("relu", shape="[1]"))
    for given in (3, 3.0, np.float32(3), [[3]], np.array(3)):
        assert one.predict({"x": given})["y"] == [3]


PAIR = mil('tensor<fp32, [N]> z = add(x = x, y = y)[name = string("z")];', "tensor<fp32, [N]> x, tensor<fp32, [N]> y", "z")


@pytest.mark.parametrize("size", [4, 1 << 19])  # copied, lent
def test_nothing_stays_of_an_earlier_call(size):
    program = propane.parse(PAIR.replace("N", str(size)))
    ones, threes = np.ones(size, np.float32), np.full(size, 3, np.float32)
    for _ in range(2):
        for given, missing in (({}, "x .*y .*"), ({"x": ones}, "y .*"), ({"y": ones}, "x .*")):
            with refused("invalid", f"no value was given for {missing}: required but not specified"):
                program.predict(given)
        assert (program.predict({"x": ones, "y": threes})["z"] == 4).all()
    with program.session() as session:
        assert (session.run({"x": ones, "y": threes})["z"] == 4).all()
        with refused("invalid", "no value was given for y"):
            session.run({"x": ones})
        session.set("y", ones)  # stays
        for _ in range(2):
            assert (session.run({"x": threes})["z"] == 4).all()
        session.clear("y")
        with refused("invalid", "no value was given for y"):
            session.run({"x": threes})


def test_bfloat16():
    x = np.array([1.5, -2, 3, 1e30], np.float32)
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    program = propane.parse(unary("relu"))
    torch = pytest.importorskip("torch")
    made = program.predict({"x": torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)})["y"]
    np.testing.assert_array_equal(made, np.maximum((bits.astype(np.uint32) << 16).view(np.float32), 0))


def test_dlpack_both_ways():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -2, 3, 4], requires_grad=True)
    made = propane.parse(unary("relu")).predict({"x": x})["y"]
    assert torch.from_dlpack(made).tolist() == [1, 0, 3, 4]


def test_dlpack_of_jax():
    jnp, dlpack = pytest.importorskip("jax.numpy"), pytest.importorskip("jax.dlpack")
    program = propane.parse(unary("relu"))
    made = program.predict({"x": jnp.array([1.0, -2, 3, 4])})["y"]
    assert dlpack.from_dlpack(made).tolist() == [1, 0, 3, 4]
    assert program.predict({"x": jnp.array([1.5, -2, 3, 4], jnp.bfloat16)})["y"].tolist() == [1.5, 0, 3, 4]


def test_dlpack_of_mlx():
    try:  # on Linux its package installs without the library that it extends
        import mlx.core as mx
    except ImportError as missing:
        pytest.skip(f"mlx: {missing}")
    made = propane.parse(unary("relu")).predict({"x": mx.array([1.0, -2, 3, 4])})["y"]
    assert mx.array(made).tolist() == [1, 0, 3, 4]


def test_results_are_the_callers():
    program = propane.parse(unary("relu"))
    one = program.predict({"x": np.ones(4)})["y"]
    two = program.predict({"x": np.zeros(4)})["y"]
    one[0] = 5
    assert list(one) == [5, 1, 1, 1] and list(two) == [0, 0, 0, 0] and two.flags.owndata


@pytest.mark.parametrize("start", [0, 4])
def test_large_arrays_lie_where_they_are(start):
    """4 elements of 4 bytes at the beginning, aligned to 16 bytes as NumPy's own arrays are."""
    count = 25 << 20  # 100 MB
    program = propane.parse(unary("relu", shape=f"[{count}]"))
    x = propane.empty((count + 16,))[start:start + count]
    x[:] = -1
    x[7] = 3
    with program.session() as session:
        lent = []
        session._put = (lambda put: lambda slot, value, lend: (put(slot, value, lend), lent.extend(session._lent)))(session._put)
        made = session.run({"x": x})["y"]
        assert [slot.name for slot in lent] == ["x"] and not session._lent and not session._kept
    assert made[7] == 3 and made.sum() == 3 and made.shape == (count,)


def test_overhead_of_predict():
    program = propane.parse(unary("relu"))
    x, whole, run = {"x": np.zeros(4, np.float32)}, 1.0, 1.0
    program.predict(x)
    session = next(iter(program._sessions.values()))
    from propane_ml._propane import ffi, lib
    for _ in range(40):  # the best time of each, because other work slows some runs
        begin = time.perf_counter()
        for _ in range(50):
            program.predict(x)
        middle = time.perf_counter()
        for _ in range(50):
            lib.propane_session_run(session._pointer, ffi.NULL, session._err)
        whole, run = min(whole, (middle - begin) / 50), min(run, (time.perf_counter() - middle) / 50)
    print(f"predict() takes {whole * 1e6:.1f} microseconds, {(whole - run) * 1e6:.1f} above the run")
    assert whole - run < 30e-6


def test_states():
    program = propane.parse(ADDER)
    x, one, two = np.array([1, 2, 3, 4.0]), program.make_state(), program.make_state()
    for turn in range(1, 4):
        np.testing.assert_array_equal(program.predict({"x": x}, state=one)["twice"], 2 * turn * x)
        np.testing.assert_array_equal(program.predict({"x": 2 * x}, state=two)["twice"], 4 * turn * x)
        np.testing.assert_array_equal(program.predict({"x": x})["twice"], 2 * x)
    np.testing.assert_array_equal(one.read("sum"), 3 * x)
    one.write("sum", np.zeros(4))
    np.testing.assert_array_equal(program.predict({"x": x}, state=one)["twice"], 2 * x)
    program.close()
    np.testing.assert_array_equal(two.read("sum"), 6 * x)
    with refused("not found", "no state 'nothing'"):
        two.read("nothing")


def test_classifiers():
    program = propane.parse(JUDGE)
    made = program.predict({"x": [1, 3, 2]})
    assert made["label"] == "bee" and list(made["all"]) == ["ant", "bee", "cat"] == program.classes()
    assert abs(sum(made["all"].values()) - 1) < 1e-6 and set(made) == {"label", "all"}
    assert [f.kind for f in program.outputs] == ["label", "probabilities"]


def test_gradient_is_the_slope():
    program = propane.parse(unary("tanh"))
    x, h = np.linspace(-1, 1, 4).astype(np.float32), 1e-2
    made = program.gradient().predict({"x": x, "d_y": np.ones(4)})
    slope = (np.tanh(x.astype(np.float64) + h) - np.tanh(x.astype(np.float64) - h)) / (2 * h)
    assert np.abs(made["d_x"] - slope).max() < 4e-5  # observed 3.4e-5, the error of the slope itself
    with refused("not found", "nothing"):
        program.gradient(["nothing"])


def test_reports():
    program = propane.parse(unary("relu", "fp16"))
    report, estimate = program.check("m1,m4"), program.estimate("m1,m4")
    assert [v.chip for v in report.verdicts] == ["m1", "m4"] and not report.refused
    assert all(f.rule and f.message and f.severity in ("note", "warning") for f in report) and len(report) == len(report.findings)
    assert "no known rule refuses it" in str(report) and "<table>" in report._repr_html_()
    assert report.json()
    assert len(estimate) == 2 and all(r.low_ms <= r.ms <= r.high_ms for r in estimate)
    assert [row[0] for row in estimate.ops()] == ["relu"] and "estimated" in estimate._repr_html_()
    with refused("not found", "m99"):
        program.check("m99")


def test_files(tmp_path):
    program = propane.parse(unary("relu"))
    for name in ("a.mil", "a.mlpackage"):
        program.save(tmp_path / name)
        again = propane.load(tmp_path / name)
        assert again.predict({"x": [-1, 2, 3, 4]})["y"].tolist() == [0, 2, 3, 4]
        assert "relu" in again.text() and "relu" in again.text(canonical=True)
    report = propane.check(tmp_path / "a.mlpackage", "m1")
    assert len(report.verdicts) == 1 and report.path == "coreml" and report.verdicts[0].segments >= 0
    assert report.worst == "fallback" and any(f.severity == "fallback" for f in report)  # fp32 leaves the engine
    assert propane.check(tmp_path / "a.mlpackage", "m1", way="direct").refused
    assert "<table>" in program._repr_html_() and "relu" not in repr(program) and "<iframe" in program._repr_html_()
    page = program.to_html(tmp_path / "graph.html", target="m4", colour="verdict", title="the graph")
    assert page.startswith("<!") and "the graph" in page and (tmp_path / "graph.html").read_text("utf-8") == page
    with refused("not found", "no-such"):
        program.to_html(target="no-such")


def test_profile_and_diff():
    t = "tensor<fp16, [64, 64]>"
    program = propane.parse(mil(f'{t} y = matmul(x = x, y = x)[name = string("y")];\n{t} z = exp(x = y)[name = string("z")];',
                                f"{t} x", "z"))
    rows = program.profile(runs=2)
    assert len(rows) and all(r[-1] == 2 for r in rows) and rows.columns[0] == "kind"
    differences = program.diff({"x": np.eye(64) / 4})
    assert differences.column("value") == ["y", "z"] and all(0 <= r <= 2e-3 for r in differences.column("relative"))
    other = propane.parse(program.text(), device="sim:m4")
    np.testing.assert_allclose(other.predict({"x": np.eye(64)})["z"], program.predict({"x": np.eye(64)})["z"], rtol=2e-3)


def test_devices():
    assert "cpu" in [d.name for d in propane.devices() if d.why is None]
    with propane.Device("sim:m4") as device:
        assert device.simulated and device.uri == "sim:m4"
    assert ("relu", "ios15") in [row[:2] for row in propane.operations()]
    with refused("not found", "cpu"):
        propane.Device("toaster")


def test_fit_keeps_what_fits():
    x = np.zeros((2, 3), np.float32)
    assert arrays.fit(x, "x", (2, 3), arrays.lib.PROPANE_FP32)[0].base is x or arrays.fit(
        x, "x", (2, 3), arrays.lib.PROPANE_FP32)[0] is x


def test_flexible_shapes(tmp_path):
    """A package written by hand, such as coremltools writes in test_coremltools."""
    ct = pytest.importorskip("coremltools")
    mb = ct.converters.mil.Builder
    size = ct.converters.mil.mil.get_new_symbol()

    @mb.program(input_specs=[mb.TensorSpec(shape=(1, size))], opset_version=ct.target.iOS16)
    def program(x):
        return mb.relu(x=x, name="y")
    shape = ct.Shape((1, ct.RangeDim(1, 20, 4)))
    model = ct.convert(program, inputs=[ct.TensorType(name="x", shape=shape)], convert_to="mlprogram",
                       minimum_deployment_target=ct.target.iOS16, skip_model_load=True)
    model.save(str(tmp_path / "m.mlpackage"))
    loaded = propane.load(tmp_path / "m.mlpackage")
    assert loaded.inputs[0].flexible and loaded.inputs[0].most == (1, 20) and loaded.inputs[0].shape == (1, 4)
    for n in list(range(1, 14)) + [1, 4]:
        x = np.linspace(-1, 1, n).reshape(1, n)
        np.testing.assert_allclose(loaded.predict({"x": x})["y"], np.maximum(x, 0), atol=1e-3)
    assert len(loaded._sessions) == 8
    with refused("invalid", "21"):
        loaded.predict({"x": np.zeros((1, 21))})


LIST = """
        list<fp32, 1> l = make_list(init_length = int32(1), dynamic_length = GROWS, elem_shape = tensor<int32, [0]>([]), dtype = "fp32");
        list<fp32, 1> m = list_write(ls = l, index = at, value = x); int32 n = list_length(ls = m);"""


def test_lists_grow():
    program = propane.parse(mil(LIST.replace("GROWS", "true"), "fp32 x, int32 at", "n"))
    for at in (0, 5, 3, 100000):
        assert program.predict({"x": 2, "at": at})["n"] == at + 1
    for at, status, sentence in ((-1, "invalid", "index -1 is outside the list"), (2 ** 31 - 1, "limit", "exceeds the limit of 128 MB")):
        with refused(status, sentence):
            program.predict({"x": 2, "at": at})
    fixed = propane.parse(mil(LIST.replace("GROWS", "false"), "fp32 x, int32 at", "n"))
    assert fixed.predict({"x": 2, "at": 0})["n"] == 1
    with refused("invalid", "index 1 is outside the list, which has 1 elements"):
        fixed.predict({"x": 2, "at": 1})


def test_shapes_that_follow_from_values(tmp_path):
    text = mil('tensor<int32, [1]> size = const()[name = string("size"), val = tensor<int32, [1]>([2])];\n'
               'tensor<fp32, [2]> y = slice_by_size(x = x, begin = begin, size = size)[name = string("y")];',
               "tensor<fp32, [6]> x, tensor<int32, [1]> begin", "y")
    (tmp_path / "m.mil").write_text(text)
    for program in (propane.load(tmp_path / "m.mil"), propane.parse(text)):
        for begin in (0, 3, 1):
            assert program.predict({"x": np.arange(6), "begin": [begin]})["y"].tolist() == [begin, begin + 1]


MASK = """
        tensor<bool, [6]> m = greater(x = y, y = fp32(1)); tensor<int32, [6]> c = cast(x = m, dtype = "int32");
        tensor<int32, [?, 1]> i = non_zero(x = c);
        tensor<int32, [2]> s = shape(x = i); tensor<int32, [1]> n = slice_by_size(x = s, begin = [0], size = [1]);
        tensor<fp32, [?]> zeros = tile(x = tensor<fp32, [1]>([0]), reps = n);
        tensor<int32, [?, 1]> far = add(x = i, y = int32(6)); tensor<bool, [?, 1]> there = greater_equal(x = i, y = int32(0));
        tensor<int32, [?, 1]> at = select(cond = there, a = i, b = far);
        tensor<fp32, [6]> put = scatter_nd(data = x, indices = at, updates = zeros, mode = "update");
        tensor<fp32, [6]> z = add(x = put, y = put)[name = string("z")];
        tensor<fp32, [?]> chosen = gather_nd(x = x, indices = i)[name = string("chosen")];
        tensor<fp32, [1]> mean = reduce_mean(x = chosen, axes = [0], keep_dims = true)[name = string("mean")];"""


def test_a_mask_that_is_nowhere_true():
    x = np.arange(1, 7, dtype=np.float32)
    program = propane.parse(mil(MASK, "tensor<fp32, [6]> x, tensor<fp32, [6]> y", "put, z"))
    for mask in ([0, 0, 0, 0, 0, 0], [0, 2, 0, 0, 0, 3], [0] * 6, [2] * 6):
        made, want = program.predict({"x": x, "y": mask}), np.where(np.array(mask) > 1, 0, x)
        np.testing.assert_array_equal(made["put"], want)
        np.testing.assert_array_equal(made["z"], 2 * want)
    for result, sentence in (("chosen", "result 'chosen' would be empty"), ("mean", "reduce_mean 'mean': 'chosen' is empty")):
        program = propane.parse(mil(MASK, "tensor<fp32, [6]> x, tensor<fp32, [6]> y", result))
        assert program.predict({"x": x, "y": [0, 2, 2, 0, 0, 0]})[result].mean() == 2.5
        with refused("unsupported", sentence):
            program.predict({"x": x, "y": [0] * 6})
        assert program.predict({"x": x, "y": [0, 0, 0, 3, 3, 0]})[result].mean() == 4.5


def test_ranges_without_numbers():
    program = propane.parse(mil("""
        tensor<int32, [?]> r = range_1d(start = int32(0), end = n, step = int32(2));
        tensor<fp32, [?]> f = cast(x = r, dtype = "fp32"); tensor<int32, [1]> length = shape(x = f)[name = string("length")];""",
                                "int32 n", "length"))
    assert [int(program.predict({"n": n})["length"][0]) for n in (5, 0, -3, 4)] == [3, 0, 0, 2]


def test_numbers_that_are_none():
    overflow = mil('tensor<fp16, [2]> large = mul(x = x, y = fp16(60000))[name = string("large")];\n'
                   'tensor<fp16, [2]> y = real_div(x = large, y = x)[name = string("y")];', "tensor<fp16, [2]> x", "large, y")
    program = propane.parse(overflow)
    with pytest.warns(propane.NonfiniteWarning, match=r"output 'large' has 1 infinity of 2: mul 'large' produces the first") as seen:
        made = program.predict({"x": [2, 1]})
    assert np.isinf(made["large"][0]) and issubclass(propane.NonfiniteWarning, RuntimeWarning)
    said = seen[0].message
    assert (said.outputs["large"], said.op, said.name, said.made) == ((0, 1), "mul", "large", True)
    assert seen[0].filename == __file__
    with pytest.warns(propane.NonfiniteWarning) as seen:  # counted again, but not searched for again
        program.predict({"x": [2, 2]})
    assert str(seen[0].message).startswith("output 'large' has 2 infinities of 2") and "produces" not in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.predict({"x": [2, 2]}, nonfinite="ignore")
        program.predict({"x": [1, 1]}, nonfinite="raise")
    with refused("limit", "mul 'large' produces the first of them from finite numbers"):
        program.predict({"x": [2, 2]}, nonfinite="raise")
    with refused("invalid", "nonfinite='stop': it is one of warn, raise, ignore"):
        program.predict({"x": [1, 1]}, nonfinite="stop")
    with pytest.warns(propane.NonfiniteWarning, match="input 'x' holds 1 NaN, and no operation produces any") as seen:
        propane.parse(unary("relu")).predict({"x": [np.nan, 1, 2, 3]}, nonfinite="raise")
    assert not seen[0].message.made


def test_numbers_that_are_none_in_states_and_classifiers():
    program = propane.parse(ADDER)
    state = program.make_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program.predict({"x": [30000] * 4}, state=state, nonfinite="ignore")
    with pytest.warns(propane.NonfiniteWarning, match="output 'twice' has 4 infinities of 4$"):
        program.predict({"x": [30000] * 4}, state=state)
    with pytest.warns(propane.NonfiniteWarning, match="'twice' produces the first of them"):
        program.predict({"x": [40000] * 4})
    with pytest.warns(propane.NonfiniteWarning, match="output 'all' has 3 NaN of 3: input 'x' holds 1 infinity; softmax 'all' makes NaN"):
        propane.parse(JUDGE).predict({"x": [np.inf, 1, 2]})


def test_a_program_is_not_made_from_a_path():
    with refused("invalid", "load\\('m.mlpackage'\\)"):
        propane.Program("m.mlpackage")
    with refused("invalid", "got int"):
        propane.Program(3)


def test_text_and_dictionaries_of_older_models():
    program = propane.load(os.path.join(ROOT, "tests", "mil", "older", "categories.mlmodel"))
    place, words, _ = program.inputs
    assert (place.name, place.called, place.kind) == ("place_of_it", "place of it", "category")
    assert place.keys == ("old town", "harbour", "Zürich") and words.kind == "dictionary" and len(words.keys) == 5
    for name in ("place of it", "place_of_it"):
        made = program.predict({name: "harbour", "words": {"pool": 2, "balcony": 6}, "area": [0.5]})
        np.testing.assert_allclose(made["price"], [13.25])
    with refused("invalid", "does not know 'moon'; it must be one of: 'old town', 'harbour', 'Zürich'"):
        program.predict({"place of it": "moon", "words": {}, "area": [0.5]})
    made = propane.load(os.path.join(ROOT, "tests", "mil", "older", "columns.mlmodel")).predict({"three (cm)": np.ones(3)})
    assert set(made) == {"the class", "odds of it"} and set(made["odds of it"]) == {"no", "yes"}
