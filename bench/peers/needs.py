# SPDX-License-Identifier: MIT
"""Checks the requirements of a comparison. Packages are searched for, not imported, because their memory would count as the
caller's."""
import importlib.util
import os
import shutil
import sys


def absent(packages):
    return [name for name in packages if not importlib.util.find_spec(name)]


def require(packages=(), programs=()):
    """Prints everything that is missing, with what to do, and exits with 77; returns if nothing is missing."""
    gone = absent(packages)
    unbuilt = [path for path in programs if not shutil.which(path)]
    if not gone and not unbuilt:
        return
    me = os.path.basename(sys.argv[0])
    if gone:
        print(f"{me}: not installed: {', '.join(gone)}; pip install {' '.join(gone)}", file=sys.stderr)
    for path in unbuilt:
        print(f"{me}: no program {path}: `make benches` builds all, or name another place", file=sys.stderr)
    sys.exit(77)
