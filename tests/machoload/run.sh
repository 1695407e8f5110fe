#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs Propane's arm64 macOS build (tools/macos.sh) under qemu with the loader in this folder. The arguments name test
# programs (parts of their paths, as for tests/run.sh; "cli:NAME" is a file of command cases); the default is a
# selection that takes a few minutes. The code is the same as on a Mac, with Apple's calling conventions; libSystem and
# the kernel are replaced by Linux's. Exits with 77, and the reason on the last line, if a tool is missing.
set -u
cd "$(dirname "$0")/../.." || exit 2
for script in tools/arm64.sh tools/macos.sh; do
    sh $script > build/machoload.log 2>&1
    code=$?
    [ $code = 0 ] || { tail -30 build/machoload.log; exit $code; }
done
out=$PWD/build/machoload root=$PWD/build/arm64/root folder=$PWD/build/arm64/root/usr/lib/aarch64-linux-gnu
mkdir -p $out
# The libraries are linked whole, so that dlsym finds every name; Check is static.
libraries=$(for package in $(make -s packages); do pkg-config --libs-only-l "$package"; done)
# shellcheck disable=SC2086
aarch64-linux-gnu-gcc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror -Wno-cast-function-type -rdynamic -I tests/machoload \
    -I "$root/usr/include" tests/machoload/machoload.c tests/machoload/shims.c tests/machoload/shims_args.c tests/machoload/machoload.S -o $out/machoload \
    -L "$folder" -Wl,-rpath-link,"$folder:$root/lib/aarch64-linux-gnu" -Wl,--no-as-needed $libraries -Wl,--whole-archive -lcheck -Wl,--no-whole-archive \
    -lsubunit -lrt -lm -lpthread -ldl || exit 1
loader="$PWD/build/arm64/run $out/machoload"
export MACHOLOAD="$loader"
printf '#!/bin/sh\nexec %s %s "$@"\n' "$loader" "$PWD/build/macos/obj/propane" > $out/propane
chmod +x $out/propane

# The ane driver's tests and the training runs below expect the stand-in for Apple's libraries, compiled for Linux, in the
# place where their build would have put it.
build/arm64/make build/arm64/obj/tests/standin/libstandin.so || exit 1
mkdir -p build/macos/obj/tests/standin
cp build/arm64/obj/tests/standin/libstandin.so build/macos/obj/tests/standin/

good=0 bad=0
[ $# = 0 ] && set -- tests/drivers/test_ane tests/drivers/test_cpu tests/base tests/macho tests/mil/test_parse cli:basics training
for part; do
    case "$part" in
    cli:* | training) continue ;;
    esac
    for source in tests/*/test_*.c; do
        case "$source" in *"$part"*) build/macos/make "build/macos/obj/${source%.c}" || exit 1 ;; esac
    done
done
TEST_TIMEOUT=${TEST_TIMEOUT:-300}
export TEST_TIMEOUT
plain=$(for part; do case "$part" in cli:* | training) ;; *) echo "$part" ;; esac; done)
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
# Trains a small model on the stand-in, with weights as inputs and compiled in (the process replaces itself when its
# compiles are used up; one program per kernel, or all of them in one), and on the cpu. The losses fall, and all runs end
# with the same one.
train() { # train NAME FLAG...: prints its last loss
    name=$1
    shift
    rm -rf "$out/run-$name"
    PROPANE_ANE_LIBRARY=$PWD/build/macos/obj/tests/standin/libstandin.so $out/propane train --data $out/text --run "$out/run-$name" \
        --kind chars --layers 2 --width 32 --heads 2 --context 32 --batch 2 --steps 12 --lr 0.003 --warmup 2 --seed 7 --json \
        "$@" > "$out/$name.jsonl" 2> "$out/$name.err" || { cat "$out/$name.err" >&2; return 1; }
    sed -nE 's/.*"step":[0-9]+,"loss":([0-9.]+).*/\1/p' "$out/$name.jsonl" | sed -n '1p;$p' | paste -sd' '
}
case " $* " in
*" training "*)
    head -c 20000 docs/architecture.md > $out/text
    on_ane=$(train ane --device ane --weights inputs) && on_cpu=$(train cpu --device cpu --weights inputs) &&
        baked=$(train baked --device 'ane:memory?procedures=off' --weights baked --compile-budget 40) &&
        together=$(train together --device ane --weights baked --compile-budget 8) || bad=$((bad + 1))
    restarts=$(cat "$out/baked.jsonl" "$out/together.jsonl" | grep -c '"event":"restart"')
    echo "first and last loss: ane $on_ane, ane baked $baked, as procedures $together, cpu $on_cpu; $restarts restarts"
    if [ "$on_ane" = "$baked" ] && [ "$on_ane" = "$together" ] && [ "$restarts" -ge 2 ] && printf '%s %s\n' "$on_ane" "$on_cpu" | awk '{d = $2 - $4; exit !($2 < $1 && d < 0.02 && d > -0.02)}'; then
        good=$((good + 1))
    else
        bad=$((bad + 1))
    fi
    ;;
esac
echo "$good passed, $bad failed, 0 skipped"
[ "$bad" = 0 ]
