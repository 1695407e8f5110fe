/* SPDX-License-Identifier: MIT
 * Energy meters over a simulated sysfs folder and over functions with IOReport's names.
 */
#include "core/base/energy.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "support/test.h"

static void zone_file(const char *root, const char *zone, const char *name, const char *value) {
    propane_error err = {0};
    char path[600];
    snprintf(path, sizeof path, "%s/%s", root, zone);
    EXPECT_OK(file_make_dir(path, &err));
    snprintf(path, sizeof path, "%s/%s/%s", root, zone, name);
    EXPECT_OK(file_write(path, value, strlen(value), &err));
}

static void make_zone(const char *root, const char *zone, const char *name, const char *energy, const char *range) {
    zone_file(root, zone, "name", name);
    zone_file(root, zone, "energy_uj", energy);
    zone_file(root, zone, "max_energy_range_uj", range);
}

TEST(powercap) {
    propane_error err = {0};
    char *root = test_temp_dir();
    make_zone(root, "intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
    make_zone(root, "intel-rapl:1", "package-1\n", "262143000000\n", "262143328850\n");
    make_zone(root, "intel-rapl:0:0", "core\n", "500000\n", "262143328850\n");
    make_zone(root, "intel-rapl:0:1", "dram\n", "7\n", "262143328850\n");
    make_zone(root, "intel-rapl-mmio:0", "package-0\n", "1000000\n", "262143328850\n"); /* the first zone again */
    const energy_source source = {.powercap = root};
    energy_meter *m;
    energy_reading r;
    EXPECT_OK(energy_open(&source, &m, &err));
    make_zone(root, "intel-rapl:0", "package-0\n", "3500000\n", "262143328850\n");
    make_zone(root, "intel-rapl:1", "package-1\n", "171150\n", "262143328850\n"); /* it wrapped around: 0.5 J */
    make_zone(root, "intel-rapl:0:1", "dram\n", "250007\n", "262143328850\n");
    EXPECT_OK(energy_read(m, &r, &err));
    EXPECT_MSG(r.joules[ENERGY_CPU] > 2.9999 && r.joules[ENERGY_CPU] < 3.0001, "%g", r.joules[ENERGY_CPU]);
    EXPECT_MSG(r.joules[ENERGY_DRAM] > 0.2499 && r.joules[ENERGY_DRAM] < 0.2501, "%g", r.joules[ENERGY_DRAM]);
    EXPECT(!r.why[ENERGY_CPU] && !r.why[ENERGY_DRAM] && r.seconds > 0);
    EXPECT_TEXT(r.why[ENERGY_ANE], "this system does not measure it");
    EXPECT_OK(energy_read(m, &r, &err));
    EXPECT(r.joules[ENERGY_CPU] == 0);
    zone_file(root, "intel-rapl:0", "energy_uj", "many\n");
    EXPECT_FAIL(energy_read(m, &r, &err), PROPANE_ERR_IO, "intel-rapl:0/energy_uj");
    energy_close(m);
    mem_free(root);
}

TEST(powercap_without_counters) {
    propane_error err = {0};
    char *root = test_temp_dir(), missing[300];
    energy_meter *m;
    EXPECT_FAIL(energy_open(&(energy_source){.powercap = root}, &m, &err), PROPANE_ERR_UNSUPPORTED, "does not measure");
    zone_file(root, "intel-rapl:0", "name", "package-0\n");
    EXPECT_FAIL(energy_open(&(energy_source){.powercap = root}, &m, &err), PROPANE_ERR_UNSUPPORTED, "No such file");
    snprintf(missing, sizeof missing, "%s/none", root);
    EXPECT_FAIL(energy_open(&(energy_source){.powercap = missing}, &m, &err), PROPANE_ERR_UNSUPPORTED,
                "no such folder");
    mem_free(root);
}

/* ---- a fake IOReport: references are counted, samples are structs ------------------------------------------------- */

typedef struct channel {
    const char *name, *unit;
    int format;
    int64_t value;
} channel;

static channel channels[] = {{"CPU Energy", "mJ", 1, 0}, {"GPU Energy", "nJ", 1, 0}, {"ANE0", "uJ      ", 1, 0},
                             {"DIE_1_ANE", "mJ", 1, 0},  {"DRAM0", "mJ", 1, 0},      {"ANE states", "mJ", 2, 77},
                             {"ECPU", "mJ", 1, 1000},    {"ANE1", "apples", 1, 5}};
enum { CHANNELS = sizeof channels / sizeof channels[0] };
static int references, channel_count = CHANNELS;
static char list_object, dictionary_object;

static const void *fake_CFStringCreateWithCString(const void *a, const char *text, uint32_t encoding) {
    EXPECT(!a && encoding == 0x08000100);
    references++;
    return text;
}
static unsigned char fake_CFStringGetCString(const void *s, char *out, long size, uint32_t encoding) {
    EXPECT(encoding == 0x08000100);
    snprintf(out, (size_t)size, "%s", (const char *)s);
    return 1;
}
static const void *fake_CFDictionaryGetValue(const void *d, const void *key) {
    EXPECT(d == &dictionary_object && strcmp(key, "IOReportChannels") == 0);
    return &list_object;
}
static long fake_CFArrayGetCount(const void *a) { return a == &list_object ? channel_count : -1; }
static const void *fake_CFArrayGetValueAtIndex(const void *a, long i) {
    EXPECT(a == &list_object);
    return &channels[i];
}
static void fake_CFRelease(const void *o) {
    EXPECT(o != NULL);
    references--;
}
static const void *fake_IOReportCopyChannelsInGroup(const void *group, const void *sub, uint64_t a, uint64_t b,
                                                    uint64_t c) {
    EXPECT(strcmp(group, "Energy Model") == 0 && !sub && !a && !b && !c);
    references++;
    return &dictionary_object;
}
static const void *fake_IOReportCreateSubscription(const void *a, const void *all, const void **out, uint64_t b,
                                                   const void *c) {
    EXPECT(!a && all == &dictionary_object && !b && !c);
    references += 2;
    *out = &dictionary_object;
    return &list_object;
}
static const void *fake_IOReportCreateSamples(const void *s, const void *c, const void *a) {
    EXPECT(s == &list_object && c == &dictionary_object && !a);
    references++;
    return &dictionary_object;
}
static const void *fake_IOReportCreateSamplesDelta(const void *a, const void *b, const void *c) {
    EXPECT(a && b && !c);
    references++;
    return &dictionary_object;
}
static const void *fake_IOReportChannelGetChannelName(const void *c) { return ((const channel *)c)->name; }
static const void *fake_IOReportChannelGetUnitLabel(const void *c) { return ((const channel *)c)->unit; }
static int fake_IOReportChannelGetFormat(const void *c) { return ((const channel *)c)->format; }
static int64_t fake_IOReportSimpleGetIntegerValue(const void *c, int index) {
    EXPECT(index == 0);
    return ((const channel *)c)->value;
}

#define ALL(X)                                                                                                         \
    X(CFStringCreateWithCString)                                                                                       \
    X(CFStringGetCString)                                                                                              \
    X(CFDictionaryGetValue)                                                                                            \
    X(CFArrayGetCount)                                                                                                 \
    X(CFArrayGetValueAtIndex)                                                                                          \
    X(CFRelease)                                                                                                       \
    X(IOReportCopyChannelsInGroup)                                                                                     \
    X(IOReportCreateSubscription)                                                                                      \
    X(IOReportCreateSamples)                                                                                           \
    X(IOReportCreateSamplesDelta)                                                                                      \
    X(IOReportChannelGetChannelName)                                                                                   \
    X(IOReportChannelGetUnitLabel)                                                                                     \
    X(IOReportChannelGetFormat)                                                                                        \
    X(IOReportSimpleGetIntegerValue)

static void *fake_symbol(void *missing, const char *name) {
    if (missing && strcmp(missing, name) == 0) return NULL;
#define GIVE(function)                                                                                                 \
    if (strcmp(name, #function) == 0) {                                                                                \
        void *address;                                                                                                 \
        __typeof__(&fake_##function) pointer = fake_##function;                                                        \
        memcpy(&address, &pointer, sizeof address);                                                                    \
        return address;                                                                                                \
    }
    ALL(GIVE)
    return NULL;
}

TEST(ioreport) {
    propane_error err = {0};
    const energy_source source = {.symbol = fake_symbol};
    energy_meter *m;
    energy_reading r;
    EXPECT_OK(energy_open(&source, &m, &err));
    channels[0].value = 2500;      /* mJ */
    channels[1].value = 750000000; /* nJ */
    channels[2].value = 1250000;   /* uJ */
    channels[3].value = 250;       /* mJ, the other die */
    EXPECT_OK(energy_read(m, &r, &err));
    EXPECT(r.joules[ENERGY_CPU] == 2.5 && !r.why[ENERGY_CPU]);
    EXPECT_MSG(r.joules[ENERGY_GPU] > 0.7499 && r.joules[ENERGY_GPU] < 0.7501, "%g", r.joules[ENERGY_GPU]);
    EXPECT_MSG(r.joules[ENERGY_ANE] > 1.4999 && r.joules[ENERGY_ANE] < 1.5001, "%g", r.joules[ENERGY_ANE]);
    EXPECT(r.why[ENERGY_DRAM] && strstr(r.why[ENERGY_DRAM], "did not change"));
    channel_count = 2; /* a system without channels of the engine */
    EXPECT_OK(energy_read(m, &r, &err));
    EXPECT(r.why[ENERGY_ANE] && strstr(r.why[ENERGY_ANE], "no such channel"));
    energy_close(m);
    EXPECT_MSG(references == 0, "%d references are left", references);
    char missing[] = "IOReportCreateSamples";
    EXPECT_FAIL(energy_open(&(energy_source){.symbol = fake_symbol, .context = missing}, &m, &err),
                PROPANE_ERR_UNSUPPORTED, "this system has no 'IOReportCreateSamples'");
}

SUITE("base/energy", T(powercap), T(powercap_without_counters), T(ioreport))
