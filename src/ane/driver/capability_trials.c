/* SPDX-License-Identifier: MIT
 * Owns trials of features that the engine or its framework offers but that may not work: surfaces of different sizes in
 * one request, loaded programs without their descriptor or folder, shared events, and chaining. Each trial runs one
 * small program and reports in words whether the feature works. According to public notes, some trials crash or hang,
 * so `propane devices` runs them in a separate process. Facts on which the driver may rely are remembered.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"
#include "core/base/float16.h"
#include "core/base/memory.h"

extern const propane_driver ane_driver;

enum { SIDES = 2, MOST = 2, RUNS = 3, SIGNAL_AFTER_NS = 20000000 };
#define ANSWER_MS "2000"

#define PROGRAM(body)                                                                                                  \
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"               \
    "    func main<ios18>(" body "}\n"

static const char doubled[] =
    PROGRAM("tensor<fp16, [1, 32, 1, 64]> x) {\n"
            "        tensor<fp16, [1, 32, 1, 64]> y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n");
/* Inputs and outputs with surfaces of different sizes: 51,200 bytes and one page. */
static const char uneven[] =
    PROGRAM("tensor<fp16, [1, 400, 1, 64]> large, tensor<fp16, [1, 1, 1, 64]> small) {\n"
            "        tensor<fp16, [1, 400, 1, 64]> y = sub(x = large, y = small)[name = string(\"y\")];\n"
            "        tensor<fp16, [1, 1, 1, 64]> z = add(x = small, y = small)[name = string(\"z\")];\n"
            "    } -> (y, z);\n");

/* One program with one surface per input and output. */
typedef struct trial {
    void *device;
    const ane_api *api;
    mil_module *module;
    driver_program program;
    driver_buffer buffers[SIDES][MOST], *bound[SIDES][MOST];
    driver_execution execution;
    bool compiled;
} trial;

static propane_status trial_begin(trial *t, const char *rest, const char *source, propane_error *err) {
    static const propane_compile_options options;
    PROPANE_TRY(ane_driver.open(rest, &t->device, err));
    t->api = ((const ane_device *)t->device)->api;
    PROPANE_TRY(mil_parse(source, strlen(source), "trial", NULL, &t->module, err));
    t->program.arena = arena_create();
    if (!t->program.arena) return propane_fail_memory(err, 0);
    PROPANE_TRY(ane_driver.compile(t->device, t->module->functions, &options, &t->program, err));
    t->compiled = true;
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < (side ? t->program.output_count : t->program.input_count); i++) {
            driver_buffer *b = t->bound[side][i] = &t->buffers[side][i];
            b->bytes = side ? t->program.outputs[i].bytes : t->program.inputs[i].bytes;
            PROPANE_TRY(ane_buffer_create(t->device, b->bytes, b, err));
        }
    t->execution = (driver_execution){.program = &t->program, .inputs = t->bound[0], .outputs = t->bound[1]};
    return ane_request_prepare(t->device, &t->execution, err);
}

static void trial_end(trial *t) {
    if (t->execution.impl) ane_request_free(t->device, &t->execution);
    for (int side = 0; side < SIDES; side++)
        for (int i = 0; i < MOST; i++)
            if (t->buffers[side][i].impl) ane_buffer_free(t->device, &t->buffers[side][i]);
    if (t->compiled) ane_driver.program_free(t->device, &t->program);
    arena_free(t->program.arena);
    mil_module_free(t->module);
    if (t->device) ane_driver.close(t->device);
}

static ane_id trial_surface_of(const driver_buffer *b) { return ((const ane_buffer *)b->impl)->object; }

static ane_id trial_list_of(const ane_api *a, ane_id one) {
    return one ? ane_array(a, &one, 1) : ane_array(a, NULL, 0);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------------ */

static float trial_large(int64_t i) { return (float)(i % 97); }
static float trial_small(int64_t i) { return (float)(i % 5); }
static float trial_difference(int64_t i) { return trial_large(i) - trial_small(i % 64); }
static float trial_twice(int64_t i) { return 2 * trial_small(i); }

/* Fills input i with value(0), value(1), ... in rows of 64 elements. */
static propane_status trial_fill(trial *t, int i, float (*value)(int64_t), propane_error *err) {
    const propane_io *io = &t->program.inputs[i];
    void *memory;
    PROPANE_TRY(ane_buffer_lock(t->device, t->bound[0][i], true, &memory, err));
    for (int64_t k = 0; k < propane_io_count(io); k++) {
        uint16_t half = fp16_from_f32(value(k));
        memcpy((char *)memory + k / 64 * io->stride[1] + k % 64 * io->stride[3], &half, sizeof half);
    }
    ane_buffer_unlock(t->device, t->bound[0][i]);
    return PROPANE_OK;
}

static propane_status trial_compare(trial *t, int o, float (*wanted)(int64_t), propane_error *err) {
    const propane_io *io = &t->program.outputs[o];
    propane_status status = PROPANE_OK;
    void *memory;
    PROPANE_TRY(ane_buffer_lock(t->device, t->bound[1][o], false, &memory, err));
    for (int64_t k = 0; k < propane_io_count(io) && status == PROPANE_OK; k++) {
        uint16_t half;
        memcpy(&half, (char *)memory + k / 64 * io->stride[1] + k % 64 * io->stride[3], sizeof half);
        if (fp16_to_f32(half) != wanted(k))
            status = propane_fail(err, PROPANE_ERR_DEVICE, "element %d of result %d is %g, not %g", (int)k, o,
                                  (double)fp16_to_f32(half), (double)wanted(k));
    }
    ane_buffer_unlock(t->device, t->bound[1][o]);
    return status;
}

static propane_status trial_run_uneven(trial *t, propane_error *err) {
    propane_completion done = {.size = sizeof done};
    PROPANE_TRY(trial_fill(t, 0, trial_large, err));
    PROPANE_TRY(trial_fill(t, 1, trial_small, err));
    PROPANE_TRY(ane_execute(t->device, &t->execution, &done, err));
    PROPANE_TRY(trial_compare(t, 0, trial_difference, err));
    return trial_compare(t, 1, trial_twice, err);
}

propane_status ane_try_sizes(int route, text *answer, propane_error *err) {
    trial t = {0};
    const ane_api *a;
    propane_error why = {0};
    PROPANE_TRY(ane_api_get(&a, err));
    PROPANE_TRY(ane_remember(a, route, ANE_FACT_sizes, "no", "its trial did not finish", err));
    propane_status status = trial_begin(
        &t, route ? "client?dispatch=standard&sizes=any" : "memory?dispatch=standard&sizes=any", uneven, &why);
    if (status == PROPANE_OK) status = trial_run_uneven(&t, &why);
    trial_end(&t);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    text_append(answer, status == PROPANE_OK ? "accepted" : why.text);
    if (answer->failed) return propane_fail_memory(err, answer->length);
    return ane_remember(a, route, ANE_FACT_sizes, status == PROPANE_OK ? "yes" : "no", why.text, err);
}

/* ---- files and data that a loaded program does not need ---------------------------------------------------------- */

static float trial_sum(int64_t i) { return trial_small(i) + (float)i; }

/* Writes the text of a program with weights: y = x + (0, 1, 2, ...). */
static void trial_write_sum(text *out) {
    text_append(out,
                "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"
                "    func main<ios18>(tensor<fp16, [1, 1, 1, 64]> x) {\n        tensor<fp16, [1, 1, 1, 64]> c = "
                "const()[name = string(\"c\"), val = tensor<fp16, [1, 1, 1, 64]>([[[[");
    for (int i = 0; i < 64; i++) text_printf(out, "%s%d", i ? ", " : "", i);
    text_append(out, "]]]])];\n        tensor<fp16, [1, 1, 1, 64]> y = add(x = x, y = c)[name = string(\"y\")];\n"
                     "    } -> (y);\n}\n");
}

static propane_status trial_run_sum(trial *t, propane_error *err) {
    for (int run = 0; run < RUNS; run++) {
        propane_completion done = {.size = sizeof done};
        PROPANE_TRY(trial_fill(t, 0, trial_small, err));
        PROPANE_TRY(ane_execute(t->device, &t->execution, &done, err));
        PROPANE_TRY(trial_compare(t, 0, trial_sum, err));
    }
    return PROPANE_OK;
}

/* Tries a program without its descriptor or its folder. The unload and the purge afterwards are part of the trial. */
static propane_status trial_without(const ane_api *a, int route, ane_fact fact, const char *what, text *answer,
                                    propane_error *err) {
    trial t = {0};
    text source = {0};
    char rest[80];
    propane_error why = {0};
    PROPANE_TRY(ane_remember(a, route, fact, "no", "its trial did not finish", err));
    snprintf(rest, sizeof rest, "%s?dispatch=standard&descriptor=keep&folder=keep&%s=drop", route ? "client" : "memory",
             what);
    trial_write_sum(&source);
    propane_status status = source.failed ? propane_fail_memory(&why, 0) : trial_begin(&t, rest, source.data, &why);
    if (status == PROPANE_OK) status = trial_run_sum(&t, &why);
    trial_end(&t);
    text_deinit(&source);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    text_printf(answer, "%s%s %s%s", answer->length ? "; " : "", what,
                status == PROPANE_OK ? "not needed" : "needed: ", why.text);
    return ane_remember(a, route, fact, status == PROPANE_OK ? "yes" : "no", why.text, err);
}

propane_status ane_try_keeping(int route, text *answer, propane_error *err) {
    const ane_api *a;
    PROPANE_TRY(ane_api_get(&a, err));
    if (!route && ANE_HAS(a, memory_set_descriptor))
        PROPANE_TRY(trial_without(a, route, ANE_FACT_descriptor, "descriptor", answer, err));
    PROPANE_TRY(trial_without(a, route, ANE_FACT_folder, "folder", answer, err));
    return answer->failed ? propane_fail_memory(err, answer->length) : PROPANE_OK;
}

/* ---- shared events -------------------------------------------------------------------------------------------------------- */

/* Acts as a GPU that signals a value after a delay. */
typedef struct signaller {
    const ane_api *api;
    ane_id event;
    uint64_t value;
    atomic_bool signalled;
} signaller;

static void *trial_signal_later(void *from) {
    signaller *s = from;
    nanosleep(&(struct timespec){.tv_nsec = SIGNAL_AFTER_NS}, NULL);
    atomic_store(&s->signalled, true);
    if (ANE_SEND0(s->api, event_value, s->event) < s->value) /* a failed run has already signalled its own value */
        ANE_SEND(s->api, event_set_value, s->event, s->value);
    return NULL;
}

/* Tests a run that waits for the signaller's value and then signals its own value. */
static propane_status trial_run_in_turn(trial *t, uint64_t run, propane_error *err) {
    const ane_api *a = t->api;
    propane_completion done = {.size = sizeof done};
    signaller s = {.api = a, .event = ane_events_native(t->device), .value = 2 * run - 1};
    pthread_t thread;
    PROPANE_TRY(trial_fill(t, 0, trial_small, err));
    if (pthread_create(&thread, NULL, trial_signal_later, &s) != 0) return propane_fail_memory(err, 0);
    propane_status status = ane_execute(t->device, &t->execution, &done, err);
    bool waited = atomic_load(&s.signalled);
    pthread_join(thread, NULL);
    PROPANE_TRY(status);
    if (!waited) return propane_fail(err, PROPANE_ERR_DEVICE, "the engine does not wait for the event");
    if (ANE_SEND0(a, event_value, s.event) != 2 * run)
        return propane_fail(err, PROPANE_ERR_DEVICE,
                            "the event's value is %llu after run %llu; it should be twice that",
                            (unsigned long long)ANE_SEND0(a, event_value, s.event), (unsigned long long)run);
    return trial_compare(t, 0, trial_twice, err);
}

propane_status ane_try_events(text *answer, propane_error *err) {
    trial t = {0};
    const ane_api *a;
    propane_error why = {0};
    PROPANE_TRY(ane_api_get(&a, err));
    PROPANE_TRY(ane_remember(a, ANE_ROUTE_CLIENT, ANE_FACT_events, "no", "its trial did not finish", err));
    propane_status status = trial_begin(&t, "client?events=gpu&limit=" ANSWER_MS, doubled, &why);
    for (uint64_t run = 1; run <= RUNS && status == PROPANE_OK; run++) status = trial_run_in_turn(&t, run, &why);
    trial_end(&t);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    text_append(answer, status == PROPANE_OK ? "the engine waits for a Metal event and signals it" : why.text);
    if (answer->failed) return propane_fail_memory(err, answer->length);
    return ane_remember(a, ANE_ROUTE_CLIENT, ANE_FACT_events, status == PROPANE_OK ? "yes" : "no", why.text, err);
}

/* ---- chaining --------------------------------------------------------------------------------------------------------------- */

static bool trial_chaining_there(const ane_api *a) {
    return ANE_HAS(a, buffer) && ANE_HAS(a, output_sets) && ANE_HAS(a, chaining_request) && ANE_HAS(a, client_chain);
}

static ane_id trial_make_chain(const trial *t, ane_surface stats) {
    enum { INPUT, OUTPUT };
    const ane_api *a = t->api;
    ane_id zero = ane_number(a, 0), none = trial_list_of(a, NULL), chain = NULL;
    ane_id in = ANE_SEND(a, buffer, ANE_CLASS(a, buffer), trial_surface_of(t->bound[0][0]), zero, (int64_t)INPUT);
    ane_id out = ANE_SEND(a, buffer, ANE_CLASS(a, buffer), trial_surface_of(t->bound[1][0]), zero, (int64_t)OUTPUT);
    ane_id inputs = in ? trial_list_of(a, in) : NULL, outputs = out ? trial_list_of(a, out) : NULL;
    ane_id set = outputs ? ANE_SEND(a, output_sets, ANE_CLASS(a, output_sets), stats, outputs) : NULL;
    ane_id sets = set ? trial_list_of(a, set) : NULL;
    if (zero && none && inputs && sets)
        chain = ANE_SEND(a, chaining_request, ANE_CLASS(a, chaining_request), inputs, sets, none, none, zero, none,
                         zero, zero, zero);
    ane_release(a, zero);
    ane_release(a, none);
    ane_release(a, inputs);
    ane_release(a, outputs);
    ane_release(a, sets);
    return chain;
}

propane_status ane_try_chaining(text *answer, propane_error *err) {
    trial t = {0};
    driver_buffer stats = {.bytes = 64};
    propane_status status = trial_begin(&t, "client?dispatch=standard", doubled, err);
    if (status == PROPANE_OK) status = ane_buffer_create(t.device, stats.bytes, &stats, err);
    if (status == PROPANE_OK && !trial_chaining_there(t.api)) {
        text_append(answer, "not available: a class or method for chaining is missing or has another type");
    } else if (status == PROPANE_OK) {
        const ane_api *a = t.api;
        const ane_model *m = &((const ane_program *)t.program.impl)->unit->model;
        static ane_id error;
        char reason[600];
        void *pool = a->objc_autoreleasePoolPush();
        ane_id chain = trial_make_chain(&t, ((const ane_buffer *)stats.impl)->surface);
        if (!chain)
            text_append(answer, "a chaining request cannot be created");
        else if (ANE_SEND(a, client_chain, m->client, m->object, a->empty, chain, ANE_QOS, &error))
            text_append(answer, "prepareChaining returns YES; running a chain was not tried");
        else
            text_printf(answer, "refused: %s", ane_reason(a, error, reason, sizeof reason));
        a->objc_autoreleasePoolPop(pool);
    }
    if (stats.impl) ane_buffer_free(t.device, &stats);
    trial_end(&t);
    return status;
}
