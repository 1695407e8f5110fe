#!/bin/sh
# SPDX-License-Identifier: MIT
# What the cpu driver makes of programs, written down so that two builds can be compared: every step and buffer of each plan,
# and a SHA-256 of each output, for every instruction set of this machine.
#
#   tools/oracle.sh OUT [BUILD]            writes OUT; BUILD: build/release
#   tools/oracle.sh --compare OLD NEW      what differs, by program and stage; exits 1 if anything does
#   tools/oracle.sh --renew [BUILD]        writes tests/oracle/record.txt anew, after plans or bits were changed on purpose
#
# ORACLE_PROGRAMS: folders with more programs (.mil, .mlpackage, .mlmodel), separated by spaces.
# ORACLE_BIN: the program to ask instead of BUILD/tests/oracle/oracle.  PROPANE_ISA: one instruction set alone.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "oracle.sh: $*" >&2
    exit 2
}

programs() { # in the repository, then in other folders: paths
    find tests/oracle/programs tests/mil/cases examples -name '*.mil' ! -name 'bad_*' 2> /dev/null | LC_ALL=C sort
    for folder in ${ORACLE_PROGRAMS:-}; do
        find "$folder" \( -name '*.mlpackage' -o -name '*.mlmodel' -o -name '*.mil' \) ! -path '*.mlpackage/*' | LC_ALL=C sort
    done
}

ask() { # options of the program; what it says of its work goes to "$work/log", whose last lines tell where it died
    "$bin" "$@" 2> "$work/log" || {
        tail -3 "$work/log" >&2
        die "$bin ended with code $?; the last program it began is named above"
    }
}

names() { cut -f1,2 "$1" | uniq | LC_ALL=C sort -u; }

compare() { # OLD NEW
    [ -f "$1" ] && [ -f "$2" ] || die "--compare takes two files"
    work=$(mktemp -d "${TMPDIR:-/tmp}/propane-oracle.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    names "$1" > "$work/old"
    names "$2" > "$work/new"
    LC_ALL=C comm -23 "$work/old" "$work/new" > "$work/gone"
    LC_ALL=C comm -13 "$work/old" "$work/new" > "$work/added"
    for side in gone added; do
        [ -s "$work/$side" ] && { echo "$side: $(wc -l < "$work/$side") plans"; head -3 "$work/$side" | sed 's/^/    /'; }
    done
    cmp -s "$1" "$2" || diff --speed-large-files "$1" "$2" | awk -F '\t' '
        FILENAME != "-" { apart[$1 "\t" $2] = 1; next }
        /^[<>] / {
            side = substr($0, 1, 1); name = substr($1, 3); key = name "\t" $2
            if (key in apart) next
            if (!(key in seen)) { seen[key] = 1; keys[++n] = key }
            stage = $3; at = key "\t" stage
            if (!(at in stages)) { stages[at] = 1; of[key] = of[key] "\t" stage }
            line = substr($0, length(name) + length($2) + length($3) + 6)
            if (side == "<") { if (!old[at]++) was[at] = line } else if (!new[at]++) is[at] = line
            if (!(at in counted)) { counted[at] = 1; total[stage]++ }
        }
        END {
            for (i = 1; i <= n; i++) {
                split(keys[i], k, "\t"); printf "%s (%s)\n", k[1], k[2]
                m = split(of[keys[i]], s, "\t")
                for (j = 2; j <= m; j++) {
                    at = keys[i] "\t" s[j]
                    printf "    %s: %d lines were, %d are\n", s[j], old[at], new[at]
                    if (at in was) printf "        was: %s\n", was[at]
                    if (at in is) printf "        is:  %s\n", is[at]
                }
            }
            if (n) {
                printf "%d plans differ, in:", n
                for (stage in total) printf " %s %d", stage, total[stage]
                printf "\n"
            }
        }' "$work/gone" "$work/added" - > "$work/says"
    cat "$work/says" 2> /dev/null || true
    [ -s "$work/says" ] || echo "no difference: $(LC_ALL=C comm -12 "$work/old" "$work/new" | wc -l) plans"
    [ ! -s "$work/says" ] && [ ! -s "$work/gone" ]
}

case "${1:-}" in
--compare)
    [ $# = 3 ] || die "usage: tools/oracle.sh --compare OLD NEW"
    compare "$2" "$3"
    exit
    ;;
--renew) out=tests/oracle/record.txt ;;
--*|'') die "usage: tools/oracle.sh OUT [BUILD] | --compare OLD NEW | --renew [BUILD]" ;;
*) out=$1 ;;
esac

bin=${ORACLE_BIN:-${2:-build/release}/tests/oracle/oracle}
[ -x "$bin" ] || die "no $bin; build it with 'make tests'"
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-oracle.XXXXXX")
trap 'rm -rf "$work"' EXIT
ask --twice --bf16 --ops > "$work/out"
programs > "$work/list"
ask --twice --bf16 < "$work/list" >> "$work/out"
mv "$work/out" "$out"
echo "$out: $(cut -f1 "$out" | uniq | wc -l) programs, $(cut -f1,2 "$out" | uniq | wc -l) plans, $(grep -c '	output	' "$out" || true) outputs"
