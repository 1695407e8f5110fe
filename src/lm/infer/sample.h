/* SPDX-License-Identifier: MIT
 * Drawing the next id from logits. In this order: penalties for ids that came before, temperature, top-k, top-p, min-p.
 */
#ifndef LM_INFER_SAMPLE_H
#define LM_INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/rng.h"
#include "core/base/status.h"

typedef struct infer_sampling {
    double temperature; /* 0: always the most likely id (of equals the smallest) */
    int top_k;          /* only the k most likely ids; 0: all */
    double top_p;       /* only the most likely ids that together have probability p; 0 or 1: all */
    double min_p;       /* only ids at least that likely, the most likely one being 1; 0: all */
    double repetition;  /* logits of ids that came before, prompt included: divided by it if positive, else times it;
                         * 0 or 1: left alone */
    double frequency;   /* taken off an id's logit for each time that it was drawn */
    double presence;    /* taken off once if it was drawn at all */
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
    bool penalties;
    infer_candidate *candidates; /* [vocab] */
    int32_t *drawn;              /* [vocab]: how often; NULL without penalties */
    bool *seen;                  /* [vocab]: drawn or in the prompt */
} infer_sampler;
PROPANE_CHECK propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab,
                                                propane_error *err);
void infer_sampler_deinit(infer_sampler *s);
/* Tells of an id of the text so far, for the penalties. infer_sample does so by itself for what it draws. */
void infer_sampler_see(infer_sampler *s, int32_t id);
int32_t infer_sample(infer_sampler *s, const float *logits);
int32_t infer_argmax(const float *logits, int vocab);
/* -log softmax(logits)[id], in double. `stride`: between one id's logit and the next one's. */
double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id);
/* The `count` most likely ids, most likely first, of equals the smaller id; returns how many there are (at most
 * vocab). */
int infer_most_likely(const float *logits, int vocab, int count, infer_candidate *out);

#endif
