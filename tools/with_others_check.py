#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the code blocks of docs/with-others.md unchanged: transformers, peft, trl, the openai client, lm-evaluation-harness.
The page's my-model, tuned and examples are created first, and a server answers at the page's address, with a free port. In
addition, transformers must generate the same text as `propane generate`. Blocks for a package that is not installed are
skipped by name.

usage: with_others_check.py [PROPANE]          exit 0: good; 77: none of the packages is installed; 1: a block fails
"""
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
propane = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build", "release", "propane"))
# By heading: the packages that its blocks need.
NEEDS = {"transformers": ["torch", "transformers"], "peft": ["torch", "transformers", "peft"], "trl": ["torch", "datasets", "trl"],
         "openai": ["openai"], "lm-evaluation-harness": ["lm_eval", "tenacity", "transformers"], "llama.cpp": []}
GREEDY = ["generate", "my-model", "--prompt", "Once upon a time", "--count", "20", "--temperature", "0"]


def blocks():
    """Returns [heading, language, text] of each block of the page."""
    found, heading = [], ""
    with open(os.path.join(ROOT, "docs", "with-others.md"), encoding="utf-8") as page:
        for part in re.finditer(r"^## ([^\n]*)$|^```(\w+)\n(.*?)^```$", page.read(), re.M | re.S):
            if part[1]:
                heading = part[1]
            else:
                found.append((heading, part[2], part[3]))
    return found


def run(work, words, what, shell=False):
    code = subprocess.run(words, cwd=work, shell=shell, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=500, env=environment)
    if code.returncode:
        print(f"FAILED {what}: exit code {code.returncode}\n{code.stdout[-1500:]}{code.stderr[-3000:]}")
        sys.exit(1)
    return code.stdout


def prepare(work):
    text = "".join(f"Once upon a time line {i * i % 977} was {i % 7} of {i % 13}. What is {i}? It is {i}.\n" for i in range(900))
    with open(os.path.join(work, "book.txt"), "w") as out:
        out.write(text)
    with open(os.path.join(work, "chat.jsonl"), "w") as chat, open(os.path.join(work, "prompts.jsonl"), "w") as prompts, \
            open(os.path.join(work, "pairs.jsonl"), "w") as pairs:
        for i in range(60):
            talk = [{"role": "user", "content": f"What is {i}?"}, {"role": "assistant", "content": f"It is {i}."}]
            chat.write(json.dumps({"messages": talk}) + "\n")
            prompts.write(json.dumps({"prompt": f"What is {i}?", "completion": f" It is {i}."}) + "\n")
            pairs.write(json.dumps({"prompt": f"What is {i}?", "chosen": f" It is {i}.", "rejected": f" It is {i + 1}."}) + "\n")
    os.mkdir(os.path.join(work, "tasks"))
    with open(os.path.join(work, "tasks", "numbers.yaml"), "w") as out:
        out.write(f"task: numbers\ndataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {work}/prompts.jsonl\ntest_split: test\n"
                  "output_type: multiple_choice\ndoc_to_text: '{{prompt}}'\ndoc_to_choice: ['{{completion}}', ' No.']\ndoc_to_target: 0\n"
                  "target_delimiter: ''\nmetric_list:\n  - metric: acc\n")
    tiny = "--layers 2 --width 48 --heads 2 --context 64 --vocab 400 --steps 60 --eval-every 0 --threads 1 --no-report".split()
    run(work, ["propane", "train", "--data", "book.txt", "--run", "my-run", *tiny], "my-run")
    run(work, ["propane", "convert", "my-run", "my-model"], "my-model")
    run(work, "propane train --init my-model --data chat.jsonl --lora-rank 4 --steps 8 --run tuned --no-report".split(), "tuned")


def main(work):
    here = [name for name, needs in NEEDS.items() if all(importlib.util.find_spec(package) for package in needs)]
    missing = [name for name in NEEDS if name not in here]
    page = blocks()
    if {heading for heading, _, _ in page} != set(NEEDS):
        print(f"FAILED the page has blocks of {sorted({h for h, _, _ in page})}, this script knows {sorted(NEEDS)}")
        return 1
    if here == ["llama.cpp"]:
        print("none of the packages is here: " + ", ".join(missing))
        return 77
    prepare(work)
    server = subprocess.Popen([propane, "serve", "my-model", "--port", "0", "--no-log"], cwd=work, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().split(" at http://")[1].split("/v1")[0]
        for heading, language, text in page:
            if heading not in here:
                continue
            text = text.replace("127.0.0.1:8080", address).replace("--tasks TASK", "--tasks numbers --include_path tasks")
            said = run(work, [sys.executable, "-c", text] if language == "python" else "set -e\n" + text, heading + "'s block:\n" + text,
                       language == "sh")
            if heading == "transformers" and run(work, ["propane", *GREEDY], heading).strip() not in said:
                print(f"FAILED transformers writes {said!r}, propane {run(work, ['propane', *GREEDY], heading)!r}")
                return 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)
    print(f"{len(here)} programs: {', '.join(here)}" + (f"; not here: {', '.join(missing)}" if missing else ""))
    return 0


if not os.path.exists(propane):
    print(f"{propane} is not built: run make")
    sys.exit(77)
folder = tempfile.mkdtemp(prefix="propane-others-")
os.mkdir(os.path.join(folder, "bin"))
os.symlink(propane, os.path.join(folder, "bin", "propane"))
environment = dict(os.environ, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false", HF_HUB_DISABLE_TELEMETRY="1",
                   HF_HOME=os.path.join(folder, "home"), CUDA_VISIBLE_DEVICES="",
                   PATH=os.pathsep.join([os.path.join(folder, "bin"), os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
try:
    result = main(folder)
finally:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(result)
