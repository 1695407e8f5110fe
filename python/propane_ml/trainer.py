# SPDX-License-Identifier: MIT
"""Owns training: language models and programs, with the options of `propane train` by name. One idea: callbacks and Ctrl-C
end the run after its batch, with the checkpoint written, and their exceptions are then raised again from run()."""
from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import arrays
from ._propane import ffi, lib
from .error import Handle, Path, check, error, invalid, path_chars, raise_interrupt, structure, taken, text, utf8
from .language import Model, Tokenizer
from .program import Program, load
from .report import Table

_PROGRAMS = (".mlpackage", ".mlmodelc", ".mlmodel", ".mil")


@dataclass(frozen=True)
class Step:
    """One step: the mean loss over its batches (for language models in nats per token), and tokens or samples per second.
    skipped: a gradient was not finite, so the weights did not change."""
    step: int
    loss: float
    lr: float
    gradient_norm: float
    loss_scale: float
    skipped: bool
    rate: float


@dataclass(frozen=True)
class Evaluation:
    """Results on the held-out data; accuracy and nats_per_byte are None if they are not known."""
    step: int
    loss: float
    nats_per_byte: Optional[float]
    accuracy: Optional[float]


class Callbacks:
    """What a run reports. Override the methods that you need; an exception ends the run and is raised by run()."""

    def on_step(self, step: Step) -> None:
        pass

    def on_evaluation(self, evaluation: Evaluation) -> None:
        pass

    def on_checkpoint(self, step: int, path: str) -> None:
        pass


class History:
    """The losses of a run: print it, or let a notebook plot it."""

    def __init__(self) -> None:
        self.steps: List[Step] = []
        self.evaluations: List[Evaluation] = []

    @property
    def losses(self) -> List[float]:
        return [step.loss for step in self.steps]

    def __repr__(self) -> str:
        if not self.steps:
            return "<History, no steps>"
        last = f", held out {self.evaluations[-1].loss:.4f}" if self.evaluations else ""
        return f"<History, {len(self.steps)} steps, loss {self.steps[0].loss:.4f} to {self.steps[-1].loss:.4f}{last}>"

    def _repr_html_(self) -> str:
        values = [(s.step, s.loss) for s in self.steps if np.isfinite(s.loss)]
        if len(values) < 2:
            return f"<p>{len(values)} steps</p>"
        return _curve(values, [(e.step, e.loss) for e in self.evaluations if np.isfinite(e.loss)])


def _curve(values: Sequence[Tuple[int, float]], held_out: Sequence[Tuple[int, float]]) -> str:
    width, height, left, foot = 560, 200, 50, 20
    every = list(values) + list(held_out)
    low, high = min(v for _, v in every), max(v for _, v in every)
    first, last, span = every[0][0], max(s for s, _ in every), max(high - low, 1e-12)

    def place(step: int, value: float) -> str:
        x = left + (width - left - 5) * (step - first) / max(1, last - first)
        return f"{x:.1f},{5 + (height - foot - 10) * (high - value) / span:.1f}"
    line = " ".join(place(*v) for v in values[::max(1, len(values) // 2000)])
    dots = "".join('<circle cx="{}" cy="{}" r="3" fill="#b9770e"/>'.format(*place(*v).split(",")) for v in held_out)
    words = (f'<text x="2" y="14">{high:.3g}</text><text x="2" y="{height - foot - 4}">{low:.3g}</text>'
             f'<text x="{left}" y="{height - 4}">step {first}</text>'
             f'<text x="{width - 5}" y="{height - 4}" text-anchor="end">{last}</text>')
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" font-size="11" font-family="sans-serif" fill="#555">'
            f'<polyline points="{line}" fill="none" stroke="#2e6da4" stroke-width="1.3"/>{dots}{words}</svg>')


class _Watch:
    """The object that receives the library's callbacks: it keeps the history, calls the caller's callbacks, and remembers their
    exceptions."""

    def __init__(self, trainer: Trainer, callbacks: Sequence[Callbacks], progress: Optional[bool]) -> None:
        self.trainer, self.callbacks, self.failure = trainer, callbacks, None  # type: Any, Any, Optional[BaseException]
        self.line = sys.stderr.isatty() if progress is None else progress

    def tell(self, name: str, *what: Any) -> None:
        try:
            for callback in self.callbacks:
                getattr(callback, name)(*what)
            if self.line and name == "on_step":
                step, info = what[0], self.trainer.steps
                sys.stderr.write(f"\rstep {step.step} of {info}  loss {step.loss:.4f}  {step.rate:.0f} {self.trainer.unit}/s ")
                sys.stderr.write("\n" if step.step == info else "")
                sys.stderr.flush()
        except BaseException as failure:  # Ctrl-C too
            self.stop(failure)

    def stop(self, failure: BaseException) -> None:
        self.failure = self.failure or failure
        lib.propane_trainer_cancel(self.trainer._pointer)


def _keep(rows: List[Any], row: Any, of: Any) -> None:
    """Adds a step to the history, once; step numbers only increase."""
    if not rows or rows[-1].step != int(row.step):
        rows.append(of(row))


def _escaped(kind: Any, failure: BaseException, trace: Any) -> None:
    """Handles an exception between the library and tell(), such as Ctrl-C in a callback's own lines. Completed steps are in
    the history in any case."""
    frame = trace.tb_frame if trace else None
    if frame is None or "context" not in frame.f_locals:
        return
    watch, row = ffi.from_handle(frame.f_locals["context"]), frame.f_locals.get("row")
    if row is not None:
        history, step = watch.trainer.history, ffi.typeof(row) is ffi.typeof("propane_step *")
        _keep(history.steps if step else history.evaluations, row, _step if step else _evaluation)
    watch.stop(failure)


def _step(row: Any) -> Step:
    return Step(int(row.step), row.loss, row.lr, row.gradient_norm, row.loss_scale, bool(row.skipped), row.rate)


def _evaluation(row: Any) -> Evaluation:
    return Evaluation(int(row.step), row.loss, row.nats_per_byte if row.nats_per_byte >= 0 else None,
                      row.accuracy if row.accuracy >= 0 else None)


@ffi.def_extern(onerror=_escaped)
def propane_ml_on_step(context: Any, row: Any) -> None:
    watch = ffi.from_handle(context)
    _keep(watch.trainer.history.steps, row, _step)
    watch.tell("on_step", watch.trainer.history.steps[-1])


@ffi.def_extern(onerror=_escaped)
def propane_ml_on_evaluation(context: Any, row: Any) -> None:
    watch, evaluation = ffi.from_handle(context), _evaluation(row)
    watch.trainer.history.evaluations.append(evaluation)
    watch.tell("on_evaluation", evaluation)


@ffi.def_extern(onerror=_escaped)
def propane_ml_on_checkpoint(context: Any, step: int, path: Any) -> None:
    ffi.from_handle(context).tell("on_checkpoint", int(step), text(path))


class _Options(Handle):
    def __init__(self, kind: int) -> None:
        out, err = ffi.new("propane_options **"), error()
        check(lib.propane_options_create(kind, out, err), err)
        self._own(out[0], lib.propane_options_free)

    def set(self, name: str, value: Any) -> None:
        err = error()
        for one in value if isinstance(value, (list, tuple)) else [value]:
            word = str(one).lower() if isinstance(one, bool) else os.fspath(one) if isinstance(one, os.PathLike) else str(one)
            check(lib.propane_options_set(self._alive(), utf8(name.replace("_", "-")), utf8(word), err), err)

    def table(self) -> Table:
        info, rows, index = structure("propane_option_info"), [], 0
        while lib.propane_options_describe(self._alive(), index, info):
            rows.append((text(info.name).replace("-", "_"), text(info.type), text(info.standard) if info.standard else "",
                         text(info.help)))
            index += 1
        return Table(("option", "type", "default", "meaning"), rows)


def options(of: str = "language") -> Table:
    """Returns the options that Trainer accepts, for "language" or "program": type, default, meaning."""
    return _Options(lib.PROPANE_TRAIN_PROGRAM if of == "program" else lib.PROPANE_TRAIN_LANGUAGE).table()


def _tensors(given: Mapping[str, Any], keep: List[Any]) -> Any:
    rows = ffi.new("propane_tensor[]", max(1, len(given)))
    for row, (name, value) in zip(rows, given.items()):
        array, code = arrays.take(value)
        if code < 0:
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
            code = lib.PROPANE_FP32 if array.dtype.kind == "f" else lib.PROPANE_INT32
        array = np.ascontiguousarray(array)
        if array.ndim < 1 or array.ndim > lib.PROPANE_MAX_RANK:
            raise invalid(f"'{name}' has {array.ndim} dimensions; samples are counted by the first of 1 to 8")
        keep += [array, ffi.new("char[]", utf8(name)), ffi.from_buffer(array)]
        row.name, row.values, row.dtype, row.rank = keep[-2], keep[-1], code, array.ndim
        row.dim[0:array.ndim] = list(array.shape)
    return rows


class Trainer(Handle):
    """Trains a language model from scratch or from `model`, or the weights of a program.

    model: a Model's path (None: a new one with the sizes in the options), a Program, or a program's path. data: a file as
    for `propane train --data`. `text`, `ids` (with a tokenizer) and `examples` (a list of {"prompt", "completion"} or
    {"messages"}) are training data from memory; for a program, a dict of arrays with its inputs and "y". validation: the
    same, for a program. lora: the rank of adapters to train instead of the weights. tokenizer: a Tokenizer, or a file.
    options: those of `propane train` with _ instead of -, as options() lists them: lr=3e-4, steps=100, run="folder",
    device="sim:m4".

        trainer = Trainer(text=words, steps=200, layers=2, width=64)
        history = trainer.run()
        trainer.model().complete("Once").text
    """

    def __init__(self, model: Union[Program, Path, None] = None, data: Union[Path, Mapping[str, Any], None] = None, *,
                 text: Optional[str] = None, ids: Optional[Sequence[int]] = None,
                 examples: Optional[Sequence[Mapping[str, Any]]] = None, validation: Optional[Mapping[str, Any]] = None,
                 tokenizer: Union[Tokenizer, Path, None] = None, lora: int = 0,
                 callbacks: Sequence[Callbacks] = (), progress: Optional[bool] = None, **options: Any) -> None:
        self._keep: List[Any] = []
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self.history, self._callbacks, self._progress = History(), tuple(callbacks), progress
        program = isinstance(model, Program) or isinstance(data, Mapping) or (
            model is not None and os.fspath(model).rstrip("/").endswith(_PROGRAMS))
        chosen = _Options(lib.PROPANE_TRAIN_PROGRAM if program else lib.PROPANE_TRAIN_LANGUAGE)
        if model is not None:
            chosen.set("model" if program else "init", self._file(model))
        if data is not None and not isinstance(data, Mapping):
            chosen.set("data", data)
        if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
            chosen.set("tokenizer", tokenizer)
        if lora:
            chosen.set("lora-rank", lora)
        for name, value in options.items():
            if value is not None:
                chosen.set(name, value)
        memory = self._memory(data, text, ids, examples, validation, tokenizer)
        out, err = ffi.new("propane_trainer **"), error()
        check(lib.propane_trainer_create(chosen._pointer, memory, out, err), err)
        self._own(out[0], lib.propane_trainer_free)

    def _file(self, model: Union[Program, Path]) -> Path:
        if not isinstance(model, Program):
            return model
        if model.path is not None:
            return model.path
        self._folder = tempfile.TemporaryDirectory(prefix="propane_ml.")
        path = os.path.join(self._folder.name, "model.mlpackage")
        model.save(path)
        return path

    def _memory(self, data: Any, words: Optional[str], ids: Optional[Sequence[int]],
                examples: Optional[Sequence[Mapping[str, Any]]], validation: Optional[Mapping[str, Any]],
                tokenizer: Any) -> Any:
        if sum(x is not None for x in (data, words, ids, examples)) > 1:
            raise invalid("give one of data, text, ids and examples")
        if words is None and ids is None and examples is None and not isinstance(data, Mapping):
            return ffi.NULL
        memory = structure("propane_data")
        if isinstance(tokenizer, Tokenizer):
            memory.tokenizer = tokenizer._alive()
            self._keep.append(tokenizer)
        if examples is not None:
            words, memory.examples = "".join(json.dumps(dict(one)) + "\n" for one in examples), True
        if words is not None:
            raw = words.encode()
            self._keep.append(ffi.new("char[]", raw))
            memory.text, memory.length = self._keep[-1], len(raw)
        if ids is not None:
            numbers = np.ascontiguousarray(ids, np.int32)
            self._keep += [numbers, ffi.from_buffer("int32_t[]", numbers)]
            memory.ids, memory.id_count = self._keep[-1], len(numbers)
        if isinstance(data, Mapping):
            rows = _tensors(data, self._keep)
            memory.arrays, memory.array_count = rows, len(data)
            others = _tensors(validation or {}, self._keep)
            memory.validation, memory.validation_count = others if validation else ffi.NULL, len(validation or {})
            self._keep += [rows, others]
        self._keep.append(memory)
        return memory

    # ---- what it is

    def _info(self) -> Any:
        info = structure("propane_trainer_info")
        lib.propane_trainer_describe(self._alive(), info)
        return info

    @property
    def step_count(self) -> int:
        """Number of steps done."""
        return int(self._info().step)

    @property
    def steps(self) -> int:
        """Total number of steps."""
        return int(self._info().steps)

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return int(self._info().parameters)

    @property
    def unit(self) -> str:
        """The unit of the training data: "tokens" or "samples"."""
        return text(self._info().unit)

    def facts(self) -> Dict[str, Any]:
        """Everything that is known about the run: sizes, device, kernels, data."""
        out, err = ffi.new("char **"), error()
        check(lib.propane_trainer_facts(self._alive(), out, err), err)
        made: Dict[str, Any] = json.loads(taken(out[0]))
        return made

    def option(self, name: str) -> str:
        """Returns the run's value of an option."""
        out, err = ffi.new("char **"), error()
        check(lib.propane_trainer_option(self._alive(), utf8(name.replace("_", "-")), out, err), err)
        return taken(out[0])

    # ---- learning

    def run(self, steps: Optional[int] = None) -> History:
        """Trains to the last step, or for at most `steps` more steps; it may be called again. Exceptions in callbacks end it
        after the current step. Ctrl-C ends it at once, and the unfinished step is discarded. If there is a run folder, the
        checkpoint is written."""
        if steps is not None and steps < 1:
            raise invalid(f"steps is {steps}; it must be at least 1, or None for all")
        watch = _Watch(self, self._callbacks, self._progress)
        told, err, handle = structure("propane_trainer_callbacks"), error(), ffi.new_handle(watch)
        told.context, told.on_step = handle, lib.propane_ml_on_step
        told.on_evaluation, told.on_checkpoint = lib.propane_ml_on_evaluation, lib.propane_ml_on_checkpoint
        status = lib.propane_trainer_advance(self._alive(), steps or 0, told, err)
        if watch.failure is not None:
            raise watch.failure
        check(status, err)
        raise_interrupt()
        return self.history

    def step(self) -> Step:
        """Runs a single step, for custom loops."""
        row, err = structure("propane_step"), error()
        check(lib.propane_trainer_step(self._alive(), row, err), err)
        self.history.steps.append(_step(row))
        return self.history.steps[-1]

    def __iter__(self) -> Iterator[Step]:
        """Iterates over the steps up to the last one."""
        while self.step_count < self.steps:
            yield self.step()

    def evaluate(self) -> Evaluation:
        """Evaluates the held-out data with the current weights."""
        row, err = structure("propane_evaluation"), error()
        check(lib.propane_trainer_evaluate(self._alive(), row, err), err)
        self.history.evaluations.append(_evaluation(row))
        return self.history.evaluations[-1]

    def cancel(self) -> None:
        """May be called from any thread: the current run or step, or the next one if there is none, ends after its batch
        with status "cancelled"."""
        lib.propane_trainer_cancel(self._alive())

    # ---- what was trained

    def _trained(self) -> Iterator[Any]:
        row, index = structure("propane_trained_tensor"), 0
        while lib.propane_trainer_tensor(self._alive(), index, row):
            yield index, text(row.name), tuple(row.dim[0:row.rank]), int(row.count)
            index += 1

    def weights(self) -> Dict[str, Any]:
        """Returns the current trained weights by name, as float32 copies. With adapters, only those."""
        made, err = {}, error()
        for index, name, shape, count in self._trained():
            made[name] = np.empty(shape, np.float32)
            check(lib.propane_trainer_get(self._pointer, index, ffi.from_buffer("float[]", made[name]), count, err), err)
        return made

    def set_weights(self, values: Mapping[str, Any]) -> None:
        """Replaces some or all tensors of weights(); moments and the order of the data are kept. Wrong names, wrong shapes
        and numbers that are not finite are refused, and nothing is changed."""
        keep: List[Any] = []
        given = {name: np.asarray(arrays.take(value)[0], np.float32) for name, value in values.items()}
        rows, err = _tensors(given, keep), error()
        check(lib.propane_trainer_set(self._alive(), rows, len(given), err), err)

    def save(self) -> None:
        """Writes the checkpoint into the run's folder."""
        err = error()
        check(lib.propane_trainer_save(self._alive(), err), err)

    def write(self, path: Path) -> None:
        """Writes the current weights: for a language model in the form that the file name implies, with adapters merged; for
        a program as a package."""
        err = error()
        check(lib.propane_trainer_write(self._alive(), path_chars(path), err), err)

    def program(self) -> Program:
        """Returns the program with the current weights."""
        with tempfile.TemporaryDirectory(prefix="propane_ml.") as folder:
            path = os.path.join(folder, "model.mlpackage")
            self.write(path)
            with load(path) as written:
                return Program(written._copied())

    def model(self, **choice: Any) -> Model:
        """Returns a copy of the current language model for generation; choice: as for Model.from_pretrained."""
        folder = tempfile.TemporaryDirectory(prefix="propane_ml.")
        path = os.path.join(folder.name, "model")
        self.write(path)
        made = Model(path, **choice)
        made._files = folder
        return made

    def close(self) -> None:
        super().close()
        self._keep.clear()
        if self._folder is not None:
            self._folder.cleanup()


__all__ = ["Trainer", "Callbacks", "Step", "Evaluation", "History", "options"]
