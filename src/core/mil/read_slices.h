/* SPDX-License-Identifier: MIT
 * Slices that begin where a run says, and have sizes that are known all the same.
 */
#ifndef CORE_MIL_READ_SLICES_H
#define CORE_MIL_READ_SLICES_H

#include "core/mil/mil.h"

/* How many elements of each dimension of x a slice_by_index or slice_by_size takes wherever it begins; 0: one, and the dimension
 * goes; -1: all. The values are its operands; size and stride may be NULL. False: it depends on where it begins. */
bool mil_slice_counts(const mil_op *op, const mil_type *x, const mil_value *begin, const mil_value *size,
                      const mil_value *stride, int64_t *count);

/* For the readers, before an operation has results: in a block, such a slice becomes gathers. `op`, which is not in the function
 * yet, is the last of them; `name` is its result's. */
PROPANE_CHECK propane_status mil_read_slice(mil_op *op, const char *name, propane_error *err);

#endif
