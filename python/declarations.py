# SPDX-License-Identifier: MIT
"""Owns the conversion of include/propane.h, and of the headers that it includes, to the declarations that cffi reads. One
idea: the headers are the only list. Comments, attributes and guards are removed, and numeric constants are inserted. The
rest is C that cffi parses and that the compiler then checks against the header itself. A header that leaves anything else is
refused.

    python declarations.py [HEADER]     prints them
"""
import hashlib
import os
import re
import sys

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "include", "propane.h")

# The functions in Python that C calls. `context` comes from ffi.new_handle.
CALLBACKS = """
extern "Python" void propane_ml_on_log(void *, const char *);
extern "Python" bool propane_ml_on_token(void *, const propane_token *);
extern "Python" void propane_ml_on_step(void *, const propane_step *);
extern "Python" void propane_ml_on_evaluation(void *, const propane_evaluation *);
extern "Python" void propane_ml_on_checkpoint(void *, int64_t, const char *);
extern "Python" bool propane_ml_on_interrupt(void *);
void propane_ml_watch(void);
"""


def declarations(header: str) -> str:
    """Returns the declarations in the text of a header, without directives and comments."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    numbers = dict(re.findall(r"^#define\s+(\w+)\s+(\d+)\s*$", text, flags=re.M))
    text = re.sub(r"^[ \t]*#(.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r"\bPROPANE_(CHECK|BEGIN|END)\b", "", text)
    text = re.sub(r"\[(\w+)\]", lambda m: "[" + numbers.get(m.group(1), m.group(1)) + "]", text)
    constants = "".join(f"#define {name} {value}\n" for name, value in numbers.items())
    text = constants + re.sub(r"\n\s*\n+", "\n", text)
    if "__attribute__" in text or text.count("{") != text.count("}"):
        raise ValueError("declarations.py: the header has something that is no plain declaration")
    return text


def text(path: str = HEADER) -> str:
    """Returns the header with its included headers inserted, each once and before its first use."""
    seen = set()
    root = os.path.dirname(path)

    def whole(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        with open(os.path.join(root, name), encoding="utf-8") as file:
            own = file.read()
        return re.sub(r'^#include "(propane/\w+\.h)"$', lambda m: whole(m.group(1)), own, flags=re.M)

    return whole(os.path.basename(path))


def read(path: str = HEADER) -> str:
    return declarations(text(path))


def fingerprint(path: str = HEADER) -> str:
    """Returns the fingerprint that the extension stores of the header it was built from."""
    return hashlib.sha256(" ".join(read(path).split()).encode()).hexdigest()


def version(path: str = HEADER) -> str:
    found = re.search(r'#define PROPANE_VERSION\s+"(.*)"', text(path))
    if not found:
        raise ValueError(f"{path}: there is no PROPANE_VERSION")
    return found.group(1)


if __name__ == "__main__":
    sys.stdout.write(read(*sys.argv[1:2]))
