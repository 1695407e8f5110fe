/* SPDX-License-Identifier: MIT
 * Tests the lister of running classes on functions of our own with the runtime's names.
 */
#include <stdlib.h>

#include "apps/ane-lab/macho/running.h"
#include "support/test.h"

typedef struct fake_method {
    const char *name, *types;
} fake_method;
typedef struct fake_class {
    const char *name;
    const struct fake_class *super, *meta;
    const fake_method *methods;
    unsigned count;
} fake_class;

static const fake_method metas[] = {{"shared", "@16@0:8"}};
static const fake_method own[] = {{"compile:error:", "B32@0:8@16^@24"}, {"bare", NULL}};
static const fake_class root = {.name = "NSObject"};
static const fake_class meta = {.name = "_ANEThing", .methods = metas, .count = 1};
static const fake_class thing = {"_ANEThing", &root, &meta, own, 2};
static int lists;

static const char **fake_objc_copyClassNamesForImage(const char *image, unsigned *count) {
    *count = strcmp(image, "Engine.framework/Versions/A/Engine") == 0 ? 2 : 0;
    const char **names = calloc(3, sizeof *names);
    names[0] = "_ANEThing";
    names[1] = "_ANELost";
    return names;
}
static const void *fake_objc_getClass(const char *name) { return strcmp(name, "_ANEThing") == 0 ? &thing : NULL; }
static const void *fake_object_getClass(const void *c) { return ((const fake_class *)c)->meta; }
static const void *fake_class_getSuperclass(const void *c) { return ((const fake_class *)c)->super; }
static const char *fake_class_getName(const void *c) { return ((const fake_class *)c)->name; }
static const void **fake_class_copyMethodList(const void *c, unsigned *count) {
    const fake_class *from = c;
    const void **list = calloc(from->count + 1, sizeof *list);
    for (unsigned i = 0; i < from->count; i++) list[i] = &from->methods[i];
    *count = from->count;
    lists++;
    return list;
}
static const void *fake_method_getName(const void *m) { return m; }
static const char *fake_sel_getName(const void *s) { return ((const fake_method *)s)->name; }
static const char *fake_method_getTypeEncoding(const void *m) { return ((const fake_method *)m)->types; }

static void *fake_symbol(void *missing, const char *name) {
    if (missing && strcmp(missing, name) == 0) return NULL;
#define GIVE(function)                                                                                                 \
    if (strcmp(name, #function) == 0) {                                                                                \
        void *address;                                                                                                 \
        __typeof__(&fake_##function) pointer = fake_##function;                                                        \
        memcpy(&address, &pointer, sizeof address);                                                                    \
        return address;                                                                                                \
    }
    GIVE(objc_copyClassNamesForImage)
    GIVE(objc_getClass)
    GIVE(object_getClass)
    GIVE(class_getSuperclass)
    GIVE(class_getName)
    GIVE(class_copyMethodList)
    GIVE(method_getName)
    GIVE(sel_getName)
    GIVE(method_getTypeEncoding)
    return NULL;
}

TEST(classes_of_a_library) {
    propane_error err = {0};
    arena *a = arena_create();
    macho_listing l;
    EXPECT_OK(running_list("Engine.framework/Engine", fake_symbol, NULL, a, &l, &err));
    EXPECT(l.count == 2 && lists == 2);
    const macho_entry *e = &l.entries[0];
    EXPECT_TEXT(e->name, "_ANEThing");
    EXPECT_TEXT(e->super, "NSObject");
    EXPECT(e->method_count == 3 && e->methods[0].of_class && !e->methods[1].of_class && !e->methods[2].types);
    EXPECT_TEXT(e->methods[0].name, "shared");
    EXPECT_TEXT(e->methods[1].types, "B32@0:8@16^@24");
    EXPECT_TEXT(l.entries[1].name, "_ANELost"); /* known, but not available */
    EXPECT(l.entries[1].method_count == 0 && !l.entries[1].super);
    arena_free(a);
}

TEST(what_is_missing_is_named) {
    propane_error err = {0};
    arena *a = arena_create();
    macho_listing l;
    char missing[] = "class_copyMethodList";
    EXPECT_FAIL(running_list("Engine.framework/Engine", fake_symbol, missing, a, &l, &err), PROPANE_ERR_UNSUPPORTED,
                "class_copyMethodList");
    EXPECT_FAIL(running_list("Other/Other", fake_symbol, NULL, a, &l, &err), PROPANE_ERR_NOT_FOUND,
                "Other/Other: the runtime lists no classes");
    arena_free(a);
}

SUITE("macho/running", T(classes_of_a_library), T(what_is_missing_is_named))
