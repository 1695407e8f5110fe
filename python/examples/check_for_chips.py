# SPDX-License-Identifier: MIT
"""Prints which known rules of the Neural Engines a program violates, and its estimated cost there. Runs on any machine.

    python check_for_chips.py [Model.mlpackage]
"""
import sys

import propane_ml as propane

EXAMPLE = """program(1.3)
{
func main<ios16>(tensor<fp16, [1, 64, 1, 512]> x) {
    tensor<int32, [2]> axes = const()[name = string("axes"), val = tensor<int32, [2]>([2, 3])];
    bool keep = const()[name = string("keep"), val = bool(true)];
    tensor<fp16, [1, 64, 1, 512]> y = gelu(x = x, mode = string("EXACT"))[name = string("y")];
    tensor<fp16, [1, 64, 1, 1]> mean = reduce_mean(x = y, axes = axes, keep_dims = keep)[name = string("mean")];
} -> (mean);
}
"""


def main() -> int:
    program = propane.load(sys.argv[1]) if len(sys.argv) > 1 else propane.parse(EXAMPLE)
    report = program.check("m1,m2,m4")
    for finding in report:
        print(f"{finding.severity:8} {finding.rule:4} {finding.op or '':12} {finding.message}")
    for row in program.estimate("m1,m4"):
        print(f"{row.chip}: {row.ms:.3f} ms (nine of ten: {row.low_ms:.3f} to {row.high_ms:.3f}), {row.energy_mj:.2f} mJ, estimated")
    for verdict in report.verdicts:
        print(f"{verdict.chip}: {verdict.refusals} refusals, {verdict.warnings} warnings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
