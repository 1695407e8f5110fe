#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares ids with the libraries that define the vocabularies.

    python3 tools/vocabulary_check.py PROPANE [FILE...]     (exit 1: different; 77: a package is missing)

FILE: tokenizer.model files (package sentencepiece), tekken.json files (mistral-common), NAME.tiktoken (tiktoken). Without
arguments: those inside the package mistral-common, and the first ranks of one of its tekken files with the patterns of
GPT-2, cl100k and Llama 3. The lines contain words, code, 29 blocks of Unicode alone and mixed, white space, emoji and
control characters; none names a special token.
"""
import base64
import glob
import json
import os
import random
import subprocess
import sys
import tempfile

try:
    import mistral_common
    import sentencepiece
    import tiktoken
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
except ImportError as e:
    print(f"vocabulary_check: {e}")
    sys.exit(77)

BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5ff), (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f),
          (0x10a0, 0x10ff), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x20a0, 0x20cf), (0x2100, 0x23ff), (0x2460, 0x27bf),
          (0x3000, 0x30ff), (0x3130, 0x318f), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0xfb00, 0xfb4f), (0xfe00, 0xfe0f),
          (0xff00, 0xffef), (0x1f300, 0x1faff), (0x1d400, 0x1d7ff), (0x1, 0x1f), (0x7f, 0x9f), (0xe0000, 0xe007f), (0x10000, 0x100ff)]
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    50256: r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    100256: r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    128000: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL,
    151643: r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL,
}


def make_lines():
    draw = random.Random(7)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    words = open(os.path.join(root, "docs", "architecture.md"), encoding="utf-8").read().split()
    lines = [" ".join(draw.choices(words, k=draw.randint(1, 14))) for _ in range(1200)]
    lines += open(os.path.join(root, "src", "core", "mil", "build.c"), encoding="utf-8").read().split("\n")[:600]
    for _ in range(1400):
        block = draw.choice(BLOCKS)
        lines.append("".join(chr(draw.randint(*block)) if draw.random() < .85 else " " for _ in range(draw.randint(1, 30))))
    lines += ["".join(chr(draw.randint(*draw.choice(BLOCKS))) for _ in range(draw.randint(1, 25))) for _ in range(700)]
    lines += ["".join(draw.choice(" \t  a1.\u00a0\u3000\u2581") for _ in range(draw.randint(1, 12))) for _ in range(200)]
    lines += ["I 🩷 you", "  two  spaces  ", "naïve café — 你好 😀", "don't WE'LL I'M", "ﬁ ﬂ ① Å ｶﾞ", "👩‍👩‍👧‍👦 🇩🇪", "\u0130stanbul ſtop 'ſ"]
    return [line for line in ("".join(c for c in line if c not in "\r\n") for line in lines) if line]


def ours(propane, path, text):
    r = subprocess.run([propane, "tokenize", text, "--tokenizer", path, "--print-ids", "lines"], capture_output=True, text=True)
    if r.returncode:
        print(r.stderr.strip())
    return [[int(i) for i in row.split()] for row in r.stdout.split("\n")[:-1]]


def reference(path):
    if path.endswith(".json"):
        t = Tekkenizer.from_file(path)
        return lambda line: t.encode(line, bos=False, eos=False)
    if path.endswith(".tiktoken"):
        ranks = dict((base64.b64decode(a), int(b)) for a, b in (line.split() for line in open(path)))
        return tiktoken.Encoding("x", pat_str=PATTERNS[len(ranks)], mergeable_ranks=ranks, special_tokens={}).encode_ordinary
    return sentencepiece.SentencePieceProcessor(model_file=path).encode


def main(propane, files):
    lines, bad = make_lines(), 0
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "lines.txt")
        open(text, "w", encoding="utf-8", newline="\n").write("\n".join(lines) + "\n")
        if not files:
            data = os.path.join(os.path.dirname(mistral_common.__file__), "data")
            files = sorted(glob.glob(data + "/tekken*.json") + glob.glob(data + "/*tokenizer*.model*"))
            vocab = json.load(open(glob.glob(data + "/tekken*.json")[0]))["vocab"]
            for count in (n for n in PATTERNS if n <= len(vocab)):
                files.append(os.path.join(folder, f"{count}.tiktoken"))
                open(files[-1], "w").write("".join(f"{token['token_bytes']} {i}\n" for i, token in enumerate(vocab[:count])))
        for path in files:
            encode, got = reference(path), ours(propane, path, text)
            wrong = [i for i, line in enumerate(lines) if i >= len(got) or got[i] != encode(line)]
            print(f"{os.path.basename(path)}: {len(lines) - len(wrong)} of {len(lines)} lines equal")
            for i in wrong[:3]:
                print("   ", repr(lines[i]), got[i] if i < len(got) else None, encode(lines[i]))
            bad += len(wrong)
    return 1 if bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
