#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles and links libpropane and the command for arm64 macOS on another system, warnings as errors. Nothing is run:
# this shows that the sources need nothing that macOS lacks. macOS's C headers and libSystem's symbol list come with the
# Python package ziglang (fetched, never committed); clang-19 and lld-19 do the work. The libraries of the
# Makefile's PACKAGES are stood in for by symbol lists made from what the objects ask of them; everything else must be in
# libSystem.
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
# The headers of the libraries in the Makefile's PACKAGES: what the system package that holds NAME.pc installs.
command -v dpkg-query > /dev/null || skip "dpkg-query is not here: the libraries' headers cannot be told from the system's"
packages=$(make -s packages)
for package in $packages; do
    pc=$(pkg-config --variable=pcfiledir "$package")/$package.pc
    owner=$(dpkg-query -S "$pc" 2> /dev/null | cut -d: -f1)
    [ -n "$owner" ] || skip "$package is not here"
    for header in $(dpkg-query -L "$owner" | grep '^/usr/include/.*\.h$'); do
        to=$out/include/$(printf '%s' "${header#/usr/include/}" | sed "s|^$(gcc -dumpmachine)/||")
        mkdir -p "$(dirname "$to")"
        cp -L "$header" "$to"
    done
done
flags="-I$out/include"
for package in $packages; do # folders below the include folder that a library wants to be looked in
    for flag in $(pkg-config --cflags-only-I "$package"); do flags="$flags -I$out/include/${flag#-I/usr/include/}"; done
done

unset LIBRARY_PATH CPATH
cc="clang-19 -target arm64-apple-macos14.0 -isysroot $sdk"
objects=$(for source in src/cli/*.c; do echo "$out/obj/${source%.c}.o"; done)
# shellcheck disable=SC2086
make -s -j"$(getconf _NPROCESSORS_ONLN)" CC="$cc" WERROR=1 BUILD=$out/obj PKG=false PKG_CFLAGS="$flags" AR=llvm-ar-19 \
    $out/obj/libpropane.a $objects || exit 1

# stub PACKAGE: a .tbd for each of its libraries with what the objects ask of it and the library here has.
find $out/obj/src -name '*.o' | xargs llvm-nm-19 --undefined-only --just-symbol-name | sed -n 's/^_//p' | sort -u > $out/asked
libraries=''
for package in $packages; do
    for library in $(pkg-config --libs-only-l "$package" | sed 's/-l//g'); do
        file=$(pkg-config --variable=libdir "$package")/lib$library.so
        [ -f "$file" ] || skip "$file is not here"
        symbols=$(llvm-nm-19 -D --defined-only --just-symbol-name "$file" | sed 's/@.*//' | sort -u | comm -12 - $out/asked |
            sed 's/^/_/' | paste -sd, | sed 's/,/, /g')
        printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: "%s"\nexports:\n  - targets: [ arm64-macos ]\n    symbols: [ %s ]\n...\n' \
            "/opt/homebrew/lib/lib$library.dylib" "$symbols" > "$sdk/usr/lib/lib$library.tbd"
        libraries="$libraries -l$library"
    done
done
link="clang-19 -target arm64-apple-macos14.0 -isysroot $sdk --ld-path=/usr/bin/ld64.lld-19 -mlinker-version=1000"
# shellcheck disable=SC2046,SC2086
$link $(find $out/obj/src -name '*.o') $libraries -o $out/propane || exit 1
# shellcheck disable=SC2046,SC2086
$link -dynamiclib -install_name @rpath/libpropane.dylib $(find $out/obj/src -name '*.o' -not -path '*/cli/*') $libraries \
    -o $out/libpropane.dylib || exit 1
file $out/propane $out/libpropane.dylib 2> /dev/null
echo "linked for arm64-apple-macos14; nothing was run"
