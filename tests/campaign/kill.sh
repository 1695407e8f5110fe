#!/bin/sh
# SPDX-License-Identifier: MIT
# Sends SIGKILL at random moments: to training runs by tests/cli/kill.sh (20 kills each, with the same bits at the
# end), and to conversions that replace earlier folders and packages.
# Usage: tests/campaign/kill.sh BUILD [training|conversions]     BUDGET=seconds SEED=N
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
what=${2:-both}
kills=0 converts=0 wrong=0 round=0
propane train $tiny --run r --steps 2 > log && propane train $tiny --run other --seed 9 --steps 1 >> log || { cat log; exit 2; }
sums() { find "$1" -type f -exec cksum {} + 2> /dev/null | sort; }
for target in c c.mlpackage; do
    propane convert other $target > log && sums $target > old.$target && propane convert r $target > log && sums $target > new.$target
done
train_round() {
    (mkdir -p run && cd run && cp ../text . && sh "$repo/tests/cli/kill.sh" KILL "$seed$round") > log 2>&1
    said=$(tail -1 log)
    n=$(echo "$said" | sed -n 's/^KILL \([0-9]*\).*same bits: yes$/\1/p')
    kills=$((kills + ${n:-0}))
    [ -n "$n" ] || { wrong=$((wrong + 1)); echo "    $said"; }
    tally kill "${n:-0}" "$([ -n "$n" ] && echo 0 || echo 1)"
}

convert_round() {
    for target in c c.mlpackage; do
        for k in 1 2 3 4 5; do
            propane convert other $target > log 2>&1
            propane convert r $target > log 2>&1 &
            pid=$!
            sleep "$(awk -v s="$seed$round$k" 'BEGIN { srand(s); print rand() / 60 }')"
            kill -KILL $pid 2> /dev/null
            wait $pid 2> /dev/null
            code=$? bad=0
            sums $target > after
            cmp -s after old.$target || cmp -s after new.$target || { bad=1; echo "    $target is neither the old nor the new"; }
            [ $code != 137 ] || converts=$((converts + 1)) # otherwise it ended before the signal
            wrong=$((wrong + bad))
            tally convert $((code == 137)) $bad
        done
        propane convert r $target > log 2>&1
        ls -d $target.* 2> /dev/null | grep -q 'tmp-' && { wrong=$((wrong + 1)); echo "    $target: temporary files stay"; tally convert 0 1; }
    done
}

while time_left && [ $round -lt "${ROUNDS:-100000}" ]; do
    round=$((round + 1))
    [ "$what" = conversions ] || train_round
    [ "$what" = training ] || convert_round
done
echo "kill: $kills kills of training, $converts of conversions, $wrong wrong (SEED=$seed)"
[ $wrong = 0 ]
