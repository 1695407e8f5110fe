/* SPDX-License-Identifier: MIT
 * A listing of classes against what the ane driver calls: what is missing, what has another type.
 */
#ifndef APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H
#define APPS_ANE_LAB_PROBE_CLASSES_DRIVER_H

#include <stdbool.h>

#include "apps/ane-lab/macho/macho.h"

/* Prints what does not fit (as JSON: every row) and how much fits; false: something that every route needs does not. */
bool classes_driver_print(const macho_listing *l, bool json);

#endif
