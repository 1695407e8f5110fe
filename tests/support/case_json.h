/* SPDX-License-Identifier: MIT
 * A case with its results as a line of JSON, for checks in other languages (tools/numbers_check.py):
 *
 *     {"op": "add", "operands": {"x": [{"dtype": "fp32", "shape": [2], "values": [1, NaN]}], ...}, "results": [...]}
 *
 * Operands are as the function has them, constants and texts among them; those that were left out are not there.
 */
#ifndef TESTS_SUPPORT_CASE_JSON_H
#define TESTS_SUPPORT_CASE_JSON_H

#include <stdio.h>

#include "support/op_cases.h"

/* got[k]: result k. */
void case_json_write(FILE *f, const op_case *c, double *const *got);

#endif
