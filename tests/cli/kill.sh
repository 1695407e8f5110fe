#!/bin/sh
# SPDX-License-Identifier: MIT
# A run that is stopped 20 times by a signal, and resumed each time, ends with the same losses and the same bits.
# Usage: tests/cli/kill.sh SIGNAL SEED     (propane in the PATH; works in the current folder)
# The moment is random: a number of steps, and then up to 9 ms. Prints one line.
set -eu
signal=$1 seed=$2
train="propane train --data text --kind chars --layers 1 --width 16 --heads 2 --kv-heads 1 --context 16 --batch 2 --steps 1000
    --eval-every 200 --eval-batches 2 --checkpoint-every 5 --threads 1 --json"
losses() { grep -h '"loss"' "$@" | sed 's/,"tokens_per_s.*//' | sort -u -t: -k2n; }

rm -rf whole pieces log.*
$train --run whole > log.whole
[ -p lines ] || mkfifo lines
killed=0 round=0 resume='' code=0
while [ $killed -lt 20 ] && [ $round -lt 60 ]; do
    round=$((round + 1))
    moment=$(awk -v seed="$seed$round" 'BEGIN { srand(seed); print int(1 + 9 * rand()), rand() / 100 }')
    $train --run pieces $resume > lines &
    pid=$!
    n=0
    : > log.$round
    exec 3< lines
    while [ $n -lt "${moment% *}" ] && IFS= read -r line <&3; do
        echo "$line" >> log.$round
        n=$((n + 1))
    done
    sleep "${moment#* }"
    kill -"$signal" $pid 2> /dev/null || :
    cat <&3 >> log.$round
    exec 3<&-
    code=0
    wait $pid 2> /dev/null || code=$?
    [ $code = 0 ] && break # the run ended before the signal
    case "$signal $code" in
    "KILL 137" | "INT 130" | "TERM 130") ;;
    *) echo "round $round: exit code $code"; exit 1 ;;
    esac
    killed=$((killed + 1))
    [ -f pieces/checkpoint.safetensors ] && resume=--resume
done
[ $code = 0 ] || $train --run pieces $resume > log.last
losses log.whole > a
losses log.[0-9]* log.last 2> /dev/null > b || losses log.[0-9]* > b
same=yes
grep -v '"step":[0-9]*$' b | cmp -s a - || same='no: losses'
cmp -s whole/model.safetensors pieces/model.safetensors || same='no: model'
cmp -s whole/checkpoint.safetensors pieces/checkpoint.safetensors || same='no: checkpoint'
ls pieces | grep -q tmp && same='no: temporary files'
[ $killed -ge 20 ] && killed='20 times'
echo "$signal $killed, the same bits: $same"
