# SPDX-License-Identifier: MIT
"""Printers for gdb: `source tools/gdb/propane_gdb.py`, then `p type`, `p *value`, `p view` read as MIL does."""
import gdb


def name_of(dtype):
    """MIL_fp16 -> fp16"""
    return str(dtype).replace("MIL_", "")


def shape(value):
    return "[" + ", ".join(str(int(value["dim"][d])) for d in range(int(value["rank"]))) + "]"


class Type:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = str(self.value["shell"]).replace("MIL_", "").lower()
        text = name_of(self.value["dtype"]) + " " + shape(self.value)
        return text if kind == "tensor" else kind + " of " + text


class Value:
    """A value of a program, with what makes it."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        name = v["name"].string() if v["name"] else "(literal)"
        by = "constant" if v["konst"] else v["def"]["info"]["name"].string() if v["def"] else "parameter"
        return f"{name}: {Type(v['type']).to_string()}, {by}"


class View:
    """Elements of a buffer of the cpu device."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        strides = ", ".join(str(int(v["stride"][d])) for d in range(int(v["rank"])))
        return f"buffer {int(v['buffer'])} at {int(v['offset'])}: {name_of(v['dtype'])} {shape(v)} by strides [{strides}]"


PRINTERS = {"mil_type": Type, "struct mil_type": Type, "propane_value": Value, "struct propane_value": Value, "mil_value": Value,
            "cpu_view": View, "struct cpu_view": View}


def find(value):
    printer = PRINTERS.get(str(value.type.unqualified()))
    return printer(value) if printer else None


gdb.pretty_printers.append(find)
