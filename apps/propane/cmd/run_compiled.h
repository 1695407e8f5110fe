/* SPDX-License-Identifier: MIT
 * Declares propane run for compiled programs (.hwx, .anec), which an interpreter of registers runs.
 */
#ifndef APPS_PROPANE_CMD_RUN_COMPILED_H
#define APPS_PROPANE_CMD_RUN_COMPILED_H

#include <stdint.h>

#include "apps/propane/cli.h"

/* Runs a compiled program. `given` lists inputs by the names of their surfaces, in the form of
 * propane_session_set_file. With a seed of 0 or more, the other inputs get random numbers. `output` (may be NULL) is a
 * folder for NAME.npy. Sets *not_finite if an output contains NaN or infinity and no input array does. */
PROPANE_CHECK propane_status run_compiled(const char *path, const cli_list *given, int64_t seed, const char *output,
                                          bool *not_finite, propane_error *err);

#endif
