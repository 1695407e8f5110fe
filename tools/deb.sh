#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds Debian packages of the committed files in build/deb, from the archive that `make dist` makes and
# packaging/debian. Nothing is signed. JOBS: number of parallel compilers.
set -eu
cd "$(dirname "$0")/.."
version=$(make -s version)
packaged=$(sed -nE '1s/^propane \(([^-]*)-[^)]*\).*/\1/p' packaging/debian/changelog)
[ "$version" = "$packaged" ] || { echo "deb: packaging/debian/changelog is for $packaged, include/propane/status.h for $version" >&2; exit 1; }
sh tools/dist.sh "$version" > /dev/null
rm -rf build/deb
mkdir -p build/deb
cp "build/dist/propane-$version.tar.gz" "build/deb/propane_$version.orig.tar.gz"
tar -C build/deb -xzf "build/dist/propane-$version.tar.gz"
cp -r packaging/debian "build/deb/propane-$version/debian"
cd "build/deb/propane-$version"
unset CFLAGS MAKEFLAGS MFLAGS MAKELEVEL
DEB_BUILD_OPTIONS="parallel=${JOBS:-$(getconf _NPROCESSORS_ONLN)} noddebs" dpkg-buildpackage -us -uc -b
cd ..
ls ./*.deb
