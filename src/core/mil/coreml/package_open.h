/* SPDX-License-Identifier: MIT
 * The open dimensions of a program's values when it is written. Private to the package writer.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OPEN_H
#define CORE_MIL_COREML_PACKAGE_OPEN_H

#include "core/mil/coreml/package.h"

/* Returns a copy of `f` for other input shapes that the module's description allows. It belongs to the module's arena
 * and is in no list. Returns NULL if no shape is open or the program works for one shape only. */
const mil_function *package_open_copy(mil_module *m, const mil_function *f);
/* Returns the type with MIL_OPEN for each dimension that differs in the copy. `other` may be NULL. */
mil_type package_open_type(const mil_function *other, const mil_value *v);
/* Returns the copy of an op's block. */
const mil_function *package_open_block(const mil_function *other, const mil_op *op, int block);

#endif
