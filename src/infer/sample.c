/* SPDX-License-Identifier: MIT
 * Owns the drawing of ids: candidates sorted by logit, cut by top-k and top-p, weighed by temperature.
 */
#include "infer/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

propane_status infer_sampling_check(const infer_sampling *s, propane_error *err) {
    if (!(s->temperature >= 0 && s->temperature <= 1000))
        return propane_fail(err, PROPANE_ERR_INVALID, "temperature is %g; it must be from 0 (greedy) to 1000",
                            s->temperature);
    if (s->top_k < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "top-k is %d; it must be at least 1, or 0 for all ids", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "top-p is %g; it must be from 0 to 1", s->top_p);
    return PROPANE_OK;
}

propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab, propane_error *err) {
    *s = (infer_sampler){.sampling = *sampling, .vocab = vocab};
    PROPANE_TRY(infer_sampling_check(sampling, err));
    rng_init(&s->rng, sampling->seed);
    s->candidates = mem_array((size_t)vocab, sizeof *s->candidates);
    return s->candidates ? PROPANE_OK : propane_fail_memory(err, (size_t)vocab * sizeof *s->candidates);
}

void infer_sampler_deinit(infer_sampler *s) {
    mem_free(s->candidates);
    s->candidates = NULL;
}

/* A logit that is no number never wins. */
static float number(float logit) { return isnan(logit) ? -INFINITY : logit; }

int32_t infer_argmax(const float *logits, int vocab) {
    int32_t best = 0;
    for (int i = 1; i < vocab; i++)
        if (number(logits[i]) > number(logits[best])) best = i;
    return best;
}

double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id) {
    double largest = -INFINITY, sum = 0;
    for (int i = 0; i < vocab; i++) largest = fmax(largest, (double)logits[i * stride]);
    for (int i = 0; i < vocab; i++) sum += exp((double)logits[i * stride] - largest);
    return largest + log(sum) - (double)logits[id * stride];
}

static int compare(const void *a, const void *b) {
    const infer_candidate *x = a, *y = b;
    if (x->logit > y->logit) return -1;
    if (x->logit < y->logit) return 1;
    return x->id < y->id ? -1 : 1;
}

int32_t infer_sample(infer_sampler *s, const float *logits) {
    if (s->sampling.temperature <= 0 || s->sampling.top_k == 1) return infer_argmax(logits, s->vocab);
    infer_candidate *c = s->candidates;
    int count = s->vocab;
    for (int i = 0; i < count; i++) c[i] = (infer_candidate){number(logits[i]), i};
    bool cut = s->sampling.top_k > 0 || (s->sampling.top_p > 0 && s->sampling.top_p < 1);
    if (cut) qsort(c, (size_t)count, sizeof *c, compare);
    if (s->sampling.top_k > 0 && s->sampling.top_k < count) count = s->sampling.top_k;
    double largest = (double)c[0].logit, total = 0;
    for (int i = 1; i < count; i++) largest = fmax(largest, (double)c[i].logit);
    if (!isfinite(largest)) return infer_argmax(logits, s->vocab);
    for (int i = 0; i < count; i++) total += exp(((double)c[i].logit - largest) / s->sampling.temperature);
    if (s->sampling.top_p > 0 && s->sampling.top_p < 1) {
        double kept = 0;
        int keep = 0;
        while (keep < count && kept < s->sampling.top_p * total)
            kept += exp(((double)c[keep++].logit - largest) / s->sampling.temperature);
        count = keep;
        total = kept;
    }
    double point = rng_unit(&s->rng) * total;
    for (int i = 0; i < count; i++) {
        point -= exp(((double)c[i].logit - largest) / s->sampling.temperature);
        if (point < 0) return c[i].id;
    }
    return c[count - 1].id;
}
