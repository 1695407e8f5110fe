/* SPDX-License-Identifier: MIT
 * Declares the fields that are read from an NSError. The advice for a failure follows from its domain and numbers
 * (failures.def), never from the words of its text, which differ from system to system.
 */
#ifndef ANE_DRIVER_FAILURE_H
#define ANE_DRIVER_FAILURE_H

#include "ane/driver/objc_runtime.h"

typedef struct ane_failure {
    char domain[100]; /* "" if the system returned no error */
    int64_t code;
    bool has_status, has_stage;
    int64_t status; /* the engine's own number */
    int64_t stage;  /* the stage at which a load failed */
    bool transient; /* the system reports that a retry a moment later may succeed */
    char description[440];
} ane_failure;

/* Reads `error`, an NSError or NULL. */
void ane_error_read(const ane_api *a, ane_id error, ane_failure *out);
/* Returns advice for the failure, or "" if there is none. */
const char *ane_failure_hint(const ane_failure *f);
/* Returns true if all of the machine's slots for loaded programs are taken. */
bool ane_failure_no_place(const ane_failure *f);
/* Prints "DOMAIN, code N, status 0x1D: DESCRIPTION; HINT", or "no reason was given". Returns `out`. */
const char *ane_failure_print(const ane_failure *f, char *out, size_t size);
/* Reads `error` and prints it as ane_failure_print does. Returns `out`. */
const char *ane_reason(const ane_api *a, ane_id error, char *out, size_t size);

#endif
