#!/bin/sh
# SPDX-License-Identifier: MIT
# The demonstration: tools/demo.sh PROPANE [TEXT]. Trains a model of about two million parameters on this repository's
# source and documents (or on TEXT), shows the falling loss and the mark that it should reach, and generates text.
set -eu
cd "$(dirname "$0")/.."
propane=$1
text=${2:-}
out=build/demo
mkdir -p "$out"
if [ -z "$text" ]; then
    text=$out/text.txt
    find src apps include docs tests tools examples README.md CONTRIBUTING.md -name '*.[ch]' -o -name '*.md' -o -name '*.def' -o -name '*.sh' |
        LC_ALL=C sort | xargs cat > "$text"
    what="this repository's own source and documents"
else
    [ -r "$text" ] || { echo "demo: $text cannot be read; give a text with TEXT=FILE" >&2; exit 1; }
    what=$text
fi
rm -rf "$out/run"
echo "Training on $what ($(($(wc -c < "$text") / 1000)) KB)."
"$propane" train --data "$text" --run "$out/run" --vocab 1024 --layers 4 --width 192 --heads 6 --context 128 --batch 8 \
    --steps "${STEPS:-600}" --lr 3e-3 --min-lr 1e-4 --warmup 30 --eval-every 125 --held-out 0.1
printf '\nIt writes, after the words "static propane_status ":\n\n'
"$propane" generate "$out/run" --prompt 'static propane_status ' --count 150 --seed 1
printf '\nMore:  %s generate %s --prompt "..."      %s train --help\n' "$propane" "$out/run" "$propane"
