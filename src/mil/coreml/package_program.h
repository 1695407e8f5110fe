/* SPDX-License-Identifier: MIT
 * A model file's program to a module and back. Private to src/mil/coreml/package*.c.
 */
#ifndef MIL_COREML_PACKAGE_PROGRAM_H
#define MIL_COREML_PACKAGE_PROGRAM_H

#include "mil/coreml/coreml.pb-c.h"
#include "mil/coreml/package.h"

PROPANE_CHECK propane_status package_program_read(mil_module *m, const Coreml__Program *program,
                                                  const mil_read_options *options, propane_error *err);

#endif
