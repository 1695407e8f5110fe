#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares token ids for seven kinds of tokenizer.json with Hugging Face's `tokenizers`; see tools/tokenizer_reference.py.

    python3 tools/tokenizer_check.py [PROPANE]        (exit 1: different; 77: a package is missing)
"""
import os
import sys

import tokenizer_reference as reference  # exits with 77 if the package is missing

program = sys.argv[1] if len(sys.argv) == 2 else os.path.join(reference.ROOT, "build", "release", "propane")
if not os.path.exists(program):
    print(f"tokenizer_check: {program} is not built: run make")
    sys.exit(77)
sys.exit(reference.compare(program))
