#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles the cpu driver's NEON kernels for aarch64 Linux and runs under qemu: the tests of tests/cpu, AdamW and the
# conformance suite; conversions with and without BFCVT; and pages of 16 KB. Exits with 77, and the reason on the last
# line, if a tool is missing.
set -u
cd "$(dirname "$0")/.." || exit 2
sh tools/arm64.sh || exit $?
[ $# = 0 ] && set -- tests/cpu/ tests/drivers/test_cpu tests/train/test_adamw
for part; do
    for source in tests/*/test_*.c; do
        case "$source" in *"$part"*) build/arm64/make "build/arm64/obj/${source%.c}" || exit 1 ;; esac
    done
done
build/arm64/make build/arm64/obj/tests/cpu/cblas/cblas_double.so || exit 1 # tests/cpu/test_blas.c loads it
TEST_RUNNER=$PWD/build/arm64/run TEST_TIMEOUT=${TEST_TIMEOUT:-900} sh tests/run.sh build/arm64/obj "$@" > build/arm64/log 2>&1
code=$?
cat build/arm64/log
line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' build/arm64/log | tail -1)
[ -n "$line" ] || exit 1

# Conversions to 16 bits on processors with and without BFCVT (an M2 has it, an M1 does not), and memory in pages of 16 KB.
good=${line%% passed*} bad=$(printf '%s' "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
for name in half pool file base; do build/arm64/make "build/arm64/obj/tests/base/test_$name" || exit 1; done
for run in 'max half yes' 'cortex-a72 half no' 'max pool yes' 'max file yes' 'max base yes'; do
    # shellcheck disable=SC2086
    set -- $run
    if build/arm64/run -cpu "$1" -p 16384 -E TEST_BFCVT="$3" "$PWD/build/arm64/obj/tests/base/test_$2" > build/arm64/base.log 2>&1; then
        good=$((good + 1))
        echo "ok      base/$2 on $1, pages of 16 KB"
    else
        bad=$((bad + 1)) code=1
        echo "FAILED  base/$2 on $1, pages of 16 KB"
        tail -5 build/arm64/base.log
    fi
done

# The stubs of 'propane trace' for arm64: runs a training on the stand-in with the tracing library loaded.
obj=$PWD/build/arm64/obj work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build/arm64/make build/arm64/obj/propane build/arm64/obj/libpropane-trace.so build/arm64/obj/tests/standin/libstandin.so || exit 1
head -c 5000 docs/architecture.md > "$work/text"
build/arm64/run -E LD_PRELOAD="$obj/libpropane-trace.so" -E PROPANE_TRACE="$work/log" \
    -E PROPANE_ANE_LIBRARY="$obj/tests/standin/libstandin.so" "$obj/propane" train --data "$work/text" --run "$work/run" \
    --kind chars --layers 1 --width 16 --heads 2 --context 32 --batch 1 --steps 2 --eval-batches 1 --device ane > "$work/out" 2>&1
trained=$?
if [ $trained = 0 ] && grep -q 'requestWithInputs.*"arguments":\[\["<object 0x.*\],\[0,.*\],null,null,0\]}' "$work/log"; then
    good=$((good + 1))
    echo "ok      trace: $(wc -l < "$work/log") calls"
else
    bad=$((bad + 1)) code=1
    echo "FAILED  trace"
    tail -5 "$work/out" "$work/log"
fi
echo "$good passed, $bad failed, ${line##*failed, }"
exit $code
