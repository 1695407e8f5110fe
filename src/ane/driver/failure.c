/* SPDX-License-Identifier: MIT
 * Owns the reading of errors. Since macOS 27, the engine's status is in the user info. Before macOS 27, the status is
 * only in the text, as a number after "status=", "underlying=" or an opening parenthesis. If neither has a status, the
 * code of the underlying error is used. Reading never fails, and leaves out what is unknown.
 */
#include "ane/driver/failure.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANY LONG_MIN

static const struct {
    const char *domain;
    long code, status;
    const char *hint;
} rows[] = {
#define FAILURE(domain, code, status, hint) {domain, code, status, hint},
#include "ane/driver/failures.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static bool failure_status_of_text(const char *from, int64_t *out) {
    static const char *const marks[] = {"status=", "underlying=", "("};
    for (int i = 0; i < 3; i++)
        for (const char *at = from; (at = strstr(at, marks[i])) != NULL;) {
            char *end;
            at += strlen(marks[i]);
            if (at[0] != '0' || (at[1] != 'x' && at[1] != 'X')) continue;
            unsigned long long value = strtoull(at, &end, 16);
            if (end == at + 1 || value > UINT32_MAX) continue;
            *out = (int64_t)value;
            return true;
        }
    return false;
}

/* Normalizes a status that is a negative 32-bit number. Such a status has also been reported as unsigned, as in
 * 0xFFFFFFF2. */
static int64_t failure_sign(int64_t status) {
    return status > INT32_MAX && status <= UINT32_MAX ? status - ((int64_t)UINT32_MAX + 1) : status;
}

static void failure_read_description(const ane_api *a, ane_id error, ane_id info, ane_failure *out) {
    char whole[4000]; /* large, because a text that does not fit is not returned at all; `out` may truncate it */
    if (!ane_text_of(a, ane_entry(a, info, "NSLocalizedDescription"), whole, sizeof whole) &&
        !ane_text_of(a, ANE_SEND0(a, error_description, error), whole, sizeof whole))
        snprintf(whole, sizeof whole, "no description");
    for (char *p = whole; *p; p++)
        if (*p == '\n') *p = ' ';
    if (!out->has_status) out->has_status = failure_status_of_text(whole, &out->status);
    out->transient = out->transient || strstr(whole, "transient") != NULL;
    snprintf(out->description, sizeof out->description, "%.*s", (int)sizeof out->description - 1, whole);
}

void ane_error_read(const ane_api *a, ane_id error, ane_failure *out) {
    *out = (ane_failure){0};
    if (!error) return;
    ane_id info = ANE_HAS(a, error_info) ? ANE_SEND0(a, error_info, error) : NULL,
           below = ane_entry(a, info, "NSUnderlyingError");
    out->code = ANE_SEND0(a, error_code, error);
    if (!ane_text_of(a, ANE_SEND0(a, error_domain, error), out->domain, sizeof out->domain))
        snprintf(out->domain, sizeof out->domain, "?");
    out->has_status = ane_entry_number(a, info, "_ANEErrorUnderlyingStatus", &out->status);
    out->has_stage = ane_entry_number(a, info, "_ANEErrorLoadStage", &out->stage);
    out->transient = out->code == 54;
    failure_read_description(a, error, info, out);
    if (!out->has_status && below) {
        out->has_status = true;
        out->status = ANE_SEND0(a, error_code, below);
    }
    out->status = failure_sign(out->status);
}

const char *ane_failure_hint(const ane_failure *f) {
    for (int i = 0; i < ROWS; i++)
        if (text_ends_with(f->domain, rows[i].domain) && (rows[i].code == ANY || rows[i].code == f->code) &&
            (rows[i].status == ANY || (f->has_status && rows[i].status == f->status)))
            return rows[i].hint;
    return "";
}

bool ane_failure_no_place(const ane_failure *f) {
    enum { CODE = 54, STATUS_BEFORE_27 = 0x50004 };
    return text_ends_with(f->domain, "appleneuralengine") &&
           (f->code == CODE || (f->has_status && f->status == STATUS_BEFORE_27));
}

const char *ane_failure_print(const ane_failure *f, char *out, size_t size) {
    char numbers[80] = "";
    const char *hint = ane_failure_hint(f);
    int used = 0;
    if (!*f->domain) {
        snprintf(out, size, "no reason was given");
        return out;
    }
    if (f->has_status && f->status < 0)
        used = snprintf(numbers, sizeof numbers, ", status %lld", (long long)f->status);
    else if (f->has_status)
        used = snprintf(numbers, sizeof numbers, ", status 0x%llx", (long long)f->status);
    if (f->has_stage) snprintf(numbers + used, sizeof numbers - (size_t)used, ", load stage %lld", (long long)f->stage);
    snprintf(out, size, "%s, code %lld%s: %s%s%s", f->domain, (long long)f->code, numbers, f->description,
             *hint ? "; " : "", hint);
    return out;
}

const char *ane_reason(const ane_api *a, ane_id error, char *out, size_t size) {
    ane_failure f;
    ane_error_read(a, error, &f);
    return ane_failure_print(&f, out, size);
}
