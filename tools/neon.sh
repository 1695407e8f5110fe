#!/bin/sh
# SPDX-License-Identifier: MIT
# The cpu driver's NEON kernels, compiled for aarch64 Linux and run under qemu: the tests of tests/cpu and the conformance
# suite. Exits 77 with the reason on the last line where a tool is not here.
set -u
cd "$(dirname "$0")/.." || exit 2
sh tools/arm64.sh || exit $?
[ $# = 0 ] && set -- tests/cpu/ tests/drivers/test_cpu
for part; do
    for source in tests/*/test_*.c; do
        case "$source" in *"$part"*) build/arm64/make "build/arm64/obj/${source%.c}" || exit 1 ;; esac
    done
done
TEST_RUNNER=$PWD/build/arm64/run TEST_TIMEOUT=${TEST_TIMEOUT:-900} sh tests/run.sh build/arm64/obj "$@"
