#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks propane classes against LLVM's compiler, linker and dumper. It builds tests/data/macho/classes.m in each form
# that ld64.lld writes (absolute and relative method lists, chained fixups and binding code, arm64, arm64e, x86-64,
# fat) and compares the listing with tests/data/macho/expected. For files with binding code it also compares the
# methods with llvm-objdump's. --bless writes the committed files. Exits with 77 and the reason if LLVM 19 is missing.
set -u
cd "$(dirname "$0")/.." || exit 2
skip() { echo "$1"; exit 77; }
propane=${PROPANE:-build/release/propane}
data=tests/data/macho out=build/classes
for tool in clang-19 ld64.lld-19 llvm-objdump-19 llvm-lipo-19; do command -v $tool > /dev/null || skip "$tool is not here"; done
[ -x "$propane" ] || make -s "$propane" || exit 1
mkdir -p $out
good=0 bad=0
verdict() { # verdict NAME: depends on the status of the previous command
    if [ $? = 0 ]; then good=$((good + 1)); else bad=$((bad + 1)); echo "FAILED  $1"; fi
}
make_one() { # make_one NAME ARCH MACOS LINKER-FLAGS...
    name=$1 arch=$2 macos=$3
    shift 3
    clang-19 -target "$arch-apple-macos$macos" -fobjc-runtime=macosx-"$macos" -ffreestanding -w -Os -c $data/classes.m -o $out/t.o &&
        ld64.lld-19 -arch "$arch" -platform_version macos "$macos" "$macos" -dylib -install_name /classes -o "$out/$name.dylib" \
            $out/t.o $data/libobjc.tbd "$@" || exit 1
    $propane classes "$out/$name.dylib" | tail -n +2 > $out/got && cmp -s $out/got $data/expected
    verdict "$name: the listing differs: $(diff $out/got $data/expected | head -3)"
}
against_llvm() { # compares the selector and types of every method, in any order: llvm prints a method's name and types lines
    llvm-objdump-19 --macho --objc-meta-data "$out/$1.dylib" 2> /dev/null |
        awk '/^ *(name|types) 0x[0-9a-f]/ || /^\t+ *(name|types) /' | sed -E 's/^[ \t]*//; s/0x[0-9a-f]+ ?(\(0x[0-9a-f]+[^)]*\))? ?//' > $out/llvm
    awk '/^name/ {name = $2} /^types/ {print name, $2}' $out/llvm | sort -u > $out/llvm.methods
    sed -nE 's/^  [+-] ([^ ]+)  ([^ ]+).*/\1 \2/p' $data/expected | sort -u > $out/own.methods
    # llvm's output for protocols depends on its version: only the methods of classes and categories must all be there.
    sed -n '/^protocol/,$!p' $data/expected | sed -nE 's/^  [+-] ([^ ]+)  ([^ ]+).*/\1 \2/p' | sort -u > $out/class.methods
    [ -s $out/llvm.methods ] && [ -z "$(comm -13 $out/llvm.methods $out/class.methods)" ] && [ -z "$(comm -23 $out/llvm.methods $out/own.methods)" ]
    verdict "$1: llvm-objdump sees other methods: $(comm -3 $out/llvm.methods $out/own.methods | head -3)"
}
make_one chained_relative arm64 14.0
make_one chained_absolute arm64 14.0 -no_objc_relative_method_lists
make_one classic_absolute arm64 11.0 -no_fixup_chains -no_objc_relative_method_lists
make_one classic_relative arm64 11.0 -no_fixup_chains -objc_relative_method_lists
make_one x86_classic x86_64 10.14 -no_fixup_chains
make_one x86_chained x86_64 14.0
against_llvm classic_absolute
against_llvm classic_relative
against_llvm x86_classic
llvm-lipo-19 -create $out/x86_classic.dylib $out/chained_relative.dylib -output $out/fat.dylib || exit 1
[ "$($propane classes --images $out/fat.dylib | paste -sd' ')" = "x86_64 arm64" ] && $propane classes $out/fat.dylib | tail -n +2 | cmp -s - $data/expected
verdict "fat"
clang-19 -target arm64-apple-macos14.0 -fobjc-runtime=macosx-14.0 -ffreestanding -w -Os -c $data/engine.m -o $out/t.o &&
    ld64.lld-19 -arch arm64 -platform_version macos 14.0 14.0 -dylib -install_name /engine -o $out/engine.dylib $out/t.o $data/libobjc.tbd || exit 1
$propane classes --driver $out/engine.dylib 2> /dev/null | grep -q '^required methods: all; for ane:memory: NOT all; for ane:client: NOT all$'
verdict "engine"
if [ "${1:-}" = --bless ]; then
    for name in chained_relative chained_absolute classic_absolute x86_classic fat engine; do gzip -9nc $out/$name.dylib > $data/$name.dylib.gz; done
fi
echo "$good passed, $bad failed, 0 skipped"
[ $bad = 0 ]
