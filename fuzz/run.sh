#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds every fuzz target with libFuzzer, AddressSanitizer and UBSan and runs it: fuzz/run.sh SECONDS [TARGET...]
# The corpora in fuzz/corpus are read, not written; findings stay in build/fuzz.
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=$1
shift
flags='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g -O1'
make -s -j"$(getconf _NPROCESSORS_ONLN)" CC=clang-19 BUILD=build/fuzz OPTIMISE='-O1' SANITIZE="$flags" build/fuzz/libpropane.a || exit 1
[ $# = 0 ] && set -- $(for f in fuzz/fuzz_*.c; do basename "$f" .c | sed 's/^fuzz_//'; done)
bad=0 good=0
for target; do
    mkdir -p "build/fuzz/found/$target" "build/fuzz/work/$target"
    clang-19 -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -Ibuild/fuzz/gen $(pkg-config --cflags jansson) -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=all -g -O1 "fuzz/fuzz_$target.c" build/fuzz/libpropane.a \
        $(pkg-config --libs $(make -s packages)) -lm -lpthread -ldl -o "build/fuzz/fuzz_$target" || exit 1
    if "build/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$target/" "build/fuzz/work/$target" "fuzz/corpus/$target" > "build/fuzz/$target.log" 2>&1; then
        good=$((good + 1))
        echo "ok      $target: $(sed -n 's/stat::number_of_executed_units: *//p' "build/fuzz/$target.log") runs in $seconds s"
    else
        bad=$((bad + 1))
        echo "FAILED  $target"
        tail -40 "build/fuzz/$target.log"
    fi
done
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
