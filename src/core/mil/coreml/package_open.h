/* SPDX-License-Identifier: MIT
 * Determines the open dimensions of a program's values when the program is written. Private to the package writer.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OPEN_H
#define CORE_MIL_COREML_PACKAGE_OPEN_H

#include "core/mil/coreml/package.h"

/* Returns a copy of `f` for other input shapes that the module's description allows. The copy belongs to the module's
 * arena and is in no list. Returns NULL if no shape is open or the program works for one shape only. */
const mil_function *package_open_copy(mil_module *m, const mil_function *f);
/* Returns v's type with MIL_OPEN for each dimension that differs in the copy `other`, which may be NULL. */
mil_type package_open_type(const mil_function *other, const mil_value *v);
/* Returns the copy in `other` of block number `block` of `op`, or NULL if there is none. */
const mil_function *package_open_block(const mil_function *other, const mil_op *op, int block);

#endif
