#!/bin/sh
# SPDX-License-Identifier: MIT
# Cross-checks against other programs where they can be had: makes a Python environment in build/python with PyTorch and
# NumPy, computes the committed references again and compares, then runs each tools/*_check.py (exit 0 good, 77 skipped
# with the reason on its last line, else failed). Closes with "N passed, N failed, N skipped".
set -u
cd "$(dirname "$0")/.." || exit 2
python=build/python/bin/python
[ -n "${CROSSCHECK_PYTHON:-}" ] && python=$CROSSCHECK_PYTHON
if ! [ -x "$python" ] || ! "$python" -c 'import torch, numpy' 2> /dev/null; then
    mkdir -p build
    python3 -m venv build/python > build/python.log 2>&1 && timeout 1500 build/python/bin/pip install -q torch numpy >> build/python.log 2>&1 ||
        { echo "PyTorch cannot be installed here: $(tail -1 build/python.log)"; exit 77; }
    python=build/python/bin/python
fi
# What single checks need besides; each says so itself where it is missing.
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q transformers tokenizers safetensors gguf openai peft tensorboard > build/python.log 2>&1
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q coremltools > build/python.log 2>&1
good=0 bad=0 skipped=0
run() { # run NAME COMMAND...
    name=$1
    shift
    "$@" > build/crosscheck.log 2>&1
    case $? in
    0) good=$((good + 1)); echo "ok      $name: $(tail -1 build/crosscheck.log)" ;;
    77) skipped=$((skipped + 1)); echo "skipped: $name: $(tail -1 build/crosscheck.log)" ;;
    *) bad=$((bad + 1)); echo "FAILED  $name"; tail -20 build/crosscheck.log ;;
    esac
}
for script in tools/*_check.py; do
    [ -f "$script" ] && run "$(basename "$script" .py)" "$python" "$script" build/release/propane
done
echo "$good passed, $bad failed, $skipped skipped"
[ $bad = 0 ]
