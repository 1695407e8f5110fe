#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks Propane against other programs, if they are available. Makes a Python environment in build/python with PyTorch
# and NumPy, computes the committed references again and compares them, then runs each tools/*_check.py (exit code 0:
# good; 77: skipped, with the reason on its last line; else failed). The last line is "N passed, N failed, N skipped".
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
# Further packages for single checks; each check reports a missing one.
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q transformers tokenizers safetensors gguf openai peft tensorboard > build/python.log 2>&1
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q coremltools > build/python.log 2>&1
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q prometheus_client 'lm_eval[api]' mistral_common tiktoken sentencepiece > build/python.log 2>&1
[ -n "${CROSSCHECK_PYTHON:-}" ] || timeout 600 build/python/bin/pip install -q trl > build/python.log 2>&1
# Runs one check per core at a time.
cores=$(getconf _NPROCESSORS_ONLN)
export OMP_NUM_THREADS=1 PROPANE_THREADS=1
rm -rf build/crosscheck
mkdir -p build/crosscheck
cat > build/crosscheck/one << 'INNER'
name=$(basename "$2" .py) log=build/crosscheck/$(basename "$2" .py).log
"$1" "$2" build/release/propane > "$log" 2>&1
case $? in
0) echo good > "$log.sum"; echo "ok      $name: $(tail -1 "$log")" ;;
77) echo skipped > "$log.sum"; echo "skipped: $name: $(tail -1 "$log")" ;;
*) echo bad > "$log.sum"; echo "FAILED  $name"; tail -20 "$log" ;;
esac
INNER
ls tools/*_check.py | xargs -P "$cores" -I '{}' sh build/crosscheck/one "$python" '{}'
count() { cat build/crosscheck/*.sum 2> /dev/null | grep -c "^$1$"; }
echo "$(count good) passed, $(count bad) failed, $(count skipped) skipped"
[ "$(count bad)" = 0 ]
