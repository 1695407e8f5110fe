/* SPDX-License-Identifier: MIT
 * Drawing the next id from logits.
 */
#ifndef INFER_SAMPLE_H
#define INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "base/status.h"

typedef struct infer_sampling {
    double temperature; /* 0: always the most likely id (of equals the smallest) */
    int top_k;          /* only the k most likely ids; 0: all */
    double top_p;       /* only the most likely ids that together have probability p; 0 or 1: all */
    uint64_t seed;
} infer_sampling;

PROPANE_CHECK propane_status infer_sampling_check(const infer_sampling *s, propane_error *err);

/* Memory for one vocabulary, so that drawing does not allocate. */
typedef struct infer_candidate {
    float logit;
    int32_t id;
} infer_candidate;
typedef struct infer_sampler {
    infer_sampling sampling;
    rng rng;
    int vocab;
    infer_candidate *candidates; /* [vocab] */
} infer_sampler;
PROPANE_CHECK propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab,
                                                propane_error *err);
void infer_sampler_deinit(infer_sampler *s);
int32_t infer_sample(infer_sampler *s, const float *logits);
int32_t infer_argmax(const float *logits, int vocab);
/* -log softmax(logits)[id], in double. `stride`: between one id's logit and the next one's. */
double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id);

#endif
