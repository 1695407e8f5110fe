/* SPDX-License-Identifier: MIT
 * What unroll.c (recurrent layers), unroll_loop.c (counted loops and branches) and unroll_sample.c (computed places)
 * share. Not for others: pass_unroll is pass.h's.
 */
#ifndef CORE_PASS_UNROLL_LOOP_H
#define CORE_PASS_UNROLL_LOOP_H

#include "core/pass/unroll_list.h"

/* Replaces the results of `op` by the values and removes it. Results of the function keep their names. */
PROPANE_CHECK propane_status unroll_replace(mil_builder *b, mil_op *op, mil_value *const *with, propane_error *err);
/* Whether a condition is false whatever a run gives. *ends: it has a counter that is known and a limit, so that it will
 * be. */
bool unroll_is_false(const mil_value *v, bool *ends);
/* Unrolls a while_loop in place: inserts its iterations before it and removes it. */
PROPANE_CHECK propane_status unroll_loop(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* Flattens a cond in place: inserts both branches before it; a select returns each result. */
PROPANE_CHECK propane_status unroll_cond(unroll_lists *lists, mil_function *f, mil_op *op, propane_error *err);
/* resample, affine or crop_resize at computed places in place: floors, gathers and weighted sums. Left as it is where
 * the places are known: the gradient of that is cheaper. */
PROPANE_CHECK propane_status unroll_sample(mil_function *f, mil_op *op, propane_error *err);

#endif
