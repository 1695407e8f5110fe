/* SPDX-License-Identifier: MIT
 * Owns the question for the power source. Linux: no supply from outside is online and a battery discharges. macOS: IOKit's
 * IOPSGetTimeRemainingEstimate, which is -2 ("unlimited") on external power and nowhere else; not tried on a Mac.
 */
#include "core/base/power_source.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#ifdef __APPLE__
#include <dlfcn.h>
#endif

/* The first word of FOLDER/SUPPLY/NAME; "": there is none. */
static void power_source_read(const char *folder, const char *supply, const char *name, char out[32]) {
    char path[1200];
    out[0] = 0;
    snprintf(path, sizeof path, "%s/%s/%s", folder, supply, name);
    FILE *file = fopen(path, "r");
    if (!file) return;
    if (fscanf(file, "%31s", out) != 1) out[0] = 0;
    fclose(file);
}

bool power_source_is_battery_in(const char *folder) {
    DIR *dir = opendir(folder);
    bool discharging = false, outside = false;
    const struct dirent *entry;
    if (!dir) return false;
    while ((entry = readdir(dir))) {
        char type[32], state[32];
        if (entry->d_name[0] == '.') continue;
        power_source_read(folder, entry->d_name, "type", type);
        power_source_read(folder, entry->d_name, "scope", state);
        if (strcmp(state, "Device") == 0) continue; /* of a mouse, perhaps */
        if (strcmp(type, "Battery") == 0) {
            power_source_read(folder, entry->d_name, "status", state);
            discharging |= strcmp(state, "Discharging") == 0;
        } else {
            power_source_read(folder, entry->d_name, "online", state);
            outside |= strcmp(state, "1") == 0;
        }
    }
    closedir(dir);
    return discharging && !outside;
}

bool power_source_is_battery(void) {
#ifdef __APPLE__
    void *library = dlopen("/System/Library/Frameworks/IOKit.framework/IOKit", RTLD_NOW | RTLD_LOCAL);
    double (*left)(void) = NULL;
    void *symbol = library ? dlsym(library, "IOPSGetTimeRemainingEstimate") : NULL;
    memcpy(&left, &symbol, sizeof left);
    return left && left() > -1.5; /* -1: not known yet, on the battery */
#elif defined(__linux__)
    return power_source_is_battery_in("/sys/class/power_supply");
#else
    return false;
#endif
}
