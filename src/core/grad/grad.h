/* SPDX-License-Identifier: MIT
 * Reverse mode: MIL in, MIL out. grad_function writes the joint function (forward and backward in one); grad_cut cuts a
 * function into kernels and finds what must pass between them: a forward value that a backward kernel needs becomes an
 * extra output of the forward kernel (a tap), or is computed again where the plan says so.
 */
#ifndef CORE_GRAD_GRAD_H
#define CORE_GRAD_GRAD_H

#include "core/mil/build.h"

/* A new function `name` in `f`'s module. Parameters: those of f, then `d_RESULT` for each float result of f (the
 * adjoint that comes in). Results: those of f, then `d_PARAM` for each name in `wrt` (NULL: every float parameter), of
 * the parameter's type; a parameter that no result depends on gets a zero constant. Gradient ops carry the stage of the
 * op that they differentiate and backward = true. An op on the way without a gradient row: PROPANE_ERR_UNSUPPORTED,
 * naming the op and its line. */
PROPANE_CHECK propane_status grad_function(const mil_function *f, const char *name, const char *const *wrt,
                                           int wrt_count, mil_function **out, propane_error *err);

/* What a gradient rule works with. */
typedef struct grad_context grad_context;
/* The adjoint of op->results[index]: NULL if nothing depends on it. */
mil_value *grad_of(grad_context *g, const mil_op *op, int index);
/* Adds to the adjoint of a forward value; sums over broadcast dimensions first. Values that need no gradient:
 * ignored. */
void grad_add(grad_context *g, const mil_value *forward, mil_value *adjoint);
/* Whether anybody asks for the gradient of this value (so that a rule need not compute it). */
bool grad_wanted(const grad_context *g, const mil_value *forward);
/* The forward value inside the joint function. */
mil_value *grad_value(grad_context *g, const mil_value *forward);
mil_builder *grad_build(grad_context *g);

typedef propane_status (*grad_rule)(grad_context *g, const mil_op *op, propane_error *err);

/* ---- cutting ----------------------------------------------------------------------------------------------------- */

typedef struct grad_cut_plan {
    int kernel_count;
    const char *const *names;                 /* of the functions that come out */
    int (*home)(void *ctx, const mil_op *op); /* which kernel computes it, 0 .. kernel_count-1 */
    bool (*recompute)(void *ctx, const mil_op *op,
                      int kernel); /* may `kernel` compute it again instead of receiving it */
    void *ctx;
} grad_cut_plan;

/* One function per kernel into `into` (constants are copied to where they are used; a kernel with no op is left out:
 * its entry in `out` is NULL). A value that is made in one kernel and used in another, and every result of f, keeps its
 * name as the producing kernel's result and the using kernel's parameter. Kernel order must be a topological order:
 * otherwise PROPANE_ERR_INVALID names the value that would flow backwards. */
PROPANE_CHECK propane_status grad_cut(const mil_function *f, const grad_cut_plan *plan, mil_module *into,
                                      mil_function **out, propane_error *err);

/* Whether `op` of a joint function serves gradients of the parameters in `wrt` only (a weight gradient: a host
 * product). */
PROPANE_CHECK propane_status grad_only_for(const mil_function *joint, const char *const *results, int result_count,
                                           bool *by_op_index, propane_error *err);

#endif
