/* SPDX-License-Identifier: MIT
 * The case list behind op_cases.h as data, read only by op_cases.c, which explains the syntax.
 */
#ifndef TESTS_SUPPORT_OP_LINES_H
#define TESTS_SUPPORT_OP_LINES_H

#include <stddef.h>

typedef struct op_line {
    const char *key; /* name of a row, or of a rule, which selects every row with that rule */
    const char *text;
} op_line;
typedef struct op_line_list {
    const op_line *lines;
    int count;
} op_line_list;
extern const op_line_list op_lines_elements, op_lines_products, op_lines_layout;
/* Returns the index-th line of all lists, from 0; NULL after the last one. */
const op_line *op_line_at(int index);

/* The value of a row's parameter if a line does not specify it; for tensors, how it is drawn. */
typedef struct op_default {
    const char *op, *param, *text;
} op_default;
extern const op_default op_defaults[];
extern const int op_default_count;

#endif
