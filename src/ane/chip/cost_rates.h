/* SPDX-License-Identifier: MIT
 * Declares a host's measured rates, which come from a report of `propane devices --probe`. They replace the assumptions
 * of cost_step.h in estimates of training steps.
 */
#ifndef ANE_CHIP_COST_RATES_H
#define ANE_CHIP_COST_RATES_H

#include "ane/chip/cost_step.h"

typedef struct cost_rates {
    double gemm_tflops;  /* the faster of Propane's kernels and the library */
    double stream_gbs;   /* of conversions */
    double memory_gbs;   /* moved by all threads */
    double update_ns[3]; /* AdamW, per parameter, with moments in fp32, bf16, int8 */
    double early_ns[3];  /* the same, from one set of weights and moments to another (--overlap early) */
    char system[80];     /* the measured machine */
} cost_rates;

/* Refuses a file that is not such a report, lacks one of the figures, or has a figure that is not positive. */
PROPANE_CHECK propane_status cost_rates_read(const char *path, cost_rates *out, propane_error *err);
/* Returns the AdamW times of `rates`, [moments]. */
static inline const double *cost_rates_update(const cost_rates *rates, bool early) {
    return early ? rates->early_ns : rates->update_ns;
}
/* Returns the assumed host of a chip, corrected by the measured rates unless `rates` is NULL. The bandwidth that
 * engine and host share is never replaced. */
cost_host cost_host_with(const chip *c, const cost_rates *rates);

#endif
