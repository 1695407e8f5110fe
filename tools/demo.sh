#!/bin/sh
# SPDX-License-Identifier: MIT
# The demonstration: tools/demo.sh PROPANE [TEXT]. Trains a model of about two million parameters on this repository's own
# source and documents (or on TEXT), shows the loss falling and the target that it must reach, and lets it write.
set -eu
cd "$(dirname "$0")/.."
propane=$1
text=${2:-}
out=build/demo
mkdir -p "$out"
if [ -z "$text" ]; then
    text=$out/text.txt
    git ls-files -z 2>/dev/null | grep -zE '\.(c|h|def|md|sh|mil)$' | xargs -0 cat > "$text" ||
        find src include docs tests tools examples -name '*.[ch]' -o -name '*.md' | sort | xargs cat > "$text"
fi
