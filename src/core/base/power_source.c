/* SPDX-License-Identifier: MIT
 * Owns queries of the power source and the temperature. Linux runs on battery if no external supply is online and a
 * battery is discharging. macOS uses IOKit's IOPSGetTimeRemainingEstimate, which is -2 ("unlimited") only on external
 * power, and the notification that OSThermalNotification.h names. Neither macOS path has been tried on a Mac.
 */
#include "core/base/power_source.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <dlfcn.h>
#endif

/* Reads the first word of FOLDER/SUPPLY/NAME, or "" if there is none. */
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
        if (strcmp(state, "Device") == 0) continue; /* the battery of a mouse, for example */
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
    return left && left() > -1.5; /* -1: not known yet, but on battery */
#elif defined(__linux__)
    return power_source_is_battery_in("/sys/class/power_supply");
#else
    return false;
#endif
}

/* Returns true if the zone has reached a trip point at which the system slows down. The critical trip point is not
 * considered, because it would shut the machine down. */
static bool power_source_zone_is_hot(const char *folder, const char *zone) {
    enum { MOST_TRIPS = 16 };
    char shown[32], name[40];
    power_source_read(folder, zone, "temp", shown);
    if (!*shown) return false;
    const long now = strtol(shown, NULL, 10);
    for (int i = 0; i < MOST_TRIPS; i++) {
        snprintf(name, sizeof name, "trip_point_%d_type", i);
        power_source_read(folder, zone, name, shown);
        if (!*shown) return false;
        if (strcmp(shown, "passive") != 0 && strcmp(shown, "hot") != 0) continue;
        snprintf(name, sizeof name, "trip_point_%d_temp", i);
        power_source_read(folder, zone, name, shown);
        const long limit = strtol(shown, NULL, 10);
        if (limit > 0 && now >= limit) return true; /* a trip point of 0 or less is disabled */
    }
    return false;
}

bool power_source_is_hot_in(const char *folder) {
    DIR *dir = opendir(folder);
    bool hot = false;
    const struct dirent *entry;
    if (!dir) return false;
    while (!hot && (entry = readdir(dir)))
        hot = strncmp(entry->d_name, "thermal_zone", 12) == 0 && power_source_zone_is_hot(folder, entry->d_name);
    closedir(dir);
    return hot;
}

bool power_source_is_hot(void) {
#ifdef __APPLE__
    enum { HEAVY = 2 };
    static int token = -1;
    uint32_t (*start)(const char *, int *) = NULL, (*get)(int, uint64_t *) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "notify_register_check");
    memcpy(&start, &found, sizeof start);
    found = dlsym(RTLD_DEFAULT, "notify_get_state");
    memcpy(&get, &found, sizeof get);
    uint64_t level = 0;
    if (!start || !get || (token < 0 && start("com.apple.system.thermalpressurelevel", &token) != 0)) return false;
    return get(token, &level) == 0 && level >= HEAVY;
#elif defined(__linux__)
    return power_source_is_hot_in("/sys/class/thermal");
#else
    return false;
#endif
}
