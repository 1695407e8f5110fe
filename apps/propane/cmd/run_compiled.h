/* SPDX-License-Identifier: MIT
 * propane run for compiled programs (.hwx, .anec): the interpreter of registers with arrays in and out.
 */
#ifndef APPS_PROPANE_CMD_RUN_COMPILED_H
#define APPS_PROPANE_CMD_RUN_COMPILED_H

#include <stdint.h>

#include "apps/propane/cli.h"

/* Inputs (as propane_session_set_file takes them) by the surfaces' names; with a seed of 0 or more, random numbers for
 * those that are not given. `output` (may be NULL): a folder for NAME.npy. *not_finite: an output has NaN or infinity,
 * and no input has. */
PROPANE_CHECK propane_status run_compiled(const char *path, const cli_list *given, int64_t seed, const char *output,
                                          bool *not_finite, propane_error *err);

#endif
