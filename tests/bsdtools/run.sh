#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs `make check`'s scripts and command cases with the tools that a Mac has. This system's tools are restricted to
# what macOS's tools accept (tests/bsdtools/tool). Tools that macOS lacks (timeout, flock, setsid, readelf, objcopy,
# ldd, nproc, realpath, sha256sum, ...) are missing. Other differences are not found: the C library, make, the shell's
# language, and tools that behave differently with the same arguments. A refusal is a failure, even if the script that
# caused it continued.
# Usage: tests/bsdtools/run.sh BUILD [NAME...]     names as in tests/run.sh (all command cases)
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$1
shift
[ $# != 0 ] || set -- cli
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-bsd.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$work/bin"

narrowed="sh sed grep egrep fgrep head tail cut sort uniq wc tr od xargs find stat date ps mktemp cp mv ln rm mkdir rmdir touch ls cat
    chmod cmp tee install readlink base64 truncate seq du df pgrep pkill expand comm paste script nm dd tar awk"
# Unchanged tools: macOS's, its command line tools, and those that brew installs for the build.
plain="bash zsh env uname id sleep kill true false test [ expr printf echo pwd hostname whoami which tty stty mkfifo chown sync time perl
    python3 curl openssl gzip gunzip bzip2 unzip zip ed file iconv less diff patch pr strings tput xxd hexdump column col rev bc
    yes getconf basename dirname nice nohup join nl fold split sum cksum tsort ulimit su sudo man groff
    git cc gcc c++ g++ clang make ar ranlib strip ld as m4 bison flex pkg-config protoc-c"
where() { # prints the file of a tool, because the shell has some built in. Skips a compiler cache, which looks for the compiler in PATH.
    (
        IFS=:
        for folder in $PATH; do
            case $folder in */ccache) continue ;; esac
            [ -x "$folder/$1" ] && [ ! -d "$folder/$1" ] && echo "$folder/$1" && break
        done
    )
}
for tool in $narrowed; do
    [ -z "$(where "$tool")" ] || ln -s "$PWD/tests/bsdtools/tool" "$work/bin/$tool"
done
for tool in $plain; do
    at=$(where "$tool")
    [ -z "$at" ] || ln -s "$at" "$work/bin/$tool"
done
at=$(python3 -c 'import sys; print(sys.executable)' 2> /dev/null) && ln -sf "$at" "$work/bin/python3" # not a wrapper that chooses one of several
BSDTOOLS_REAL=$PATH BSDTOOLS_LOG=$work/refused
export BSDTOOLS_REAL BSDTOOLS_LOG
: > "$BSDTOOLS_LOG"
failed=0

script() { # NAME COMMAND...: runs a script of the build that also runs on a Mac
    name=$1
    shift
    PATH=$work/bin "$@" > "$work/said" 2>&1 && return
    echo "FAILED  $name"
    sed 's/^/        /' "$work/said" | tail -20
    failed=1
}
script layers make -s layers BUILD="$build"
script help make -s help
script demo env STEPS=2 sh tools/demo.sh "$build/propane" README.md
script setup sh tools/setup
script pages make -s pages BUILD="$build"

PATH=$work/bin TEST_HIDDEN="/proc /dev/full" sh tests/run.sh "$build" "$@" || failed=1
if [ -s "$BSDTOOLS_LOG" ]; then
    echo
    echo "refused:"
    sed 's/^/    /' "$BSDTOOLS_LOG" | cut -c1-300
    failed=1
fi
exit $failed
