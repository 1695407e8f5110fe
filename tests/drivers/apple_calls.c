/* SPDX-License-Identifier: MIT
 * Owns finding Apple's names in the stand-in, and the objects that its calls require.
 */
#include "drivers/apple_calls.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/float16.h"
#include "support/test.h"

enum { UTF8 = 0x08000100, SINT64 = 4, QOS = 21, RECORD = 64 };

void *calls_find(const char *symbol) {
    static void *library;
    if (!library) library = dlopen(getenv("PROPANE_ANE_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    EXPECT_MSG(library, "%s", dlerror());
    void *found = dlsym(library, symbol);
    EXPECT_MSG(found, "%s", symbol);
    return found;
}

/* Returns a function of the library, cast to `type`. */
#define FOUND(type, symbol) ((type)(uintptr_t)calls_find(symbol))
#define POINTER(symbol)     (*(void *const *)calls_find(symbol))

void (*calls_send(void))(void) { return FOUND(void (*)(void), "objc_msgSend"); }
SEL calls_selector(const char *name) { return FOUND(SEL(*)(const char *), "sel_registerName")(name); }

id calls_class(const char *name) {
    id found = FOUND(id(*)(const char *), "objc_getClass")(name);
    EXPECT_MSG(found, "class %s", name);
    return found;
}

void standin_to(const char *key, const char *value) {
    FOUND(void (*)(const char *, const char *), "standin_set")(key, value);
}
long standin_counter(const char *name) { return FOUND(long (*)(const char *), "standin_get")(name); }
const char *standin_complaint(void) { return FOUND(const char *(*)(void), "standin_last_violation")(); }

/* ---- objects -------------------------------------------------------------------------------------------------------- */

id new_string(const char *text) {
    return FOUND(id(*)(void *, const char *, uint32_t), "CFStringCreateWithCString")(NULL, text, UTF8);
}
id new_number(int64_t value) {
    return FOUND(id(*)(void *, long, const void *), "CFNumberCreate")(NULL, SINT64, &value);
}
id new_data(const void *bytes, size_t length) {
    return FOUND(id(*)(void *, const void *, long), "CFDataCreate")(NULL, bytes, (long)length);
}
id new_array(int count, const id *values) {
    return FOUND(id(*)(void *, const id *, long, const void *), "CFArrayCreate")(NULL, values, count,
                                                                                 calls_find("kCFTypeArrayCallBacks"));
}
id new_dictionary(int count, const id *keys, const id *values) {
    return FOUND(id(*)(void *, const id *, const id *, long, const void *, const void *),
                 "CFDictionaryCreate")(NULL, keys, values, count, calls_find("kCFTypeDictionaryKeyCallBacks"),
                                       calls_find("kCFTypeDictionaryValueCallBacks"));
}
id new_url(const char *path) {
    return FOUND(id(*)(void *, id, long, unsigned char), "CFURLCreateWithFileSystemPath")(NULL, new_string(path), 0, 1);
}

id new_surface(size_t bytes) {
    id keys[] = {POINTER("kIOSurfaceWidth"),       POINTER("kIOSurfaceHeight"),    POINTER("kIOSurfaceBytesPerElement"),
                 POINTER("kIOSurfaceBytesPerRow"), POINTER("kIOSurfaceAllocSize"), POINTER("kIOSurfacePixelFormat")};
    int64_t size = (int64_t)bytes;
    id values[] = {new_number(size), new_number(1), new_number(1), new_number(size), new_number(size), new_number(0)};
    id made = FOUND(id(*)(id), "IOSurfaceCreate")(new_dictionary(6, keys, values));
    EXPECT(made);
    return made;
}

id calls_retain(id object) { return FOUND(id(*)(id), "objc_retain")(object); }
void calls_release(id object) { FOUND(void (*)(id), "objc_release")(object); }
void *calls_pool(void) { return FOUND(void *(*)(void), "objc_autoreleasePoolPush")(); }
void calls_drain(void *pool) { FOUND(void (*)(void *), "objc_autoreleasePoolPop")(pool); }

const char *text_of(id string) {
    static char text[4][1400];
    static int turn;
    char *out = text[turn++ % 4];
    EXPECT(string &&
           FOUND(unsigned char (*)(id, char *, long, uint32_t), "CFStringGetCString")(string, out, 1400, UTF8));
    return out;
}
int64_t number_of(id number) {
    int64_t value = 0;
    EXPECT(FOUND(unsigned char (*)(id, long, void *), "CFNumberGetValue")(number, SINT64, &value));
    return value;
}
id entry_of(id dictionary, const char *key) {
    id name = new_string(key), found = FOUND(id(*)(id, id), "CFDictionaryGetValue")(dictionary, name);
    calls_release(name);
    return found;
}
int count_of(id array) { return (int)FOUND(long (*)(id), "CFArrayGetCount")(array); }
id element_of(id array, int index) { return FOUND(id(*)(id, long), "CFArrayGetValueAtIndex")(array, index); }
id temporary_directory(void) { return FOUND(id(*)(void), "NSTemporaryDirectory")(); }

/* ---- numbers in surfaces -------------------------------------------------------------------------------------------- */

static unsigned char *lock(id surface, uint32_t how) {
    EXPECT(FOUND(int (*)(id, uint32_t, void *), "IOSurfaceLock")(surface, how, NULL) == 0);
    return FOUND(unsigned char *(*)(id), "IOSurfaceGetBaseAddress")(surface);
}
static void unlock(id surface, uint32_t how) {
    EXPECT(FOUND(int (*)(id, uint32_t, void *), "IOSurfaceUnlock")(surface, how, NULL) == 0);
}

void put_halves(id surface, int count, float first, float step) {
    unsigned char *at = lock(surface, 0);
    for (int i = 0; i < count; i++) {
        uint16_t half = fp16_from_f32(first + step * (float)i);
        memcpy(at + 2 * i, &half, 2);
    }
    unlock(surface, 0);
}

float half_at(id surface, int index) {
    uint16_t half;
    memcpy(&half, lock(surface, 1) + 2 * index, 2);
    unlock(surface, 1);
    return fp16_to_f32(half);
}

/* ---- errors --------------------------------------------------------------------------------------------------------- */

long code_of(id error) { return error ? CALL(long, (id, SEL, int), error, "code", 0) : 0; }
const char *error_text(id error) { return error ? text_of(GET(error, "localizedDescription")) : "no error"; }
int64_t underlying_of(id error) {
    id number = entry_of(GET(error, "userInfo"), "_ANEErrorUnderlyingStatus");
    return number ? number_of(number) : -1;
}

/* ---- models --------------------------------------------------------------------------------------------------------- */

id new_descriptor(const char *text, const file_entry *files, int count) {
    id keys[8], values[8], names[] = {new_string("offset"), new_string("data")};
    for (int i = 0; i < count; i++) {
        char path[200];
        id entry[] = {new_number(0), new_data(files[i].bytes, files[i].length)};
        snprintf(path, sizeof path, "@model_path/%s", files[i].path);
        keys[i] = new_string(path);
        values[i] = new_dictionary(2, names, entry);
    }
    id made = CALL(id, (id, SEL, id, id, id), calls_class("_ANEInMemoryModelDescriptor"),
                   "modelWithMILText:weights:optionsPlist:", new_data(text, strlen(text)),
                   new_dictionary(count, keys, values), NULL);
    EXPECT(made);
    return made;
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t length) {
    propane_error err = {0};
    char path[1600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    EXPECT_OK(file_write_scratch(path, bytes, length, &err));
}

void write_bundle(const char *folder, const char *text, const file_entry *files, int count) {
    propane_error err = {0};
    char path[1600];
    EXPECT_OK(file_make_dir(folder, &err));
    snprintf(path, sizeof path, "%s/weights", folder);
    EXPECT_OK(file_make_dir(path, &err));
    write_file(folder, "model.mil", text, strlen(text));
    for (int i = 0; i < count; i++) write_file(folder, files[i].path, files[i].bytes, files[i].length);
}

void remove_folder(const char *folder) {
    propane_error err = {0};
    EXPECT_OK(file_remove_tree(folder, &err));
}

static id empty(void) { return new_dictionary(0, NULL, NULL); }

bool memory_compile(id model, id *error) {
    return CALL(bool, (id, SEL, uint32_t, id, id *), model, "compileWithQoS:options:error:", QOS, empty(), error);
}
bool memory_load(id model, id *error) {
    return CALL(bool, (id, SEL, uint32_t, id, id *), model, "loadWithQoS:options:error:", QOS, empty(), error);
}
bool memory_evaluate(id model, id request, id options, id *error) {
    return CALL(bool, (id, SEL, uint32_t, id, id, id *), model, "evaluateWithQoS:options:request:error:", QOS,
                options ? options : empty(), request, error);
}
bool memory_unload(id model, id *error) {
    return CALL(bool, (id, SEL, uint32_t, id *), model, "unloadWithQoS:error:", QOS, error);
}

id wrap_surface(id surface) {
    return CALL(id, (id, SEL, id), calls_class("_ANEIOSurfaceObject"), "objectWithIOSurface:", surface);
}

id new_request(int inputs, const id *input, int outputs, const id *output, int procedure) {
    id lists[4], wrapped[16], index[16];
    for (int side = 0; side < 2; side++) {
        int count = side ? outputs : inputs;
        for (int i = 0; i < count; i++) {
            wrapped[i] = wrap_surface((side ? output : input)[i]);
            index[i] = new_number(i);
        }
        lists[2 * side] = new_array(count, wrapped);
        lists[2 * side + 1] = new_array(count, index);
    }
    id made =
        CALL(id, (id, SEL, id, id, id, id, id, id, id), calls_class("_ANERequest"),
             "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:", lists[0],
             lists[1], lists[2], lists[3], NULL, NULL, new_number(procedure));
    EXPECT(made);
    return made;
}

enum { MOST_FILES = 1000 };
static void *kept[MOST_FILES]; /* objects that others hold until the process ends are not leaks */
static int kept_files;

weight_file make_weights(int count, int halves, const float *value, uint64_t place, bool headers) {
    weight_file f = {0};
    size_t payload = ((size_t)halves * 2 + RECORD - 1) / RECORD * RECORD;
    size_t step = (headers ? 2 : 1) * (size_t)RECORD + payload;
    f.length = (headers ? 0 : (size_t)RECORD) + (size_t)count * step;
    f.bytes = calloc(1, f.length);
    EXPECT(f.bytes && kept_files < MOST_FILES);
    kept[kept_files++] = f.bytes;
    const uint32_t version = 2, sentinel = 0xDEADBEEFu, type = 1, all = headers ? 1 : (uint32_t)count;
    for (int k = 0; k < count; k++) {
        size_t at = (size_t)k * step + RECORD; /* offset of the record */
        uint64_t bytes = (uint64_t)halves * 2, data = place && k ? place : at + RECORD;
        f.offset[k] = (unsigned)at;
        if (headers || k == 0) {
            memcpy(f.bytes + at - RECORD, &all, 4);
            memcpy(f.bytes + at - RECORD + 4, &version, 4);
        }
        memcpy(f.bytes + at, &sentinel, 4);
        memcpy(f.bytes + at + 4, &type, 4);
        memcpy(f.bytes + at + 8, &bytes, 8);
        memcpy(f.bytes + at + 16, &data, 8);
        for (int i = 0; i < halves; i++) {
            uint16_t half = fp16_from_f32(value[k]);
            memcpy(f.bytes + at + RECORD + 2 * i, &half, 2);
        }
    }
    return f;
}
