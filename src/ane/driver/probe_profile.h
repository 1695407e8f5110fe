/* SPDX-License-Identifier: MIT
 * Reads the options of ane?profile=FILE, which follow from the findings of `propane devices --probe`.
 */
#ifndef ANE_DRIVER_PROBE_PROFILE_H
#define ANE_DRIVER_PROBE_PROFILE_H

#include "ane/driver/objc_runtime.h"

enum { PROFILE_REST = 400 };

/* Writes to `out` what replaces "profile=FILE" in a uri, such as "memory?sizes=any&folder=drop". Returns
 * PROPANE_ERR_INVALID if the file is not a report, or is from a system build other than `build`, because findings may
 * differ between builds. */
PROPANE_CHECK propane_status ane_profile_read(const char *path, const char *build, char out[PROFILE_REST],
                                              propane_error *err);

#endif
