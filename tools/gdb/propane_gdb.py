# SPDX-License-Identifier: MIT
"""Printers for gdb. After `source tools/gdb/propane_gdb.py`, the commands `p *function`, `p *value`, `p *program`, `p array`
and `p *err` print MIL text and messages."""
import struct

import gdb


def name_of(dtype):
    """MIL_fp16 -> fp16"""
    return str(dtype).replace("MIL_", "")


def shape(value):
    return "[" + ", ".join(str(int(value["dim"][d])) for d in range(int(value["rank"]))) + "]"


def value_name(pointer):
    return pointer["name"].string() if pointer["name"] else "(literal)"


class Type:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind = str(self.value["container"]).replace("MIL_", "").lower()
        text = name_of(self.value["dtype"]) + " " + shape(self.value)
        return text if kind == "tensor" else kind + " of " + text


class Value:
    """Prints a value of a program, with the operation that produces it."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        by = "constant" if v["constant"] else v["def"]["info"]["name"].string() if v["def"] else "parameter"
        return f"{value_name(v)}: {Type(v['type']).to_string()}, {by}"


class View:
    """Prints the elements of a buffer of the cpu device."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        strides = ", ".join(str(int(v["stride"][d])) for d in range(int(v["rank"])))
        return f"buffer {int(v['buffer'])} at {int(v['offset'])}: {name_of(v['dtype'])} {shape(v)} by strides [{strides}]"


class Operation:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        op, arguments = self.value, []
        for p in range(int(op["info"]["param_count"])):
            operands = op["operands"][p]
            names = [value_name(operands["values"][i]) for i in range(int(operands["count"]))]
            if names:
                arguments.append(op["info"]["params"][p]["name"].string() + " = " + ", ".join(names))
        results = [Type(op["results"][i]["type"]).to_string() + " " + value_name(op["results"][i])
                   for i in range(int(op["result_count"]))]
        return ", ".join(results) + " = " + op["info"]["name"].string() + "(" + ", ".join(arguments) + ")"


class Function:
    """Prints all operations, one per line."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        f, lines = self.value, []
        inputs = [Type(f["params"][i]["type"]).to_string() + " " + value_name(f["params"][i]) for i in range(int(f["param_count"]))]
        op = f["first"]
        while op:
            lines.append("    " + Operation(op.dereference()).to_string())
            op = op["next"]
        results = [value_name(f["results"][i]) for i in range(int(f["result_count"]))]
        return (f["name"].string() if f["name"] else "block") + "(" + ", ".join(inputs) + ")\n" + "\n".join(lines) + \
            "\n    -> " + ", ".join(results)


class Program:
    """Prints the steps that the cpu device planned."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        p = self.value
        steps = [f"    {i}: {p['steps'][i]['kind'].string()} {p['steps'][i]['name'].string()}" for i in range(int(p["step_count"]))]
        return f"{len(steps)} steps, {int(p['block_bytes'])} bytes a run\n" + "\n".join(steps)


class Array:
    """Prints a tensor in memory in the form of NumPy's files: its first elements."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        v = self.value
        kind, size, count = chr(int(v["kind"])), int(v["size"]), int(v["count"])
        form = {"f2": "e", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "u1": "B", "b1": "?"}.get(f"{kind}{size}")
        text = f"{kind}{size} {shape(v)}"
        if not form or not v["data"]:
            return text
        some = min(count, 8)
        data = struct.unpack(f"<{some}{form}", gdb.selected_inferior().read_memory(int(v["data"]), some * size))
        return text + ": " + ", ".join(f"{x:.6g}" for x in data) + (", ..." if count > some else "")


class Error:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return str(self.value["status"]) + ": " + self.value["text"].string()


PRINTERS = {"mil_type": Type, "propane_value": Value, "mil_value": Value, "mil_op": Operation, "mil_function": Function,
            "cpu_view": View, "cpu_program": Program, "npy": Array, "propane_error": Error}


def find(value):
    printer = PRINTERS.get(str(value.type.unqualified()).replace("struct ", ""))
    return printer(value) if printer else None


gdb.pretty_printers.append(find)
