# SPDX-License-Identifier: MIT
"""A pytest plugin: coremltools' own tests, their predictions made by Propane. suite.py starts it; it is told by SUITE_SEED,
SUITE_TESTS (how many, 0: all), SUITE_SHARD ("0/2"), SUITE_SECONDS (of processor time, 0: no end), SUITE_RESULTS (a file of JSON
lines: what stands there is not run again) and SUITE_NOW (a file that names the test that runs).

The order is by rounds: first one set of parameters of every test function, then a second one of each, chosen by the seed. So a
run that is stopped at any point has seen all functions, evenly. Tests of the older neural-network format are left out. What a
test did is told too: how often it predicted."""
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
    import torch  # noqa: F401  before anything is bent
except ImportError:
    pass

import propane_ml.coremltools as bridge

bridge.enable()
import coremltools._deps as deps  # noqa: E402

deps._IS_MACOS = True  # their comparisons check this before they predict
predictions, began = 0, 0.0
_name_of = {}
_predict = bridge._MLModelProxy.predict


def _counted(self, *given):
    global predictions
    predictions += 1
    return _predict(self, *given)


bridge._MLModelProxy.predict = _counted


class _Missing(types.ModuleType):
    """Some of their files import a package at the top that a few of their tests use: those are skipped, the others run."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise ModuleNotFoundError(f"No module named '{self.__name__}'", name=self.__name__)


for _name in ("torchvision", "torchaudio"):
    if importlib.util.find_spec(_name) is None:
        sys.modules[_name] = _Missing(_name)
        sys.modules[_name].__spec__ = importlib.machinery.ModuleSpec(_name, None)


def _is_of_today(item):
    """No test of the older format: its backend is a parameter, or stands in its name."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return "neuralnetwork" not in item.nodeid and not any(
        getattr(v, "backend", v[0] if isinstance(v, tuple) and v else None) == "neuralnetwork" for v in values)


def _names(items):
    """What the tests are called in every process: an address in a name is none of it."""
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
    """Pairs of a key that is evenly spread and an item."""
    _names(items)
    hashed = sorted((hashlib.sha256((seed + _name_of[item.nodeid]).encode()).digest(), _name_of[item.nodeid], item) for item in items)
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
    every = _by_rounds([item for item in items if _is_of_today(item)], os.environ.get("SUITE_SEED", "1"))
    with open(os.environ["SUITE_NOW"] + ".count", "w", encoding="utf-8") as file:
        file.write(str(len(every)))
    chosen = every[:count] if count else every
    done = _done()
    kept = [item for key, item in chosen if key[-1] % shards == shard and _name_of[item.nodeid] not in done]
    left = set(items) - set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = kept


def pytest_collection_finish(session):
    """coremltools' convert() ends with gc.collect(), which takes 0.6 s where it walks the objects of 30,000 tests: three quarters
    of all time. They are set aside; what a test makes is collected as before."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    seconds = float(os.environ.get("SUITE_SECONDS", "0"))
    if seconds and time.process_time() > seconds:
        item.session.shouldstop = "the processor time that was asked for is used"


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
    outcome = "skipped" if missing else report.outcome
    with open(os.environ["SUITE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": _name_of[report.nodeid], "outcome": outcome, "predictions": predictions,
                               "seconds": round(time.process_time() - began, 3), "why": " ".join(said)[:600]}) + "\n")
    os.unlink(os.environ["SUITE_NOW"])
