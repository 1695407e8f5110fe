/* SPDX-License-Identifier: MIT
 * Tensors without elements: constants of a file, and where shapes follow from values a mask that is nowhere true, a
 * range that ends where it begins. No device stores them, so they are settled as soon as they are found: what is
 * computed of them has no elements either, what they are written to or joined with stays as it is.
 */
#ifndef CORE_MIL_FOLD_EMPTY_H
#define CORE_MIL_FOLD_EMPTY_H

#include "core/mil/build.h"

/* Looks at an operation of a function that is settled. `map` has the values of the new function by id, `empty` the
 * types of those that have no elements (dtype 0: not empty). True: it is settled, by an entry of either for its result,
 * or by none where nothing can be said (a mean): then nothing that reads it can be settled either. */
bool mil_fold_empty(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty);

/* Why the results of the function are not all in `map` although nothing is waited for. */
PROPANE_CHECK propane_status mil_fold_empty_refuse(const mil_function *late, mil_value *const *map,
                                                   const mil_type *empty, propane_error *err);

#endif
