#!/bin/sh
# SPDX-License-Identifier: MIT
# The machine stops at a random call that changes the disk (preload/stop_writes.c), every other time with what was not synced
# lost. Each result must then be the old one or the new one, and the same command again must end with the usual bits and leave no
# temporary file. Usage: tests/campaign/stop.sh BUILD     BUDGET=seconds SEED=N
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
shim=$build/tests/campaign/preload/stop_writes.so
[ -f "$shim" ] || { echo "stop: skipped: needs Linux"; exit 0; }
mkdir base
cp text base
(cd base && propane train $tiny --run r --steps 2 && propane train $tiny --run other --seed 9 --steps 1 && propane convert other c &&
    propane convert other c.mlpackage --stateless 4 && propane convert other c.safetensors) > log || { cat log; exit 2; }
sums() { (cd "$1" && find $2 -type f ! -name 'log.jsonl' ! -name '*.tmp-*' ! -name '.propane-run' -exec cksum {} + | sort); }

cat > rows <<END
resume|r/checkpoint.safetensors r/model.safetensors|propane train --data text --run r --resume --steps 4 --checkpoint-every 1 --threads 1 --no-report
folder|c|propane convert r c
package|c.mlpackage|propane convert r c.mlpackage --stateless 4
file|c.safetensors|propane convert r c.safetensors
END
points=0 wrong=0 round=0
while IFS='|' read -r name outputs command; do
    rm -rf at && cp -r base at
    (cd at && env STOP_COUNT=../count LD_PRELOAD="$shim" $command > ../log 2>&1) || { cat log; exit 2; }
    cp count count.$name
    sums at "$outputs" > new.$name
    sums base "$outputs" > old.$name
done < rows
while time_left && [ $round -lt "${ROUNDS:-100000}" ]; do
    round=$((round + 1))
    while IFS='|' read -r name outputs command; do
        n=$(random "$round$name" "$(cat count.$name)") lose=$((round % 2))
        rm -rf at && cp -r base at
        if [ $lose = 1 ]; then export STOP_LOSE=1; else unset STOP_LOSE; fi
        (cd at && env STOP_AT="$n" LD_PRELOAD="$shim" $command > ../log 2>&1 < /dev/null)
        code=$? bad=
        [ $code = 137 ] || bad="ended with $code"
        sums at "$outputs" > after
        case $name in
        resume) ;; # a checkpoint between the two is right, too: what counts is that it resumes
        *) cmp -s after old.$name || cmp -s after new.$name || bad='neither the old nor the new' ;;
        esac
        (cd at && $command > ../log 2>&1 < /dev/null) || bad="does not go on: $(tail -1 log)"
        sums at "$outputs" > after
        cmp -s after new.$name || bad="${bad:-other bits}"
        find at -name '*.tmp-*' -o -name '*.old-*' | grep -q . && bad="${bad:-temporary files stay}"
        points=$((points + 1))
        tally stop 1 "$([ -z "$bad" ] && echo 0 || echo 1)"
        [ -z "$bad" ] || { wrong=$((wrong + 1)); echo "    $name, call $n of $(cat count.$name), lose $lose: $bad"; }
    done < rows
done
echo "stop: $points stopped writes, $wrong wrong (SEED=$seed)"
[ $wrong = 0 ]
