#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs test programs and the command's cases, two at a time, and prints the sums: "N passed, N failed, N skipped".
# Usage: tests/run.sh BUILD [NAME...]   (a NAME is part of a test program's path; "cli" is the command's cases,
# "cli/cases/show" some of them)
# TEST_ALL=1: also the long tests. TEST_TIMEOUT: seconds of processor time that a test may use (120). TEST_RUNNER:
# words before each test program (an emulator). TEST_STOP=1: no test starts after a failure.
# Exits with 1 if a test failed, 2 if none ran.
# Lists skipped tests with their reasons, and the ten slowest by processor time, which does not depend on other work on
# the machine. All temporary files are in one folder, which is removed at the end; a test that leaves files there
# fails.
set -u
cd "$(dirname "$0")/.." || exit 2
build=$1
shift
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-run.XXXXXX") || exit 2
# Killed tests may still write for a moment.
trap 'rm -rf "$work" 2> /dev/null || { sleep 1; rm -rf "$work"; }' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/tmp"
export TMPDIR="$work/tmp"
unset MAKEFLAGS MFLAGS MAKELEVEL # a test's own make is not one of make check's jobs
# The machine that the stand-in for Apple's libraries simulates (tests/standin/standin.c).
# PROPANE_STANDIN_MACHINE=system=15 selects another one.
export PROPANE_STANDIN_MACHINE="${PROPANE_STANDIN_MACHINE:-},temporary=$work/tmp"

wanted() { # returns whether "$1" is requested
    name=$1
    shift
    [ $# = 0 ] && return 0
    for part; do case "$name" in *"$part"*) return 0 ;; esac; done
    return 1
}

left_out() { [ -f "$build/left-out" ] && grep -qx "$1" "$build/left-out"; } # a build WITHOUT=lm

: > "$work/list"
for source in tests/*/test_*.c; do
    program=$build/${source%.c}
    left_out "$source" && continue
    wanted "$program" "$@" && echo "$program" >> "$work/list"
done
for source in fuzz/fuzz_*.c; do # replays fuzz/corpus/NAME
    program=$build/${source%.c}
    left_out "$source" && continue
    [ -f "$source" ] && wanted "$program" "$@" && echo "$program" >> "$work/list"
done
for file in tests/cli/cases/*.t; do # only for a NAME that contains "cli": a sanitizer's run of "train" must not run commands
    [ $# = 0 ] || case " $* " in *cli*) wanted "$file" "$@" ;; *) false ;; esac && echo "$file" >> "$work/list"
done

cat > "$work/one" <<'INNER'
item=$1 work=$2 build=$3
id=$(printf '%s' "$item" | tr '/' '_')
export TEST_SKIPS="$work/$id.skips"
case "$item" in
*.t) sh tests/cli/run.sh "$build/propane" "$item" > "$work/$id.out" 2>&1 ;;
fuzz/* | */fuzz/*) (ulimit -t "${TEST_TIMEOUT:-120}"; exec ${TEST_RUNNER:-} "$item") > "$work/$id.out" 2>&1 ;;
*) ${TEST_RUNNER:-} "$item" > "$work/$id.out" 2>&1 ;;
esac
code=$?
times > "$work/$id.times"
spent=$(tail -1 "$work/$id.times" | tr 'ms' '  ' | awk '{printf "%.1f", $1 * 60 + $2 + $3 * 60 + $4}')
name=${item#"$build/"}
echo "$spent $name" > "$work/$id.spent"
line=$(grep -E '^[0-9]+%: Checks: ' "$work/$id.out" | tail -1)
ran=$(printf '%s' "$line" | sed -nE 's/.*Checks: ([0-9]+).*/\1/p')
bad=$(printf '%s' "$line" | sed -nE 's/.*Failures: ([0-9]+), Errors: ([0-9]+).*/\1 \2/p' | awk '{print $1 + $2}')
skipped=0
[ -f "$work/$id.skips" ] && skipped=$(wc -l < "$work/$id.skips")
if [ -z "$ran" ]; then ran=1 bad=1; echo "it ended with code $code and without a result" >> "$work/$id.out"; fi
if [ "$bad" = 0 ] && [ $code != 0 ]; then bad=1; echo "it ended with code $code" >> "$work/$id.out"; fi
echo "$ran $bad $skipped" > "$work/$id.sum"
if [ "$bad" != 0 ]; then
    echo "FAILED  $name (${spent} s)"
    grep -vE '^[0-9]+%: Checks|^Running suite' "$work/$id.out" | tail -${TEST_LINES:-40} | sed 's/^/        /'
else
    printf 'ok      %s: %s%s (%s s)\n' "$name" "$ran" "$([ "$skipped" != 0 ] && echo ", $skipped skipped")" "$spent"
fi
[ "$bad" = 0 ] || [ -z "${TEST_STOP:-}" ] || exit 255 # xargs starts nothing more
INNER
xargs -P 2 -I '{}' sh "$work/one" '{}' "$work" "$build" < "$work/list"

# Open MPI sometimes leaves its session folder when a rank was killed; those are not ours.
left=$(ls -A "$work/tmp" | grep -v '^ompi\.' | grep -v '^\.standin-places$')
if [ -n "$left" ]; then
    echo "FAILED  temporary files are left behind:"
    printf '        %s\n' $left
    echo "1 1 0" > "$work/left.sum"
fi
left=$(grep -cE '^(tests|fuzz)/' "$build/left-out" 2> /dev/null)
[ "${left:-0}" = 0 ] || echo "skipped: $left files of tests: this build has no language models" > "$work/left-out.skips"
cat "$work"/*.skips > "$work/skips" 2>/dev/null
total=$(cat "$work"/*.sum 2>/dev/null | awk '{ran += $1; bad += $2; skip += $3} END {print ran - bad - skip, bad + 0, skip + 0}')
set -- $total
if [ -s "$work/skips" ]; then
    echo
    sort "$work/skips"
fi
if [ "$(wc -l < "$work/list")" -gt 10 ]; then
    echo
    echo "the ten slowest of $(cat "$work"/*.spent | awk '{sum += $1} END {printf "%.0f", sum}') s of processor time:"
    cat "$work"/*.spent | sort -rn | head -10 | awk '{printf "%8.1f s  %s\n", $1, $2}'
fi
if [ "$((${1:-0} + ${2:-0}))" = 0 ]; then
    echo "no test ran"
    exit 2
fi
echo
echo "$1 passed, $2 failed, $3 skipped"
[ "$2" = 0 ]
