/* SPDX-License-Identifier: MIT
 * Owns the words about the processor's products.
 */
#include "cli/cmd/host_flags.h"

#include <inttypes.h>
#include <stdio.h>

#include "drivers/cpu/blas.h"

#ifdef __APPLE__
const char *host_blas_standard = "auto";
#else
const char *host_blas_standard = "off";
#endif

propane_status host_blas_set(void *object, const char *name, const char *value, propane_error *err) {
    (void)object, (void)name;
    return cpu_blas_choose(value, err);
}

void host_products_words(char *out, size_t size) {
    const cpu_blas *blas = NULL;
    propane_error err = {0};
    if (cpu_blas_current(&blas, &err) != PROPANE_OK)
        snprintf(out, size, "none: %s", err.text);
    else if (!blas)
        snprintf(out, size, "own kernels (PROPANE_BLAS=%s)", cpu_blas_wanted());
    else
        snprintf(out, size, "%s%s (PROPANE_BLAS=%s)", blas->name,
                 blas->measured ? " where it is measured to be faster than the own kernels" : "", cpu_blas_wanted());
}

void host_products_tell(bool json) {
    const cpu_blas_counts c = cpu_blas_counted();
    const cpu_blas *blas = NULL;
    propane_error ignored = {0};
    if (c.own + c.library == 0 || cpu_blas_current(&blas, &ignored) != PROPANE_OK || !blas) return;
    const double all = c.own_flops + c.library_flops;
    if (json)
        printf("{\"event\":\"products\",\"library_calls\":%" PRId64 ",\"own_calls\":%" PRId64
               ",\"library_gflop\":%.3f,\"own_gflop\":%.3f}\n",
               c.library, c.own, c.library_flops / 1e9, c.own_flops / 1e9);
    else
        printf("large products: %" PRId64 " by %s (%.0f%% of the arithmetic), %" PRId64 " by the own kernels\n",
               c.library, blas->name, all > 0 ? 100 * c.library_flops / all : 0, c.own);
}
