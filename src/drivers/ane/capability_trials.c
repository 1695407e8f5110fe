/* SPDX-License-Identifier: MIT
 * Owns two things that the engine's framework offers and that nobody is known to rely on: shared events and chaining. They
 * are tried here, on one small program, and only to tell whether they answer: notes on them speak of crashes and hangs, so
 * `propane devices --probe` calls this in a process of its own, and the driver itself uses neither.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "drivers/ane/ane.h"

extern const propane_driver ane_driver;

enum { ANSWER_MS = 2000, GLOBAL_BLOCK = 1 << 28 };

static const char source[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-component-MIL\", \"3510.2.1\"}})]\n{\n"
    "    func main<ios18>(tensor<fp16, [1, 32, 1, 32]> x) {\n"
    "        tensor<fp16, [1, 32, 1, 32]> y = add(x = x, y = x)[name = string(\"y\")];\n    } -> (y);\n}\n";

/* One program with a surface on each side. */
typedef struct trial {
    void *device;
    const ane_api *api;
    mil_module *module;
    driver_program program;
    driver_buffer in, out;
    bool compiled;
} trial;

static propane_status trial_begin(trial *t, const char *rest, propane_error *err) {
    static const propane_compile_options options;
    PROPANE_TRY(ane_driver.open(rest, &t->device, err));
    t->api = ((const ane_device *)t->device)->api;
    PROPANE_TRY(mil_parse(source, sizeof source - 1, "trial", NULL, &t->module, err));
    t->program.arena = arena_create();
    if (!t->program.arena) return propane_fail_memory(err, 0);
    PROPANE_TRY(ane_driver.compile(t->device, t->module->functions, &options, &t->program, err));
    t->compiled = true;
    t->in.bytes = t->program.inputs[0].bytes;
    t->out.bytes = t->program.outputs[0].bytes;
    PROPANE_TRY(ane_buffer_create(t->device, t->in.bytes, &t->in, err));
    return ane_buffer_create(t->device, t->out.bytes, &t->out, err);
}

static void trial_end(trial *t) {
    if (t->in.impl) ane_buffer_free(t->device, &t->in);
    if (t->out.impl) ane_buffer_free(t->device, &t->out);
    if (t->compiled) ane_driver.program_free(t->device, &t->program);
    arena_free(t->program.arena);
    mil_module_free(t->module);
    if (t->device) ane_driver.close(t->device);
}

static ane_id trial_surface_of(const driver_buffer *b) { return ((const ane_buffer *)b->impl)->object; }

static ane_id trial_list_of(const ane_api *a, ane_id one) {
    return one ? ane_array(a, &one, 1) : ane_array(a, NULL, 0);
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
    ane_id zero = ane_number(a, 0), inputs = trial_list_of(a, trial_surface_of(&t->in)),
           outputs = trial_list_of(a, trial_surface_of(&t->out)), indices = trial_list_of(a, zero), request = NULL;
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
    propane_status status = trial_begin(&t, "client?dispatch=standard", err);
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
    ane_id in = ANE_SEND(a, buffer, ANE_CLASS(a, buffer), trial_surface_of(&t->in), zero, (int64_t)INPUT);
    ane_id out = ANE_SEND(a, buffer, ANE_CLASS(a, buffer), trial_surface_of(&t->out), zero, (int64_t)OUTPUT);
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
    propane_status status = trial_begin(&t, "client?dispatch=standard", err);
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
