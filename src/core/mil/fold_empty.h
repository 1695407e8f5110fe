/* SPDX-License-Identifier: MIT
 * Declares the folding of tensors without elements. Such a tensor is a constant of a file or, if shapes follow from
 * values, a result such as the non_zero of a mask that is false everywhere or a range that ends where it begins. No
 * device stores such tensors, so they are resolved as soon as they are found. A result computed from such a tensor has
 * no elements either. A tensor to which an empty one is written or joined is unchanged.
 */
#ifndef CORE_MIL_FOLD_EMPTY_H
#define CORE_MIL_FOLD_EMPTY_H

#include "core/mil/build.h"

/* Examines an operation of a function that is being resolved. `map` holds the values of the new function by id, and
 * `empty` the types of those that have no elements (dtype 0 means not empty). Returns true if the operation needs no
 * copy. The operation's result then has an entry in `map` or `empty`, or in neither if the value waits or is undefined
 * (a mean of nothing). Nothing that reads a result without an entry can be resolved. */
bool mil_fold_empty(mil_builder *b, const mil_op *op, mil_value **map, mil_type *empty);

/* Fails with the reason why some results of the function are missing from `map` although no value is awaited. */
PROPANE_CHECK propane_status mil_fold_empty_refuse(const mil_function *late, mil_value *const *map,
                                                   const mil_type *empty, propane_error *err);

#endif
