/* SPDX-License-Identifier: MIT
 * Compares the results of a rewritten program with those of its original: both run on the cpu device with the same
 * random inputs.
 */
#ifndef APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H
#define APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H

#include "propane.h"

/* Prints a line with the largest difference over all outputs of the default function, and the count of numbers that
 * only one program has. `until` is the value after which the original was cut; NULL if it was not. */
PROPANE_CHECK propane_status engine_difference_print(const char *before, const char *after, const char *until,
                                                     propane_error *err);

#endif
