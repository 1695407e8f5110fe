/* SPDX-License-Identifier: MIT
 * Owns the settings and counters of the process: the number of threads, the library for matrix products, and the memory
 * allocator.
 */
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/sized.h"
#include "core/run/public.h"
#include "cpu/blas.h"

propane_status propane_set_threads(int threads, propane_error *err) { return pool_set_threads(threads, err); }

int propane_threads(void) { return pool_threads(); }

propane_status propane_set_blas(const char *how, propane_error *err) { return cpu_blas_choose(how, err); }

propane_status propane_products_get(propane_products *out, propane_error *err) {
    NEED(err, out);
    PROPANE_TRY(sized_check(out, "propane_products", err));
    const cpu_blas *blas = NULL;
    PROPANE_TRY(cpu_blas_current(&blas, err));
    const cpu_blas_counts c = cpu_blas_counted();
    const propane_products now = {sizeof now,  blas ? blas->name : NULL, blas && blas->measured, c.own, c.library,
                                  c.own_flops, c.library_flops};
    (void)api_give(out, &now, sizeof now);
    return PROPANE_OK;
}

propane_status propane_set_allocator(const propane_allocator *allocator, propane_error *err) {
    propane_allocator own = {0};
    PROPANE_TRY(api_take(&own, sizeof own, allocator, "propane_allocator", err));
    if (allocator && (!own.allocate || !own.resize || !own.release))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "propane_allocator: allocate, resize and release are all required");
    if (mem_set_allocator(allocator ? &own : NULL)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "the allocator cannot change while the library holds %lld blocks",
                        (long long)mem_live_count());
}
