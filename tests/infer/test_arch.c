/* SPDX-License-Identifier: MIT
 * Generation with each architecture: logits of ids read one by one and in chunks equal those of transformers.
 */
#include "lm/infer/generate.h"
#include "support/arch_data.h"

static propane_error err;

/* Compares the logits of sequence `row`, read `step` ids at a time; only the last logits of each step are available. */
static double logits_off(const arch_data *d, infer *m, int row, int step) {
    float got[ARCH_VOCABULARY];
    double worst = 0, largest = 0;
    infer_reset(m);
    for (int s = 0; s < ARCH_SEQUENCE; s += step) {
        int count = s + step < ARCH_SEQUENCE ? step : ARCH_SEQUENCE - s;
        EXPECT_OK(infer_read(m, d->inputs + row * ARCH_SEQUENCE + s, count, got, &err));
        const float *want = d->logits + (row * ARCH_SEQUENCE + s + count - 1) * ARCH_VOCABULARY;
        for (int v = 0; v < ARCH_VOCABULARY; v++) {
            worst = isfinite(got[v]) ? fmax(worst, fabs((double)got[v] - (double)want[v])) : INFINITY;
            largest = fmax(largest, fabs((double)want[v]));
        }
    }
    return worst / largest;
}

TEST(logits_are_those_of_transformers) {
    static const int steps[] = {1, 5, 16};
    propane_device *device = NULL;
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    for (int i = 0; i < ARCH_NAMES; i++)
        for (int half = 0; half < 2; half++) {
            arch_data d;
            infer *m = NULL;
            arch_open(&d, arch_names[i]);
            infer_options o = {.dtype = half ? MIL_fp16 : MIL_fp32, .chunk = 6};
            EXPECT_OK(infer_create(device, d.weights, &o, &m, &err));
            for (int row = 0; row < ARCH_BATCH; row++)
                for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
                    double off = logits_off(&d, m, row, steps[k]);
                    EXPECT_MSG(off < (half ? 2e-2 : 1e-5), "%s, %s, %d at a time: %g", arch_names[i],
                               half ? "fp16" : "fp32", steps[k], off); /* observed 4e-3 and 5e-7 */
                }
            infer_free(m);
            arch_close(&d);
        }
    propane_device_close(device);
}

SUITE("infer/arch", T(logits_are_those_of_transformers))
