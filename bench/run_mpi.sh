#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares one process with N threads to N ranks of one thread each, in alternation: steps of a Stories15M-shaped model
# (6 layers, width 288, vocabulary 32,000, context 256) at batch 4. Prints the median rate of each round, and at the
# end that of all rounds.
# Usage: bench/run_mpi.sh [BUILD [ROUNDS [N [flags of propane train...]]]]
# The text and the tokenizer are those of the tests' data (PROPANE_DATA, ../shared/data); skipped without them or
# mpirun.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-build/release} rounds=${2:-3} n=${3:-2}
[ $# -gt 3 ] && shift 3 || set --
program=$(cd "$build" && pwd)/propane
data=${PROPANE_DATA:-$PWD/../shared/data}
for file in "$data/tinyshakespeare.txt" "$data/llama2_tokenizer.bin"; do
    [ -f "$file" ] || { echo "skipped: there is no $file"; exit 0; }
done
command -v mpirun > /dev/null || { echo "skipped: there is no mpirun"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-mpi.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

set -- --data "$data/tinyshakespeare.txt" --tokenizer "$data/llama2_tokenizer.bin" --layers 6 --width 288 --heads 6 --hidden 768 \
    --context 256 --batch 4 --steps 14 --eval-every 0 --checkpoint-every 0 --no-report --json --run "$work/run" "$@"
rates() { sed -nE 's/.*"tokens_per_s":([0-9.]+).*/\1/p' | tail -n +3; } # the first steps touch their memory
median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

for round in $(seq "$rounds"); do
    "$program" train "$@" --threads "$n" | rates > "$work/one.now"
    rm -rf "$work/run"
    mpirun --oversubscribe --bind-to none -n "$n" "$program" train "$@" --threads 1 | rates > "$work/ranks.now"
    rm -rf "$work/run"
    [ -s "$work/one.now" ] && [ -s "$work/ranks.now" ] || { echo "a run failed"; exit 1; }
    cat "$work/one.now" >> "$work/one.all"
    cat "$work/ranks.now" >> "$work/ranks.all"
    echo "round $round: one process of $n threads $(median < "$work/one.now") tokens/s, $n ranks $(median < "$work/ranks.now")"
done
awk -v a="$(median < "$work/one.all")" -v b="$(median < "$work/ranks.all")" -v n="$n" 'BEGIN {
    printf "median of all steps: one process %.0f tokens/s, %d ranks %.0f: %.1f %%\n", a, n, b, 100 * b / a}'
