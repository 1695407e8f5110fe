/* SPDX-License-Identifier: MIT
 * Declares the reading of slices that begin at a computed place but have known sizes.
 */
#ifndef CORE_MIL_READ_SLICES_H
#define CORE_MIL_READ_SLICES_H

#include "core/mil/mil.h"

/* Sets count[d] to the number of elements that a slice_by_index or slice_by_size takes of dimension d of x, wherever
 * the slice begins. 0 means one element of a dimension that is then removed; -1 means all elements. `begin`, `size` and
 * `stride` are op's operands; `size` and `stride` may be NULL. Returns false if a count depends on where the slice
 * begins. */
bool mil_slice_counts(const mil_op *op, const mil_type *x, const mil_value *begin, const mil_value *size,
                      const mil_value *stride, int64_t *count);

/* Turns such a slice in a block into gathers; leaves any other operation alone. The readers call this before `op` has
 * results or is in its function. `op` becomes the last gather; `name` is the name of op's result. */
PROPANE_CHECK propane_status mil_read_slice(mil_op *op, const char *name, propane_error *err);

#endif
