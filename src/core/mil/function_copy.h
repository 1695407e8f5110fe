/* SPDX-License-Identifier: MIT
 * A driver's own copy of a function: its constants are in memory, so that the module may be freed after a compile.
 */
#ifndef CORE_MIL_FUNCTION_COPY_H
#define CORE_MIL_FUNCTION_COPY_H

#include "core/mil/mil.h"

/* Reads the constants that a function, its blocks included, still has in files. Functions of one module may be loaded
 * by several threads at once: what a constant says does not change, and one thread at a time reads. */
PROPANE_CHECK propane_status mil_function_load(const mil_function *f, propane_error *err);

/* Loads `f` and copies it into `module` under `name`: every operation, parameters and results under their names. */
PROPANE_CHECK propane_status mil_function_copy(const mil_function *f, mil_module *module, const char *name,
                                               mil_function **out, propane_error *err);

#endif
