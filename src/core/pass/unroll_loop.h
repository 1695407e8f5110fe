/* SPDX-License-Identifier: MIT
 * Declarations shared by unroll.c (recurrent layers), unroll_loop.c (loops and branches), unroll_bound.c (limits of
 * loops) and unroll_sample.c (computed positions). Private to these files; pass.h declares pass_unroll.
 */
#ifndef CORE_PASS_UNROLL_LOOP_H
#define CORE_PASS_UNROLL_LOOP_H

#include "core/pass/unroll_list.h"

/* Replaces the results of `op` by the values `with` and removes `op`. Results of the function keep their names. */
PROPANE_CHECK propane_status unroll_replace(mil_builder *b, mil_op *op, mil_value *const *with, propane_error *err);
/* Returns true if a condition is false in every run. Sets *ends to true if the condition compares a known counter with
 * a limit, so that later rounds will decide it. */
bool unroll_is_false(const mil_value *v, bool *ends);
/* Replaces a while_loop by its iterations. */
PROPANE_CHECK propane_status unroll_loop(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* Replaces a cond by both branches and a select for each result, or by the branch that is taken if the condition is
 * known. */
PROPANE_CHECK propane_status unroll_cond(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* Expands resample, affine or crop_resize with computed positions, in place, into floors, gathers and weighted sums. An
 * operation with known positions is left as it is, because its own gradient is cheaper. */
PROPANE_CHECK propane_status unroll_sample(mil_function *f, mil_op *op, propane_error *err);

#endif
