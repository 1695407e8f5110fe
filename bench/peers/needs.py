# SPDX-License-Identifier: MIT
"""What a comparison needs. Packages are looked for, not imported: their memory would count as that of who asks."""
import importlib.util
import os
import shutil
import sys


def absent(packages):
    return [name for name in packages if not importlib.util.find_spec(name)]


def require(packages=(), programs=()):
    """Names everything that is missing, with what to do, and exits with 77; returns where it is all there."""
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
