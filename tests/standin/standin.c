/* SPDX-License-Identifier: MIT
 * Owns switches and counters. A switch that is not in the list is a mistake of the test and ends the process.
 */
#include "standin/standin.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const known[] = {
    "hide_class",  /* this class is not there */
    "hide_method", /* this selector is not there */
    "encoding",    /* this selector has another type */
    "engine",      /* no: the machine has none */
    "descriptor",  /* nil */
    "model",       /* nil */
    "client",      /* nil: no connection */
    "compile",     /* invalid, failed: NO with an error; silent: NO without one; crash */
    "compile_at",  /* only this compile of the process fails that way */
    "limit",       /* compiles of a process; 0: any number */
    "load",        /* once: the first load fails; always; large: 0x20004 */
    "evaluate",    /* 0x1d, 0x2, silent: fails */
    "evaluate_at", /* only this evaluation */
    "attributes",  /* nil; strange: symbols that the program does not have; shapes: other shapes; rows: half as long */
    "order",       /* declared: symbols in declared order, not in alphabetical */
    "sizes",       /* any: inputs may differ in size */
    "surface",     /* nil: no IOSurface */
    "wrap",        /* nil: no _ANEIOSurfaceObject */
    "lock",        /* fail: surfaces cannot be locked */
    "request",     /* nil */
    "procedures",  /* refused: programs of several functions; first: all run the first one's code; fail: only it runs */
    "statistics",  /* gives: the engine keeps the mask and tells its times; kept: it keeps the mask and tells nothing */
    "standard_ns", /* a standard evaluation takes at least this long */
    "direct_ns",   /* likewise a direct one */
    "realtime_ns", /* likewise a real-time one */
    "direct",      /* fail: direct evaluation answers NO; wrong: it answers with what was there */
    "realtime",    /* fail; task: only beginRealTimeTask answers NO; wrong: it answers with what was there */
    "reload",      /* baked: patched data is ignored */
    "slow_ns",     /* an evaluation takes at least this long */
    "events",      /* ignored: shared events are never signalled */
    "inputs",      /* stale: a program goes on with the inputs of its first evaluation */
    "path",        /* nil: no localModelPath */
};
enum { KNOWN = sizeof known / sizeof known[0], COUNTERS = 32 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char values[KNOWN][120];
static bool parsed;
static struct {
    char name[24];
    long value;
} counters[COUNTERS];
static char last_violation[300];

static void store(const char *key, size_t key_length, const char *value, size_t value_length) {
    for (int i = 0; i < KNOWN; i++) {
        if (strlen(known[i]) != key_length || memcmp(known[i], key, key_length) != 0) continue;
        snprintf(values[i], sizeof values[i], "%.*s", (int)value_length, value);
        return;
    }
    fprintf(stderr, "stand-in: there is no switch '%.*s'\n", (int)key_length, key);
    abort();
}

static void parse_environment(void) {
    const char *at = getenv("PROPANE_STANDIN");
    parsed = true;
    while (at && *at) {
        size_t length = strcspn(at, ","), key = strcspn(at, "=,");
        store(at, key, at + key + (key < length), length - key - (key < length));
        at += length + (at[length] == ',');
    }
}

void standin_set(const char *key, const char *value) {
    pthread_mutex_lock(&mutex);
    if (!parsed) parse_environment();
    store(key, strlen(key), value, strlen(value));
    pthread_mutex_unlock(&mutex);
}

const char *standin_switch(const char *key) {
    const char *found = NULL;
    pthread_mutex_lock(&mutex);
    if (!parsed) parse_environment();
    for (int i = 0; i < KNOWN; i++)
        if (strcmp(known[i], key) == 0 && values[i][0]) found = values[i];
    pthread_mutex_unlock(&mutex);
    return found;
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

long standin_get(const char *counter) {
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
