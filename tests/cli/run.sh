#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs one file of cases against the command and prints Check's closing line.
# Usage: tests/cli/run.sh PROPANE FILE.t
#
# A file is a sequence of lines; all cases of a file share one fresh folder, in order:
#   # comment
#   ! tool tool       requirements of the file; if one is missing, the rest of the file is skipped; part:server: an optional part,
#                     python:jinja2: a package of python3; /proc, /dev/full: a file or folder
#   ? tool tool       requirements of the next case and of its preparation; if one is missing, that case is skipped
#   @ shell code      prepares files (a failure fails the file)
#   $ command         run with sh; "propane" is the program under test
#   > line            exact line of expected standard output
#   >~ pattern        standard output must have a line that matches the shell pattern; without this and without ">" it
#                     must be empty. ">~ *" is any output
#   2> line           exact line of expected standard error; without any such line it must be empty
#   2~ pattern        line of expected standard error, as a shell pattern
#   = code            expected exit code; ends the case
# $DATA is the folder of shared data, $REPO the source tree; The stand-in's programs have their folders in ../engine.
set -u
[ $# = 2 ] || { echo "usage: tests/cli/run.sh PROPANE FILE.t" >&2; exit 2; }
REPO=$(cd "$(dirname "$0")/../.." && pwd)
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
case $2 in /*) file=$2 ;; *) file=$REPO/$2 ;; esac
[ -f "$file" ] || { echo "tests/cli/run.sh: there is no $2 below $REPO" >&2; exit 2; }
DATA=${PROPANE_DATA:-$REPO/../shared/data}
export REPO DATA
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-cli.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
limit=${TEST_TIMEOUT:-120} # seconds of processor time per program; the wall-clock limit is ten times this
mkdir "$work/bin" "$work/here" "$work/engine"
export PROPANE_STANDIN_MACHINE="${PROPANE_STANDIN_MACHINE:-},temporary=$work/engine" # not in TMPDIR
ln -s "$program" "$work/bin/propane"
PATH=$work/bin:$PATH
export XDG_CACHE_HOME="$work/cache" # the user's cache starts empty
cd "$work/here" || exit 2
if command -v timeout > /dev/null 2>&1; then within() { timeout "$@"; }; else within() { shift; "$@"; }; fi # macOS has none
ran=0 failed=0 command='' number=0 without=''

fail() {
    echo "$2:$number: $command"
    echo "    $1"
    bad=1
}

matches() { # does line $1 match shell pattern $2?
    # shellcheck disable=SC2254
    case "$1" in $2) return 0 ;; esac
    return 1
}

compare_err() {
    exec 3< ../err.got 4< ../err.want
    while IFS= read -r want <&4; do
        kind=${want%%:*} want=${want#*:}
        if ! IFS= read -r got <&3; then
            fail "standard error: it has no line for '$want'" "$1"
        elif [ "$kind" = exact ]; then
            [ "$got" = "$want" ] || fail "standard error: got '$got', want '$want'" "$1"
        else
            matches "$got" "$want" || fail "standard error: got '$got', want pattern '$want'" "$1"
        fi
    done
    IFS= read -r got <&3 && fail "standard error: unexpected '$got'" "$1"
    exec 3<&- 4<&-
}

run_case() { # $1 expected code, $2 name of the file
    ran=$((ran + 1)) bad=0
    (ulimit -t "$limit"; within $((limit * 10)) sh -c "$command") > ../out.got 2> ../err.got < /dev/null
    code=$?
    # eval reports its progress after ten seconds, which depends on the machine
    sed '/^ *[0-9]* %  loss .* left$/d' ../err.got > ../err.kept && mv ../err.kept ../err.got
    case $code in
    124) fail "it ran for $((limit * 10)) s" "$2" ;;
    152) fail "it used up its $limit s of processor time (TEST_TIMEOUT)" "$2" ;;
    esac
    [ "$code" = "$1" ] || fail "exit code $code, want $1" "$2"
    [ ! -s ../out.want ] && [ -s ../out.match ] || cmp -s ../out.want ../out.got || fail "standard output: got '$(head -c 300 ../out.got)'" "$2"
    while IFS= read -r pattern; do
        found=0
        while IFS= read -r line; do matches "$line" "$pattern" && found=1; done < ../out.got
        [ $found = 1 ] || fail "standard output has no line like '$pattern'" "$2"
    done < ../out.match
    compare_err "$2"
    [ $bad = 0 ] || { failed=$((failed + 1)); sed 's/^/    | /' ../err.got | head -5; }
    forget
}

forget() { # forgets the expectations
    : > ../out.want
    : > ../err.want
    : > ../out.match
}

has_all() { # TOOL...: true if all are available; otherwise $tool is the first missing one
    for tool in $1; do
        case "$tool" in
        python:*) python3 -c "import ${tool#python:}" 2> /dev/null || return 1 ;;
        part:*) propane version | grep -q "^parts .*${tool#part:} (" || return 1 ;;
        /*) case " ${TEST_HIDDEN:-} " in *" $tool "*) return 1 ;; esac; [ -e "$tool" ] || return 1 ;;
        *) command -v "$tool" > /dev/null 2>&1 || return 1 ;;
        esac
    done
}

unended() { # a case without a final "= code" was not run
    [ $open = 0 ] && return
    echo "$1:$number: no '= code' ends this case"
    ran=$((ran + 1)) failed=$((failed + 1)) open=0
}

forget
line_number=0 open=0
while IFS= read -r line; do
    line_number=$((line_number + 1))
    case "$line" in
    '' | '#'*) ;;
    '! '*)
        has_all "${line#??}" && continue
        echo "skipped: $2: there is no $tool here" >> "${TEST_SKIPS:-/dev/stdout}"
        [ $ran != 0 ] || ran=1
        break
        ;;
    '? '*) has_all "${line#??}" || without=$tool ;;
    '@ '*) [ -n "$without" ] || sh -e -c "${line#@ }" || { echo "$2:$line_number: preparing failed: ${line#@ }"; ran=$((ran + 1)) failed=$((failed + 1)); } ;;
    '$ '*) unended "$2"; command=${line#??} number=$line_number open=1 ;;
    '> '*) printf '%s\n' "${line#??}" >> ../out.want ;;
    '>~ '*) printf '%s\n' "${line#???}" >> ../out.match ;;
    '2> '*) printf 'exact:%s\n' "${line#???}" >> ../err.want ;;
    '2~ '*) printf 'pattern:%s\n' "${line#???}" >> ../err.want ;;
    '= '*)
        open=0
        if [ -n "$without" ]; then
            echo "skipped: $2:$number: there is no $without here" >> "${TEST_SKIPS:-/dev/stdout}"
            without=''
            forget
        else
            run_case "${line#??}" "$2"
        fi
        ;;
    *) echo "$2:$line_number: not understood: $line"; ran=$((ran + 1)) failed=$((failed + 1)) ;;
    esac
done < "$file"
unended "$2"
[ $ran = 0 ] && percent=100 || percent=$(((ran - failed) * 100 / ran))
echo "$percent%: Checks: $ran, Failures: $failed, Errors: 0"
[ $failed = 0 ]
