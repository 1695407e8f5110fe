/* SPDX-License-Identifier: MIT
 * Where the time of propane run goes, as a table for people and as a file for Chrome and Perfetto.
 */
#ifndef CLI_CMD_RUN_PROFILE_H
#define CLI_CMD_RUN_PROFILE_H

#include <stdio.h>

#include "run/session.h"

/* Of the runs since the profile was reset (drivers/cpu/profile.h). */
PROPANE_CHECK propane_status run_profile_print(const session *s, FILE *out, propane_error *err);
PROPANE_CHECK propane_status run_profile_trace(const session *s, const char *model, const char *path,
                                               propane_error *err);

#endif
