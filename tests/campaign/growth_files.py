# SPDX-License-Identifier: MIT
"""Inputs of a chosen size that are more than a program's text: images, arrays, shards, folders of data, tables, plans and
tokenizers. Each function writes its input of n units into the current folder. tests/campaign/growth.py measures the
cost of reading them."""
import json
import os
import shutil
import struct
import subprocess
import zipfile
import zlib

SIDE = 64  # columns of an image


def write(path, data):
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(of, value):
    return varint(of << 3) + varint(value)


# ---- images -----------------------------------------------------------------------------------------------------------------


def image_model(rows):
    """A network in Core ML's older format that takes a gray image of `rows` rows: one ReLU."""
    image = lambda name: field(1, name) + field(3, field(4, number(1, SIDE) + number(2, rows) + number(3, 10)))
    array = lambda name: field(1, name) + field(3, field(5, field(1, varint(1) + varint(rows) + varint(SIDE)) + number(2, 65568)))
    layer = field(1, b"l") + field(2, b"x") + field(3, b"y") + field(130, field(10, b""))
    write("in.mlmodel", number(1, 4) + field(2, field(1, image(b"x")) + field(10, array(b"y"))) + field(500, field(1, layer)))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(rows, more=b""):
    data = zlib.compress(b"".join(b"\0" + bytes(i * j % 251 for i in range(SIDE)) for j in range(rows)))
    write("in.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, rows, 8, 0, 0, 0, 0)) + more +
          chunk(b"IDAT", data) + chunk(b"IEND", b""))


def png(n):
    image_model(n)
    write_png(n)


def png_texts(n):
    image_model(SIDE)
    write_png(SIDE, b"".join(chunk(b"tEXt", b"key%d\0value" % i) for i in range(n)))


def write_jpeg(rows, more=b""):
    """A gray image of equal blocks: each code has one bit."""
    segment = lambda marker, data: b"\xff" + bytes([marker]) + struct.pack(">H", len(data) + 2) + data
    one = lambda table: bytes([table, 1]) + bytes(15) + b"\0"
    blocks = SIDE // 8 * (rows // 8)
    write("in.jpg", b"\xff\xd8" + more + segment(0xdb, b"\0" + b"\1" * 64) +
          segment(0xc0, struct.pack(">BHHB", 8, rows, SIDE, 1) + b"\1\x11\0") + segment(0xc4, one(0)) + segment(0xc4, one(0x10)) +
          segment(0xda, b"\1\1\0\0\x3f\0") + bytes(blocks // 4) + b"\xff\xd9")


def jpeg(n):
    image_model(n // 8 * 8)
    write_jpeg(n // 8 * 8)


def jpeg_comments(n):
    image_model(SIDE)
    write_jpeg(SIDE, b"\xff\xfe\0\x05abc" * n)


# ---- arrays and weights -----------------------------------------------------------------------------------------------------


def npy_bytes(count):
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': (1, %d), }" % count).ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<f", 1.5) * count


def relu(n, kind="fp32"):
    write("in.mil", 'program(1.3)\n{\n func main<ios18>(tensor<%s, [1, %d]> x) {\n  tensor<%s, [1, %d]> y = relu(x = x)[name = string("y")];\n'
          " } -> (y);\n}\n" % (kind, n, kind, n))


def npy(n):
    relu(n)
    write("x.npy", npy_bytes(n))


def npz_entries(n):
    """One array per input of the program."""
    names = range(n)
    write("in.mil", "program(1.3)\n{\n func main<ios18>(%s) {\n%s } -> (y0);\n}\n" % (
        ", ".join("tensor<fp32, [1, 4]> x%d" % i for i in names),
        "".join('  tensor<fp32, [1, 4]> y%d = relu(x = x%d)[name = string("y%d")];\n' % (i, i, i) for i in names)))
    with zipfile.ZipFile("in.npz", "w", zipfile.ZIP_DEFLATED) as z:
        for i in reversed(names):
            z.writestr("x%d.npy" % i, npy_bytes(4))


def npz_packed(n):
    relu(n)
    with zipfile.ZipFile("in.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("x.npy", npy_bytes(n))


CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 16, "intermediate_size": 32,
          "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 256, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}


def layer_shapes(i):
    p = "model.layers.%d." % i
    return {**{p + "self_attn.%s_proj.weight" % k: [16, 16] for k in "qkvo"}, p + "mlp.gate_proj.weight": [32, 16],
            p + "mlp.up_proj.weight": [32, 16], p + "mlp.down_proj.weight": [16, 32], p + "input_layernorm.weight": [16],
            p + "post_attention_layernorm.weight": [16]}


def write_weights(path, shapes):
    header, at = {}, 0
    for name, shape in reversed(shapes.items()):
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    data = json.dumps(header).encode()
    write(path, struct.pack("<Q", len(data)) + data + bytes(at))


ENDS = {"model.embed_tokens.weight": [256, 16], "model.norm.weight": [16]}


def empty_folder(n):
    shutil.rmtree("hf", ignore_errors=True)
    os.makedirs("hf")
    write("hf/config.json", json.dumps(dict(CONFIG, num_hidden_layers=n, tie_word_embeddings=True)))


def layers(n):
    """A Hugging Face folder of n layers, each of nine tensors."""
    empty_folder(n)
    shapes = dict(ENDS)
    for i in range(n):
        shapes.update(layer_shapes(i))
    write_weights("hf/model.safetensors", shapes)


def shards(n):
    """The same in n files, listed from the last to the first."""
    empty_folder(n)
    index = {}
    for i in reversed(range(n)):
        shapes = dict(layer_shapes(i), **(ENDS if i == 0 else {}))
        name = "model-%05d-of-%05d.safetensors" % (i + 1, n)
        write_weights("hf/" + name, shapes)
        index.update(dict.fromkeys(shapes, name))
    write("hf/model.safetensors.index.json", json.dumps({"metadata": {}, "weight_map": index}))


# ---- training data and logs -------------------------------------------------------------------------------------------------


def folder(n, ending, text):
    shutil.rmtree("data", ignore_errors=True)
    os.makedirs("data")
    for i in range(n):
        write("data/f%d.%s" % (i * 7919 % n if n % 7919 else i, ending), text % i)


def texts(n):
    folder(n, "txt", "some text, and its number %d, and a little more of it to read\n")


def instructions(n):
    folder(n, "jsonl", '{"prompt": "what is %d", "completion": "it is one of the numbers"}\n')


def json_list(n):
    write("in.json", json.dumps([{"prompt": "what is %d" % i, "completion": "it is %d" % (i + 1)} for i in range(n)]))


def tsv(n):
    write("in.tsv", "prompt\tcompletion\n" + "".join("what is %d\tit is %d\n" % (i, i + 1) for i in range(n)))


def pairs(program, n):
    small_model(program)
    write("in.jsonl", "".join(json.dumps({"prompt": "what is %d" % i, "chosen": "it is %d" % i, "rejected": "no"}) + "\n" for i in range(n)))


def ids(program, n):
    small_model(program)
    write("ids", " ".join(str(i * i % 251) for i in range(n)))


# ---- tables, plans, compiled programs ---------------------------------------------------------------------------------------


def points(n):
    write("p.csv", "id,chip,os,path,workload,shape,dtype,flops,bytes_in,bytes_weights,bytes_out,latency_ms,source,note\n" + "".join(
        'a%d,M4,,direct,conv1x1,"Cin=512,Cout=512,H=1,W=%d",fp16,33554432,131072,524288,131072,0.%d1,,"%s"\n' % (i, 64 + i % 64, i % 9 + 1, "-")
        for i in range(n)))


def plan(n):
    """A program, and a plan of it in which Core ML has put every operation on the engine."""
    line = '  tensor<fp16, [1, 8]> v%d = relu(x = %s)[name = string("v%d")];\n'
    write("in.mil", "program(1.3)\n{\n func main<ios18>(tensor<fp16, [1, 8]> x) {\n" +
          "".join(line % (i, "v%d" % (i - 1) if i else "x", i) for i in range(n)) + " } -> (v%d);\n}\n" % (n - 1))
    write("plan.json", json.dumps({"functions": {"main": {"block": {"operations": [
        {"operator_name": "ios18.relu", "outputs": ["v%d" % i], "preferred_compute_device": "MLNeuralEngineComputeDevice",
         "supported_compute_devices": ["MLCPUComputeDevice", "MLNeuralEngineComputeDevice"], "estimated_cost": {"weight": 1 / n}}
        for i in range(n)]}}}}))


def other_plan(n):
    """A plan of a program that shares no value with the plan: no search for an entry succeeds."""
    plan(n)
    with open("plan.json", encoding="ascii") as f:
        told = f.read()
    write("plan.json", told.replace('["v', '["w'))


def hwx(program, n):
    line = '  tensor<fp16, [1, 64, 1, 64]> v%d = %s(x = %s)[name = string("v%d")];\n'
    write("in.mil", "program(1.3)\n{\n func main<ios18>(tensor<fp16, [1, 64, 1, 64]> x) {\n" +
          "".join(line % (i, ("relu", "sigmoid")[i % 2], "v%d" % (i - 1) if i else "x", i) for i in range(n)) + " } -> (v%d);\n}\n" % (n - 1))
    subprocess.run([program, "compile", "in.mil", "-o", "in.hwx"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def trace(n):
    """A profile and a program of one operation."""
    relu(8, "fp16")
    write("profile.json", json.dumps({"traceEvents": [{"name": "y", "ph": "X", "ts": 10 * i, "dur": 5, "pid": 1, "tid": 1, "cat": "op"}
                                                      for i in range(n)]}))


# ---- tokenizers -----------------------------------------------------------------------------------------------------------


def tokenizer(vocabulary, merges=(), **more):
    write("t.json", json.dumps(dict({"version": "1.0", "added_tokens": [], "model": {
        "type": "BPE", "vocab": {w: i for i, w in enumerate(vocabulary)}, "merges": list(merges)},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}}, **more)))
    write("text", "abcd efgh\n")


LETTERS = [chr(33 + i) for i in range(94)]


def merges(n):
    """A word that grows by a letter with each merge, written in the older form; words of 50 letters at most."""
    vocabulary, rules = dict.fromkeys(LETTERS), []
    for i in range(n):
        if i % 50 == 0:
            word = LETTERS[i // 50 % 94] + LETTERS[i // 4700 % 94] + LETTERS[i // 441800 % 94]
            for at in (2, 3):
                if word[:at] not in vocabulary:
                    vocabulary[word[:at]] = None
                    rules.append("%s %s" % (word[:at - 1], word[at - 1]))
        if word + "a" not in vocabulary:
            rules.append("%s a" % word)
        word += "a"
        vocabulary[word] = None
    tokenizer(vocabulary, rules)


def added(n):
    """Added tokens with a common beginning, in a text of these beginnings."""
    tokenizer(LETTERS, added_tokens=[{"id": 94 + i, "content": "<|token_%d|>" % i, "special": True, "normalized": False,
                                      "single_word": False, "lstrip": False, "rstrip": False} for i in range(n)])
    write("text", "<|token_" * n + "\n")


def pieces(n):
    write("t.json", json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {
        "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}, "decoder": {
        "type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": False}, "model": {
        "type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0.0]] + [["w%x" % (i * 2654435761 % 2**32), -1.0 - i % 7]
                                                                                              for i in range(n)]}}))
    write("text", "w1 w2\n")


def unigram_text(n):
    """A text in which every beginning of the longest piece is a piece."""
    pieces(0)
    with open("t.json", encoding="utf-8") as f:
        t = json.load(f)
    t["model"]["vocab"] += [["a" * i, -float(i)] for i in range(1, 33)] + [["\u2581", -2.0]]
    write("t.json", json.dumps(t))
    write("text", "a" * n)


def marked(n):
    """A text of n letters for a normalizer and a pattern."""
    tokenizer(LETTERS, normalizer={"type": "NFC"})
    write("text", "a\u0301" * n)


def small_model(program):
    """A model m with a vocabulary of bytes."""
    if not os.path.exists("m"):
        write("book", "some text to train on, and some more of it\n" * 40)
        subprocess.run([program, "train", "--data", "book", "--kind", "bytes", "--layers", "1", "--width", "16", "--heads", "2", "--context", "64",
                        "--batch", "2", "--steps", "1", "--eval-every", "0", "--no-report", "--run", "m"], check=True, stdout=subprocess.DEVNULL)
