/* SPDX-License-Identifier: MIT
 * The ane driver: Apple's Neural Engine through the private framework AppleNeuralEngine, without Core ML. One idea: a
 * program is compiled and evaluated by the same calls that the system's own clients make, each checked before it is made
 * (objc.h), and nothing is ever computed elsewhere instead. It is compiled on every system and says where it cannot work.
 *
 *   ane, ane:memory, ane:client          the route (model.c)
 *   behind it: ?dispatch=standard|direct|realtime|auto how a request is evaluated (run.c)
 *   &dialect=short|canonical             the text's form
 *   &qos=0..63 &budget=N &pause=SECONDS &sizes=equal|any
 *   &names=sorted|own &literals=named|inline &defaults=written|left   only for questions to a compiler: see `propane devices --probe`
 *
 * None of this has run on Apple hardware: it was written from public notes and is tested against tests/standin.
 */
#include <stddef.h>
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
    size_t field;
} choice;

#define FIELD(name) offsetof(ane_options, name)

static const choice choices[] = {
    {"dispatch", "standard", ANE_STANDARD, FIELD(dispatch)},
    {"dispatch", "direct", ANE_DIRECT, FIELD(dispatch)},
    {"dispatch", "realtime", ANE_REAL_TIME, FIELD(dispatch)},
    {"dispatch", "auto", ANE_AUTO, FIELD(dispatch)},
    {"dialect", "short", MIL_SHORT, FIELD(dialect)},
    {"dialect", "canonical", MIL_CANONICAL, FIELD(dialect)},
    {"sizes", "equal", true, FIELD(equal_size)},
    {"sizes", "any", false, FIELD(equal_size)},
    {"names", "sorted", false, FIELD(own_names)},
    {"names", "own", true, FIELD(own_names)},
    {"literals", "named", false, FIELD(inline_literals)},
    {"literals", "inline", true, FIELD(inline_literals)},
    {"defaults", "written", false, FIELD(leave_defaults)},
    {"defaults", "left", true, FIELD(leave_defaults)},
};
enum { CHOICES = sizeof choices / sizeof choices[0] };

typedef struct number {
    const char *key;
    int min, max;
    size_t field;
} number;

static const number numbers[] = {
    {"qos", 0, 63, FIELD(qos)}, {"budget", 0, 1000000, FIELD(budget)}, {"pause", 0, 3600, FIELD(pause_s)}};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static propane_status fail_option(const char *key, const char *value, propane_error *err) {
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
        return propane_fail(err, PROPANE_ERR_INVALID, "device 'ane': %s=%.60s is not known; it is %s", key, value,
                            known);
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "device 'ane': '%.60s' is not known; there are dispatch, dialect, sizes, names, literals, "
                        "defaults, qos, budget and pause",
                        key);
}

static propane_status set_option(ane_options *o, const char *key, const char *value, propane_error *err) {
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
    return fail_option(key, value, err);
}

propane_status ane_options_parse(const char *rest, ane_options *out, propane_error *err) {
    *out = (ane_options){.dialect = MIL_SHORT, .qos = ANE_QOS, .budget = ANE_BUDGET, .pause_s = -1, .equal_size = true};
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
    if (o.pause_s < 0) d->options.pause_s = a->library ? 0 : ANE_PAUSE_S; /* a stand-in shares no compiler service */
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
    out->unproven = true;
    if (d->api->library) out->summary = "a library named by PROPANE_ANE_LIBRARY in place of Apple's Neural Engine";
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

/* The chip that the system names; NULL: none that is known. */
static const chip *chip_of(const ane_api *a) {
    char name[60], build[60];
    int64_t cores;
    const chip *c = NULL;
    ane_machine(a, name, &cores, build);
    return chip_find(name, &c, NULL) == PROPANE_OK ? c : NULL;
}

/* What is known of the chip; the last word is the compiler's. */
static propane_status ane_supports(void *impl, const mil_function *f, const propane_compile_options *options,
                                   propane_error *why) {
    const ane_device *d = impl;
    const chip *c = chip_of(d->api);
    return c ? chip_check_refusal(f, c, 0, why) : PROPANE_OK;
}

/* The program whose compiled net is to be used again; it must be the same but for the weights. */
static propane_status find_donor(const propane_compile_options *options, const ane_source *s, const ane_model **out,
                                 propane_error *err) {
    if (!options->donor) return PROPANE_OK;
    const driver_program *program = driver_program_of(options->donor, &ane_driver);
    const ane_program *donor = program ? program->impl : NULL;
    if (!donor || donor->text.length != s->program.length ||
        memcmp(donor->text.data, s->program.data, s->program.length) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "ane: the program is not the donor's with other weights: its text differs");
    *out = &donor->model;
    return PROPANE_OK;
}

static propane_status make_program(const ane_device *d, const mil_function *f, const propane_compile_options *options,
                                   ane_source *s, ane_program *p, driver_program *out, propane_error *err) {
    const ane_model *donor = NULL;
    PROPANE_TRY(ane_source_create(f, &d->options, options->reloadable, s, err));
    PROPANE_TRY(driver_dense_io(out, f, err));
    PROPANE_TRY(find_donor(options, s, &donor, err));
    PROPANE_TRY(ane_model_create(d->api, &d->options, s, donor, f->name, &p->model, err));
    PROPANE_TRY(ane_layout(d->api, p->model.attributes, s, out, &p->order, err));
    p->text = s->program;
    s->program = (text){0};
    return PROPANE_OK;
}

static propane_status ane_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                                  driver_program *out, propane_error *err) {
    const ane_device *d = impl;
    ane_source source = {0};
    ane_program *p = mem_alloc(sizeof *p);
    if (!p) return propane_fail_memory(err, sizeof *p);
    propane_status status = make_program(d, f, options, &source, p, out, err);
    ane_source_deinit(&source);
    if (status != PROPANE_OK) {
        ane_model_deinit(d->api, &d->options, &p->model);
        mem_free(p);
        return status;
    }
    out->impl = p;
    return PROPANE_OK;
}

static void ane_program_free(void *impl, driver_program *program) {
    const ane_device *d = impl;
    ane_program *p = program->impl;
    ane_model_deinit(d->api, &d->options, &p->model);
    text_deinit(&p->text);
    mem_free(p);
    program->impl = NULL;
}

bool ane_program_symbols(const propane_program *program, char *out, size_t size) {
    const driver_program *p = driver_program_of(program, &ane_driver);
    size_t used = 0;
    *out = 0;
    if (!p) return false;
    const ane_order *order = &((const ane_program *)p->impl)->order;
    for (int k = 0; k < order->input_count && used < size; k++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", k ? ", " : "", p->inputs[order->inputs[k]].name);
    return order->told;
}

const propane_driver ane_driver = {
    .name = "ane",
    .reloads = true,
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
