/* SPDX-License-Identifier: MIT
 * Owns the comparison of a rewritten program with its original. Values that are NaN or infinite on one side only are
 * counted separately, because a mask without infinity gives numbers where the original program gives NaN.
 */
#include "apps/propane/cmd/engine_difference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/base/memory.h"
#include "core/base/status.h"

enum { SEED = 1 };

typedef struct difference {
    double largest, relative;
    int64_t numbers, mended, broken; /* counts of all values, and of those finite only afterwards, or only before */
    char name[80];
} difference;

static propane_status engine_difference_open(const char *path, const char *until, propane_session **out,
                                             propane_error *err) {
    propane_module *m = NULL;
    const propane_session_options options = {.size = sizeof options};
    PROPANE_TRY(propane_module_read(path, &m, err));
    if (until) {
        propane_status status = propane_module_until(m, NULL, until, err);
        if (status) {
            propane_module_free(m);
            return status;
        }
    }
    PROPANE_TRY(propane_session_open_module(m, &options, out, err));
    propane_status status = propane_session_randomize(*out, SEED, err);
    if (status == PROPANE_OK) status = propane_session_run(*out, NULL, err);
    if (status) propane_session_close(*out);
    if (status) *out = NULL;
    return status;
}

static void engine_difference_add(difference *d, const char *name, double was, double is) {
    d->numbers++;
    d->mended += !isfinite(was) && isfinite(is);
    d->broken += isfinite(was) && !isfinite(is);
    if (!isfinite(was) || !isfinite(is) || fabs(was - is) <= d->largest) return;
    d->largest = fabs(was - is);
    d->relative = d->largest / fmax(1, fabs(was));
    snprintf(d->name, sizeof d->name, "%.79s", name);
}

static propane_status engine_difference_compare(difference *d, propane_session *a, propane_session *b,
                                                propane_error *err) {
    propane_status status = PROPANE_OK;
    for (int i = 0; i < propane_session_output_count(a) && !status; i++) {
        const propane_io *io = propane_session_output(a, i);
        const int64_t count = propane_io_count(io);
        float *was = mem_array((size_t)count, sizeof *was), *is = mem_array((size_t)count, sizeof *is);
        if (!was || !is) status = propane_fail_memory(err, (size_t)count * sizeof *was);
        if (!status) status = propane_session_get(a, io->name, PROPANE_FP32, was, count, err);
        if (!status) status = propane_session_get(b, io->name, PROPANE_FP32, is, count, err);
        for (int64_t k = 0; k < count && !status; k++)
            engine_difference_add(d, io->name, (double)was[k], (double)is[k]);
        mem_free(was);
        mem_free(is);
    }
    return status;
}

propane_status engine_difference_print(const char *before, const char *after, const char *until, propane_error *err) {
    propane_session *a = NULL, *b = NULL;
    difference d = {0};
    propane_status status = engine_difference_open(before, until, &a, err);
    if (!status) status = engine_difference_open(after, NULL, &b, err);
    if (!status) status = engine_difference_compare(&d, a, b, err);
    propane_session_close(a);
    propane_session_close(b);
    if (status) return status;
    printf("%" PRId64 " numbers of random inputs (seed %d): ", d.numbers, SEED);
    if (*d.name)
        printf("the largest difference is %.3g (%s), %.3g of its value\n", d.largest, d.name, d.relative);
    else
        printf("none differs\n");
    if (d.mended) printf("%" PRId64 " were NaN or infinite before and are now finite\n", d.mended);
    if (d.broken) printf("%" PRId64 " were finite before and are now NaN or infinite\n", d.broken);
    return PROPANE_OK;
}
