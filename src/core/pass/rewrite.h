/* SPDX-License-Identifier: MIT
 * The walk that replaces values, shared by the passes. Private to src/core/pass.
 */
#ifndef CORE_PASS_REWRITE_H
#define CORE_PASS_REWRITE_H

#include "core/pass/pass.h"

typedef struct rewrite {
    mil_function *function;
    mil_builder build; /* inserts before the current op, with its stage */
    int count;         /* values that existed when the pass began */
    bool *is_result;   /* by id: true for a result of the function */
    int changes;
} rewrite;

PROPANE_CHECK propane_status rewrite_open(rewrite *r, propane_error *err);
void rewrite_close(rewrite *r);
/* Must be called for each op in order: replaces its operands and points the builder before it. */
void rewrite_operands(rewrite *r, mil_op *op);
bool rewrite_is_result(const rewrite *r, const mil_value *v);
/* Replaces the result of an op by `with` and removes the op. Returns false if the op must stay, because its result is
 * one of the function's or `with` is NULL. */
bool rewrite_replace(rewrite *r, mil_op *op, mil_value *with);
/* Computes the results of an op with constant operands, rounded to their types; `out` has room for each. */
PROPANE_CHECK propane_status rewrite_evaluate(arena *a, const mil_op *op, mil_tensor *out, propane_error *err);

/* The passes. */
PROPANE_CHECK propane_status pass_fold(rewrite *r, propane_error *err);
PROPANE_CHECK propane_status pass_simplify(rewrite *r, propane_error *err);
PROPANE_CHECK propane_status pass_share(rewrite *r, propane_error *err);
PROPANE_CHECK propane_status pass_drop_unused(rewrite *r, propane_error *err);

#endif
