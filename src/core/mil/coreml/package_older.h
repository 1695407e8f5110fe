/* SPDX-License-Identifier: MIT
 * Models of the kinds before ML Programs, as programs. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OLDER_H
#define CORE_MIL_COREML_PACKAGE_OLDER_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* Whether a model whose kind has that field is read; else *advice, which may be NULL, is what to do (NULL: nothing is known). */
bool package_older_known(unsigned field);
/* The model, of a kind that is read, becomes the function "main" of `m`, which has its description (m->package). */
PROPANE_CHECK propane_status package_older_read(mil_module *m, const Coreml__Model *model, mil_opset opset,
                                                const mil_read_options *options, propane_error *err);

#endif
