/* SPDX-License-Identifier: MIT
 * Declares the comparison of a rewritten program with its original. Both run on the cpu device with the same random
 * inputs.
 */
#ifndef APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H
#define APPS_PROPANE_CMD_ENGINE_DIFFERENCE_H

#include "propane.h"

/* Prints the largest difference over all outputs of the default function, and the numbers of values that are finite in
 * only one of the programs. `until` is the value after which the original was cut; NULL if it was not cut. */
PROPANE_CHECK propane_status engine_difference_print(const char *before, const char *after, const char *until,
                                                     propane_error *err);

#endif
