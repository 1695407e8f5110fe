/* SPDX-License-Identifier: MIT
 * Owns the choice between the ways to evaluate a request. Direct and real-time evaluation are other calls for the same
 * thing: reported as faster by some, as slower or not allowed by others. So they are tried on a small program when a device
 * is opened, once for a process and route: numbers first, then time, in alternation. Another way than the standard one is
 * taken if it answers right and is clearly faster.
 */
#include <stdio.h>
#include <string.h>

#include "drivers/ane/ane.h"

enum { ROUNDS = 12, ROUTES = 2, CLEARLY_PERCENT = 95 };

typedef struct measured {
    bool known, right;
    int64_t best_ns;
    char why[200]; /* not right: the reason */
} measured;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static measured table[ROUTES][ANE_DISPATCH_COUNT];

const char *ane_way_name(ane_dispatch way) {
    static const char *const names[] = {"standard", "direct", "real-time"};
    return names[way];
}

bool ane_way_offered(const ane_api *a, const ane_model *m, ane_dispatch way) {
    if (way == ANE_STANDARD) return true;
    if (!m->client || !m->inner) return false;
    return way == ANE_DIRECT ? ANE_HAS(a, client_direct) : ANE_HAS(a, client_real_time);
}

/* ---- real-time tasks ------------------------------------------------------------------------------------------------------ */

bool ane_way_begin(ane_device *d, ane_dispatch way, char why[200]) {
    const ane_api *a = d->api;
    if (way != ANE_REAL_TIME || !ANE_HAS(a, client_begin_real_time) || !ANE_HAS(a, client_end_real_time) ||
        !ANE_HAS(a, client))
        return true;
    void *pool = a->objc_autoreleasePoolPush();
    ane_id client = ANE_SEND0(a, client, ANE_CLASS(a, client));
    bool begun = client && ANE_SEND0(a, client_begin_real_time, client);
    if (begun) {
        a->objc_retain(client);
        d->client = client;
    }
    a->objc_autoreleasePoolPop(pool);
    if (!begun) snprintf(why, 200, "beginRealTimeTask answers no");
    return begun;
}

void ane_way_end(ane_device *d) {
    if (!d->client) return;
    (void)ANE_SEND0(d->api, client_end_real_time, d->client);
    ane_release(d->api, d->client);
    d->client = NULL;
}

/* ---- measuring -------------------------------------------------------------------------------------------------------------- */

static propane_status dispatch_once(ane_rig *r, measured *m, ane_dispatch way, int round, propane_error *err) {
    propane_completion done;
    propane_error why = {0};
    if (!m->right) return PROPANE_OK;
    r->device->way = way;
    m->right = ane_way_begin(r->device, way, m->why);
    if (!m->right) return PROPANE_OK;
    propane_status status = ane_rig_run(r, 0, ANE_DISPATCH_COUNT * round + (int)way, &done, &why);
    ane_way_end(r->device);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    m->right = status == PROPANE_OK;
    if (!m->right) snprintf(m->why, sizeof m->why, "%.199s", why.text);
    if (m->right && (m->best_ns == 0 || done.device_ns < m->best_ns)) m->best_ns = done.device_ns;
    return PROPANE_OK;
}

static propane_status dispatch_measure(const ane_api *a, const ane_options *from, measured out[ANE_DISPATCH_COUNT],
                                       propane_error *err) {
    ane_options o = *from;
    ane_rig r;
    propane_error why = {0};
    o.dispatch = ANE_STANDARD; /* no way back from the one that is tried */
    o.statistics = false;
    propane_status status = ane_rig_open(a, &o, 1, &r, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++) {
        out[way] = (measured){.known = true};
        if (status != PROPANE_OK)
            snprintf(out[way].why, sizeof out[way].why, "%.199s", why.text);
        else if (!ane_way_offered(a, &((const ane_program *)r.programs[0].impl)->unit->model, (ane_dispatch)way))
            snprintf(out[way].why, sizeof out[way].why, "not offered by this system");
        else
            out[way].right = true;
    }
    if (status != PROPANE_OK) return PROPANE_OK;
    for (int round = 0; round < ROUNDS && status == PROPANE_OK; round++)
        for (int way = 0; way < ANE_DISPATCH_COUNT && status == PROPANE_OK; way++)
            status = dispatch_once(&r, &out[way], (ane_dispatch)way, round, err);
    ane_rig_close(&r);
    return status;
}

/* ---- choosing --------------------------------------------------------------------------------------------------------------- */

static void dispatch_describe(const measured m[ANE_DISPATCH_COUNT], ane_dispatch chosen, char *out, size_t size) {
    size_t used = (size_t)snprintf(out, size, "%s evaluation is used:", ane_way_name(chosen));
    for (int way = 0; way < ANE_DISPATCH_COUNT && used < size; way++) {
        used += (size_t)snprintf(out + used, size - used, "%s %s ", way ? "," : "", ane_way_name((ane_dispatch)way));
        if (used >= size) break;
        if (m[way].right)
            used += (size_t)snprintf(out + used, size - used, "%.4f ms", (double)m[way].best_ns / 1e6);
        else
            used += (size_t)snprintf(out + used, size - used, "cannot be used (%.120s)", m[way].why);
    }
}

propane_status ane_ways_choose(ane_device *d, propane_error *err) {
    propane_status status = PROPANE_OK;
    char why[200];
    if (d->options.dispatch != ANE_AUTO) {
        d->way = (ane_dispatch)d->options.dispatch;
        (void)ane_way_begin(d, d->way, why); /* it was asked for: the engine's own answer comes with the first run */
        snprintf(d->note, sizeof d->note, "%s evaluation is used, as asked for", ane_way_name(d->way));
        return PROPANE_OK;
    }
    pthread_mutex_lock(&mutex);
    measured *m = table[d->options.route];
    if (!m[0].known) status = dispatch_measure(d->api, &d->options, m, err);
    if (status != PROPANE_OK) memset(m, 0, sizeof table[0]);
    d->way = ANE_STANDARD;
    for (int way = 1; way < ANE_DISPATCH_COUNT && m[ANE_STANDARD].right; way++)
        if (m[way].right && m[way].best_ns * 100 < m[ANE_STANDARD].best_ns * CLEARLY_PERCENT &&
            m[way].best_ns < m[d->way].best_ns)
            d->way = (ane_dispatch)way;
    if (!ane_way_begin(d, d->way, why)) d->way = ANE_STANDARD;
    dispatch_describe(m, d->way, d->note, sizeof d->note);
    pthread_mutex_unlock(&mutex);
    return status;
}

void ane_way_failed(const ane_device *d, ane_dispatch way, const char *why) {
    pthread_mutex_lock(&mutex);
    measured *m = &table[d->options.route][way];
    m->right = false;
    snprintf(m->why, sizeof m->why, "failed at work: %.150s", why);
    pthread_mutex_unlock(&mutex);
}
