/* SPDX-License-Identifier: MIT
 * Names and types of a pipeline with models of older kinds. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_NAMES_H
#define CORE_MIL_COREML_PACKAGE_NAMES_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

/* Changes the names of a pipeline's inputs, outputs and suppressions to those used by the programs of its older
 * models. */
PROPANE_CHECK propane_status package_names_legal(Coreml__Model *pipeline, propane_error *err);
/* Changes numbers among a pipeline's inputs and outputs to the arrays that its programs have. */
void package_names_settle(mil_module *m);

#endif
