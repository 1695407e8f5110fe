#!/bin/sh
# SPDX-License-Identifier: MIT
# `make hard`: runs all test programs that use the harness of failing requests, then the commands, and counts the points. Then sends
# signals to long commands.
# Usage: tests/hard/run.sh BUILD     STACKS=K (2): tries K requests per chain of calls; 0 means all
#                                    SIGNALS=N: signals per command (tests/hard/signals.py)
#                                    POINTS=N, SEED=N: a sample of the commands' points
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$1
TEST_POINTS=$(mktemp "${TMPDIR:-/tmp}/propane-points.XXXXXX") || exit 2
trap 'rm -f "$TEST_POINTS"' EXIT
export TEST_POINTS
failed=0
programs=$(grep -lE '(test_each_failing_allocation|calls_try)\(' tests/*/test_*.c | sed 's/^tests\///; s/\.c$//')
# shellcheck disable=SC2086
TEST_HARD=1 TEST_STACKS=${STACKS:-2} TEST_TIMEOUT=3600 sh tests/run.sh "$build" $programs || failed=1
POINTS=${POINTS:-0} sh tests/hard/commands.sh "$build" || failed=1
if command -v python3 > /dev/null; then python3 -I tests/hard/signals.py "$build/propane" || failed=1; else echo "skipped: signals: there is no python3"; fi
awk '{ points += $NF; places += $(NF - 1); requests += $(NF - 2) }
    END { printf "%d points in all: %d requests from %d places\n", points, requests, places }' "$TEST_POINTS"
exit $failed
