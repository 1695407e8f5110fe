#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures memory over time: in a training run with checkpoints, in one process with many prompts, and in a server with
# many requests (curl). Resident memory after a third of the volume is compared with that at the end. Each part has a
# separate volume; BUDGET (seconds) ends the training and the serving early.
# Usage: tests/campaign/soak.sh BUILD [training|generations|requests]     STEPS, PROMPTS, REQUESTS: the volumes
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
[ -r /proc/self/status ] || { echo "soak: skipped: needs /proc"; exit 0; }
what=${2:-all}
resident() { sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$1/status" 2> /dev/null; }
descriptors() { ls "/proc/$1/fd" 2> /dev/null | wc -l; }
wrong=0
compare() { # NAME BEFORE AFTER DONE UNIT
    echo "soak: $1: $2 kB after a third, $3 kB at the end, $4 $5"
    grew=0
    [ "$3" -le $(($2 + $2 / 20 + 512)) ] || { echo "    it grew"; wrong=1 grew=1; }
    tally "$1" "$4" "$grew"
}
# Follows process $1 until it ends. Records its memory after $2 of $3 lines of file $4, and the last value seen.
follow() {
    first='' last='' fds=0 now=0
    while kill -0 "$1" 2> /dev/null; do
        lines=$(wc -l < "$4") size=$(resident "$1") count=$(descriptors "$1")
        [ -n "$size" ] || break
        if [ "$lines" -ge "$2" ]; then
            [ -n "$first" ] || { first=$size fds=$count; }
            last=$size now=$count
        fi
        [ "$lines" -lt "$3" ] && time_left || { kill -TERM "$1" 2> /dev/null; break; }
        sleep 0.1
    done
    wait "$1"
    [ -n "$first" ] || { echo "    too few lines"; first=0 last=0 wrong=1; }
    [ "$now" -le $((fds + 3)) ] || { echo "    descriptors: $fds, then $now"; wrong=1; } # a checkpoint may be open
}

training() {
    steps=${STEPS:-20000}
    propane train $tiny --run soak --steps 100000000 --checkpoint-every 500 --json > steps 2> errors &
    follow $! $((steps / 3)) "$steps" steps
    compare training "$first" "$last" "$(grep -c '"loss"' steps)" steps
}

generations() {
    prompts=${PROMPTS:-20000}
    awk -v n="$prompts" 'BEGIN { for (i = 0; i < n; i++) print "line", i }' > asked
    propane generate long --prompts asked -n 8 --json --threads 1 > answers 2> errors &
    follow $! $((prompts / 3)) "$((prompts + 1))" answers
    compare generations "$first" "$last" "$(grep -c '"text"' answers)" generations
    [ "$(wc -l < answers)" -ge "$prompts" ] || { time_left && { echo "    not all were answered: $(tail -1 errors)"; wrong=1; }; }
}

requests() {
    command -v curl > /dev/null || { echo "soak: requests: skipped: there is no curl"; return; }
    wanted=${REQUESTS:-50000}
    propane serve long --port 0 --threads 1 > out 2> errors &
    pid=$!
    while ! grep -qs serving out; do kill -0 $pid || exit 1; sleep 0.05; done
    url=$(sed -n 's/.*\(http:[^ ]*\) .*/\1/p' out)/completions
    asked=0 bad=0 first=
    while [ $asked -lt "$wanted" ] && time_left; do
        curl -s --parallel --parallel-max 20 -o answer -w '%{http_code}\n' -H 'Content-Type: application/json' \
            -d '{"prompt":"line","max_tokens":2}' "$url?n=[1-500]" > codes 2> /dev/null
        asked=$((asked + $(wc -l < codes))) bad=$((bad + $(grep -vc '^200' codes)))
        [ -n "$first" ] || [ $asked -lt $((wanted / 3)) ] || first=$(resident $pid)
    done
    [ -n "$first" ] || { echo "    too few requests"; first=0 wrong=1; }
    compare requests "$first" "$(resident $pid)" "$asked" "requests, $bad not answered with 200"
    [ $bad = 0 ] || wrong=1
    kill -TERM $pid
    wait $pid
}

[ "$what" = training ] || propane train $tiny --run long --steps 20 > log || { cat log; exit 2; }
wants() { # each part has a separate time
    begin=$(date +%s)
    [ "$what" = all ] || [ "$what" = "$1" ]
}
if wants training; then training; fi
if wants generations; then generations; fi
if wants requests; then requests; fi
exit $wrong
