#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares Propane's token ids with those of Hugging Face's `tokenizers`, and makes the small set that the tests use.

    python3 tools/tokenizer_reference.py PROPANE            compare on 12,000 lines, each tokenizer (exit 1: different)
    python3 tools/tokenizer_reference.py --write FOLDER     write tests/data/tokenizers again

Needs the packages tokenizers and transformers (exits with 77 without them). Four tokenizer.json are trained: like GPT-2's
(ByteLevel), like Llama 3's (Split with its pattern, ignore_merges, <|begin_of_text|> in front), like Qwen's (NFC, its pattern,
chat tokens) and like SentencePiece's (Prepend and Replace, byte fallback, <s> in front); variants of them cover Metaspace,
Digits, NFKC, Lowercase and the flags of added tokens. Lines that are not UTF-8 are passed to `tokenizers` as Python
decodes them with errors="replace".
"""
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError:
    print("tokenizer_reference: the package 'tokenizers' is not installed")
    sys.exit(77)

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
SIZE = 600  # vocabulary size of the committed files

PARTS = [
    "The quick brown fox isn't jumping; it's WE'LL SEE'd. ", "def f(x):\n\treturn x ** 2  # squared", "if (a[i] != b[j]) { i++; }",
    "    indented   with  runs   ", "\t\tTabs\tand spaces \t", "12345678901234567890 3.14159 ½ Ⅳ ² ١٢٣ ४५६", "https://example.org/a?b=c&d=%20e#f",
    "你好，世界！這是測試。", "日本語のテキストです。カタカナ", "한국어 문장입니다.", "مرحبا بالعالم، كيف حالك؟", "שלום עולם", "नमस्ते दुनिया",
    "สวัสดีชาวโลก", "Привет, мир! Ёлка", "Γειά σου Κόσμε", "e\u0301 a\u0308 n\u0303 o\u0302\u0323 \u1e69 s\u0323\u0307", "\u212b \u2126 ﬁ ﬂ ﷺ ㎏ ＡＢＣ",
    "😀😃🏳️‍🌈👩‍👩‍👧‍👦🇩🇪👍🏽", "naïve café ÀÉÎÕÜ İstanbul ıI ß ẞ ſ", "\u00a0nbsp\u2003em\u3000ideographic\u200bzero\u2028line", "'S 'T 'RE don't DON'T 'ſ",
    "▁ meta ▁▁ mark", "<unk><s></s>", "Ġ Ċ ĉ mapped", "…—–“quotes”‘single’", "\x01\x02\x7f\x1f control", "\U0001d518\U0001d52b\U0001d526 \U00020000\U0002a6d6", "a" * 40,
    "ab" * 30, "  ", " ", "x", "\u0f40\u0fb5 \u0b95\u0bcd\u0bb7", "\u180e mvs \u0085 nel", "\r\r carriage\r", "snake_case camelCase SCREAMING_CASE __init__",
]
SPECIAL = ["<|endoftext|>", "<|begin_of_text|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "<mask>", "<think>", "[TOOL]", "<|im_start", "<<s>>"]


def corpus(lines, seed):
    """Returns lines of bytes: the repository's own text, the parts above mixed and damaged, special tokens."""
    rng = random.Random(seed)
    own = []
    for pattern in ("src/**/*.c", "docs/*.md", "*.md", "tools/*.py"):
        for name in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)):
            own += open(name, "rb").read().split(b"\n")
    out = []
    while len(out) < lines:
        kind = rng.random()
        if kind < 0.35:
            line = rng.choice(own)
        elif kind < 0.8:
            line = "".join(rng.choice(PARTS) + rng.choice(["", " ", "  "]) for _ in range(rng.randint(1, 6))).encode()
        elif kind < 0.9:
            line = "".join(rng.choice([rng.choice(PARTS), rng.choice(SPECIAL), " ", ""]) for _ in range(rng.randint(2, 8))).encode()
        elif kind < 0.95:
            line = "".join(chr(rng.choice([rng.randint(32, 0x24f), rng.randint(0x370, 0x1fff), rng.randint(0x3040, 0x9fff), rng.randint(0x1f300, 0x1f64f)]))
                           for _ in range(rng.randint(1, 40))).encode(errors="replace")
        else:
            line = bytearray(rng.choice(PARTS).encode() * 2)
            for _ in range(rng.randint(1, 4)):
                line[rng.randrange(len(line))] = rng.randint(128, 255)
            line = bytes(line)
        out.append(line.replace(b"\n", b" \r").replace(b"\0", b"0"))
    return out


def text_of(line):
    return line.decode("utf-8", errors="replace")


def make(name, texts, size):
    byte_alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials, t = [], Tokenizer(models.BPE())
    if name.startswith("gpt2"):
        t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=name.endswith("prefix"))
        t.decoder, t.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
        specials = ["<|endoftext|>"]
    elif name.startswith("llama3"):
        t = Tokenizer(models.BPE(ignore_merges=True))
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        specials = ["<|begin_of_text|>", "<|end_of_text|>"]
    elif name.startswith("qwen"):
        t.normalizer = normalizers.NFC()
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        t.decoder = decoders.ByteLevel()
        specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    elif name == "digits":
        t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip()])
        t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False)])
        t.decoder = decoders.ByteLevel()
    else:  # sentencepiece, metaspace
        t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=name == "sentencepiece"))
        if name == "sentencepiece":
            t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
            t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        else:
            t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first")
        specials = ["<unk>", "<s>", "</s>"] + ([f"<0x{b:02X}>" for b in range(256)] if name == "sentencepiece" else [])
    spm = name in ("sentencepiece", "metaspace")
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False, initial_alphabet=[] if spm else byte_alphabet,
                                  limit_alphabet=size // 4 if spm else 1000)
    if name == "sentencepiece":  # trained on words, because pieces would otherwise span spaces
        t.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    t.train_from_iterator(texts, trainer)
    if name == "sentencepiece":
        t.pre_tokenizer = None
        data = json.loads(t.to_str())
        data["added_tokens"] = [a for a in data["added_tokens"] if not a["content"].startswith("<0x")]
        t = Tokenizer.from_str(json.dumps(data))
    if name == "llama3":
        t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                                processors.TemplateProcessing(single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    if spm:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    if name in ("qwen", "metaspace", "digits"):
        t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("[TOOL]", single_word=True, normalized=True), AddedToken("<mask>", lstrip=True, rstrip=True, normalized=True)])
    return t


NAMES = ["gpt2", "llama3", "qwen", "sentencepiece", "gpt2-prefix", "digits", "metaspace"]


def compare(propane):
    lines = corpus(12000, 1)
    training = [text_of(line) for line in corpus(6000, 2)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        open(text, "wb").write(b"\n".join(lines) + b"\n")
        for name in NAMES:
            path = os.path.join(folder, name + ".tokenizer.json")
            t = make(name, training, 5000)
            data = json.loads(t.to_str())
            if name in ("gpt2", "sentencepiece"):  # the older spelling of merges
                data["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
            json.dump(data, open(path, "w"))
            t = Tokenizer.from_file(path)
            got = subprocess.run([propane, "tokenize", text, "--tokenizer", path, "--print-ids", "lines"], capture_output=True)
            ours = [[int(i) for i in row.split()] for row in got.stdout.decode().split("\n")[:-1]]
            want = [t.encode(text_of(line), add_special_tokens=False).ids for line in lines]
            wrong = [i for i in range(len(lines)) if i >= len(ours) or ours[i] != want[i]]
            whole = subprocess.run([propane, "tokenize", text, "--tokenizer", path, "--print-ids", "text"], capture_output=True)
            one = [int(i) for i in whole.stdout.split()] == t.encode(text_of(open(text, "rb").read()), add_special_tokens=False).ids
            print(f"{name}: {t.get_vocab_size()} ids, {len(lines)} lines, {sum(map(len, want))} tokens, {len(wrong)} lines differ; as one text {'equal' if one else 'DIFFERENT'}")
            sys.stderr.write(got.stderr.decode(errors="replace"))
            for i in wrong[:3]:
                print(f"  {text_of(lines[i])!r}\n    want {want[i]}\n    got  {ours[i] if i < len(ours) else None}")
            bad += bool(wrong) or not one
    print(f"{len(NAMES) - bad} of {len(NAMES)} kinds give equal ids on {len(lines)} lines")
    return 1 if bad else 0


def write(folder):
    os.makedirs(folder, exist_ok=True)
    training = [text_of(line) for line in corpus(3000, 3)]
    texts = [p for p in PARTS if "\n" not in p] + ["".join(SPECIAL), " ".join(SPECIAL), "two\nlines\n\n\nand  more\n", "\n", ""]
    texts += [text_of(line) for line in corpus(24, 4)]
    texts = [t for t in texts if len(t) < 300]
    for name in NAMES[:4]:
        t = make(name, training, SIZE + 256 * (name == "sentencepiece"))
        t.save(os.path.join(folder, name + ".json"), pretty=False)
        t = Tokenizer.from_file(os.path.join(folder, name + ".json"))
        cases = [[x, t.encode(x, add_special_tokens=False).ids, t.decode(t.encode(x, add_special_tokens=False).ids)] for x in texts]
        body = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
        open(os.path.join(folder, name + ".cases.json"), "w").write(
            '{"bos":%d,"cases":[\n%s\n]}\n' % ((t.encode("").ids or [-1])[0], body))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        write(sys.argv[2])
    elif len(sys.argv) == 2:
        sys.exit(compare(sys.argv[1]))
    else:
        print(__doc__)
        sys.exit(2)
