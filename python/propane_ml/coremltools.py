# SPDX-License-Identifier: MIT
"""Owns coremltools' predict() on any machine. enable() puts Propane where coremltools looks for Core ML's framework, so that
MLModel(...).predict, make_state, batches, functions, classifiers, images, flexible shapes and compiled models work.

    import coremltools as ct, propane_ml.coremltools
    propane_ml.coremltools.enable()
    ct.models.MLModel("Model.mlpackage").predict({"x": array})

Nothing on disk is changed, and nothing is copied from coremltools. This module provides the names that coremltools imports from
its own extension on a Mac, and disable() removes them again. Arrays are converted as in its bridge to Core ML: integer inputs
accept integral floats, float64, lists and numbers; float16 outputs are returned as float32, single numbers as [1], and
images as PIL images.
"""
from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import sys
import tempfile
import time
import types
import warnings
import weakref
from typing import Any, Dict, Iterator, List, Mapping, Optional

import numpy as np

from .error import PropaneError, invalid
from .program import Feature, Program, load
from .session import Shapes, State
from .structure import plan_of, structure_of

_DEVICES = {"ALL": "cpu", "CPU_ONLY": "cpu", "CPU_AND_GPU": "cpu", "CPU_AND_NE": "cpu"}
_devices: Dict[str, str] = dict(_DEVICES)
_precision: Optional[str] = None
_undo: List[Any] = []
_MACOS = (15, 5)
_SPECIFICATION = 9  # iOS 18: the newest version that Propane reads


class _State:
    """The object behind MLState."""

    def __init__(self, program: Program, features: List[Feature]) -> None:
        self.state, self._names = program.make_state(), {f.name: f for f in features}
        for f in features:
            self.state.write(f.name, np.zeros(f.shape, np.float16 if f.dtype == "float16" else np.float32))

    def read_state(self, name: str) -> Any:
        value = self.state.read(self._known(name))
        return value.astype(np.float32) if value.dtype == np.float16 else value

    def write_state(self, name: str, value: Any) -> None:
        feature, value = self._names[self._known(name)], np.asarray(value)
        if value.shape != feature.shape:
            raise invalid(f"state '{name}' has the shape {list(feature.shape)}; the value has {list(value.shape)}")
        self.state.write(name, value)

    def _known(self, name: str) -> str:
        if name not in self._names:
            raise invalid(f"there is no state '{name}'; available: {', '.join(self._names)}")
        return name


def _private(path: str) -> str:
    """Makes the model's files available under a separate name, as links if possible: coremltools removes what it saved for
    itself, and shapes are chosen only when arrays arrive."""
    folder = tempfile.mkdtemp(prefix="propane_ml.")
    to = os.path.join(folder, os.path.basename(path.rstrip("/")) or "model")

    def link(source: str, target: str) -> str:
        try:
            os.link(source, target)
        except OSError:
            shutil.copy2(source, target)
        return target
    if os.path.isdir(path):
        shutil.copytree(path, to, copy_function=link)
    else:
        link(path, to)
    return to


def _renamed(path: str, function: str, inputs: List[Feature], outputs: List[Feature]) -> Dict[str, str]:
    """A result that is also an input becomes an identity here, with its own name; this returns the name in the file."""
    names = [f.name for f in inputs]
    if not any(f.name.startswith(name + "_out") for f in outputs for name in names):
        return {}
    try:
        description = importlib.import_module("coremltools.models.utils").load_spec(path).description
    except Exception:  # a compiled model: it has no such file
        return {}
    of = [f.output for f in description.functions if f.name == function] or [description.output]
    theirs = list(dict.fromkeys(f.name for f in of[0]))  # a result that is twice an output has one value
    return {f.name: name for f, name in zip(outputs, theirs) if f.name != name and f.called != name} if len(theirs) == len(outputs) else {}


def _is_flexible(path: str) -> bool:
    """Returns whether an input of the file may have shapes other than its default. A neural network of the first versions
    accepts sequences and batches of the described input."""
    try:
        spec = importlib.import_module("coremltools.models.utils").load_spec(path)
    except Exception:  # a compiled model: it has no such file
        return False
    description = spec.description
    if (spec.WhichOneof("Type") or "").startswith("neuralNetwork") and spec.specificationVersion < 4:
        return True
    kinds = [f.type.multiArrayType for d in [description, *description.functions] for f in d.input]
    return any(kind.WhichOneof("ShapeFlexibility") for kind in kinds)


def _allowed(feature: Feature, shape: Any) -> None:
    """Refuses a shape that the file does not allow, with the wording of Core ML."""
    if len(shape) != len(feature.shape):
        return
    if feature.kind == "array" and len(feature.shapes) > 1 and tuple(shape) not in feature.shapes:
        raise invalid(f"MultiArray Shape ({' x '.join(map(str, shape))}) was not in enumerated set of allowed shapes")
    for d, size in enumerate(shape):
        if size < feature.least[d] or (feature.most[d] >= 0 and size > feature.most[d]):
            raise invalid(f"input '{feature.name}': Size ({size}) of dimension ({d}) is not in allowed range "
                          f"({feature.least[d]}..{feature.most[d] if feature.most[d] >= 0 else ''})")


class _MLModelProxy:
    """The object behind MLModel and CompiledMLModel, under the name that coremltools uses for it."""

    def __init__(self, filename: str, compute_units: str = "ALL", function_name: str = "",
                 optimization_hints: Any = None, asset: Any = None) -> None:
        begin = time.perf_counter_ns()
        self.path = _private(filename if asset is None else asset.path)
        weakref.finalize(self, shutil.rmtree, os.path.dirname(self.path), ignore_errors=True)
        self._device, self._function, self._unfit = _devices[compute_units], function_name, None  # type: Any, str, Any
        self.program: Optional[Program] = None
        try:
            self._load({})
        except PropaneError as error:
            if error.status != "invalid" or not _is_flexible(self.path):
                raise
            self._unfit = error  # no shape that was tried fits the program: the arrays' shapes decide
        self._load_ns, self._predict_ns = time.perf_counter_ns() - begin, None  # type: Any, Any

    def _load(self, shapes: Shapes) -> None:
        program = load(self.path, device=self._device, precision=_precision, shapes=shapes)
        self.function = self._function or program.function
        self.inputs, self.outputs, self.states = program.features(self.function)
        counts = {f.rows for f in self.outputs}
        self._arrays = [f.called or f.name for f in self.outputs if f.kind == "array" and f.name not in counts]
        self._renamed = _renamed(self.path, self.function, self.inputs, self.outputs)
        self._open = {f.name: f for f in self.inputs if f.flexible}
        self._images = [f for f in self.outputs if f.kind == "image"]
        program._session_of(self.function, ())  # report now if it cannot run
        self.program = program

    def _loaded(self) -> Program:
        if self.program is None:
            raise self._unfit
        return self.program

    def _whole(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Core ML accepts float arrays for integer inputs (coremltools' own assert_model_is_valid passes such arrays). What
        happens to fractions is not documented anywhere; here they are truncated, as NSNumber's intValue does."""
        changed = {}
        for feature in self.inputs:
            given = data.get(feature.name)
            if feature.kind != "array" or not feature.dtype.startswith(("int", "uint")) or not isinstance(given, np.ndarray):
                continue
            if given.dtype.kind == "f" and bool(np.isfinite(given).all()) and bool((given != np.trunc(given)).any()):
                warnings.warn(f"'{feature.name}' has fractions, but the input needs integers ({feature.dtype}); they are truncated",
                              RuntimeWarning, stacklevel=4)
                changed[feature.name] = np.trunc(given)
        return {**data, **changed} if changed else data

    def predict(self, data: Mapping[str, Any], state: Optional[_State] = None) -> Dict[str, Any]:
        begin = time.perf_counter_ns()
        if self.program is None:
            self._load({name: np.shape(value) for name, value in data.items() if np.ndim(value)})
        program = self._loaded()
        if self.states and state is None:
            raise invalid(f"the input feature for {self.states[0].name} must be an MLState: give predict() the state of "
                          "make_state()")
        for name, feature in self._open.items():
            if name in data:
                _allowed(feature, np.shape(data[name]))
        try:
            made = program.predict(self._whole(data), function=self.function, state=state.state if state else None)
        except PropaneError as error:  # callers look for the beginning of Core ML's sentence
            raise PropaneError(error.code, f"Unable to compute the prediction using ML Program: {error}") from error
        for name in self._arrays:
            if made[name].dtype == np.float16:
                made[name] = made[name].astype(np.float32)
            if made[name].ndim == 0:  # Core ML has no scalars
                made[name] = made[name].reshape(1)
        for feature in self._images:
            made[feature.name] = _image(feature, made[feature.name])
        for name, theirs in self._renamed.items():
            made[theirs] = made.pop(name)
        self._predict_ns = time.perf_counter_ns() - begin
        return made

    def batchPredict(self, data: List[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        return [self.predict(one) for one in data]

    def newState(self) -> _State:
        return _State(self._loaded(), self.states)

    def get_compiled_model_path(self) -> str:
        """Returns the copy of the model that is open here. As in a model compiled by Core ML, model.mil contains its program
        as text."""
        text = os.path.join(self.path, "model.mil")
        if os.path.isdir(self.path) and not os.path.exists(text):
            program = self._loaded()
            short = program.text()  # programs before iOS 18 are in the older of the two dialects
            with open(text, "w", encoding="utf-8") as file:
                file.write(short if "<ios18>(" in short else program.text(canonical=True))
        return self.path

    def get_load_duration_in_nano_seconds(self) -> int:
        return int(self._load_ns)

    def get_last_predict_duration_in_nano_seconds(self) -> Optional[int]:
        return None if self._predict_ns is None else int(self._predict_ns)

    @staticmethod
    def maximum_supported_specification_version() -> int:
        return _SPECIFICATION

    @staticmethod
    def auto_set_specification_version(spec: Any) -> Any:
        return spec

    @staticmethod
    def compileModel(path: str) -> str:
        """Copies the package, or makes one of a model file, under a compiled model's name. It is compiled for a device when it
        is opened."""
        load(path).close()
        folder = tempfile.mkdtemp(prefix="propane_ml.")
        to = os.path.join(folder, os.path.splitext(os.path.basename(path.rstrip("/")))[0] + ".mlmodelc")
        if os.path.isdir(path):
            shutil.copytree(path, to)
        else:
            os.makedirs(os.path.join(to, "Data", "com.apple.CoreML"))
            shutil.copy2(path, os.path.join(to, "Data", "com.apple.CoreML", "model.mlmodel"))
            _write_manifest(to)
        return to

    @staticmethod
    def create_model_asset_from_path(path: str) -> Any:
        return _asset_class()(_MLModelAssetProxy(path))

    @staticmethod
    def create_model_asset_from_memory(spec_data: bytes, blob_mapping: Mapping[str, bytes]) -> Any:
        return _asset_class()(_MLModelAssetProxy(None, spec_data, blob_mapping))

    @staticmethod
    def get_available_compute_devices() -> List[Any]:
        device = importlib.import_module("coremltools.models.compute_device")
        return [device.MLCPUComputeDevice(device._MLCPUComputeDeviceProxy())]

    get_all_compute_devices = get_available_compute_devices

    @staticmethod
    def get_compute_plan(path: str, compute_units: str) -> Any:
        proxy = importlib.import_module("coremltools.models.compute_plan")._MLComputePlanProxy
        return plan_of(path, proxy, _MLModelProxy.get_available_compute_devices()[0])

    @staticmethod
    def get_model_structure(path: str) -> Any:
        return structure_of(path)


def _write_manifest(package: str) -> None:
    with open(os.path.join(package, "Manifest.json"), "w", encoding="utf-8") as manifest:
        manifest.write('{"fileFormatVersion": "1.0.0", "itemInfoEntries": {"1": {"author": "com.apple.CoreML", '
                       '"name": "model.mlmodel", "path": "com.apple.CoreML/model.mlmodel", "description": ""}}, '
                       '"rootModelIdentifier": "1"}')


class _MLModelAssetProxy:
    """A model in a file or in memory. A model in memory is written to disk for the lifetime of the asset."""

    def __init__(self, path: Optional[str], spec: bytes = b"", blobs: Mapping[str, bytes] = types.MappingProxyType({})) -> None:
        if path is None:
            folder = tempfile.mkdtemp(prefix="propane_ml.")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, "model.mlpackage")
            data = os.path.join(path, "Data", "com.apple.CoreML")
            os.makedirs(data)
            with open(os.path.join(data, "model.mlmodel"), "wb") as file:
                file.write(spec)
            for name, blob in blobs.items():
                place = os.path.normpath(os.path.join(data, name.replace("@model_path", "").lstrip("/")))
                if not place.startswith(data + os.sep):
                    raise invalid(f"a blob's path must stay in the model: '{name}'")
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, "wb") as file:
                    file.write(blob)
            _write_manifest(path)
        self.path = path


def _asset_class() -> Any:
    return importlib.import_module("coremltools.models.model").MLModelAsset


def _image(feature: Feature, value: Any) -> Any:
    """Converts [1, channels, height, width] to the images that coremltools returns: RGBA, L, or F for float16."""
    from PIL import Image
    planes = np.asarray(value, np.float32).reshape(value.shape[-3:])
    if feature.colour == "gray_fp16":
        return Image.fromarray(planes[0])
    bytes_of = np.clip(np.rint(planes), 0, 255).astype(np.uint8)
    if feature.colour == "gray":
        return Image.fromarray(bytes_of[0])
    rgb = bytes_of[::-1] if feature.colour == "bgr" else bytes_of
    full = np.concatenate([rgb, np.full((1,) + rgb.shape[1:], 255, np.uint8)])
    return Image.fromarray(np.ascontiguousarray(full.transpose(1, 2, 0)), "RGBA")


def _set(module: Any, name: str, value: Any) -> None:
    missing = object()
    before = getattr(module, name, missing)
    setattr(module, name, value)
    _undo.append((lambda: delattr(module, name)) if before is missing else (lambda: setattr(module, name, before)))


def _set_everywhere(name: str, value: Any) -> None:
    """Replaces the name in coremltools.models.utils and in every module that imported it by name, as the quantization of the
    older format did. Modules that import it while Propane is enabled are restored by the undo."""
    before = getattr(importlib.import_module("coremltools.models.utils"), name)

    def swap(old: Any, new: Any) -> None:
        for key, module in list(sys.modules.items()):
            if key.startswith("coremltools.") and vars(module).get(name) is old:
                setattr(module, name, new)
    swap(before, value)
    _undo.append(lambda: swap(value, before))


def _framework() -> types.ModuleType:
    """Returns a module with the names that coremltools imports from its extension."""
    fake = types.ModuleType("coremltools.libcoremlpython", "Propane instead of Core ML")
    for kind in (_MLModelProxy, _MLModelAssetProxy):
        setattr(fake, kind.__name__, kind)
    for name in ("_MLComputePlanProxy", "_MLModelStructureProxy", "_MLCPUComputeDeviceProxy", "_MLGPUComputeDeviceProxy",
                 "_MLNeuralEngineComputeDeviceProxy", "_MLComputePlanDeviceUsageProxy", "_MLComputePlanCostProxy",
                 "_MLModelStructureProgramProxy", "_MLModelStructureNeuralNetworkProxy", "_MLModelStructurePipelineProxy"):
        setattr(fake, name, type(name, (), {}))
    return fake


def enable(*, cpu: str = "cpu", neural_engine: Optional[str] = None, precision: Optional[str] = None) -> None:
    """Makes coremltools predict through Propane in this process from now on. If called again, the new choices apply to
    models loaded afterwards.

    cpu: the device for ComputeUnit.CPU_ONLY and CPU_AND_GPU. neural_engine: the device for ALL and CPU_AND_NE ("sim:m4"
    follows an M4's rules and rounding; None: the same as `cpu`). precision: None for the program's own types, "fp32", or
    "bf16".
    """
    global _precision
    engine = neural_engine or cpu
    _devices.update(ALL=engine, CPU_AND_NE=engine, CPU_ONLY=cpu, CPU_AND_GPU=cpu)
    _precision = precision
    if _undo:
        return
    had = sys.modules.get("coremltools.libcoremlpython")
    fake = _framework()
    sys.modules["coremltools.libcoremlpython"] = fake
    _undo.append(lambda: sys.modules.pop("coremltools.libcoremlpython", None) if had is None
                 else sys.modules.__setitem__("coremltools.libcoremlpython", had))
    _set(importlib.import_module("coremltools"), "libcoremlpython", fake)
    for name in ("utils", "model", "_compiled_model", "compute_device", "compute_plan"):
        module = importlib.import_module("coremltools.models." + name)
        for word in vars(fake):
            if word.startswith("_ML") and hasattr(module, word):
                _set(module, word, getattr(fake, word))
    _set_everywhere("_macos_version", lambda: _MACOS)
    _set_everywhere("_is_macos", lambda: True)


def disable() -> None:
    """Restores coremltools. Models that were loaded before continue to predict."""
    while _undo:
        _undo.pop()()
    _devices.update(_DEVICES)


@contextlib.contextmanager
def enabled(*, cpu: str = "cpu", neural_engine: Optional[str] = None, precision: Optional[str] = None) -> Iterator[None]:
    """Context manager that calls enable() and restores coremltools at the end."""
    enable(cpu=cpu, neural_engine=neural_engine, precision=precision)
    try:
        yield
    finally:
        disable()


__all__ = ["enable", "enabled", "disable", "State"]
