#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs Propane's arm64 macOS build (tools/macos.sh) under qemu with the loader in this folder: test programs named as
# arguments (parts of their path, as for tests/run.sh; "cli:NAME" is a file of command cases), or a choice that takes a few
# minutes. The code that runs is the code that a Mac would run, with Apple's calling conventions; libSystem and the
# kernel are Linux's. Exits 77 with the reason on the last line where a tool is not here.
set -u
cd "$(dirname "$0")/../.." || exit 2
for script in tools/arm64.sh tools/macos.sh; do
    sh $script > build/machoload.log 2>&1
    code=$?
    [ $code = 0 ] || { tail -30 build/machoload.log; exit $code; }
done
out=$PWD/build/machoload root=$PWD/build/arm64/root folder=$PWD/build/arm64/root/usr/lib/aarch64-linux-gnu
mkdir -p $out
# The libraries are linked whole so that every name is found by dlsym; Check is static.
libraries=$(for package in $(make -s packages); do pkg-config --libs-only-l "$package"; done)
# shellcheck disable=SC2086
aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-cast-function-type -rdynamic -I tests/machoload \
    -I "$root/usr/include" tests/machoload/machoload.c tests/machoload/shims.c tests/machoload/machoload.S -o $out/machoload \
    -L "$folder" -Wl,-rpath-link,"$folder" -Wl,--no-as-needed $libraries -Wl,--whole-archive -lcheck -Wl,--no-whole-archive \
    -lsubunit -lrt -lm -lpthread -ldl || exit 1
loader="$PWD/build/arm64/run $out/machoload"
export MACHOLOAD="$loader"
printf '#!/bin/sh\nexec %s %s "$@"\n' "$loader" "$PWD/build/macos/obj/propane" > $out/propane
chmod +x $out/propane

good=0 bad=0
[ $# = 0 ] && set -- tests/drivers/test_cpu tests/cpu/test_map tests/cpu/test_rows tests/base tests/mil/test_parse cli:basics
for part; do
    case "$part" in
    cli:*) continue ;;
    esac
    for source in tests/*/test_*.c; do
        case "$source" in *"$part"*) build/macos/make "build/macos/obj/${source%.c}" || exit 1 ;; esac
    done
done
TEST_TIMEOUT=${TEST_TIMEOUT:-300}
export TEST_TIMEOUT
plain=$(for part; do case "$part" in cli:*) ;; *) echo "$part" ;; esac; done)
if [ -n "$plain" ]; then
    # shellcheck disable=SC2086
    TEST_RUNNER=$loader sh tests/run.sh build/macos/obj $plain > $out/log 2>&1
    tail -60 $out/log
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' $out/log)
    good=${line%% passed*} bad=$(printf '%s' "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
fi
for part; do
    case "$part" in cli:*) ;; *) continue ;; esac
    sh tests/cli/run.sh $out/propane "tests/cli/cases/${part#cli:}.t" > $out/log 2>&1
    line=$(tail -1 $out/log)
    [ "$line" = "${line#100%}" ] && tail -30 $out/log
    ran=$(printf '%s' "$line" | sed -nE 's/.*Checks: ([0-9]+), Failures: ([0-9]+).*/\1 \2/p')
    # shellcheck disable=SC2086
    set_to() { good=$((${good:-0} + $1 - $2)) bad=$((${bad:-0} + $2)); }
    # shellcheck disable=SC2086
    set_to ${ran:-0 1}
    echo "cli $part: $line"
done
echo "$good passed, $bad failed, 0 skipped"
[ "$bad" = 0 ]
