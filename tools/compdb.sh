#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints compile_commands.json: tools/compdb.sh 'COMPILER FLAGS' FILE...
command=$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')
shift
dir=$(pwd)
echo '['
for file; do
    printf '%s{"directory":"%s","file":"%s","command":"%s -c %s"}\n' "$comma" "$dir" "$file" "$command" "$file"
    comma=,
done
echo ']'
