# SPDX-License-Identifier: MIT
"""A pytest plugin: coremltools' own tests, their predictions made by Propane. suite.py starts it; it is told by SUITE_SEED,
SUITE_TESTS (how many, 0: all), SUITE_SHARD ("0/2") and SUITE_RESULTS (a file of JSON lines).

A sample is the tests whose names hash lowest with the seed, so that every seed gives another one and a test that is added
changes one place. Tests of the older neural-network format are left out. What a test did is told too: whether it predicted."""
import hashlib
import json
import os

import pytest

try:
    import torch  # noqa: F401  before anything is bent
except ImportError:
    pass

import propane_ml.coremltools as bridge

bridge.enable()
import coremltools._deps as deps  # noqa: E402

deps._IS_MACOS = True  # what their comparisons ask before they predict
predictions = 0
_predict = bridge._MLModelProxy.predict


def _counted(self, *given):
    global predictions
    predictions += 1
    return _predict(self, *given)


bridge._MLModelProxy.predict = _counted


def _is_of_today(item):
    """No test of the older format: its backend is a parameter, or stands in its name."""
    values = getattr(getattr(item, "callspec", None), "params", {}).values()
    return "neuralnetwork" not in item.nodeid and not any(
        getattr(v, "backend", v[0] if isinstance(v, tuple) and v else None) == "neuralnetwork" for v in values)


@pytest.hookimpl(trylast=True)  # behind -k
def pytest_collection_modifyitems(config, items):
    seed, count = os.environ.get("SUITE_SEED", "1"), int(os.environ.get("SUITE_TESTS", "0"))
    shard, shards = map(int, os.environ.get("SUITE_SHARD", "0/1").split("/"))
    kept = [item for item in items if _is_of_today(item)]
    kept.sort(key=lambda item: hashlib.sha256((seed + item.nodeid).encode()).digest())
    if count:
        kept = kept[:count]
    kept = kept[shard::shards]
    kept.sort(key=lambda item: item.nodeid)
    config.hook.pytest_deselected(items=list(set(items) - set(kept)))
    items[:] = kept


def pytest_runtest_logstart(nodeid, location):
    global predictions
    predictions = 0


def pytest_runtest_logreport(report):
    if report.when != "call" and report.outcome == "passed":
        return
    if report.when == "teardown":
        return
    lines = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr or "").strip().splitlines()
    said = [line[1:].strip() for line in lines if line.startswith("E ")] or lines[-1:]
    # A package that they would use and that is not here says nothing of Propane.
    outcome = "skipped" if any("No module named" in line for line in said) else report.outcome
    with open(os.environ["SUITE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"test": report.nodeid, "outcome": outcome, "predictions": predictions,
                               "seconds": round(report.duration, 3), "why": " ".join(said)[:600]}) + "\n")
