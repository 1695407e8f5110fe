# SPDX-License-Identifier: MIT
"""A pytest plugin that runs coremltools' own tests with Propane's predictions. suite.py starts it and configures it through
SUITE_SEED, SUITE_TESTS (how many; 0: all), SUITE_SHARD ("0/2"), SUITE_SECONDS (of processor time; 0: no limit),
SUITE_RESULTS (a file of JSON lines; tests listed there are not run again), SUITE_NOW (a file that names the running
test), SUITE_BACKEND (mlprogram or neuralnetwork) and SUITE_SHUFFLED (1: in random order instead of rounds).

Tests run in rounds: first one set of parameters for every test function, then a second one for each, chosen by the seed. A
run that is stopped at any point has therefore covered all functions evenly. Tests of the other backend are omitted. The
number of predictions of each test is recorded too.

coremltools compares fp16 with an absolute tolerance of 0.5, which an output of zeros often passes. Here it is 0.01.
"""
import collections
import gc
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import time
import types

import pytest

try:
    import torch  # noqa: F401  before anything is replaced
except ImportError:
    pass

import propane_ml.coremltools as bridge

bridge.enable()
import coremltools._deps as deps  # noqa: E402

deps._IS_MACOS = True  # the tests' comparisons check this before they predict
predictions, began = 0, 0.0
_name_of = {}
_predict = bridge._MLModelProxy.predict


def _counted(self, *given):
    global predictions
    predictions += 1
    return _predict(self, *given)


bridge._MLModelProxy.predict = _counted


class _Missing(types.ModuleType):
    """Some test files import a package at the top that only a few of their tests use. Those tests are skipped, and the others
    run."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError(f"No module named '{self.__name__}'", name=self.__name__)


for _name in ("torchvision", "torchaudio"):
    if importlib.util.find_spec(_name) is None:
        sys.modules[_name] = _Missing(_name)
        sys.modules[_name].__spec__ = importlib.machinery.ModuleSpec(_name, None)


def _tighten(module, name):
    """Replaces coremltools' tolerances for fp16 (0.5 and 0.05, or 100 times those of fp32) in the constants of a function."""
    function = getattr(module, name)
    tighter = {0.5: 0.01, 0.05: 0.01, 100.0: 1.0}
    was = function.__code__.co_consts
    if not {0.5, 0.05} <= {c for c in was if isinstance(c, float)}:
        raise pytest.UsageError(f"{module.__name__}.{name} has other tolerances than coremltools 9.0")
    function.__code__ = function.__code__.replace(
        co_consts=tuple(tighter.get(c, c) if isinstance(c, float) else c for c in was))


def _tighten_all():
    import coremltools.converters.mil.testing_utils as common
    _tighten(common, "compare_backend")
    if "torch" in sys.modules:
        import coremltools.converters.mil.frontend.torch.test.testing_utils as frontend
        _tighten(frontend, "convert_and_compare")


_tighten_all()


def _is_of_backend(item):
    """Returns whether this is a test of SUITE_BACKEND. The backend is a parameter or is part of the test's name. A test of
    ML Programs may omit it."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    older = "neural" in item.nodeid or any(
        getattr(v, "backend", v[0] if isinstance(v, tuple) and v else None) == "neuralnetwork" for v in values)
    return older == (os.environ.get("SUITE_BACKEND", "mlprogram") == "neuralnetwork")


def _names(items):
    """Returns test names that are the same in every process, without addresses."""
    seen = collections.Counter()
    for item in items:
        name = re.sub(r" at 0x[0-9a-f]+", "", item.nodeid)
        seen[name] += 1
        _name_of[item.nodeid] = name if seen[name] == 1 else f"{name}#{seen[name]}"


def _done():
    path = os.environ["SUITE_RESULTS"]
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return {json.loads(line)["test"] for line in file}


def _by_rounds(items, seed):
    """Returns pairs of an evenly distributed key and an item."""
    _names(items)
    hashed = sorted((hashlib.sha256((seed + _name_of[item.nodeid]).encode()).digest(), _name_of[item.nodeid], item) for item in items)
    if os.environ.get("SUITE_SHUFFLED") == "1":
        return [(key, item) for key, _, item in hashed]
    seen, order = collections.Counter(), []
    for key, name, item in hashed:
        function = name.split("[")[0]
        order.append((seen[function], key, item))
        seen[function] += 1
    return [(key, item) for _, key, item in sorted(order, key=lambda row: row[:2])]


@pytest.hookimpl(trylast=True)  # runs after -k
def pytest_collection_modifyitems(config, items):
    count = int(os.environ.get("SUITE_TESTS", "0"))
    shard, shards = map(int, os.environ.get("SUITE_SHARD", "0/1").split("/"))
    every = _by_rounds([item for item in items if _is_of_backend(item)], os.environ.get("SUITE_SEED", "1"))
    with open(os.environ["SUITE_NOW"] + ".count", "w", encoding="utf-8") as file:
        file.write(str(len(every)))
    chosen = every[:count] if count else every
    done = _done()
    kept = [item for key, item in chosen if key[-1] % shards == shard and _name_of[item.nodeid] not in done]
    left = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = kept


def pytest_collection_finish(session):
    """coremltools' convert() ends with gc.collect(), which takes 0.6 s because it walks the objects of 30,000 tests: three
    quarters of all time. They are frozen; objects that a test creates are collected as before."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    seconds = float(os.environ.get("SUITE_SECONDS", "0"))
    if seconds and time.process_time() > seconds:
        item.session.shouldstop = "the requested processor time is used up"


def pytest_runtest_logstart(nodeid, location):
    global predictions, began
    predictions, began = 0, time.process_time()
    with open(os.environ["SUITE_NOW"], "w", encoding="utf-8") as file:
        file.write(_name_of[nodeid])


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed" or report.when == "teardown":
        return
    lines = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr or "").strip().splitlines()
    said = [line[1:].strip() for line in lines if line.startswith("E ")] or lines[-1:]
    # A test that needs a missing package shows nothing about Propane.
    missing = any("No module named" in line or "name 'torchvision' is not defined" in line for line in said)
    outcome = "missing" if missing else report.outcome
    with open(os.environ["SUITE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": _name_of[report.nodeid], "outcome": outcome, "predictions": predictions,
                               "seconds": round(time.process_time() - began, 3), "why": " ".join(said)[:600]}) + "\n")
    os.unlink(os.environ["SUITE_NOW"])
