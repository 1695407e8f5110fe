#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on an #include that looks upward. One line a folder: what it may see besides itself.
set -u
cd "$(dirname "$0")/.." || exit 2
rules='
base:
macho: base
mil: base
chip: base mil
grad: base mil
pass: base mil chip
device: base mil pass
drivers: base mil chip pass device
model: base mil
train: base mil chip grad pass device model
infer: base mil pass device model
serve: base mil device model infer
trace: drivers
cli: base macho mil chip grad pass device drivers model train infer serve
'
bad=0
for folder in $(ls src); do
    [ -d "src/$folder" ] || continue
    line=$(printf '%s\n' "$rules" | grep "^$folder:") || { echo "layers: src/$folder has no rule"; bad=1; continue; }
    allowed=" $folder ${line#*:} "
    for hit in $(grep -rnoE '^ *#include "[a-z]+/' "src/$folder" --include='*.c' --include='*.h' --include='*.def' | tr -d ' '); do
        used=$(printf '%s' "$hit" | sed -E 's/.*"([a-z]+)\/$/\1/')
        case "$allowed" in
            *" $used "*) ;;
            *) echo "layers: ${hit%%:#*} looks upward: src/$folder may see${line#*:}, not $used"; bad=1 ;;
        esac
    done
done
# Sibling drivers see one another only through cpu (sim stands on it); list.c sees all.
for hit in $(grep -rnoE '#include "drivers/[a-z]+/' src/drivers --include='*.c' --include='*.h' | tr -d ' '); do
    file=${hit%%:*}; used=$(printf '%s' "$hit" | sed -E 's/.*drivers\/([a-z]+)\/$/\1/'); own=$(basename "$(dirname "$file")")
    case "$file" in src/drivers/list.c) continue ;; esac
    [ "$used" = "$own" ] || { [ "$own" = sim ] && [ "$used" = cpu ]; } || { echo "layers: $file looks at driver $used"; bad=1; }
done
[ $bad = 0 ] && echo "layers: every include looks downward"
exit $bad
