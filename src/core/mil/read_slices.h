/* SPDX-License-Identifier: MIT
 * Slices that begin at a computed place but have known sizes.
 */
#ifndef CORE_MIL_READ_SLICES_H
#define CORE_MIL_READ_SLICES_H

#include "core/mil/mil.h"

/* Sets how many elements of each dimension of x a slice_by_index or slice_by_size takes wherever it begins. 0 means
 * one, and the dimension is removed; -1 means all. The values are its operands; size and stride may be NULL. Returns
 * false if that depends on where the slice begins. */
bool mil_slice_counts(const mil_op *op, const mil_type *x, const mil_value *begin, const mil_value *size,
                      const mil_value *stride, int64_t *count);

/* For the readers, before an operation has results: turns such a slice in a block into gathers. `op`, which is not in
 * the function yet, becomes the last of them; `name` is the name of its result. */
PROPANE_CHECK propane_status mil_read_slice(mil_op *op, const char *name, propane_error *err);

#endif
