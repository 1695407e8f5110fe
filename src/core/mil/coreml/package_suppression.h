/* SPDX-License-Identifier: MIT
 * Expresses a non-maximum suppression of a pipeline as operations. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_SUPPRESSION_H
#define CORE_MIL_COREML_PACKAGE_SUPPRESSION_H

#include "core/mil/coreml/package_parts.h"

enum { PACKAGE_SUPPRESSION_OPS = 40 }; /* upper bound for one suppression */

/* Adds the operations and links their results. `opset` belongs to the preceding programs; it is NULL if there
 * are none. */
PROPANE_CHECK propane_status package_suppression_add(package_parts *p, const Coreml__Model *model, const char *prefix,
                                                     const char *opset);

#endif
