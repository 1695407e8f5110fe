# SPDX-License-Identifier: MIT
"""The package itself: its declarations are the header's, importing is quick, and objects are freed in any order without
leaks."""
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import ADDER, data, refused, unary

import propane_ml as propane
from propane_ml._propane import ffi, lib


def test_declarations_are_the_headers():
    header = data("include", "propane.h")
    sys.path.insert(0, os.path.dirname(data("python", "declarations.py")))
    import declarations
    assert declarations.version(header) == propane.version()
    assert ffi.string(lib.propane_ml_fingerprint).decode() == declarations.fingerprint(header), \
        "the extension was built from another header: pip install ./python again"


def test_declarations_leave_no_call_out():
    import re
    sys.path.insert(0, os.path.dirname(data("python", "declarations.py")))
    import declarations
    text = re.sub(r"/\*.*?\*/", " ", declarations.text(data("include", "propane.h")), flags=re.S)
    names = set(re.findall(r"\b(propane_\w+)\(", text))
    assert len(names) > 150 and not [name for name in names if not hasattr(lib, name)]


def test_free_threaded_python_is_refused(monkeypatch):
    """With the setting of such a build, nothing is built, and the message gives the reason."""
    import runpy
    import sysconfig
    pytest.importorskip("setuptools")
    setup = data("python", "setup.py")
    own = sysconfig.get_config_var
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else own(name))
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(SystemExit, match="free-threaded Python is not supported"):
        runpy.run_path(setup, run_name="__main__")


def test_all_names_are_there():
    for name in propane.__all__:
        assert getattr(propane, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        propane.no_such_name


def test_import_is_quick():
    code = ("import time; t = time.process_time(); import propane_ml; a = time.process_time() - t;"
            "import numpy; t = time.process_time(); propane_ml.load; print(a, time.process_time() - t)")
    best = min(map(float, min(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, text=True).stdout.split()
                              for _ in range(3)))), None
    assert best[0] < 0.1


def test_errors_have_a_status_and_a_sentence():
    with refused("not found", "cannot open /no/such/file"):
        propane.load("/no/such/file")
    with refused("invalid", "text:1:"):
        propane.parse("program")
    import pickle
    error = pickle.loads(pickle.dumps(propane.PropaneError(1, "why")))
    assert (str(error), error.status, error.code) == ("why", "invalid", 1) and isinstance(error, RuntimeError)


def test_closed_objects_say_so():
    program = propane.parse(unary("relu"))
    with program.session() as session:
        pass
    session.close()
    with refused("invalid", "this Session is closed"):
        session.run({"x": np.zeros(4)})
    with program:
        program.predict({"x": np.zeros(4)})
    with refused("invalid", "this Program is closed"):
        program.text()


def test_objects_go_in_any_order():
    for _ in range(20):
        program = propane.parse(ADDER)
        state, session, estimate = program.make_state(), program.session(), program.estimate()
        program.predict({"x": np.ones(4)}, state=state)
        things = [program, state, session, estimate, program.check("m1")]
        del program, state, session, estimate
        while things:
            things.pop(np.random.randint(len(things)))
        gc.collect()


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_cycles_leave_nothing():
    text, x = unary("relu"), np.zeros(4, np.float32)

    def cycle(count: int) -> None:
        for k in range(count):
            program = propane.parse(text)
            program.predict({"x": x})
            if k % 2:  # half of them are only dropped
                program.close()
    cycle(200)
    gc.collect()
    before = resident()
    count = int(os.environ.get("PROPANE_CYCLES", "1000"))
    cycle(count)
    gc.collect()
    print(f"{count} cycles of create, predict and drop: {(resident() - before) / 1024:.0f} KB more")
    assert resident() - before < 2 << 20


def test_exit_with_everything_alive():
    code = ("import propane_ml as p, numpy as np\n"
            f"m = p.parse({ADDER!r})\n"
            "s = m.make_state(); m.predict({'x': np.ones(4)}, state=s); e = m.estimate(); n = m.session()\n"
            "p.on_log(print); a = [m, s, e, n]; a.append(a); print('end')")
    done = subprocess.run([sys.executable, "-X", "dev", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_eight_threads():
    shared, failures = propane.parse(unary("relu", shape="[64]")), []

    def work(seed: int) -> None:
        try:
            rng, own = np.random.default_rng(seed), propane.parse(unary("square", shape="[64]"))
            for _ in range(50):
                x = rng.standard_normal(64).astype(np.float32)
                np.testing.assert_array_equal(shared.predict({"x": x})["y"], np.maximum(x, 0))
                np.testing.assert_array_equal(own.predict({"x": x})["y"], x * x)
        except BaseException as failure:
            failures.append(failure)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_other_threads_go_on_while_it_computes():
    many = "[1024, 1024]"
    t = f"tensor<fp32, {many}>"
    from conftest import mil
    program = propane.parse(mil(f'{t} y = matmul(x = x, y = x)[name = string("y")];', f"{t} x", "y"))
    x, ticks, stop = np.zeros((1024, 1024), np.float32), [], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(1)
            stop.wait(0.001)
    thread = threading.Thread(target=tick)
    program.predict({"x": x})
    thread.start()
    begin = len(ticks)
    for _ in range(10):
        program.predict({"x": x})
    stop.set()
    thread.join()
    assert len(ticks) - begin >= 5


def test_zero_characters_are_refused(tmp_path):
    """The library reads a text only up to a zero character: it would open another file, or send half a message."""
    path = tmp_path / "a.mil"
    path.write_text("program(1.3)\n{\n  func main<ios18>(tensor<fp16, [1, 4]> x) {\n    tensor<fp16, [1, 4]> y = relu(x = x);\n  } -> (y);\n}\n")
    for call in (lambda: propane.load(str(path) + "\0x"), lambda: propane.Device("cpu\0x"),
                 lambda: propane.load(path).predict({"x\0": [[0] * 4]}), lambda: propane.load(path).check("m4\0")):
        with pytest.raises(propane.PropaneError, match="zero character|there is no input"):
            call()


def test_objects_are_neither_copied_nor_pickled(tmp_path):
    """A shallow copy would share the library's object: closing one would free it under the other."""
    import copy
    import pickle
    device = propane.Device("cpu")
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Device cannot be copied or pickled: open it again where it is needed"):
            call(device)


def test_inputs_are_named(tmp_path):
    path = tmp_path / "a.mil"
    path.write_text("program(1.3)\n{\n  func main<ios18>(tensor<fp16, [1, 4]> x) {\n    tensor<fp16, [1, 4]> y = relu(x = x);\n  } -> (y);\n}\n")
    for given in (None, [[0] * 4], 5, "x"):
        with pytest.raises(propane.PropaneError, match="the inputs must be a dictionary such as"):
            propane.load(path).predict(given)
