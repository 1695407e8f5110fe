/* SPDX-License-Identifier: MIT
 * What a host does per second, measured there: the report of `propane devices --probe`. It takes the place of the
 * assumptions of cost_step.h in estimates of training steps.
 */
#ifndef ANE_CHIP_COST_RATES_H
#define ANE_CHIP_COST_RATES_H

#include "ane/chip/cost_step.h"

typedef struct cost_rates {
    double gemm_tflops;  /* the faster of own kernels and library */
    double stream_gbs;   /* conversions */
    double memory_gbs;   /* what all threads move */
    double update_ns[3]; /* AdamW, a parameter: moments in fp32, bf16, int8 */
    double early_ns[3];  /* the same from one set of weights and moments to another (--overlap early) */
    char system[80];     /* where it was measured */
} cost_rates;

/* Refuses a file that is no such report, lacks one of the figures, or has one that is not positive. */
PROPANE_CHECK propane_status cost_rates_read(const char *path, cost_rates *out, propane_error *err);
/* AdamW's of `rates`, [moments]. */
static inline const double *cost_rates_update(const cost_rates *rates, bool early) {
    return early ? rates->early_ns : rates->update_ns;
}
/* The assumed host of a chip with what was measured; `rates` NULL: as assumed. What all move at once stays the
 * chip's. */
cost_host cost_host_with(const chip *c, const cost_rates *rates);

#endif
