# SPDX-License-Identifier: MIT
"""Owns the properties of a compiled model that coremltools queries: its structure (MLModelStructure), and a plan (MLComputePlan) of
where Propane runs it, which is the CPU throughout. Core ML's own plan is known only on an Apple device."""
from __future__ import annotations

import importlib
import os
import tempfile
from typing import Any

from ._propane import lib
from .error import PropaneError
from .program import load


def _classes() -> Any:
    return importlib.import_module("coremltools.models.compute_plan")


def _specification(path: str) -> Any:
    """Returns the specification of a package or model. A model that Core ML's compiler made has none, so the program is written
    as a package."""
    utils = importlib.import_module("coremltools.models.utils")
    if os.path.exists(os.path.join(path, "Manifest.json")) or os.path.isfile(path):
        return utils.load_spec(path)
    with tempfile.TemporaryDirectory() as folder:
        package = os.path.join(folder, "model.mlpackage")
        with load(path) as program:
            program.save(package)
        return utils.load_spec(package)


def _argument(argument: Any) -> Any:
    c = _classes()
    bindings = [c.MLModelStructureProgramBinding(name=b.name, value=None) if b.WhichOneof("binding") == "name"
                else c.MLModelStructureProgramBinding(name=None, value=c.MLModelStructureProgramValue()) for b in argument.arguments]
    return c.MLModelStructureProgramArgument(bindings=bindings)


def _named(values: Any) -> Any:
    c = _classes()
    return [c.MLModelStructureProgramNamedValueType(name=v.name, type=c.MLModelStructureProgramValueType()) for v in values]


def _block(block: Any) -> Any:
    c = _classes()
    operations = [c.MLModelStructureProgramOperation(
        inputs={name: _argument(argument) for name, argument in op.inputs.items()}, operator_name=op.type,
        outputs=_named(op.outputs), blocks=[_block(b) for b in op.blocks], __proxy__=None) for op in block.operations]
    return c.MLModelStructureProgramBlock(inputs=_named(block.inputs), operations=operations, output_names=list(block.outputs))


def _of(spec: Any) -> Any:
    c, kind = _classes(), spec.WhichOneof("Type") or ""
    network = program = pipeline = None
    if kind == "mlProgram":
        program = c.MLModelStructureProgram(functions={
            name: c.MLModelStructureProgramFunction(inputs=_named(f.inputs), block=_block(f.block_specializations[f.opset]))
            for name, f in spec.mlProgram.functions.items()})
    elif kind.startswith("neuralNetwork"):
        network = c.MLModelStructureNeuralNetwork(layers=[
            c.MLModelStructureNeuralNetworkLayer(name=layer.name, type=layer.WhichOneof("layer"), input_names=list(layer.input),
                                                 output_names=list(layer.output), __proxy__=None)
            for layer in getattr(spec, kind).layers])
    elif kind.startswith("pipeline"):
        whole = spec.pipeline if kind == "pipeline" else getattr(spec, kind).pipeline
        names = list(whole.names) or [f"model{i}" for i in range(len(whole.models))]
        pipeline = c.MLModelStructurePipeline(sub_models={name: _of(model) for name, model in zip(names, whole.models)})
    return c.MLModelStructure(neuralnetwork=network, program=program, pipeline=pipeline)


def structure_of(path: str) -> Any:
    """Returns the MLModelStructure of a compiled model, package or model file. Layers of a neural network have the names of
    its specification; those of Core ML's compiled networks are documented nowhere."""
    if not os.path.exists(path):
        raise PropaneError(lib.PROPANE_ERR_NOT_FOUND, f"{path} does not exist")
    return _of(_specification(path))


def plan_of(path: str, proxy: Any, device: Any) -> Any:
    """Returns an MLComputePlan in which each operation runs on `device`. A constant has no device, and costs are unknown."""
    c = _classes()

    def usage(item: Any) -> Any:
        if getattr(item, "operator_name", "") == "const":
            return None
        return c.MLComputePlanDeviceUsage(preferred_compute_device=device, supported_compute_devices=[device])
    plan = proxy()
    plan.model_structure = structure_of(path)
    plan.get_compute_device_usage_for_mlprogram_operation = usage
    plan.get_compute_device_usage_for_neuralnetwork_layer = usage
    plan.get_estimated_cost_for_mlprogram_operation = lambda operation: None
    return c.MLComputePlan(plan)
