/* SPDX-License-Identifier: MIT
 * Queries a running Objective-C runtime. The runtime's functions are found by dlsym, so this file compiles on every
 * system. The results are copied.
 */
#include "apps/ane-lab/macho/running.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define RUNTIME_FUNCTIONS(X)                                                                                           \
    X(objc_copyClassNamesForImage, const char **, (const char *, unsigned *))                                          \
    X(objc_getClass, const void *, (const char *))                                                                     \
    X(object_getClass, const void *, (const void *))                                                                   \
    X(class_getSuperclass, const void *, (const void *))                                                               \
    X(class_getName, const char *, (const void *))                                                                     \
    X(class_copyMethodList, const void **, (const void *, unsigned *))                                                 \
    X(method_getName, const void *, (const void *))                                                                    \
    X(sel_getName, const char *, (const void *))                                                                       \
    X(method_getTypeEncoding, const char *, (const void *))

typedef struct runtime {
#define DECLARE(name, result, parameters) result(*name) parameters;
    RUNTIME_FUNCTIONS(DECLARE)
#undef DECLARE
} runtime;

static void *running_system_symbol(void *context, const char *name) {
    (void)context;
    void *library = dlopen("/usr/lib/libobjc.A.dylib", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

static propane_status running_find_runtime(running_symbol *symbol, void *context, runtime *out, propane_error *err) {
    void *found;
#define FIND(name, result, parameters)                                                                                 \
    found = symbol(context, #name);                                                                                    \
    if (!found)                                                                                                        \
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,                                                              \
                            "this system's Objective-C runtime lacks '%s'; name a "                                    \
                            "file instead",                                                                            \
                            #name);                                                                                    \
    memcpy(&out->name, &found, sizeof found); /* ISO C has no conversion from void * to a function */
    RUNTIME_FUNCTIONS(FIND)
#undef FIND
    return PROPANE_OK;
}

/* Adds the methods of a class or of its metaclass to *e. */
static propane_status running_add_methods(const runtime *r, const void *class, bool of_class, arena *a, macho_entry *e,
                                          propane_error *err) {
    unsigned count = 0;
    const void **list = r->class_copyMethodList(class, &count);
    macho_method *all = ARENA_ARRAY(a, (size_t)e->method_count + count + 1, macho_method);
    if (all && e->method_count) memcpy(all, e->methods, (size_t)e->method_count * sizeof *all);
    bool copied = all;
    for (unsigned i = 0; copied && i < count; i++) {
        macho_method *m = &all[e->method_count];
        const char *types = r->method_getTypeEncoding(list[i]);
        m->of_class = of_class;
        m->name = arena_string(a, r->sel_getName(r->method_getName(list[i])));
        m->types = types ? arena_string(a, types) : NULL;
        copied = m->name && (!types || m->types);
        e->method_count += copied;
    }
    free(list);
    e->methods = all;
    return copied ? PROPANE_OK : propane_fail_memory(err, count * sizeof *all);
}

static propane_status running_add_class(const runtime *r, const char *name, arena *a, macho_entry *e,
                                        propane_error *err) {
    const void *class = r->objc_getClass(name), *super = class ? r->class_getSuperclass(class) : NULL;
    *e = (macho_entry){.kind = MACHO_CLASS, .name = arena_string(a, name)};
    if (super) e->super = arena_string(a, r->class_getName(super));
    if (!e->name || (super && !e->super)) return propane_fail_memory(err, strlen(name));
    if (!class) return PROPANE_OK; /* the class cannot be realised in this process, because its superclass is missing */
    PROPANE_TRY(running_add_methods(r, r->object_getClass(class), true, a, e, err));
    return running_add_methods(r, class, false, a, e, err);
}

/* Returns the names of a library's classes. The runtime lists a framework's library under its real path:
 * F.framework/Versions/A/NAME. */
static const char **running_class_names(const runtime *r, const char *library, arena *a, unsigned *count) {
    const char **names = r->objc_copyClassNamesForImage(library, count), *last = strrchr(library, '/');
    if (*count || !last) return names;
    char *real = arena_printf(a, "%.*s/Versions/A%s", (int)(last - library), library, last);
    if (!real) return names;
    free(names);
    return r->objc_copyClassNamesForImage(real, count);
}

propane_status running_list(const char *library, running_symbol *symbol, void *context, arena *a, macho_listing *out,
                            propane_error *err) {
    runtime r;
    *out = (macho_listing){0};
    PROPANE_TRY(running_find_runtime(symbol ? symbol : running_system_symbol, context, &r, err));
    if (!symbol && !dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
        const char *why = dlerror();
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "%s cannot be loaded: %.300s", library,
                            why ? why : "no reason given");
    }
    unsigned count = 0;
    const char **names = running_class_names(&r, library, a, &count);
    macho_entry *entries = ARENA_ARRAY(a, count + 1, macho_entry);
    propane_status status = entries ? PROPANE_OK : propane_fail_memory(err, count * sizeof *entries);
    for (unsigned i = 0; status == PROPANE_OK && i < count; i++)
        status = running_add_class(&r, names[i], a, &entries[i], err);
    free(names);
    if (status != PROPANE_OK) return status;
    if (!count)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "%s: the runtime lists no classes for this path; it may know the library under another one",
                            library);
    *out =
        (macho_listing){.image = arena_string(a, library), .arch = "running", .count = (int)count, .entries = entries};
    return out->image ? PROPANE_OK : propane_fail_memory(err, strlen(library));
}
