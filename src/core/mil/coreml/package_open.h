/* SPDX-License-Identifier: MIT
 * Which dimensions of a program's values are open, when it is written. Private to the package writer.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OPEN_H
#define CORE_MIL_COREML_PACKAGE_OPEN_H

#include "core/mil/coreml/package.h"

/* A copy of `f` for other shapes that its inputs may have by the module's description; it belongs to the module's arena
 * and is in no list. NULL: no shape is open, or the program is right for one shape alone. */
const mil_function *package_open_copy(mil_module *m, const mil_function *f);
/* The type with MIL_OPEN for each dimension that differs in the copy. `other` may be NULL. */
mil_type package_open_type(const mil_function *other, const mil_value *v);
/* The copy of an op's block. */
const mil_function *package_open_block(const mil_function *other, const mil_op *op, int block);

#endif
