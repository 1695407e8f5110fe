/* SPDX-License-Identifier: MIT
 * A driver that its input controls, for tests of the device layer: it fails, takes time or returns the execution
 * order. It has two devices, "scripted" and "other"; an "absent" one cannot be opened. Linking this file replaces the
 * library's list of drivers.
 */
#ifndef TESTS_DEVICE_SCRIPTED_H
#define TESTS_DEVICE_SCRIPTED_H

#include <stdatomic.h>

#include "propane.h"

enum { SCRIPT_OK, SCRIPT_FAIL, SCRIPT_SLEEP }; /* values of command[0]; command[1] is in milliseconds */

/* tensor<int32, [4]> command -> tensor<int32, [4]> order: order[0] is the number of the execution, from 1 */
extern const char scripted_program[];
extern atomic_int scripted_count;   /* executions so far */
extern atomic_int scripted_overlap; /* executions of one device that overlapped another one: must stay 0 */

#endif
