/* SPDX-License-Identifier: MIT
 * Compares a listing of classes with the calls of the ane driver, to find missing classes and methods and changed types.
 */
#ifndef APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H
#define APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H

#include <stdbool.h>

#include "apps/ane-lab/macho/macho.h"

/* Prints the rows that do not match (as JSON, every row) and how many match. Returns false if a row that every
 * route needs does not match. */
bool classes_driver_print(const macho_listing *l, bool json);

#endif
