/* SPDX-License-Identifier: MIT
 * Tensors without elements. They are constants of a file or, if shapes follow from values, a mask that is nowhere true
 * or a range that ends where it begins. No device stores them, so they are resolved as soon as they are found. Results
 * computed from them have no elements either; tensors that they are written to or joined with stay as they are.
 */
#ifndef CORE_MIL_FOLD_EMPTY_H
#define CORE_MIL_FOLD_EMPTY_H

#include "core/mil/build.h"

/* Examines an operation of a function that is being resolved. `map` holds the values of the new function by id, and
 * `empty` the types of those that have no elements (dtype 0 means not empty). Returns true if the operation is
 * resolved.
 * Its result then has an entry in `map` or `empty`, or in neither if its value is undefined (a mean of nothing);
 * nothing that reads such a result can be resolved either. */
bool mil_fold_empty(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty);

/* Reports why some results of the function are missing from `map` although no value is awaited. */
PROPANE_CHECK propane_status mil_fold_empty_refuse(const mil_function *late, mil_value *const *map,
                                                   const mil_type *empty, propane_error *err);

#endif
