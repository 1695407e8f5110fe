#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the language of documents, messages and comments: words that have a better replacement, and sentences that are too
long.

Usage: tools/language.py [--long N]. Exits with 1 and names each place. Words are checked in docs/, READMEs, and the comments
and strings of sources and tests. Sentences of more than N words (40) are reported only for documents; each table cell counts
separately, and code is ignored.
"""
import argparse
import pathlib
import re
import subprocess
import sys

WORDS = [  # words to avoid, and their replacements
    (r"(?:[Ff]irst|[Ss]econd|[Tt]hird) cache\b", "L1, L2, L3"),
    (r"\b[Ff]etch(?:ed|es|ing)? ahead\b", "prefetch"),
    (r"\b[Bb]y the way\b", "on the fly"),
    (r"\b[Ll]engths? of the gradients?\b", "gradient norm"),
    (r"\b[Ww]hole[ -]numbers?\b(?! of)", "integers"),
    (r"\b[Pp]ictures?\b", "image"),
    (r"\bone behind (?:the other|another)\b", "one after the other"),
    (r"\b(?:ends?|begins?|goes on|go on|writes?|moves?) behind\b", "after, beyond"),
    (r"\bbehind (?:it|them|the last|that|those)\b", "after"),
    (r"\b[Uu]nasked\b", "by itself"),
    (r"\bpassed over\b", "skipped"),
    (r"\b[Pp]art in a hundred\b", "percent"),
    (r"\b[Ii]n the place of\b", "instead of"),
    (r"\b[Bb]eside\b", "next to, in addition to, during"),
    (r"\b(?:[Oo]ne|[Tt]wo|tokens|samples|bytes|joules|[GMk]B|ms|ns) an? (?:second|token|step|batch|update|call|message|"
     r"rank|worker|example|field|day|parameter)\b", "per"),
    (r"\b(?:that|which) (?:was|were) asked for\b", "requested"),
    (r"\b(?:what|the rest|it|this) stands (?:in|at|on|for)\b", "is, means"),
]
EXEMPT = {  # constraints.md is generated from limits.def, which is checked; the last two quote public reports
    "tools/language.py", "docs/constraints.md", "docs/reports.md", "tests/chip/reports/reports.def"}


def prose_of_code(text, hash_comments):
    """Yields comments and strings, with their line numbers."""
    pattern = (r"#[^\n]*|\"\"\".*?\"\"\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'" if hash_comments else
               r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'")
    for found in re.finditer(pattern, text, re.S):
        yield text.count("\n", 0, found.start()) + 1, found.group()


def sentences(text):
    """Yields (line, sentence) for Markdown."""
    text = re.sub(r"```.*?```", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    block, begun = [], 0
    blocks = []

    def flush():
        if block:
            blocks.append((begun, " ".join(block)))
            block.clear()
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or (line.startswith("    ") and not block):
            flush()
            continue
        if line.startswith("|"):
            flush()
            blocks.extend((number, cell) for cell in line.strip("|").split("|"))
            continue
        if re.match(r"\s*(?:[-*] |#|\d+\. )", line):
            flush()
        if not block:
            begun = number
        block.append(line.strip())
    flush()
    for number, whole in blocks:
        for one in re.split(r"(?<=[.!?;:])\s+(?=[A-Z`*(\[\"])", whole):
            yield number, one


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--long", type=int, default=40)
    most = parser.parse_args().long
    root = pathlib.Path(__file__).resolve().parent.parent
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    bad = 0
    for name in listed:
        kind = name.rsplit(".", 1)[-1]
        if name in EXEMPT or kind not in ("md", "c", "h", "def", "py", "t", "cc"):
            continue
        text = (root / name).read_text(errors="replace")
        parts = [(1, text)] if kind in ("md", "t") else prose_of_code(text, kind == "py")
        for line, part in parts:
            for pattern, better in WORDS:
                for found in re.finditer(pattern, part):
                    print(f"{name}:{line + part.count(chr(10), 0, found.start())}: '{found.group()}': write {better}")
                    bad += 1
        if kind == "md":
            for line, one in sentences(text):
                count = sum(1 for word in one.split() if re.search(r"\w", word))
                if count > most:
                    print(f"{name}:{line}: a sentence of {count} words: {one[:60]}...")
                    bad += 1
    print(f"language: {bad} places")
    return bad > 0


sys.exit(main())
