# SPDX-License-Identifier: MIT
"""Measures how cost grows with input size: each reader gets an input and another one twice as large. valgrind's callgrind
counts instructions, so that the result is the same on any machine. Memory is the largest resident size, for inputs eight
times as large, because 14 MB of that figure belong to the parent process. Doubling may multiply neither by more than MOST,
which n log n satisfies and n squared does not. Usage: tests/campaign/growth.py PROPANE [NAME...]     MOST=X (2.5) Prints a
line for each reader: units, instructions per unit, and the two factors; exits with 1 if one grew too fast."""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import growth_files as files
from growth_files import field, varint, write

PROGRAM = os.path.abspath(sys.argv[1])
MOST = float(os.environ.get("MOST", "2.5"))
HEAD = "program(1.3)\n{\n func main<ios18>(tensor<fp16, [1, 8]> x) {\n"


def mil(path, body, outputs):
    write(path, HEAD + body + " } -> (%s);\n}\n" % outputs)


def chain(n):
    line = '  tensor<fp16, [1, 8]> v%d = relu(x = %s)[name = string("v%d")];\n'
    mil("in.mil", "".join(line % (i, "v%d" % (i - 1) if i else "x", i) for i in range(n)), "v%d" % (n - 1))


def fan(n):
    line = '  tensor<fp16, [1, 8]> v%d = relu(x = x)[name = string("v%d")];\n'
    mil("in.mil", "".join(line % (i, i) for i in range(n)), ", ".join("v%d" % i for i in range(n)))


HALF = "tensor<fp16, [1, 8]>"


def several(n):
    """n inputs, n outputs."""
    body = "".join('  %s y%d = relu(x = x%d)[name = string("y%d")];\n' % (HALF, i, i, i) for i in range(n))
    write("in.mil", "program(1.3)\n{\n func main<ios18>(%s) {\n%s } -> (%s);\n}\n" % (
        ", ".join("%s x%d" % (HALF, i) for i in range(n)), body, ", ".join("y%d" % i for i in range(n))))


def states(n):
    body = "".join('  %s r%d = read_state(input = s%d)[name = string("r%d")];\n  %s w%d = add(x = r%d, y = x)[name = string("w%d")];\n'
                   '  write_state(data = w%d, input = s%d)[name = string("q%d")];\n' % (HALF, i, i, i, HALF, i, i, i, i, i, i) for i in range(n))
    write("in.mil", "program(1.3)\n{\n func main<ios18>(%s, %s x) {\n%s } -> (w0);\n}\n" % (
        ", ".join("state<%s> s%d" % (HALF, i) for i in range(n)), HALF, body))


def branches(n):
    line = ('  %s v%d = cond(pred = c)[name = string("v%d")] { %s t%d = relu(x = %s)[name = string("t%d")]; } -> (t%d), '
            '{ %s e%d = square(x = %s)[name = string("e%d")]; } -> (e%d);\n')
    before = ["x"] + ["v%d" % i for i in range(n)]
    body = "".join(line % (HALF, i, i, HALF, i, before[i], i, i, HALF, i, before[i], i, i) for i in range(n))
    write("in.mil", "program(1.3)\n{\n func main<ios18>(bool c, %s x) {\n%s } -> (v%d);\n}\n" % (HALF, body, n - 1))


def norms(n):
    line = '  %s v%d = layer_norm(x = %s, axes = tensor<int32, [1]>([-1]), epsilon = fp16(0x1p-10))[name = string("v%d")];\n'
    mil("in.mil", "".join(line % (HALF, i, "v%d" % (i - 1) if i else "x", i) for i in range(n)), "v%d" % (n - 1))


def turned(n):
    """Every value in a chain of views is a result if all values are kept."""
    line = ('  tensor<fp16, [8, 1]> t%d = transpose(perm = tensor<int32, [2]>([1, 0]), x = %s)[name = string("t%d")];\n'
            '  %s v%d = transpose(perm = tensor<int32, [2]>([1, 0]), x = t%d)[name = string("v%d")];\n')
    mil("in.mil", "".join(line % (i, "v%d" % (i - 1) if i else "x", i, HALF, i, i, i) for i in range(n)), "v%d" % (n - 1))


def kept(n):
    """All values live until the end."""
    one = '  %s v%d = relu(x = %s)[name = string("v%d")];\n'
    two = '  %s a%d = maximum(x = %s, y = v%d)[name = string("a%d")];\n'
    mil("in.mil", "".join(one % (HALF, i, "v%d" % (i - 1) if i else "x", i) for i in range(n)) +
        "".join(two % (HALF, i, "a%d" % (i - 1) if i else "v%d" % (n - 1), n - 1 - i, i) for i in range(n)), "a%d" % (n - 1))


def operands(n):
    mil("in.mil", '  tensor<fp16, [%d, 8]> y = concat(values = (%s), axis = int32(0), interleave = bool(false))[name = string("y")];\n'
        % (n, ", ".join(["x"] * n)), "y")


def constants(n):
    line = '  tensor<fp16, [1, 8]> c%d = const()[name = string("c%d"), val = tensor<fp16, [1, 8]>([[1, 2, 3, 4, 5, 6, 7, 8]])];\n'
    mil("in.mil", "".join(line % (i, i) for i in range(n)) + '  tensor<fp16, [1, 8]> y = add(x = x, y = c0)[name = string("y")];\n', "y")


def comments(n):
    mil("in.mil", "// a comment, and not a short one\n" * n + '  tensor<fp16, [1, 8]> y = relu(x = x)[name = string("y")];\n', "y")


def words(n):
    return ["w%x" % (i * 2654435761 % 2**32) for i in range(n)]


def tokenizer(n):
    letters = [chr(97 + i) for i in range(26)]
    pairs = [(a, b) for a in letters for b in letters]
    vocabulary, merges = list(letters), []
    for a, b in pairs:
        vocabulary.append(a + b)
        merges.append([a, b])
    for i in range(n):
        a, b = pairs[i % 676], pairs[i // 676 % 676]
        vocabulary.append("".join(a + b))
        merges.append(["".join(a), "".join(b)])
    unique = dict.fromkeys(vocabulary)
    write("t.json", json.dumps({"version": "1.0", "added_tokens": [], "model": {
        "type": "BPE", "vocab": {w: i for i, w in enumerate(unique)}, "merges": list(map(list, dict.fromkeys(map(tuple, merges))))},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}}))
    write("text", "abcd efgh\n")


def tokens(n):
    write("t.json", json.dumps({"version": "1.0", "added_tokens": [], "model": {
        "type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aa": 3, "aaaa": 4}, "merges": [["a", "b"], ["a", "a"], ["aa", "aa"]]},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}}))
    write("text", "a" * n)


def learn(n):
    write("text", " ".join(words(n)) + "\n")


def letters(n):
    write("text", "".join(chr(97 + i * i % 26) for i in range(n)))


def safetensors(n):
    header = {"t%d" % i: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(n)}
    data = json.dumps(header).encode()
    write("in.safetensors", struct.pack("<Q", len(data)) + data + bytes(4 * n))


def gguf_string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def gguf_keys(n):
    entries = b"".join(gguf_string("key.%d" % i) + struct.pack("<I", 4) + struct.pack("<I", i) for i in range(n))
    write("in.gguf", b"GGUF" + struct.pack("<IQQ", 3, 0, n + 1) + gguf_string("general.architecture") + struct.pack("<I", 8) +
          gguf_string("llama") + entries)


def gguf_tensors(n):
    infos = b"".join(gguf_string("t.%d" % i) + struct.pack("<IQIQ", 1, 8, 0, 32 * i) for i in range(n))
    head = b"GGUF" + struct.pack("<IQQ", 3, n, 1) + gguf_string("general.architecture") + struct.pack("<I", 8) + gguf_string("llama")
    at = len(head) + len(infos)
    write("in.gguf", head + infos + bytes(-at % 32) + bytes(32 * n))


def byte_vocabulary():
    write("few", "abc\n")
    subprocess.run([PROGRAM, "tokenize", "few", "--kind", "bytes", "--out", "t.json"], check=True, stdout=subprocess.DEVNULL)


def with_bytes(make):
    """The input, and a vocabulary of bytes next to it."""
    return lambda n: (byte_vocabulary(), make(n))


def here(make):
    """An input that the command itself helps to create."""
    return lambda n: make(PROGRAM, n)


def rows(n):
    byte_vocabulary()
    write("in.csv", "prompt,completion\n" + "".join('"what is %d","it is, %d"\n' % (i, i + 1) for i in range(n)))


def lines(n):
    byte_vocabulary()
    write("in.jsonl", "".join(json.dumps({"prompt": "what is %d" % i, "completion": "it is %d" % (i + 1)}) + "\n" for i in range(n)))


def turns(n):
    byte_vocabulary()
    messages = [{"role": ("user", "assistant")[i % 2], "content": "word %d" % i} for i in range(n)]
    write("in.jsonl", json.dumps({"messages": messages}) + "\n")


def log(n):
    os.makedirs("r", exist_ok=True)
    start = {"event": "start", "steps": n, "batch": 1, "context": 32, "tokens_per_step": 32, "time": "2026-01-01 00:00:00 +0000"}
    write("r/log.jsonl", json.dumps(start) + "\n" + "".join(
        json.dumps({"step": i + 1, "loss": 5 - 4 * i / n, "lr": 1e-3, "gradient_norm": 1.0, "loss_scale": 1, "tokens_per_s": 1e4,
                    "device_ms": 1.0, "host_ms": 1.0, "seconds": 0.01 * i, "memory": 1}) + "\n" for i in range(n)))


def one_line(n):
    """A log whose last line does not end."""
    log(10)
    with open("r/log.jsonl", "a", encoding="ascii") as f:
        f.write("x" * n)


def references(n):
    """Not a program, but its text is searched for weight files."""
    write("in.mil", "BLOBFILE(" * n)
    write("w.bin", bytes(64))


def layers(n):
    """A neural network in Core ML's older format: n ReLUs in a row."""
    feature = lambda name: field(1, name.encode()) + field(3, field(5, field(1, varint(8)) + varint(2 << 3) + varint(65568)))
    layer = lambda i: field(1, b"l%d" % i) + field(2, b"v%d" % i) + field(3, b"v%d" % (i + 1)) + field(130, field(10, b""))
    network = b"".join(field(1, layer(i)) for i in range(n))
    write("in.mlmodel", varint(1 << 3) + varint(4) + field(2, field(1, feature("v0")) + field(10, feature("v%d" % n))) + field(500, network))


def parts(data):
    """The fields of a message: number, all bytes, contents."""
    at = 0
    while at < len(data):
        begin, (key, at) = at, unpacked(data, at)
        size = 0
        if key & 7 == 2:
            size, at = unpacked(data, at)
        elif key & 7 == 0:
            _, at = unpacked(data, at)
        yield key >> 3, data[begin:at + size], data[at:at + size]
        at += size


def unpacked(data, at):
    value = shift = 0
    while data[at] & 128:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def package(n):
    """Its description lists inputs and outputs from the last to the first one of the program."""
    several(n)
    shutil.rmtree("p.mlpackage", ignore_errors=True)
    subprocess.run([PROGRAM, "convert", "in.mil", "p.mlpackage"], check=True, stdout=subprocess.DEVNULL)
    path = glob.glob("p.mlpackage/Data/*/*.mlmodel")[0]
    with open(path, "rb") as f:
        model = f.read()
    turned = lambda d: b"".join(whole for _, whole, _ in reversed(list(parts(d))))
    write(path, b"".join(field(2, turned(inner)) if number == 2 else whole for number, whole, inner in parts(model)))


def compiled(n):
    several(n)
    os.makedirs("c.mlmodelc", exist_ok=True)
    shutil.move("in.mil", "c.mlmodelc/model.mil")
    one = lambda name: {"name": name, "shortDescription": "", "isOptional": "0", "type": "MultiArray"}
    write("c.mlmodelc/metadata.json", json.dumps([{
        "metadataOutputVersion": "3.0", "inputSchema": [one("x%d" % i) for i in reversed(range(n))],
        "outputSchema": [one("y%d" % i) for i in reversed(range(n))]}]))


TRAIN = "--steps 1 --layers 1 --width 16 --heads 2 --context 256 --held-out 0 --batch 1 --run n --no-report --eval-every 0 --tokenizer t.json --chat chatml --checkpoint-every 0".split()
TOKENIZE = ["tokenize", "text", "--tokenizer", "t.json", "--print-ids", "lines"]
GENERATE = ["generate", "hf", "--prompt-ids", "1", "-n", "1", "--print-ids", "--temperature", "0"]
READERS = {  # the function that makes the input, units, the command
    "operations": (chain, 4000, ["estimate", "in.mil", "--target", "m4"]),
    "operations, checked": (chain, 4000, ["check", "in.mil", "--target", "m4"]),
    "operations, run": (chain, 4000, ["run", "in.mil", "--seed", "1"]),
    "outputs": (fan, 1500, ["run", "in.mil", "--seed", "1"]),
    "outputs, checked": (fan, 1500, ["check", "in.mil", "--target", "m4"]),
    "inputs and outputs": (several, 1500, ["run", "in.mil", "--seed", "1"]),
    "inputs, simulated": (several, 1500, ["run", "in.mil", "--seed", "1", "--device", "sim:m4"]),
    "states": (states, 1000, ["run", "in.mil", "--seed", "1"]),
    "states, shown": (states, 1000, ["show", "in.mil"]),
    "inputs and outputs, shown": (several, 1500, ["show", "in.mil"]),
    "inputs and outputs, shown as JSON": (several, 1500, ["show", "in.mil", "--json"]),
    "branches": (branches, 1000, ["run", "in.mil", "--seed", "1"]),
    "branches, gradient": (branches, 1000, ["gradient", "in.mil", "out.mil"]),
    "norms": (norms, 1000, ["run", "in.mil", "--seed", "1"]),
    "values that live on": (kept, 10000, ["run", "in.mil", "--seed", "1"]),
    "views, compared": (turned, 1000, ["diff", "in.mil", "--seed", "1", "--device-b", "sim:m4"]),
    "operands": (operands, 4000, ["show", "in.mil"]),
    "operands, run": (operands, 4000, ["run", "in.mil", "--seed", "1"]),
    "constants": (constants, 4000, ["show", "in.mil"]),
    "comments": (comments, 20000, ["show", "in.mil"]),
    "vocabulary": (tokenizer, 30000, ["tokenize", "text", "--tokenizer", "t.json", "--print-ids", "lines"]),
    "one long word": (tokens, 50000, ["tokenize", "text", "--tokenizer", "t.json", "--tokens", "ids"]),
    "words, learnt": (learn, 5000, ["tokenize", "text", "--vocab", "300", "--out", "t.json"]),
    "letters, learnt": (letters, 50000, ["tokenize", "text", "--vocab", "300", "--out", "t.json"]),
    "tensors": (safetensors, 10000, ["show", "in.safetensors"]),
    "GGUF entries": (gguf_keys, 10000, ["show", "in.gguf"]),
    "GGUF tensors": (gguf_tensors, 10000, ["show", "in.gguf"]),
    "one long line of a log": (one_line, 4000000, ["watch", "r", "--once"]),
    "references to weights": (references, 50000, ["check", "in.mil", "--target", "m4"]),
    "features in another order": (package, 1500, ["run", "p.mlpackage", "--seed", "1"]),
    "features in another order, shown": (package, 1500, ["show", "p.mlpackage"]),
    "a schema in another order": (compiled, 1500, ["show", "c.mlmodelc"]),
    "layers": (layers, 2000, ["show", "in.mlmodel"]),
    "layers, checked": (layers, 2000, ["check", "in.mlmodel", "--target", "m4"]),
    "rows of CSV": (rows, 5000, ["train", "--data", "in.csv", *TRAIN]),
    "lines of JSON": (lines, 5000, ["train", "--data", "in.jsonl", *TRAIN]),
    "turns of a chat": (turns, 1000, ["train", "--data", "in.jsonl", *TRAIN]),
    "records of a log": (log, 5000, ["watch", "r", "--once"]),
    "records of a log, compared": (log, 5000, ["compare", "r", "r"]),
    "records of a log, on a page": (log, 5000, ["report", "r", "-o", "o.html"]),
    "rows of a PNG": (files.png, 500, ["run", "in.mlmodel", "-i", "x=in.png"]),
    "texts in a PNG": (files.png_texts, 5000, ["run", "in.mlmodel", "-i", "x=in.png"]),
    "rows of a JPEG": (files.jpeg, 1000, ["run", "in.mlmodel", "-i", "x=in.jpg"]),
    "comments in a JPEG": (files.jpeg_comments, 20000, ["run", "in.mlmodel", "-i", "x=in.jpg"]),
    "elements of an npy": (files.npy, 100000, ["run", "in.mil", "-i", "x=x.npy"]),
    "entries of an npz": (files.npz_entries, 500, ["run", "in.mil", "-i", "in.npz"]),
    "elements in an npz": (files.npz_packed, 100000, ["run", "in.mil", "-i", "in.npz"]),
    "shards of a model": (files.shards, 60, GENERATE),
    "layers of a model": (files.layers, 60, ["show", "hf"]),
    "layers, to GGUF": (files.layers, 60, ["convert", "hf", "o.gguf"]),
    "layers, to a folder": (files.layers, 60, ["convert", "hf", "o"]),
    "layers, generating": (files.layers, 60, GENERATE),
    "files of text": (with_bytes(files.texts), 100, ["train", "--data", "data", *TRAIN]),
    "files of examples": (with_bytes(files.instructions), 100, ["train", "--data", "data", *TRAIN]),
    "a list of examples": (with_bytes(files.json_list), 2000, ["train", "--data", "in.json", *TRAIN]),
    "rows of TSV": (with_bytes(files.tsv), 2000, ["train", "--data", "in.tsv", *TRAIN]),
    "pairs to prefer, shown": (here(files.pairs), 1000, ["show", "in.jsonl", "--model", "m"]),
    "ids": (here(files.ids), 4000, ["eval", "m", "--ids", "ids"]),
    "published points": (files.points, 1000, ["estimate", "--points", "p.csv"]),
    "a plan of Core ML": (files.plan, 1000, ["check", "in.mil", "--target", "m4", "--path", "coreml", "--plan", "plan.json"]),
    "a plan of another program": (files.other_plan, 1000, ["check", "in.mil", "--target", "m4", "--path", "coreml", "--plan", "plan.json"]),
    "a profile": (files.trace, 5000, ["show", "in.mil", "--html", "o.html", "--profile", "profile.json"]),
    "tasks": (here(files.hwx), 200, ["show", "in.hwx"]),
    "tasks, run": (here(files.hwx), 200, ["run", "in.hwx", "--seed", "1"]),
    "merges": (files.merges, 20000, TOKENIZE),
    "added tokens": (files.added, 3000, TOKENIZE),
    "pieces": (files.pieces, 20000, TOKENIZE),
    "a text in pieces": (files.unigram_text, 20000, TOKENIZE),
    "letters with marks": (files.marked, 10000, TOKENIZE),
}


def run(program, command, counted):
    """Returns the exit code, the instructions or resident kilobytes, and the last line of standard error."""
    shutil.rmtree("n", ignore_errors=True)
    words = [program, *command, "--threads", "1"] if command[0] in ("train", "run") else [program, *command]
    if counted:
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words]
        p = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=3600)
        found = re.search(r"Collected : (\d+)", p.stderr)
        return p.returncode, int(found.group(1)) if found else 0, p.stderr
    measure = ("import resource, subprocess, sys; c = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode; "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(c)")
    p = subprocess.run([sys.executable, "-I", "-c", measure, *words], capture_output=True, text=True, timeout=3600)
    return p.returncode, int(p.stdout or 0), p.stderr


def measure(program, name):
    make, units, command = READERS[name]
    cost, kilobytes = [], []
    for n, counted in ((units, True), (2 * units, True), (8 * units, False), (16 * units, False), (units // 20, True)):
        make(n)
        code, got, told = run(program, command, counted)
        if code and (command[0] != "check" or code != 1):  # the check had findings
            return "%d units: exit code %d: %s" % (n, code, told.strip()[-200:])
        (cost if counted else kilobytes).append(got)
    growth, memory = (cost[1] - cost[2]) / max(1, cost[0] - cost[2]), kilobytes[1] / kilobytes[0]
    wrong = growth > MOST or memory > MOST
    print("%-32s %7d: %7.0f instructions each, %5.0f bytes each; twice as many: %.2f and %.2f times%s" % (
        name, units, (cost[0] - cost[2]) / (units - units // 20), 1024 * (kilobytes[1] - kilobytes[0]) / (8 * units), growth, memory,
        "  TOO FAST" if wrong else ""), flush=True)
    return "grows too fast" if wrong else ""


def main():
    failed = 0
    if not shutil.which("valgrind"):
        print("skipped: growth: there is no valgrind")
        return 77
    for name in sys.argv[2:] or READERS:
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            wrong = measure(PROGRAM, name)
            os.chdir("/")
        if wrong:
            print("%s: %s" % (name, wrong), flush=True)
            failed += 1
    return 1 if failed else 0


sys.exit(main())
