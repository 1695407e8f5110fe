#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds every fuzz target with libFuzzer, AddressSanitizer and UBSan and runs it, as many at a time as there are cores:
# fuzz/run.sh SECONDS [TARGET...]
# FUZZ_SEED=N draws the same inputs again. Without it, each run draws different ones.
# With CAMPAIGN_STATE, the files and seconds of each target are added to that file (tests/campaign/volumes.sh).
# The corpora in fuzz/corpus are read, not written; findings stay in build/fuzz. The library is built from the sources
# that the targets use (they read files and texts, and run nothing on a device). If the link of a new target fails, add
# the sources of the missing names.
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=$1
shift
flags='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -g -O1'
sources=$(find src/core/base src/ane/chip src/ane/h13 apps/ane-lab/macho src/core/mil src/core/files src/lm/arch src/lm/files src/lm/text src/lm/infer/sample.c apps/serve/http_request.c apps/serve/responses.c src/lm/data/jsonl.c \
    src/train/data/csv_rows.c src/lm/data/example_keys.c src/lm/data/packed_windows.c -name '*.c' | sort)
rm -f build/fuzz/internal.a # may be from other folders
make -s -j"$(getconf _NPROCESSORS_ONLN)" CC=clang-19 BUILD=build/fuzz OPTIMISE='-O1' SANITIZE="$flags" LIB_SRC="$(echo $sources)" \
    build/fuzz/internal.a || exit 1
[ $# = 0 ] && set -- $(for f in fuzz/fuzz_*.c; do basename "$f" .c | sed 's/^fuzz_//'; done)
cat > build/fuzz/one << 'INNER'
seconds=$1 target=$2
shift 2
mkdir -p "build/fuzz/found/$target" "build/fuzz/corpus/$target"
clang-19 -std=c11 -D_GNU_SOURCE -Iinclude -Isrc -I. -Ibuild/fuzz/gen $(pkg-config --cflags jansson) -fsanitize=fuzzer,address,undefined \
    -fno-sanitize-recover=all -g -O1 "fuzz/fuzz_$target.c" build/fuzz/internal.a "$@" -o "build/fuzz/fuzz_$target" &&
    "build/fuzz/fuzz_$target" -max_total_time="$seconds" -seed="${FUZZ_SEED:-0}" -timeout=10 -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$target/" "build/fuzz/corpus/$target" "fuzz/corpus/$target" > "build/fuzz/$target.log" 2>&1
bad=$?
runs=$(sed -n 's/stat::number_of_executed_units: *//p' "build/fuzz/$target.log")
[ -z "${CAMPAIGN_STATE:-}" ] || { echo "mutated ${runs:-0} $((bad != 0)) $target"; echo "seconds $seconds 0 $target"; } >> "$CAMPAIGN_STATE"
if [ $bad = 0 ]; then
    echo good > "build/fuzz/$target.sum"
    echo "ok      $target: $runs runs in $seconds s"
else
    echo bad > "build/fuzz/$target.sum"
    echo "FAILED  $target"
    tail -40 "build/fuzz/$target.log"
fi
INNER
rm -f build/fuzz/*.sum build/fuzz/*.log
printf '%s\n' "$@" | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I '{}' \
    sh build/fuzz/one "$seconds" '{}' $(pkg-config --libs $(make -s packages)) -lm -lpthread -ldl
count() { cat build/fuzz/*.sum 2> /dev/null | grep -c "^$1$"; }
echo "$(count good) passed, $(count bad) failed, 0 skipped"
[ "$(count bad)" = 0 ] && [ "$(count good)" != 0 ]
