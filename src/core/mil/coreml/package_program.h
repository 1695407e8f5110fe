/* SPDX-License-Identifier: MIT
 * Declares the conversion of a model file's program to a module. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_PROGRAM_H
#define CORE_MIL_COREML_PACKAGE_PROGRAM_H

#include "core/mil/coreml/coreml.pb-c.h"
#include "core/mil/coreml/package.h"

PROPANE_CHECK propane_status package_program_read(mil_module *m, const Coreml__Program *program,
                                                  const mil_read_options *options, propane_error *err);

#endif
