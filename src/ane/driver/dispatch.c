/* SPDX-License-Identifier: MIT
 * Owns the ways to evaluate a request: their names, which of them the system offers, what real-time tasks need, and
 * which one a device uses. With dispatch=auto, the standard way is used unless a trial in a separate process
 * (dispatch_select.c) has shown that another way works on this system and is faster. A device's own process runs no
 * trial. A way that failed during work is not chosen again, in this process or in later ones.
 */
#include <stdio.h>
#include <string.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"

enum { ROUTES = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char failures[ROUTES][ANE_DISPATCH_COUNT][200]; /* how each way failed in this process; "" if it did not */

const char *ane_way_name(ane_dispatch way) {
    static const char *const names[] = {"standard", "direct", "real-time"};
    return names[way];
}

bool ane_way_offered(const ane_api *a, const ane_model *m, ane_dispatch way) {
    if (way == ANE_STANDARD) return true;
    if (!m->client || !m->inner) return false;
    return way == ANE_DIRECT ? ANE_HAS(a, client_direct) : ANE_HAS(a, client_real_time);
}

bool ane_way_begin(ane_device *d, ane_dispatch way) {
    const ane_api *a = d->api;
    if (way != ANE_REAL_TIME || !ANE_HAS(a, client_begin_real_time) || !ANE_HAS(a, client_end_real_time) ||
        !ANE_HAS(a, client))
        return way != ANE_REAL_TIME;
    void *pool = a->objc_autoreleasePoolPush();
    ane_id client = ANE_SEND0(a, client, ANE_CLASS(a, client));
    bool begun = client && ANE_SEND0(a, client_begin_real_time, client);
    if (begun) {
        a->objc_retain(client);
        d->client = client;
    }
    a->objc_autoreleasePoolPop(pool);
    return begun;
}

void ane_way_end(ane_device *d) {
    if (!d->client) return;
    (void)ANE_SEND0(d->api, client_end_real_time, d->client);
    ane_release(d->api, d->client);
    d->client = NULL;
}

void ane_way_failed(const ane_device *d, ane_dispatch way, const char *why) {
    char words[200];
    propane_error unwritten = {0};
    snprintf(words, sizeof words, "%s evaluation failed in use: %.150s", ane_way_name(way), why);
    pthread_mutex_lock(&mutex);
    memcpy(failures[d->options.route][way], words, sizeof words);
    pthread_mutex_unlock(&mutex);
    if (ane_remember(d->api, d->options.route, ANE_FACT_way, ane_way_name(ANE_STANDARD), words, &unwritten) !=
        PROPANE_OK)
        return; /* this process remembers the failure; the next one may meet it again */
}

/* Returns the remembered way, or the standard one if none is remembered. Writes the reason to `why`. */
static ane_dispatch dispatch_remembered(const ane_device *d, char why[600]) {
    ane_answer answer;
    ane_remembered_note(d->api, why);
    if (!ane_remembered(d->api, d->options.route, ANE_FACT_way, &answer)) {
        if (!*why) snprintf(why, 600, "'propane devices' tries the other methods");
        return ANE_STANDARD;
    }
    snprintf(why, 600, "%s", answer.detail);
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++)
        if (strcmp(answer.word, ane_way_name((ane_dispatch)way)) == 0) return (ane_dispatch)way;
    return ANE_STANDARD;
}

void ane_ways_choose(ane_device *d) {
    char why[600] = "as asked for";
    if (d->events) {
        snprintf(why, sizeof why, "in order with the GPU by shared events");
    } else if (d->options.dispatch != ANE_AUTO) {
        d->way = (ane_dispatch)d->options.dispatch;
    } else {
        d->way = dispatch_remembered(d, why);
        pthread_mutex_lock(&mutex);
        const char *failed = failures[d->options.route][d->way];
        if (*failed) {
            snprintf(why, sizeof why, "%s", failed);
            d->way = ANE_STANDARD;
        }
        pthread_mutex_unlock(&mutex);
    }
    (void)ane_way_begin(d, d->way); /* real-time evaluation has been seen to work without a task, too */
    snprintf(d->note, sizeof d->note, "%s evaluation is used, %.520s", ane_way_name(d->way), why);
}
