/* SPDX-License-Identifier: MIT
 * Declares loading and copying functions for drivers. A copy's constants are in memory, so the source module may be
 * freed after a compile.
 */
#ifndef CORE_MIL_FUNCTION_COPY_H
#define CORE_MIL_FUNCTION_COPY_H

#include "core/mil/mil.h"

/* Reads those constants of a function and its blocks that are still in files. Several threads may load functions of one
 * module at once: the content of a constant does not change, and only one thread reads at a time. */
PROPANE_CHECK propane_status mil_function_load(const mil_function *f, propane_error *err);

/* Loads `f` and copies it into `module` under `name`. Operations, parameters and results keep their names. */
PROPANE_CHECK propane_status mil_function_copy(const mil_function *f, mil_module *module, const char *name,
                                               mil_function **out, propane_error *err);

#endif
