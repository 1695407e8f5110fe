#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares the time model of the Neural Engine with published points: five-fold cross-validation, errors per workload,
# path and chip; then the command's predictions with the tool's. Needs Python 3 with numpy (PYTHON) and a table of
# points.
# Usage: bench/cross_validate.sh [POINTS.csv [SEED]]
set -eu
cd "$(dirname "$0")/.."
points=${1:-${PROPANE_POINTS:-../shared/ane_perf.csv}}
python=${PYTHON:-python3}
[ -f "$points" ] || { echo "cross_validate: skipped, there is no $points"; exit 0; }
"$python" -c 'import numpy' 2>/dev/null || { echo "cross_validate: skipped, $python has no numpy; set PYTHON"; exit 0; }
exec "$python" tools/fit_cost_model.py "$points" --cross-validate --seed "${2:-0}" --compare "${PROPANE:-build/release/propane}"
