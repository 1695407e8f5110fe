/* SPDX-License-Identifier: MIT
 * Owns the trial of the ways to evaluate a request. Direct and real-time evaluation are alternative calls for the same
 * work. Some authors report that they are faster, others that they are slower, are refused or crash. So they are tried
 * on a small program in a separate process, in alternation, and each run is checked and timed. A way other than the
 * standard one is chosen if its results are right and it is clearly faster. Before each way is tried, the choice so far
 * is remembered. The riskiest way is tried last, so that a crash loses nothing.
 */
#include <stdio.h>
#include <string.h>

#include "ane/driver/ane.h"
#include "ane/driver/remembered.h"

enum { ROUNDS = 12, CLEARLY_PERCENT = 95 };

typedef struct way_result {
    bool right, without_task;
    int64_t best_ns;
    char why[200]; /* the reason if `right` is false */
} way_result;

/* ---- measuring -------------------------------------------------------------------------------------------------------------- */

static propane_status dispatch_once(ane_rig *r, way_result *m, ane_dispatch way, int round, propane_error *err) {
    propane_completion done = {.size = sizeof done};
    propane_error why = {0};
    if (!m->right) return PROPANE_OK;
    r->device->way = way;
    m->without_task = !ane_way_begin(r->device, way);
    propane_status status = ane_rig_run(r, 0, ANE_DISPATCH_COUNT * round + (int)way, &done, &why);
    ane_way_end(r->device);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    m->right = status == PROPANE_OK;
    if (!m->right) snprintf(m->why, sizeof m->why, "%.199s", why.text);
    if (m->right && (m->best_ns == 0 || done.device_ns < m->best_ns)) m->best_ns = done.device_ns;
    return PROPANE_OK;
}

/* Measures the ways from the standard one to `last`, in alternation. */
static propane_status dispatch_measure(ane_rig *r, ane_dispatch last, way_result m[ANE_DISPATCH_COUNT],
                                       propane_error *err) {
    m[last].right = ane_way_offered(r->device->api, &((const ane_program *)r->programs[0].impl)->unit->model, last);
    snprintf(m[last].why, sizeof m[last].why, "not offered by this system");
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way <= (int)last; way++)
            PROPANE_TRY(dispatch_once(r, &m[way], (ane_dispatch)way, round, err));
    return PROPANE_OK;
}

/* ---- choosing --------------------------------------------------------------------------------------------------------------- */

static ane_dispatch dispatch_best(const way_result m[ANE_DISPATCH_COUNT]) {
    ane_dispatch best = ANE_STANDARD;
    for (int way = 1; way < ANE_DISPATCH_COUNT && m[ANE_STANDARD].right; way++)
        if (m[way].right && m[way].best_ns * 100 < m[ANE_STANDARD].best_ns * CLEARLY_PERCENT &&
            m[way].best_ns < m[best].best_ns)
            best = (ane_dispatch)way;
    return best;
}

static void dispatch_describe(const way_result m[ANE_DISPATCH_COUNT], char *out, size_t size) {
    *out = 0;
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++) {
        size_t used = strlen(out);
        if (m[way].right)
            snprintf(out + used, size - used, "%s%s %.4f ms%s", way ? ", " : "", ane_way_name((ane_dispatch)way),
                     (double)m[way].best_ns / 1e6, m[way].without_task ? " (beginRealTimeTask returns NO)" : "");
        else
            snprintf(out + used, size - used, "%s%s cannot be used (%.120s)", way ? ", " : "",
                     ane_way_name((ane_dispatch)way), m[way].why);
    }
}

static propane_status dispatch_try(const ane_api *a, int route, ane_rig *r, ane_dispatch *best, char words[400],
                                   propane_error *err) {
    way_result m[ANE_DISPATCH_COUNT] = {{false}};
    propane_status status = PROPANE_OK;
    for (int way = 0; way < ANE_DISPATCH_COUNT; way++)
        snprintf(m[way].why, sizeof m[way].why, "its trial did not finish");
    for (int last = 0; last < ANE_DISPATCH_COUNT && status == PROPANE_OK; last++) {
        dispatch_describe(m, words, 400);
        status = ane_remember(a, route, ANE_FACT_way, ane_way_name(*best), words, err);
        if (status == PROPANE_OK) status = dispatch_measure(r, (ane_dispatch)last, m, err);
        *best = dispatch_best(m);
    }
    dispatch_describe(m, words, 400);
    return status == PROPANE_OK ? ane_remember(a, route, ANE_FACT_way, ane_way_name(*best), words, err) : status;
}

propane_status ane_try_ways(int route, text *answer, propane_error *err) {
    const ane_api *a;
    ane_options o;
    ane_rig r;
    char words[400] = "";
    ane_dispatch best = ANE_STANDARD;
    PROPANE_TRY(ane_api_get(&a, err));
    PROPANE_TRY(ane_options_parse(route ? "client?dispatch=standard" : "memory?dispatch=standard", &o, err));
    if (a->route[route].status != PROPANE_OK)
        return propane_fail(err, a->route[route].status, "%s", a->route[route].text);
    PROPANE_TRY(ane_rig_open(a, &o, 1, &r, err));
    propane_status status = dispatch_try(a, route, &r, &best, words, err);
    ane_rig_close(&r);
    if (status != PROPANE_OK) return status;
    text_printf(answer, "%s evaluation is used: %s", ane_way_name(best), words);
    return answer->failed ? propane_fail_memory(err, answer->length) : PROPANE_OK;
}
