/* SPDX-License-Identifier: MIT
 * Records a program's calls of Apple's Neural Engine classes: the methods of syms.def, one JSON object per line. The
 * library is loaded before the program starts (DYLD_INSERT_LIBRARIES on macOS, LD_PRELOAD with the stand-in). Each
 * method's code is replaced by a stub (stubs.S), which saves the argument registers, calls trace_enter, and continues
 * in the old code with the original arguments.
 *
 * Results are not recorded. A missing class or method is skipped, and the existing ones are traced. In the program,
 * only the code addresses of these methods change.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { UTF8 = 0x08000100, TEXT_MOST = 160, SINT64 = 4, STUBS = 128, STUB_BYTES = 16, DICTIONARY_MOST = 32 };

#define OWN __attribute__((visibility("hidden"))) /* hidden from the program */
OWN extern const char trace_stubs[];              /* STUBS pieces of STUB_BYTES each */
OWN void *trace_enter(uint64_t stub, const uint64_t *registers, const uint64_t *stack);

/* ---- the rows ------------------------------------------------------------------------------------------------------ */

enum {
#define CLASS(id, name, need) CLASS_##id,
#include "ane/driver/syms.def"
    CLASSES
};
static const char *const class_names[] = {
#define CLASS(id, name, need) name,
#include "ane/driver/syms.def"
};

typedef struct row {
    int class;
    char level;
    const char *selector;
} row;
static const row rows[] = {
#define METHOD(id, class, level, selector, encoding, need, result, parameters) {CLASS_##class, #level[0], selector},
#include "ane/driver/syms.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };
_Static_assert((int)ROWS <= (int)STUBS, "stubs.S has a stub for each row");

static void *originals[ROWS];
static const char *types[ROWS];

/* ---- the runtime --------------------------------------------------------------------------------------------------- */

static struct {
    void *(*objc_getClass)(const char *);
    void *(*sel_registerName)(const char *);
    void *(*class_getInstanceMethod)(void *, void *);
    void *(*class_getClassMethod)(void *, void *);
    const char *(*method_getTypeEncoding)(void *);
    void *(*method_setImplementation)(void *, void *);
    unsigned long (*CFGetTypeID)(const void *);
    unsigned long (*CFStringGetTypeID)(void);
    unsigned long (*CFNumberGetTypeID)(void);
    unsigned long (*CFArrayGetTypeID)(void);
    unsigned long (*CFDictionaryGetTypeID)(void);
    unsigned char (*CFStringGetCString)(const void *, char *, long, uint32_t);
    unsigned char (*CFNumberGetValue)(const void *, long, void *);
    long (*CFArrayGetCount)(const void *);
    const void *(*CFArrayGetValueAtIndex)(const void *, long);
    /* The following functions may be missing. */
    const char *(*object_getClassName)(const void *);
    long (*CFDictionaryGetCount)(const void *);
    void (*CFDictionaryGetKeysAndValues)(const void *, const void **, const void **);
} api;

static const char *const library_paths[] = {
#define LIBRARY(id, path) path,
#include "ane/driver/syms.def"
};

static void *trace_find(const char *symbol) {
    const char *own = getenv("PROPANE_ANE_LIBRARY");
    for (size_t i = 0; i < (own ? 1 : sizeof library_paths / sizeof library_paths[0]); i++) {
        void *library = dlopen(own ? own : library_paths[i], RTLD_NOW | RTLD_LOCAL);
        void *found = library ? dlsym(library, symbol) : NULL;
        if (found) return found;
    }
    return NULL;
}

static bool trace_find_api(void) {
    void *found;
    bool all = true;
#define FIND(name)                                                                                                     \
    found = trace_find(#name);                                                                                         \
    all = all && found;                                                                                                \
    memcpy(&api.name, &found, sizeof found);
    FIND(objc_getClass)
    FIND(sel_registerName)
    FIND(class_getInstanceMethod)
    FIND(class_getClassMethod)
    FIND(method_getTypeEncoding)
    FIND(method_setImplementation)
    FIND(CFGetTypeID)
    FIND(CFStringGetTypeID)
    FIND(CFNumberGetTypeID)
    FIND(CFArrayGetTypeID)
    FIND(CFDictionaryGetTypeID)
    FIND(CFStringGetCString)
    FIND(CFNumberGetValue)
    FIND(CFArrayGetCount)
    FIND(CFArrayGetValueAtIndex)
    bool enough = all;
    FIND(object_getClassName)
    FIND(CFDictionaryGetCount)
    FIND(CFDictionaryGetKeysAndValues)
    return enough;
}

/* ---- lines --------------------------------------------------------------------------------------------------------- */

typedef struct line {
    char text[4000];
    size_t length;
} line;

static void trace_put(line *l, const char *text) {
    size_t n = strlen(text), left = sizeof l->text - 40 - l->length; /* room for the end of the line */
    if (n > left) n = 0;
    memcpy(l->text + l->length, text, n);
    l->length += n;
}

static void trace_put_quoted(line *l, const char *text) {
    trace_put(l, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8] = {(char)c, 0};
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        trace_put(l, escaped);
    }
    trace_put(l, "\"");
}

static void trace_put_object(line *l, const void *object, int depth);

/* Writes a dictionary as a list that alternates keys and values, because keys need not be texts. */
static void trace_put_dictionary(line *l, const void *dictionary, int depth) {
    const void *keys[DICTIONARY_MOST], *values[DICTIONARY_MOST];
    long count = api.CFDictionaryGetCount(dictionary);
    if (count > DICTIONARY_MOST) {
        trace_put(l, "\"<a large dictionary>\"");
        return;
    }
    api.CFDictionaryGetKeysAndValues(dictionary, keys, values);
    trace_put(l, "{\"dictionary\":[");
    for (long i = 0; i < count; i++) {
        trace_put(l, i ? "," : "");
        trace_put_object(l, keys[i], depth + 1);
        trace_put(l, ",");
        trace_put_object(l, values[i], depth + 1);
    }
    trace_put(l, "]}");
}

/* Writes an object as its text, its number, its elements, or its class and address. */
static void trace_put_object(line *l, const void *object, int depth) {
    char text[TEXT_MOST + 1], shown[TEXT_MOST + 60];
    int64_t number = 0;
    if (!object) {
        trace_put(l, "null");
        return;
    }
    unsigned long type = api.CFGetTypeID(object);
    if (type == api.CFStringGetTypeID()) {
        if (!api.CFStringGetCString(object, text, TEXT_MOST, UTF8)) snprintf(text, sizeof text, "(a long text)");
        trace_put_quoted(l, text);
    } else if (type == api.CFNumberGetTypeID() && api.CFNumberGetValue(object, SINT64, &number)) {
        snprintf(shown, sizeof shown, "%lld", (long long)number);
        trace_put(l, shown);
    } else if (type == api.CFArrayGetTypeID() && depth < 2) {
        long count = api.CFArrayGetCount(object);
        trace_put(l, "[");
        for (long i = 0; i < count && i < 16; i++) {
            trace_put(l, i ? "," : "");
            trace_put_object(l, api.CFArrayGetValueAtIndex(object, i), depth + 1);
        }
        trace_put(l, count > 16 ? ",\"...\"]" : "]");
    } else if (type == api.CFDictionaryGetTypeID() && depth < 2 && api.CFDictionaryGetCount &&
               api.CFDictionaryGetKeysAndValues) {
        trace_put_dictionary(l, object, depth);
    } else {
        const char *name = api.object_getClassName               ? api.object_getClassName(object)
                           : type == api.CFDictionaryGetTypeID() ? "dictionary"
                                                                 : "object";
        snprintf(shown, sizeof shown, "<%.80s %p>", name, object);
        trace_put_quoted(l, shown);
    }
}

/* Returns the first letter of the next type of an encoding, and moves *at past the type and its offset. Returns 0 at
 * the end. */
static char trace_next_type(const char **at) {
    const char *p = *at;
    while (*p && strchr("rnNoORV", *p)) p++;
    char c = *p;
    if (!c) return 0;
    for (int depth = 0; *p; p++) {
        if (strchr("{([", *p)) depth++;
        if (strchr("})]", *p)) depth--;
        if (*p == '"') {
            p = strchr(p + 1, '"');
            if (!p) return 0;
        }
        if (depth == 0 && *p != '^') {
            p++;
            break;
        }
    }
    if (c == '@' && *p == '?') p++;
    while ((*p >= '0' && *p <= '9') || *p == '-') p++;
    *at = p;
    return c;
}

static void trace_put_argument(line *l, char type, uint64_t value) {
    char shown[40];
    switch (type) {
    case '@': trace_put_object(l, (const void *)(uintptr_t)value, 0); return;
    case 'c':
    case 'C':
    case 'B': snprintf(shown, sizeof shown, "%d", (int)(value & 0xff)); break;
    case 'i': snprintf(shown, sizeof shown, "%d", (int)(uint32_t)value); break;
    case 'I': snprintf(shown, sizeof shown, "%u", (unsigned)value); break;
    case 'q':
    case 'l': snprintf(shown, sizeof shown, "%lld", (long long)value); break;
    case 'Q':
    case 'L': snprintf(shown, sizeof shown, "%llu", (unsigned long long)value); break;
    default: snprintf(shown, sizeof shown, "\"0x%llx\"", (unsigned long long)value); break;
    }
    trace_put(l, shown);
}

/* ---- the log ------------------------------------------------------------------------------------------------------- */

static FILE *out;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool busy; /* while a call is recorded: describing an argument may call traced methods */

#if defined(__aarch64__)
enum { REGISTERS = 8 };
#else
enum { REGISTERS = 6 };
#endif

/* Returns the address at which the stub continues. `registers` are the integer argument registers; `stack` points to
 * the arguments on the stack. */
void *trace_enter(uint64_t stub, const uint64_t *registers, const uint64_t *stack) {
    const row *r = &rows[stub];
    if (busy || !out) return originals[stub];
    busy = true;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    static _Thread_local line l;
    l.length = 0;
    char head[100];
    snprintf(head, sizeof head, "{\"s\":%lld.%06ld,\"pid\":%d,\"call\":", (long long)now.tv_sec, now.tv_nsec / 1000,
             (int)getpid());
    trace_put(&l, head);
    snprintf(head, sizeof head, "%c[%s ", r->level, class_names[r->class]);
    char name[300];
    snprintf(name, sizeof name, "%s%s]", head, r->selector);
    trace_put_quoted(&l, name);
    trace_put(&l, ",\"self\":");
    trace_put_object(&l, (const void *)(uintptr_t)registers[0], 2);
    trace_put(&l, ",\"arguments\":[");
    const char *at = types[stub];
    trace_next_type(&at); /* skips the result, self and the selector */
    trace_next_type(&at);
    trace_next_type(&at);
    for (int i = 2;; i++) {
        char type = trace_next_type(&at);
        if (!type || strchr("fdD{(", type)) break; /* no row has such arguments */
        if (i > 2) trace_put(&l, ",");
        trace_put_argument(&l, type, i < REGISTERS ? registers[i] : stack[i - REGISTERS]);
    }
    memcpy(l.text + l.length, "]}\n", 4);
    pthread_mutex_lock(&mutex);
    fputs(l.text, out);
    fflush(out);
    pthread_mutex_unlock(&mutex);
    busy = false;
    return originals[stub];
}

static int trace_replace_methods(void) {
    int count = 0;
    for (int i = 0; i < (int)ROWS; i++) {
        if (strncmp(class_names[rows[i].class], "_ANE", 4) != 0) continue; /* other code also uses NSError */
        void *class = api.objc_getClass(class_names[rows[i].class]), *selector = api.sel_registerName(rows[i].selector);
        void *method = !class                 ? NULL
                       : rows[i].level == '+' ? api.class_getClassMethod(class, selector)
                                              : api.class_getInstanceMethod(class, selector);
        if (!method) continue;
        types[i] = api.method_getTypeEncoding(method);
        if (!types[i]) continue;
        void *stub;
        const char *address = trace_stubs + (size_t)i * STUB_BYTES;
        memcpy(&stub, &address, sizeof stub);
        /* The stub may run as soon as it is installed, so everything that it needs must be ready. Methods are replaced
         * before main, when nothing else runs. */
        originals[i] = stub;
        originals[i] = api.method_setImplementation(method, stub);
        count++;
    }
    return count;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("PROPANE_TRACE");
    if (!path || !*path) return;
    busy = true;
    if (!trace_find_api()) {
        const char *why = dlerror();
        fprintf(stderr, "propane trace: Apple's libraries were not found%s%s\n", why ? ": " : "", why ? why : "");
    } else {
        FILE *log = fopen(path, "ae");
        int count = log ? trace_replace_methods() : 0;
        if (!log) fprintf(stderr, "propane trace: %s cannot be written\n", path);
        if (log) fprintf(log, "{\"traced\":%d,\"of\":%d,\"pid\":%d}\n", count, (int)ROWS, (int)getpid());
        if (log) fflush(log);
        out = log;
    }
    busy = false;
}
