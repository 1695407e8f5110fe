# SPDX-License-Identifier: MIT
"""Runs coremltools' own tests with Propane instead of Core ML, and compares the failures with the list of known
differences in docs/coreml-differences.md ("coremltools' own tests"). Exit code 0: no other test fails; 1: some other test
fails; 77: coremltools, torch or propane_ml is missing.

    python tools/coremltools_suite/suite.py                         a sample of 300 by the seed of today's commit
    python tools/coremltools_suite/suite.py --tests 0 --minutes 60 --results all.jsonl
                                                    all of them, an hour of processor time now; the same command again continues
    ... --results all.jsonl --again                 repeats the tests that failed, after a fix
    ... --results all.jsonl --report                prints the stored results and runs nothing
    --seed N, --areas ops,torch,milproto,compression,states, --jobs N, -k EXPRESSION
    --shuffled                      in a random order from the seed: the tests run so far are a fair sample of all
    --areas tensorflow              the tests of TensorFlow's front end, in an environment with tensorflow-cpu 2.12
    --areas ops,torch,network --backend neuralnetwork
                                    the tests that convert to the older format, and those of the network builder
    --areas tabular                 scikit-learn 1.5.1 and XGBoost, converted to linear models, trees and column preparation

Tests come in rounds (propane_plugin.py): one set of parameters for every function, then a second one for each. The seed
selects them.
"""
import argparse
import collections
import fnmatch
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FRONTEND = "converters/mil/frontend/torch/test/"
AREAS = {
    "ops": ["converters/mil/mil/ops/tests"],
    "torch": [FRONTEND + "test_torch_ops.py"],
    "api": [FRONTEND + "test_torch_conversion_api.py", FRONTEND + "test_torch_export_conversion_api.py", "test/ml_program/test_utils.py"],
    "states": [FRONTEND + "test_torch_stateful_model.py"],
    "milproto": ["converters/mil/frontend/milproto/test_load.py"],
    "compression": ["test/ml_program/test_compression.py", "test/optimize/coreml",
                    FRONTEND + "test_torch_quantization_ops.py", FRONTEND + "test_torch_export_quantization.py"],
    "tensorflow": ["converters/mil/frontend/tensorflow/test", "converters/mil/frontend/tensorflow2/test"],
    "passes": ["converters/mil/mil/passes/tests", "converters/mil/mil/tests", "converters/mil/backend/mil", "converters/mil/test_inputs_outputs_shape.py"],
    "experimental": ["test/ml_program/experimental"],
    "packages": ["test/modelpackage", "test/pipeline", "test/api", "test/blob"],
    "network": ["test/neural_network", "converters/mil/backend/nn"],
    "tabular": ["test/sklearn_tests", "test/xgboost_tests"],
}
ONLY_IF_NAMED = ("tensorflow", "network", "tabular")  # TensorFlow 2.12 needs a different NumPy than torch's tests; the others test older kinds


def known():
    """Returns patterns of tests and the reason why each fails, from the page's table."""
    rows = []
    with open(os.path.join(ROOT, "docs", "coreml-differences.md"), encoding="utf-8") as file:
        part = file.read().partition("## coremltools' own tests")[2].partition("\n## ")[0]
    for line in part.splitlines():
        row = re.match(r"\| `(.+?)` \| (.+) \|$", line)
        if row:
            rows.append((row.group(1).replace("\\|", "|"), row.group(2)))
    return rows


def matches(test, pattern):
    return fnmatch.fnmatchcase(test.replace("[", "("), "*" + pattern.replace("[", "(") + "*")


def seed_of_commit():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True)
    return done.stdout.strip() or "1"


def read(path):
    """Returns the rows of a results file; if a test occurs twice, the last row counts."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return list({row["test"]: row for row in map(json.loads, file)}.values())


def write(path, rows):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    os.replace(path + ".new", path)


def died(results, now, code):
    """Called if the process ended during a test: that test failed and is not tried again."""
    with open(now, encoding="utf-8") as file:
        row = {"test": file.read(), "outcome": "failed", "predictions": 0, "seconds": 0, "why": f"the process died (exit code {code})"}
    os.unlink(now)
    with open(results, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def shard(options, command, results, i, folder):
    environment = dict(os.environ, SUITE_SEED=options.seed, SUITE_TESTS=str(options.tests), SUITE_SHARD=f"{i}/{options.jobs}",
                       SUITE_RESULTS=results, SUITE_BACKEND=options.backend, SUITE_NOW=f"{folder}/now{i}", SUITE_SHUFFLED=str(int(options.shuffled)),
                       SUITE_SECONDS=str(60 * options.minutes / options.jobs),
                       OMP_NUM_THREADS="1", PROPANE_THREADS="1", TMPDIR=folder,
                       PYTHONPATH=os.pathsep.join([HERE] + os.environ.get("PYTHONPATH", "").split(os.pathsep)).rstrip(":"))
    with open(f"{folder}/log{i}", "w", encoding="utf-8") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, env=environment)


def run(options, base, places, results):
    """Runs the tests. Returns their number, and whether pytest itself succeeded."""
    command = [sys.executable, "-m", "pytest", "-p", "propane_plugin", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--tb=short",
               "--rootdir", base, "-W", "ignore", "--no-header", "--continue-on-collection-errors"]
    if importlib.util.find_spec("pytest_timeout"):
        command += ["--timeout", "900"]
    if options.k:
        command += ["-k", options.k]
    command += places
    good, count = True, 0
    with tempfile.TemporaryDirectory() as folder:
        jobs = {i: shard(options, command, results, i, folder) for i in range(options.jobs)}
        while jobs:
            i, job = next(iter(jobs.items()))
            code, now = job.wait(), f"{folder}/now{i}"
            del jobs[i]
            if os.path.exists(now):
                died(results, now, code)
                jobs[i] = shard(options, command, results, i, folder)
            elif code not in (0, 1, 2, 5):
                good = False
                with open(f"{folder}/log{i}", encoding="utf-8") as file:
                    print("".join(file.readlines()[-15:]))
            if os.path.exists(now + ".count"):
                with open(now + ".count", encoding="utf-8") as file:
                    count = int(file.read())
    return count, good


def report(rows, show):
    list_of, failed, unknown = known(), [r for r in rows if r["outcome"] == "failed"], []
    why = collections.Counter()
    for row in failed:
        reason = next((reason for pattern, reason in list_of if matches(row["test"], pattern)), None)
        why[reason] += 1
        if reason is None:
            unknown.append(row)
    ran = [r for r in rows if r["outcome"] in ("passed", "failed")]
    lacking = sum(r["outcome"] == "missing" for r in rows)
    predicted = sum(r["predictions"] > 0 for r in ran)
    for reason, count in why.most_common():
        print(f"{count:5}  {reason or 'NOT KNOWN'}")
    for row in unknown[:show]:
        print(f"FAILED {row['test']}\n       {row['why'][:300]}")
    good = len(ran) - len(failed)
    print(f"{good} of {len(ran)} pass ({100 * good / max(1, len(ran)):.2f} %), {predicted} of them predicted; {len(rows) - len(ran) - lacking} "
          f"skip themselves; {lacking} need a missing package; {len(failed) - len(unknown)} fail for known reasons, "
          f"{sum(r['predictions'] == 0 for r in failed)} of all failures before a prediction; "
          f"{len({r['test'].split('[')[0] for r in ran})} test functions")
    return not unknown and bool(ran)


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=0, help="processor minutes of all jobs, 0: no end")
    parser.add_argument("--seed", default=seed_of_commit())
    parser.add_argument("--areas", default=",".join(a for a in AREAS if a not in ONLY_IF_NAMED))
    parser.add_argument("--backend", choices=("mlprogram", "neuralnetwork"), default="mlprogram")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", help="a file of JSON lines: what stands there is not run again, what runs is added")
    parser.add_argument("--shuffled", action="store_true", help="in random order instead of rounds")
    parser.add_argument("--again", action="store_true", help="run those of --results that failed, too")
    parser.add_argument("--report", action="store_true", help="run nothing, print the contents of --results")
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    unknown = [a for a in options.areas.split(",") if a not in AREAS]
    if unknown:
        parser.error(f"there is no area {unknown[0]}; there is: {', '.join(AREAS)}")
    if (options.again or options.report) and not options.results:
        parser.error("--again and --report need --results")
    return options


def missing(areas):
    frontends = [name for name, area in (("tensorflow", "tensorflow"), ("sklearn", "tabular"), ("xgboost", "tabular")) if area in areas]
    if any(a not in ONLY_IF_NAMED for a in areas):
        frontends.append("torch")
    for name in ("coremltools", "propane_ml", "pytest", "parameterized", *frontends):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    import numpy
    if tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 4):
        return f"coremltools 9.0's own code fails with NumPy {numpy.__version__}: install numpy<2.4"
    return None


def main():
    options = options_of()
    if options.report:
        return 0 if report(read(options.results), options.show) else 1
    lack = missing(options.areas.split(","))
    if lack:
        print(lack)
        return 77
    base = os.path.dirname(importlib.util.find_spec("coremltools").origin)
    places = [os.path.join(base, p) for area in options.areas.split(",") for p in AREAS[area]]
    places = [p for p in places if os.path.exists(p)]
    with tempfile.TemporaryDirectory() as folder:
        results = os.path.abspath(options.results or os.path.join(folder, "results"))
        if options.again:
            write(results, [row for row in read(results) if row["outcome"] != "failed"])
        count, good = run(options, base, places, results)
        rows = read(results)
    print(f"coremltools' tests, seed {options.seed}: {len(rows)} results; these areas have {count} tests of {options.backend}")
    return 0 if report(rows, options.show) and good else 1


if __name__ == "__main__":
    sys.exit(main())
