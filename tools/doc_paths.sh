#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on a path in the documents, or in a comment of the sources, that does not exist in this repository. These count
# as paths: a word that begins with one of the repository's folders (or a folder of src/, which is often left out), the
# target of a link, and the name of a source file alone. A * and words in capitals (ID, NAME) match anything. The
# change log describes the past and is left out.
set -u
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-paths.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

find README.md CONTRIBUTING.md packaging docs src apps tests bench fuzz examples include tools .ci -type f | LC_ALL=C sort > "$work/files"
grep -E '\.(md|c|h|S|def|sh|proto)$' "$work/files" > "$work/documents"

awk -v top="src apps tests docs tools packaging include bench fuzz examples .ci" -v rooms="$(ls src)" '
BEGIN {
    count = split(top " " rooms, words, /[ \n]+/)
    for (i = 1; i <= count; i++) root[words[i]] = 1
    count = split(top, words, " ")
    for (i = 1; i <= count; i++) is_top[words[i]] = 1
    count = split("llama2.c llm.c runq.c ane/src/ane_drv.c stories_mil.h jpeglib.h stdio.h check.h", words, " ") # files of other projects
    for (i = 1; i <= count; i++) foreign[words[i]] = 1
}
function tell(kind, word) { if (word != "" && !((FILENAME, kind, word) in told)) { told[FILENAME, kind, word] = 1; print kind, word, FILENAME ":" FNR } }
FNR == 1 { document = FILENAME ~ /\.md$/ }
!document && !/^ *(\/\*| \*|\/\/|# )/ && !/ \/\* / { next }
{
    line = $0
    if (!document && match(line, /\/\* /)) line = substr(line, RSTART) # the comment after the code
    while (document && match(line, /\]\([^)#:]*[)#]/)) { # a link in this repository, not https:
        tell("link", substr(line, RSTART + 2, RLENGTH - 3))
        line = substr(line, 1, RSTART) " " substr(line, RSTART + RLENGTH)
    }
    gsub(/[a-z]+:\/\/[^ )>`"]*/, " ", line)
    while (match(line, /[A-Za-z0-9_.*~$<>\/{}-]+/)) {
        word = substr(line, RSTART, RLENGTH)
        line = substr(line, RSTART + RLENGTH)
        sub(/[.\/-]+$/, "", word)
        first = word
        sub(/\/.*/, "", first)
        gsub(/\*\*/, "", word) # bold
        if (word ~ /[$<>{}~]/ || word in foreign) continue
        if (!document && word !~ /\.(c|h|def|sh|S|md)$/) continue
        if (word ~ /\// && first in root && (first in is_top || word ~ /[.*]/)) tell("path", word) # train/loss is a scalar
        else if (word ~ /^[a-z0-9_*][a-z0-9_*]+\.(c|h|def|sh|S)$/) tell("name", word)
    }
}' $(cat "$work/documents") > "$work/words"

# Turns the words into patterns of find_one: capitals and * match within one name.
awk -v files="$work/files" '
BEGIN {
    while ((getline path < files) > 0) {
        all[++count] = path
        for (folder = path; sub(/\/[^\/]*$/, "", folder); ) if (!(folder in is)) { is[folder] = 1; all[++count] = folder }
        is[path] = 1
        base = path
        sub(/.*\//, "", base)
        is_base[base] = 1
    }
}
function there(word,    pattern, i) {
    if (word in is) return 1
    if (word !~ /[*A-Z]/) return 0
    pattern = word
    gsub(/\./, "[.]", pattern)
    gsub(/\*|[A-Z][A-Z]+/, "[^/]*", pattern)
    for (i = 1; i <= count; i++) if (all[i] ~ ("^" pattern "$")) return 1
    return 0
}
{
    word = $2
    folder = $3
    sub(/[^\/]*$/, "", folder)
    if ($1 == "link") {
        word = folder word
        sub(/\/$/, "", word)
        while (sub(/[^\/]+\/\.\.\//, "", word)) ;
        ok = there(word)
    } else if ($1 == "path") {
        ok = there(word) || there("src/" word) || there(folder word)
        if (!ok && word !~ /\.[a-z]+$/) ok = there(word ".c") || there(word ".h") # a program: bench/bench_gemm
    } else if (word ~ /\*/) ok = there(folder word) || there_anywhere(word)
    else ok = word in is_base
    if (!ok) { print "paths: " $3 ": there is no " $2; bad++ }
}
function there_anywhere(word,    pattern, base) {
    pattern = word
    gsub(/\./, "[.]", pattern)
    gsub(/\*/, "[^/]*", pattern)
    for (base in is_base) if (base ~ ("^" pattern "$")) return 1
    return 0
}
END {
    if (!bad) printf "paths: all %d files that documents and comments name are there\n", NR
    else print "paths: a file of another project? tools/doc_paths.sh has a list of those"
    exit bad > 0
}' "$work/words"
