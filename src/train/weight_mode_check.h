/* SPDX-License-Identifier: MIT
 * Checks whether a device treats weights as a weight mode assumes. A tiny kernel is run with one set of weights and
 * then with another, and every number of both results is compared with its expected value. Some engines silently
 * continue with the first set.
 */
#ifndef TRAIN_WEIGHT_MODE_CHECK_H
#define TRAIN_WEIGHT_MODE_CHECK_H

#include "core/base/status.h"
#include "core/base/text.h"

/* Opens a separate device: what is compiled here counts for its process. Returns PROPANE_ERR_DEVICE if a number is
 * wrong. If the device refuses, its message is reported. */
PROPANE_CHECK propane_status weight_mode_check(const char *device, const char *mode, propane_error *err);
/* Returns the first training mode that passes, or simply the first one on a device whose results need no check. `tried`
 * (may be NULL) receives one line per mode that fails. */
PROPANE_CHECK propane_status weight_mode_choose(const char *device, const char **mode, text *tried, propane_error *err);

#endif
