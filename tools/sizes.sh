#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on a file name in src/ or apps/ that is not unique, on a file above 600 lines and on a function above 60,
# because long ones are hard to read. Data (.def) may be long. Functions are found by the layout that .clang-format
# produces.
# Usage: tools/sizes.sh [EXCEPTIONS]   (a file with lines "size WHAT", WHAT as printed here; it may only shrink)
set -u
cd "$(dirname "$0")/.." || exit 2
find src apps -type f | LC_ALL=C sort > "${TMPDIR:-/tmp}/sizes.$$"
trap 'rm -f "${TMPDIR:-/tmp}/sizes.$$"' EXIT
awk -v exceptions="${1:-}" '
function tell(what, text) {
    if (what in allowed) { kept += allowed[what]; allowed[what] = 0 }
    else { print "sizes: " text; bad++ }
}
function file_ends() {
    if (file != "" && lines > 600) tell(file, sprintf("%s has %d lines, more than 600", file, lines))
    lines = 0
}
BEGIN { while (exceptions != "" && (getline line < exceptions) > 0) if (sub(/^size /, "", line)) allowed[line] = 1 }
FILENAME == ARGV[1] {
    base = $0
    sub(/.*\//, "", base)
    if (base == "README.md") next
    if (base in at) tell(base, sprintf("%s: %s and %s have the same name", base, at[base], $0))
    at[base] = $0
    if ($0 ~ /\.[chm]$/) ARGV[ARGC++] = $0
    next
}
FNR == 1 { file_ends(); file = FILENAME; files++; open = 0 }
{ lines = FNR }
/^[A-Za-z_]/ && !open { head = FNR; title = $0 }
/\) \{$/ && !open && /^[A-Za-z_ ]/ && head { open = 1 }
/^}/ {
    if (open && FNR - head + 1 > 60) {
        sub(/\(.*/, "", title)
        sub(/.*[ *]/, "", title)
        base = file
        sub(/.*\//, "", base)
        tell(base ":" title, sprintf("%s:%s at %s:%d has %d lines, more than 60", base, title, file, head, FNR - head + 1))
    }
    functions += open
    open = head = 0
}
END {
    file_ends()
    for (what in allowed) if (allowed[what]) { printf "sizes: fits now, remove it from %s: %s\n", exceptions, what; bad++ }
    if (!bad) printf "sizes: %d files and %d functions, %s\n", files, functions, kept ? kept " exceptions, all listed in " exceptions : "all fit, every name is unique"
    exit bad > 0
}' "${TMPDIR:-/tmp}/sizes.$$"
