/* SPDX-License-Identifier: MIT
 * The case list behind op_cases.h as data, read only by op_cases.c, which explains the syntax.
 */
#ifndef TESTS_SUPPORT_OP_LINES_H
#define TESTS_SUPPORT_OP_LINES_H

typedef struct op_line {
    const char *key; /* name of a row, or of a rule, which selects every row with that rule */
    const char *text;
} op_line;
extern const op_line op_lines[];
extern const int op_line_count;

/* The value of a row's parameter if a line does not specify it; for tensors, how it is drawn. */
typedef struct op_default {
    const char *op, *param, *text;
} op_default;
extern const op_default op_defaults[];
extern const int op_default_count;

#endif
