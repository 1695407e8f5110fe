# SPDX-License-Identifier: MIT
"""Creates notebooks from the scripts in examples/notebooks: `# %%` begins a code cell, `# %% [markdown]` a text cell.

    python notebooks.py            writes NAME.ipynb next to each NAME.py
    python notebooks.py --check    exits with 1 if one differs from its script
    python notebooks.py --run      runs them in a kernel (nbclient); 77: nbclient or ipykernel is missing
"""
import glob
import json
import os
import re
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "examples", "notebooks")


def cells(script: str) -> list:
    made: list = []
    for number, part in enumerate(script.split("# %%")[1:]):
        head, _, body = part.partition("\n")
        lines = body.strip("\n").split("\n")
        if head.strip() == "[markdown]":
            lines = [line[2:] if line.startswith("# ") else line.lstrip("#") for line in lines]
        source = [line + "\n" for line in lines[:-1]] + lines[-1:]
        cell = {"cell_type": "markdown" if head.strip() == "[markdown]" else "code", "id": f"cell-{number}", "metadata": {}, "source": source}
        if cell["cell_type"] == "code":
            cell.update(execution_count=None, outputs=[])
        made.append(cell)
    return made


def notebook(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        script = file.read()
    return json.dumps({"cells": cells(script), "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                                                            "language_info": {"name": "python"}},
                       "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def run(path: str) -> bool:
    """Runs it in a kernel of this Python. A cell that exits with code 77 lacks a package."""
    import nbclient
    import nbformat
    with open(path, encoding="utf-8") as file:
        nb = nbformat.read(file, as_version=4)
    name = os.path.basename(path)
    try:
        nbclient.NotebookClient(nb, timeout=300, kernel_name="python3").execute()
    except nbclient.exceptions.CellExecutionError as failure:
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(failure))  # some kernels colour it
        if "SystemExit: 77" in said:
            print(f"skipped: {name}: a package that it needs is not here")
            return True
        print(f"FAILED  {name}\n{said[-2000:]}")
        return False
    print(f"ok      {name}: {sum(c.cell_type == 'code' for c in nb.cells)} cells")
    return True


def main() -> int:
    good, word = True, sys.argv[1] if len(sys.argv) > 1 else ""
    if word == "--run":
        try:
            import ipykernel  # noqa: F401
            import nbclient  # noqa: F401
        except ImportError as missing:
            print(missing)
            return 77
    for script in sorted(glob.glob(os.path.join(HERE, "*.py"))):
        made, path = notebook(script), script[:-3] + ".ipynb"
        if word == "--run":
            good &= run(path)
        elif word == "--check":
            with open(path, encoding="utf-8") as file:
                same = file.read() == made
            if not same:
                print(f"{os.path.basename(path)} is not its script's: run python/notebooks.py")
            good &= same
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(made)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
