/* SPDX-License-Identifier: MIT
 * Compares a framework's classes with the rows of syms.def. With the files of a new macOS, this shows what breaks
 * before the driver runs on that system. Methods are looked up in the class, its categories and its superclasses, as
 * far as the listing contains them. Classes of other frameworks (NSError) are not looked up.
 */
#include "apps/ane-lab/probe/classes_driver.h"

#include <stdio.h>
#include <string.h>

#include "ane/driver/objc_runtime.h"

typedef struct driver_row {
    int class;
    char level;
    const char *selector, *encoding;
    ane_need need;
} driver_row;

static const char *const class_names[] = {
#define CLASS(id, name, need) name,
#include "ane/driver/syms.def"
};

static const driver_row rows[] = {
#define METHOD(id, class, level, selector, encoding, need, result, parameters)                                         \
    {ANE_CLASS_##class, #level[0], selector, encoding, ANE_##need},
#include "ane/driver/syms.def"
};
enum { ROWS = sizeof rows / sizeof rows[0], SUPERS_MOST = 16 };

static const char *const needs[] = {"required", "for ane:memory", "for ane:client", "optional"};

static const macho_entry *classes_find_class(const macho_listing *l, const char *name) {
    for (int i = 0; i < l->count; i++)
        if (l->entries[i].kind == MACHO_CLASS && strcmp(l->entries[i].name, name) == 0) return &l->entries[i];
    return NULL;
}

static const char *classes_method_types(const macho_entry *e, const driver_row *row) {
    for (int i = 0; i < e->method_count; i++)
        if (e->methods[i].of_class == (row->level == '+') && strcmp(e->methods[i].name, row->selector) == 0)
            return e->methods[i].types ? e->methods[i].types : "";
    return NULL;
}

/* Returns the method's types, or NULL if the method is missing. */
static const char *classes_find_method(const macho_listing *l, const driver_row *row) {
    const char *name = class_names[row->class], *found = NULL;
    for (int depth = 0; name && !found && depth < SUPERS_MOST; depth++) {
        const macho_entry *class = classes_find_class(l, name);
        if (class) found = classes_method_types(class, row);
        for (int i = 0; !found && i < l->count; i++)
            if (l->entries[i].kind == MACHO_CATEGORY && l->entries[i].super && strcmp(l->entries[i].super, name) == 0)
                found = classes_method_types(&l->entries[i], row);
        name = class ? class->super : NULL;
    }
    return found;
}

static void classes_print_row(const driver_row *row, const char *state, const char *found, bool json) {
    const char *name = class_names[row->class];
    if (json) {
        printf("{\"method\":\"%c[%s %s]\",\"state\":\"%s\",\"need\":\"%s\",\"driver\":\"%s\"", row->level, name,
               row->selector, state, needs[row->need], row->encoding);
        /* Types contain quotes and backslashes only in theory; such types are left out. */
        if (found && !strpbrk(found, "\"\\")) printf(",\"types\":\"%s\"", found);
        printf("}\n");
    } else if (strcmp(state, "differs") == 0) {
        printf("differs  %c[%s %s] has the type %s, but the driver expects %s (%s)\n", row->level, name, row->selector,
               found, row->encoding, needs[row->need]);
    } else if (strcmp(state, "missing") == 0) {
        printf("missing  %c[%s %s] %s (%s)\n", row->level, name, row->selector, row->encoding, needs[row->need]);
    }
}

bool classes_driver_print(const macho_listing *l, bool json) {
    int looked = 0, fit = 0;
    bool route[ANE_OPTIONAL + 1] = {true, true, true, true};
    for (int i = 0; i < (int)ROWS; i++) {
        const driver_row *row = &rows[i];
        if (strncmp(class_names[row->class], "_ANE", 4) != 0) continue;
        const char *found = classes_find_method(l, row);
        const char *state = !found ? "missing" : ane_encoding_matches(row->encoding, found) ? "there" : "differs";
        bool good = strcmp(state, "there") == 0;
        looked++;
        fit += good;
        if (!good) route[row->need] = false;
        classes_print_row(row, state, found, json);
    }
    if (!json)
        printf("%s (%s): %d of the %d methods that the ane driver calls exist with the same type\nrequired methods: "
               "%s; for ane:memory: %s; for ane:client: %s\n",
               l->image, l->arch, fit, looked, route[ANE_REQUIRED] ? "all" : "NOT all",
               route[ANE_MEMORY] ? "all" : "NOT all", route[ANE_CLIENT] ? "all" : "NOT all");
    return route[ANE_REQUIRED] && (route[ANE_MEMORY] || route[ANE_CLIENT]);
}
