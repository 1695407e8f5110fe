/* SPDX-License-Identifier: MIT
 * Compares a listing of classes with the calls of the ane driver: what is missing, and what has another type.
 */
#ifndef APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H
#define APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H

#include <stdbool.h>

#include "apps/ane-lab/macho/macho.h"

/* Prints what does not match (as JSON, every row) and how much matches. Returns false if something that every route
 * needs does not. */
bool classes_driver_print(const macho_listing *l, bool json);

#endif
