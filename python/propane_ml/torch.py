# SPDX-License-Identifier: MIT
"""Owns programs as torch.nn.Modules: outputs are the program's, and gradients those of Propane's reverse mode (MIL in, MIL
out), so that the same program that an engine would run is part of a PyTorch graph.

    layer = propane_ml.torch.Module(propane_ml.load("block.mil"))
    layer(x).sum().backward()

Tensors must be on the CPU. They are shared with the program, not copied, if type and layout allow.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import torch

from .error import Path, invalid
from .program import Program, load

_FLOATS = ("float16", "float32", "bfloat16")


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, module: Module, *given: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.module = module
        ctx.save_for_backward(*given)
        made = module.program.predict({n: v.detach().contiguous() for n, v in zip(module.inputs, given)},
                                      function=module.function)
        results = tuple(torch.from_numpy(made[name]) for name in module.outputs)
        ctx.mark_non_differentiable(*(r for r in results if not r.is_floating_point()))
        return results

    @staticmethod
    def backward(ctx: Any, *adjoints: torch.Tensor) -> Tuple[Optional[torch.Tensor], ...]:
        module, given = ctx.module, ctx.saved_tensors
        wanted = [n for n, needed in zip(module.inputs, ctx.needs_input_grad[1:]) if needed]
        values = {n: v.detach().contiguous() for n, v in zip(module.inputs, given)}
        for name, adjoint in zip(module.outputs, adjoints):
            if module.is_float[name]:
                values["d_" + name] = adjoint.detach().contiguous()
        made = module.gradient_of(wanted).predict(values)
        types = dict(zip(module.inputs, given))
        return (None, *(torch.from_numpy(made["d_" + n]).to(types[n].dtype) if n in wanted else None for n in module.inputs))


class Module(torch.nn.Module):
    """One function of a program as a layer. It takes tensors by name or in the order of its inputs, and returns one tensor,
    or a dict if there are several outputs. The program's own weights are constants; only the inputs have gradients."""

    def __init__(self, program: Union[Program, Path], *, function: Optional[str] = None) -> None:
        super().__init__()
        self.program = program if isinstance(program, Program) else load(program)
        self.function = function or self.program.function
        inputs, outputs, states = self.program.features(self.function)
        if states:
            raise invalid("a program with states is no layer: there is no gradient through a state")
        self.inputs: List[str] = [f.name for f in inputs]
        self.outputs: List[str] = [f.name for f in outputs]
        self.is_float = {f.name: f.dtype in _FLOATS for f in (*inputs, *outputs)}
        self._gradients: Dict[Tuple[str, ...], Program] = {}

    def gradient_of(self, wrt: Sequence[str]) -> Program:
        """Returns the program that backward() runs for these inputs."""
        key = tuple(wrt)
        if key not in self._gradients:
            self._gradients[key] = self.program.gradient(list(wrt), function=self.function)
        return self._gradients[key]

    def forward(self, *given: torch.Tensor, **named: torch.Tensor) -> Any:
        values = dict(zip(self.inputs, given), **named)
        missing = [n for n in self.inputs if n not in values]
        if missing or len(given) + len(named) != len(self.inputs):
            raise invalid(f"the layer takes {', '.join(self.inputs)}" + (f"; missing: {', '.join(missing)}" if missing else ""))
        made = _Call.apply(self, *(values[n] for n in self.inputs))
        return made[0] if len(made) == 1 else dict(zip(self.outputs, made))


__all__ = ["Module"]
