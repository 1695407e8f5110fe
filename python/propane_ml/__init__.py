# SPDX-License-Identifier: MIT
"""Propane: train, run and check neural networks as the programs that an Apple Neural Engine runs, on any machine.

    import propane_ml as propane
    model = propane.load("Model.mlpackage")       # a package, a compiled model, MIL text
    model.predict({"image": array})               # NumPy in, NumPy out
    model.check(target="m1,m4")                   # which known engine rules it violates
    model.estimate(target="m4")                   # estimated time and energy
    llm = propane.Model.from_pretrained("folder-or.gguf")
    for piece in llm.generate("Once upon a time"): print(piece, end="")

Names are imported on first use, so that `import propane_ml` costs nothing. Every failure is a PropaneError.
"""
from importlib import import_module as _import_module

_PLACES = {
    "PropaneError": "error", "version": "process", "threads": "process", "set_threads": "process", "set_verify": "process", "on_log": "process",
    "empty": "arrays", "load": "program", "parse": "program", "Program": "program", "Feature": "program",
    "State": "session", "Session": "session", "NonfiniteWarning": "nonfinite", "Device": "device", "devices": "device", "operations": "device",
    "Report": "report", "Finding": "report", "Verdict": "report", "Estimate": "report", "EstimateRow": "report",
    "Table": "report", "check": "report", "Model": "language", "Tokenizer": "language", "Token": "language",
    "Generation": "language", "Text": "language", "Trainer": "trainer", "Callbacks": "trainer", "Step": "trainer", "Evaluation": "trainer",
    "History": "trainer", "options": "trainer",
}
__all__ = sorted(_PLACES)


def __getattr__(name):
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'propane_ml' has no attribute {name!r}")
    value = getattr(_import_module("propane_ml." + place), name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
