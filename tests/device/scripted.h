/* SPDX-License-Identifier: MIT
 * A driver that does what its input says, for tests of the device layer: fail, take time, tell the order. It stands in
 * two devices, "scripted" and "other", and there is an "absent" one that cannot be opened. Linking this file replaces
 * the library's list of drivers.
 */
#ifndef TESTS_DEVICE_SCRIPTED_H
#define TESTS_DEVICE_SCRIPTED_H

#include <stdatomic.h>

#include "propane.h"

enum { SCRIPT_OK, SCRIPT_FAIL, SCRIPT_SLEEP }; /* command[0]; command[1]: milliseconds */

/* tensor<int32, [4]> command -> tensor<int32, [4]> order: order[0] is the number of the execution, from 1 */
extern const char scripted_program[];
extern atomic_int scripted_count;   /* executions so far */
extern atomic_int scripted_overlap; /* executions of one device that ran at the same time as another one: must stay 0 */

#endif
