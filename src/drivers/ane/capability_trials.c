/* SPDX-License-Identifier: MIT
 * Owns trials of what the engine or its framework offers and that is not certain to work: surfaces of different sizes in one
 * request, shared events, chaining. Each runs one small program and says in words whether it answers; notes on some speak of
 * crashes and hangs, so `propane devices` calls this in a process of its own. What the driver may rely on is remembered.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/float16.h"
#include "base/memory.h"
#include "drivers/ane/ane.h"
#include "drivers/ane/remembered.h"

extern const propane_driver ane_driver;

enum { ANSWER_MS = 2000, GLOBAL_BLOCK = 1 << 28, SIDES = 2, MOST = 2 };

#define PROGRAM(body)                                                                                                  \
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"               \
    "    func main<ios18>(" body "}\n"

static const char doubled[] =
    PROGRAM("tensor<fp16, [1, 32, 1, 32]> x) {\n"
            "        tensor<fp16, [1, 32, 1, 32]> y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n");
/* Inputs and outputs whose surfaces differ in size: 51,200 bytes and one page. */
static const char uneven[] =
    PROGRAM("tensor<fp16, [1, 400, 1, 64]> large, tensor<fp16, [1, 1, 1, 64]> small) {\n"
            "        tensor<fp16, [1, 400, 1, 64]> y = sub(x = large, y = small)[name = string(\"y\")];\n"
            "        tensor<fp16, [1, 1, 1, 64]> z = add(x = small, y = small)[name = string(\"z\")];\n"
            "    } -> (y, z);\n");

/* One program with a surface for each input and output. */
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

/* Rows of 64 elements. */
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
    PROPANE_TRY(ane_remember(a, route, ANE_FACT_sizes, "no", "its trial did not end", err));
    propane_status status = trial_begin(
        &t, route ? "client?dispatch=standard&sizes=any" : "memory?dispatch=standard&sizes=any", uneven, &why);
    if (status == PROPANE_OK) status = trial_run_uneven(&t, &why);
    trial_end(&t);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    text_append(answer, status == PROPANE_OK ? "hold" : why.text);
    if (answer->failed) return propane_fail_memory(err, answer->length);
    return ane_remember(a, route, ANE_FACT_sizes, status == PROPANE_OK ? "yes" : "no", why.text, err);
}

/* ---- shared events -------------------------------------------------------------------------------------------------------- */

/* A block as the compiler would lay it out, without captured values. */
typedef struct block {
    const void *isa;
    int flags, reserved;
    void (*invoke)(struct block *self, bool done, ane_id error);
    const struct block_size {
        unsigned long reserved, size;
    } *size;
} block;

static atomic_int handler_calls;

static void trial_on_completion(block *self, bool done, ane_id error) { atomic_fetch_add(&handler_calls, 1); }

static bool trial_events_there(const ane_api *a) {
    return a->_NSConcreteGlobalBlock && ANE_HAS(a, event_alloc) && ANE_HAS(a, event_init) && ANE_HAS(a, event_value) &&
           ANE_HAS(a, signal_event) && ANE_HAS(a, shared_events) && ANE_HAS(a, request_events) &&
           ANE_HAS(a, request_handler);
}

static ane_id trial_make_events(const ane_api *a, ane_id event) {
    ane_id signal = ANE_SEND(a, signal_event, ANE_CLASS(a, signal_event), (uint64_t)1, (uint32_t)0, (int64_t)0, event);
    ane_id signals = signal ? trial_list_of(a, signal) : NULL, waits = trial_list_of(a, NULL), events = NULL;
    if (signals && waits) events = ANE_SEND(a, shared_events, ANE_CLASS(a, shared_events), signals, waits);
    ane_release(a, signals);
    ane_release(a, waits);
    return events;
}

static ane_id trial_make_request(const trial *t, ane_id events) {
    const ane_api *a = t->api;
    ane_id zero = ane_number(a, 0), inputs = trial_list_of(a, trial_surface_of(t->bound[0][0])),
           outputs = trial_list_of(a, trial_surface_of(t->bound[1][0])), indices = trial_list_of(a, zero),
           request = NULL;
    if (zero && inputs && outputs && indices)
        request = ANE_SEND(a, request_events, ANE_CLASS(a, request), inputs, indices, outputs, indices, NULL, NULL,
                           zero, events);
    ane_release(a, zero);
    ane_release(a, inputs);
    ane_release(a, outputs);
    ane_release(a, indices);
    return request;
}

static void trial_try_events(const trial *t, ane_id event, text *answer) {
    static const struct block_size size = {0, sizeof(block)};
    const ane_api *a = t->api;
    const ane_model *m = &((const ane_program *)t->program.impl)->unit->model;
    static ane_id error; /* a late answer may still write to it */
    block handler = {a->_NSConcreteGlobalBlock, GLOBAL_BLOCK, 0, trial_on_completion, &size};
    ane_id events = trial_make_events(a, event), request = events ? trial_make_request(t, events) : NULL;
    char reason[600];
    if (!request) {
        text_append(answer, "no request with events can be made");
        return;
    }
    atomic_store(&handler_calls, 0);
    ANE_SEND(a, request_handler, request, (ane_id)(void *)&handler);
    if (!ANE_SEND(a, client_evaluate, m->client, m->object, a->empty, request, ANE_QOS, &error)) {
        text_printf(answer, "refused: %s", ane_reason(a, error, reason, sizeof reason));
        return;
    }
    int waited = 0;
    for (; ANE_SEND0(a, event_value, event) < 1 && waited < ANSWER_MS; waited++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    while (atomic_load(&handler_calls) == 0 && waited++ < ANSWER_MS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    text_printf(answer, "the event %s, the completion handler %s",
                ANE_SEND0(a, event_value, event) >= 1 ? "is signalled" : "is not signalled within 2 s",
                atomic_load(&handler_calls) ? "is called" : "is not called");
}

propane_status ane_try_events(text *answer, propane_error *err) {
    trial t = {0};
    propane_status status = trial_begin(&t, "client?dispatch=standard", doubled, err);
    if (status == PROPANE_OK && !trial_events_there(t.api)) {
        text_append(answer, "not there: a class or method of shared events is missing or of another type");
    } else if (status == PROPANE_OK) {
        void *pool = t.api->objc_autoreleasePoolPush();
        ane_id event = ANE_SEND0(t.api, event_alloc, ANE_CLASS(t.api, shared_event));
        if (event) event = ANE_SEND0(t.api, event_init, event);
        if (event)
            trial_try_events(&t, event, answer);
        else
            text_append(answer, "the system gives no shared event");
        t.api->objc_autoreleasePoolPop(pool);
        ane_release(t.api, event);
    }
    trial_end(&t);
    return status;
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
        text_append(answer, "not there: a class or method of chaining is missing or of another type");
    } else if (status == PROPANE_OK) {
        const ane_api *a = t.api;
        const ane_model *m = &((const ane_program *)t.program.impl)->unit->model;
        static ane_id error;
        char reason[600];
        void *pool = a->objc_autoreleasePoolPush();
        ane_id chain = trial_make_chain(&t, ((const ane_buffer *)stats.impl)->surface);
        if (!chain)
            text_append(answer, "no chaining request can be made");
        else if (ANE_SEND(a, client_chain, m->client, m->object, a->empty, chain, ANE_QOS, &error))
            text_append(answer, "prepareChaining answers yes; running a chain is not tried");
        else
            text_printf(answer, "refused: %s", ane_reason(a, error, reason, sizeof reason));
        a->objc_autoreleasePoolPop(pool);
    }
    if (stats.impl) ane_buffer_free(t.device, &stats);
    trial_end(&t);
    return status;
}
