/* SPDX-License-Identifier: MIT
 * Compares a listing of classes with the calls of the ane driver, to find missing classes, missing methods and changed
 * types.
 */
#ifndef APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H
#define APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H

#include <stdbool.h>

#include "apps/ane-lab/macho/macho.h"

/* Prints the rows that do not match, and how many match. With `json`, prints every row instead. Returns whether all
 * required rows match, and all rows of at least one route. */
bool classes_driver_print(const macho_listing *l, bool json);

#endif
