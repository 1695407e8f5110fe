/* SPDX-License-Identifier: MIT
 * Owns error texts: one sentence in a fixed array, so that reporting an error cannot fail.
 */
#include "core/base/status.h"

#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"

const char *propane_version(void) { return PROPANE_VERSION; }

int propane_version_number(void) {
    return 10000 * PROPANE_VERSION_MAJOR + 100 * PROPANE_VERSION_MINOR + PROPANE_VERSION_PATCH;
}

const char *propane_status_name(propane_status status) {
    static const char *const names[] = {
        [PROPANE_OK] = "ok",
        [PROPANE_ERR_INVALID] = "invalid",
        [PROPANE_ERR_UNSUPPORTED] = "unsupported",
        [PROPANE_ERR_NOT_FOUND] = "not found",
        [PROPANE_ERR_IO] = "input/output",
        [PROPANE_ERR_MEMORY] = "no memory",
        [PROPANE_ERR_LIMIT] = "limit",
        [PROPANE_ERR_DEVICE] = "device",
        [PROPANE_ERR_CANCELLED] = "cancelled",
    };
    if ((size_t)status >= sizeof names / sizeof names[0]) return "unknown";
    return names[status];
}

static bool status_is_inside(char c) { return ((unsigned char)c & 0xc0) == 0x80; } /* a continuation byte of UTF-8 */

/* Shortens a text to less than `room` bytes by cutting its middle, because a long path is in the middle and the reason
 * at the end. */
static void status_cut_middle(char *message, size_t room) {
    const size_t length = strlen(message);
    if (length < room) return;
    size_t head = room / 2;
    while (head && status_is_inside(message[head])) head--;
    size_t tail = length - (room - 4 - head);
    while (tail < length && status_is_inside(message[tail])) tail++;
    memcpy(message + head, "...", 3);
    memmove(message + head + 3, message + tail, length - tail + 1);
}

/* Formats an error. Names and texts from foreign files end up in terminals and logs, so control characters are escaped.
 * If a memory request has failed, a lack of memory is reported instead, because a third-party library may have turned
 * the failure into "no such key". */
propane_status propane_vfail(propane_error *err, propane_status status, const char *format, va_list args) {
    size_t bytes;
    if (mem_failed(&bytes)) {
        mem_forget();
        if (status != PROPANE_ERR_MEMORY) return propane_fail_memory(err, bytes);
    }
    if (err) {
        char raw[8 * sizeof err->text];
        err->status = status;
        vsnprintf(raw, sizeof raw, format, args);
        status_cut_middle(raw, sizeof err->text);
        text_harmless(err->text, sizeof err->text, raw, strlen(raw), "\n");
    }
    return status;
}

propane_status propane_fail(propane_error *err, propane_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    status = propane_vfail(err, status, format, args);
    va_end(args);
    return status;
}

propane_status propane_fail_prefix(propane_error *err, propane_status status, const char *format, ...) {
    if (!err) return status;
    char raw[8 * sizeof err->text], whole[10 * sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    const size_t used = text_harmless(whole, 9 * sizeof err->text - 8, raw, strlen(raw), "\n");
    snprintf(whole + used, sizeof whole - used, ": %s", err->text);
    status_cut_middle(whole, sizeof err->text);
    memcpy(err->text, whole, strlen(whole) + 1);
    err->status = status;
    return status;
}

/* `bytes` is 0 if the caller does not know how many bytes were requested. */
propane_status propane_fail_memory(propane_error *err, size_t bytes) {
    if (!bytes && !mem_failed(&bytes)) return propane_fail(err, PROPANE_ERR_MEMORY, "no memory");
    char many[32], whole[32];
    if (bytes < (size_t)1 << 28 || !mem_physical())
        return propane_fail(err, PROPANE_ERR_MEMORY, "out of memory: cannot allocate %zu bytes", bytes);
    return propane_fail(err, PROPANE_ERR_MEMORY, "not enough memory for %s more: this machine has %s",
                        text_bytes(many, (double)bytes), text_bytes(whole, (double)mem_physical()));
}
