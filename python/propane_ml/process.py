# SPDX-License-Identifier: MIT
"""Owns what is the process's: version, threads, the log."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ._propane import ffi, lib
from .error import check, error, text

_log: list[Callable[[str], None]] = []


def version() -> str:
    """Of the library that is inside."""
    return text(lib.propane_version())


def threads() -> int:
    """Threads that computations share."""
    return int(lib.propane_threads())


def set_threads(count: int) -> None:
    """Set it before anything is computed; 0: as many as there are usable cores."""
    err = error()
    check(lib.propane_set_threads(count, err), err)


def set_verify(verify: bool) -> None:
    """Whether models that are opened from now on are compared with the checksums in their files; True at first."""
    lib.propane_set_verify(bool(verify))


@ffi.def_extern()
def propane_ml_on_log(context: Any, sentence: Any) -> None:
    for tell in _log:
        tell(text(sentence))


def on_log(callback: Optional[Callable[[str], None]]) -> None:
    """Things worth knowing that are no error, one sentence each; None: nobody is told. From any thread."""
    _log[:] = [callback] if callback else []
    lib.propane_set_log(lib.propane_ml_on_log if callback else ffi.NULL, ffi.NULL)
