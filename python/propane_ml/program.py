# SPDX-License-Identifier: MIT
"""Owns programs: a Core ML package, a compiled model, MIL text or what was made of one; what it has, what the rules and the
estimate say of it, its gradient, and predict(). One idea: predict() takes what a person has at hand, and opens a session for
each function and set of shapes, of which the last eight stay."""
from __future__ import annotations

import html
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

import numpy as np

from . import arrays
from ._propane import ffi, lib
from .error import (Handle, Path, PropaneError, chars, check, error, invalid, path_chars, structure, taken, text,
                    text_or_none)
from .nonfinite import NonfiniteWarning, check_action, counts, explain, tell
from .report import Estimate, Report, Table, check_module, estimate_module
from .session import Session, Shapes, State, shape_list

_ROLES = {"input": lib.PROPANE_INPUT, "output": lib.PROPANE_OUTPUT, "state": lib.PROPANE_STATE}
_KINDS = {lib.PROPANE_ARRAY: "array", lib.PROPANE_IMAGE: "image", lib.PROPANE_LABEL: "label",
          lib.PROPANE_PROBABILITIES: "probabilities"}
SESSIONS = 8
NOTEBOOK_PAGE = 1 << 20  # a larger graph is shown by to_html() alone


@dataclass(frozen=True)
class Feature:
    """One input, output or state, as the program declares it.

    kind: "array", "image", "label" or "probabilities"; dtype: "float16", ...; least, most: what the file allows of each
    dimension (most -1: any); shapes: the enumerated ones; colour: of an image, "gray", "gray_fp16", "rgb" or "bgr";
    standard: of an input that may be left out; rows: the output that counts this one's rows (predict() cuts the others off)."""
    name: str
    kind: str
    dtype: str
    shape: Tuple[int, ...]
    least: Tuple[int, ...]
    most: Tuple[int, ...]
    shapes: Tuple[Tuple[int, ...], ...]
    optional: bool
    colour: Optional[str]
    description: Optional[str]
    standard: Optional[float] = None
    rows: Optional[str] = None

    @property
    def flexible(self) -> bool:
        """Whether arrays of more than one shape fit."""
        return self.least != self.most or len(self.shapes) > 1


def _feature(module: Any, function: bytes, role: int, index: int) -> Feature:
    row, err = structure("propane_feature"), error()
    check(lib.propane_module_feature(module, function, role, index, row, err), err)
    rank, shapes = row.rank, []
    if role == lib.PROPANE_INPUT:
        shape = ffi.new("propane_shape *")
        for i in range(row.shape_count):
            check(lib.propane_module_shape(module, function, row.name, i, shape, err), err)
            shapes.append(tuple(shape.dim[0:shape.rank]))
    dtype = arrays.NAMES[row.dtype] if row.dtype != lib.PROPANE_DTYPE_NONE else text(row.type)
    return Feature(text(row.name), _KINDS[row.kind], dtype, tuple(row.dim[0:rank]), tuple(row.least[0:rank]),
                   tuple(row.most[0:rank]), tuple(shapes), bool(row.optional), text_or_none(row.colour),
                   text_or_none(row.description), row.standard if row.has_standard else None, text_or_none(row.rows))


def _cut(rows: Mapping[str, str], made: Dict[str, Any]) -> Dict[str, Any]:
    """Without the rows that are no results, and without their counts."""
    counts = set(rows.values())
    return {n: v[:int(made[rows[n]].reshape(-1)[0])] if n in rows else v for n, v in made.items() if n not in counts}


class _Function:
    """What predict() asks of a function at every call, looked up once."""

    def __init__(self, module: Any, name: str) -> None:
        of = {role: [_feature(module, name.encode(), code, i)
                     for i in range(lib.propane_module_feature_count(module, name.encode(), code))]
              for role, code in _ROLES.items()}
        self.inputs, self.outputs, self.states = of["input"], of["output"], of["state"]
        self.open = {f.name: f for f in self.inputs if f.flexible}
        self.images = {f.name: f for f in self.inputs if f.kind == "image"}
        self.rows = {f.name: f.rows for f in self.outputs if f.rows}
        self.labels = [f for f in self.outputs if f.kind in ("label", "probabilities")]


class Program(Handle):
    """A program that can be read, checked, run and differentiated.

    device, precision and threads are those of predict(): "cpu" or "sim:m4"; None as the program says, "fp32", "bf16"; 0: the
    device's own choice. May be used from several threads.
    """

    def __init__(self, pointer: Any, path: Optional[Path] = None, *, device: str = "cpu",
                 precision: Optional[str] = None, threads: int = 0, resize: bool = False,
                 shapes: Optional[Shapes] = None) -> None:
        if not isinstance(pointer, ffi.CData):
            raise invalid(f"Program({pointer!r}): a Program is what load(path) and parse(text) give: "
                          f"propane_ml.load({pointer!r})" if isinstance(pointer, (str, bytes, os.PathLike)) else
                          f"Program() got {type(pointer).__name__}; a Program is what load(path) and parse(text) give")
        self._own(pointer, lib.propane_module_free)
        self.path: Optional[str] = None if path is None else os.fsdecode(path)
        self.device, self.precision, self.threads, self.resize = device, precision, threads, resize
        self._chosen = dict(shapes or {})
        self.functions: List[str] = [text(lib.propane_module_function(pointer, i))
                                     for i in range(lib.propane_module_function_count(pointer))]
        self._default = text_or_none(lib.propane_module_default_function(pointer)) or self.functions[0]
        self._functions: Dict[str, _Function] = {}
        self._classes: Dict[str, List[Union[str, int]]] = {}
        self._sessions: "OrderedDict[Tuple[Any, ...], Session]" = OrderedDict()
        self._explained: Set[str] = set()
        self._lock = threading.RLock()

    # ---- what it has

    @property
    def function(self) -> str:
        """The default function's name."""
        return self._default

    def _of(self, function: Optional[str]) -> _Function:
        name = self.function if function is None else function
        found = self._functions.get(name)
        if found is None:
            if name not in self.functions:
                raise PropaneError(lib.PROPANE_ERR_NOT_FOUND,
                                   f"there is no function '{name}'; the program has: {', '.join(self.functions)}")
            found = self._functions[name] = _Function(self._alive(), name)
        return found

    @property
    def inputs(self) -> List[Feature]:
        """Of the default function."""
        return self._of(None).inputs

    @property
    def outputs(self) -> List[Feature]:
        return self._of(None).outputs

    @property
    def states(self) -> List[Feature]:
        return self._of(None).states

    def features(self, function: str) -> Tuple[List[Feature], List[Feature], List[Feature]]:
        """Inputs, outputs and states of a function."""
        f = self._of(function)
        return f.inputs, f.outputs, f.states

    def classes(self, function: Optional[str] = None) -> List[Union[str, int]]:
        """Labels of a classifier in their order; empty: it is none."""
        name = self.function if function is None else function
        if name not in self._classes:
            whole = any(f.kind == "label" and f.dtype != "string" for f in self._of(name).outputs)
            pointer, key, room = self._alive(), name.encode(), ffi.new("char[4096]")
            labels: List[Union[str, int]] = []
            for i in range(lib.propane_module_label_count(pointer, key)):
                lib.propane_module_label(pointer, key, i, room, 4096)
                labels.append(int(text(room)) if whole else text(room))
            self._classes[name] = labels
        return self._classes[name]

    def metadata(self, key: str) -> Optional[str]:
        """"author", "description", "version", "license", or a key of the package's own."""
        return text_or_none(lib.propane_module_metadata(self._alive(), key.encode()))

    def text(self, canonical: bool = False) -> str:
        """As MIL text; constants of a weight file stay references."""
        out, length, err = ffi.new("char **"), ffi.new("size_t *"), error()
        dialect = lib.PROPANE_MIL_CANONICAL if canonical else lib.PROPANE_MIL_SHORT
        check(lib.propane_module_print(self._alive(), dialect, out, length, err), err)
        return taken(out[0], length[0])

    def save(self, path: Path, canonical: bool = False) -> None:
        """NAME.mlpackage is a package with its weights, NAME.mil text, anything else a folder with both."""
        err = error()
        dialect = lib.PROPANE_MIL_CANONICAL if canonical else lib.PROPANE_MIL_SHORT
        with self._lock:
            check(lib.propane_module_write(self._alive(), path_chars(path), dialect, err), err)

    def _copied(self) -> Any:
        """A copy of the module; a session takes it."""
        out, err = ffi.new("propane_module **"), error()
        check(lib.propane_module_copy(self._alive(), out, err), err)
        return out[0]

    # ---- what others say of it

    def check(self, target: Optional[str] = None, *, os: Optional[str] = None, per_rule: int = 0,
              way: Optional[str] = None) -> Report:
        """Which known rules of the Neural Engines it violates: target "m1,m4-max", "all" (None), "all-a"; way: how it reaches the
        engine, "direct" or "coreml" (None: "coreml" for what was read from Core ML's files)."""
        return check_module(self._alive(), target, os, per_rule, way)

    def to_html(self, path: Optional[Path] = None, *, target: Optional[str] = None, colour: Optional[str] = None,
                title: Optional[str] = None) -> str:
        """One HTML page that loads nothing from elsewhere: the graph of each function with shapes, work, estimates and what
        check() says of each operation. target: "m1,m4" if None; colour: by "kind" (None), "verdict", "cost", "time" or
        "error". path: it is written there, too."""
        options, out, length, err = structure("propane_page_options"), ffi.new("char **"), ffi.new("size_t *"), error()
        words = [ffi.NULL if w is None else ffi.new("char[]", w.encode()) for w in (title, target, colour)]
        options.title, options.target, options.colour = words
        check(lib.propane_module_page(self._alive(), options, out, length, err), err)
        page = taken(out[0], length[0])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def estimate(self, target: Optional[str] = None, *, path: Optional[str] = None) -> Estimate:
        """Time and energy on each chip: target as for check(), "m4" if None; path: "direct", "e5rt", "coreml", "linux"."""
        return estimate_module(self._alive(), self, target, path)

    def gradient(self, wrt: Optional[Sequence[str]] = None, *, function: Optional[str] = None) -> Program:
        """Reverse mode: a program with the inputs, and d_RESULT for each float result (the adjoint that comes in), that gives
        the results, and d_INPUT for each of `wrt` (None: every float input)."""
        names = [ffi.new("char[]", name.encode()) for name in wrt or ()]
        pointers = ffi.new("char *[]", names) if names else ffi.NULL
        out, err = ffi.new("propane_module **"), error()
        with self._lock:
            check(lib.propane_module_gradient(self._alive(), chars(function), b"gradient", pointers, len(names), out, err), err)
        return Program(out[0], device=self.device, precision=self.precision, threads=self.threads)

    def widened(self, function: Optional[str] = None) -> Program:
        """A copy in which every fp16 of the function is fp32."""
        made, err = Program(self._copied(), device=self.device, threads=self.threads), error()
        check(lib.propane_module_widen(made._pointer, chars(function), err), err)
        return made

    # ---- running it

    def session(self, *, function: Optional[str] = None, device: Optional[str] = None, precision: Optional[str] = None,
                shapes: Optional[Shapes] = None, keep: bool = False) -> Session:
        """A session of its own, with this program's choices where nothing else is said."""
        source: Any = self if self.path is None else self.path
        if self.path is None and shapes:
            raise invalid("shapes can be chosen where a program is read from a file")
        return Session(source, function=self.function if function is None else function, device=device or self.device,
                       precision=precision or self.precision, threads=self.threads, keep=keep, resize=self.resize,
                       shapes={**self._chosen, **(shapes or {})})

    def _shapes(self, f: _Function, inputs: Mapping[str, Any]) -> Tuple[Tuple[str, Tuple[int, ...]], ...]:
        """Of flexible inputs, where the arrays have another shape than the file's default."""
        chosen = []
        for name, feature in f.open.items():
            value = inputs.get(name)
            shape = getattr(value, "shape", None)
            if value is not None and shape is None:
                shape = np.shape(value)
            if shape is not None and tuple(shape) != feature.shape and len(shape) == len(feature.shape):
                chosen.append((name, tuple(int(d) for d in shape)))
        return tuple(chosen)

    def _session_of(self, function: str, shapes: Tuple[Tuple[str, Tuple[int, ...]], ...]) -> Session:
        key = (function, self.device, self.precision, self.threads, shapes)
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = self.session(function=function, shapes=dict(shapes))
            while len(self._sessions) > SESSIONS:
                self._sessions.popitem(last=False)[1].close()
        elif len(self._sessions) > 1:
            self._sessions.move_to_end(key)
        return session

    def make_state(self) -> State:
        """What predict() needs of a model with states to go on from call to call; zeros at first."""
        return State(self._lock)

    def predict(self, inputs: Mapping[str, Any], *, function: Optional[str] = None,
                state: Optional[State] = None, nonfinite: str = "warn") -> Dict[str, Any]:
        """Runs the program on inputs by name and gives its outputs by name.

        inputs: NumPy arrays, arrays of any library with DLPack, numbers, lists; images as PIL images or uint8
        [height, width, 3]. Shapes are those of `inputs`; a flexible input takes its shape from the array. Integers in
        floats become integers where an input wants them. An input that is left out has the default that the file gives it, or
        is an error: nothing stays from an earlier call. state: make_state(); None: states are zeros at every call.
        Outputs are new NumPy arrays of the program's types; a classifier gives its label and a dict of probabilities.
        nonfinite: outputs with NaN or infinity "warn" (NonfiniteWarning names the operation where they begin, once a
        function), "raise" a PropaneError unless the inputs alone hold them, or are not looked for: "ignore".
        """
        check_action(nonfinite)
        with self._lock:
            f = self._of(function)
            name = self.function if function is None else function
            if f.images:
                inputs = {n: _picture(f.images[n], v, self.resize) if n in f.images else v for n, v in inputs.items()}
            shapes = self._shapes(f, inputs) if f.open else ()
            session = self._session_of(name, shapes)
            if session.states:
                (state or State(self._lock))._enter(session)
            made = session.run(inputs)
            bad = counts(made) if nonfinite != "ignore" else None
            said = self._explain(name, dict(shapes), inputs, made, bad, state, nonfinite) if bad else None
            if f.rows:
                made = _cut(f.rows, made)
            made = self._labelled(name, f, session, made) if f.labels else made
        if said is not None:
            tell(said, nonfinite)
        return made

    def _explain(self, name: str, shapes: Shapes, inputs: Mapping[str, Any], made: Mapping[str, Any],
                 bad: Dict[str, Tuple[int, int]], state: Optional[State], action: str) -> NonfiniteWarning:
        """Once a function: a second run for each call would make a loop of them much slower. What a state held before the call
        is not known any more."""
        sizes = {n: v.size for n, v in made.items()}
        if state is not None or (action == "warn" and name in self._explained):
            return explain(bad, sizes, None, inputs)
        self._explained.add(name)
        try:
            with self.session(function=name, shapes=shapes, keep=True) as kept:
                return explain(bad, sizes, kept, inputs)
        except PropaneError:  # a device that cannot keep every value
            return explain(bad, sizes, None, inputs)

    def _labelled(self, name: str, f: _Function, session: Session, made: Dict[str, Any]) -> Dict[str, Any]:
        """A classifier's outputs as its description says: the label, the probabilities by label, arrays of the rest."""
        classes, declared = self.classes(name), {feature.name for feature in f.outputs}
        key = lib.propane_session_probabilities(session._pointer)
        label, _ = session.label(0)
        values = session.get(text(key)).reshape(-1)
        result = {n: v for n, v in made.items() if n in declared}
        for feature in f.labels:
            whole = bool(classes) and isinstance(classes[0], int)
            result[feature.name] = ((int(label) if whole else label) if feature.kind == "label"
                                    else dict(zip(classes, values.astype(float).tolist())))
        return result

    def profile(self, inputs: Optional[Mapping[str, Any]] = None, *, runs: int = 10, seed: int = 1) -> Table:
        """Where the time goes, by step of the device's plan; random inputs where none are given."""
        with self.session() as session:
            for name, value in (inputs or {}).items():
                session.set(name, value)
            return session.random(seed).profile(runs)

    def diff(self, inputs: Optional[Mapping[str, Any]] = None, *, precision: str = "fp32", device: Optional[str] = None,
             seed: int = 1) -> Table:
        """Every value that this program computes, beside the same in another precision or on another device: the largest
        difference, and that difference over the largest magnitude. In the program's order, so the first large one is where
        they part."""
        with self.session(keep=True) as one, self.session(keep=True, precision=precision, device=device) as other:
            for session in (one, other):
                for name, value in (inputs or {}).items():
                    session.set(name, value)
            one.random(seed)
            other.random(seed)
            mine, theirs, rows = one.run({}), other.run({}), []
            order = _order(one)
        for name in sorted(mine, key=lambda n: order.get(n, len(order))):
            if name in theirs and mine[name].dtype.kind == "f" and mine[name].size:
                a, b = mine[name].astype(np.float64), theirs[name].astype(np.float64)
                apart = float(np.max(np.abs(a - b)))
                rows.append((name, apart, apart / max(float(np.max(np.abs(b))), 1e-30)))
        return Table(("value", "largest difference", "relative"), rows)

    def finetune(self, data: Any, **options: Any) -> Program:
        """This program with weights that learnt from arrays {input: ..., "y": ...} or a folder: loss="mse" or "cross_entropy",
        trainable="fc*", and all that Trainer takes."""
        from .trainer import Trainer
        with Trainer(self, data, **options) as trainer:
            trainer.run()
            return trainer.program()

    def close(self) -> None:
        """Frees it and its sessions now."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
            super().close()

    def __repr__(self) -> str:
        if self.closed:
            return "<Program, closed>"
        shape = ", ".join(f"{f.name}: {f.dtype} {list(f.shape)}" for f in self.inputs)
        return f"<Program {self.path or ''} ({shape}) -> {', '.join(f.name for f in self.outputs)}>"

    def _repr_html_(self) -> str:
        rows = [(role, f.name, f.kind, f.dtype, str(list(f.shape)), f.description or "")
                for role, of in (("input", self.inputs), ("state", self.states), ("output", self.outputs)) for f in of]
        table = Table(("", "name", "kind", "type", "shape", ""), rows, self.path or "program")._repr_html_()
        page = self.to_html()
        if len(page) > NOTEBOOK_PAGE:
            return table
        return (f'{table}<details><summary>graph</summary><iframe srcdoc="{html.escape(page)}" '
                'style="width:100%;height:600px;border:0"></iframe></details>')


def _order(session: Session) -> Dict[str, int]:
    """Names of values by their places in the program that a session runs."""
    module = lib.propane_session_module(session._pointer)
    places: Dict[str, int] = {}
    function = lib.propane_module_default_function(module)
    value = lib.propane_module_next_value(module, function, ffi.NULL)
    while value != ffi.NULL:
        places[text(lib.propane_value_name(value))] = len(places)
        value = lib.propane_module_next_value(module, function, value)
    return places


def _picture(feature: Feature, value: Any, resize: bool) -> Any:
    """An image as the input [1, 1 or 3, height, width] takes it; what has that shape already is an array."""
    if hasattr(value, "convert") and hasattr(value, "mode"):
        mode = "RGB" if feature.colour in ("rgb", "bgr") else "L"
        value = value if value.mode in (mode, "F") else value.convert(mode)
        if resize and not feature.flexible:
            value = value.resize((feature.shape[-1], feature.shape[-2]))
        value = np.asarray(value)
    elif np.shape(value) == feature.shape or np.ndim(value) == 4:
        return value
    pixels = np.asarray(value)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] != (3 if feature.colour in ("rgb", "bgr") else 1):
        raise invalid(f"'{feature.name}' is an image ({feature.colour}); an array of {list(pixels.shape)} is none")
    if feature.colour == "bgr":
        pixels = pixels[:, :, ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])


def load(path: Path, *, device: str = "cpu", precision: Optional[str] = None, threads: int = 0, resize: bool = False,
         shapes: Optional[Shapes] = None) -> Program:
    """Reads a package (.mlpackage), a compiled model (.mlmodelc), a model file (.mlmodel) or MIL text (.mil).

    device: where predict() runs: "cpu", "sim:m4", ...; precision: None as the program says, "fp32", "bf16"; resize: images
    of another size are scaled; shapes: {input: shape} instead of the file's default, for inputs that are flexible."""
    out, err = ffi.new("propane_module **"), error()
    rows, names = shape_list(shapes)
    check(lib.propane_module_read_shaped(path_chars(path), rows, len(names), out, err), err)
    return Program(out[0], path, device=device, precision=precision, threads=threads, resize=resize, shapes=shapes)


def parse(mil: str, *, name: str = "text", model_dir: Optional[Path] = None, device: str = "cpu",
          precision: Optional[str] = None, threads: int = 0) -> Program:
    """MIL text as a program. name: stands for it in messages; model_dir: what @model_path means."""
    raw, out, err = mil.encode(), ffi.new("propane_module **"), error()
    folder = ffi.NULL if model_dir is None else path_chars(model_dir)
    check(lib.propane_module_parse(raw, len(raw), name.encode(), folder, out, err), err)
    return Program(out[0], device=device, precision=precision, threads=threads)


__all__ = ["Feature", "Program", "load", "parse", "shape_list"]
