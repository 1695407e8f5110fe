# SPDX-License-Identifier: MIT
"""Owns the lists of what is available: drivers, devices, and the table of operations."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from ._propane import ffi, lib
from .error import Handle, check, error, structure, text, text_or_none, utf8
from .report import Table


@dataclass(frozen=True)
class Driver:
    """why: the reason that it cannot be opened on this machine, or None."""
    name: str
    summary: str
    why: Optional[str]


def devices() -> List[Driver]:
    """The drivers of this build, in listing order."""
    found = []
    for i in range(lib.propane_driver_count()):
        err = error()
        status = lib.propane_driver_probe(i, err)
        found.append(Driver(text(lib.propane_driver_name(i)), text(lib.propane_driver_summary(i)),
                            text(err.text) if status else None))
    return found


class Device(Handle):
    """An open device: "cpu", "null", "sim:m4", "ane". Sessions open their own; this class describes one."""

    def __init__(self, uri: str = "cpu") -> None:
        out, err = ffi.new("propane_device **"), error()
        check(lib.propane_device_open(utf8(uri), out, err), err)
        self._own(out[0], lib.propane_device_close)
        info = lib.propane_device_describe(out[0])
        self.uri, self.summary, self.note = text(info.uri), text(info.summary), text_or_none(info.note)
        self.queue_depth, self.compile_limit = int(info.queue_depth), int(info.compile_limit)
        self.simulated, self.unproven = bool(info.simulated), bool(info.unproven)

    def __repr__(self) -> str:
        return f"<Device {self.uri}: {self.summary}>"


def operations() -> Table:
    """The MIL operations, each with its first opset, its gradient rule, and how the cpu device runs it."""
    info, rows, index = structure("propane_op_info"), [], 0
    while lib.propane_op_get(index, info):
        rows.append((text(info.name), text(info.since), text(info.gradient), text(info.cpu)))
        index += 1
    return Table(("operation", "since", "gradient", "cpu"), rows)
