#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of docs/where.md: Stories110M for 1,000 tokens on five chips, first all weights, then adapters.

    tools/where_page.py [--check] [--propane build/release/propane]

--check writes nothing, and fails with the lines that differ if the page is stale.
"""
import argparse
import difflib
import os
import subprocess
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "where.md")
QUESTION = ["where", "stories110m", "--target", "m1,m4,m4-max,m5,a18-pro", "--markdown"]
HEADER = ["| chip | unit | plan | ms | J | CPU's part | |\n", "|---|---|---|---:|---:|---:|---|\n"]
RANKS = ["0", "8"]  # the page's tables, in its order


def table(propane, rank):
    run = subprocess.run([propane, *QUESTION, "--lora-rank", rank], check=True, capture_output=True, text=True)
    return run.stdout.splitlines(keepends=True)


def renewed(lines, tables):
    """Returns the page's lines with each table of units replaced by the next of tables."""
    out, at, left = [], 0, list(tables)
    while at < len(lines):
        if lines[at:at + 2] != HEADER:
            out.append(lines[at])
            at += 1
            continue
        if not left:
            sys.exit(f"docs/where.md:{at + 1}: the page has more than {len(tables)} tables of units")
        out += left.pop(0)
        at += 2
        while at < len(lines) and lines[at].startswith("|"):
            at += 1
    if left:
        sys.exit(f"docs/where.md: the page has {len(tables) - len(left)} tables of units instead of {len(tables)}; the header of each is\n{''.join(HEADER)}")
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--propane", default="build/release/propane")
    a = p.parse_args()
    with open(PAGE, encoding="utf-8") as file:
        old = file.readlines()
    new = renewed(old, [table(a.propane, rank) for rank in RANKS])
    if a.check:
        sys.stdout.writelines(difflib.unified_diff(old, new, "docs/where.md", "docs/where.md as written by tools/where_page.py", n=0))
        sys.exit(old != new)
    if old != new:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.writelines(new)


main()
