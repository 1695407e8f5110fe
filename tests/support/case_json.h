/* SPDX-License-Identifier: MIT
 * Writes a case with its results as one line of JSON, for checks in other languages (tools/numbers_check.py):
 *
 *     {"op": "add", "operands": {"x": [{"dtype": "fp32", "shape": [2], "values": [1, NaN]}], ...}, "results": [...]}
 *
 * The line contains all operands of the function, including constants and texts. Omitted operands are left out.
 */
#ifndef TESTS_SUPPORT_CASE_JSON_H
#define TESTS_SUPPORT_CASE_JSON_H

#include <stdio.h>

#include "support/op_cases.h"

/* got[k] is result k. */
void case_json_write(FILE *f, const op_case *c, double *const *got);

#endif
