/* SPDX-License-Identifier: MIT
 * Owns strings, numbers, data, arrays, dictionaries, URLs, errors and surfaces: CoreFoundation's and IOSurface's functions
 * as far as the driver needs them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/standin.h"

enum { UTF8 = 0x08000100, SINT64 = 4 };

static void *copy_bytes(const void *source, size_t bytes) {
    char *copy = malloc(bytes + 1);
    if (!copy) abort();
    if (bytes) memcpy(copy, source, bytes);
    copy[bytes] = 0;
    return copy;
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

object *standin_string(const char *text) {
    return standin_new("NSString", KIND_STRING, copy_bytes(text, strlen(text)), (long)strlen(text));
}

object *standin_integer(long value) { return standin_new("NSNumber", KIND_NUMBER, NULL, value); }

const char *standin_text(const object *string) {
    return standin_check(string, KIND_STRING, "a string") ? string->memory : "";
}

static object *make_list(const char *class_name, object_kind kind, object *const *first, object *const *second,
                         long count) {
    long total = second ? 2 * count : count;
    object **list = malloc((size_t)(total + 1) * sizeof(object *));
    if (!list) abort();
    for (long i = 0; i < count; i++) {
        list[i] = first[i];
        if (second) list[count + i] = second[i];
    }
    return standin_new(class_name, kind, list, count);
}

object *standin_make_array(object *const *values, long count) {
    return make_list("NSArray", KIND_ARRAY, values, NULL, count);
}

object *standin_make_dictionary(object *const *keys, object *const *values, long count) {
    return make_list("NSDictionary", KIND_DICTIONARY, keys, values, count);
}

object *standin_entry(const object *dictionary, const char *key) {
    if (!standin_check(dictionary, KIND_DICTIONARY, "a dictionary")) return NULL;
    object **list = dictionary->memory;
    for (long i = 0; i < dictionary->count; i++)
        if (list[i]->kind == KIND_STRING && strcmp(list[i]->memory, key) == 0) return list[dictionary->count + i];
    return NULL;
}

typedef struct error_data {
    object *domain, *description;
    long code;
} error_data;

object *standin_error(const char *domain, long code, const char *description) {
    char text[900];
    error_data *e = malloc(sizeof *e);
    if (!e) abort();
    snprintf(text, sizeof text, "Error Domain=%s Code=%ld \"%s\"", domain, code, description);
    *e = (error_data){standin_string(domain), standin_string(text), code};
    return standin_autorelease(standin_new("NSError", KIND_OTHER, e, 0));
}

static void destroy_error(object *o) {
    error_data *e = o->memory;
    standin_release(e->domain);
    standin_release(e->description);
    free(e);
}

static long error_code(const object *self, const char *selector) { return ((error_data *)self->memory)->code; }
static object *error_domain(const object *self, const char *selector) { return ((error_data *)self->memory)->domain; }
static object *error_description(const object *self, const char *selector) {
    return ((error_data *)self->memory)->description;
}

#define CODE(function) ((void (*)(void))(function))

const method standin_foundation_methods[] = {
    {"NSError", '-', "code", "q16@0:8", CODE(error_code)},
    {"NSError", '-', "domain", "@16@0:8", CODE(error_domain)},
    {"NSError", '-', "description", "@16@0:8", CODE(error_description)},
    {NULL, 0, NULL, NULL, NULL},
};

/* ---- CoreFoundation -------------------------------------------------------------------------------------------------------- */

EXPORT const int kCFTypeDictionaryKeyCallBacks = 1, kCFTypeDictionaryValueCallBacks = 2, kCFTypeArrayCallBacks = 3;

EXPORT unsigned long CFGetTypeID(const object *o) {
    return standin_check(o, KIND_NONE, "CFGetTypeID") ? (unsigned long)o->kind : 0;
}
EXPORT unsigned long CFStringGetTypeID(void) { return KIND_STRING; }
EXPORT unsigned long CFNumberGetTypeID(void) { return KIND_NUMBER; }
EXPORT unsigned long CFArrayGetTypeID(void) { return KIND_ARRAY; }
EXPORT unsigned long CFDictionaryGetTypeID(void) { return KIND_DICTIONARY; }

EXPORT object *CFStringCreateWithCString(void *allocator, const char *text, uint32_t encoding) {
    if (encoding != UTF8) standin_violation("CFStringCreateWithCString: the encoding is %#x", encoding);
    return standin_string(text);
}

EXPORT unsigned char CFStringGetCString(const object *s, char *out, long size, uint32_t encoding) {
    if (!standin_check(s, KIND_STRING, "CFStringGetCString") || s->count + 1 > size) return 0;
    memcpy(out, s->memory, (size_t)s->count + 1);
    return 1;
}

EXPORT object *CFDataCreate(void *allocator, const uint8_t *bytes, long length) {
    return standin_new("NSData", KIND_DATA, copy_bytes(bytes, (size_t)length), length);
}

EXPORT object *CFNumberCreate(void *allocator, long type, const void *value) {
    int64_t number = 0;
    if (type != SINT64) standin_violation("CFNumberCreate: the type is %ld", type);
    memcpy(&number, value, sizeof number);
    return standin_integer((long)number);
}

EXPORT unsigned char CFNumberGetValue(const object *n, long type, void *value) {
    if (!standin_check(n, KIND_NUMBER, "CFNumberGetValue") || type != SINT64) return 0;
    int64_t number = n->count;
    memcpy(value, &number, sizeof number);
    return 1;
}

static void retain_list(const void *const *list, long count, const char *what) {
    for (long i = 0; i < count; i++)
        if (standin_check(list[i], KIND_NONE, what)) standin_retain((object *)(uintptr_t)list[i]);
}

EXPORT object *CFArrayCreate(void *allocator, const void *const *values, long count, const void *callbacks) {
    if (callbacks != &kCFTypeArrayCallBacks) standin_violation("CFArrayCreate: its objects are not retained");
    retain_list(values, count, "CFArrayCreate");
    return standin_make_array((object *const *)values, count);
}

EXPORT long CFArrayGetCount(const object *o) { return standin_check(o, KIND_ARRAY, "CFArrayGetCount") ? o->count : 0; }

EXPORT object *CFArrayGetValueAtIndex(const object *o, long index) {
    if (!standin_check(o, KIND_ARRAY, "CFArrayGetValueAtIndex")) return NULL;
    if (index >= 0 && index < o->count) return ((object **)o->memory)[index];
    standin_violation("CFArrayGetValueAtIndex: index %ld of %ld", index, o->count);
    return NULL;
}

EXPORT object *CFDictionaryCreate(void *allocator, const void *const *keys, const void *const *values, long count,
                                  const void *key_callbacks, const void *value_callbacks) {
    if (key_callbacks != &kCFTypeDictionaryKeyCallBacks || value_callbacks != &kCFTypeDictionaryValueCallBacks)
        standin_violation("CFDictionaryCreate: its objects are not retained");
    retain_list(keys, count, "CFDictionaryCreate: a key");
    retain_list(values, count, "CFDictionaryCreate: a value");
    return standin_make_dictionary((object *const *)keys, (object *const *)values, count);
}

EXPORT object *CFDictionaryGetValue(const object *o, const object *key) {
    return standin_check(key, KIND_STRING, "CFDictionaryGetValue") ? standin_entry(o, key->memory) : NULL;
}

EXPORT long CFDictionaryGetCount(const object *o) {
    return standin_check(o, KIND_DICTIONARY, "CFDictionaryGetCount") ? o->count : 0;
}

EXPORT void CFDictionaryGetKeysAndValues(const object *o, const void **keys, const void **values) {
    if (!standin_check(o, KIND_DICTIONARY, "CFDictionaryGetKeysAndValues")) return;
    for (long i = 0; i < o->count; i++) {
        keys[i] = ((object **)o->memory)[i];
        values[i] = ((object **)o->memory)[o->count + i];
    }
}

EXPORT object *CFURLCreateWithFileSystemPath(void *allocator, const object *path, long style, unsigned char is_folder) {
    if (!standin_check(path, KIND_STRING, "CFURLCreateWithFileSystemPath") || style != 0 || !is_folder) return NULL;
    return standin_new("NSURL", KIND_URL, copy_bytes(path->memory, (size_t)path->count), path->count);
}

EXPORT object *NSTemporaryDirectory(void) {
    const char *folder = getenv("TMPDIR");
    return standin_autorelease(standin_string(folder && *folder ? folder : "/tmp"));
}

EXPORT const long _NSConcreteGlobalBlock[32] = {0};

/* ---- surfaces ------------------------------------------------------------------------------------------------------------------ */

/* Constants: alive as long as the process, so not counted as objects that somebody has to release. */
static const class string_class = {NULL, 0, "NSString"};
#define KEY(name, text)                                                                                                \
    static object name##_object = {&string_class,           0x0b7ec7u,       1 << 30, KIND_STRING,                     \
                                   (void *)(uintptr_t)text, sizeof text - 1, NULL};                                    \
    EXPORT object *const name = &name##_object;
KEY(kIOSurfaceWidth, "IOSurfaceWidth")
KEY(kIOSurfaceHeight, "IOSurfaceHeight")
KEY(kIOSurfaceBytesPerElement, "IOSurfaceBytesPerElement")
KEY(kIOSurfaceBytesPerRow, "IOSurfaceBytesPerRow")
KEY(kIOSurfaceAllocSize, "IOSurfaceAllocSize")
KEY(kIOSurfacePixelFormat, "IOSurfacePixelFormat")

static long property(const object *dictionary, const char *key) {
    const object *value = standin_entry(dictionary, key);
    return value && standin_check(value, KIND_NUMBER, key) ? value->count : -1;
}

EXPORT object *IOSurfaceCreate(const object *properties) {
    if (standin_is("surface", "nil") || !standin_check(properties, KIND_DICTIONARY, "IOSurfaceCreate")) return NULL;
    long size = property(properties, "IOSurfaceAllocSize"), width = property(properties, "IOSurfaceWidth"),
         height = property(properties, "IOSurfaceHeight"), row = property(properties, "IOSurfaceBytesPerRow"),
         element = property(properties, "IOSurfaceBytesPerElement");
    if (size < 1 || width * element > row || row * height > size || property(properties, "IOSurfacePixelFormat") < 0)
        return NULL;
    surface *s = calloc(1, sizeof *s);
    if (!s || !(s->memory = aligned_alloc(16384, ((size_t)size + 16383) / 16384 * 16384))) {
        free(s);
        return NULL;
    }
    s->size = (size_t)size;
    memset(s->memory, 0xee, s->size); /* nobody promised zeros */
    return standin_new("IOSurface", KIND_SURFACE, s, 0);
}

EXPORT int IOSurfaceLock(const object *o, uint32_t options, uint32_t *seed) {
    if (standin_is("lock", "fail") || !standin_check(o, KIND_SURFACE, "IOSurfaceLock")) return -536870206;
    surface *s = o->memory;
    __atomic_add_fetch(options & 1 ? &s->readers : &s->writers, 1, __ATOMIC_SEQ_CST);
    standin_count("locks", 1);
    return 0;
}

EXPORT int IOSurfaceUnlock(const object *o, uint32_t options, uint32_t *seed) {
    if (!standin_check(o, KIND_SURFACE, "IOSurfaceUnlock")) return -1;
    surface *s = o->memory;
    if (__atomic_sub_fetch(options & 1 ? &s->readers : &s->writers, 1, __ATOMIC_SEQ_CST) < 0)
        standin_violation("IOSurfaceUnlock: it was not locked that way");
    standin_count("locks", -1);
    return 0;
}

EXPORT void *IOSurfaceGetBaseAddress(const object *o) {
    if (!standin_check(o, KIND_SURFACE, "IOSurfaceGetBaseAddress")) return NULL;
    surface *s = o->memory;
    if (s->readers + s->writers == 0) standin_violation("IOSurfaceGetBaseAddress: the surface is not locked");
    return s->memory;
}

EXPORT size_t IOSurfaceGetAllocSize(const object *o) {
    return standin_check(o, KIND_SURFACE, "IOSurfaceGetAllocSize") ? ((surface *)o->memory)->size : 0;
}

/* engine.c's own objects. */
void standin_destroy_engine(object *o);

void standin_destroy(object *o) {
    if (o->kind == KIND_SURFACE) {
        surface *s = o->memory;
        if (s->readers || s->writers) standin_violation("a surface is released while it is locked");
        memset(s->memory, 0xdd, s->size);
        free(s->memory);
        free(s);
    } else if (strcmp(o->isa->name, "NSError") == 0) {
        destroy_error(o);
    } else {
        standin_destroy_engine(o);
    }
}
