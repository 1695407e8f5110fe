/* SPDX-License-Identifier: MIT
 * Owns shared events, with which an engine and a GPU take turns without the host between them. Each device has one
 * Metal shared event, whose value only grows. Run k of the device (from 1) waits for 2k - 1 and signals 2k. A GPU that
 * waits for 2k reads what run k has written. With events=gpu, the GPU itself signals 2k - 1 once it has written what
 * run k reads; otherwise the host does so immediately.
 *
 * Only the client route is known to accept such requests (incoai/splash/runtime/ane/Program.mm,
 * pie-project/pie/crates/kernels-metal/native/ane.m). Evaluate returns when the request is queued, and a completion
 * handler reports how the request finished. The host waits for the handler, at most limit= milliseconds. On any failure
 * the host sets the event's value, so that no GPU waits for ever. A request that has not finished in time may still
 * run. So the request, its handler and its program are kept for the rest of the process, and the device accepts no
 * further runs.
 *
 * The handler is a block in the form that the compiler would put on the heap
 * (https://clang.llvm.org/docs/Block-ABI-Apple.html), because the framework may keep it and call it late or twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ane/driver/ane.h"
#include "core/base/clock.h"
#include "core/base/condition.h"
#include "core/base/memory.h"

enum { NEEDS_FREE = 1 << 24, HAS_SIGNATURE = 1 << 30, ONE_REFERENCE = 2, POLL_NS = 50000 };

struct ane_events {
    const ane_api *api;
    ane_id event;  /* id<MTLSharedEvent> */
    uint64_t runs; /* number of runs begun */
    ane_id error;  /* error of the last run; NULL if there was none */
    bool others, lost;
    int limit_ms;
};

/* ---- the handler ------------------------------------------------------------------------------------------------------------ */

/* The block `void (^)(BOOL, NSError *)`, followed by the data that it stores. The mutex guards this data. */
typedef struct handler {
    const void *isa;
    int flags, reserved;
    void (*invoke)(struct handler *self, bool done, ane_id error);
    const struct handler_description *description;
    const ane_api *api;
    int calls;
    bool done;
    ane_id error;        /* error of the first call, retained; NULL if there was none */
    ane_id answer_error; /* evaluate itself may write its error here, possibly late */
} handler;

struct handler_description {
    unsigned long reserved, size;
    const char *signature;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called;
static bool can_wait;

static void events_init(void) { can_wait = condition_init(&called) == 0; }

static void events_invoke(handler *self, bool done, ane_id error) {
    pthread_mutex_lock(&mutex);
    if (self->calls++ == 0) {
        self->done = done;
        self->error = error;
        if (error) self->api->objc_retain(error);
        pthread_cond_broadcast(&called);
    }
    pthread_mutex_unlock(&mutex);
}

/* Makes a handler with one reference, which belongs to the caller. Releasing the last reference frees the handler with
 * the system's free. Returns NULL if memory runs out. */
static handler *events_make_handler(const ane_api *a) {
    static const struct handler_description description = {0, sizeof(handler), "v20@?0B8@\"NSError\"12"};
    handler *h = malloc(sizeof *h);
    if (h)
        *h = (handler){.isa = a->_NSConcreteMallocBlock,
                       .flags = NEEDS_FREE | HAS_SIGNATURE | ONE_REFERENCE,
                       .invoke = events_invoke,
                       .description = &description,
                       .api = a};
    return h;
}

/* Waits until the handler is called. Returns false if it was not called by the deadline. */
static bool events_await_call(const handler *h, int64_t deadline) {
    pthread_mutex_lock(&mutex);
    while (h->calls == 0 && !condition_wait_until(&called, &mutex, deadline)) {
    }
    bool was_called = h->calls > 0;
    pthread_mutex_unlock(&mutex);
    return was_called;
}

/* ---- the event ---------------------------------------------------------------------------------------------------------------- */

static const char *events_missing(const ane_api *a) {
    const ane_late *late = ane_late_get(a);
    pthread_once(&once, events_init);
    if (!late->MTLCreateSystemDefaultDevice || !late->_Block_release || !a->_NSConcreteMallocBlock || !can_wait)
        return "Metal, or blocks, are missing";
    if (!ANE_HAS(a, wait_event) || !ANE_HAS(a, signal_event) || !ANE_HAS(a, shared_events) ||
        !ANE_HAS(a, request_events) || !ANE_HAS(a, request_handler))
        return "a class or method for shared events is missing or has another type";
    return NULL;
}

static const char *events_make_event(const ane_api *a, ane_id *out) {
    ane_id gpu = ane_late_get(a)->MTLCreateSystemDefaultDevice();
    if (!gpu) return "the system has no Metal device";
    *out = ane_meet(a, ANE_CLASS_metal_device, gpu) ? ANE_SEND0(a, metal_event, gpu) : NULL;
    ane_release(a, gpu);
    if (!*out) return "the Metal device creates no shared event";
    return ane_meet(a, ANE_CLASS_shared_event, *out) ? NULL
                                                     : "the shared event has no value that can be set, or no eventPort";
}

propane_status ane_events_open(ane_device *d, propane_error *err) {
    const ane_api *a = d->api;
    if (d->options.events == ANE_EVENTS_OFF) return PROPANE_OK;
    if (d->options.route != ANE_ROUTE_CLIENT ||
        (d->options.dispatch != ANE_AUTO && d->options.dispatch != ANE_STANDARD))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "device 'ane': events= needs the route ane:client and standard evaluation; with others, "
                            "events were ignored or caused crashes");
    const char *missing = events_missing(a);
    ane_events *e = missing ? NULL : mem_alloc(sizeof *e);
    if (!missing && !e) return propane_fail_memory(err, sizeof *e);
    if (!missing) {
        *e = (ane_events){.api = a, .others = d->options.events == ANE_EVENTS_GPU, .limit_ms = d->options.limit_ms};
        d->events = e;
        void *pool = a->objc_autoreleasePoolPush();
        missing = events_make_event(a, &e->event);
        a->objc_autoreleasePoolPop(pool);
    }
    if (!missing) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "ane: shared events are not available: %s; leave out events=", missing);
}

void ane_events_close(ane_device *d) {
    ane_events *e = d->events;
    if (!e) return;
    ane_release(e->api, e->error);
    ane_release(e->api, e->event);
    mem_free(e);
    d->events = NULL;
}

void *ane_events_native(const ane_device *d) { return d->events ? d->events->event : NULL; }

/* ---- a run -------------------------------------------------------------------------------------------------------------------- */

static void events_raise_to(const ane_events *e, uint64_t value) {
    if (ANE_SEND0(e->api, event_value, e->event) < value) ANE_SEND(e->api, event_set_value, e->event, value);
}

static ane_id events_list_of(const ane_api *a, ane_id one) { return one ? ane_array(a, &one, 1) : NULL; }

propane_status ane_events_begin(ane_events *e, propane_error *err) {
    if (e->lost)
        return propane_fail(err, PROPANE_ERR_DEVICE,
                            "ane: an earlier request with shared events has not ended; end this process");
    e->runs++;
    return PROPANE_OK;
}

void ane_events_end(ane_events *e, bool done) {
    if (!done) events_raise_to(e, 2 * e->runs);
}

ane_id ane_events_make(const ane_events *e) {
    const ane_api *a = e->api;
    ane_id wait = ANE_SEND(a, wait_event, ANE_CLASS(a, wait_event), 2 * e->runs - 1, e->event, (int64_t)0);
    ane_id signal =
        ANE_SEND(a, signal_event, ANE_CLASS(a, signal_event), 2 * e->runs, (uint32_t)0, (int64_t)0, e->event);
    ane_id waits = events_list_of(a, wait), signals = events_list_of(a, signal), all = NULL;
    if (waits && signals) all = ANE_SEND(a, shared_events, ANE_CLASS(a, shared_events), signals, waits);
    ane_release(a, waits);
    ane_release(a, signals);
    return all;
}

/* Waits for the event's signal after the handler has reported success, when the signal has come or is about to come.
 * Returns false if it does not come by the deadline. */
static bool events_await_signal(const ane_events *e, int64_t deadline) {
    while (ANE_SEND0(e->api, event_value, e->event) < 2 * e->runs) {
        if (clock_ns() > deadline) return false;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return true;
}

/* Keeps everything that the lost request uses for the rest of the process, and returns the failure. */
static propane_status events_lose(ane_events *e, ane_unit *unit, ane_id request, const handler *h, propane_error *err) {
    e->lost = true;
    unit->lost = h;
    e->api->objc_retain(request);
    return propane_fail(
        err, PROPANE_ERR_DEVICE,
        "ane: a request with shared events did not finish within %d ms: its handler was %s; %s (limit= sets a longer "
        "limit)",
        e->limit_ms, h->calls ? "called, but its event was not signalled" : "not called",
        e->others ? "either the GPU did not signal the value that the request waits for, or the engine ignores events"
                  : "the engine ignores events");
}

propane_status ane_events_evaluate(ane_events *e, ane_unit *unit, uint32_t qos, ane_id request, bool *done,
                                   ane_id *error, propane_error *err) {
    const ane_api *a = e->api;
    const ane_model *m = &unit->model;
    handler *h = events_make_handler(a);
    if (!h) return propane_fail_memory(err, sizeof *h);
    ane_release(a, e->error);
    e->error = NULL;
    ANE_SEND(a, request_handler, request, (ane_id)(void *)h);
    if (!e->others) events_raise_to(e, 2 * e->runs - 1);
    const int64_t deadline = clock_ns() + (int64_t)e->limit_ms * 1000000;
    *done = ANE_SEND(a, client_evaluate, m->client, m->object, a->empty, request, qos, &h->answer_error);
    if (*done && (!events_await_call(h, deadline) || (h->done && !events_await_signal(e, deadline))))
        return events_lose(e, unit, request, h, err); /* also keeps the handler */
    if (*done) {
        pthread_mutex_lock(&mutex);
        *done = h->done;
        e->error = h->error;
        pthread_mutex_unlock(&mutex);
    } else if (h->answer_error) {
        e->error = h->answer_error;
        a->objc_retain(e->error);
    }
    *error = e->error;
    ane_late_get(a)->_Block_release(h);
    return PROPANE_OK;
}
