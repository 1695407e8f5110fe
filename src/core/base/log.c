/* SPDX-License-Identifier: MIT
 * Owns the callback for notes that are not errors.
 */
#include "core/base/log.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    propane_log print;
    void *context;
} log_to; /* set before other threads exist */

void propane_set_log(propane_log log, void *context) {
    log_to.print = log;
    log_to.context = context;
}

void log_print(const char *format, ...) {
    char sentence[1200];
    va_list args;
    if (!log_to.print) return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    log_to.print(log_to.context, sentence);
}
