#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests the Python package of this clone: installs it into an environment in build/python, and runs its tests, its examples
# and mypy. The cross-checks share the environment. PyTorch and coremltools are used if they are installed.
# Exits with 77 and the reason if Python is missing or nothing can be installed.
set -u
cd "$(dirname "$0")/.." || exit 2
python=${PACKAGE_PYTHON:-build/python/bin/python}
if ! [ -x "$python" ]; then
    command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
    python3 -m venv build/python > build/python.log 2>&1 || { echo "python3 -m venv: $(tail -1 build/python.log)"; exit 77; }
    python=build/python/bin/python
fi
python=$(cd "$(dirname "$python")" && pwd)/$(basename "$python")
timeout 300 "$python" -m pip install -q --disable-pip-version-check cffi numpy pytest mypy nbclient ipykernel > build/python.log 2>&1 ||
    { echo "cffi, numpy, pytest, mypy and nbclient cannot be installed here: $(tail -1 build/python.log)"; exit 77; }
make -s -j"$(getconf _NPROCESSORS_ONLN)" WERROR=1 build/release/libpropane.a || exit 1
PROPANE_BUILD=$PWD/build/release timeout 300 "$python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps ./python > build/python.log 2>&1 ||
    { tail -20 build/python.log; echo "pip install ./python failed"; exit 1; }
# Runs in a folder without the sources, so that the installed package is tested.
mkdir -p build/python-check && cd build/python-check || exit 2
source=../../python log=../python.log
failed=0
"$python" -m pytest -c $source/pytest.ini --rootdir $source -rs $source/tests || failed=1
for example in $source/examples/*.py; do
    name=$(basename "$example")
    "$python" "$example" > $log 2>&1
    case $? in
    0) echo "ok      $name: $(tail -1 $log)" ;;
    77) echo "skipped: $name: $(tail -1 $log)" ;;
    *) tail -20 $log; echo "FAILED  $name"; failed=1 ;;
    esac
done
"$python" $source/notebooks.py --check || failed=1
"$python" $source/notebooks.py --run || failed=1
"$python" -m mypy --config-file $source/pyproject.toml --no-error-summary -p propane_ml || failed=1
"$python" -m mypy --config-file $source/pyproject.toml --no-error-summary $source/examples/*.py $source/examples/notebooks/*.py || failed=1
"$python" -m mypy.stubtest --mypy-config-file $source/pyproject.toml propane_ml --ignore-missing-stub --allowlist $source/stubtest.txt --ignore-unused-allowlist || failed=1
[ $failed = 0 ]
