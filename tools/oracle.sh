#!/bin/sh
# SPDX-License-Identifier: MIT
# Records the cpu driver's plans and results of programs, so that two builds can be compared: every step and buffer of
# each plan, and a SHA-256 of each output, for every instruction set of this machine.
#
#   tools/oracle.sh OUT [BUILD]            writes OUT; BUILD: build/release
#   tools/oracle.sh --compare OLD NEW      prints the differences by program and stage; exits with 1 if there are any
#   tools/oracle.sh --renew [BUILD]        rewrites tests/oracle/record.txt, after plans or bits were changed on purpose
#
# ORACLE_PROGRAMS: folders with more programs (.mil, .mlpackage, .mlmodel), separated by spaces.
# ORACLE_BIN: the program to run instead of BUILD/tests/oracle/oracle.  PROPANE_ISA: only one instruction set.
set -eu
cd "$(dirname "$0")/.."

die() {
    echo "oracle.sh: $*" >&2
    exit 2
}

programs() { # prints the paths of programs in the repository, then in other folders
    find tests/oracle/programs tests/mil/cases examples -name '*.mil' ! -name 'bad_*' 2> /dev/null | LC_ALL=C sort
    for folder in ${ORACLE_PROGRAMS:-}; do
        find "$folder" \( -name '*.mlpackage' -o -name '*.mlmodel' -o -name '*.mil' \) ! -path '*.mlpackage/*' | LC_ALL=C sort
    done
}

ask() { # options of the program; its messages go to "$work/log", whose last lines show where it died
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

# Builds a library, loaded before the C library, whose results are one step off in the last bit. Outputs that change
# with it depend on the installed C library and are not part of the record.
other_libm() { # FILE
    {
        echo '#include <dlfcn.h>
#include <math.h>
#define ONE(f, t, next) t f(t x) { t (*real)(t) = (t (*)(t))dlsym(RTLD_NEXT, #f); return next(real(x), INFINITY); }
#define TWO(f, t, next) t f(t x, t y) { t (*real)(t, t) = (t (*)(t, t))dlsym(RTLD_NEXT, #f); return next(real(x, y), INFINITY); }
#define BOTH(f, t, next) void f(t x, t *s, t *c) { void (*real)(t, t *, t *) = (void (*)(t, t *, t *))dlsym(RTLD_NEXT, #f); \
    real(x, s, c); *s = next(*s, INFINITY); *c = next(*c, INFINITY); }'
        for f in exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc cbrt lgamma tgamma; do
            echo "ONE($f, double, nextafter) ONE(${f}f, float, nextafterf)"
        done
        for f in pow atan2 hypot; do echo "TWO($f, double, nextafter) TWO(${f}f, float, nextafterf)"; done
        echo 'BOTH(sincos, double, nextafter) BOTH(sincosf, float, nextafterf)'
    } > "$work/libm.c"
    ${CC:-cc} -w -O1 -fno-builtin -D_GNU_SOURCE -shared -fPIC "$work/libm.c" -o "$1" -ldl
}

processor() {
    if [ -r /proc/cpuinfo ]; then
        awk -F ': ' '/^vendor_id/ { v = $2 } /^cpu family/ { f = $2 } /^model\t/ { m = $2 } /^model name/ { n = $2 } /^$/ { exit }
            END { print n " (" v " family " f " model " m ")" }' /proc/cpuinfo
    else
        sysctl -n machdep.cpu.brand_string
    fi
}

# Rows for kernels that this machine lacks are kept if the program's rows for the kernels that it has are unchanged.
renew() { # RECORD
    ask --record > "$work/rows"
    other_libm "$work/libm.so"
    export LD_PRELOAD="$work/libm.so"
    ask --record > "$work/others"
    unset LD_PRELOAD
    [ "$(wc -l < "$work/rows")" = "$(wc -l < "$work/others")" ] || die "two runs gave different rows"
    paste "$work/rows" "$work/others" | awk -F '\t' -v OFS='\t' '{ print $1, $2, $3, $4 == $8 ? $4 : "-" }' > "$work/new"
    grep -v '^#' "$1" > "$work/before" 2> /dev/null || : > "$work/before"
    awk -F '\t' '
        FNR == 1 { pass++ }
        pass == 1 { is[$1, $2] = $0; here[$2] = 1; program[$1] = 1; next }
        pass == 2 && (($1, $2) in is) && is[$1, $2] != $0 { changed[$1] = 1 }
        pass == 3 && !($2 in here) && ($1 in program) && !($1 in changed)
    ' "$work/new" "$work/before" "$work/before" > "$work/kept"
    {
        echo "# What tests/oracle/test_record.c compares with: of every program and set of kernels a hash of its plan and one of"
        echo "# its outputs (-: they hang on the last bit of the C library). Written by tools/oracle.sh --renew."
        echo "# Recorded on $(processor): $(cut -f2 "$work/new" | sed 's/\/bf16//' | LC_ALL=C sort -u | tr '\n' ' ')"
        [ -s "$work/kept" ] && echo "# Kept from before: $(cut -f2 "$work/kept" | sed 's/\/bf16//' | LC_ALL=C sort -u | tr '\n' ' ')"
        LC_ALL=C sort "$work/new" "$work/kept"
    } > "$work/record"
    mv "$work/record" "$1"
    echo "$1: $(wc -l < "$work/new") rows, of which $(grep -c '	-$' "$work/new" || true) leave the outputs out; $(wc -l < "$work/kept") kept"
}

ready() { # BUILD
    bin=${ORACLE_BIN:-${1:-build/release}/tests/oracle/oracle}
    [ -x "$bin" ] || die "no $bin; build it with 'make tests'"
    work=$(mktemp -d "${TMPDIR:-/tmp}/propane-oracle.XXXXXX")
    trap 'rm -rf "$work"' EXIT
}

case "${1:-}" in
--compare)
    [ $# = 3 ] || die "usage: tools/oracle.sh --compare OLD NEW"
    compare "$2" "$3"
    ;;
--renew)
    ready "${2:-}"
    [ "$(uname -s)" = Linux ] || die "--renew puts a library in front of the C library and does that on Linux only"
    renew tests/oracle/record.txt
    ;;
--* | '') die "usage: tools/oracle.sh OUT [BUILD] | --compare OLD NEW | --renew [BUILD]" ;;
*)
    ready "${2:-}"
    ask --twice --bf16 --ops > "$work/out"
    programs > "$work/list"
    ask --twice --bf16 - < "$work/list" >> "$work/out"
    mv "$work/out" "$1"
    echo "$1: $(cut -f1 "$1" | uniq | wc -l) programs, $(cut -f1,2 "$1" | uniq | wc -l) plans, $(grep -c '	output	' "$1" || true) outputs"
    ;;
esac
