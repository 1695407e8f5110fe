/* SPDX-License-Identifier: MIT
 * Owns a module's lifetime: its arena, its functions by name, and the weight files that it keeps mapped.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/blob.h"
#include "core/mil/coreml/package.h"
#include "core/mil/mil.h"

mil_module *mil_module_create(const char *source) {
    arena *a = arena_create();
    mil_module *m = a ? ARENA_NEW(a, mil_module) : NULL;
    if (!m) {
        arena_free(a);
        return NULL;
    }
    m->arena = a;
    m->source = arena_string(a, source ? source : "program");
    m->version_major = 1;
    m->version_minor = 3;
    /* The keys of a program made by coremltools. One of Apple's compilers has been seen to require buildInfo. */
    static const mil_pair pairs[] = {{"coremlc-component-MIL", "3510.2.1"},
                                     {"coremlc-version", "3505.4.1"},
                                     {"coremltools-component-milinternal", ""},
                                     {"coremltools-version", "9.0"}};
    m->build_info_count = (int)(sizeof pairs / sizeof pairs[0]);
    m->build_info = arena_copy(a, pairs, sizeof pairs);
    if (!m->source || !m->build_info) {
        arena_free(a);
        return NULL;
    }
    return m;
}

void mil_module_free(mil_module *m) {
    if (!m) return;
    mil_blob_maps_free(m->blobs);
    mil_package_deinit(m->package);
    arena_free(m->arena);
}

void mil_module_drop(mil_module *m, const mil_function *f) {
    for (mil_function **at = &m->functions; *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            m->function_count--;
            return;
        }
}

mil_function *mil_module_function(const mil_module *m, const char *name, propane_error *err) {
    if (!name && m->functions && !m->functions->next) return m->functions;
    const char *wanted = name ? name : m->default_function ? m->default_function : "main";
    for (mil_function *f = m->functions; f; f = f->next)
        if (strcmp(f->name, wanted) == 0) return f;
    char list[600] = "";
    size_t used = 0;
    for (const mil_function *f = m->functions; f && used < sizeof list - 1; f = f->next)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", f->name);
    char quoted[80];
    text_quote(quoted, wanted, strlen(wanted));
    if (!m->functions)
        propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: the program has no functions", m->source);
    else
        propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s: there is no function '%s'; the program has: %s%s", m->source,
                     quoted, list, name ? "" : ": choose one of them (--function)");
    return NULL;
}
