/* SPDX-License-Identifier: MIT
 * Owns the compilation of several functions at once. If a proof shows that this works, the functions become procedures
 * of one compiled program, so that one compile of the process's budget (C1) serves many kernels. A request names the
 * procedure and binds that procedure's own symbols.
 *
 * Reports differ: some authors have used such programs, but according to one report, every index ran the first
 * procedure. So three small functions are compiled and run as a proof, once per process and route. Two of them differ
 * only in their constants, and one has another shape. If the proof fails, each function is compiled separately. If the
 * compiler rejects a group, smaller groups are compiled, unless procedures=on. The compile report gives the reason.
 */
#include <stdio.h>
#include <string.h>

#include "ane/driver/ane.h"
#include "core/mil/ops.h"

enum { ROUTES = 2, PROOF_ROUNDS = 2, MOST_WEIGHT_BYTES = 1 << 30 /* C7 limits a program's weights */ };

/* ---- the proof ------------------------------------------------------------------------------------------------------------ */

typedef struct proof {
    bool known, holds;
    char why[400];
} proof;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static proof proofs[ROUTES];

static propane_status procedures_run_all(ane_rig *r, propane_error *err) {
    propane_completion done = {.size = sizeof done};
    for (int round = 0; round < PROOF_ROUNDS; round++)
        for (int k = r->count - 1; k >= 0; k--) PROPANE_TRY(ane_rig_run(r, k, round, &done, err));
    return PROPANE_OK;
}

static propane_status procedures_prove(ane_device *d, proof *p, propane_error *err) {
    ane_options o = d->options;
    ane_rig r;
    propane_error why = {0};
    o.dispatch = ANE_STANDARD;
    o.statistics = false;
    propane_status status = ane_rig_open(d->api, &o, ANE_RIG_FUNCTIONS, &r, &why);
    if (status == PROPANE_OK) {
        status = procedures_run_all(&r, &why);
        ane_rig_close(&r);
    }
    /* A lack of memory, slots or compiles proves nothing about procedures. */
    if (status == PROPANE_ERR_MEMORY || status == PROPANE_ERR_LIMIT) return propane_fail(err, status, "%s", why.text);
    *p = (proof){.known = true, .holds = status == PROPANE_OK};
    snprintf(p->why, sizeof p->why, "%.399s", why.text);
    return PROPANE_OK;
}

/* Sets *out to the proof for this process and route. Adds one to *compiles if the proof has to be run. */
static propane_status procedures_ask_proof(ane_device *d, proof *out, int *compiles, propane_error *err) {
    pthread_mutex_lock(&mutex);
    proof *p = &proofs[d->options.route];
    *compiles += !p->known;
    propane_status status = p->known ? PROPANE_OK : procedures_prove(d, p, err);
    *out = *p;
    pthread_mutex_unlock(&mutex);
    return status;
}

/* ---- compiling -------------------------------------------------------------------------------------------------------------- */

static int64_t procedures_weight_bytes(const mil_function *f) {
    int64_t sum = 0;
    for (const mil_op *op = f->first; op; op = op->next)
        if (strncmp(op->info->name, "const", 5) == 0)
            sum += mil_type_count(&op->results[0]->type) * mil_dtype_get(op->results[0]->type.dtype)->bits / 8;
    return sum;
}

/* Returns how many of the functions, counted from the first, fit into one program of at most `most` functions. */
static int procedures_group_size(const mil_function *const *f, int count, int most) {
    int64_t bytes = procedures_weight_bytes(f[0]);
    int n = 1;
    while (n < count && n < most && (bytes += procedures_weight_bytes(f[n])) <= MOST_WEIGHT_BYTES) n++;
    return n;
}

static void procedures_drop(ane_device *d, driver_program *const *out, int count) {
    for (int k = 0; k < count; k++) ane_program_free(d, out[k]);
}

static propane_status procedures_compile_apart(ane_device *d, const mil_function *const *f, int count,
                                               const propane_compile_options *options, driver_program *const *out,
                                               propane_compile_report *report, propane_error *err) {
    for (int k = 0; k < count; k++) {
        report->compiles++;
        propane_status status = ane_compile(d, f[k], options, out[k], err);
        if (status == PROPANE_OK) continue;
        report->failed += k;
        procedures_drop(d, out, k);
        return status;
    }
    return PROPANE_OK;
}

/* The state of compiling in groups. */
typedef struct grouping {
    int most;      /* maximum number of functions per program; halved if the compiler refuses a group */
    int programs;  /* programs compiled so far */
    char why[230]; /* why `most` was halved; "" if it never was */
} grouping;

/* Returns true if smaller groups of the same functions may succeed. */
static bool procedures_may_halve(const ane_device *d, int count, propane_status status) {
    return count > 1 && d->options.procedures != ANE_TOGETHER && status != PROPANE_ERR_MEMORY &&
           status != PROPANE_ERR_LIMIT;
}

/* Compiles the next group, which begins with function *done. If the compiler rejects a group, this group and later ones
 * are halved. Every compile and every load counts toward the limits of the process and of the engine. */
static propane_status procedures_compile_group(ane_device *d, const mil_function *const *f, int count, int *done,
                                               const propane_compile_options *options, driver_program *const *out,
                                               propane_compile_report *report, grouping *g, propane_error *err) {
    for (;;) {
        propane_error why = {0};
        int n = procedures_group_size(f + *done, count - *done, g->most);
        report->compiles++;
        report->failed = n > 1 ? -1 : *done;
        propane_status status = ane_compile_together(d, f + *done, n, options, out + *done, &why);
        if (status == PROPANE_OK) {
            report->procedures += n > 1 ? n : 0;
            g->programs++;
            *done += n;
            return PROPANE_OK;
        }
        if (!procedures_may_halve(d, n, status)) return propane_fail(err, status, "%s", why.text);
        if (!g->why[0]) snprintf(g->why, sizeof g->why, ", because a group of %d fails: %.180s", n, why.text);
        g->most = n / 2;
    }
}

static propane_status procedures_compile_groups(ane_device *d, const mil_function *const *f, int count,
                                                const propane_compile_options *options, driver_program *const *out,
                                                propane_compile_report *report, propane_error *err) {
    grouping g = {.most = ANE_MAX_PROCEDURES};
    for (int done = 0; done < count;) {
        propane_status status = procedures_compile_group(d, f, count, &done, options, out, report, &g, err);
        if (status == PROPANE_OK) continue;
        procedures_drop(d, out, done);
        return status;
    }
    if (!report->procedures)
        snprintf(report->how, sizeof report->how, "a program each%s", g.why);
    else
        snprintf(report->how, sizeof report->how, "%d procedures of %d compiled program%s%s%.220s", report->procedures,
                 g.programs, g.programs > 1 ? "s" : "", d->options.procedures == ANE_TOGETHER ? ", not proved" : "",
                 g.why);
    return PROPANE_OK;
}

propane_status ane_compile_all(void *impl, const mil_function *const *f, int count,
                               const propane_compile_options *options, driver_program *const *out,
                               propane_compile_report *report, propane_error *err) {
    ane_device *d = impl;
    proof p = {.holds = d->options.procedures == ANE_TOGETHER};
    if (d->options.procedures == ANE_TOGETHER_IF_PROVED && count > 1)
        PROPANE_TRY(procedures_ask_proof(d, &p, &report->compiles, err));
    if (p.holds && count > 1) return procedures_compile_groups(d, f, count, options, out, report, err);
    snprintf(report->how, sizeof report->how, "a program each%s%.220s",
             count < 2                            ? ""
             : d->options.procedures == ANE_APART ? ", as asked for"
                                                  : ", because procedures do not work on this system: ",
             p.why);
    report->failed = 0;
    return procedures_compile_apart(d, f, count, options, out, report, err);
}
