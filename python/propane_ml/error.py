# SPDX-License-Identifier: MIT
"""Owns the package's only exception, and the helpers with which every other file calls the library: errors, texts, and
handles that are freed."""
from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, List, Mapping, NoReturn, Union

from ._propane import ffi, lib

if TYPE_CHECKING:
    from typing_extensions import Self

Path = Union[str, "os.PathLike[str]"]


class PropaneError(RuntimeError):
    """Raised when the library refuses something. The message is one sentence: the fault, its place, the value, and what to
    do.

    status: "invalid", "unsupported", "not found", "io", "memory", "limit", "device" or "cancelled"; code: its number in
    propane.h; str() is the sentence.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.status: str = text(lib.propane_status_name(code))

    def __reduce__(self) -> Any:
        return PropaneError, (self.code, str(self))


def invalid(sentence: str) -> PropaneError:
    """Returns the error for bad input that is detected before the library is called."""
    return PropaneError(lib.PROPANE_ERR_INVALID, sentence)


def error() -> Any:
    return ffi.new("propane_error *")


_interrupts: List[BaseException] = []  # exceptions raised by signal handlers during a call


def failure(status: int, err: Any) -> BaseException:
    """Returns the exception for a call's status: the one that a signal handler raised during the call (Ctrl-C), or a
    PropaneError."""
    if status == lib.PROPANE_ERR_CANCELLED and _interrupts:
        return _interrupts.pop()
    return PropaneError(status, text(err.text))


def check(status: int, err: Any) -> None:
    if status:
        raise failure(status, err)


def interrupted(kind: Any, value: BaseException, trace: Any) -> bool:
    """Stores an exception that a signal raised in a callback, until the call ends."""
    _interrupts[:] = [value]
    return True


def raise_interrupt() -> None:
    if _interrupts:
        raise _interrupts.pop()


@ffi.def_extern(onerror=interrupted)
def propane_ml_on_interrupt(context: Any) -> bool:
    """The library calls this every 50 ms to ask whether to stop. Python handles signals before this line, and a handler that
    raises stops the work."""
    return False


if threading.current_thread() is threading.main_thread():
    lib.propane_ml_watch()


def text(chars: Any) -> str:
    """A C string that is not NULL."""
    return str(ffi.string(chars).decode("utf-8", "replace"))


def text_or_none(chars: Any) -> str | None:
    return text(chars) if chars != ffi.NULL else None


def taken(chars: Any, length: int | None = None) -> str:
    """Returns a text that the caller must free, and frees it."""
    try:
        raw = ffi.string(chars) if length is None else ffi.buffer(chars, length)[:]
        return bytes(raw).decode("utf-8", "replace")
    finally:
        lib.propane_free(chars)


def utf8(value: str) -> bytes:
    """Converts an argument. The library would read it only up to a zero character."""
    raw = value.encode()
    if b"\0" in raw:
        raise invalid(f"{value[:60]!r} contains a zero character")
    return raw


def chars(value: str | None) -> Any:
    """Converts an argument: None becomes NULL."""
    return ffi.NULL if value is None else utf8(value)


def kept_chars(value: str | None) -> Any:
    """Converts a member of a struct, as chars() does. The caller keeps the result as long as the struct."""
    return ffi.NULL if value is None else ffi.new("char[]", utf8(value))


def path_chars(path: Path) -> bytes:
    raw = os.fsencode(path)
    if b"\0" in raw:
        raise invalid(f"the path {raw[:60]!r} contains a zero character")
    return raw


def structure(name: str) -> Any:
    """Returns a structure that begins with its size."""
    made = ffi.new(name + " *")
    made.size = ffi.sizeof(name)
    return made


def check_inputs(inputs: object) -> None:
    if not isinstance(inputs, Mapping):
        raise invalid(f"the inputs must be a dictionary such as {{\"x\": array}}, not {type(inputs).__name__}")


class Handle:
    """An object of the library. It is freed by close(), at the end of a `with` block, or when nothing refers to it any more.

    Children hold references to what they need, so objects may be dropped in any order.
    """

    _pointer: Any = None

    def _own(self, pointer: Any, free: Any) -> None:
        self._pointer = ffi.gc(pointer, free)

    def _alive(self) -> Any:
        if self._pointer is None:
            raise invalid(f"this {type(self).__name__} is closed")
        return self._pointer

    @property
    def closed(self) -> bool:
        return self._pointer is None

    def close(self) -> None:
        """Frees the object now. Closing it again does nothing."""
        if self._pointer is not None:
            ffi.release(self._pointer)  # harmless if done twice because Ctrl-C came before the next line
        self._pointer = None

    def __reduce__(self) -> NoReturn:  # a shallow copy would share the pointer, which one of the two frees
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: open it again where it is needed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
