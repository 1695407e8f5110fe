/* SPDX-License-Identifier: MIT
 * Reverse mode, from MIL to MIL. grad_function writes the joint function (forward and backward in one). grad_cut cuts a
 * function into kernels and finds the values that must pass between them. A forward value that a backward kernel needs
 * becomes an extra output of the forward kernel (a tap), or is recomputed if the plan says so.
 */
#ifndef CORE_GRAD_GRAD_H
#define CORE_GRAD_GRAD_H

#include "core/mil/build.h"

/* Makes a function `name` in `f`'s module. Its parameters are those of f, then `d_RESULT` for each float result of f
 * (the incoming adjoint). Its results are those of f, then `d_PARAM`, of the parameter's type, for each name in `wrt`
 * (NULL means every float parameter). A parameter on which no result depends gets a zero constant. Gradient ops have
 * backward = true and the stage of the op that they differentiate. If an op on the path has no gradient rule, fails
 * with PROPANE_ERR_UNSUPPORTED and names the op and its line. */
PROPANE_CHECK propane_status grad_function(const mil_function *f, const char *name, const char *const *wrt,
                                           int wrt_count, mil_function **out, propane_error *err);

/* The interface for gradient rules. */
typedef struct grad_context grad_context;
/* Returns the adjoint of op->results[index], or NULL if nothing depends on it. */
mil_value *grad_of(grad_context *g, const mil_op *op, int index);
/* Adds `adjoint` to that of a forward value, after summing it over broadcast dimensions. Ignores values that need no
 * gradient. */
void grad_add(grad_context *g, const mil_value *forward, mil_value *adjoint);
/* Returns whether the gradient of this value is needed, so that a rule need not compute it in vain. */
bool grad_wanted(const grad_context *g, const mil_value *forward);
/* Returns the forward value's copy in the joint function. */
mil_value *grad_value(grad_context *g, const mil_value *forward);
mil_builder *grad_build(grad_context *g);

typedef propane_status (*grad_rule)(grad_context *g, const mil_op *op, propane_error *err);

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

typedef struct grad_cut_plan {
    int kernel_count;
    const char *const *names;                 /* of the resulting functions */
    int (*home)(void *ctx, const mil_op *op); /* the kernel that computes `op`, 0 .. kernel_count-1 */
    bool (*recompute)(void *ctx, const mil_op *op,
                      int kernel); /* whether `kernel` may recompute `op` instead of receiving its results */
    void *ctx;
} grad_cut_plan;

/* Writes one function per kernel into `into`. Constants are copied to where they are used. A kernel without ops is left
 * out: its entry in `out` is NULL. Results of f, and values that are made in one kernel and used in another, keep their
 * names as results of the producing kernel and parameters of the others. The order of the kernels must be topological;
 * otherwise the cut fails with PROPANE_ERR_INVALID and names the value that would flow backwards. */
PROPANE_CHECK propane_status grad_cut(const mil_function *f, const grad_cut_plan *plan, mil_module *into,
                                      mil_function **out, propane_error *err);

/* Sets, by op index, whether an op of a joint function contributes only to the named results, such as weight gradients
 * (which the host computes). */
PROPANE_CHECK propane_status grad_only_for(const mil_function *joint, const char *const *results, int result_count,
                                           bool *by_op_index, propane_error *err);

#endif
