/* SPDX-License-Identifier: MIT
 * The registry of a model's tensors: what they are called, where they lie in one block of fp32 master weights, and which
 * parameter of which forward function they feed. Gradients and optimiser moments use blocks of the same layout: `floats`
 * floats, tensor t at [t.offset, t.offset + t.count). The gaps between tensors (to 64 bytes) are zero and stay so.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "base/arena.h"
#include "model/config.h"

typedef enum model_part { MODEL_EMBED, MODEL_ATTN, MODEL_FFN, MODEL_HEAD } model_part;

typedef struct model_tensor {
    const char *name;  /* as in Hugging Face: "model.layers.0.self_attn.q_proj.weight" */
    const char *param; /* of the part's function: "q_proj", "norm_weight"; "embed_tokens" for MODEL_EMBED */
    model_part part;
    int layer;  /* -1: not in a layer */
    bool decay; /* weight decay is for matrices, not for norm weights */
    int rank;   /* 2: [out, in]; 1: a norm weight */
    int64_t dim[2];
    int64_t count;  /* elements */
    int64_t offset; /* in floats, a multiple of 16 */
} model_tensor;

typedef struct model_weights {
    model_config config;
    arena *arena;
    int count;
    model_tensor *tensors; /* embed_tokens, then layer by layer (attn, ffn), norm, lm_head (unless tied) */
    int64_t floats;        /* of the block, gaps included */
    int64_t parameters;    /* elements of all tensors */
    float *data;           /* [floats]; zero after create */
} model_weights;

PROPANE_CHECK propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err);
void model_weights_free(model_weights *w);
/* Seeded. Matrices: normal with deviation `deviation` (0: 1/sqrt(inputs) of each matrix; the embedding 0.02); o_proj and
 * down_proj, whose results are added to the residual stream 2L times, divided by sqrt(2L). Norm weights: 1. Each tensor
 * draws from a generator of its own (seed and index), so one tensor's size does not change the next one's values. */
void model_weights_init(model_weights *w, uint64_t seed, double deviation);

const model_tensor *model_weights_find(const model_weights *w, const char *name); /* NULL: there is none */
/* The tensor that feeds a function's parameter; "lm_head" of a tied model is embed_tokens. NULL: there is none. */
const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param);
float *model_weights_data(const model_weights *w, const model_tensor *t);

#endif
