# SPDX-License-Identifier: MIT
"""Runs coremltools' own tests with Propane in the place of Core ML, and compares what fails with the list of known differences
in docs/coreml-differences.md ("coremltools' own tests"). Exit 0: nothing else fails; 1: something does; 77: coremltools, torch
or propane_ml is missing.

    python tools/coremltools_suite/suite.py                         a sample of 300 by the seed of today's commit
    python tools/coremltools_suite/suite.py --tests 0 --out all.json     all of them: hours
    ... --most 0.02          another sample may meet a difference that nobody has listed yet: it is printed, two in a hundred pass
    --seed N, --areas ops,torch,milproto,compression,states, --jobs N, -k EXPRESSION
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
AREAS = {
    "ops": ["converters/mil/mil/ops/tests"],
    "torch": ["converters/mil/frontend/torch/test/test_torch_ops.py"],
    "api": ["converters/mil/frontend/torch/test/test_torch_conversion_api.py", "test/ml_program/test_utils.py"],
    "states": ["converters/mil/frontend/torch/test/test_torch_stateful_model.py"],
    "milproto": ["converters/mil/frontend/milproto/test_load.py"],
    "compression": ["test/ml_program/test_compression.py", "test/optimize/coreml",
                    "converters/mil/frontend/torch/test/test_torch_quantization_ops.py"],
}


def known():
    """Patterns of tests and why each fails, from the page's table."""
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


def run(options, base, places, results):
    environment = dict(os.environ, SUITE_SEED=options.seed, SUITE_TESTS=str(options.tests), OMP_NUM_THREADS="1",
                       PYTHONPATH=os.pathsep.join([HERE] + os.environ.get("PYTHONPATH", "").split(os.pathsep)).rstrip(":"))
    command = [sys.executable, "-m", "pytest", "-p", "propane_plugin", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", "--tb=short",
               "--rootdir", base, "-W", "ignore", "--no-header", "--continue-on-collection-errors"]
    if importlib.util.find_spec("pytest_timeout"):
        command += ["--timeout", "180"]
    if options.k:
        command += ["-k", options.k]
    with tempfile.TemporaryDirectory() as folder:
        jobs = [subprocess.Popen(command + places, cwd=folder, stdout=open(f"{results}.{i}.log", "w"), stderr=subprocess.STDOUT,
                                 env=dict(environment, SUITE_SHARD=f"{i}/{options.jobs}", SUITE_RESULTS=f"{results}.{i}"))
                for i in range(options.jobs)]
        codes = [job.wait() for job in jobs]
    rows = []
    for i in range(options.jobs):
        if os.path.exists(f"{results}.{i}"):
            with open(f"{results}.{i}", encoding="utf-8") as file:
                rows += [json.loads(line) for line in file]
    if any(code not in (0, 1, 5) for code in codes):
        with open(f"{results}.{codes.index(max(codes))}.log", encoding="utf-8") as file:
            print("".join(file.readlines()[-15:]))
    return rows, codes


def report(rows, show, most):
    list_of, failed, unknown = known(), [r for r in rows if r["outcome"] == "failed"], []
    why = collections.Counter()
    for row in failed:
        reason = next((reason for pattern, reason in list_of if matches(row["test"], pattern)), None)
        why[reason] += 1
        if reason is None:
            unknown.append(row)
    ran = [r for r in rows if r["outcome"] != "skipped"]
    predicted = sum(r["predictions"] > 0 for r in ran)
    for reason, count in why.most_common():
        print(f"{count:5}  {reason or 'NOT KNOWN'}")
    for row in unknown[:show]:
        print(f"FAILED {row['test']}\n       {row['why'][:300]}")
    good = len(ran) - len(failed)
    print(f"{good} of {len(ran)} pass ({100 * good / max(1, len(ran)):.1f} %), {predicted} of them predicted; {len(rows) - len(ran)} "
          f"skip themselves; {len(failed) - len(unknown)} fail for known reasons")
    return len(unknown) <= most * len(ran) and bool(ran)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=300)
    parser.add_argument("--seed", default=seed_of_commit())
    parser.add_argument("--areas", default=",".join(AREAS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", help="all results as JSON")
    parser.add_argument("--show", type=int, default=40)
    parser.add_argument("--most", type=float, default=0, help="part of those that run that may fail for reasons not listed")
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    for name in ("coremltools", "torch", "propane_ml", "pytest", "parameterized"):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed")
            return 77
    import numpy
    if tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 4):
        print(f"coremltools 9.0's own code fails with NumPy {numpy.__version__}: install numpy<2.4")
        return 77
    base = os.path.dirname(importlib.util.find_spec("coremltools").origin)
    places = [os.path.join(base, p) for area in options.areas.split(",") for p in AREAS[area]]
    places = [p for p in places if os.path.exists(p)]
    with tempfile.TemporaryDirectory() as folder:
        rows, codes = run(options, base, places, os.path.join(folder, "results"))
    print(f"coremltools' tests, seed {options.seed}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=0)
    return 0 if report(rows, options.show, options.most) and all(code in (0, 1, 5) for code in codes) else 1


if __name__ == "__main__":
    sys.exit(main())
