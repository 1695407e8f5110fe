/* SPDX-License-Identifier: MIT
 * Declares the display of a program's profile, as a table for people and as a trace file for Chrome and Perfetto.
 */
#ifndef APPS_PROPANE_CMD_RUN_PROFILE_H
#define APPS_PROPANE_CMD_RUN_PROFILE_H

#include <stdio.h>

#include "propane.h"

/* Prints the profile of the runs since profiling was switched on. `function` is the function of the session. */
PROPANE_CHECK propane_status run_profile_print(propane_session *s, const char *function, FILE *out, propane_error *err);
PROPANE_CHECK propane_status run_profile_trace(propane_session *s, const char *function, const char *model,
                                               const char *path, propane_error *err);

#endif
