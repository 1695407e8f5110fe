/* SPDX-License-Identifier: MIT
 * Declares names and types of a pipeline with models of older kinds. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_NAMES_H
#define CORE_MIL_COREML_PACKAGE_NAMES_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* The names of a pipeline's features in its file. */
typedef struct package_called {
    const char **inputs, **outputs; /* NULL means that the names are unchanged */
} package_called;

/* Changes the names of a pipeline's inputs, outputs and suppressions to those used by the programs of its older models.
 * Sets *called to the original names, copied to the arena. */
PROPANE_CHECK propane_status package_names_legal(arena *a, Coreml__Model *pipeline, package_called *called,
                                                 propane_error *err);
/* Records in the features of `m` the names that they have in the file. */
void package_names_call(mil_module *m, const package_called *called);
/* Changes the types of numbers and fp64 arrays among a pipeline's inputs and outputs to those of its program's
 * values. */
void package_names_settle(mil_module *m);

#endif
