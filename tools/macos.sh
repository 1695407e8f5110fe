#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles and links libpropane and the command for arm64 macOS on another system, with warnings as errors. Nothing is
# run here: this shows that the sources need nothing that macOS lacks (tests/machoload runs the result). macOS's C
# headers and libSystem's symbol list come with the Python package ziglang (fetched, never committed); clang-19 and
# lld-19 compile and link. The libraries of the Makefile's PACKAGES are replaced by lists of the symbols that this
# system's versions export; everything else must be in libSystem. build/macos/make runs make with all of this for
# further targets. Exits with 77, and the reason on the last line, if something is not available.
set -u
cd "$(dirname "$0")/.." || exit 2
skip() { echo "$1"; exit 77; }
out=build/macos
mkdir -p $out/include
for tool in clang-19 llvm-nm-19 llvm-ar-19 dpkg-query pkg-config; do command -v $tool > /dev/null || skip "$tool is not here"; done
[ -x /usr/bin/ld64.lld-19 ] || skip "ld64.lld-19 is not here (package lld-19)"
if [ ! -d $out/venv ]; then
    python3 -m venv $out/venv > /dev/null 2>&1 || skip "python3 with venv is not here"
    $out/venv/bin/pip install -q ziglang > $out/pip.log 2>&1 || { rm -rf $out/venv; skip "the package ziglang cannot be installed"; }
fi
lib=$($out/venv/bin/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/lib/libc
headers=$lib/include/any-darwin-any
[ -d "$headers" ] || headers=$lib/include/any-macos-any
[ -f "$headers/stdio.h" ] && [ -f "$lib/darwin/libSystem.tbd" ] || skip "this ziglang has no macOS headers where they are looked for"

# Makes a system root as clang expects it.
sdk=$PWD/$out/sdk
rm -rf "$sdk"
mkdir -p "$sdk/usr/lib"
ln -s "$(cd "$headers" && pwd)" "$sdk/usr/include"
# Newer lists name only arm64e, but lld needs the plain arm64 for which we link.
sed -e 's/, *arm64e\.x1-maccatalyst//g; s/arm64e\.x1-macos/arm64-macos/g' "$lib/darwin/libSystem.tbd" > "$sdk/usr/lib/libSystem.tbd"
grep -q 'arm64-macos' "$sdk/usr/lib/libSystem.tbd" || sed -i.old 's/arm64e-macos/arm64-macos/g' "$sdk/usr/lib/libSystem.tbd"
for name in m pthread dl; do ln -s libSystem.tbd "$sdk/usr/lib/lib$name.tbd"; done

# stub LIBRARY FILE: writes a .tbd of the symbols that the file (.so or .a) defines.
stub() {
    [ -f "$2" ] || skip "$2 is not here"
    case "$2" in *.so) dynamic=-D ;; *) dynamic='' ;; esac
    symbols=$(llvm-nm-19 $dynamic --defined-only --extern-only --just-symbol-name "$2" 2> /dev/null | sed 's/@.*//' |
        grep -E '^[A-Za-z_][A-Za-z0-9_]*$' | sort -u | sed 's/^/_/' | paste -sd, | sed 's/,/, /g')
    printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos ]\ninstall-name: "%s"\nexports:\n  - targets: [ arm64-macos ]\n    symbols: [ %s ]\n...\n' \
        "/opt/homebrew/lib/lib$1.dylib" "$symbols" > "$sdk/usr/lib/lib$1.tbd"
}

# A package's headers are those installed by the system package that contains NAME.pc.
flags='' libraries='' include=$PWD/$out/include
for package in $(make -s packages) check; do
    folder=$(pkg-config --variable=pcfiledir "$package")
    owner=$(dpkg-query -S "$folder/$package.pc" 2> /dev/null | cut -d: -f1)
    [ -n "$owner" ] || skip "$package is not here"
    for header in $(dpkg-query -L "$owner" | grep '^/usr/include/.*\.h$'); do
        to=$include/$(printf '%s' "${header#/usr/include/}" | sed "s|^$(gcc -dumpmachine)/||")
        mkdir -p "$(dirname "$to")"
        cp -L "$header" "$to"
    done
    for flag in $(pkg-config --cflags-only-I "$package"); do flags="$flags -isystem $include/${flag#-I/usr/include/}"; done
    folder=$(pkg-config --variable=libdir "$package")
    if [ "$package" = check ]; then # used by the tests; a static library here
        stub check "$(ls "$folder/libcheck.a" /usr/lib/*/libcheck.a 2> /dev/null | head -1)"
        continue
    fi
    for library in $(pkg-config --libs-only-l "$package" | sed 's/-l//g'); do
        stub "$library" "$folder/lib$library.so"
        libraries="$libraries -l$library"
    done
done

cat > $out/cc <<WRAPPER
#!/bin/sh
unset LIBRARY_PATH CPATH
exec clang-19 -target arm64-apple-macos14.0 -isysroot $sdk -Wno-unused-command-line-argument \
    --ld-path=/usr/bin/ld64.lld-19 -mlinker-version=1000 "\$@"
WRAPPER
cat > $out/make <<WRAPPER
#!/bin/sh
exec make -s CC=$PWD/$out/cc WERROR=1 BUILD=$out/obj PARTS="$(make -s parts)" PKG=false PKG_CFLAGS="-isystem $include$flags" PKG_LIBS="$libraries" \
    CHECK_CFLAGS= CHECK_LIBS=-lcheck AR=llvm-ar-19 SHARED=dylib RELINK= "\$@"
WRAPPER
chmod +x $out/cc $out/make
$out/make -j"$(getconf _NPROCESSORS_ONLN)" all || exit 1
cp $out/obj/propane $out/propane
cp $out/obj/libpropane.0.dylib $out/libpropane.dylib || exit 1
file $out/propane $out/libpropane.dylib 2> /dev/null
echo "linked for arm64-apple-macos14; nothing was run"
