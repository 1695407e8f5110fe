/* SPDX-License-Identifier: MIT
 * Programs with one operation each, generated from the rows of ops.def. Every row has several cases for every element
 * type that it supports: scalars, odd sizes, sizes around 8, 16 and 32, every way to broadcast, negative axes, each
 * optional argument present and omitted, and all modes. Evaluation, drivers, gradients and the text form are all tested
 * with these cases:
 *
 *     static void check(const op_case *c, void *context) { ... c->function, c->inputs ... }
 *     op_cases_each(OP_CASES_ALL, 1, check, NULL);
 *
 * The list is tests/support/op_lines_*.c; adding a row to ops.def without a line there fails tests/ops/test_rows.
 */
#ifndef TESTS_SUPPORT_OP_CASES_H
#define TESTS_SUPPORT_OP_CASES_H

#include "core/mil/build.h"
#include "core/mil/ops.h"

#define OP_CASES_ALL   (-1)
#define OP_CASE_INPUTS 12

typedef struct op_case {
    const char *label; /* "add fp16: x=[3,1] y=[5]" */
    mil_opcode code;
    mil_dtype dtype;                   /* type of the main operands */
    mil_module *module;                /* holds one function, verified */
    const mil_function *function;      /* its results are the results of `op` */
    const mil_op *op;                  /* the operation under test */
    int input_count;                   /* equals function->param_count */
    mil_tensor inputs[OP_CASE_INPUTS]; /* random, legal for the op, already rounded to their element type */
    /* Float inputs away from kinks and jumps, so that finite differences (step up to 1e-3) are valid. Unrelated to
     * whether the row has a gradient. */
    bool smooth[OP_CASE_INPUTS];
} op_case;

typedef void (*op_case_visit)(const op_case *c, void *context);

/* Visits all cases of one row, or of all rows; `seed` chooses the random values. A case that cannot be built fails the
 * running test with its label and the reason. The visitor's arguments are freed when it returns. Returns the number of
 * cases. */
int op_cases_each(int code, uint64_t seed, op_case_visit visit, void *context);

/* Builds one case from a line in the language of op_cases.c ("x=[2]~=1,2 axis=0"). Returns NULL with the reason if an
 * op refuses it. */
op_case *op_case_make(mil_opcode code, mil_dtype dtype, const char *line, uint64_t seed, propane_error *err);
void op_case_free(op_case *c);

/* Additions to the operation of a case (grown_program.h) and its numbers (extreme_cases.h); each may be NULL.
 * `before` makes an input of the given name and the operations from it to a value of that type with exactly the
 * same elements; the input may have another shape, but the order of elements stays. `after` takes the operation's
 * results and makes the function's. `numbers` draws elements instead of the line's drawing `how`, wherever any
 * number is legal: not where the line specifies values, nor for indices and masks. */
typedef struct op_case_growth {
    mil_value *(*before)(mil_builder *b, const char *name, mil_type type, void *context);
    void (*after)(mil_builder *b, const mil_op *op, void *context);
    void (*numbers)(const mil_type *type, const char *how, double *data, void *context);
    void *context;
} op_case_growth;
op_case *op_case_make_grown(mil_opcode code, mil_dtype dtype, const char *line, uint64_t seed, const op_case_growth *g,
                            propane_error *err);

/* Lists all cases as rows, in the order of op_cases_each. `out`, with space for `limit` rows, may be NULL. Returns
 * their number. */
typedef struct op_case_row {
    mil_opcode code;
    mil_dtype dtype;
    const char *line;
    uint64_t number; /* derived from line and element type; op_cases_each adds it to its seed */
} op_case_row;
int op_cases_list(int code, op_case_row *out, int limit);

/* Return the columns of a row that mil_op_info does not contain, as text: "broadcast", "map2", ... */
const char *op_rule_name(mil_opcode code);
const char *op_grad_name(mil_opcode code);

#endif
