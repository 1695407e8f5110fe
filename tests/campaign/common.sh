# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034 # the scripts that source this read the variables
# The shared parts of the campaign's scripts, which source this file. Sets: build, budget (seconds), seed, work (a
# fresh folder, the current one, removed at the end), and "propane" in the PATH. tiny: the flags of a training run that
# takes milliseconds.
repo=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
budget=${BUDGET:-60} seed=${SEED:-$(date +%j)}
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-campaign.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
case ${CAMPAIGN_STATE:-/} in /*) ;; *) CAMPAIGN_STATE=$PWD/$CAMPAIGN_STATE ;; esac
mkdir "$work/bin"
ln -s "$build/propane" "$work/bin/propane"
PATH=$work/bin:$PATH
cd "$work" || exit 2
begin=$(date +%s)
tiny='--data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --eval-every 0 --threads 1 --no-report'
awk 'BEGIN { for (i = 0; i < 1500; i++) print "line", i * i % 977 }' > text
# Writes the number of attempts and of wrong results as a line of $CAMPAIGN_STATE (volumes.sh adds them up).
tally() { [ -z "${CAMPAIGN_STATE:-}" ] || echo "$1 $2 $3 $seed" >> "$CAMPAIGN_STATE"; }
time_left() { [ $(($(date +%s) - begin)) -lt "$budget" ]; }
# Prints a whole number from 1 to $2, the same for the same seed and name (mawk treats every text as the same seed, so
# srand is not used here).
random() { printf '%s %s' "$seed" "$1" | cksum | awk -v most="$2" '{ print 1 + $1 % most }'; }
