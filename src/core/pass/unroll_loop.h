/* SPDX-License-Identifier: MIT
 * Declarations shared by unroll.c (recurrent layers), unroll_loop.c (counted loops and branches) and unroll_sample.c
 * (computed positions). Private to them; pass.h declares pass_unroll.
 */
#ifndef CORE_PASS_UNROLL_LOOP_H
#define CORE_PASS_UNROLL_LOOP_H

#include "core/pass/unroll_list.h"

/* Replaces the results of `op` by the values and removes it. Results of the function keep their names. */
PROPANE_CHECK propane_status unroll_replace(mil_builder *b, mil_op *op, mil_value *const *with, propane_error *err);
/* Returns true if a condition is false in every run. *ends becomes true if it compares a known counter with a limit, so
 * that it will become false. */
bool unroll_is_false(const mil_value *v, bool *ends);
/* Unrolls a while_loop in place: inserts its iterations before it and removes it. */
PROPANE_CHECK propane_status unroll_loop(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* Flattens a cond in place: inserts both branches before it; a select returns each result. */
PROPANE_CHECK propane_status unroll_cond(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* Expands resample, affine or crop_resize with computed positions, in place, into floors, gathers and weighted sums.
 * Leaves it as it is if the positions are known, because the gradient is cheaper then. */
PROPANE_CHECK propane_status unroll_sample(mil_function *f, mil_op *op, propane_error *err);

#endif
