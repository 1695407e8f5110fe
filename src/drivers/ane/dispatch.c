/* SPDX-License-Identifier: MIT
 * Owns the ways to evaluate a request: their names, which of them the system offers, what real-time tasks need, and what
 * this process knows of each. dispatch_select.c measures them.
 */
#include <stdio.h>

#include "drivers/ane/ane.h"

enum { ROUTES = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static ane_way_result table[ROUTES][ANE_DISPATCH_COUNT];

ane_way_result *ane_way_results_lock(int route) {
    pthread_mutex_lock(&mutex);
    return table[route];
}

void ane_way_results_unlock(void) { pthread_mutex_unlock(&mutex); }

const char *ane_way_name(ane_dispatch way) {
    static const char *const names[] = {"standard", "direct", "real-time"};
    return names[way];
}

bool ane_way_offered(const ane_api *a, const ane_model *m, ane_dispatch way) {
    if (way == ANE_STANDARD) return true;
    if (!m->client || !m->inner) return false;
    return way == ANE_DIRECT ? ANE_HAS(a, client_direct) : ANE_HAS(a, client_real_time);
}

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

void ane_way_failed(const ane_device *d, ane_dispatch way, const char *why) {
    ane_way_result *m = &ane_way_results_lock(d->options.route)[way];
    m->right = false;
    snprintf(m->why, sizeof m->why, "failed at work: %.150s", why);
    ane_way_results_unlock();
}
