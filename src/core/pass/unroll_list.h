/* SPDX-License-Identifier: MIT
 * Lists as what their elements are, for unroll.c and unroll_loop.c alone.
 */
#ifndef CORE_PASS_UNROLL_LIST_H
#define CORE_PASS_UNROLL_LIST_H

#include "core/mil/build.h"

typedef struct unroll_lists {
    arena *memory;
    struct unroll_list **of; /* by value id; NULL: no list, or one that is not known */
    int room;
} unroll_lists;

PROPANE_CHECK propane_status unroll_lists_open(unroll_lists *l, propane_error *err);
void unroll_lists_close(unroll_lists *l);
/* Takes the operations out that only filled lists which nothing reads any more. */
PROPANE_CHECK propane_status unroll_lists_sweep(const unroll_lists *l, mil_function *f, propane_error *err);

/* Whether it makes a list, or reads or writes one. */
bool unroll_is_list(const mil_op *op);
/* Follows the list that `op` returns; *out is then NULL. For an operation that returns a tensor, *out is its
 * replacement, built from the elements before b's position. PROPANE_ERR_UNSUPPORTED says which index or list a run
 * decides. */
PROPANE_CHECK propane_status unroll_list(unroll_lists *l, mil_builder *b, const mil_op *op, mil_value **out,
                                         propane_error *err);

#endif
