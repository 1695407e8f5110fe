/* SPDX-License-Identifier: MIT
 * Owns requests and their evaluation. A request of the device layer becomes one _ANERequest, built at its first use and
 * reused until one of its surfaces is replaced.
 *
 * An engine has been seen to refuse (0x1d) a request whose inputs, or outputs, have surfaces of different sizes (C11).
 * So smaller surfaces grow when a request is prepared, unless a trial has shown that sizes may differ on this machine.
 * Surfaces that other requests bind together with them also grow, until every request has equal surfaces. No copies are
 * made at run time.
 *
 * Three ways to evaluate are known, and dispatch.c chooses one. If dispatch=auto has chosen a way other than the
 * standard one and that way fails, the device permanently returns to the standard way.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"
#include "core/base/clock.h"
#include "core/base/memory.h"

enum {
    CANCELLED_CODE = 34,
    CANCELLED_STATUS = 0x12,
    SURFACES_CODE = 42,
    SURFACES_STATUS = 0x1d,
    MOST_AGAIN = 8,
    AGAIN_NS = 3000000
};

typedef struct ane_request {
    driver_execution *execution;
    ane_id object;       /* NULL until it is built */
    ane_id error;        /* not on a stack, because a late answer may still write to it */
    uint64_t generation; /* the sum of the surfaces' generations when the object was built */
    struct ane_request *previous, *next;
} ane_request;

/* ---- even sizes --------------------------------------------------------------------------------------------------------- */

static propane_status run_even_out(ane_device *d, driver_buffer *const *buffers, const ane_side *side, bool *grown,
                                   propane_error *err) {
    size_t largest = 0;
    for (int k = 0; k < side->count; k++) {
        const ane_buffer *b = buffers[side->bound[k]]->impl;
        if (b->allocated > largest) largest = b->allocated;
    }
    for (int k = 0; k < side->count; k++) {
        const ane_buffer *b = buffers[side->bound[k]]->impl;
        if (b->allocated == largest) continue;
        PROPANE_TRY(ane_buffer_grow(d, buffers[side->bound[k]], largest, err));
        *grown = true;
    }
    return PROPANE_OK;
}

/* Terminates because sizes only grow, and never beyond the largest one. */
static propane_status run_even_out_all(ane_device *d, propane_error *err) {
    for (bool grown = d->equal_size; grown;) {
        grown = false;
        for (ane_request *r = d->requests; r; r = r->next) {
            const ane_program *p = r->execution->program->impl;
            PROPANE_TRY(run_even_out(d, r->execution->inputs, &p->order.inputs, &grown, err));
            PROPANE_TRY(run_even_out(d, r->execution->outputs, &p->order.outputs, &grown, err));
        }
    }
    return PROPANE_OK;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------- */

static uint64_t run_generation_of(const driver_execution *e) {
    uint64_t sum = 0;
    for (int i = 0; i < e->program->input_count; i++) sum += ((const ane_buffer *)e->inputs[i]->impl)->generation;
    for (int i = 0; i < e->program->output_count; i++) sum += ((const ane_buffer *)e->outputs[i]->impl)->generation;
    return sum;
}

static ane_id run_surface_list(const ane_api *a, driver_buffer *const *buffers, const ane_side *side) {
    ane_id list[ANE_MAX_IO] = {NULL};
    for (int k = 0; k < side->count; k++) list[k] = ((const ane_buffer *)buffers[side->bound[k]]->impl)->object;
    return ane_array(a, list, side->count);
}

static ane_id run_index_list(const ane_api *a, const ane_side *side) {
    ane_id list[ANE_MAX_IO] = {NULL}, all = NULL;
    bool made = true;
    for (int k = 0; k < side->count; k++) made = (list[k] = ane_number(a, side->symbol[k])) && made;
    if (made) all = ane_array(a, list, side->count);
    for (int k = 0; k < side->count; k++) ane_release(a, list[k]);
    return all;
}

/* `events` is what the request waits for and signals, or NULL. */
static propane_status run_build(const ane_device *d, ane_request *r, ane_id events, propane_error *err) {
    const ane_api *a = d->api;
    const driver_execution *e = r->execution;
    const ane_program *p = e->program->impl;
    ane_release(a, r->object);
    r->object = NULL;
    ane_id part[] = {run_surface_list(a, e->inputs, &p->order.inputs), run_index_list(a, &p->order.inputs),
                     run_surface_list(a, e->outputs, &p->order.outputs), run_index_list(a, &p->order.outputs),
                     ane_number(a, p->order.procedure)};
    if (part[0] && part[1] && part[2] && part[3] && part[4])
        r->object = events ? ANE_SEND(a, request_events, ANE_CLASS(a, request), part[0], part[1], part[2], part[3],
                                      NULL, NULL, part[4], events, NULL)
                           : ANE_SEND(a, request, ANE_CLASS(a, request), part[0], part[1], part[2], part[3], NULL, NULL,
                                      part[4]);
    if (r->object) a->objc_retain(r->object);
    for (int i = 0; i < 5; i++) ane_release(a, part[i]);
    r->generation = run_generation_of(e);
    return r->object ? PROPANE_OK
                     : propane_fail(err, PROPANE_ERR_DEVICE, "ane: _ANERequest rejects %d inputs and %d outputs",
                                    p->order.inputs.count, p->order.outputs.count);
}

static void run_unlink_request(ane_device *d, ane_request *r) {
    if (r->previous)
        r->previous->next = r->next;
    else
        d->requests = r->next;
    if (r->next) r->next->previous = r->previous;
}

propane_status ane_request_prepare(void *impl, driver_execution *e, propane_error *err) {
    ane_device *d = impl;
    ane_request *r = mem_alloc(sizeof *r);
    if (!r) return propane_fail_memory(err, sizeof *r);
    r->execution = e;
    e->impl = r;
    pthread_mutex_lock(&d->mutex);
    r->next = d->requests;
    if (r->next) r->next->previous = r;
    d->requests = r;
    propane_status status = run_even_out_all(d, err);
    if (status != PROPANE_OK) run_unlink_request(d, r);
    pthread_mutex_unlock(&d->mutex);
    if (status != PROPANE_OK) mem_free(r);
    return status;
}

void ane_request_free(void *impl, driver_execution *e) {
    ane_device *d = impl;
    ane_request *r = e->impl;
    pthread_mutex_lock(&d->mutex);
    run_unlink_request(d, r);
    ane_release(d->api, r->object);
    pthread_mutex_unlock(&d->mutex);
    mem_free(r);
    e->impl = NULL;
}

/* ---- evaluation ----------------------------------------------------------------------------------------------------------- */

static bool run_call(const ane_device *d, const ane_model *m, ane_dispatch way, ane_request *r) {
    const ane_api *a = d->api;
    uint32_t qos = (uint32_t)d->options.qos;
    if (way == ANE_DIRECT) return ANE_SEND(a, client_direct, m->client, m->inner, a->empty, r->object, qos, &r->error);
    if (way == ANE_REAL_TIME) return ANE_SEND(a, client_real_time, m->client, m->inner, a->empty, r->object, &r->error);
    if (d->options.route == ANE_ROUTE_MEMORY)
        return ANE_SEND(a, memory_evaluate, m->object, qos, a->empty, r->object, &r->error);
    return ANE_SEND(a, client_evaluate, m->client, m->object, a->empty, r->object, qos, &r->error);
}

/* Evaluates once. With shared events, each evaluation has a separate request. */
static propane_status run_once(ane_device *d, ane_request *r, ane_dispatch way, bool *done, propane_error *err) {
    ane_unit *unit = ((const ane_program *)r->execution->program->impl)->unit;
    r->error = NULL;
    if (!d->events) {
        if (!r->object || r->generation != run_generation_of(r->execution)) PROPANE_TRY(run_build(d, r, NULL, err));
        *done = run_call(d, &unit->model, way, r);
        return PROPANE_OK;
    }
    ane_id events = ane_events_make(d->events);
    if (!events) return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the system creates no shared events for a request");
    PROPANE_TRY(run_build(d, r, events, err));
    return ane_events_evaluate(d->events, unit, (uint32_t)d->options.qos, r->object, done, &r->error, err);
}

/* Returns true if the engine refused the request because its power state was changing. Since macOS 27, an engine
 * refuses requests for 8 to 15 ms while its power state changes. This happens after a pause of seconds, and to the
 * first request of a process (loading-awesome/MiniMax-H3-Swift/docs/ANE_STATUS.md). */
static bool run_was_cancelled(const ane_device *d, const ane_request *r) {
    ane_failure f;
    if (!d->cancels) return false;
    ane_error_read(d->api, r->error, &f);
    return f.code == CANCELLED_CODE && f.has_status && f.status == CANCELLED_STATUS;
}

static propane_status run_evaluate(ane_device *d, ane_request *r, ane_dispatch way, bool *done, propane_completion *out,
                                   propane_error *err) {
    for (int again = 0;; again++) {
        int64_t begin = clock_ns();
        PROPANE_TRY(run_once(d, r, way, done, err));
        out->device_ns = clock_ns() - begin;
        if (*done || again == MOST_AGAIN || !run_was_cancelled(d, r)) return PROPANE_OK;
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        out->repeats++;
    }
}

static propane_status run_fail_evaluation(const ane_device *d, const ane_request *r, const char *way,
                                          propane_error *err) {
    char reason[700];
    return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the engine failed%s: %s", way,
                        ane_reason(d->api, r->error, reason, sizeof reason));
}

/* Returns the engine's own time in ns, or -1 if it reports none. A request's statistics are one object or an array of
 * objects. */
static int64_t run_engine_time(const ane_api *a, const ane_model *m, const ane_request *r) {
    if (!m->counts || !ANE_HAS(a, request_statistics) || !ANE_HAS(a, statistics_time)) return -1;
    ane_id statistics = ANE_SEND0(a, request_statistics, r->object);
    if (ane_array_count(a, statistics) > 0) statistics = ane_array_at(a, statistics, 0);
    uint64_t ns =
        ane_answers(a, statistics, ANE_METHOD_statistics_time) ? ANE_SEND0(a, statistics_time, statistics) : 0;
    return ns > 0 && ns < INT64_MAX ? (int64_t)ns : -1;
}

/* Makes the surfaces equal in size after a failure that different sizes may have caused, because a trial's result for a
 * small program may not hold for this program. Returns true if the request's surfaces have changed. */
static bool run_was_made_even(ane_device *d, const ane_request *r) {
    ane_failure f;
    char reason[300];
    /* Receives the error of a locked surface or a lack of memory; the engine's own message is more useful. */
    propane_error ignored = {0};
    ane_error_read(d->api, r->error, &f);
    if (d->equal_size || d->options.sizes != ANE_SIZES_ANY_IF_PROVED ||
        (f.code != SURFACES_CODE && (!f.has_status || f.status != SURFACES_STATUS)))
        return false;
    d->equal_size = true;
    ane_failure_print(&f, reason, sizeof reason);
    if (ane_remember(d->api, d->options.route, ANE_FACT_sizes, "no", reason, &ignored) != PROPANE_OK)
        ignored = (propane_error){0}; /* the next process may meet the failure again */
    return run_even_out_all(d, &ignored) == PROPANE_OK && r->generation != run_generation_of(r->execution);
}

static propane_status run(ane_device *d, ane_request *r, propane_completion *out, propane_error *err) {
    const ane_program *p = r->execution->program->impl;
    const ane_model *m = &p->unit->model;
    ane_dispatch way = d->way;
    char suffix[60] = "";
    if (d->options.dispatch == ANE_AUTO && !ane_way_offered(d->api, m, way)) way = d->way = ANE_STANDARD;
    if (way != ANE_STANDARD) snprintf(suffix, sizeof suffix, " (%s evaluation)", ane_way_name(way));
    if (!ane_way_offered(d->api, m, way))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: this system does not support%s; leave out dispatch=", suffix);
    bool done = false;
    PROPANE_TRY(run_evaluate(d, r, way, &done, out, err));
    if (!done && d->options.dispatch == ANE_AUTO && way != ANE_STANDARD) { /* this way was only optional */
        char reason[300];
        ane_way_failed(d, way, ane_reason(d->api, r->error, reason, sizeof reason));
        ane_way_end(d);
        d->way = ANE_STANDARD;
        suffix[0] = 0;
        PROPANE_TRY(run_evaluate(d, r, ANE_STANDARD, &done, out, err));
    }
    if (!done && run_was_made_even(d, r)) PROPANE_TRY(run_evaluate(d, r, d->way, &done, out, err));
    if (!done) return run_fail_evaluation(d, r, suffix, err);
    out->engine_ns = run_engine_time(d->api, m, r);
    return PROPANE_OK;
}

propane_status ane_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    ane_device *d = impl;
    propane_status status = PROPANE_OK;
    pthread_mutex_lock(&d->mutex);
    void *pool = d->api->objc_autoreleasePoolPush();
    if (d->events) status = ane_events_begin(d->events, err);
    if (status == PROPANE_OK) {
        status = run(d, e->impl, out, err);
        if (d->events) ane_events_end(d->events, status == PROPANE_OK);
    }
    d->api->objc_autoreleasePoolPop(pool);
    pthread_mutex_unlock(&d->mutex);
    return status;
}
