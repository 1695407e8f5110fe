/* SPDX-License-Identifier: MIT
 * Whether a device treats weights as a weight mode assumes: a tiny kernel is run with one set of weights and then with
 * another, and every number of both results is compared with what it must be. Engines are about that go on with the
 * first set without a word.
 */
#ifndef TRAIN_WEIGHT_MODE_CHECK_H
#define TRAIN_WEIGHT_MODE_CHECK_H

#include "core/base/status.h"
#include "core/base/text.h"

/* Opens the device by itself: what is compiled here counts for its process. PROPANE_ERR_DEVICE where a number is wrong;
 * what the device refuses is reported in its words. */
PROPANE_CHECK propane_status weight_mode_check(const char *device, const char *mode, propane_error *err);
/* The first mode of training that holds; on a device whose results need no proof, the first one. `tried` (NULL:
 * nothing) receives a line for each that does not hold. */
PROPANE_CHECK propane_status weight_mode_choose(const char *device, const char **mode, text *tried, propane_error *err);

#endif
