#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles and links libpropane and the command for arm64 macOS on another system, warnings as errors. Nothing is run:
# this shows that the sources need nothing that macOS lacks. macOS's C headers and libSystem's symbol list come with the
# Python package ziglang (fetched, never committed); clang-19 and lld-19 do the work. The three libraries that Propane
# links are stood in for by symbol lists made from what the objects ask of them; everything else must be in libSystem.
# Exits 77 with the reason on the last line where something cannot be had.
set -u
cd "$(dirname "$0")/.." || exit 2
skip() { echo "$1"; exit 77; }
out=build/macos
mkdir -p $out/include
command -v clang-19 > /dev/null || skip "clang-19 is not here"
[ -x /usr/bin/ld64.lld-19 ] || skip "ld64.lld-19 is not here (package lld-19)"
if [ ! -d $out/venv ]; then
    python3 -m venv $out/venv > /dev/null 2>&1 || skip "python3 with venv is not here"
    $out/venv/bin/pip install -q ziglang > $out/pip.log 2>&1 || { rm -rf $out/venv; skip "the package ziglang cannot be installed"; }
fi
lib=$($out/venv/bin/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/lib/libc
headers=$lib/include/any-darwin-any
[ -d "$headers" ] || headers=$lib/include/any-macos-any
[ -f "$headers/stdio.h" ] && [ -f "$lib/darwin/libSystem.tbd" ] || skip "this ziglang has no macOS headers where they are looked for"

# A system root as clang expects it.
sdk=$out/sdk
rm -rf $sdk
mkdir -p $sdk/usr/lib
ln -s "$(cd "$headers" && pwd)" $sdk/usr/include
# Newer lists name arm64e alone; lld wants the plain arm64 that we link for.
sed -e 's/, *arm64e\.x1-maccatalyst//g; s/arm64e\.x1-macos/arm64-macos/g' "$lib/darwin/libSystem.tbd" > $sdk/usr/lib/libSystem.tbd
grep -q 'arm64-macos' $sdk/usr/lib/libSystem.tbd || sed -i.old 's/arm64e-macos/arm64-macos/g' $sdk/usr/lib/libSystem.tbd
for header in jansson.h jansson_config.h pcre2.h utf8proc.h; do
    found=$(for dir in /usr/include /usr/include/*-linux-gnu; do [ -f "$dir/$header" ] && echo "$dir/$header"; done | head -1)
    [ -n "$found" ] || skip "$header is not here"
    cp "$found" $out/include/
done

unset LIBRARY_PATH CPATH
cc="clang-19 -target arm64-apple-macos14.0 -isysroot $sdk"
make -s CC="$cc" WERROR=1 BUILD=$out/obj PKG=false PKG_CFLAGS="-I$out/include" AR=llvm-ar-19 $out/obj/libpropane.a || exit 1
for source in src/cli/*.c; do make -s CC="$cc" WERROR=1 BUILD=$out/obj PKG=false PKG_CFLAGS="-I$out/include" "$out/obj/${source%.c}.o" || exit 1; done

stub() { # stub NAME INSTALL-NAME SYMBOL-PREFIX: a .tbd with what the objects ask of the library
    symbols=$(find $out/obj/src -name '*.o' | xargs llvm-nm-19 --undefined-only --just-symbol-name | grep -E "^_$3" | sort -u | paste -sd, | sed 's/,/, /g')
    printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: "%s"\nexports:\n  - targets: [ arm64-macos ]\n    symbols: [ %s ]\n...\n' \
        "$2" "$symbols" > "$sdk/usr/lib/lib$1.tbd"
}
stub jansson /opt/homebrew/opt/jansson/lib/libjansson.4.dylib json_
stub pcre2-8 /opt/homebrew/opt/pcre2/lib/libpcre2-8.0.dylib pcre2_
stub utf8proc /opt/homebrew/opt/utf8proc/lib/libutf8proc.3.dylib utf8proc_
link="clang-19 -target arm64-apple-macos14.0 -isysroot $sdk --ld-path=/usr/bin/ld64.lld-19 -mlinker-version=1000"
# shellcheck disable=SC2046
$link $(find $out/obj/src -name '*.o') -ljansson -lpcre2-8 -lutf8proc -o $out/propane || exit 1
# shellcheck disable=SC2046
$link -dynamiclib -install_name @rpath/libpropane.dylib $(find $out/obj/src -name '*.o' -not -path '*/cli/*') -ljansson \
    -lpcre2-8 -lutf8proc -o $out/libpropane.dylib || exit 1
file $out/propane $out/libpropane.dylib 2> /dev/null
echo "linked for arm64-apple-macos14; nothing was run"
