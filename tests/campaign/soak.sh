#!/bin/sh
# SPDX-License-Identifier: MIT
# Memory over time: a long training run with checkpoints, and a server that is asked again and again (curl). What is resident
# after a third of the time is compared with the end. Usage: tests/campaign/soak.sh BUILD     BUDGET=seconds
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
[ -r /proc/self/status ] || { echo "soak: skipped: needs /proc"; exit 0; }
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status"; }
descriptors() { ls "/proc/$1/fd" | wc -l; }
wrong=0
compare() { # NAME BEFORE AFTER UNIT-OF-WORK
    echo "soak: $1: $2 kB after a third, $3 kB at the end, $4"
    [ "$3" -le $(($2 + $2 / 20 + 512)) ] || { echo "    it grew"; wrong=1; }
}
propane train $tiny --run long --steps 100000000 --checkpoint-every 500 --json > steps 2> errors &
pid=$!
sleep $((budget / 6))
first=$(resident $pid) fds=$(descriptors $pid)
sleep $((budget / 3))
last=$(resident $pid)
now=$(descriptors $pid)
[ "$now" -le $((fds + 3)) ] || { echo "    descriptors: $fds, then $now"; wrong=1; } # a checkpoint may be open
kill -TERM $pid
wait $pid
compare training "$first" "$last" "$(grep -c '"loss"' steps) steps"
if command -v curl > /dev/null; then
    propane serve long --port 0 > out 2> errors &
    pid=$!
    while ! grep -qs serving out; do kill -0 $pid || exit 1; sleep 0.05; done
    url=$(sed -n 's/.*\(http:[^ ]*\) .*/\1/p' out)/completions
    begin=$(date +%s) asked=0 bad=0 first=
    while [ $(($(date +%s) - begin)) -lt $((budget / 2)) ]; do
        curl -s --parallel --parallel-max 20 -o answer -w '%{http_code}\n' -H 'Content-Type: application/json' \
            -d '{"prompt":"line","max_tokens":4}' "$url?n=[1-100]" > codes 2> /dev/null
        asked=$((asked + $(wc -l < codes))) bad=$((bad + $(grep -vc '^200' codes)))
        [ -n "$first" ] || [ $(($(date +%s) - begin)) -lt $((budget / 6)) ] || first=$(resident $pid)
    done
    compare serving "${first:-$(resident $pid)}" "$(resident $pid)" "$asked requests, $bad not answered with 200"
    [ $bad = 0 ] || wrong=1
    kill -TERM $pid
    wait $pid
else
    echo "soak: serving: skipped: there is no curl"
fi
exit $wrong
