#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares ids of Unigram vocabularies with SentencePiece and Hugging Face's `tokenizers`.

    python3 tools/unigram_reference.py PROPANE            compare on 4,000 lines, each vocabulary (exit 1: different)
    python3 tools/unigram_reference.py --write FOLDER     write unigram*.json and unigram*.model in tests/data/tokenizers again

Needs the packages sentencepiece and tokenizers (exits with 77 without them). SentencePiece learns vocabularies with several
options from the repository's own text and the words of tokenizer_reference.py. Each is read as tokenizer.model, and in the
forms of tokenizer.json that transformers' converters write. Lines that name a control token are left out of the first
comparison, because Propane recognizes those in text.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import tokenizer_reference as reference  # exits with 77 if tokenizers is missing

try:
    import sentencepiece
except ImportError:
    print("unigram_reference: the package 'sentencepiece' is not installed")
    sys.exit(77)
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

UNIGRAM = {
    "nmt_nfkc": dict(),
    "bytes": dict(byte_fallback=True, character_coverage=.98),
    "fold": dict(normalization_rule_name="nmt_nfkc_cf", byte_fallback=True, character_coverage=.98, add_dummy_prefix=False),
    "nfkc": dict(normalization_rule_name="nfkc", remove_extra_whitespaces=False),
    "identity": dict(normalization_rule_name="identity", byte_fallback=True, remove_extra_whitespaces=False),
    "user": dict(user_defined_symbols=["<sep>", "ing", "▁the", "  ", "１２"], control_symbols=["<ctl>"]),
    "cross": dict(split_by_whitespace=False, split_by_unicode_script=False, split_by_number=False),
}
BPE = {
    "bpe": dict(model_type="bpe"),
    "bpe bytes": dict(model_type="bpe", normalization_rule_name="nmt_nfkc_cf", byte_fallback=True, character_coverage=.98),
}
FORMS = ["converter", "bytes", "words", "folded", "whole", "first", "nmt"]
WORDS = ["ＦＵＬＬ　ｗｉｄｔｈ １２３", "ﾊﾝｶｸ ｶﾞｷﾞ", "E\u0301 e\u0301a\u0300o\u0302\u0323 A\u030a", "ﬁ ﬂ ①② ㎏ ™ ½", "\u00a0nbsp\u2003em", "\x01\x02ctl\x1f\x7f", "\u200bzero\u200d\ufeff", "x" * 70,
         "İ ıI ß ẞ", "\u0600123", "ก\u0e33", "\ufdfa", "\u0344 \u0f73", "▁marks▁ in ▁▁text", "   three   spaces   ", "\r\n", "<sep>", "going １２３"]
NEWER = {chr(c) for c in range(0x1acf, 0x1b00)}  # marks of Unicode 17, which only some versions of `tokenizers` treat as marks
CONTROL = ["<s>", "</s>", "<unk>", "<ctl>"]


def lines_of(count, seed):
    lines = [reference.text_of(line) for line in reference.corpus(count, seed)]
    for i in range(0, len(lines), 3):
        lines[i] = WORDS[i // 3 % len(WORDS)] + [" ", "", "  "][i % 7 % 3] + lines[i]
    return ["".join(" " if c == "\n" or c in NEWER else c for c in line) for line in lines]


def learn(folder, name, texts, size, options):
    path = os.path.join(folder, name)
    with open(path + ".txt", "w", newline="") as f:
        f.write("\n".join(t.replace("\r", " ") for t in texts))
    sentencepiece.SentencePieceTrainer.train(**(dict(input=path + ".txt", model_prefix=path, model_type="unigram", vocab_size=size, hard_vocab_limit=False,
                                                     character_coverage=.999, num_threads=1, minloglevel=2) | options))
    os.remove(path + ".txt")
    os.remove(path + ".vocab")
    return path + ".model"


def fields(data):
    """Yields (number, value) of a protobuf message."""
    at = 0
    while at < len(data):
        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        length = varint() if key & 7 == 2 else 4 if key & 7 == 5 else 8
        yield key >> 3, data[at:at + length]
        at += length


def convert(model, form):
    """Returns the tokenizer.json of a Unigram tokenizer.model."""
    sp = sentencepiece.SentencePieceProcessor(model_file=model)
    spec = dict(fields(dict(fields(open(model, "rb").read()))[3]))
    count = sp.get_piece_size()
    vocab = [(sp.id_to_piece(i), sp.get_score(i)) for i in range(count)]
    user = [p for i, (p, s) in enumerate(vocab) if s == 0 and not sp.is_control(i) and not sp.is_unknown(i) and not sp.is_byte(i)]
    rules = [normalizers.Precompiled(spec[2])] if spec.get(2) else []
    t = Tokenizer(models.Unigram(vocab, unk_id=sp.unk_id(), byte_fallback=form not in ("converter", "folded")))
    squeeze = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(prepend_scheme="always"), decoders.Metaspace(prepend_scheme="always")
    if form == "words":
        t.pre_tokenizer, squeeze = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), t.pre_tokenizer]), []
    if form == "folded":
        rules = [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()] + rules
        squeeze = [normalizers.Replace(Regex(" {2,}"), " ")]
    if form == "nmt":
        rules, squeeze = [normalizers.Nmt(), normalizers.NFKC()], [normalizers.Replace(Regex(" {2,}"), " ")]
    if form == "first":
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    if form == "whole":
        squeeze = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    if form in ("whole", "first", "bytes"):
        t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
        if form == "whole":
            t.pre_tokenizer = None
    t.normalizer = normalizers.Sequence(rules + squeeze)
    t.add_tokens([AddedToken(p, normalized=False, special=True) for i, (p, s) in enumerate(vocab) if sp.is_control(i)])
    t.add_tokens([AddedToken(p, normalized=False) for p in user])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", sp.piece_to_id("</s>"))])
    return t


def ids_of(propane, text, tokenizer, rows):
    got = subprocess.run([propane, "tokenize", text, "--tokenizer", tokenizer, "--print-ids", rows], capture_output=True)
    sys.stderr.write(got.stderr.decode(errors="replace"))
    return [[int(i) for i in row.split()] for row in got.stdout.decode().split("\n")[:-1]]


def report(name, lines, ours, want):
    wrong = [i for i in range(len(lines)) if i >= len(ours) or ours[i] != want[i]]
    print(f"{name}: {len(lines)} lines, {sum(map(len, want))} tokens, {len(wrong)} lines differ")
    for i in wrong[:3]:
        print(f"  {lines[i]!r}\n    want {want[i]}\n    got  {ours[i] if i < len(ours) else None}")
    return bool(wrong)


def compare(propane):
    lines, training, bad, count = lines_of(4000, 1), lines_of(4000, 2), 0, 0
    plain = [line for line in lines if not any(c in line for c in CONTROL)]
    with tempfile.TemporaryDirectory() as folder:
        texts = []
        for name, some in (("all", lines), ("plain", plain)):
            texts.append(os.path.join(folder, name))
            with open(texts[-1], "w", newline="") as f:
                f.write("\n".join(some) + "\n")
        for name, options in (UNIGRAM | BPE).items():
            model = learn(folder, name, training, 6000, options)
            sp = sentencepiece.SentencePieceProcessor(model_file=model)
            bad += report(name + ", tokenizer.model", plain, ids_of(propane, texts[1], model, "lines"), [sp.encode(line) for line in plain])
            count += 1
            for form in FORMS if name in UNIGRAM else []:
                path = os.path.join(folder, "tokenizer.json")
                convert(model, form).save(path)
                t = Tokenizer.from_file(path)
                bad += report(f"{name}, tokenizer.json, {form}", lines, ids_of(propane, texts[0], path, "lines"),
                              [t.encode(line, add_special_tokens=False).ids for line in lines])
                count += 1
    print(f"{count - bad} of {count} vocabularies give equal ids")
    return 1 if bad else 0


RULES = [("Ａ", "A"), ("ａ", "a"), ("１", "1"), ("２", "2"), ("ﬁ", "fi"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "), ("\r", " "), ("\u0001", ""), ("\u200b", ""),
         ("e\u0301", "é"), ("E", "e"), ("ｶ", "カ"), ("ｶﾞ", "ガ"), ("™", "TM"), ("…", "...")]


def write(folder):
    """Uses few rules, so that the files are small: those of nmt_nfkc take 240 KB."""
    texts = [p for p in reference.PARTS if "\n" not in p] + WORDS + [reference.text_of(line) for line in reference.corpus(24, 4)] + ["", " ", "ｶﾞ ｶ\u0301 e\u0301\u0302 é"]
    texts = [t.replace("\n", " ") for t in texts if len(t) < 300 and not any(c in t for c in CONTROL)]
    folder, here = os.path.abspath(folder), os.getcwd()
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)  # the files contain the paths of their training data
        rules = "rules.tsv"
        with open(rules, "w") as f:
            for a, b in RULES:
                f.write(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n")
        for name, options in (("unigram", dict(user_defined_symbols=["<sep>", "ing"])), ("unigram_bytes", dict(byte_fallback=True, add_dummy_prefix=False))):
            options |= dict(normalization_rule_tsv=rules, character_coverage=.98)
            model = learn("", name, [t for t in lines_of(3000, 3) if sum(c > "~" for c in t) < 4], 300 + 256 * ("bytes" in name), options)
            sp = sentencepiece.SentencePieceProcessor(model_file=model)
            t = convert(model, "converter" if name == "unigram" else "bytes")
            ids = [sp.encode(x) for x in texts]
            cases = [[x, i, sp.decode([k for k in i if k != sp.unk_id()])] for x, i in zip(texts, ids)]
            put(folder, name + "_model", sp.bos_id(), cases)
            cases = [[x, t.encode(x, add_special_tokens=False).ids, t.decode(t.encode(x, add_special_tokens=False).ids)] for x in texts]
            put(folder, name, -1, cases)
            t.save(os.path.join(folder, name + ".json"), pretty=False)
            shutil.move(model, os.path.join(folder, name + ".model"))
        os.chdir(here)


def put(folder, name, bos, cases):
    body = ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases)
    with open(os.path.join(folder, name + ".cases.json"), "w") as f:
        f.write('{"bos":%d,"cases":[\n%s\n]}\n' % (bos, body))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        write(sys.argv[2])
    elif len(sys.argv) == 2:
        sys.exit(compare(sys.argv[1]))
    else:
        print(__doc__)
        sys.exit(2)
