/* SPDX-License-Identifier: MIT
 * Draws the next id from logits. Penalties for earlier ids are applied first, then temperature, top-k, top-p and min-p.
 */
#ifndef LM_INFER_SAMPLE_H
#define LM_INFER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/rng.h"
#include "core/base/status.h"

typedef struct infer_sampling {
    double temperature; /* 0 always draws the most likely id (the smallest id among equals) */
    int top_k;          /* draw only from the k most likely ids; 0 means all */
    double top_p;       /* draw only from the most likely ids that together reach this probability; 0 or 1 means all */
    /* draw only from ids whose probability relative to the most likely id is at least this; 0 means all */
    double min_p;
    /* the logit of an id that occurs in the prompt or was drawn is divided by this value if it is positive, and
     * multiplied by it otherwise; 0 or 1 changes nothing */
    double repetition;
    double frequency; /* subtracted from an id's logit for each time that the id was drawn */
    double presence;  /* subtracted once from an id's logit if the id was drawn */
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
    int32_t *drawn;              /* [vocab], how often each id was drawn; NULL without penalties */
    bool *seen;                  /* [vocab], whether an id was drawn or is in the prompt; NULL without penalties */
} infer_sampler;
PROPANE_CHECK propane_status infer_sampler_init(infer_sampler *s, const infer_sampling *sampling, int vocab,
                                                propane_error *err);
void infer_sampler_deinit(infer_sampler *s);
/* Records an id of the prompt for the penalties. infer_sample records the ids that it draws. */
void infer_sampler_see(infer_sampler *s, int32_t id);
int32_t infer_sample(infer_sampler *s, const float *logits);
int32_t infer_argmax(const float *logits, int vocab);
/* Returns -log softmax(logits)[id], in double. `stride` is the distance from one id's logit to the next. */
double infer_nll(const float *logits, int vocab, int64_t stride, int32_t id);
/* Sets `out` to the `count` most likely ids, most likely first, with the smaller id first among equals. Returns their
 * number, which is at most `vocab`. */
int infer_most_likely(const float *logits, int vocab, int count, infer_candidate *out);

#endif
