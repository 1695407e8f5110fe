#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds the operation that makes a device refuse a Core ML model when Core ML gives no reason.

The model is cut after an operation (`propane convert --until`), which is chosen by bisection: if the part loads, the fault
is after the cut, otherwise before it. coremltools loads each part in a separate process, because a refusal may end the
process. Usage, on a Mac: python3 tools/find_refused.py Model.mlpackage [--units CPU_AND_NE] [--predict]

--try 'COMMAND {}' is another test for a part ({} is its path), which fails by its exit code; it needs no Mac. The result is
correct if every part that contains the operation fails and every smaller one loads. For that reason, the whole model is
tried first.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

LOAD = """
import sys, coremltools as ct
units = getattr(ct.ComputeUnit, sys.argv[2])
m = ct.models.MLModel(sys.argv[1], compute_units=units)
if sys.argv[3] == "predict":
    import numpy as np
    m.predict({i.name: np.zeros(list(i.type.multiArrayType.shape), np.float32) for i in m.get_spec().description.input},
              **({"state": m.make_state()} if m.get_spec().description.state else {}))
"""


def values(propane: str, model: str, work: str) -> list:
    """Returns the first result and the kind of each operation, in program order, without constants."""
    text = os.path.join(work, "whole.mil")
    done = subprocess.run([propane, "convert", model, text], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"find_refused: {done.stderr.strip()}")
    found = []
    with open(text, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"\s+(\S[^(]*?) = ([a-z_0-9]+)\(", line)
            if m and m.group(2) != "const" and not m.group(2).startswith("constexpr_"):
                first = re.match(r"(?:.*?> |\w+ )([A-Za-z_][\w.]*)", m.group(1))
                found.append((first.group(1), m.group(2)))
    return found


class Finder:
    def __init__(self, options: argparse.Namespace, work: str) -> None:
        self.options, self.work, self.loads = options, work, 0

    def holds(self, part: str) -> bool:
        """Returns whether the device accepts this part."""
        self.loads += 1
        if self.options.test:
            command = self.options.test.replace("{}", shlex.quote(part))
            return subprocess.run(command, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        mode = "predict" if self.options.predict else "load"
        command = [sys.executable, "-c", LOAD, part, self.options.units, mode]
        return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def cut(self, value: str) -> str:
        """Writes the part up to `value`. Returns "" if the value cannot be an output (an integer, for example)."""
        part = os.path.join(self.work, "part.mlpackage")
        shutil.rmtree(part, ignore_errors=True)
        command = [self.options.propane, "convert", self.options.model, part, "--until", value]
        return part if subprocess.run(command, capture_output=True).returncode == 0 else ""


def search(finder: Finder, ops: list) -> tuple:
    """Returns the positions of the last accepted part (-1: none) and of the first refused one. Operations between them
    cannot be outputs."""
    good, bad, tried = -1, len(ops) - 1, set()
    while True:
        places = [i for i in range(good + 1, bad) if i not in tried]
        if not places:
            return good, bad
        at = places[len(places) // 2]
        tried.add(at)
        part = finder.cut(ops[at][0])
        if not part:
            continue
        taken = finder.holds(part)
        print(f"  {at + 1:5} of {len(ops)}: {ops[at][1]} '{ops[at][0]}': {'loads' if taken else 'refused'}", flush=True)
        good, bad = (at, bad) if taken else (good, at)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--units", default="CPU_AND_NE", choices=["ALL", "CPU_AND_NE", "CPU_AND_GPU", "CPU_ONLY"])
    parser.add_argument("--predict", action="store_true", help="also run each part once, with zeros")
    parser.add_argument("--try", dest="test", metavar="COMMAND", help="run this instead; {} is the part")
    parser.add_argument("--propane", default="propane", help="the command [propane]")
    options = parser.parse_args()
    work = tempfile.mkdtemp(prefix="find_refused.")
    try:
        finder = Finder(options, work)
        if finder.holds(options.model):
            print("the whole model loads: nothing is refused")
            return 0
        ops = values(options.propane, options.model, work)
        if not ops:
            sys.exit("find_refused: the program has no operations")
        good, bad = search(finder, ops)
        suspects = [f"{op} '{name}'" for name, op in ops[good + 1:bad + 1]]
        print(f"refused from here on: {', '.join(suspects)} ({bad + 1} of {len(ops)}), or an operation that it alone reads; {finder.loads} parts were tried")
        if good >= 0:
            print(f"the last that is taken: {ops[good][1]} '{ops[good][0]}'")
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
