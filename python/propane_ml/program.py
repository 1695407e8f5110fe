# SPDX-License-Identifier: MIT
"""Owns programs: Core ML packages, compiled models, MIL text and programs made from them, with their interface, findings,
estimates, gradient, and predict(). One idea: predict() accepts the user's arrays as they are, and opens a session for each
function and set of shapes; the last eight are kept.
"""
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
from .error import (Handle, Path, PropaneError, chars, check, check_inputs, error, invalid, kept_chars, path_chars,
                    structure, taken, text, text_or_none, utf8)
from .nonfinite import NonfiniteWarning, check_action, counts, explain, tell
from .report import Estimate, Report, Table, check_module, estimate_module
from .session import Session, Shapes, State, shape_list

_ROLES = {"input": lib.PROPANE_INPUT, "output": lib.PROPANE_OUTPUT, "state": lib.PROPANE_STATE}
_KINDS = {lib.PROPANE_ARRAY: "array", lib.PROPANE_IMAGE: "image", lib.PROPANE_LABEL: "label",
          lib.PROPANE_PROBABILITIES: "probabilities", lib.PROPANE_CATEGORY: "category", lib.PROPANE_DICTIONARY: "dictionary"}
SESSIONS = 8
NOTEBOOK_PAGE = 1 << 20  # a larger graph is shown only by to_html()


@dataclass(frozen=True)
class Feature:
    """One input, output or state, as the program declares it.

    kind: "array", "image", "label", "probabilities", "category" (a text of `keys`) or "dictionary" (numbers by `keys`). dtype: "float16", ... least, most: the limits that the file sets for
    each dimension (most -1: unlimited). shapes: the enumerated ones. colour: for an image, "gray", "gray_fp16", "rgb" or
    "bgr". standard: the default of an optional input. rows: the output that counts this one's rows (predict() cuts off the
    others). called: the name in a file of an older kind if it is not `name`; predict() accepts both and returns outputs
    under this name.
    """
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
    called: Optional[str] = None
    keys: Tuple[str, ...] = ()

    @property
    def flexible(self) -> bool:
        """Whether arrays of more than one shape are accepted."""
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
                   text_or_none(row.description), row.standard if row.has_standard else None, text_or_none(row.rows),
                   text_or_none(row.called), _keys(module, function, row))


def _keys(module: Any, function: bytes, row: Any) -> Tuple[str, ...]:
    made = []
    for i in range(row.key_count):
        room = ffi.new("char[]", lib.propane_module_key(module, function, row.name, i, ffi.NULL, 0) + 1)
        lib.propane_module_key(module, function, row.name, i, room, len(room))
        made.append(text(room))
    return tuple(made)


def _cut(rows: Mapping[str, str], made: Dict[str, Any]) -> Dict[str, Any]:
    """Removes the rows that are not results, and their counts."""
    counts = set(rows.values())
    return {n: v[:int(made[rows[n]].reshape(-1)[0])] if n in rows else v for n, v in made.items() if n not in counts}


class _Function:
    """The properties of a function that predict() needs at every call, looked up once."""

    def __init__(self, module: Any, name: str) -> None:
        of = {role: [_feature(module, utf8(name), code, i)
                     for i in range(lib.propane_module_feature_count(module, utf8(name), code))]
              for role, code in _ROLES.items()}
        self.inputs, self.outputs, self.states = of["input"], of["output"], of["state"]
        self.open = {f.name: f for f in self.inputs if f.flexible}
        self.images = {f.name: f for f in self.inputs if f.kind == "image"}
        self.rows = {f.name: f.rows for f in self.outputs if f.rows}
        self.labels = [f for f in self.outputs if f.kind in ("label", "probabilities")]
        self.called = {f.called: f.name for f in self.inputs if f.called}
        self.returned = {f.name: f.called for f in self.outputs if f.called}


class Program(Handle):
    """A program that can be read, checked, run and differentiated.

    device, precision and threads apply to predict(): "cpu" or "sim:m4"; None for the program's own types, "fp32",
    "bf16"; 0 for the device's own choice. A program may be used from several threads.
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
        """Returns the name of the default function."""
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
        """Returns the inputs, outputs and states of the default function."""
        return self._of(None).inputs

    @property
    def outputs(self) -> List[Feature]:
        return self._of(None).outputs

    @property
    def states(self) -> List[Feature]:
        return self._of(None).states

    def features(self, function: str) -> Tuple[List[Feature], List[Feature], List[Feature]]:
        """Returns the inputs, outputs and states of a function."""
        f = self._of(function)
        return f.inputs, f.outputs, f.states

    def classes(self, function: Optional[str] = None) -> List[Union[str, int]]:
        """Returns the labels of a classifier in order; empty if the program is not a classifier."""
        name = self.function if function is None else function
        if name not in self._classes:
            whole = any(f.kind == "label" and f.dtype != "string" for f in self._of(name).outputs)
            pointer, key, room = self._alive(), utf8(name), ffi.new("char[4096]")
            labels: List[Union[str, int]] = []
            for i in range(lib.propane_module_label_count(pointer, key)):
                lib.propane_module_label(pointer, key, i, room, 4096)
                labels.append(int(text(room)) if whole else text(room))
            self._classes[name] = labels
        return self._classes[name]

    def metadata(self, key: str) -> Optional[str]:
        """"author", "description", "version", "license", or a key of the package's own."""
        return text_or_none(lib.propane_module_metadata(self._alive(), utf8(key)))

    def text(self, canonical: bool = False) -> str:
        """Returns MIL text; constants in a weight file remain references."""
        out, length, err = ffi.new("char **"), ffi.new("size_t *"), error()
        dialect = lib.PROPANE_MIL_CANONICAL if canonical else lib.PROPANE_MIL_SHORT
        check(lib.propane_module_print(self._alive(), dialect, out, length, err), err)
        return taken(out[0], length[0])

    def save(self, path: Path, canonical: bool = False) -> None:
        """Writes a package with its weights if the name is NAME.mlpackage, text if it is NAME.mil, and otherwise a folder
        with both."""
        err = error()
        dialect = lib.PROPANE_MIL_CANONICAL if canonical else lib.PROPANE_MIL_SHORT
        with self._lock:
            check(lib.propane_module_write(self._alive(), path_chars(path), dialect, err), err)

    def _copied(self) -> Any:
        """Returns a copy of the module, of which a session takes ownership."""
        out, err = ffi.new("propane_module **"), error()
        check(lib.propane_module_copy(self._alive(), out, err), err)
        return out[0]

    # ---- reports about it

    def check(self, target: Optional[str] = None, *, os: Optional[str] = None, per_rule: int = 0,
              way: Optional[str] = None) -> Report:
        """Checks the program against the known rules of the Neural Engines. target: "m1,m4-max", "all" (None), "all-a". way:
        the path to the engine, "direct" or "coreml" (None: "coreml" for programs read from Core ML files)."""
        return check_module(self._alive(), target, os, per_rule, way)

    def to_html(self, path: Optional[Path] = None, *, target: Optional[str] = None, colour: Optional[str] = None,
                title: Optional[str] = None) -> str:
        """Returns one HTML page that loads nothing else: the graph of each function with shapes, work, estimates and what
        check() reports for each operation. target: "m1,m4" if None. colour: by "kind" (None), "verdict", "cost", "time" or
        "error". path: the page is also written there."""
        options, out, length, err = structure("propane_page_options"), ffi.new("char **"), ffi.new("size_t *"), error()
        words = [kept_chars(w) for w in (title, target, colour)]
        options.title, options.target, options.colour = words
        check(lib.propane_module_page(self._alive(), options, out, length, err), err)
        page = taken(out[0], length[0])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        return page

    def estimate(self, target: Optional[str] = None, *, path: Optional[str] = None) -> Estimate:
        """Estimates time and energy on each chip. target: as for check(), "m4" if None. path: "direct", "e5rt", "coreml",
        "linux"."""
        return estimate_module(self._alive(), self, target, path)

    def gradient(self, wrt: Optional[Sequence[str]] = None, *, function: Optional[str] = None) -> Program:
        """Differentiates in reverse mode. Returns a program that takes the inputs, and d_RESULT (the incoming adjoint) for
        each float result. It returns the results, and d_INPUT for each of `wrt` (None: every float input)."""
        names = [ffi.new("char[]", utf8(name)) for name in wrt or ()]
        pointers = ffi.new("char *[]", names) if names else ffi.NULL
        out, err = ffi.new("propane_module **"), error()
        with self._lock:
            check(lib.propane_module_gradient(self._alive(), chars(function), b"gradient", pointers, len(names), out, err), err)
        return Program(out[0], device=self.device, precision=self.precision, threads=self.threads)

    def widened(self, function: Optional[str] = None) -> Program:
        """Returns a copy in which every fp16 type of the function is fp32."""
        made, err = Program(self._copied(), device=self.device, threads=self.threads), error()
        check(lib.propane_module_widen(made._pointer, chars(function), err), err)
        return made

    # ---- running it

    def session(self, *, function: Optional[str] = None, device: Optional[str] = None, precision: Optional[str] = None,
                shapes: Optional[Shapes] = None, keep: bool = False) -> Session:
        """Opens a separate session, which uses this program's choices unless others are given."""
        source: Any = self if self.path is None else self.path
        if self.path is None and shapes:
            raise invalid("shapes can be chosen only when a program is read from a file")
        return Session(source, function=self.function if function is None else function, device=device or self.device,
                       precision=precision or self.precision, threads=self.threads, keep=keep, resize=self.resize,
                       shapes={**self._chosen, **(shapes or {})})

    def _shapes(self, f: _Function, inputs: Mapping[str, Any]) -> Tuple[Tuple[str, Tuple[int, ...]], ...]:
        """Returns the shapes of flexible inputs whose arrays differ from the file's default."""
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
        """Returns the state that predict() needs to continue from call to call; zeros initially."""
        return State(self._lock)

    def predict(self, inputs: Mapping[str, Any], *, function: Optional[str] = None,
                state: Optional[State] = None, nonfinite: str = "warn") -> Dict[str, Any]:
        """Runs the program on inputs by name and returns its outputs by name.

        inputs: NumPy arrays, arrays from any library with DLPack, numbers, lists; images as PIL images or uint8 [height,
        width, 3]. A flexible input takes its shape from the array. Floats with integer values become integers if an input
        requires them. A category is a str, and a dictionary a dict of numbers. An omitted input has the default from the file, or is an error: nothing carries over from an earlier
        call. state: the result of make_state(); None: states are zeros at every call. Outputs are new NumPy arrays of the
        program's types; a classifier returns its label and a dict of probabilities. nonfinite: if outputs contain NaN or
        infinity, "warn" (NonfiniteWarning names the operation that first produces them, once per function), "raise" a
        PropaneError unless the inputs alone contain them, or "ignore" them without a check.
        """
        check_action(nonfinite)
        check_inputs(inputs)
        with self._lock:
            f = self._of(function)
            name = self.function if function is None else function
            if f.called:
                inputs = {f.called.get(n, n): v for n, v in inputs.items()}
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
            made = {f.returned.get(n, n): v for n, v in made.items()} if f.returned else made
        if said is not None:
            tell(said, nonfinite)
        return made

    def _explain(self, name: str, shapes: Shapes, inputs: Mapping[str, Any], made: Mapping[str, Any],
                 bad: Dict[str, Tuple[int, int]], state: Optional[State], action: str) -> NonfiniteWarning:
        """Called once per function, because a second run for each call would make a loop of calls much slower. The content
        of a state before the call is no longer known."""
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
        """Returns a classifier's outputs as its description defines them: the label, the probabilities by label, and arrays
        for the rest."""
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
        """Returns the time of each step of the device's plan, with random inputs if none are given."""
        with self.session() as session:
            for name, value in (inputs or {}).items():
                session.set(name, value)
            return session.random(seed).profile(runs)

    def diff(self, inputs: Optional[Mapping[str, Any]] = None, *, precision: str = "fp32", device: Optional[str] = None,
             seed: int = 1) -> Table:
        """Compares every value that this program computes with the same value in another precision or on another device.
        Each has the largest difference, and that difference relative to the largest magnitude. Values are in program order,
        so the first large difference is where the two diverge."""
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
        """Returns this program with weights trained on arrays {input: ..., "y": ...} or a folder: loss="mse" or
        "cross_entropy", trainable="fc*", and everything else that Trainer accepts."""
        from .trainer import Trainer
        with Trainer(self, data, **options) as trainer:
            trainer.run()
            return trainer.program()

    def close(self) -> None:
        """Frees the program and its sessions now."""
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
    """Returns the names of values by their positions in the program that a session runs."""
    module = lib.propane_session_module(session._pointer)
    places: Dict[str, int] = {}
    function = lib.propane_module_default_function(module)
    value = lib.propane_module_next_value(module, function, ffi.NULL)
    while value != ffi.NULL:
        places[text(lib.propane_value_name(value))] = len(places)
        value = lib.propane_module_next_value(module, function, value)
    return places


def _picture(feature: Feature, value: Any, resize: bool) -> Any:
    """Returns an image as the input [1, 1 or 3, height, width] needs it. A value that already has this shape is an array."""
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

    device: where predict() runs, "cpu", "sim:m4", ... precision: None for the program's own types, "fp32", "bf16". resize:
    images of another size are scaled. shapes: {input: shape} for flexible inputs, instead of the file's default.
    """
    out, err = ffi.new("propane_module **"), error()
    rows, names = shape_list(shapes)
    check(lib.propane_module_read_shaped(path_chars(path), rows, len(names), out, err), err)
    return Program(out[0], path, device=device, precision=precision, threads=threads, resize=resize, shapes=shapes)


def parse(mil: str, *, name: str = "text", model_dir: Optional[Path] = None, device: str = "cpu",
          precision: Optional[str] = None, threads: int = 0) -> Program:
    """Parses MIL text. name: the program's name in messages; model_dir: the folder that @model_path refers to."""
    raw, out, err = mil.encode(), ffi.new("propane_module **"), error()
    folder = ffi.NULL if model_dir is None else path_chars(model_dir)
    check(lib.propane_module_parse(raw, len(raw), utf8(name), folder, out, err), err)
    return Program(out[0], device=device, precision=precision, threads=threads)


__all__ = ["Feature", "Program", "load", "parse", "shape_list"]
