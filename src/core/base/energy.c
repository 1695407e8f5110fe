/* SPDX-License-Identifier: MIT
 * Owns reading energy counters from RAPL and IOReport. The counters only rise, except that RAPL's wrap around, which is
 * corrected. A reading is the difference from the previous one. The RAPL zone "package-N" is the processor, "uncore" is
 * its graphics unit, and "dram" is the memory.
 */
#include "core/base/energy.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"

enum { ZONES_MOST = 64, UTF8 = 0x08000100 };

/* ---- RAPL -------------------------------------------------------------------------------------------------------- */

typedef struct zone {
    energy_part part;
    char path[512]; /* folder of the zone; its file energy_uj counts microjoules */
    uint64_t last, range;
} zone;

/* ---- IOReport ---------------------------------------------------------------------------------------------------- */

/* Objects of CoreFoundation and IOReport are opaque pointers. The prototypes are those that public tools use. */
#define IOREPORT_FUNCTIONS(X)                                                                                          \
    X(CFStringCreateWithCString, const void *, (const void *, const char *, uint32_t))                                 \
    X(CFStringGetCString, unsigned char, (const void *, char *, long, uint32_t))                                       \
    X(CFDictionaryGetValue, const void *, (const void *, const void *))                                                \
    X(CFArrayGetCount, long, (const void *))                                                                           \
    X(CFArrayGetValueAtIndex, const void *, (const void *, long))                                                      \
    X(CFRelease, void, (const void *))                                                                                 \
    X(IOReportCopyChannelsInGroup, const void *, (const void *, const void *, uint64_t, uint64_t, uint64_t))           \
    X(IOReportCreateSubscription, const void *, (const void *, const void *, const void **, uint64_t, const void *))   \
    X(IOReportCreateSamples, const void *, (const void *, const void *, const void *))                                 \
    X(IOReportCreateSamplesDelta, const void *, (const void *, const void *, const void *))                            \
    X(IOReportChannelGetChannelName, const void *, (const void *))                                                     \
    X(IOReportChannelGetUnitLabel, const void *, (const void *))                                                       \
    X(IOReportChannelGetFormat, int, (const void *))                                                                   \
    X(IOReportSimpleGetIntegerValue, int64_t, (const void *, int))

typedef struct ioreport {
#define DECLARE(name, result, parameters) result(*name) parameters;
    IOREPORT_FUNCTIONS(DECLARE)
#undef DECLARE
    const void *subscription, *channels, *last, *key;
} ioreport;

struct energy_meter {
    int64_t last_ns;
    zone zones[ZONES_MOST];
    int zone_count;
    bool uses_ioreport;
    ioreport io;
    char why[ENERGY_PARTS][260];
};

const char *energy_part_name(energy_part part) {
    static const char *const names[] = {"cpu", "gpu", "ane", "dram"};
    return names[part];
}

/* ---- reading RAPL ------------------------------------------------------------------------------------------------ */

static bool energy_read_line(const char *folder, const char *name, char *out, size_t size, int *code) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "re");
    *code = f ? 0 : errno;
    bool ok = f && fgets(out, (int)size, f);
    if (f && !ok) *code = EIO;
    if (f) fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

static bool energy_read_number(const char *folder, const char *name, uint64_t *out, int *code) {
    char line[64], *end;
    if (!energy_read_line(folder, name, line, sizeof line, code)) return false;
    *out = strtoull(line, &end, 10);
    *code = EINVAL;
    return end != line && !*end;
}

/* Finds the part of the machine that a zone measures. Returns false if the zone is ignored. */
static bool energy_part_of_zone(const char *name, energy_part *out) {
    *out = strncmp(name, "package", 7) == 0 ? ENERGY_CPU : strcmp(name, "uncore") == 0 ? ENERGY_GPU : ENERGY_DRAM;
    return *out != ENERGY_DRAM || strcmp(name, "dram") == 0;
}

static void energy_add_zone(energy_meter *m, const char *folder) {
    char name[64];
    energy_part part;
    int code = 0;
    zone *z = &m->zones[m->zone_count];
    if (m->zone_count == ZONES_MOST || !energy_read_line(folder, "name", name, sizeof name, &code) ||
        !energy_part_of_zone(name, &part))
        return;
    *z = (zone){.part = part};
    if (!energy_read_number(folder, "energy_uj", &z->last, &code)) {
        snprintf(m->why[part], sizeof m->why[part], "%.120s/energy_uj: %.60s%s", folder, strerror(code),
                 code == EACCES ? "; only root may read it" : "");
        return;
    }
    if (!energy_read_number(folder, "max_energy_range_uj", &z->range, &code)) z->range = 0;
    snprintf(z->path, sizeof z->path, "%s", folder);
    m->zone_count++;
}

static void energy_open_powercap(energy_meter *m, const char *root) {
    DIR *dir = opendir(root);
    if (!dir) return;
    for (const struct dirent *d; (d = readdir(dir));) {
        char folder[400];
        /* Matches "intel-rapl:0" and "intel-rapl:0:1". The "-mmio" twins would count the same energy again. */
        if (strncmp(d->d_name, "intel-rapl:", 11) != 0) continue;
        if ((size_t)snprintf(folder, sizeof folder, "%s/%s", root, d->d_name) < sizeof folder)
            energy_add_zone(m, folder);
    }
    closedir(dir);
}

static propane_status energy_read_zones(energy_meter *m, energy_reading *out, propane_error *err) {
    for (int i = 0; i < m->zone_count; i++) {
        zone *z = &m->zones[i];
        uint64_t now;
        int code;
        if (!energy_read_number(z->path, "energy_uj", &now, &code))
            return propane_fail(err, PROPANE_ERR_IO, "cannot read %s/energy_uj: %s", z->path, strerror(code));
        uint64_t used = now >= z->last ? now - z->last : z->range >= z->last ? z->range - z->last + now : 0;
        out->joules[z->part] += (double)used * 1e-6;
        z->last = now;
    }
    return PROPANE_OK;
}

/* ---- reading IOReport -------------------------------------------------------------------------------------------- */

static void *energy_system_symbol(void *context, const char *symbol) {
    static const char *const libraries[] = {"/usr/lib/libIOReport.dylib",
                                            "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"};
    (void)context;
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        void *library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL), *found = library ? dlsym(library, symbol) : NULL;
        if (found) return found;
    }
    return NULL;
}

static bool energy_text_of(const ioreport *io, const void *string, char *out, size_t size) {
    return string && io->CFStringGetCString(string, out, (long)size, UTF8);
}

static bool energy_part_of_channel(const char *name, energy_part *out) {
    if (strncmp(name, "DIE_", 4) == 0 && strchr(name + 4, '_'))
        name = strchr(name + 4, '_') + 1; /* skips the prefix "DIE_N_", on chips with two dies */
    *out = strcmp(name, "CPU Energy") == 0   ? ENERGY_CPU
           : strcmp(name, "GPU Energy") == 0 ? ENERGY_GPU
           : strncmp(name, "ANE", 3) == 0    ? ENERGY_ANE
                                             : ENERGY_DRAM;
    return *out != ENERGY_DRAM || strncmp(name, "DRAM", 4) == 0;
}

/* Returns 0 if the unit is not a known unit of energy. */
static double energy_joules_of_unit(const char *label) {
    return strncmp(label, "mJ", 2) == 0   ? 1e-3
           : strncmp(label, "uJ", 2) == 0 ? 1e-6
           : strncmp(label, "nJ", 2) == 0 ? 1e-9
                                          : 0;
}

static propane_status energy_open_ioreport(energy_meter *m, const energy_source *source, propane_error *err) {
    ioreport *io = &m->io;
    void *(*symbol)(void *, const char *) = source && source->symbol ? source->symbol : energy_system_symbol;
    void *found;
#define FIND(name, result, parameters)                                                                                 \
    found = symbol(source ? source->context : NULL, #name);                                                            \
    if (!found) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "IOReport: this system has no '%s'", #name);         \
    memcpy(&io->name, &found, sizeof found); /* ISO C has no conversion from void * to a function pointer */
    IOREPORT_FUNCTIONS(FIND)
#undef FIND
    const void *group = io->CFStringCreateWithCString(NULL, "Energy Model", UTF8);
    io->key = io->CFStringCreateWithCString(NULL, "IOReportChannels", UTF8);
    const void *all = group && io->key ? io->IOReportCopyChannelsInGroup(group, NULL, 0, 0, 0) : NULL;
    if (group) io->CFRelease(group);
    if (all) io->subscription = io->IOReportCreateSubscription(NULL, all, &io->channels, 0, NULL);
    if (all) io->CFRelease(all);
    if (io->subscription && io->channels) io->last = io->IOReportCreateSamples(io->subscription, io->channels, NULL);
    if (!io->last)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "IOReport: cannot subscribe to the group 'Energy Model'");
    m->uses_ioreport = true;
    return PROPANE_OK;
}

static propane_status energy_read_channels(energy_meter *m, energy_reading *out, propane_error *err) {
    ioreport *io = &m->io;
    bool there[ENERGY_PARTS] = {false};
    const void *now = io->IOReportCreateSamples(io->subscription, io->channels, NULL);
    const void *delta = now ? io->IOReportCreateSamplesDelta(io->last, now, NULL) : NULL;
    const void *list = delta ? io->CFDictionaryGetValue(delta, io->key) : NULL;
    for (long i = 0, n = list ? io->CFArrayGetCount(list) : 0; i < n; i++) {
        const void *channel = io->CFArrayGetValueAtIndex(list, i);
        char name[100], unit[20];
        energy_part part;
        if (!channel || io->IOReportChannelGetFormat(channel) != 1 ||
            !energy_text_of(io, io->IOReportChannelGetChannelName(channel), name, sizeof name) ||
            !energy_part_of_channel(name, &part) ||
            !energy_text_of(io, io->IOReportChannelGetUnitLabel(channel), unit, sizeof unit) ||
            energy_joules_of_unit(unit) == 0)
            continue;
        there[part] = true;
        out->joules[part] += (double)io->IOReportSimpleGetIntegerValue(channel, 0) * energy_joules_of_unit(unit);
    }
    if (delta) io->CFRelease(delta);
    if (now) {
        io->CFRelease(io->last);
        io->last = now;
    }
    if (!list) return propane_fail(err, PROPANE_ERR_DEVICE, "IOReport returned no samples");
    for (int i = 0; i < ENERGY_PARTS; i++)
        out->why[i] =
            !there[i] ? "this system has no such channel"
            : out->joules[i] > 0
                ? NULL
                : "the counter did not change: the unit was idle, or the counter is frozen, as on some systems";
    return PROPANE_OK;
}

/* ---- meters ------------------------------------------------------------------------------------------------------ */

propane_status energy_open(const energy_source *source, energy_meter **out, propane_error *err) {
    *out = NULL;
    energy_meter *m = mem_alloc(sizeof *m);
    if (!m) return propane_fail_memory(err, sizeof *m);
    for (int i = 0; i < ENERGY_PARTS; i++) snprintf(m->why[i], sizeof m->why[i], "this system does not measure it");
    propane_status status = PROPANE_OK;
#ifdef __APPLE__
    bool apple = !(source && source->powercap);
#else
    bool apple = source && source->symbol;
#endif
    if (apple) {
        status = energy_open_ioreport(m, source, err);
    } else {
        const char *root = source && source->powercap ? source->powercap : "/sys/class/powercap";
        energy_open_powercap(m, root);
        if (!m->zone_count)
            status = propane_fail(err, PROPANE_ERR_UNSUPPORTED, "no energy counter can be read here: %.200s: %.300s",
                                  root, file_is_dir(root) ? m->why[ENERGY_CPU] : "no such folder");
    }
    m->last_ns = clock_ns();
    if (status != PROPANE_OK)
        energy_close(m);
    else
        *out = m;
    return status;
}

propane_status energy_read(energy_meter *m, energy_reading *out, propane_error *err) {
    int64_t now = clock_ns();
    *out = (energy_reading){.seconds = (double)(now - m->last_ns) * 1e-9};
    m->last_ns = now;
    if (m->uses_ioreport) return energy_read_channels(m, out, err);
    for (int i = 0; i < ENERGY_PARTS; i++) out->why[i] = m->why[i];
    for (int i = 0; i < m->zone_count; i++) out->why[m->zones[i].part] = NULL;
    return energy_read_zones(m, out, err);
}

void energy_close(energy_meter *m) {
    if (!m) return;
    const ioreport *io = &m->io;
    const void *owned[] = {io->last, io->channels, io->subscription, io->key};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        if (owned[i]) io->CFRelease(owned[i]);
    mem_free(m);
}
