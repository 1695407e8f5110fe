/* SPDX-License-Identifier: MIT
 * Declares what the files shape_*.c and eval_*.c share: the functions that the rows of ops.def name, and a counter that
 * walks several tensors in step. Private to src/core/mil.
 */
#ifndef CORE_MIL_EVAL_EVAL_H
#define CORE_MIL_EVAL_EVAL_H

#include "core/mil/ops.h"

/* Declares mil_shape_rule_X for every row. A rule may rely on the verifier for the number and the classes of operands
 * (float or not, constant or not) and for comparing result types with declared ones. The rule itself must check
 * everything about shapes and values. */
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) rule
#define SHAPE(x)                                               propane_status mil_shape_rule_##x(const mil_op *op, mil_type *out, int *out_count, propane_error *err);
#include "core/mil/ops.def"

/* Declares mil_eval_X for every row ("none" has no body). */
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) eval
#define EVAL(x)                                                propane_status mil_eval_##x(const mil_eval_args *a, propane_error *err);
#include "core/mil/ops.def"

/* Runs a function like mil_eval_function. If `f` is a block, states are the caller's memory and are changed. */
PROPANE_CHECK propane_status mil_eval_block(const mil_function *f, const mil_tensor *inputs, bool round, arena *a,
                                            mil_tensor **outputs, propane_error *err);

/* Returns the first value of a parameter, or NULL if it was left out. */
const mil_tensor *mil_eval_in(const mil_eval_args *a, const char *param);

/* Walks the elements of a shape in row-major order, and keeps the current element's offset in several tensors. */
#define MIL_WALK_RANK 52
typedef struct mil_walk {
    int rank, tensors;
    int64_t size[MIL_WALK_RANK], index[MIL_WALK_RANK];
    const int64_t *step[MIL_MAX_PARAMS];
    int64_t at[MIL_MAX_PARAMS];
} mil_walk;

static inline void mil_walk_begin(mil_walk *w, int rank, const int64_t *size) {
    w->rank = rank;
    w->tensors = 0;
    for (int d = 0; d < rank; d++) w->size[d] = size[d], w->index[d] = 0;
}

/* Adds a tensor to the walk and returns the index of its offset in `at`. `step` must outlive the walk. */
static inline int mil_walk_add(mil_walk *w, const int64_t *step) {
    w->step[w->tensors] = step;
    w->at[w->tensors] = 0;
    return w->tensors++;
}

static inline void mil_walk_next(mil_walk *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        bool carry = ++w->index[d] == w->size[d];
        for (int t = 0; t < w->tensors; t++) w->at[t] += carry ? -w->step[t][d] * (w->size[d] - 1) : w->step[t][d];
        if (!carry) return;
        w->index[d] = 0;
    }
}

#endif
