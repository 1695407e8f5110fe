/* SPDX-License-Identifier: MIT
 * Owns what the files that write a package share: memory for messages, and the copies of functions for other shapes. A
 * lack of memory is recorded, and reported once, at the end.
 */
#include "core/mil/coreml/package_writer.h"

void *package_write_take(package_writer *w, size_t bytes) {
    void *out = arena_alloc(w->arena, bytes ? bytes : 1);
    if (!out) w->failed = true;
    return out;
}

char *package_write_copy_text(package_writer *w, const char *s) {
    char *out = arena_string(w->arena, s ? s : "");
    if (!out) w->failed = true;
    return out;
}

const mil_function *package_write_copy_of(const package_writer *w, const mil_function *f) {
    int i = 0;
    for (const mil_function *g = w->module->functions; g && g != f; g = g->next) i++;
    return f ? w->open[i] : NULL;
}
