/* SPDX-License-Identifier: MIT
 * Checks whether a device treats weights as a weight mode assumes. The check runs a tiny kernel with one set of weights
 * and then with another, and compares every number of both results with its expected value. Some engines silently
 * continue with the first set.
 */
#ifndef TRAIN_WEIGHT_MODE_CHECK_H
#define TRAIN_WEIGHT_MODE_CHECK_H

#include "core/base/status.h"
#include "core/base/text.h"

/* Opens a separate device, whose compiles count towards the process's limit. Returns PROPANE_ERR_DEVICE if a number is
 * wrong, or the device's own error if it refuses the kernel. */
PROPANE_CHECK propane_status weight_mode_check(const char *device, const char *mode, propane_error *err);
/* Sets *mode to the first weight mode that passes the check, or to the first of all on a device that needs no check.
 * `tried` (may be NULL) receives one line per mode that fails. */
PROPANE_CHECK propane_status weight_mode_choose(const char *device, const char **mode, text *tried, propane_error *err);

#endif
