/* SPDX-License-Identifier: MIT
 * A listing of classes against what the ane driver calls: what is missing, what has another type.
 */
#ifndef CLI_DEVICE_LAB_CLASSES_DRIVER_H
#define CLI_DEVICE_LAB_CLASSES_DRIVER_H

#include <stdbool.h>

#include "macho/macho.h"

/* Prints what does not fit (as JSON: every row) and how much fits; false: something that every route needs does not. */
bool classes_driver_print(const macho_listing *l, bool json);

#endif
