#!/bin/sh
# SPDX-License-Identifier: MIT
# Puts the arm64 versions of the libraries in the Makefile's PACKAGES, and of Check, into build/arm64/root without
# installing anything: apt-get with separate lists fetches Debian's packages, and dpkg-deb unpacks them. Writes
# build/arm64/make (make for aarch64 Linux) and build/arm64/run (runs a program under qemu). Exits with 77, and the
# reason on the last line, if they are not available.
set -u
cd "$(dirname "$0")/.." || exit 2
skip() { echo "$1"; exit 77; }
out=$PWD/build/arm64
for tool in qemu-aarch64-static aarch64-linux-gnu-gcc apt-get dpkg-deb dpkg-query pkg-config; do
    command -v $tool > /dev/null || skip "$tool is not here"
done
[ -f /usr/aarch64-linux-gnu/lib/libc.so.6 ] || skip "the arm64 C library is not here (package libc6-dev-arm64-cross)"

wanted=''
for package in $(make -s packages) check; do
    owner=$(dpkg-query -S "$(pkg-config --variable=pcfiledir "$package")/$package.pc" 2> /dev/null | cut -d: -f1)
    [ -n "$owner" ] || skip "$package is not here"
    wanted="$wanted $owner"
done
if [ "$(cat "$out/wanted" 2> /dev/null)" != "$wanted" ]; then
    rm -rf "$out/root" "$out/debs"
    mkdir -p "$out/apt/lists/partial" "$out/apt/archives/partial" "$out/debs" "$out/root"
    printf 'APT::Architectures { "%s"; "arm64"; };\nDir::State::lists "%s";\nDir::Cache "%s";\nAPT::Sandbox::User "";\n' \
        "$(dpkg --print-architecture)" "$out/apt/lists" "$out/apt" > "$out/apt/conf"
    export APT_CONFIG="$out/apt/conf"
    apt-get update > "$out/apt/log" 2>&1 || skip "the lists of arm64 packages cannot be fetched: $(tail -1 "$out/apt/log")"
    named=$(for name in $wanted; do echo "$name:arm64"; done)
    # Everything they need; the C library itself is the cross compiler's.
    # shellcheck disable=SC2086
    needed=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances $named |
        grep -E '^(lib[a-z0-9.+-]*|check|zlib1g|zlib1g-dev):arm64$' | grep -vE '^(libc6|libc-|libc-dev|libgcc|libcrypt|libstdc|libnsl|libtirpc)' | sort -u)
    # shellcheck disable=SC2086
    (cd "$out/debs" && apt-get download $needed) > "$out/apt/log" 2>&1 || skip "arm64 packages cannot be fetched: $(tail -1 "$out/apt/log")"
    for deb in "$out"/debs/*.deb; do dpkg-deb -x "$deb" "$out/root" || exit 1; done
    printf '%s' "$wanted" > "$out/wanted"
fi

libraries='' flags="-I$out/root/usr/include -I$out/root/usr/include/aarch64-linux-gnu" folder=$out/root/usr/lib/aarch64-linux-gnu
for package in $(make -s packages); do
    libraries="$libraries $(pkg-config --libs-only-l "$package")"
    for flag in $(pkg-config --cflags-only-I "$package"); do flags="$flags -I$out/root${flag#-I}"; done
done
cat > "$out/make" <<WRAPPER
#!/bin/sh
unset LIBRARY_PATH CPATH
exec make -s CC="\${CCACHE:-} aarch64-linux-gnu-gcc" WERROR=1 BUILD=build/arm64/obj AR=aarch64-linux-gnu-ar OBJCOPY=aarch64-linux-gnu-objcopy PKG_CFLAGS="$flags" \
    PKG_LIBS="-L$folder -Wl,-rpath-link,$folder:$out/root/lib/aarch64-linux-gnu $libraries" CHECK_CFLAGS= CHECK_LIBS="-lcheck -lsubunit -lrt" "\$@"
WRAPPER
cat > "$out/run" <<WRAPPER
#!/bin/sh
exec qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$folder:$out/root/lib/aarch64-linux-gnu "\$@"
WRAPPER
chmod +x "$out/make" "$out/run"
