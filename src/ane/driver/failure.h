/* SPDX-License-Identifier: MIT
 * An NSError as fields. One idea: what to do about a failure follows from its numbers (failures.def), never from words
 * of its text, which differ from system to system.
 */
#ifndef ANE_DRIVER_FAILURE_H
#define ANE_DRIVER_FAILURE_H

#include "ane/driver/objc_runtime.h"

typedef struct ane_failure {
    char domain[100]; /* "": the system gave no error */
    int64_t code;
    bool has_status, has_stage;
    int64_t status; /* the engine's own number */
    int64_t stage;  /* of a load */
    bool transient; /* the system says that it may go well a moment later */
    char description[440];
} ane_failure;

/* `error`: an NSError, or NULL. */
void ane_error_read(const ane_api *a, ane_id error, ane_failure *out);
/* What to do; "": not known. */
const char *ane_failure_hint(const ane_failure *f);
/* Whether the machine's places for loaded programs are taken. */
bool ane_failure_no_place(const ane_failure *f);
/* "DOMAIN, code N, status 0x1D: DESCRIPTION; HINT", or "no reason was given". Returns `out`. */
const char *ane_failure_print(const ane_failure *f, char *out, size_t size);
/* The same of an error that is only to be printed. */
const char *ane_reason(const ane_api *a, ane_id error, char *out, size_t size);

#endif
