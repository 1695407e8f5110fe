#!/bin/sh
# SPDX-License-Identifier: MIT
# SIGKILL at random moments: training runs by tests/cli/kill.sh (20 kills each, the same bits at the end), and conversions to
# folders and packages over earlier ones. Usage: tests/campaign/kill.sh BUILD     BUDGET=seconds SEED=N
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
kills=0 converts=0 wrong=0 round=0
propane train $tiny --run r --steps 2 > log && propane train $tiny --run other --seed 9 --steps 1 >> log || { cat log; exit 2; }
sums() { find "$1" -type f -exec cksum {} + 2> /dev/null | sort; }
for target in c c.mlpackage; do
    propane convert other $target > log && sums $target > old.$target && propane convert r $target > log && sums $target > new.$target
done
while time_left && [ $round -lt "${ROUNDS:-100000}" ]; do
    round=$((round + 1))
    (mkdir -p run && cd run && cp ../text . && sh "$repo/tests/cli/kill.sh" KILL "$seed$round") > log 2>&1
    case $(tail -1 log) in "KILL 20 times, the same bits: yes") kills=$((kills + 20)) ;; *"the same bits: yes") ;; *) wrong=$((wrong + 1)); tail -1 log ;; esac
    for target in c c.mlpackage; do
        for k in 1 2 3 4 5; do
            propane convert other $target > log 2>&1
            propane convert r $target > log 2>&1 &
            pid=$!
            sleep "$(awk -v s="$seed$round$k" 'BEGIN { srand(s); print rand() / 60 }')"
            kill -KILL $pid 2> /dev/null
            wait $pid 2> /dev/null
            sums $target > after
            converts=$((converts + 1))
            cmp -s after old.$target || cmp -s after new.$target || { wrong=$((wrong + 1)); echo "    $target is neither the old nor the new"; }
        done
        propane convert r $target > log 2>&1
        ls -d $target.* 2> /dev/null | grep -q 'tmp-' && { wrong=$((wrong + 1)); echo "    $target: temporary files stay"; }
    done
done
echo "kill: $kills kills of training, $converts of conversions, $wrong wrong (SEED=$seed)"
[ $wrong = 0 ]
