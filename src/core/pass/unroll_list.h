/* SPDX-License-Identifier: MIT
 * Lists tracked as the values of their elements. Private to unroll.c and unroll_loop.c.
 */
#ifndef CORE_PASS_UNROLL_LIST_H
#define CORE_PASS_UNROLL_LIST_H

#include "core/mil/build.h"

typedef struct unroll_lists {
    arena *memory;
    struct unroll_list **of; /* by value id; NULL if it is no list or an unknown one */
    int room;
} unroll_lists;

PROPANE_CHECK propane_status unroll_lists_open(unroll_lists *l, propane_error *err);
void unroll_lists_close(unroll_lists *l);
/* Removes operations that only fill lists which nothing reads any more. */
PROPANE_CHECK propane_status unroll_lists_sweep(const unroll_lists *l, mil_function *f, propane_error *err);

/* Returns true if the operation makes, reads or writes a list. */
bool unroll_is_list(const mil_op *op);
/* Tracks the list that `op` returns; *out is then NULL. For an operation that returns a tensor, *out is its
 * replacement, built from the elements before b's position. PROPANE_ERR_UNSUPPORTED names the index or list that
 * is known only at run time. */
PROPANE_CHECK propane_status unroll_list(unroll_lists *l, mil_builder *b, const mil_op *op, mil_value **out,
                                         propane_error *err);

#endif
