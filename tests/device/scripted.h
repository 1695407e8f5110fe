/* SPDX-License-Identifier: MIT
 * A driver that its input controls, for tests of the device layer: it fails, takes time or returns the execution order.
 * It has two devices, "scripted" and "other"; an "absent" one cannot be opened. "full" has every optional function of
 * the contract, "host" has those of a device that uses the host's memory, and "deep:N" has a queue of N places. Linking
 * this file replaces the library's list of drivers.
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

/* What was called, and which call fails next: fail_next counts down over calls of the kind `fail`. */
typedef struct script_calls {
    atomic_int opened, closed, compiled, freed, buffers, buffers_freed, locked, unlocked, locked_for_writing, prepared,
        requests_freed, patched, compiled_together;
    char fail; /* 'l' lock, 'p' prepare, 'c' compile_all, 'd' patch; 0: none */
    int fail_in;
    int64_t patch_count;
    uint16_t patch_first;
    bool profiling;
} script_calls;
extern script_calls script;

#endif
