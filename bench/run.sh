#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the benchmarks in sequence, beginning with the one that measures the machine: bench/run.sh BUILD [NAME...]
# bench/goals.py writes the table of goals and peers. It needs a model and Python packages.
set -u
build=$1
shift
[ $# = 0 ] && set -- bench_gemm $(for f in "$(dirname "$0")"/bench_*.c; do basename "$f" .c; done | grep -vx bench_gemm)
for name; do
    echo "== $name"
    "$build/bench/$name" || exit 1
done
