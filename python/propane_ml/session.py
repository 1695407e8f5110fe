# SPDX-License-Identifier: MIT
"""Owns execution: a session is one function of a model on one device, with its buffers, and a State holds its states between
runs. One idea: a dense input of 1 MB or more with the right type is lent to the session, and a smaller one is copied; the
same applies to outputs. A session runs one call at a time; other threads wait."""
from __future__ import annotations

import threading
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import arrays
from ._propane import ffi, lib
from .error import (Handle, Path, PropaneError, chars, check, check_inputs, error, failure, invalid, kept_chars,
                    path_chars, structure, text, utf8)
from .report import Table

LENT_BYTES = 1 << 20  # from this size, a copy costs more than binding the memory

Shapes = Mapping[str, Tuple[int, ...]]


class Slot:
    """An input, output or state in the device's form."""

    __slots__ = ("name", "chars", "code", "dtype", "shape", "count", "bytes", "dense")

    def __init__(self, io: Any) -> None:
        self.name = text(io.name)
        self.chars = ffi.new("char[]", utf8(self.name))
        self.code = int(io.dtype)
        self.dtype = arrays.dtype_of(self.code)
        self.shape: Tuple[int, ...] = tuple(io.dim[d] for d in range(io.rank))
        self.count = int(lib.propane_io_count(io))
        self.bytes = int(io.bytes)
        step, self.dense = self.dtype.itemsize, True
        for size, stride in zip(reversed(self.shape), (io.stride[d] for d in reversed(range(io.rank)))):
            self.dense &= size == 1 or stride == step
            step *= size

    def __repr__(self) -> str:
        return f"{self.name}: {arrays.NAMES[self.code]} {list(self.shape)}"


def shape_list(shapes: Optional[Shapes]) -> Tuple[Any, Any]:
    """Returns a propane_shape[] of the chosen shapes, and the objects that keep its names alive."""
    names = [ffi.new("char[]", utf8(name)) for name in shapes or ()]
    made = ffi.new("propane_shape[]", max(1, len(names)))
    for row, name, dims in zip(made, names, (shapes or {}).values()):
        if len(dims) > lib.PROPANE_MAX_RANK:
            raise invalid(f"a shape of {len(dims)} dimensions; the maximum is {lib.PROPANE_MAX_RANK}")
        row.name, row.rank = name, len(dims)
        for d, size in enumerate(dims):
            row.dim[d] = int(size)
    return made, names


class State:
    """The contents of a model's states, initially zeros. Pass the same State to predict() to continue from where it stopped.

    A State may move between sessions of one model (another shape, or another function with the same states).
    """

    def __init__(self, lock: Any = None) -> None:
        self._values: Dict[str, Any] = {}
        self._session: Optional[Session] = None
        self._lock = lock or threading.RLock()

    def read(self, name: str) -> Any:
        """Returns a copy of one state's content."""
        with self._lock:
            if self._session is not None:
                return self._session.get(name)
            if name not in self._values:
                raise PropaneError(lib.PROPANE_ERR_NOT_FOUND,
                                   f"there is no state '{name}', or it was not written yet: {', '.join(self._values)}")
            return self._values[name].copy()

    def write(self, name: str, value: Any) -> None:
        """Replaces one state's content; its shape and type are checked when it is used."""
        with self._lock:
            if self._session is not None:
                self._session.set(name, value)
            else:
                self._values[name] = np.array(value)

    def _leave(self) -> None:
        """Takes the content out of the session that holds it."""
        session, self._session = self._session, None
        if session is not None:
            session._state = None
            if not session.closed:
                self._values = {slot.name: session.get(slot.name) for slot in session.states}

    def _enter(self, session: Session) -> None:
        if self._session is session:
            return
        if session._state is not None:
            session._state._leave()
        self._leave()
        session.reset()
        for slot in session.states:
            if slot.name in self._values:
                session.set(slot.name, self._values[slot.name])
        self._values, self._session, session._state = {}, session, self


class Session(Handle):
    """One function of a model on one device.

    source: a file's path, or a Program (which is copied). device: "cpu", "sim:m4", ... precision: None for the program's own
    types, "fp32", "bf16". shapes: those of inputs that the file leaves open. keep: every computed value becomes an output.

        with Session("Model.mlpackage") as s:
            outputs = s.run({"x": array})
    """

    def __init__(self, source: Any, *, function: Optional[str] = None, device: str = "cpu",
                 precision: Optional[str] = None, threads: int = 0, keep: bool = False, resize: bool = False,
                 shapes: Optional[Shapes] = None) -> None:
        options = structure("propane_session_options")
        words = [kept_chars(w) for w in (function, device, precision)]
        options.function, options.device, options.precision = words
        options.threads, options.keep, options.resize = threads, keep, resize
        rows, names = shape_list(shapes)
        options.shapes, options.shape_count = rows, len(names)
        self._err = error()
        self._lock = threading.RLock()
        self._state: Optional[State] = None
        out = ffi.new("propane_session **")
        module = getattr(source, "_copied", None)
        if module is None:
            status = lib.propane_session_open(path_chars(source), options, out, self._err)
        else:
            status = lib.propane_session_open_module(module(), options, out, self._err)
        check(status, self._err)
        self._own(out[0], lib.propane_session_close)
        self._look()

    def _look(self) -> None:
        s = self._pointer
        self.inputs: List[Slot] = [Slot(lib.propane_session_input(s, i)) for i in range(lib.propane_session_input_count(s))]
        self.states: List[Slot] = [Slot(lib.propane_session_state(s, i)) for i in range(lib.propane_session_state_count(s))]
        self._slots = {slot.name: slot for slot in self.inputs + self.states}
        self._look_at_outputs()
        # Shapes that depend on values are known only after a run: until then there are no outputs, and nothing is lent.
        self._late = not self.outputs
        self._lent: List[Slot] = []
        self._kept: List[Any] = []
        uri = text(lib.propane_device_describe(lib.propane_session_device(s)).uri)
        self._lends = uri == "cpu" and not self._late

    def _look_at_outputs(self) -> None:
        s = self._pointer
        self.outputs: List[Slot] = [Slot(lib.propane_session_output(s, i))
                                    for i in range(lib.propane_session_output_count(s))]
        self._results = {slot.name: slot for slot in self.outputs + self.states}

    def _check(self, status: int) -> None:
        if status:
            raise failure(status, self._err)

    def _find(self, slots: Dict[str, Slot], name: str, what: str) -> Slot:
        slot = slots.get(name)
        if slot is None:
            raise PropaneError(lib.PROPANE_ERR_NOT_FOUND, f"there is no {what} '{name}'; available: {', '.join(slots)}")
        return slot

    # ---- one value

    def set(self, name: str, value: Any) -> None:
        """Copies an array into an input or a state, where it stays for later runs. Shapes must be equal. Float types are
        converted, and integers too if their values fit."""
        with self._lock:
            self._alive()
            self._put(self._find(self._slots, name, "input"), value, False)

    def get(self, name: str) -> Any:
        """Returns an output or a state as a new array of its type."""
        with self._lock:
            return self._read(self._find(self._results, name, "output"))

    def _put_keys(self, slot: Slot, value: Union[str, Mapping[Any, Any]]) -> None:
        one = isinstance(value, str)
        words = [ffi.new("char[]", utf8(str(key))) for key in ([value] if one else value)]
        values = ffi.NULL if one else ffi.new("double[]", [float(number) for number in value.values()])  # type: ignore[union-attr]
        self._check(lib.propane_session_set_keys(self._pointer, slot.chars, ffi.new("char *[]", words) if words else
                                                 ffi.new("char *[1]"), values, len(words), self._err))

    def _put(self, slot: Slot, value: Any, lend: bool) -> None:
        if isinstance(value, (str, Mapping)):
            self._put_keys(slot, value)
            return
        if type(value) is np.ndarray and value.dtype == slot.dtype and value.shape == slot.shape and value.flags.c_contiguous:
            array, code = value, slot.code
            if slot.code == lib.PROPANE_BF16:
                array = array.view(np.uint16)
        else:
            array, code = arrays.fit(value, slot.name, slot.shape, slot.code)
        memory = ffi.from_buffer(array)
        if lend and array.nbytes >= LENT_BYTES and self._lends and slot.dense and code == slot.code:
            if int(ffi.cast("uintptr_t", memory)) % 16 == 0:
                self._check(lib.propane_session_lend(self._pointer, slot.chars, memory, array.nbytes, self._err))
                self._lent.append(slot)
                self._kept.append(array)
                return
        self._check(lib.propane_session_set(self._pointer, slot.chars, code, memory, slot.count, self._err))

    def _room(self, slot: Slot) -> Any:
        """Returns memory for an output that is written in place, or None if it will be copied."""
        if not (self._lends and slot.dense and slot.count * slot.dtype.itemsize >= LENT_BYTES):
            return None
        array = np.empty(slot.shape, slot.dtype)
        memory = ffi.from_buffer(array.view(np.uint16) if slot.code == lib.PROPANE_BF16 else array)
        if int(ffi.cast("uintptr_t", memory)) % 16 or array.nbytes < slot.bytes:
            return None
        self._check(lib.propane_session_lend(self._pointer, slot.chars, memory, array.nbytes, self._err))
        self._lent.append(slot)
        return array

    def _read(self, slot: Slot) -> Any:
        array = np.empty(slot.shape, slot.dtype)
        memory = ffi.from_buffer(array.view(np.uint16) if slot.code == lib.PROPANE_BF16 else array)
        self._check(lib.propane_session_get(self._alive(), slot.chars, slot.code, memory, slot.count, self._err))
        return array

    def _return(self) -> None:
        """Gives lent inputs and outputs their own memory again, so that nothing points into the caller's arrays after a
        call."""
        lent, self._lent, self._kept = self._lent, [], []
        for slot in lent:
            lib.propane_session_lend(self._pointer, slot.chars, ffi.NULL, 0, ffi.NULL)

    # ---- a run

    def run(self, inputs: Mapping[str, Any], outputs: Optional[List[str]] = None) -> Dict[str, Any]:
        """Runs once. inputs: by name, those that were not set before, for this run only. outputs: the ones to return (None:
        all, without states). An input that was neither given nor set has the file's default, or is an error.

        The resulting arrays are new and belong to the caller. Other Python threads keep running while it works.
        """
        check_inputs(inputs)
        with self._lock:
            pointer = self._alive()
            asked = self.outputs if outputs is None or self._late else [self._find(self._results, n, "output") for n in outputs]
            try:
                slots = self._slots
                for name, value in inputs.items():
                    self._put(slots[name] if name in slots else self._find(slots, name, "input"), value, True)
                if len(inputs) < len(self.inputs):
                    self._check(lib.propane_session_ready(pointer, b"required but not specified", self._err))
                made = [self._room(slot) for slot in asked]
                self._check(lib.propane_session_run(pointer, ffi.NULL, self._err))
                if self._late:
                    self._look_at_outputs()
                    asked = self.outputs if outputs is None else [self._find(self._results, n, "output") for n in outputs]
                    made = [None] * len(asked)
                return {slot.name: self._read(slot) if room is None else room for slot, room in zip(asked, made)}
            finally:
                if self._lent:
                    self._return()
                for slot in self.inputs:
                    if slot.name in inputs:
                        lib.propane_session_clear(pointer, slot.chars, ffi.NULL)

    def clear(self, name: Optional[str] = None) -> Session:
        """Clears an input (None: all inputs): it is then required again, or has the file's default."""
        with self._lock:
            chars_of = ffi.NULL if name is None else self._find(self._slots, name, "input").chars
            self._check(lib.propane_session_clear(self._alive(), chars_of, self._err))
        return self

    def random(self, seed: int = 1) -> Session:
        """Fills every input that was not set with random numbers, which depend only on the seed."""
        with self._lock:
            self._check(lib.propane_session_randomize(self._alive(), seed, self._err))
        return self

    def reset(self) -> None:
        """Sets all states to zero."""
        with self._lock:
            self._check(lib.propane_session_reset(self._alive(), self._err))

    def label(self, rank: int = 0) -> Tuple[str, float]:
        """Returns the class at `rank` (0: the most likely) and its probability from a classifier's last run."""
        room, probability = ffi.new("char[1024]"), ffi.new("double *")
        with self._lock:
            self._check(lib.propane_session_label(self._alive(), rank, room, 1024, probability, self._err))
        return text(room), float(probability[0])

    def image(self, name: str, rgb: Any) -> None:
        """Sets an input to an image: uint8 [height, width, 3], or a PIL image."""
        pixels = np.ascontiguousarray(rgb.convert("RGB") if hasattr(rgb, "convert") else rgb)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise invalid(f"'{name}': an image is uint8 [height, width, 3]; this is {pixels.dtype} {list(pixels.shape)}")
        with self._lock:
            self._check(lib.propane_session_set_image(self._alive(), utf8(name), ffi.from_buffer("uint8_t[]", pixels),
                                                      pixels.shape[0], pixels.shape[1], self._err))

    def profile(self, runs: int = 10) -> Table:
        """Returns the time of each step of the device's plan. It runs with the inputs that are set; times are totals over
        all runs."""
        with self._lock:
            program = lib.propane_session_program(self._alive())
            self._check(lib.propane_program_profile(program, True, self._err))
            try:
                for _ in range(runs):
                    self._check(lib.propane_session_run(self._pointer, ffi.NULL, self._err))
                rows = list(_profile_rows(program))
            finally:
                lib.propane_program_profile(program, False, ffi.NULL)
        return Table(("kind", "name", "ms", "GFLOP/s", "GB/s", "runs"), rows)

    def close(self) -> None:
        """Frees the session now, after waiting for a run in another thread."""
        with self._lock:
            if self._state is not None:
                self._state._leave()
            super().close()


def _profile_rows(program: Any) -> Iterator[Tuple[Any, ...]]:
    row = structure("propane_profile_row")
    for i in range(lib.propane_program_profile_count(program)):
        if lib.propane_program_profile_get(program, i, row) and row.runs:
            ns = max(1, row.ns)
            yield (text(row.kind), text(row.name) if row.name != ffi.NULL else "", row.ns / 1e6,
                   row.flops * row.runs / ns, row.bytes * row.runs / ns, int(row.runs))


__all__ = ["Session", "State", "Slot", "Shapes", "Path", "chars"]
