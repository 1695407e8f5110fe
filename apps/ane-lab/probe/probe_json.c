/* SPDX-License-Identifier: MIT
 * Writes the keys and lines of answers.
 */
#include "apps/ane-lab/probe/probe_json.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/base/memory.h"

void probe_say(json_t *out, const char *key, const char *format, ...) {
    char words[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    json_put(out, key, json_words(words));
}

/* Writes infinities and NaN as text, because JSON has neither. */
void probe_value(json_t *out, const char *key, double value) {
    if (value - value == 0)
        json_put(out, key, json_real(value));
    else
        probe_say(out, key, "%g", value);
}

void probe_note(const json_t *so_far) {
    char *line = NULL;
    if (json_print(so_far, JSON_COMPACT | JSON_REAL_PRECISION(9), &line, NULL, NULL) == PROPANE_OK)
        printf("%s\n", line);
    fflush(stdout);
    mem_free(line);
}

void probe_progress(int64_t count) {
    printf("{\"progress\": %lld}\n", (long long)count);
    fflush(stdout);
}
