/* SPDX-License-Identifier: MIT
 * Models of the kinds before ML Programs, as programs. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OLDER_H
#define CORE_MIL_COREML_PACKAGE_OLDER_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* What a model is that is neither a program, a pipeline nor a suppression, as "a tree ensemble". */
const char *package_older_name(const Coreml__Model *model);
/* Whether such a model is read. */
bool package_older_known(const Coreml__Model *model);
/* PROPANE_ERR_UNSUPPORTED with what it is and what to do; `what` stands for it: "x.mlmodel: this". */
PROPANE_CHECK propane_status package_older_refuse(const Coreml__Model *model, const char *what, propane_error *err);
/* The model, of a kind that is read, becomes the function "main" of `m`, which has its description (m->package). */
PROPANE_CHECK propane_status package_older_read(mil_module *m, const Coreml__Model *model, mil_opset opset,
                                                const mil_read_options *options, propane_error *err);

#endif
