/* SPDX-License-Identifier: MIT
 * Owns the environment of the ane driver's tests.
 */
#include "support/ane_rig.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "support/test.h"

static char folder[1100], cache[1120];

/* Sets up the stand-in's machine as the caller requests, with the test's temporary folder. */
static void set_machine(void) {
    char machine[2400];
    const char *said = getenv("PROPANE_STANDIN_MACHINE");
    snprintf(machine, sizeof machine, "%.1200s,temporary=%s", said ? said : "", folder);
    setenv("PROPANE_STANDIN_MACHINE", machine, 1);
}

bool ane_rig_enter(const char *program) {
    char path[1000];
    const char *slash = strrchr(program, '/'), *temporary = getenv("TMPDIR");
    snprintf(path, sizeof path, "%.*s/../standin/libstandin.so", slash ? (int)(slash - program) : 1,
             slash ? program : ".");
    if (!file_exists(path)) return false;
    snprintf(folder, sizeof folder, "%s/propane-ane-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(folder)) return false;
    setenv("PROPANE_ANE_LIBRARY", path, 1);
    setenv("TMPDIR", folder, 1);
    snprintf(cache, sizeof cache, "%s.cache", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    set_machine();
    return true;
}

void ane_rig_leave(void) {
    propane_error err = {0};
    if (file_remove_tree(folder, &err) != PROPANE_OK || file_remove_tree(cache, &err) != PROPANE_OK)
        fprintf(stderr, "%s\n", err.text);
}

static void *ane_rig_find(const char *name) {
    static void *library;
    if (!library) library = dlopen(getenv("PROPANE_ANE_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    EXPECT_MSG(found, "%s", name);
    return found;
}

void ane_rig_set(const char *key, const char *value) {
    void (*f)(const char *, const char *);
    void *found = ane_rig_find("standin_set");
    memcpy(&f, &found, sizeof f);
    f(key, value);
}

long ane_rig_get(const char *counter) {
    long (*f)(const char *);
    void *found = ane_rig_find("standin_get");
    memcpy(&f, &found, sizeof f);
    return f(counter);
}

void ane_rig_expect_nothing_left(void) {
    const char *(*last)(void);
    void *found = ane_rig_find("standin_last_violation");
    memcpy(&last, &found, sizeof last);
    EXPECT_MSG(ane_rig_get("violations") == 0, "%s", last());
    EXPECT_MSG(ane_rig_get("objects") == 1 && ane_rig_get("surfaces") == 0 && ane_rig_get("programs") == 0 &&
                   ane_rig_get("locks") == 0 && ane_rig_get("pools") == 0,
               "%ld objects, %ld surfaces, %ld programs, %ld locks, %ld pools are left", ane_rig_get("objects"),
               ane_rig_get("surfaces"), ane_rig_get("programs"), ane_rig_get("locks"), ane_rig_get("pools"));
}
