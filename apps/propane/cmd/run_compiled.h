/* SPDX-License-Identifier: MIT
 * propane run for compiled programs (.hwx, .anec): runs the interpreter of registers with arrays in and out.
 */
#ifndef APPS_PROPANE_CMD_RUN_COMPILED_H
#define APPS_PROPANE_CMD_RUN_COMPILED_H

#include <stdint.h>

#include "apps/propane/cli.h"

/* Runs a compiled program. Inputs (in the form of propane_session_set_file) are given by the surfaces' names; with
 * a seed of 0 or more, the others get random numbers. `output` (may be NULL) is a folder for NAME.npy. Sets
 * *not_finite if an output contains NaN or infinity, and no input does. */
PROPANE_CHECK propane_status run_compiled(const char *path, const cli_list *given, int64_t seed, const char *output,
                                          bool *not_finite, propane_error *err);

#endif
