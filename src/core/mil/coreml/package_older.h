/* SPDX-License-Identifier: MIT
 * Declares the reading of models of the kinds before ML Programs as programs. Private to
 * src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_OLDER_H
#define CORE_MIL_COREML_PACKAGE_OLDER_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* Returns the kind of a model that is not a program, pipeline or suppression, as in "a tree ensemble". */
const char *package_older_name(const Coreml__Model *model);
/* Returns whether Propane reads models of that kind. */
bool package_older_known(const Coreml__Model *model);
/* Returns PROPANE_ERR_UNSUPPORTED, and reports what the model is and what to do. `what` is the subject of the message,
 * such as "x.mlmodel: this". */
PROPANE_CHECK propane_status package_older_refuse(const Coreml__Model *model, const char *what, propane_error *err);
/* Adds to `m`, as the function "main", a model of a kind that is read. m->package holds the model's description. */
PROPANE_CHECK propane_status package_older_read(mil_module *m, const Coreml__Model *model, mil_opset opset,
                                                const mil_read_options *options, propane_error *err);

#endif
