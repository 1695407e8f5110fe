/* SPDX-License-Identifier: MIT
 * Owns the choice between the ways to evaluate a request. Direct and real-time evaluation are other calls for the same
 * thing: reported as faster by some, as slower or not allowed by others. So they are tried on a small program when a device
 * is opened, once for a process and route: numbers first, then time, in alternation. Another way than the standard one is
 * taken if it answers right and is clearly faster.
 */
#include <stdio.h>
#include <string.h>

#include "drivers/ane/ane.h"

enum { ROUNDS = 12, CLEARLY_PERCENT = 95 };

/* ---- measuring -------------------------------------------------------------------------------------------------------------- */

static propane_status dispatch_once(ane_rig *r, ane_way_result *m, ane_dispatch way, int round, propane_error *err) {
    propane_completion done = {.size = sizeof done};
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

static propane_status dispatch_measure(const ane_api *a, const ane_options *from,
                                       ane_way_result out[ANE_DISPATCH_COUNT], propane_error *err) {
    ane_options o = *from;
    ane_rig r;
    propane_error why = {0};
    o.dispatch = ANE_STANDARD; /* no way back from the one that is tried */
    o.statistics = false;
    propane_status status = ane_rig_open(a, &o, 1, &r, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++) {
        out[way] = (ane_way_result){.known = true};
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

static void dispatch_describe(const ane_way_result m[ANE_DISPATCH_COUNT], ane_dispatch chosen, char *out, size_t size) {
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
    ane_way_result *m = ane_way_results_lock(d->options.route);
    if (!m[0].known) status = dispatch_measure(d->api, &d->options, m, err);
    if (status != PROPANE_OK) memset(m, 0, ANE_DISPATCH_COUNT * sizeof *m);
    d->way = ANE_STANDARD;
    for (int way = 1; way < ANE_DISPATCH_COUNT && m[ANE_STANDARD].right; way++)
        if (m[way].right && m[way].best_ns * 100 < m[ANE_STANDARD].best_ns * CLEARLY_PERCENT &&
            m[way].best_ns < m[d->way].best_ns)
            d->way = (ane_dispatch)way;
    if (!ane_way_begin(d, d->way, why)) d->way = ANE_STANDARD;
    dispatch_describe(m, d->way, d->note, sizeof d->note);
    ane_way_results_unlock();
    return status;
}
