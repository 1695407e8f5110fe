/* SPDX-License-Identifier: MIT
 * Names and types of a pipeline with models of older kinds. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_NAMES_H
#define CORE_MIL_COREML_PACKAGE_NAMES_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* The names of a pipeline's features in its file. */
typedef struct package_called {
    const char **inputs, **outputs; /* NULL: as they are */
} package_called;

/* Changes the names of a pipeline's inputs, outputs and suppressions to those used by the programs of its older
 * models. *called gets the names before, in the arena. */
PROPANE_CHECK propane_status package_names_legal(arena *a, Coreml__Model *pipeline, package_called *called,
                                                 propane_error *err);
/* Notes in the features what they are called in the file. */
void package_names_call(mil_module *m, const package_called *called);
/* Changes numbers among a pipeline's inputs and outputs to the arrays that its programs have. */
void package_names_settle(mil_module *m);

#endif
