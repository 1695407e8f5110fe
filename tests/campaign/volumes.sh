#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the campaign's full volumes in slices that add up over days. Each call runs one slice of at most BUDGET seconds
# of each part that is not complete yet, each time with another seed. It appends the attempts to STATE (lines of NAME
# DONE WRONG SEED) and then prints the sums.
# Usage: tests/campaign/volumes.sh BUILD [PART...]     BUDGET=60 STATE=FILE (build/volumes.txt); without a slice: PART
# 'sums'
# Attempts within one process (soak) count only if one slice completed the whole volume.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$1
shift
state=${STATE:-build/volumes.txt} # survives builds of other modes
mkdir -p "$(dirname "$state")" && touch "$state" || exit 2
CAMPAIGN_STATE=$(cd "$(dirname "$state")" && pwd)/$(basename "$state")
export CAMPAIGN_STATE
export BUDGET="${BUDGET:-60}"
# NAME | volume | counted unit | whole in one slice | command
rows='kill|1000|SIGKILLs in training||sh tests/campaign/kill.sh BUILD training
convert|200|SIGKILLs in conversions||sh tests/campaign/kill.sh BUILD conversions
stop|500|stopped writes||sh tests/campaign/stop.sh BUILD stops
errors|500|writes that fail||sh tests/campaign/stop.sh BUILD errors
training|20000|training steps in one process|whole|sh tests/campaign/soak.sh BUILD training
generations|20000|generations in one process|whole|sh tests/campaign/soak.sh BUILD generations
requests|50000|requests to one server|whole|sh tests/campaign/soak.sh BUILD requests
programs|10000|programs on every device||BUILD/tests/campaign/test_programs programs_mean_the_same_everywhere
numbers|200000|operations with numbers of all sizes on every device||BUILD/tests/campaign/test_numbers
mutated|200000|mutated files, ASan and UBSan||sh fuzz/run.sh 15'
done_of() { # prints the sum, or the largest slice, and then the number of wrong results
    awk -v name="$1" -v whole="$2" '$1 == name { if (whole == "") n += $2; else if ($2 > n) n = $2; bad += $3 } END { print n + 0, bad + 0 }' "$CAMPAIGN_STATE"
}
failed=0
IFS='
'
for row in $rows; do
    IFS='|' read -r name volume unit whole command << END
$row
END
    IFS=' '
    case " ${*:-all} " in *" $name "*) wanted=1 ;; *' all '*) wanted=1 ;; *) wanted=0 ;; esac
    sum=$(done_of "$name" "$whole")
    if [ $wanted = 1 ] && [ "${sum% *}" -lt "$volume" ]; then
        TEST_TIMEOUT=3600 PROGRAMS=$((BUDGET * 50)) NUMBERS=$((BUDGET * 500)) SEED=$(($(date +%j) * 1000 + $(wc -l < "$CAMPAIGN_STATE") % 1000)) \
            sh -c "$(echo "$command" | sed "s,BUILD,$build,")" || failed=1
        sum=$(done_of "$name" "$whole")
    fi
    echo "$name: ${sum% *} of $volume $unit, ${sum#* } wrong"
    [ "${sum#* }" = 0 ] || failed=1
done
awk '$1 == "mutated" { runs[$4] += $2 } $1 == "seconds" { spent[$4] += $2 }
    END { for (t in runs) printf "    fuzz %s: %d files, %.1f minutes\n", t, runs[t], spent[t] / 60 }' "$CAMPAIGN_STATE" | sort
exit $failed
