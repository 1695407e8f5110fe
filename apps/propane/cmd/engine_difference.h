/* SPDX-License-Identifier: MIT
 * What a rewritten program computes against the one that it was made of: both on the cpu device, on the same random
 * inputs.
 */
#ifndef APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H
#define APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H

#include "propane.h"

/* A line with the largest difference of all outputs of the default function, and how many numbers only one of them has.
 * `until`: the value behind which the first was cut; NULL: none. */
PROPANE_CHECK propane_status engine_difference_print(const char *before, const char *after, const char *until,
                                                     propane_error *err);

#endif
