#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on a file name in src/ that is not unique, on a file above 600 lines and on a function above 60: what does not fit a
# screen is not read. Data (.def) may be long. Functions are found by the layout that .clang-format gives.
set -u
cd "$(dirname "$0")/.." || exit 2
find src -type f | LC_ALL=C sort > "${TMPDIR:-/tmp}/sizes.$$"
trap 'rm -f "${TMPDIR:-/tmp}/sizes.$$"' EXIT
awk '
function file_ends() {
    if (file != "" && lines > 600) { printf "sizes: %s has %d lines, more than 600\n", file, lines; bad++ }
    lines = 0
}
FILENAME == ARGV[1] {
    base = $0
    sub(/.*\//, "", base)
    if (base == "README.md") next
    if (base in at) { printf "sizes: %s and %s have the same name\n", at[base], $0; bad++ }
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
        printf "sizes: %s:%d: %s has %d lines, more than 60\n", file, head, title, FNR - head + 1
        bad++
    }
    functions += open
    open = head = 0
}
END {
    file_ends()
    if (!bad) printf "sizes: %d files and %d functions fit, every name is unique\n", files, functions
    exit bad > 0
}' "${TMPDIR:-/tmp}/sizes.$$"
