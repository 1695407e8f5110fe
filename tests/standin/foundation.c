/* SPDX-License-Identifier: MIT
 * Owns strings, numbers, data, arrays, dictionaries, URLs, errors and surfaces: those functions of CoreFoundation and
 * IOSurface that the driver needs.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/engine.h"

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
    object *domain, *text, *description, *info;
    long code;
} error_data;

object *standin_error(const char *domain, long code, const char *text, long underlying, long stage) {
    char whole[1100];
    error_data *e = malloc(sizeof *e);
    if (!e) abort();
    int count = 1;
    object *keys[3] = {standin_string("NSLocalizedDescription")}, *values[3] = {standin_string(text)};
    if (underlying >= 0) {
        keys[count] = standin_string("_ANEErrorUnderlyingStatus");
        values[count++] = standin_integer(underlying);
    }
    if (stage >= 0) {
        keys[count] = standin_string("_ANEErrorLoadStage");
        values[count++] = standin_integer(stage);
    }
    snprintf(whole, sizeof whole, "Error Domain=%s Code=%ld \"%s\"", domain, code, text);
    *e = (error_data){standin_string(domain), standin_string(text), standin_string(whole),
                      standin_make_dictionary(keys, values, count), code};
    return standin_autorelease(standin_new("NSError", KIND_OTHER, e, 0));
}

static void destroy_error(object *o) {
    error_data *e = o->memory;
    standin_release(e->domain);
    standin_release(e->text);
    standin_release(e->description);
    standin_release(e->info);
    free(e);
}

static long error_code(const object *self, const char *selector) { return ((error_data *)self->memory)->code; }
static object *error_domain(const object *self, const char *selector) { return ((error_data *)self->memory)->domain; }
static object *error_description(const object *self, const char *selector) {
    return ((error_data *)self->memory)->description;
}
static object *error_text(const object *self, const char *selector) { return ((error_data *)self->memory)->text; }
static object *error_info(const object *self, const char *selector) { return ((error_data *)self->memory)->info; }

static object *exception_name(const object *self, const char *selector) { return standin_entry(self->memory, "name"); }
static object *exception_reason(const object *self, const char *selector) {
    return standin_entry(self->memory, "reason");
}

/* A set of indices: numbers in ascending order. */
static unsigned long set_count(const object *self, const char *selector) { return (unsigned long)self->count; }
static unsigned long set_behind(const object *self, const char *selector, unsigned long index) {
    for (long i = 0; i < self->count; i++)
        if (((const unsigned long *)self->memory)[i] > index) return ((const unsigned long *)self->memory)[i];
    return LONG_MAX; /* NSNotFound */
}
static unsigned long set_first(const object *self, const char *selector) {
    return self->count ? *(const unsigned long *)self->memory : LONG_MAX;
}

static object *list_at(const object *self, const char *selector, unsigned long index) {
    if (index < (unsigned long)self->count) return ((object **)self->memory)[index];
    standin_raise("NSRangeException", "index %lu is beyond a list of %ld", index, self->count);
}

/* ---- the process and its system ------------------------------------------------------------------------------------ */

static object *system_version(const object *self, const char *selector) {
    static const char *const versions[] = {"15.5 (Build 24F74)", "26.3.1 (Build 25D2128)", "27.0.1 (Build 26A434)"};
    char text[80];
    long major = standin_number("system", 0);
    snprintf(text, sizeof text, "Version %s", versions[major == 15 ? 0 : major - 25]);
    return standin_autorelease(standin_string(text));
}

static object *process_info(object *self, const char *selector) {
    static object *shared;
    if (!shared) {
        shared = standin_new("NSProcessInfo", KIND_OTHER, NULL, 0);
        standin_count("objects", -1); /* not counted, because it lives as long as the process */
    }
    return shared;
}

#define CODE(function) ((void (*)(void))(function))

const method standin_foundation_methods[] = {
    {"NSError", '-', "code", "q16@0:8", CODE(error_code)},
    {"NSError", '-', "domain", "@16@0:8", CODE(error_domain)},
    {"NSError", '-', "description", "@16@0:8", CODE(error_description)},
    {"NSError", '-', "localizedDescription", "@16@0:8", CODE(error_text)},
    {"NSError", '-', "userInfo", "@16@0:8", CODE(error_info)},
    {"NSException", '-', "name", "@16@0:8", CODE(exception_name)},
    {"NSException", '-', "reason", "@16@0:8", CODE(exception_reason)},
    {"NSIndexSet", '-', "count", "Q16@0:8", CODE(set_count)},
    {"NSIndexSet", '-', "firstIndex", "Q16@0:8", CODE(set_first)},
    {"NSIndexSet", '-', "indexGreaterThanIndex:", "Q24@0:8Q16", CODE(set_behind)},
    {"NSArray", '-', "count", "Q16@0:8", CODE(set_count)},
    {"NSArray", '-', "objectAtIndex:", "@24@0:8Q16", CODE(list_at)},
    {"NSProcessInfo", '+', "processInfo", "@16@0:8", CODE(process_info)},
    {"NSProcessInfo", '-', "operatingSystemVersionString", "@16@0:8", CODE(system_version)},
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

/* As on a Mac, the path has a slash at the end and does not depend on TMPDIR. */
EXPORT object *NSTemporaryDirectory(void) {
    char path[1300];
    snprintf(path, sizeof path, "%s/", standin_temporary());
    return standin_autorelease(standin_string(path));
}

EXPORT const long _NSConcreteGlobalBlock[32] = {0};

/* ---- surfaces ------------------------------------------------------------------------------------------------------------------ */

/* Constants live as long as the process, so they are not counted as objects that must be released. */
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
    standin_count("surface_bytes", size);
    memset(s->memory, 0xee, s->size); /* zeros are not guaranteed */
    return standin_new("IOSurface", KIND_SURFACE, s, 0);
}

EXPORT int IOSurfaceLock(const object *o, uint32_t options, uint32_t *seed) {
    standin_count("lock_calls", 1);
    bool fails = standin_is("lock", "fail") &&
                 (!standin_switch("lock_at") || standin_number("lock_at", 0) == standin_counted("lock_calls"));
    if (fails || !standin_check(o, KIND_SURFACE, "IOSurfaceLock")) return -536870206;
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

void standin_destroy(object *o) {
    if (o->kind == KIND_SURFACE) {
        standin_count("surface_bytes", -(long)((surface *)o->memory)->size);
        surface *s = o->memory;
        if (s->readers || s->writers) standin_violation("a surface is released while it is locked");
        memset(s->memory, 0xdd, s->size);
        free(s->memory);
        free(s);
    } else if (strcmp(o->isa->name, "NSError") == 0) {
        destroy_error(o);
    } else if (strcmp(o->isa->name, "NSException") == 0) {
        standin_release(o->memory);
    } else if (!standin_destroy_request(o)) {
        standin_destroy_model(o);
    }
}
