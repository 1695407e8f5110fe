/* SPDX-License-Identifier: MIT
 * Tracks lists as the values of their elements. Private to the files unroll*.c.
 */
#ifndef CORE_PASS_UNROLL_LIST_H
#define CORE_PASS_UNROLL_LIST_H

#include "core/mil/build.h"

typedef struct unroll_lists {
    arena *memory;
    struct unroll_list **of; /* by value id; NULL if the value is no list or is not tracked */
    int room;
} unroll_lists;

PROPANE_CHECK propane_status unroll_lists_open(unroll_lists *l, propane_error *err);
void unroll_lists_close(unroll_lists *l);
/* Removes operations that only fill lists which nothing reads any more. */
PROPANE_CHECK propane_status unroll_lists_sweep(const unroll_lists *l, mil_function *f, propane_error *err);

/* Returns true if the operation makes, reads, writes or returns a list. */
bool unroll_is_list(const mil_op *op);
/* Tracks the list that `op` returns; *out is then NULL. For an operation that returns a tensor, *out is its
 * replacement, which is built at b's position from the elements. Fails with PROPANE_ERR_UNSUPPORTED if an index or list
 * is known only at run time and cannot be expanded. */
PROPANE_CHECK propane_status unroll_list(unroll_lists *l, mil_builder *b, const mil_op *op, mil_value **out,
                                         propane_error *err);

#endif
