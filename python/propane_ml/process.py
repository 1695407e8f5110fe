# SPDX-License-Identifier: MIT
"""Owns process-wide settings: version, threads, the log."""
from __future__ import annotations

from typing import Any, Callable, Optional

from ._propane import ffi, lib
from .error import check, error, text

_log: list[Callable[[str], None]] = []


def version() -> str:
    """Returns the version of the library inside the package."""
    return text(lib.propane_version())


def threads() -> int:
    """Returns the number of threads that computations share."""
    return int(lib.propane_threads())


def set_threads(count: int) -> None:
    """Sets the number of threads, before anything is computed; 0 means one per usable core."""
    err = error()
    check(lib.propane_set_threads(count, err), err)


def set_verify(verify: bool) -> None:
    """Sets whether models opened from now on are verified against the checksums in their files; True initially."""
    lib.propane_set_verify(bool(verify))


@ffi.def_extern()
def propane_ml_on_log(context: Any, sentence: Any) -> None:
    for tell in _log:
        tell(text(sentence))


def on_log(callback: Optional[Callable[[str], None]]) -> None:
    """Sets the callback for notes that are not errors, one sentence each; None ignores them. It may be called from any
    thread."""
    _log[:] = [callback] if callback else []
    lib.propane_set_log(lib.propane_ml_on_log if callback else ffi.NULL, ffi.NULL)
