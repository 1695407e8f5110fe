/* SPDX-License-Identifier: MIT
 * Owns requests and their evaluation. A request of the device layer becomes one _ANERequest, built at its first use and
 * used again until one of its surfaces is replaced.
 *
 * An engine has been seen to refuse (0x1d) a request whose inputs, or outputs, have surfaces of different sizes (C11). So
 * when a request is prepared, the smaller surfaces grow, and with them those that other requests bind beside them, until
 * every request is even: without copies at run time.
 *
 * Three ways to evaluate are known; dispatch=auto tries each where it is offered, keeps count of which answers fastest, and
 * goes back to the standard way where another one fails.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "drivers/ane/ane.h"

enum { TRIALS = 8 };

typedef struct ane_request {
    driver_execution *execution;
    ane_id object;       /* NULL: not built yet */
    ane_id error;        /* here, not on a stack: a late answer may still write to it */
    uint64_t generation; /* the sum of its surfaces' when it was built */
    struct ane_request *previous, *next;
} ane_request;

/* ---- even sizes --------------------------------------------------------------------------------------------------------- */

static propane_status even_out(ane_device *d, driver_buffer *const *buffers, const int *order, int count, bool *grown,
                               propane_error *err) {
    size_t largest = 0;
    for (int k = 0; k < count; k++) {
        const ane_buffer *b = buffers[order[k]]->impl;
        if (b->allocated > largest) largest = b->allocated;
    }
    for (int k = 0; k < count; k++) {
        const ane_buffer *b = buffers[order[k]]->impl;
        if (b->allocated == largest) continue;
        PROPANE_TRY(ane_buffer_grow(d, buffers[order[k]], largest, err));
        *grown = true;
    }
    return PROPANE_OK;
}

/* Ends because sizes only grow, up to the largest that there is. */
static propane_status even_out_all(ane_device *d, propane_error *err) {
    for (bool grown = d->options.equal_size; grown;) {
        grown = false;
        for (ane_request *r = d->requests; r; r = r->next) {
            const ane_program *p = r->execution->program->impl;
            PROPANE_TRY(even_out(d, r->execution->inputs, p->order.inputs, p->order.input_count, &grown, err));
            PROPANE_TRY(even_out(d, r->execution->outputs, p->order.outputs, p->order.output_count, &grown, err));
        }
    }
    return PROPANE_OK;
}

/* ---- requests ------------------------------------------------------------------------------------------------------------- */

static uint64_t generation_of(const driver_execution *e) {
    uint64_t sum = 0;
    for (int i = 0; i < e->program->input_count; i++) sum += ((const ane_buffer *)e->inputs[i]->impl)->generation;
    for (int i = 0; i < e->program->output_count; i++) sum += ((const ane_buffer *)e->outputs[i]->impl)->generation;
    return sum;
}

static ane_id surface_list(const ane_api *a, driver_buffer *const *buffers, const int *order, int count) {
    ane_id list[ANE_MAX_IO] = {NULL};
    for (int k = 0; k < count; k++) list[k] = ((const ane_buffer *)buffers[order[k]]->impl)->object;
    return ane_array(a, list, count);
}

static ane_id index_list(const ane_api *a, int count) {
    ane_id list[ANE_MAX_IO] = {NULL}, all = NULL;
    bool made = true;
    for (int k = 0; k < count; k++) made = (list[k] = ane_number(a, k)) && made;
    if (made) all = ane_array(a, list, count);
    for (int k = 0; k < count; k++) ane_release(a, list[k]);
    return all;
}

static propane_status build(const ane_device *d, ane_request *r, propane_error *err) {
    const ane_api *a = d->api;
    const driver_execution *e = r->execution;
    const ane_program *p = e->program->impl;
    ane_release(a, r->object);
    r->object = NULL;
    ane_id part[] = {surface_list(a, e->inputs, p->order.inputs, p->order.input_count),
                     index_list(a, p->order.input_count),
                     surface_list(a, e->outputs, p->order.outputs, p->order.output_count),
                     index_list(a, p->order.output_count), ane_number(a, 0)};
    if (part[0] && part[1] && part[2] && part[3] && part[4])
        r->object =
            ANE_SEND(a, request, ANE_CLASS(a, request), part[0], part[1], part[2], part[3], NULL, NULL, part[4]);
    if (r->object) a->objc_retain(r->object);
    for (int i = 0; i < 5; i++) ane_release(a, part[i]);
    r->generation = generation_of(e);
    return r->object ? PROPANE_OK
                     : propane_fail(err, PROPANE_ERR_DEVICE, "ane: _ANERequest does not take %d inputs and %d outputs",
                                    p->order.input_count, p->order.output_count);
}

static void unlink_request(ane_device *d, ane_request *r) {
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
    propane_status status = even_out_all(d, err);
    if (status != PROPANE_OK) unlink_request(d, r);
    pthread_mutex_unlock(&d->mutex);
    if (status != PROPANE_OK) mem_free(r);
    return status;
}

void ane_request_free(void *impl, driver_execution *e) {
    ane_device *d = impl;
    ane_request *r = e->impl;
    pthread_mutex_lock(&d->mutex);
    unlink_request(d, r);
    ane_release(d->api, r->object);
    pthread_mutex_unlock(&d->mutex);
    mem_free(r);
    e->impl = NULL;
}

/* ---- evaluation ----------------------------------------------------------------------------------------------------------- */

static bool offered(const ane_api *a, const ane_model *m, ane_dispatch way) {
    if (way == ANE_STANDARD) return true;
    if (!m->client || !m->inner) return false;
    return way == ANE_DIRECT ? ANE_HAS(a, client_direct) : ANE_HAS(a, client_real_time);
}

static bool evaluate(const ane_device *d, const ane_model *m, ane_dispatch way, ane_request *r) {
    const ane_api *a = d->api;
    uint32_t qos = (uint32_t)d->options.qos;
    r->error = NULL;
    if (way == ANE_DIRECT) return ANE_SEND(a, client_direct, m->client, m->inner, a->empty, r->object, qos, &r->error);
    if (way == ANE_REAL_TIME) return ANE_SEND(a, client_real_time, m->client, m->inner, a->empty, r->object, &r->error);
    if (d->options.route == ANE_ROUTE_MEMORY)
        return ANE_SEND(a, memory_evaluate, m->object, qos, a->empty, r->object, &r->error);
    return ANE_SEND(a, client_evaluate, m->client, m->object, a->empty, r->object, qos, &r->error);
}

static propane_status fail_evaluation(const ane_device *d, const ane_request *r, const char *way, propane_error *err) {
    char reason[700];
    ane_reason(d->api, r->error, reason, sizeof reason);
    const char *hint = strstr(reason, "0x1d")  ? "; 0x1d: number, size or order of the surfaces (C11 to C13)"
                       : strstr(reason, "0x2") ? "; 0x2: index of a procedure or symbol"
                                               : "";
    return propane_fail(err, PROPANE_ERR_DEVICE, "ane: the engine fails%s: %s%s", way, reason, hint);
}

/* The way that dispatch=auto takes now: one that has not been tried often enough, or the fastest. */
static ane_dispatch choose(const ane_device *d, const ane_program *p) {
    ane_dispatch best = ANE_STANDARD;
    if (d->options.dispatch != ANE_AUTO) return d->options.dispatch;
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++) {
        if (p->ways[way].failed || !offered(d->api, &p->model, (ane_dispatch)way)) continue;
        if (p->ways[way].runs < TRIALS) return (ane_dispatch)way;
        if (p->ways[way].best_ns < p->ways[best].best_ns) best = (ane_dispatch)way;
    }
    return best;
}

static propane_status run(ane_device *d, ane_request *r, propane_completion *out, propane_error *err) {
    ane_program *p = r->execution->program->impl;
    static const char *const names[] = {"", " (direct evaluation)", " (real-time evaluation)"};
    ane_dispatch way = choose(d, p);
    if (!offered(d->api, &p->model, way))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: this system does not offer%s; leave out dispatch=", names[way]);
    int64_t begin = clock_ns();
    bool done = evaluate(d, &p->model, way, r);
    int64_t span = clock_ns() - begin;
    if (!done && d->options.dispatch == ANE_AUTO && way != ANE_STANDARD) { /* it was an offer only */
        p->ways[way].failed = true;
        ane_reason(d->api, r->error, p->ways[way].why, sizeof p->ways[way].why);
        way = ANE_STANDARD;
        begin = clock_ns();
        done = evaluate(d, &p->model, way, r);
        span = clock_ns() - begin;
    }
    if (!done) return fail_evaluation(d, r, names[way], err);
    if (p->ways[way].runs == 0 || span < p->ways[way].best_ns) p->ways[way].best_ns = span;
    if (p->ways[way].runs < TRIALS) p->ways[way].runs++;
    out->device_ns = span;
    return PROPANE_OK;
}

propane_status ane_execute(void *impl, const driver_execution *e, propane_completion *out, propane_error *err) {
    ane_device *d = impl;
    ane_request *r = e->impl;
    propane_status status = PROPANE_OK;
    pthread_mutex_lock(&d->mutex);
    void *pool = d->api->objc_autoreleasePoolPush();
    if (!r->object || r->generation != generation_of(e)) status = build(d, r, err);
    if (status == PROPANE_OK) status = run(d, r, out, err);
    d->api->objc_autoreleasePoolPop(pool);
    pthread_mutex_unlock(&d->mutex);
    return status;
}
