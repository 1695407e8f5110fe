#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares chat formats and instruction data with `transformers`. For each format there is a model folder with a tokenizer
and the format as a Jinja template. Conversations are rendered by apply_chat_template, and the ids are compared with those
that `propane show --json` prints for the same conversations. The trained tokens are compared with those of {% generation %}
blocks. The same templates, and some that match no format of Propane's, are also run directly (--chat jinja), with and
without these blocks.

With --templates, published templates (NAME.jinja, for instance those in llama.cpp's models/templates) are used instead.
Propane must produce the same text as apply_chat_template with the format that it chose, once with Jinja2 and once without,
or refuse. The same holds for prompts, tool calls and thoughts, with and without names of special tokens, as written by the
process of src/lm/text/chat_jinja.py. A table has one row per template. Texts that differ are printed above it, as are
templates that a built-in format reproduces, with the SHA-256 by which a row of src/lm/text/chat.c identifies them.

    python3 tools/chat_check.py [PROPANE]
    python3 tools/chat_check.py [PROPANE] --templates FOLDER        (exit 1: different; 77: a package is missing)
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
published = sys.argv[sys.argv.index("--templates") + 1] if "--templates" in sys.argv[:-1] else None
given = [a for a in sys.argv[1:] if a not in ("--templates", published)]
program = given[0] if given else os.path.join(ROOT, "build", "release", "propane")
if not os.path.exists(program):
    print(f"chat_check: {program} is not built: run make")
    sys.exit(77)
try:
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast
    from transformers.utils.chat_template_utils import render_jinja_template
except ImportError as missing:
    print(f"chat_check: {missing}")
    sys.exit(77)

has_jinja = subprocess.run(["python3", "-c", "import jinja2"], capture_output=True).returncode == 0
GEN, END = "{% generation %}", "{% endgeneration %}"
ASK = "{% if add_generation_prompt %}"


def chatml(assumed):
    first = "" if assumed is None else (
        "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\\n" + assumed + "<|im_end|>\\n' }}{% endif %}")
    return (first + "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}" + GEN +
            "{{ m.content + '<|im_end|>' }}" + END + "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
            "{% endfor %}" + ASK + "{{ '<|im_start|>assistant\\n' }}{% endif %}")


def llama3(dated):
    date = "Cutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n" if dated else ""
    head = "'<|start_header_id|>' + {} + '<|end_header_id|>\\n\\n'"
    system = ("{{ " + head.format("'system'") + " + '" + date + "' }}{% if messages[0].role == 'system' %}"
              "{{ messages[0].content | trim }}{% endif %}{{ '<|eot_id|>' }}")
    if not dated:
        system = "{% if messages[0].role == 'system' %}" + system + "{% endif %}"
    return ("{{ bos_token }}" + system + "{% for m in messages if m.role != 'system' %}{{ " + head.format("m.role") +
            " }}{% if m.role == 'assistant' %}" + GEN + "{{ (m.content | trim) + '<|eot_id|>' }}" + END +
            "{% else %}{{ (m.content | trim) + '<|eot_id|>' }}{% endif %}{% endfor %}" + ASK + "{{ " +
            head.format("'assistant'") + " }}{% endif %}")


QWEN3 = ("{% set ns = namespace(q=messages|length - 1) %}{% for m in messages %}{% if m.role == 'user' %}"
         "{% set ns.q = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
         "{% if m.role == 'assistant' %}" + GEN + "{% set t = '' %}{% set c = m.content %}{% if '</think>' in c %}"
         "{% set t = c.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
         "{% set c = c.split('</think>')[-1].lstrip('\\n') %}{% endif %}{% if loop.index0 > ns.q and (loop.last or t) %}"
         "{{ '<think>\\n' + t.strip('\\n') + '\\n</think>\\n\\n' + c.lstrip('\\n') }}{% else %}{{ c }}{% endif %}"
         "{{ '<|im_end|>' }}" + END + "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}" + ASK +
         "{{ '<|im_start|>assistant\\n' }}{% endif %}")

TEMPLATES = {
    "qwen3": QWEN3,
    "chatml": chatml(None),
    "qwen2": chatml("You are a helpful assistant."),
    "qwen2.5": chatml("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    "smollm2": chatml("You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    "llama3": llama3(False),
    "llama3.1": llama3(True),
    "llama2": "{% set ns = namespace(s='', n=0) %}{% for m in messages %}{% if m.role != 'system' %}{% if (m.role == 'user') !="
              " (ns.n % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}{% set ns.n = ns.n + 1 %}{% endif %}"
              "{% if m.role == 'system' %}{% set ns.s = '<<SYS>>\\n' +"
              " m.content + '\\n<</SYS>>\\n\\n' %}{% elif m.role == 'user' %}{{ bos_token + '[INST] ' + (ns.s +"
              " m.content).strip() + ' [/INST]' }}{% set ns.s = '' %}{% else %}" + GEN + "{{ ' ' + m.content.strip() + ' '"
              " + eos_token }}" + END + "{% endif %}{% endfor %}",
    "zephyr": "{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}{% if m.role == 'assistant' %}" + GEN +
              "{{ m.content + eos_token }}" + END + "{% else %}{{ m.content + eos_token }}{% endif %}{{ '\\n' }}"
              "{% endfor %}" + ASK + "{{ '<|assistant|>\\n' }}{% endif %}",
}
# Unknown formats: another name for answers, a refusal, a macro, and features that only a whole
# interpreter runs.
OWN = {
    "turns": "{{ bos_token }}{% for m in messages %}{{ '<turn>' + ('model' if m['role'] == 'assistant' else m['role']) }}\n"
             "{% if m.role == 'assistant' %}" + GEN + "{{ m['content'] | trim }}<end>" + END + "{% else %}"
             "{{ m['content'] | trim }}<end>{% endif %}\n{% endfor %}" + ASK + "<turn>model\n{% endif %}",
    "macros": "{%- macro turn(m) -%}[{{ m.role | upper }}]{{ m.content | tojson }}{%- endmacro -%}"
              "{%- for m in messages -%}{%- if m.role == 'assistant' -%}{{ ' ' }}" + GEN + "{{ turn(m) }}{{ eos_token }}" + END +
              "{%- else -%}{%- if loop.index > 99 -%}{%- break -%}{%- endif -%}{{ turn(m) }}{%- endif -%}{%- endfor -%}" + ASK +
              "{{ ' ' }}{% endif %}",
}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<think>",
           "</think>"]
TEXTS = ["Hi", "  What is 2 + 2?\n", "def f(x):\n    return x\n", "", "Käse, 漢字 und 🙂!", "\u00a0Hello world\u3000", "a <b> c"]


def conversations():
    out = []
    for i, text in enumerate(TEXTS):
        other = TEXTS[(i + 2) % len(TEXTS)] or "x"
        turns = [{"role": "user", "content": text}, {"role": "assistant", "content": other}]
        out.append(turns)
        out.append([{"role": "system", "content": other}] + turns)
        out.append(turns + [{"role": "user", "content": other}, {"role": "assistant", "content": text or "y"}])
        out.append(turns + [{"role": "user", "content": other}])
        out.append([{"role": "user", "content": other}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nso"}] +
                   turns)
        out.append([{"role": "user", "content": other}, {"role": "assistant", "content": "<think>a\n</think>b\n</think>\n"}])
    return out


def make_tokenizer(path):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as text:
        tok.train_from_iterator(text.read().splitlines(), trainer)
    tok.save(os.path.join(path, "tokenizer.json"))


def ask_propane(folder, data, flags=(), python=None):
    environment = dict(os.environ, PROPANE_PYTHON=python) if python else None
    return subprocess.run([program, "show", data, "--model", folder] + list(flags), capture_output=True, text=True,
                          env=environment)


def format_of(folder, python=None):
    """Returns the chat format that Propane chose, or None if it refuses."""
    data = os.path.join(folder, "one.jsonl")
    with open(data, "w", encoding="utf-8") as out:
        out.write('{"prompt": "Hello", "completion": " there"}\n')
    run = ask_propane(folder, data, python=python)
    return None if run.returncode else run.stdout.splitlines()[0].split()[-1]


def shown(folder, name, talks, chat):
    data = os.path.join(folder, "data.jsonl")
    with open(data, "w", encoding="utf-8") as out:
        for talk in talks:
            out.write(json.dumps({"messages": talk}, ensure_ascii=len(talk) % 2 == 0) + "\n")
    run = ask_propane(folder, data, ["--json"] + chat)
    if run.returncode:
        print(f"chat_check: {name}: {run.stderr}")
        sys.exit(1)
    return [json.loads(line) for line in run.stdout.splitlines()]


def check(folder, name, template, marked, chat=(), given=None):
    """given: the text that Propane reads instead of the template."""
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        json.dump({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": given or template,
                   "tokenizer_class": "PreTrainedTokenizerFast"}, out)
    reference = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token="<s>",
                                        eos_token="</s>")
    reference.chat_template = template
    talks, wrong, masks = conversations(), 0, 0
    for talk, got in zip(talks, shown(folder, name, talks, list(chat))):
        want = reference.apply_chat_template(talk, tokenize=True, return_dict=True, return_assistant_tokens_mask=marked)
        same = got["ids"] == want["input_ids"]
        if marked and same:
            masks += 1
            same = got["learn"] == want["assistant_masks"]
        if not same:
            wrong += 1
            print(f"{name}: {json.dumps(talk)}\n  here  {reference.decode(got['ids'])!r}\n  there "
                  f"{reference.decode(want['input_ids'])!r}")
            if marked:
                print("  here ", got["learn"], "\n  there", want["assistant_masks"])
    return len(talks), wrong


TALKS = [
    [("user", "Hello"), ("assistant", "Hi there."), ("user", "Bye"), ("assistant", "So long.")],
    [("system", "Be brief."), ("user", "Hello"), ("assistant", "Hi there."), ("user", "Bye"), ("assistant", "So long.")],
    [("system", " Be brief.\n"), ("user", "Hello"), ("assistant", "Hi there.")],
    [("user", " Hello\n"), ("assistant", "\n Hi there. "), ("user", "Bye"), ("assistant", " So long.\n")],
    [("user", "Hello"), ("assistant", "Hi there.")],
    [("user", "Hello"), ("assistant", "<think>\nhm\n</think>\n\nHi there."), ("user", "Bye"),
     ("assistant", "<think>\nso\n</think>\n\nSo long.")],
    [("user", "/think Hello"), ("assistant", "<think>hm</think>Hi."), ("user", "Bye /no_think"), ("assistant", "So.")],
]


TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Which"}}, "required": ["city"]}}}]
ASKED, ANSWERED = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."}
CALL = {"role": "assistant", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {
    "name": "weather", "arguments": {"city": "K\u00f6ln"}}}]}
RESULT = {"role": "tool", "content": '{"sky": "grey"}', "tool_call_id": "abcdefghi", "name": "weather"}
# Messages, and whether tools are passed.
RICH = [
    ([ASKED], False), ([{"role": "system", "content": "Be brief."}, ASKED, ANSWERED, ASKED], False), ([ASKED], True),
    ([{"role": "system", "content": "Be brief."}, ASKED], True), ([ASKED, {**CALL, "content": ""}, RESULT], True),
    ([ASKED, {**CALL, "content": None}, RESULT], True), ([ASKED, CALL, RESULT], True),
    ([ASKED, {**CALL, "content": "I look."}, RESULT, ANSWERED, ASKED], True),
    ([ASKED, {**ANSWERED, "reasoning_content": "hm"}], False), ([ASKED, {**ANSWERED, "thinking": "hm"}, ASKED], False),
    ([ASKED, {**ANSWERED, "reasoning": "hm"}, ASKED, {**ANSWERED, "reasoning": "so"}], False),
    ([{**ASKED, "name": "Ann"}, {**ANSWERED, "refusal": None, "tool_calls": None}, ASKED], False),
]
SAME, BOTH, THEY, HERE, OTHER = range(5)
COLUMNS = ("same", "both refuse", "it refuses", "refused", "different")


class Process:
    """Calls src/lm/text/chat_jinja.py in the way the library calls it."""

    def __init__(self):
        with open(os.path.join(ROOT, "src", "lm", "text", "chat_jinja.py"), encoding="utf-8") as script:
            self.child = subprocess.Popen([sys.executable, "-E", "-B", "-c", script.read()], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE)
        self.read()

    def read(self):
        return json.loads(self.child.stdout.read(struct.unpack(">I", self.child.stdout.read(4))[0]))

    def text(self, template, special, messages, tools, ask):
        """Returns None if it refuses."""
        bare = [{k: v for k, v in m.items() if v is not None or k == "content"} for m in messages]
        data = json.dumps({"template": template, "bos": special.get("bos_token", ""), "eos": special.get("eos_token", ""),
                           "messages": bare, "ask": ask, **({"tools": tools} if tools else {})}).encode()
        self.child.stdin.write(struct.pack(">I", len(data)) + data)
        self.child.stdin.flush()
        return self.read().get("text")


def judge(got, want):
    return (BOTH if want is None else HERE) if got is None else THEY if want is None else SAME if got == want else OTHER


def rendered(template, special, messages, tools, ask):
    try:
        return render_jinja_template([json.loads(json.dumps(messages))], tools=tools, chat_template=template,
                                     add_generation_prompt=ask, **special)[0][0]
    except Exception:  # the template's refusal
        return None


def compare_rich(process, template):
    counts = [0] * 5
    for messages, has_tools in RICH:
        tools = TOOLS if has_tools else None
        for special in ({"bos_token": "<s>", "eos_token": "</s>"}, {}):
            for ask in (True, False):
                got, want = process.text(template, special, messages, tools, ask), rendered(template, special, messages, tools, ask)
                verdict = judge(got, want)
                if verdict == OTHER:  # if a call has no content, no "None" is written
                    filled = [{**m, "content": m.get("content") or ""} for m in messages]
                    plain = rendered(template, special, filled, tools, ask)
                    verdict = SAME if got == plain else OTHER
                counts[verdict] += 1
                if verdict == OTHER:
                    print(f"  here  {got!r}\n  there {want!r}")
    return counts


def compare_published(folder, reference, python):
    counts, data = [0] * 5, os.path.join(folder, "data.jsonl")
    for talk in TALKS:
        messages = [{"role": role, "content": content} for role, content in talk]
        with open(data, "w", encoding="utf-8") as out:
            out.write(json.dumps({"messages": messages}) + "\n")
        run = ask_propane(folder, data, ["--json"], python)
        try:
            want = reference.apply_chat_template(messages, tokenize=False)
        except Exception:  # the template's refusal
            want = None
        got = None if run.returncode else reference.decode(json.loads(run.stdout)["ids"])
        counts[judge(got, want)] += 1
        if judge(got, want) == OTHER:
            print(f"  here  {got!r}\n  there {want!r}")
    return counts


def configure(folder, bos, eos):
    with open(os.path.join(folder, "tokenizer_config.json"), "w", encoding="utf-8") as out:
        json.dump({"bos_token": bos, "eos_token": eos, "tokenizer_class": "PreTrainedTokenizerFast"}, out)


def formats_of(folder, python):
    found = set()
    for bos, eos in (("<b>", "<e>"), ("", "<|im_end|>"), ("<s>", "</s>")):
        configure(folder, bos, eos)
        found.add(format_of(folder, python))
    return found


def check_published(folder):
    table, sums, process = [], {}, Process()
    for entry in sorted(name for name in os.listdir(published) if name.endswith(".jinja")):
        with open(os.path.join(published, entry), encoding="utf-8", newline="") as source:
            text = source.read()
        with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8", newline="") as out:
            out.write(text)
        reference = PreTrainedTokenizerFast(tokenizer_file=os.path.join(folder, "tokenizer.json"), bos_token="<s>",
                                            eos_token="</s>")
        reference.chat_template = text
        rows = []
        for engine, python in (("with", None), ("without", "/nowhere/python3")):
            chosen = formats_of(folder, python)
            rows.append((engine, chosen, compare_published(folder, reference, python)))
        rows.append(("rich", chosen, compare_rich(process, text)))
        for kind, _, counts in rows:
            sums[kind] = [a + b for a, b in zip(sums.get(kind, [0] * 5), counts)]
        table.append((entry[:-6], rows))
        if len(rows[0][1]) == 1 and not rows[0][1] & {"jinja", None}:
            cut = text[:-1] if text.endswith("\n") else text
            print(f"the text of {min(rows[0][1])}: {hashlib.sha256(cut.removesuffix(chr(13)).encode()).hexdigest()}")
    print("Each column: " + ", ".join(COLUMNS) + " (it: apply_chat_template)")
    print(f"{'template':44} {'format':9} {'with Jinja2':>16} {'without':>16} {'prompts, tools, thoughts':>26}")
    for entry, rows in table + [("all", [(kind, {""}, counts) for kind, counts in sums.items()])]:
        cells = [" ".join(f"{n:2}" for n in counts) for _, _, counts in rows]
        print(f"{entry[:44]:44} {','.join(sorted(map(str, rows[0][1]))):9} {cells[0]:>16} {cells[1]:>16} {cells[2]:>26}")
    return any(counts[OTHER] for counts in sums.values())


with tempfile.TemporaryDirectory() as work:
    make_tokenizer(work)
    if published:
        sys.exit(check_published(work))
    total = bad = 0
    for name, text in TEMPLATES.items():
        count, wrong = check(work, name, text, True, [] if has_jinja else ["--chat", name])
        if has_jinja and format_of(work) != name:
            wrong += 1
            print(f"{name}: the format chosen is {format_of(work)}")
        total, bad = total + count, bad + wrong
    if has_jinja:
        for name, text in list(OWN.items()) + [job for job in TEMPLATES.items() if job[0] != "qwen3"]:
            plain = text.replace(GEN, "").replace(END, "")
            for given in (text, plain):
                count, wrong = check(work, name + ", run", text, True, ["--chat", "jinja"] if name in TEMPLATES else [], given)
                total, bad = total + count, bad + wrong
    ran = "formats, and templates run by Jinja2" if has_jinja else "formats (python3 has no jinja2: none was run)"
    print(f"{len(TEMPLATES)} {ran}: {total} conversations, {bad} differ")
    sys.exit(bad != 0)
