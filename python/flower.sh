#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests examples/flower as people run it, in a separate environment (build/flower): python/flower_check.py, and the tests of
# propane_ml.flower, which "secure" alone leaves out. Exits with 77 and the reason if flwr cannot be installed. Arguments: parts
# of flower_check.py (default: all).
set -u
cd "$(dirname "$0")/.." || exit 2
python=build/flower/bin/python
for tool in openssl ssh-keygen; do
    command -v "$tool" > /dev/null || { echo "$tool is not here"; exit 77; }
done
if ! [ -x "$python" ]; then
    command -v python3 > /dev/null || { echo "python3 is not here"; exit 77; }
    python3 -m venv build/flower > build/flower.log 2>&1 || { echo "python3 -m venv: $(tail -1 build/flower.log)"; exit 77; }
fi
case " $* " in
*" simulation "* | "  ") flwr="flwr[simulation]>=1.41" ;; # only simulated clients need Ray, which is large
*) flwr="flwr>=1.41" ;;
esac
timeout 300 "$python" -m pip install -q --disable-pip-version-check "$flwr" cffi pytest > build/flower.log 2>&1 ||
    timeout 300 "$python" -m pip install -q --disable-pip-version-check "flwr>=1.41" cffi pytest > build/flower.log 2>&1 ||
    { echo "flwr does not install here: $(tail -1 build/flower.log)"; exit 77; }
make -s -j"$(getconf _NPROCESSORS_ONLN)" WERROR=1 build/release/libpropane.a || exit 1
PROPANE_BUILD=$PWD/build/release timeout 300 "$python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps ./python > build/flower.log 2>&1 ||
    { tail -20 build/flower.log; echo "pip install ./python failed"; exit 1; }
mkdir -p build/flower-check && cd build/flower-check || exit 2
here=$PWD
[ "$*" = secure ] || ../flower/bin/python -m pytest -q -c ../../python/pytest.ini --rootdir ../../python -rs ../../python/tests/test_flower.py || exit 1
exec ../flower/bin/python -I ../../python/flower_check.py ../../examples/flower "$here/work" "$@"
