# SPDX-License-Identifier: MIT
"""Owns the results of checks and estimates: rows to iterate over, text as the command prints it, tables for notebooks."""
from __future__ import annotations

import html
import json
from dataclasses import dataclass, fields
from typing import Any, Iterator, List, Optional, Sequence, Tuple

from ._propane import ffi, lib
from .error import Handle, Path, check as _check, error, kept_chars, path_chars, structure, taken, text, text_or_none

_SEVERITIES = {lib.PROPANE_NOTE: "note", lib.PROPANE_WARNING: "warning", lib.PROPANE_REFUSED: "refused",
               lib.PROPANE_FALLBACK: "fallback", lib.PROPANE_CRASH: "crash"}
_COLOURS = {"refused": "#c0392b", "crash": "#c0392b", "fallback": "#af601a", "warning": "#b9770e", "note": "#707b7c"}


class Table:
    """Rows with column names: iterate over it, index it, print it, or show it in a notebook."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Tuple[Any, ...]], title: str = "") -> None:
        self.columns, self.rows, self.title = tuple(columns), list(rows), title

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Tuple[Any, ...]]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Tuple[Any, ...]:
        return self.rows[index]

    def column(self, name: str) -> List[Any]:
        at = self.columns.index(name)
        return [row[at] for row in self.rows]

    @staticmethod
    def _word(value: Any) -> str:
        return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

    def __str__(self) -> str:
        lines = [self.columns] + [tuple(self._word(v) for v in row) for row in self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        return "\n".join("  ".join(w.ljust(n) for w, n in zip(line, widths)).rstrip() for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(c)}</th>" for c in self.columns)
        body = "".join("<tr>" + "".join(self._cell(v) for v in row) + "</tr>" for row in self.rows)
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _cell(self, value: Any) -> str:
        colour = _COLOURS.get(value) if isinstance(value, str) else None
        style = f' style="color:{colour};font-weight:bold"' if colour else ""
        return f"<td{style}>{html.escape(self._word(value))}</td>"


def _row(kind: Any, struct: Any, **given: Any) -> Any:
    """Creates a dataclass from the members of a structure with the same names."""
    values = {}
    for field in fields(kind):
        if field.name in given:
            continue
        value = getattr(struct, field.name)
        values[field.name] = text_or_none(value) if isinstance(value, ffi.CData) else value
    return kind(**values, **given)


@dataclass(frozen=True)
class Finding:
    """One rule that a program violates, and where. line and column are 0 if the program was not read from text; op and
    name identify the operation by its first result."""
    rule: str
    severity: str
    file: Optional[str]
    line: int
    column: int
    function: Optional[str]
    op: Optional[str]
    name: Optional[str]
    message: str
    sentence: str
    evidence: Optional[str]
    source: Optional[str]
    fix: Optional[str]


@dataclass(frozen=True)
class Verdict:
    """How many rules of one chip are violated. fallbacks: operations that leave the engine. crashes: findings that are
    known to crash the process outside the engine. segments, switches: the parts of the program on the path "coreml" and
    its changes between engine and CPU, with their cost in ms (estimated) and the first of them."""
    chip: str
    refusals: int
    warnings: int
    notes: int
    fallbacks: int
    crashes: int
    segments: int
    switches: int
    switch_ms: float
    switches_at: Optional[str]


class Report(Handle):
    """Findings of the Neural Engines' known rules about a program. A program that no rule refuses may still fail."""

    findings: List[Finding]
    verdicts: List[Verdict]

    def __init__(self, pointer: Any) -> None:
        self._own(pointer, lib.propane_report_free)
        self.findings, self.verdicts = [], []
        finding, verdict = structure("propane_finding"), structure("propane_verdict")
        for i in range(lib.propane_report_count(pointer)):
            lib.propane_report_get(pointer, i, finding)
            self.findings.append(_row(Finding, finding, severity=_SEVERITIES[finding.severity]))
        for i in range(lib.propane_report_chips(pointer)):
            lib.propane_report_verdict(pointer, i, verdict)
            self.verdicts.append(_row(Verdict, verdict))

    @property
    def worst(self) -> str:
        """"refused", "fallback", "warning" or "note" on any chip."""
        return _SEVERITIES[lib.propane_report_worst(self._alive())]

    @property
    def refused(self) -> bool:
        return self.worst == "refused"

    @property
    def path(self) -> str:
        """The path by which the program was assumed to reach the engine: "direct" or "coreml"."""
        return text(lib.propane_report_path(self._alive()))

    def _print(self, form: int) -> str:
        out, err = ffi.new("char **"), error()
        _check(lib.propane_report_print(self._alive(), form, out, err), err)
        return taken(out[0])

    def __str__(self) -> str:
        return self._print(lib.PROPANE_TEXT)

    def json(self) -> Any:
        """The output of `propane check --json`, parsed."""
        return json.loads(self._print(lib.PROPANE_JSON))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def _repr_html_(self) -> str:
        chips = Table(("chip", "refusals", "crashes", "fallbacks", "switches", "warnings", "notes"),
                      [(v.chip, v.refusals, v.crashes, v.fallbacks, v.switches, v.warnings, v.notes) for v in self.verdicts])
        rows = [(f.severity, f.rule, f.op or "", f.name or "", f.message, f.fix or "") for f in self.findings]
        return chips._repr_html_() + Table(("", "rule", "op", "value", "what", "fix"), rows)._repr_html_()


def _check_options(target: Optional[str], os: Optional[str], per_rule: int, way: Optional[str]) -> Tuple[Any, Any]:
    options = structure("propane_check_options")
    keep = [kept_chars(w) for w in (target, os, way)]
    options.target, options.os, options.path = keep
    options.per_rule = per_rule
    return options, keep


def check(path: Path, target: Optional[str] = None, *, os: Optional[str] = None, per_rule: int = 0,
          way: Optional[str] = None) -> Report:
    """Checks a file against the known rules of the Neural Engines: a program in any form, a folder, or a weight file.

    target: "m1,m4-max", "all" (None), "all-a" (phones). os: the macOS version, such as "26.3". per_rule: how many findings
    of each rule are kept (0: 20). way: the path to the engine, "direct" or "coreml" (None: "coreml" for Core ML files).
    """
    options, _keep = _check_options(target, os, per_rule, way)
    out, err = ffi.new("propane_report **"), error()
    _check(lib.propane_check_file(path_chars(path), options, out, err), err)
    return Report(out[0])


def check_module(module: Any, target: Optional[str], os: Optional[str], per_rule: int, way: Optional[str]) -> Report:
    options, _keep = _check_options(target, os, per_rule, way)
    out, err = ffi.new("propane_report **"), error()
    _check(lib.propane_check_module(module, options, out, err), err)
    return Report(out[0])


@dataclass(frozen=True)
class EstimateRow:
    """One function on one chip: milliseconds (nine of ten published points are within low..high), millijoules, bytes."""
    chip: str
    function: str
    ms: float
    low_ms: float
    high_ms: float
    fixed_ms: float
    io_ms: float
    flops: float
    bytes: float
    weight_bytes: float
    utilisation: float
    energy_mj: float
    compile_ms: float
    op_count: int
    moved: int
    switches: int
    cpu_ms: float
    switch_ms: float


class Estimate(Handle):
    """Time and energy on Neural Engines, from a model that is fitted to published measurements; Propane measured none of
    them."""

    rows: List[EstimateRow]

    def __init__(self, pointer: Any, owner: Any) -> None:
        self._own(pointer, lib.propane_estimate_free)
        self._owner = owner
        self.rows = []
        row = structure("propane_estimate_row")
        for i in range(lib.propane_estimate_count(pointer)):
            lib.propane_estimate_get(pointer, i, row)
            self.rows.append(_row(EstimateRow, row))

    def ops(self, index: int = 0) -> Table:
        """The operations of one row, in order: what limits each, milliseconds, FLOPs, bytes, millijoules."""
        op, rows = structure("propane_estimate_op"), []
        for i in range(self.rows[index].op_count):
            if lib.propane_estimate_get_op(self._alive(), index, i, op):
                rows.append((text_or_none(op.op), text_or_none(op.name), text_or_none(op.bound), op.ms, op.flops, op.bytes,
                             op.energy_mj))
        return Table(("op", "name", "bound", "ms", "FLOPs", "bytes", "mJ"), rows)

    def __str__(self) -> str:
        out, err = ffi.new("char **"), error()
        _check(lib.propane_estimate_print(self._alive(), lib.PROPANE_TEXT, False, out, err), err)
        return taken(out[0])

    def __iter__(self) -> Iterator[EstimateRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> EstimateRow:
        return self.rows[index]

    def close(self) -> None:
        super().close()
        self._owner = None

    def _repr_html_(self) -> str:
        rows = [(r.chip, r.function, r.ms, f"{r.low_ms:.3g} to {r.high_ms:.3g}", r.energy_mj, r.weight_bytes / 1e6,
                 r.utilisation) for r in self.rows]
        columns = ("chip", "function", "ms", "nine of ten", "mJ", "weights MB", "utilisation")
        return Table(columns, rows, "estimated, not measured")._repr_html_()


def estimate_module(module: Any, owner: Any, target: Optional[str], path: Optional[str]) -> Estimate:
    options = structure("propane_estimate_options")
    keep = [kept_chars(w) for w in (target, path)]
    options.target, options.path = keep
    out, err = ffi.new("propane_estimate **"), error()
    _check(lib.propane_estimate_module(module, options, out, err), err)
    return Estimate(out[0], owner)
