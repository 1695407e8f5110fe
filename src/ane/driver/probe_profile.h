/* SPDX-License-Identifier: MIT
 * ane?profile=FILE: the options that follow from what `propane devices --probe` found out.
 */
#ifndef ANE_DRIVER_PROBE_PROFILE_H
#define ANE_DRIVER_PROBE_PROFILE_H

#include "ane/driver/objc_runtime.h"

enum { PROFILE_REST = 400 };

/* `out`: what is to stand in the place of "profile=FILE" in a uri, "memory?sizes=any&folder=drop". PROPANE_ERR_INVALID:
 * no report, or one of another system's build than `build`, since what holds there need not hold here. */
PROPANE_CHECK propane_status ane_profile_read(const char *path, const char *build, char out[PROFILE_REST],
                                              propane_error *err);

#endif
