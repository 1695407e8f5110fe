#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes a release: build/dist/propane-VERSION.tar.gz of the files committed at HEAD, propane-VERSION.changes.md with
# its section of the changelog, and the Homebrew formula (RELEASE_URL: the archive's future address). The same commit
# gives the same bytes: names are sorted, and times and owners are fixed (the commit's time, nobody).
# Usage: tools/dist.sh VERSION
set -eu
cd "$(dirname "$0")/.."
name=propane-$1
git rev-parse HEAD > /dev/null 2>&1 || { echo "dist: this is no git clone; a release is made of a commit" >&2; exit 1; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "dist: changes that are not committed are left out" >&2
out=build/dist
mkdir -p "$out"
rm -rf "${out:?}/$name" "$out/$name.tar.gz"
git archive --format=tar --prefix="$name/" HEAD | tar -x -C "$out"
# Prints the section named by the version; before a release, the first one.
section() { awk -v name="$1" '/^## / {on = name == "" ? !seen++ : index($0 " ", " " name " ")} on' CHANGELOG.md; }
section "$1" > "$out/$name.changes.md"
[ -s "$out/$name.changes.md" ] || section '' > "$out/$name.changes.md"
[ -s "$out/$name.changes.md" ] || { echo "dist: CHANGELOG.md has no section" >&2; exit 1; }
tar --version 2> /dev/null | grep -q GNU || { echo "dist: GNU tar is needed for the same bytes each time" >&2; exit 1; }
tar -C "$out" --sort=name --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --format=ustar -cf - "$name" |
    gzip -9n > "$out/$name.tar.gz.part"
mv "$out/$name.tar.gz.part" "$out/$name.tar.gz"
rm -rf "${out:?}/$name"
sum=$(sha256sum "$out/$name.tar.gz" | cut -d' ' -f1)
url=${RELEASE_URL:-file://$PWD/$out/$name.tar.gz}
sed -E "s|^  url .*|  url \"$url\"|; s|^  sha256 .*|  sha256 \"$sum\"|" packaging/homebrew/propane.rb > "$out/propane.rb"
echo "$out/$name.tar.gz"
echo "$out/$name.changes.md"
