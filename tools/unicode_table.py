#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the rows of src/lm/text/unicode_new.def: code points newer than Unicode 14 (this Python's unicodedata), with the general
category of the package unicodedata2 if `tokenizers` knows them, and CN if it does not yet.

    python3 tools/unicode_table.py       (exit 77: a package is missing, or Python's tables are not of Unicode 14)
"""
import sys
import unicodedata

try:
    import unicodedata2
    from tokenizers import Regex, normalizers, pre_tokenizers
except ImportError as missing:
    print(f"unicode_table: {missing}", file=sys.stderr)
    sys.exit(77)
if unicodedata.unidata_version != "14.0.0":
    print(f"unicode_table: Unicode {unicodedata.unidata_version}, not 14", file=sys.stderr)
    sys.exit(77)

new = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) == "Cn" and unicodedata2.category(chr(c)) != "Cn"]
known = set()
for letter in "LNSPMZ":
    split = pre_tokenizers.Split(Regex(f"\\p{{{letter}}}"), "removed")
    beside = "!" if letter == "L" else "a"
    known |= {c for c in new if len(split.pre_tokenize_str(beside + chr(c) + beside)) > 1}
rows = []
for c in new:
    name = unicodedata2.category(chr(c)).upper() if c in known else "CN"
    if rows and rows[-1][1:] == [c - 1, name]:
        rows[-1][1] = c
    else:
        rows.append([c, c, name])
for first, last, name in rows:
    print(f"UNICODE_NEW(0x{first:X}, 0x{last:X}, {name})")
lower = normalizers.Lowercase()
capitals = []
for c in new:
    distance = ord(lower.normalize_str(chr(c))) - c
    if distance and capitals and capitals[-1][1:] == [c - 1, distance]:
        capitals[-1][1] = c
    elif distance:
        capitals.append([c, c, distance])
for first, last, distance in capitals:
    print(f"UNICODE_LOWER(0x{first:X}, 0x{last:X}, {distance})")
