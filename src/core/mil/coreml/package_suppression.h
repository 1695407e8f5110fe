/* SPDX-License-Identifier: MIT
 * A model of a pipeline that is a non-maximum suppression, as operations. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_SUPPRESSION_H
#define CORE_MIL_COREML_PACKAGE_SUPPRESSION_H

#include "core/mil/coreml/package_parts.h"

enum { PACKAGE_SUPPRESSION_OPS = 40 }; /* at most, of one */

/* Adds the operations and links what they give. `opset` is that of the programs before it; NULL: there is none. */
PROPANE_CHECK propane_status package_suppression_add(package_parts *p, const Coreml__Model *model, const char *prefix,
                                                     const char *opset);

#endif
