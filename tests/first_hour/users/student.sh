# SPDX-License-Identifier: MIT
# Compares two runs, and watches one that is still running.
step 'student: two runs beside each other' 'for r in 0.002 0.004; do propane train --data other.txt --layers 1 --width 32 --heads 2 --context 32 --steps 40 --eval-every 20 --lr $r --run lr-$r || exit 1; done
    propane compare lr-0.002 lr-0.004 | tee table && grep -q "^lr  *0.002  *0.004" table && propane compare lr-* --json | python3 -m json.tool > /dev/null' &&
    step 'student: both in one screen' 'propane watch lr-0.002 lr-0.004 --once | grep -q "^b  lr-0.004: done"' &&
    step 'student: a page of both' 'propane report lr-0.002 lr-0.004 && grep -q "id=.data" report.html' &&
    step 'student: a page of a run that goes on' 'propane train --data other.txt --layers 1 --width 32 --heads 2 --context 32 --steps 100000 --run long > log 2>&1 & pid=$!
        until_there "\"step\":9" long/log.jsonl; propane report long && grep -q "State: running" long/report.html; code=$?; kill -INT $pid; wait $pid; exit $code'
