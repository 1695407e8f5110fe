#!/bin/sh
# SPDX-License-Identifier: MIT
# The campaign: tests that take too long for each build. docs/reliability.md states what they show.
# Usage: tests/campaign/run.sh BUILD [PART...]     BUDGET=seconds per part (60), SEED=N
#   kill     SIGKILL in training and conversions          stop    stopped writes at any call, unsynced data lost
#   faults   failing requests for memory (make hard)      mutation  fuzz targets under ASan and UBSan (needs clang)
#   soak     memory over time: training, serving          server  clients that hold connections, flood and lie (tests/serve)
#   growth   the cost of doubling an input (needs valgrind)
#   hostile  inputs that once took minutes or gigabytes
#   surroundings  files that change while they are read, full and read-only file systems, limits (as root: all of them)
set -u
cd "$(dirname "$0")/../.." || exit 2
build=$1
shift
[ $# -gt 0 ] || set -- kill stop faults mutation soak server growth hostile surroundings
export BUDGET="${BUDGET:-60}"
failed=''
for part; do
    start=$(date +%s)
    case $part in
    kill | stop | soak) sh "tests/campaign/$part.sh" "$build" ;;
    faults) POINTS=${POINTS:-$((BUDGET / 10 + 1))} sh tests/hard/run.sh "$build" | tail -4 ;;
    mutation) command -v clang > /dev/null || command -v clang-19 > /dev/null && sh fuzz/run.sh "$((BUDGET / 15 + 1))" | tail -20 ;;
    server) sh tests/run.sh "$build" serve/ && sh tests/campaign/attack.sh "$build" ;;
    growth) python3 -E -s tests/campaign/growth.py "$build/propane" || [ $? = 77 ] ;;
    hostile | surroundings) python3 -I "tests/campaign/$part.py" "$build/propane" ;;
    *) echo "there is no part '$part'"; exit 2 ;;
    esac || failed="$failed $part"
    echo "$part: $(($(date +%s) - start)) s"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
