/* SPDX-License-Identifier: MIT
 * The ane driver: Apple's Neural Engine through the private framework AppleNeuralEngine, without Core ML. One idea: a
 * program is compiled and evaluated by the same calls that the system's own clients make, each checked before it is made
 * (objc.h), and nothing is ever computed elsewhere instead. It is compiled on every system and says where it cannot work.
 *
 *   ane, ane:memory, ane:client          the route (model.c)
 *   behind it: ?dispatch=standard|direct|realtime|auto how a request is evaluated (run.c)
 *   &dialect=short|canonical             the text's form
 *   &qos=0..63 &budget=N &pause=SECONDS &sizes=equal|any
 *
 * None of this has run on Apple hardware: it was written from public notes and is tested against tests/standin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "chip/check.h"
#include "drivers/ane/ane.h"

extern const propane_driver ane_driver;

/* ---- options -------------------------------------------------------------------------------------------------------------- */

typedef struct choice {
    const char *key, *word;
    int value;
} choice;

static const choice choices[] = {
    {"dispatch", "standard", ANE_STANDARD},
    {"dispatch", "direct", ANE_DIRECT},
    {"dispatch", "realtime", ANE_REAL_TIME},
    {"dispatch", "auto", ANE_AUTO},
    {"dialect", "short", MIL_SHORT},
    {"dialect", "canonical", MIL_CANONICAL},
    {"sizes", "equal", true},
    {"sizes", "any", false},
};

typedef struct number {
    const char *key;
    int min, max;
} number;

static const number numbers[] = {{"qos", 0, 63}, {"budget", 0, 1000000}, {"pause", 0, 3600}};

static propane_status fail_option(const char *key, const char *value, propane_error *err) {
    char known[200] = "";
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        size_t used = strlen(known);
        if (strcmp(choices[i].key, key) == 0)
            snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", choices[i].word);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (strcmp(numbers[i].key, key) == 0)
            snprintf(known, sizeof known, "a number from %d to %d", numbers[i].min, numbers[i].max);
    if (*known)
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'ane': %s=%.60s is not known; it is %s", key, value,
                            known);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "device 'ane': '%.60s' is not known; there are dispatch, dialect, sizes, qos, budget and pause",
                        key);
}

static propane_status set_option(ane_options *o, const char *key, const char *value, propane_error *err) {
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (strcmp(choices[i].key, key) != 0 || strcmp(choices[i].word, value) != 0) continue;
        if (key[0] == 's')
            o->equal_size = choices[i].value;
        else if (key[2] == 's')
            o->dispatch = (ane_dispatch)choices[i].value;
        else
            o->dialect = (mil_dialect)choices[i].value;
        return PROPANE_OK;
    }
    int *const targets[] = {&o->qos, &o->budget, &o->pause_s};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char *end;
        long n = strtol(value, &end, 10);
        if (strcmp(numbers[i].key, key) != 0 || end == value || *end || n < numbers[i].min || n > numbers[i].max)
            continue;
        *targets[i] = (int)n;
        return PROPANE_OK;
    }
    return fail_option(key, value, err);
}

propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err) {
    *out = (ane_options){
        .dialect = MIL_SHORT, .qos = ANE_QOS, .budget = ANE_BUDGET, .pause_s = ANE_PAUSE_S, .equal_size = true};
    size_t route = strcspn(rest, "?");
    if (route == 6 && memcmp(rest, "client", 6) == 0)
        out->route = ANE_ROUTE_CLIENT;
    else if (route && !(route == 6 && memcmp(rest, "memory", 6) == 0))
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'ane:%.60s': the routes are ane:memory and ane:client",
                            rest);
    for (const char *at = rest + route; *at;) {
        char key[64], value[64];
        size_t length = strcspn(++at, "&"), name = strcspn(at, "=&");
        snprintf(key, sizeof key, "%.*s", (int)name, at);
        snprintf(value, sizeof value, "%.*s", name < length ? (int)(length - name - 1) : 0,
                 at + name + (name < length));
        PROPANE_TRY(set_option(out, key, value, err));
        at += length;
    }
    return PROPANE_OK;
}

/* ---- the device ----------------------------------------------------------------------------------------------------------- */

static propane_status ane_probe(propane_error *why) {
    const ane_api *a;
    return ane_api_get(&a, why);
}

static propane_status ane_open(const char *rest, void **impl, propane_error *err) {
    const ane_api *a;
    ane_options o;
    PROPANE_TRY(ane_options_parse(rest, &o, err));
    PROPANE_TRY(ane_api_get(&a, err));
    if (a->route[o.route].status != PROPANE_OK)
        return propane_fail(err, a->route[o.route].status, "%s; 'ane:%s' may work", a->route[o.route].text,
                            o.route == ANE_ROUTE_MEMORY ? "client" : "memory");
    ane_device *d = mem_alloc(sizeof *d);
    if (!d) return propane_fail_memory(err, sizeof *d);
    d->api = a;
    d->options = o;
    if (pthread_mutex_init(&d->mutex, NULL)) {
        mem_free(d);
        return propane_fail(err, PROPANE_ERR_DEVICE, "the system gives no lock");
    }
    *impl = d;
    return PROPANE_OK;
}

static void ane_close(void *impl) {
    ane_device *d = impl;
    pthread_mutex_destroy(&d->mutex);
    mem_free(d);
}

/* Compiles count for the process: what earlier devices took of its budget is gone. */
static void ane_describe(const void *impl, propane_device_info *out) {
    const ane_device *d = impl;
    int left = d->options.budget - ane_compile_count();
    out->compile_limit = d->options.budget == 0 ? 0 : left > 1 ? left : 1;
    if (d->api->library) out->summary = "a library named by PROPANE_ANE_LIBRARY in place of Apple's Neural Engine";
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

/* The chip that the system names; NULL: none that is known. */
static const chip *chip_of(const ane_api *a) {
    char name[60];
    const chip *c = NULL;
    void *pool = a->objc_autoreleasePoolPush();
    if (!ANE_HAS(a, architecture) ||
        !ane_text_of(a, ANE_SEND0(a, architecture, ANE_CLASS(a, device_info)), name, sizeof name) ||
        chip_find(name, &c, NULL) != PROPANE_OK)
        c = NULL;
    a->objc_autoreleasePoolPop(pool);
    return c;
}

/* What is known of the chip; the last word is the compiler's. */
static propane_status ane_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                   propane_error *why) {
    const ane_device *d = impl;
    const chip *c = chip_of(d->api);
    return c ? chip_check_refusal(f, c, 0, why) : PROPANE_OK;
}

static propane_status ane_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                  driver_program *out, propane_error *err) {
    const ane_device *d = impl;
    ane_program *p = mem_alloc(sizeof *p);
    if (!p) return propane_fail_memory(err, sizeof *p);
    propane_status status = ane_source_create(f, d->options.dialect, &p->source, err);
    if (status == PROPANE_OK) status = driver_dense_io(out, f, err);
    if (status == PROPANE_OK) status = ane_model_create(d->api, &d->options, &p->source, NULL, f->name, &p->model, err);
    if (status == PROPANE_OK) status = ane_layout(d->api, p->model.attributes, &p->source, out, &p->order, err);
    if (status != PROPANE_OK) {
        ane_model_deinit(d->api, &d->options, &p->model);
        ane_source_deinit(&p->source);
        mem_free(p);
        return status;
    }
    ane_source_deinit(&p->source);
    out->impl = p;
    return PROPANE_OK;
}

static void ane_program_free(void *impl, driver_program *program) {
    const ane_device *d = impl;
    ane_program *p = program->impl;
    ane_model_deinit(d->api, &d->options, &p->model);
    mem_free(p);
    program->impl = NULL;
}

const propane_driver ane_driver = {
    .name = "ane",
    .summary = "Apple's Neural Engine, without Core ML (written without one at hand: never run on Apple hardware)",
    .probe = ane_probe,
    .open = ane_open,
    .close = ane_close,
    .describe = ane_describe,
    .supports = ane_supports,
    .compile = ane_compile,
    .program_free = ane_program_free,
    .buffer_create = ane_buffer_create,
    .buffer_free = ane_buffer_free,
    .buffer_lock = ane_buffer_lock,
    .buffer_unlock = ane_buffer_unlock,
    .request_prepare = ane_request_prepare,
    .request_free = ane_request_free,
    .execute = ane_execute,
};
