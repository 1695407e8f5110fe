/* SPDX-License-Identifier: MIT
 * Owns the lookup of Apple's names, and the few objects that are passed to them. Each row of syms.def is looked up
 * before any call, and the type encoding of each method is compared with the running system's. A method whose encoding
 * differs is never called, and is reported.
 *
 * PROPANE_ANE_LIBRARY names one library that replaces all of the system's. The tests load their stand-in this way.
 */
#include "ane/driver/objc_runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UTF8 = 0x08000100, SINT64 = 4 };

typedef enum library_index {
#define LIBRARY(id, path) LIBRARY_##id,
#include "ane/driver/syms.def"
    LIBRARY_COUNT
} library_index;

static const char *const library_paths[] = {
#define LIBRARY(id, path) path,
#include "ane/driver/syms.def"
};

typedef struct class_row {
    const char *name;
    ane_need need;
} class_row;

static const class_row class_rows[] = {
#define CLASS(id, name, need) {name, ANE_##need},
#include "ane/driver/syms.def"
};

typedef struct method_row {
    ane_class_index class;
    char level;
    const char *selector, *encoding;
    ane_need need;
} method_row;

static const method_row method_rows[] = {
#define METHOD(id, class, level, selector, encoding, need, result, parameters)                                         \
    {ANE_CLASS_##class, #level[0], selector, encoding, ANE_##need},
#include "ane/driver/syms.def"
};

/* ---- type encodings ----------------------------------------------------------------------------------------------------- */

/* Returns the next type of an encoding, reduced to the properties that matter for a call; 0 at the end. */
static char objc_next_type(const char **at) {
    const char *p = *at;
    while (*p && strchr("rnNoORVA0123456789+-", *p)) p++; /* qualifiers and offsets */
    char c = *p;
    if (!c) return 0;
    p++;
    if (c == '^' || c == '*') { /* a pointer to anything */
        if (c == '^') {
            const char *inner = p;
            (void)objc_next_type(&inner);
            p = inner;
        }
        c = '^';
    } else if (c == '@') {
        if (*p == '?') p++; /* a block */
        if (*p == '"') {
            p++;
            while (*p && *p != '"') p++;
            if (*p) p++;
        }
    } else if (c == '{' || c == '(' || c == '[') {
        char close = c == '{' ? '}' : c == '(' ? ')' : ']';
        int depth = 1;
        while (*p && depth) {
            if (*p == c) depth++;
            if (*p == close) depth--;
            p++;
        }
    } else if (strchr("qQlL", c)) {
        c = 'Q';
    } else if (strchr("iI", c)) {
        c = 'I';
    } else if (strchr("cC", c)) {
        c = 'B'; /* the encoding of BOOL on Intel Macs */
    }
    *at = p;
    return c;
}

bool ane_encoding_matches(const char *wanted, const char *found) {
    for (; *wanted; wanted++) {
        char type = objc_next_type(&found);
        if (!type || (*wanted != '*' && *wanted != type)) return false;
    }
    return objc_next_type(&found) == 0;
}

/* ---- lookup ------------------------------------------------------------------------------------------------------------- */

static void *libraries[LIBRARY_COUNT];

static propane_status objc_open_libraries(ane_api *a, propane_error *err) {
    const char *own = getenv("PROPANE_ANE_LIBRARY");
    a->library = own && *own ? own : NULL;
#ifndef __APPLE__
    if (!a->library)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: the Apple Neural Engine is available only on macOS; 'sim:m4' simulates one");
#endif
    for (int i = 0; i < LIBRARY_COUNT; i++) {
        const char *path = a->library ? a->library : library_paths[i];
        libraries[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (libraries[i]) continue;
        const char *why = dlerror();
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "ane: %s cannot be loaded: %.300s", path,
                            why ? why : "no reason was given");
    }
    return PROPANE_OK;
}

static propane_status objc_find_symbol(library_index library, const char *symbol, ane_need need, void *out,
                                       propane_error *err) {
    void *found = dlsym(libraries[library], symbol);
    if (!found && need == ANE_REQUIRED)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: %s has no '%s'; this version of the system is not supported", library_paths[library],
                            symbol);
    memcpy(out, &found, sizeof found); /* ISO C has no conversion from void * to a function pointer */
    return PROPANE_OK;
}

static propane_status objc_find_symbols(ane_api *a, propane_error *err) {
#define FUNCTION(symbol, library, need, result, parameters)                                                            \
    PROPANE_TRY(objc_find_symbol(LIBRARY_##library, #symbol, ANE_##need, &a->symbol, err));
#include "ane/driver/syms.def"
#define DATA(symbol, library, need)                                                                                    \
    PROPANE_TRY(objc_find_symbol(LIBRARY_##library, #symbol, ANE_##need, &a->symbol, err));
#include "ane/driver/syms.def"
    return PROPANE_OK;
}

/* Returns the method's encoding, or NULL if the class or the method is missing. */
static const char *objc_find_encoding(const ane_api *a, const method_row *row, ane_sel selector) {
    ane_class c = a->classes[row->class];
    if (!c) return NULL;
    ane_method m = row->level == '+' ? a->class_getClassMethod(c, selector) : a->class_getInstanceMethod(c, selector);
    return m ? a->method_getTypeEncoding(m) : NULL;
}

static propane_status objc_check_class(const ane_api *a, int index, propane_error *err) {
    if (a->classes[index]) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "ane: the class %s is missing; this version of the system is not supported",
                        class_rows[index].name);
}

static propane_status objc_check_method(const ane_api *a, int index, propane_error *err) {
    const method_row *row = &method_rows[index];
    const char *class = class_rows[row->class].name, *found = objc_find_encoding(a, row, a->selectors[index]);
    if (!found)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: %c[%s %s] is missing; this version of the system is not supported", row->level, class,
                            row->selector);
    if (!ane_encoding_matches(row->encoding, found))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: %c[%s %s] has the type '%.80s', not '%s', so calling it would be unsafe; this "
                            "version of the system is not supported",
                            row->level, class, row->selector, found, row->encoding);
    return PROPANE_OK;
}

/* Records why a route is unavailable. The first reason is kept. */
static void objc_note_route(ane_api *a, ane_need need, propane_status status, const propane_error *why) {
    if (status == PROPANE_OK || (need != ANE_MEMORY && need != ANE_CLIENT)) return;
    if (a->route[need - ANE_MEMORY].status == PROPANE_OK) a->route[need - ANE_MEMORY] = *why;
}

/* Looks up all classes and methods, even if some are missing, because the list of names is most useful then. */
static propane_status objc_find_classes(ane_api *a, propane_error *err) {
    propane_error missing = {0};
    for (int i = 0; i < ANE_CLASS_COUNT; i++) {
        propane_error why = {0};
        a->classes[i] = a->objc_getClass(class_rows[i].name);
        propane_status status = objc_check_class(a, i, &why);
        if (status != PROPANE_OK && class_rows[i].need == ANE_REQUIRED && !missing.status) missing = why;
        objc_note_route(a, class_rows[i].need, status, &why);
    }
    for (int i = 0; i < ANE_METHOD_COUNT; i++) {
        propane_error why = {0};
        a->selectors[i] = a->sel_registerName(method_rows[i].selector);
        propane_status status = objc_check_method(a, i, &why);
        a->has[i] = status == PROPANE_OK;
        if (!a->has[i] && method_rows[i].need == ANE_REQUIRED && !missing.status) missing = why;
        objc_note_route(a, method_rows[i].need, status, &why);
    }
    if (!missing.status && a->route[0].status != PROPANE_OK && a->route[1].status != PROPANE_OK) missing = a->route[0];
    return missing.status ? propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s", missing.text) : PROPANE_OK;
}

static propane_status objc_check_engine(const ane_api *a, propane_error *err) {
    if (!ANE_HAS(a, has_engine) || ANE_SEND0(a, has_engine, ANE_CLASS(a, device_info))) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "ane: this machine has no Neural Engine (_ANEDeviceInfo says so): an Intel Mac or a virtual "
                        "machine has none");
}

/* ---- exceptions --------------------------------------------------------------------------------------------------------- */

/* C has no @catch, so an exception raised by a call ends the process. objc_on_exception runs first, then the handler of
 * the host or the system. */
_Thread_local int ane_last_call;
static const ane_api *objc_raised_in;
static ane_on_exception objc_next_handler;

static void objc_on_exception(ane_id exception) {
    const ane_api *a = objc_raised_in;
    const method_row *row = ane_last_call ? &method_rows[ane_last_call - 1] : NULL;
    char name[100] = "an exception", reason[800] = "no reason was given";
    if (ANE_HAS(a, exception_name)) (void)ane_text_of(a, ANE_SEND0(a, exception_name, exception), name, sizeof name);
    if (ANE_HAS(a, exception_reason))
        (void)ane_text_of(a, ANE_SEND0(a, exception_reason, exception), reason, sizeof reason);
    fprintf(stderr, "propane: ane: %s was raised: %s; ", name, reason);
    if (row)
        fprintf(stderr, "the device's last call in this thread was %c[%s %s]\n", row->level,
                class_rows[row->class].name, row->selector);
    else
        fprintf(stderr, "the device made no call in this thread\n");
    fflush(stderr);
    if (objc_next_handler) objc_next_handler(exception);
}

static void objc_watch_exceptions(const ane_api *a) {
    if (!a->NSSetUncaughtExceptionHandler) return;
    objc_raised_in = a;
    if (a->NSGetUncaughtExceptionHandler) objc_next_handler = a->NSGetUncaughtExceptionHandler();
    a->NSSetUncaughtExceptionHandler(objc_on_exception);
}

static propane_status objc_load(ane_api *a, propane_error *err) {
    PROPANE_TRY(objc_open_libraries(a, err));
    PROPANE_TRY(objc_find_symbols(a, err));
    PROPANE_TRY(objc_find_classes(a, err));
    objc_watch_exceptions(a);
    PROPANE_TRY(objc_check_engine(a, err));
    a->empty = ane_dictionary(a, NULL, NULL, 0);
    return a->empty ? PROPANE_OK : propane_fail_memory(err, 0);
}

static pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;
static ane_api loaded;
static bool load_tried;
static propane_error load_error;

propane_status ane_api_get(const ane_api **out, propane_error *err) {
    pthread_mutex_lock(&load_mutex);
    if (!load_tried) {
        load_tried = true;
        load_error.status = objc_load(&loaded, &load_error);
    }
    pthread_mutex_unlock(&load_mutex);
    *out = &loaded;
    return load_error.status == PROPANE_OK ? PROPANE_OK : propane_fail(err, load_error.status, "%s", load_error.text);
}

const ane_late *ane_late_get(const ane_api *a) {
    static ane_late late;
    static bool tried;
    pthread_mutex_lock(&load_mutex);
    if (!tried) {
        void *library = NULL, *found = NULL;
#define LATE(symbol, path, result, parameters)                                                                         \
    library = dlopen(a->library ? a->library : path, RTLD_NOW | RTLD_LOCAL);                                           \
    found = library ? dlsym(library, #symbol) : NULL;                                                                  \
    memcpy(&late.symbol, &found, sizeof found);
#include "ane/driver/syms.def"
        tried = true;
    }
    pthread_mutex_unlock(&load_mutex);
    return &late;
}

bool ane_answers(const ane_api *a, ane_id object, ane_method_index method) {
    ane_method m = object ? a->class_getInstanceMethod(a->object_getClass(object), a->selectors[method]) : NULL;
    return m && ane_encoding_matches(method_rows[method].encoding, a->method_getTypeEncoding(m));
}

bool ane_meet(const ane_api *a, ane_class_index protocol, ane_id object) {
    bool all = object != NULL;
    pthread_mutex_lock(&load_mutex);
    if (all && !loaded.classes[protocol]) {
        loaded.classes[protocol] = a->object_getClass(object);
        for (int i = 0; i < ANE_METHOD_COUNT; i++) {
            propane_error why = {0};
            if (method_rows[i].class == protocol) loaded.has[i] = objc_check_method(a, i, &why) == PROPANE_OK;
        }
    }
    for (int i = 0; i < ANE_METHOD_COUNT && all; i++)
        if (method_rows[i].class == protocol) all = loaded.has[i];
    pthread_mutex_unlock(&load_mutex);
    return all;
}

/* Returns true for a protocol if none of its objects has been met yet. */
static bool objc_is_unmet(const ane_api *a, int class) {
    return class_rows[class].name[0] == '<' && !a->classes[class];
}

void ane_api_list(text *out) {
    static const char *const needs[] = {"required", "for ane:memory", "for ane:client", "optional"};
    const ane_api *a = NULL;
    propane_error why = {0};
    bool usable = ane_api_get(&a, &why) == PROPANE_OK;
    if (!usable) text_printf(out, "%s\n", why.text);
    for (int i = 0; i < LIBRARY_COUNT; i++)
        text_printf(out, "%-8s library %s\n", libraries[i] ? "there" : "missing",
                    a->library ? a->library : library_paths[i]);
#define FUNCTION(symbol, library, need, result, parameters)                                                            \
    text_printf(out, "%-8s function %s\n", a->symbol ? "there" : "missing", #symbol);
#include "ane/driver/syms.def"
    const ane_late *late = ane_late_get(a);
#define LATE(symbol, path, result, parameters)                                                                         \
    text_printf(out, "%-8s function %s (optional)\n", late->symbol ? "there" : "missing", #symbol);
#include "ane/driver/syms.def"
#define DATA(symbol, library, need) text_printf(out, "%-8s constant %s\n", a->symbol ? "there" : "missing", #symbol);
#include "ane/driver/syms.def"
    for (int i = 0; i < ANE_CLASS_COUNT; i++)
        text_printf(out, "%-8s class %s (%s)\n",
                    a->classes[i]         ? "there"
                    : objc_is_unmet(a, i) ? "unmet"
                                          : "missing",
                    class_rows[i].name, needs[class_rows[i].need]);
    for (int i = 0; i < ANE_METHOD_COUNT; i++) {
        const method_row *row = &method_rows[i];
        const char *found = a->selectors[i] ? objc_find_encoding(a, row, a->selectors[i]) : NULL;
        text_printf(out, "%-8s method %c[%s %s] %s (%s)\n",
                    a->has[i]                      ? "there"
                    : objc_is_unmet(a, row->class) ? "unmet"
                    : found                        ? "differs"
                                                   : "missing",
                    row->level, class_rows[row->class].name, row->selector, found ? found : row->encoding,
                    needs[row->need]);
    }
}

void ane_machine(const ane_api *a, char architecture[60], int64_t *cores, char build[60]) {
    ane_id info = ANE_CLASS(a, device_info);
    void *pool = a->objc_autoreleasePoolPush();
    snprintf(architecture, 60, "?");
    snprintf(build, 60, "?");
    *cores = ANE_HAS(a, cores) ? ANE_SEND0(a, cores, info) : 0;
    if (ANE_HAS(a, architecture)) (void)ane_text_of(a, ANE_SEND0(a, architecture, info), architecture, 60);
    if (ANE_HAS(a, build)) (void)ane_text_of(a, ANE_SEND0(a, build, info), build, 60);
    a->objc_autoreleasePoolPop(pool);
}

/* Reads the last word in the last parentheses, such as 25D2128 in "Version 26.3.1 (a) (Build 25D2128)". */
static void objc_read_build(const char *from, char build[24]) {
    const char *open = strrchr(from, '('), *close = open ? strchr(open, ')') : NULL;
    const char *word = close;
    while (word && word > open + 1 && word[-1] != ' ') word--;
    if (close) snprintf(build, 24, "%.*s", (int)(close - word), word);
}

bool ane_system(const ane_api *a, ane_system_version *out) {
    char words[160] = "";
    *out = (ane_system_version){0};
    if (!ANE_HAS(a, process_info) || !ANE_HAS(a, system_version)) return false;
    void *pool = a->objc_autoreleasePoolPush();
    ane_id info = ANE_SEND0(a, process_info, ANE_CLASS(a, process_info));
    bool known = info && ane_text_of(a, ANE_SEND0(a, system_version, info), words, sizeof words);
    a->objc_autoreleasePoolPop(pool);
    known =
        known && sscanf(words + strcspn(words, "0123456789"), "%d.%d.%d", &out->major, &out->minor, &out->patch) > 0;
    if (known) objc_read_build(words, out->build);
    return known;
}

/* ---- objects ------------------------------------------------------------------------------------------------------------ */

ane_id ane_string(const ane_api *a, const char *from) { return a->CFStringCreateWithCString(NULL, from, UTF8); }

ane_id ane_data(const ane_api *a, const void *bytes, size_t length) {
    return a->CFDataCreate(NULL, bytes, (long)length);
}

ane_id ane_number(const ane_api *a, int64_t value) { return a->CFNumberCreate(NULL, SINT64, &value); }

ane_id ane_array(const ane_api *a, const ane_id *values, int count) {
    return a->CFArrayCreate(NULL, (const void **)(uintptr_t)values, count, a->kCFTypeArrayCallBacks);
}

ane_id ane_dictionary(const ane_api *a, const void *const *keys, const ane_id *values, int count) {
    return a->CFDictionaryCreate(NULL, (const void **)(uintptr_t)keys, (const void **)(uintptr_t)values, count,
                                 a->kCFTypeDictionaryKeyCallBacks, a->kCFTypeDictionaryValueCallBacks);
}

void ane_release(const ane_api *a, ane_id object) {
    if (object) a->objc_release(object);
}

bool ane_text_of(const ane_api *a, ane_id string, char *out, size_t size) {
    return string && a->CFGetTypeID(string) == a->CFStringGetTypeID() &&
           a->CFStringGetCString(string, out, (long)size, UTF8);
}

bool ane_number_of(const ane_api *a, ane_id number, int64_t *out) {
    return number && a->CFGetTypeID(number) == a->CFNumberGetTypeID() && a->CFNumberGetValue(number, SINT64, out);
}

int ane_array_count(const ane_api *a, ane_id array) {
    return array && a->CFGetTypeID(array) == a->CFArrayGetTypeID() ? (int)a->CFArrayGetCount(array) : 0;
}

ane_id ane_array_at(const ane_api *a, ane_id array, int index) {
    return index < ane_array_count(a, array) ? a->CFArrayGetValueAtIndex(array, index) : NULL;
}

ane_id ane_entry(const ane_api *a, ane_id dictionary, const char *key) {
    if (!dictionary || a->CFGetTypeID(dictionary) != a->CFDictionaryGetTypeID()) return NULL;
    ane_id name = ane_string(a, key);
    ane_id value = name ? a->CFDictionaryGetValue(dictionary, name) : NULL;
    ane_release(a, name);
    return value;
}

bool ane_entry_number(const ane_api *a, ane_id dictionary, const char *key, int64_t *out) {
    return ane_number_of(a, ane_entry(a, dictionary, key), out);
}
