#!/bin/sh
# SPDX-License-Identifier: MIT
# Stops the machine at a random call that changes the disk (preload/stop_writes.c). In turn, everything written is
# kept; unsynced file contents are lost; unsynced changes of folders are undone; both; only the last changes are
# undone; random changes are undone; and random changes are undone with zeros for contents. Alternatively that call
# fails, alone or with all later writes: a full disk, a quota, an input or output error, a read-only file system, a
# mount that has gone. The command must then report it. Each result must be the old one or the new one. The same
# command again must end with the usual bits and leave no temporary file.
# Usage: tests/campaign/stop.sh BUILD [stops|errors]     BUDGET=seconds SEED=N
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
points=0 wrong=0 round=0 failures=0
errors='28 122 5 30 116' # ENOSPC, EDQUOT, EIO, EROFS, ESTALE (a mount that has gone)
while IFS='|' read -r name outputs command; do
    rm -rf at && cp -r base at
    (cd at && env STOP_COUNT=../count LD_PRELOAD="$shim" $command > ../log 2>&1) || { cat log; exit 2; }
    cp count count.$name
    sums at "$outputs" > new.$name
    sums base "$outputs" > old.$name
done < rows
# Compares the results after a stop or an error, and after the same command again; sets bad.
look() {
    sums at "$outputs" > after
    case $name in
    resume) ;; # a checkpoint in between is also correct if the run resumes from it
    *) cmp -s after old.$name || cmp -s after new.$name || bad="${bad:-neither the old nor the new}" ;;
    esac
    (cd at && $command > ../log 2>&1 < /dev/null) || bad="${bad:-does not go on: $(tail -1 log)}"
    sums at "$outputs" > after
    cmp -s after new.$name || bad="${bad:-other bits}"
    find at -name '*.tmp-*' -o -name '*.old-*' | grep -q . && bad="${bad:-temporary files stay}"
    [ -z "$bad" ] || { wrong=$((wrong + 1)); echo "    $name, call $n of $(cat count.$name), $how: $bad"; }
}

stopped() {
    bad='' how='nothing lost'
    rm -rf at kept && cp -r base at
    unset STOP_LOSE STOP_UNDO STOP_UNDO_LAST STOP_UNDO_SEED
    case $((round % 6)) in
    1 | 3) export STOP_LOSE=1; how='unsynced contents lost' ;;
    5) export STOP_LOSE=2; how='unsynced contents are zeros' ;;
    esac
    case $((round % 6)) in 2 | 3 | 4 | 5) mkdir kept; export STOP_UNDO="$work/kept"; how="$how, unsynced names undone" ;; esac
    case $((round % 6)) in
    3) STOP_UNDO_LAST=$(random "$n$round" 4); export STOP_UNDO_LAST; how="$how: the last $STOP_UNDO_LAST" ;;
    4 | 5) STOP_UNDO_SEED=$(random "$n$round" 1000000); export STOP_UNDO_SEED; how="$how: any of them, drawn by $STOP_UNDO_SEED" ;;
    esac
    (cd at && env STOP_AT="$n" LD_PRELOAD="$shim" $command > ../log 2>&1 < /dev/null)
    code=$?
    [ $code = 137 ] || bad="ended with $code"
    look
    points=$((points + 1))
    tally stop 1 "$([ -z "$bad" ] && echo 0 || echo 1)"
}

failed() { # sets the error for the round; every other time all later calls fail too
    unset STOP_LOSE STOP_UNDO STOP_UNDO_LAST STOP_UNDO_SEED
    error=$(echo $errors | cut -d' ' -f$((round % 5 + 1))) bad=''
    how="error $error"
    if [ $((round / 5 % 2)) = 1 ]; then export STOP_ON=1; how="$how and all after it"; else unset STOP_ON; fi
    rm -rf at && cp -r base at
    (cd at && env STOP_AT="$n" STOP_ERROR="$error" LD_PRELOAD="$shim" $command > ../log 2>&1 < /dev/null)
    code=$?
    case $code in
    0) sums at "$outputs" > after; cmp -s after new.$name || bad='success with another result' ;;
    1 | 2) grep -qiE 'space|quota|input/output|read-only|stale' log || bad="the reason is not told: $(tail -1 log)" ;;
    *) bad="ended with $code" ;;
    esac
    look
    failures=$((failures + 1))
    tally errors 1 "$([ -z "$bad" ] && echo 0 || echo 1)"
}

while time_left && [ $round -lt "${ROUNDS:-100000}" ]; do
    round=$((round + 1))
    while IFS='|' read -r name outputs command; do
        n=$(random "$round$name" "$(cat count.$name)")
        case ${2:-both} in stops) stopped ;; errors) failed ;; *) stopped; failed ;; esac
    done < rows
done
echo "stop: $points stopped writes, $failures failed calls, $wrong wrong (SEED=$seed)"
[ $wrong = 0 ]
