#!/bin/sh
# SPDX-License-Identifier: MIT
# Attacks a server with a tiny model (attack.py).
# Usage: tests/campaign/attack.sh BUILD     BUDGET=seconds CONNECTIONS=2000
set -u
# shellcheck source=tests/campaign/common.sh
. "$(dirname "$0")/common.sh"
command -v python3 > /dev/null || { echo "attack: skipped: there is no python3"; exit 0; }
propane train $tiny --run long --steps 20 > log || { cat log; exit 2; }
ulimit -n "$(ulimit -Hn)"
python3 -I "$repo/tests/campaign/attack.py" propane long "$budget" "${CONNECTIONS:-2000}"
code=$?
[ $code = 77 ] || exit $code
