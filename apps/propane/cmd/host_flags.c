/* SPDX-License-Identifier: MIT
 * Owns the flags whose settings apply to the whole process, and the messages about matrix products on the processor.
 */
#include "apps/propane/cmd/host_flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifdef __APPLE__
const char *host_blas_standard = "auto";
#else
const char *host_blas_standard = "off";
#endif

propane_status host_blas_set(void *object, const char *name, const char *value, propane_error *err) {
    (void)object, (void)name;
    return propane_set_blas(value, err);
}

bool host_verify_standard = true;

propane_status host_verify_set(void *object, const char *name, const char *value, propane_error *err) {
    (void)object, (void)name, (void)err;
    propane_set_verify(strcmp(value, "true") == 0);
    return PROPANE_OK;
}

void host_products_words(char *out, size_t size) {
    propane_products p = {sizeof p};
    propane_error err = {0};
    if (propane_products_get(&p, &err) != PROPANE_OK)
        snprintf(out, size, "none: %s", err.text);
    else if (!p.library)
        snprintf(out, size, "built-in kernels; --blas names a library");
    else
        snprintf(out, size, "%s%s", p.library,
                 p.measured ? " where it was measured to be faster than the built-in kernels" : "");
}

void host_products_print(bool json) {
    propane_products p = {sizeof p};
    propane_error ignored = {0};
    if (propane_products_get(&p, &ignored) != PROPANE_OK || !p.library || p.own_calls + p.library_calls == 0) return;
    const double all = p.own_flops + p.library_flops;
    if (json)
        printf("{\"event\":\"products\",\"library_calls\":%" PRId64 ",\"own_calls\":%" PRId64
               ",\"library_gflop\":%.3f,\"own_gflop\":%.3f}\n",
               p.library_calls, p.own_calls, p.library_flops / 1e9, p.own_flops / 1e9);
    else
        printf("large matrix products: %" PRId64 " by %s (%.0f%% of the arithmetic), %" PRId64
               " by the built-in kernels\n",
               p.library_calls, p.library, all > 0 ? 100 * p.library_flops / all : 0, p.own_calls);
}
