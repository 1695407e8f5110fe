#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs shellcheck over every script of the tree, including notes; .shellcheckrc explains the exceptions. Exits with 77
# if there is no shellcheck.
set -u
cd "$(dirname "$0")/.." || exit 2
command -v shellcheck > /dev/null || { echo "shellcheck is not here"; exit 77; }
git ls-files | while IFS= read -r file; do
    case "$(head -c 20 "$file" 2> /dev/null | tr -d '\0' | head -1)" in '#!'*sh*) echo "$file" ;; esac
done > "${TMPDIR:-/tmp}/scripts.$$"
trap 'rm -f "${TMPDIR:-/tmp}/scripts.$$"' EXIT
xargs shellcheck -x < "${TMPDIR:-/tmp}/scripts.$$" || exit 1
echo "shellcheck: $(wc -l < "${TMPDIR:-/tmp}/scripts.$$") scripts"
