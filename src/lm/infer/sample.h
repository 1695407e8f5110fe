/* SPDX-License-Identifier: MIT
 * Draws the next id from logits. In order: penalties for earlier ids, temperature, top-k, top-p, min-p.
 */
#ifndef LM_INFER_SAMPLE_H
#define LM_INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/rng.h"
#include "core/base/status.h"

typedef struct infer_sampling {
    double temperature; /* 0 means always the most likely id (the smallest among equals) */
    int top_k;          /* only the k most likely ids; 0 means all */
    double top_p;       /* only the most likely ids whose combined probability is p; 0 or 1 means all */
    double min_p;       /* only ids at least this likely relative to the most likely one; 0 means all */
    /* logits of earlier ids, including the prompt's, are divided by it if positive and multiplied by it otherwise; 0 or
     * 1 means unchanged */
    double repetition;
    double frequency; /* subtracted from an id's logit for each time that it was drawn */
    double presence;  /* subtracted once if it was drawn at all */
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
    int32_t *drawn;              /* [vocab], how often it was drawn; NULL without penalties */
    bool *seen;                  /* [vocab], drawn or in the prompt */
} infer_sampler;
PROPANE_CHECK propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab,
                                                propane_error *err);
void infer_sampler_deinit(infer_sampler *s);
/* Records an id of the text so far, for the penalties. infer_sample records the ids that it draws. */
void infer_sampler_see(infer_sampler *s, int32_t id);
int32_t infer_sample(infer_sampler *s, const float *logits);
int32_t infer_argmax(const float *logits, int vocab);
/* Returns -log softmax(logits)[id], in double. `stride` is the distance from one id's logit to the next. */
double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id);
/* Fills in the `count` most likely ids, most likely first, with the smaller id first among equals. Returns how many
 * there are (at most vocab). */
int infer_most_likely(const float *logits, int vocab, int count, infer_candidate *out);

#endif
