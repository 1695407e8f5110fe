/* SPDX-License-Identifier: MIT
 * Joins a pipeline into one program. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_PIPELINE_H
#define CORE_MIL_COREML_PACKAGE_PIPELINE_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* Joins the pipeline into a program with a single function, "main". The module's interface must have been read. The
 * program lives in the module's arena and in `model`, whose values are renamed. */
PROPANE_CHECK propane_status package_pipeline_join(mil_module *m, Coreml__Model *model, const mil_read_options *options,
                                                   Coreml__Program **out, propane_error *err);

#endif
