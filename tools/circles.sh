#!/bin/sh
# SPDX-License-Identifier: MIT
# Lists circles of files in src/ and apps/: sets of files in which each needs every other one, so that none can be
# read, tested or moved separately. A .c and its .h are one file here. A needs B if A's code calls a function or uses
# data that B defines (read from the object files), or if A's header includes B's. Tables of function pointers are not
# calls: through them a lower file reaches a higher one (a driver, an operation's row) without needing it.
# Usage: tools/circles.sh BUILD [EXCEPTIONS]   (BUILD has the objects)
# EXCEPTIONS: a file with lines "circle FILE FILE...": circles of only these files are still allowed. It may only
# shrink: a line without a circle is an error. Exits with 1 if there is a circle that is not allowed, 2 if there are no
# objects.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-build/release} exceptions=${2:-}
command -v objdump > /dev/null 2>&1 || { echo "circles: skipped: this system has no objdump"; exit 0; }
objects=$(find "$build/src" "$build/apps" -name '*.o' 2> /dev/null | while IFS= read -r object; do # without those of deleted files
    source=${object#"$build/"}
    [ -f "${source%.o}.c" ] && echo "$object"
done)
[ -n "$objects" ] || { echo "circles: no objects in $build: run make first"; exit 2; }

{
    find src apps -name '*.[ch]' | sed 's/^/file /'
    find src apps -name '*.h' | xargs grep -noE '^ *# *include *"[^"]+\.h"' /dev/null | sed -E 's/^([^:]+):[0-9]+:.*"([^"]+)"$/include \1 \2/'
    nm -A -P -g $objects 2> /dev/null | sed -E "s#^$build/((src|apps)/[^:]+)\.o: #symbol \1.c #"
    for object in $objects; do echo "object ${object#"$build/"}"; objdump -r "$object"; done
} | LC_ALL=C awk -v exceptions="$exceptions" '
function name(path) { sub(/^src\//, "", path); sub(/\.[a-z]+$/, "", path); return path }
function tie(from, to, why) {
    if (from == to || ((from, to, why) in seen)) return
    seen[from, to, why] = 1
    if (!((from, to) in ties)) { out[from, ++outs[from]] = to; in_[to, ++ins[to]] = from }
    ties[from, to]++
    if (ties[from, to] <= 8) reasons[from, to] = reasons[from, to] (reasons[from, to] == "" ? "" : ", ") why
}
function forward(node,    k) {
    visited[node] = 1
    for (k = 1; k <= outs[node]; k++) if (!visited[out[node, k]]) forward(out[node, k])
    order[++ordered] = node
}
function backward(node, circle,    k) {
    circle_of[node] = circle
    size[circle]++
    for (k = 1; k <= ins[node]; k++) if (!circle_of[in_[node, k]]) backward(in_[node, k], circle)
}
function sort(words, count,    i, j, word) {
    for (i = 2; i <= count; i++) {
        word = words[i]
        for (j = i - 1; j >= 1 && words[j] > word; j--) words[j + 1] = words[j]
        words[j + 1] = word
    }
}
$1 == "file" { path[$2] = 1; if (!(name($2) in known)) { known[name($2)] = 1; nodes[++node_count] = name($2) } }
$1 == "include" { include_from[++includes] = $2; include_what[includes] = $3 }
$1 == "symbol" && $4 ~ /^[TDBRGSVWC]$/ { if (!($3 in definer)) definer[$3] = name($2) }
$1 == "symbol" && $4 ~ /^[Uwv]$/ { asked[name($2), $3] = 1 }
$1 == "object" { user = name($2) }
/^RELOCATION RECORDS FOR/ { in_code = $0 ~ /\[(\.text|__text)/ }
NF == 3 && in_code && $2 ~ /_/ {
    symbol = $3
    sub(/[-+@].*/, "", symbol)
    if ((user, symbol) in asked) { uses++; use_from[uses] = user; use_what[uses] = symbol }
}
END {
    for (i = 1; i <= includes; i++) {
        folder = include_from[i]
        sub(/[^\/]*$/, "", folder)
        what = (folder include_what[i]) in path ? folder include_what[i] : include_what[i] ~ /^apps\// ? include_what[i] : "src/" include_what[i]
        if (what in path) tie(name(include_from[i]), name(what), "its header includes " include_what[i])
    }
    for (i = 1; i <= uses; i++) if (use_what[i] in definer) tie(use_from[i], definer[use_what[i]], use_what[i])
    for (i = 1; i <= node_count; i++) if (!visited[nodes[i]]) forward(nodes[i])
    for (i = ordered; i >= 1; i--) if (!circle_of[order[i]]) backward(order[i], ++circles)
    while (exceptions != "" && (getline line < exceptions) > 0) if (sub(/^circle /, "", line)) allowed[line] = " " line " "
    for (circle = 1; circle <= circles; circle++) {
        if (size[circle] < 2) continue
        count = lines = 0
        for (i = 1; i <= node_count; i++) if (circle_of[nodes[i]] == circle) member[++count] = nodes[i]
        sort(member, count)
        key = member[1]
        for (i = 2; i <= count; i++) key = key " " member[i]
        i = 0
        for (line in allowed) {
            for (i = 1; i <= count && index(allowed[line], " " member[i] " "); i++) ;
            if (i > count) break
        }
        if (i > count) { used[line] = 1; kept++; continue }
        bad++
        printf "circle of %d files: %s\n", count, key
        for (i = 1; i <= count; i++)
            for (k = 1; k <= outs[member[i]]; k++) {
                to = out[member[i], k]
                if (circle_of[to] != circle) continue
                n = ties[member[i], to]
                more = n > 8 ? sprintf(" and %d more", n - 8) : ""
                edge[++lines] = sprintf("%04d    %s -> %s: %s%s", n, member[i], to, reasons[member[i], to], more)
            }
        sort(edge, lines) # the thinnest connections first, because they are the ones to cut
        for (i = 1; i <= lines; i++) print substr(edge[i], 5)
    }
    for (line in allowed) if (!(line in used)) { printf "circles: no circle any more, remove it from %s: %s\n", exceptions, line; bad++ }
    if (!bad) printf "circles: %d files, %s\n", node_count, kept ? kept " circles, all listed in " exceptions : "none in a circle"
    exit bad > 0
}'
