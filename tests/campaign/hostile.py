# SPDX-License-Identifier: MIT
"""Inputs that once took minutes or gigabytes: tokenizer rules that lengthen a text or search it again at every position, a
long added token, an npz entry that is much larger than its header says, a chain of operations, a list beyond its limit, and
logs whose steps and losses are extreme. Each command must end within 2 s of processor time and 200 MB, with at most one line
of errors. Usage: tests/campaign/hostile.py PROPANE"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

PROGRAM = os.path.abspath(sys.argv[1])
SECONDS, MEGABYTES = 2, 200


def tokenizer(normalizer=None, added=(), regex=None):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": not regex}
    split = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    vocabulary = {chr(c): c - 33 for c in range(33, 127)}
    vocabulary.update({"\u0120": 94, "\u010a": 95})
    with open("t.json", "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "added_tokens": list(added), "normalizer": normalizer, "decoder": {"type": "ByteLevel"},
                   "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]} if regex else byte_level,
                   "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, f)
    with open("t.txt", "w", encoding="ascii") as f:
        f.write("a" * 1000 if normalizer else "a" * 300000 + "cbbbx=z\n")


def replacing():
    step = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 10}
    tokenizer(normalizer={"type": "Sequence", "normalizers": [step] * 16})


def long_token():
    tokenizer(added=[{"id": 96, "content": "a" * 1000000, "special": True, "normalized": False, "single_word": False, "lstrip": False,
                      "rstrip": False}])


def npz():
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }".ljust(117).encode() + b"\n"
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 30))
    program("fp32, [4]", '  tensor<fp32, [4]> y = relu(x = x)[name = string("y")];\n', "y")


def program(kind, body, result):
    with open("p.mil", "w", encoding="ascii") as f:
        f.write("program(1.3)\n{\n func main<ios18>(tensor<%s> x) {\n%s } -> (%s);\n}\n" % (kind, body, result))


def chain():
    line = '  tensor<fp16, [8]> v%d = add(x = %s, y = x)[name = string("v%d")];\n'
    program("fp16, [8]", "".join(line % (i, "v%d" % (i - 1) if i else "x", i) for i in range(20000)), "v19999")


def long_list():
    program("fp32, [100000]", """  list<tensor<fp32, [100000]>, ?> e = make_list(init_length = int32(1), dynamic_length = bool(true), elem_shape = (int32(100000)), dtype = string("fp32"));
  int32 i = const()[val = int32(0)];
  int32 n, list<tensor<fp32, [100000]>, ?> l = while_loop(loop_vars = (i, e)) (int32 a, list<tensor<fp32, [100000]>, ?> q) {
   bool m = less(x = a, y = int32(1100));
  } -> (m), (int32 a, list<tensor<fp32, [100000]>, ?> q) {
   int32 b = add(x = a, y = int32(1));
   list<tensor<fp32, [100000]>, ?> r = list_write(ls = q, index = a, value = x);
  } -> (b, r);
  int32 y = list_length(ls = l);
""", "y")


def log(lines):
    os.makedirs("r", exist_ok=True)
    with open("r/log.jsonl", "w", encoding="ascii") as f:
        f.write(lines)


TOKENIZE = ["tokenize", "t.txt", "--tokenizer", "t.json", "--tokens", "ids"]
FAR, CLOSE = '{"step":4611686018427387904,"loss":3}\n', '{"step":1,"loss":1e16}\n{"step":2,"loss":1.0000000000000002e16}\n'
CASES = {  # the function that makes the input, the exit code, the command
    "rules that lengthen a text": (replacing, 1, TOKENIZE),
    "an added token of 1 MB": (long_token, 1, TOKENIZE),
    "a pattern that looks ahead": (lambda: tokenizer(regex="(?=a*b)"), 1, TOKENIZE),
    "a pattern that calls itself": (lambda: tokenizer(regex="(a(?R)?b)|a"), 1, TOKENIZE),
    "an npz entry of 1 GB": (npz, 1, ["run", "p.mil", "-i", "bomb.npz"]),
    "20,000 operations": (chain, 0, ["run", "p.mil", "--seed", "1", "--threads", "1"]),
    "a list beyond its limit": (long_list, 1, ["run", "p.mil", "--seed", "1"]),
    "a far step, page": (lambda: log(FAR), 0, ["report", "r", "-o", "o.html"]),
    "a far step, curve": (lambda: log(FAR), 0, ["watch", "r", "--once"]),
    "losses that hardly differ, page": (lambda: log(CLOSE), 0, ["report", "r", "-o", "o.html"]),
    "losses that hardly differ, curve": (lambda: log(CLOSE), 0, ["watch", "r", "--once"]),
    "losses that hardly differ, table": (lambda: log(CLOSE), 0, ["compare", "r", "r"]),
}
MEASURE = ("import resource, subprocess, sys; c = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
           "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(u.ru_utime + u.ru_stime, u.ru_maxrss / 1024); sys.exit(c)")


def main():
    failed = 0
    for name, (make, code, command) in CASES.items():
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            make()
            p = subprocess.run([sys.executable, "-I", "-c", MEASURE, PROGRAM, *command], capture_output=True, text=True, timeout=300)
            os.chdir("/")
        seconds, megabytes = map(float, p.stdout.split())
        good = p.returncode == code and seconds < SECONDS and megabytes < MEGABYTES and len(p.stderr.splitlines()) == code
        failed += not good
        print("%-7s %-34s exit code %d, %.2f s, %3.0f MB  %s" % ("ok" if good else "FAILED", name, p.returncode, seconds, megabytes,
                                                                p.stderr.strip()[:150]), flush=True)
    return 1 if failed else 0


sys.exit(main())
