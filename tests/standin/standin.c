/* SPDX-License-Identifier: MIT
 * Owns switches and counters. A switch that is not in the list is an error in the test and ends the process.
 */
#include "standin/standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One row per switch: its default values, by system. */
enum { SYSTEMS = 3 };
static const struct {
    const char *key, *standard[SYSTEMS]; /* macOS 15, 26, 27 */
} known[] = {
    {"system", {"15", "26", "27"}}, /* of Apple's: 15, 26, 27; selects the defaults of the other rows */
    {"build", {"24-stand-in", "25-stand-in", "26-stand-in"}}, /* beginnings of Apple's build numbers */
    {"temporary", {0}}, /* the system's folder for the user; TMPDIR does not change it */

    /* Differences between systems. */
    {"files", {0, 0, "one"}},      /* one: the memory route refuses a program with several weight files */
    {"bundle", {0, 0, "checked"}}, /* checked: a file that is not where the framework looks has its own error code */
    {"tmpdir", {0}},               /* own: on the memory route no program compiles in a process with another TMPDIR */
    {"contents", {"equal", "equal", 0}}, /* equal: a file must match its entry in the dictionary */
    {"texts", {0, 0, "new"}},            /* new: shapes and codes of errors */
    {"sizes", {0, 0, "any"}},            /* any: surfaces of one side may differ in size */
    {"limit", {"119", "119", "0"}},      /* compiles per process; 0: unlimited */
    {"pool", {"0", "0", "115"}},         /* loaded programs of all processes; 0: unlimited */
    {"idle", {"0", "0", "5000"}},        /* ms until the engine is off, as before the first evaluation; 0: never */
    /* none: no real-time call answers YES; fail; task: only beginRealTimeTask answers NO; untasked: it does, and
     * no task is needed; crash; wrong: it answers with the previous contents */
    {"realtime", {0, 0, "none"}},
    {"events", {0, 0, "client"}}, /* client: on the memory route shared events are never signalled; ignored: nowhere */
    {"statistics_object", {0, 0, "array"}}, /* array: a request's perfStats of another class raises */
    /* raises: a client does not know _ANEInMemoryModel; attributes: that class does not know its attributes either */
    {"wrapper", {0, 0, "raises"}},
    {"names", {"options", "options", "weights"}}, /* the part after the text's hash in a program's name */
    {"affine", {"any", "refused", "scalar"}},     /* constexpr_affine_dequantize: any; scalar: of the scale; refused */
    {"int8", {0, 0, "refused"}},                  /* in a function's signature */
    {"float32", {0}},                             /* refused: in a function's signature */

    /* Faults. */
    {"hide_class", {0}},  /* this class does not exist */
    {"hide_method", {0}}, /* this selector does not exist */
    {"encoding", {0}},    /* this selector has another type */
    {"engine", {0}},      /* no: the machine has no engine */
    {"descriptor", {0}},  /* nil */
    {"model", {0}},       /* nil */
    {"client", {0}},      /* nil: no connection */
    {"compile", {0}},     /* invalid, failed: NO with an error; silent: NO without one; crash */
    {"refuse_op", {0}},   /* NAME, or NAME+OTHER+...: functions that have all of these are refused */
    {"compile_at", {0}},  /* only this compile in the process fails that way */
    {"load", {0}},        /* once: the first load fails; always; large: 0x20004 */
    {"evaluate", {0}},    /* 0x1d, 0x2, 0x12, silent: fails; raises: an Objective-C exception */
    {"evaluate_at", {0}}, /* only this evaluation fails */
    /* nil; strange: symbols that the program does not have; shapes: other shapes; rows: half the length; params:
     * inputs have other shapes and are in LiveInputParamList */
    {"attributes", {0}},
    {"order", {0}},   /* declared: symbols in declared instead of alphabetical order */
    {"surface", {0}}, /* nil: no IOSurface */
    {"wrap", {0}},    /* nil: no _ANEIOSurfaceObject */
    {"lock", {0}},    /* fail: surfaces cannot be locked */
    {"lock_at", {0}}, /* only this call in the process */
    {"request", {0}}, /* nil */
    /* refused: programs of several functions; a number: of more; first: all run the first one's code; fail: only the
     * first runs */
    {"procedures", {0}},
    /* gives: the engine keeps the mask and reports its times; kept: it keeps the mask and reports nothing; array:
     * in an array; strange: an object of another class */
    {"statistics", {0}},
    {"standard_ns", {0}}, /* minimum time of a standard evaluation in ns */
    {"direct_ns", {0}},   /* minimum time of a direct one */
    {"realtime_ns", {0}}, /* minimum time of a real-time one */
    {"direct", {0}},      /* fail: direct evaluation answers NO; wrong: it answers with the previous contents */
    {"reload", {0}},      /* baked: patched data is ignored */
    {"slow_ns", {0}},     /* minimum time of an evaluation */
    {"inputs", {0}},      /* stale: a program keeps using the inputs of its first evaluation */
    {"metal", {0}},       /* none: no Metal device; eventless: it creates no event */
    {"handler", {0}},     /* twice: completion handlers are called twice, the second time late */
    {"outputs", {0}},     /* nan: an output that the program reads itself (C59) */
    {"path", {0}},        /* nil: no localModelPath; other: the compiler does not read there */
};
enum { KNOWN = sizeof known / sizeof known[0], COUNTERS = 32, SYSTEM_ROW = 0, STANDARD_SYSTEM = 27 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char values[KNOWN][1200];
static bool parsed;
static struct {
    char name[24];
    long value;
} counters[COUNTERS];
static char last_violation[300];

static void store(const char *key, size_t key_length, const char *value, size_t value_length) {
    for (int i = 0; i < KNOWN; i++) {
        if (strlen(known[i].key) != key_length || memcmp(known[i].key, key, key_length) != 0) continue;
        snprintf(values[i], sizeof values[i], "%.*s", (int)value_length, value);
        return;
    }
    fprintf(stderr, "stand-in: there is no switch '%.*s'\n", (int)key_length, key);
    abort();
}

/* Reads the settings of the machine, for all programs of a test, and then those of this program. */
static void parse_environment(void) {
    static const char *const variables[] = {"PROPANE_STANDIN_MACHINE", "PROPANE_STANDIN"};
    parsed = true;
    for (int i = 0; i < 2; i++)
        for (const char *at = getenv(variables[i]); at && *at;) {
            size_t length = strcspn(at, ","), key = strcspn(at, "=,");
            if (length) store(at, key, at + key + (key < length), length - key - (key < length));
            at += length + (at[length] == ',');
        }
}

void standin_set(const char *key, const char *value) {
    pthread_mutex_lock(&mutex);
    if (!parsed) parse_environment();
    store(key, strlen(key), value, strlen(value));
    pthread_mutex_unlock(&mutex);
}

static int system_index(void) {
    long system = values[SYSTEM_ROW][0] ? strtol(values[SYSTEM_ROW], NULL, 10) : STANDARD_SYSTEM;
    int index = system == 15 ? 0 : (int)system - 25;
    if (index >= 0 && index < SYSTEMS) return index;
    fprintf(stderr, "stand-in: system=%s is not 15, 26 or 27\n", values[SYSTEM_ROW]);
    abort();
}

/* Returns the system's default if the switch is not set. "off" means no value. */
const char *standin_switch(const char *key) {
    const char *found = NULL;
    pthread_mutex_lock(&mutex);
    if (!parsed) parse_environment();
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(known[i].key, key) == 0) found = values[i][0] ? values[i] : known[i].standard[system_index()];
    pthread_mutex_unlock(&mutex);
    return found && strcmp(found, "off") != 0 ? found : NULL;
}

long standin_number(const char *key, long standard) {
    const char *value = standin_switch(key);
    return value ? strtol(value, NULL, 0) : standard;
}

bool standin_is(const char *key, const char *value) {
    const char *found = standin_switch(key);
    return found && strcmp(found, value) == 0;
}

void standin_count(const char *counter, long by) {
    pthread_mutex_lock(&mutex);
    int i = 0;
    while (i < COUNTERS - 1 && counters[i].name[0] && strcmp(counters[i].name, counter) != 0) i++;
    snprintf(counters[i].name, sizeof counters[i].name, "%s", counter);
    counters[i].value += by;
    pthread_mutex_unlock(&mutex);
}

static int settling;

void standin_settle(int by) { __atomic_add_fetch(&settling, by, __ATOMIC_SEQ_CST); }

static void wait_for_settling(void) {
    const struct timespec span = {.tv_nsec = 100000};
    for (int i = 0; i < 20000 && __atomic_load_n(&settling, __ATOMIC_SEQ_CST); i++) nanosleep(&span, NULL);
}

long standin_get(const char *counter) {
    wait_for_settling();
    return standin_counted(counter);
}

long standin_counted(const char *counter) {

    long value = 0;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < COUNTERS; i++)
        if (strcmp(counters[i].name, counter) == 0) value = counters[i].value;
    pthread_mutex_unlock(&mutex);
    return value;
}

void standin_violation(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    pthread_mutex_lock(&mutex);
    vsnprintf(last_violation, sizeof last_violation, format, arguments);
    pthread_mutex_unlock(&mutex);
    va_end(arguments);
    fprintf(stderr, "stand-in: %s\n", last_violation);
    standin_count("violations", 1);
}

const char *standin_last_violation(void) { return last_violation; }
