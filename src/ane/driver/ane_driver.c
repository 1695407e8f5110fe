/* SPDX-License-Identifier: MIT
 * Owns the ane driver, which runs Apple's Neural Engine through the private framework AppleNeuralEngine, without Core
 * ML. A program is compiled and evaluated by the same calls that the system's own clients make. Each call is checked
 * before it is made (objc_runtime.h), and nothing is ever computed elsewhere instead. The driver is built on every
 * system, and gives the reason where it cannot work.
 *
 *   ane, ane:memory, ane:client          the route (model.c)
 *   after it: ?dispatch=standard|direct|realtime|auto  how a request is evaluated (dispatch.c)
 *   &procedures=off|on|auto              functions compiled at once share one compiled program (procedures.c)
 *   &statistics=off|on                   the engine's own times (run.c)
 *   &events=off|on|gpu &limit=MS         order with a GPU by shared events (events.c)
 *   &dialect=short|canonical             the text's form
 *   &descriptor=keep|drop|auto &folder=keep|drop|auto   what is kept of a loaded program (model.c)
 *   &profile=FILE                        the options from a probe's report; later ones override them (probe_profile.c)
 *   &outputs=plain|identity              an identity before outputs that the program also reads (source.c)
 *   &qos=0..63 &budget=N &pause=SECONDS &sizes=equal|any|auto
 *   &names=sorted|own &literals=named|inline &defaults=written|left   only for experiments with a compiler: see
 *                                        `propane devices --probe`
 *
 * None of this code has run on Apple hardware. It was written from public notes and is tested against tests/standin.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/refusing_rule.h"
#include "ane/driver/ane.h"
#include "ane/driver/probe_profile.h"
#include "core/base/memory.h"

extern const propane_driver ane_driver;

/* ---- options -------------------------------------------------------------------------------------------------------------- */

typedef struct choice {
    const char *key, *word;
    int value;
    size_t field;
} choice;

#define FIELD(name) offsetof(ane_options, name)

static const choice choices[] = {
    {"dispatch", "standard", ANE_STANDARD, FIELD(dispatch)},
    {"dispatch", "direct", ANE_DIRECT, FIELD(dispatch)},
    {"dispatch", "realtime", ANE_REAL_TIME, FIELD(dispatch)},
    {"dispatch", "auto", ANE_AUTO, FIELD(dispatch)},
    {"procedures", "off", ANE_APART, FIELD(procedures)},
    {"procedures", "on", ANE_TOGETHER, FIELD(procedures)},
    {"procedures", "auto", ANE_TOGETHER_IF_PROVED, FIELD(procedures)},
    {"statistics", "off", false, FIELD(statistics)},
    {"statistics", "on", true, FIELD(statistics)},
    {"dialect", "short", MIL_SHORT, FIELD(dialect)},
    {"dialect", "canonical", MIL_CANONICAL, FIELD(dialect)},
    {"sizes", "equal", ANE_SIZES_EQUAL, FIELD(sizes)},
    {"sizes", "any", ANE_SIZES_ANY, FIELD(sizes)},
    {"sizes", "auto", ANE_SIZES_ANY_IF_PROVED, FIELD(sizes)},
    {"events", "off", ANE_EVENTS_OFF, FIELD(events)},
    {"events", "on", ANE_EVENTS_ON, FIELD(events)},
    {"events", "gpu", ANE_EVENTS_GPU, FIELD(events)},
    {"names", "sorted", false, FIELD(own_names)},
    {"names", "own", true, FIELD(own_names)},
    {"literals", "named", false, FIELD(inline_literals)},
    {"literals", "inline", true, FIELD(inline_literals)},
    {"descriptor", "keep", ANE_KEEP, FIELD(descriptor)},
    {"descriptor", "drop", ANE_DROP, FIELD(descriptor)},
    {"descriptor", "auto", ANE_DROP_IF_PROVED, FIELD(descriptor)},
    {"folder", "keep", ANE_KEEP, FIELD(folder)},
    {"folder", "drop", ANE_DROP, FIELD(folder)},
    {"folder", "auto", ANE_DROP_IF_PROVED, FIELD(folder)},
    {"defaults", "written", false, FIELD(leave_defaults)},
    {"defaults", "left", true, FIELD(leave_defaults)},
    {"outputs", "plain", false, FIELD(part_outputs)},
    {"outputs", "identity", true, FIELD(part_outputs)},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

typedef struct number {
    const char *key;
    int min, max;
    size_t field;
} number;

static const number numbers[] = {{"qos", 0, 63, FIELD(qos)},
                                 {"budget", 0, 1000000, FIELD(budget)},
                                 {"pause", 0, 3600, FIELD(pause_s)},
                                 {"limit", 1, 3600000, FIELD(limit_ms)}};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static propane_status ane_driver_fail_option(const char *key, const char *value, propane_error *err) {
    char known[200] = "";
    for (int i = 0; i < CHOICES; i++) {
        size_t used = strlen(known);
        if (strcmp(choices[i].key, key) == 0)
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", choices[i].word);
    }
    for (int i = 0; i < NUMBERS; i++)
        if (strcmp(numbers[i].key, key) == 0)
            snprintf(known, sizeof known, "a number from %d to %d", numbers[i].min, numbers[i].max);
    if (*known)
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'ane': unknown value %s=%.60s; it must be %s", key, value,
                            known);
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "device 'ane': unknown option '%.60s'; the options are dispatch, procedures, statistics, events, dialect, "
        "sizes, descriptor, folder, names, literals, defaults, outputs, qos, budget, pause, limit and profile",
        key);
}

static propane_status ane_driver_set_option(ane_options *o, const char *key, const char *value, propane_error *err) {
    for (int i = 0; i < CHOICES; i++) {
        if (strcmp(choices[i].key, key) != 0 || strcmp(choices[i].word, value) != 0) continue;
        memcpy((char *)o + choices[i].field, &choices[i].value, sizeof(int));
        return PROPANE_OK;
    }
    for (int i = 0; i < NUMBERS; i++) {
        char *end;
        long n = strtol(value, &end, 10);
        int field = (int)n;
        if (strcmp(numbers[i].key, key) != 0 || end == value || *end || n < numbers[i].min || n > numbers[i].max)
            continue;
        memcpy((char *)o + numbers[i].field, &field, sizeof field);
        return PROPANE_OK;
    }
    return ane_driver_fail_option(key, value, err);
}

static propane_status ane_options_apply(const char *rest, ane_options *out, bool inside, propane_error *err);

/* Applies the options of a profile. The system's build comes from the framework, which is available wherever a device
 * opens. */
static propane_status ane_driver_take_profile(const char *path, ane_options *out, propane_error *err) {
    const ane_api *a;
    char rest[PROFILE_REST], name[60], build[60];
    int64_t cores;
    PROPANE_TRY(ane_api_get(&a, err));
    ane_machine(a, name, &cores, build);
    PROPANE_TRY(ane_profile_read(path, build, rest, err));
    return ane_options_apply(rest, out, true, err);
}

static propane_status ane_options_apply(const char *rest, ane_options *out, bool inside, propane_error *err) {
    size_t route = strcspn(rest, "?");
    if (route == 6 && memcmp(rest, "client", 6) == 0)
        out->route = ANE_ROUTE_CLIENT;
    else if (route && !(route == 6 && memcmp(rest, "memory", 6) == 0))
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'ane:%.60s': the routes are ane:memory and ane:client",
                            rest);
    for (const char *at = rest + route; *at && at[1];) {
        char key[64], value[1000];
        size_t length = strcspn(++at, "&"), name = strcspn(at, "=&");
        snprintf(key, sizeof key, "%.*s", (int)name, at);
        snprintf(value, sizeof value, "%.*s", name < length ? (int)(length - name - 1) : 0,
                 at + name + (name < length));
        if (strcmp(key, "profile") == 0 && !inside)
            PROPANE_TRY(ane_driver_take_profile(value, out, err));
        else
            PROPANE_TRY(ane_driver_set_option(out, key, value, err));
        at += length;
    }
    return PROPANE_OK;
}

propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err) {
    *out = (ane_options){.dispatch = ANE_AUTO,
                         .procedures = ANE_TOGETHER_IF_PROVED,
                         .dialect = MIL_SHORT,
                         .qos = ANE_QOS,
                         .budget = -1,
                         .descriptor = ANE_DROP_IF_PROVED,
                         .folder = ANE_DROP_IF_PROVED,
                         .pause_s = -1,
                         .sizes = ANE_SIZES_ANY_IF_PROVED,
                         .limit_ms = ANE_LIMIT_MS};
    return ane_options_apply(rest, out, false, err);
}

/* ---- the device ----------------------------------------------------------------------------------------------------------- */

static propane_status ane_probe(propane_error *why) {
    const ane_api *a;
    return ane_api_get(&a, why);
}

static propane_status ane_open(const char *rest, void **impl, propane_error *err) {
    const ane_api *a;
    ane_options o;
    ane_device *d = NULL;
    PROPANE_TRY(ane_options_parse(rest, &o, err));
    PROPANE_TRY(ane_api_get(&a, err));
    if (a->route[o.route].status != PROPANE_OK)
        return propane_fail(err, a->route[o.route].status, "%s; 'ane:%s' may work", a->route[o.route].text,
                            o.route == ANE_ROUTE_MEMORY ? "client" : "memory");
    PROPANE_TRY(ane_device_create(a, &o, &d, err));
    d->driver = &ane_driver;
    propane_status status = ane_events_open(d, err);
    if (status != PROPANE_OK) {
        ane_device_free(d);
        return status;
    }
    ane_ways_choose(d);
    *impl = d;
    return PROPANE_OK;
}

static void ane_close(void *impl) { ane_device_free(impl); }

/* Compiles are counted per process, so the compiles of earlier devices reduce the limit. */
static void ane_describe(const void *impl, propane_device_info *out) {
    const ane_device *d = impl;
    int left = d->options.budget - ane_compile_count();
    out->compile_limit = d->options.budget == 0 ? 0 : left > 1 ? left : 1;
    out->unproven = true;
    out->shares_compiles = d->options.procedures != ANE_APART;
    out->note = d->note;
    if (d->api->library) out->summary = "a library named by PROPANE_ANE_LIBRARY instead of Apple's Neural Engine";
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

/* Returns the chip that the system names, or NULL if that chip is unknown. */
static const chip *ane_driver_chip_of(const ane_api *a) {
    char name[60], build[60];
    int64_t cores;
    const chip *c = NULL;
    ane_machine(a, name, &cores, build);
    return chip_find(name, &c, NULL) == PROPANE_OK ? c : NULL;
}

/* Returns the macOS version times 100, as the rules number systems, or 0 if the version is unknown. */
static int ane_driver_system_of(const ane_api *a) {
    ane_system_version v;
    return ane_system(a, &v) ? v.major * 100 + v.minor : 0;
}

/* Checks the program against the rules for the chip and the system. The compiler may still refuse the program. */
static propane_status ane_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                   propane_error *why) {
    const ane_device *d = impl;
    const chip *c = ane_driver_chip_of(d->api);
    return c ? chip_check_refusal(f, c, ane_driver_system_of(d->api), why) : PROPANE_OK;
}

bool ane_program_symbols(const propane_program *program, char *out, size_t size) {
    const driver_program *p = driver_program_of(program, &ane_driver);
    size_t used = 0;
    *out = 0;
    if (!p) return false;
    const ane_order *order = &((const ane_program *)p->impl)->order;
    for (int k = 0; k < order->inputs.count && used < size; k++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s", k ? ", " : "", p->inputs[order->inputs.bound[k]].name);
    return order->reported;
}

const propane_driver ane_driver = {
    .name = "ane",
    .reloads = true,
    .summary = "Apple's Neural Engine, without Core ML (never run on Apple hardware)",
    .probe = ane_probe,
    .open = ane_open,
    .close = ane_close,
    .describe = ane_describe,
    .supports = ane_supports,
    .refusing_rule = chip_refusing_rule,
    .compile = ane_compile,
    .compile_all = ane_compile_all,
    .program_free = ane_program_free,
    .buffer_create = ane_buffer_create,
    .buffer_free = ane_buffer_free,
    .buffer_lock = ane_buffer_lock,
    .buffer_native = ane_buffer_native,
    .buffer_unlock = ane_buffer_unlock,
    .request_prepare = ane_request_prepare,
    .request_free = ane_request_free,
    .execute = ane_execute,
};
