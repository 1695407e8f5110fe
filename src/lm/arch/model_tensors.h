/* SPDX-License-Identifier: MIT
 * The registry of a model's tensors: their names, their places in one block of fp32 master weights, and the parameter
 * of the forward function that each feeds. Gradients and optimiser moments use blocks of the same layout: `floats`
 * floats, with tensor t at [t.offset, t.offset + t.count). The gaps between tensors (padding to 64 bytes) are zero and
 * stay so.
 */
#ifndef LM_ARCH_MODEL_TENSORS_H
#define LM_ARCH_MODEL_TENSORS_H

#include "core/base/arena.h"
#include "lm/arch/lora.h"

typedef struct model_tensor {
    const char *name;  /* "model.layers.0.self_attn.q_proj.weight"; also Hugging Face's name, unless `stored` differs */
    const char *param; /* parameter of the part's function: "q_proj", "norm_weight"; "embed_tokens" for MODEL_EMBED */
    model_part part;
    int layer;  /* -1 for tensors outside layers */
    bool decay; /* weight decay is for matrices, not for norm weights and biases */
    arch_role role;
    int rank; /* 2 for [out, in]; 1 for a norm weight or a bias */
    int64_t dim[2];
    int64_t count;  /* elements */
    int64_t offset; /* in floats, a multiple of 16 */

    /* In files. Some files hold several of our tensors stacked as one; Hugging Face's may also be transposed. */
    const char *stored, *gguf; /* names there */
    /* rows [first_row, first_row + dim[0]) of the stored tensor belong to this one */
    int64_t stored_rows, first_row;
    bool transposed; /* in Hugging Face's files: [in, stored_rows] */
    bool less_one;   /* the stored numbers are smaller by 1 */
    int64_t experts; /* number of matrices [rows,D] or [D,columns] in files; 0 means one */

    model_packing form;    /* in models that are only read, or whose weights are frozen (stored_weights.h) */
    int64_t place, scales; /* byte offsets in `stored` */
} model_tensor;

/* One expert's matrix within a tensor of several: rows of `columns` floats, at a distance of the tensor's dim[1].
 * Experts are stacked if the width is their input, and next to each other if it is their output. */
typedef struct model_expert {
    int64_t rows, columns;
    int64_t first; /* index of its first element in the tensor */
} model_expert;

model_expert model_tensor_expert(const model_tensor *t, int64_t expert);

/* Returns whether Hugging Face's files store it unchanged. */
static inline bool model_tensor_plain(const model_tensor *t) {
    return !t->transposed && !t->less_one && !t->experts && t->stored_rows == t->dim[0];
}

typedef struct model_weights {
    model_config config;
    arena *arena;
    int count;
    model_tensor *tensors; /* in the order of the architecture's rows, layer by layer */
    int64_t floats;        /* size of the block, including gaps */
    int64_t parameters;    /* elements of all tensors */
    float *data;           /* [floats]; zero after creation */
    uint8_t *stored;       /* NULL, or the numbers in the form of their file: stored_weights.h */
    size_t stored_bytes;
    int holders;    /* number of holders of `stored` */
    bool gradients; /* gradients in the same layout: files hold them unchanged, without `less_one` */

    /* Adapters (lm/arch/lora.h): tensors [count, count + adapter_count), in a separate block. */
    model_lora lora; /* rank 0 means none */
    int adapter_count;
    int64_t adapter_floats, adapter_parameters;
    float *adapter_data;
} model_weights;

/* Returns the number of tensors, including the adapters'. */
static inline int model_weights_total(const model_weights *w) { return w->count + w->adapter_count; }

/* Makes the registry without any numbers, for stored_weights.h. */
PROPANE_CHECK propane_status model_weights_declare(const model_config *config, model_weights **out, propane_error *err);
PROPANE_CHECK propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err);
void model_weights_free(model_weights *w);
/* Initialises from a seed. Matrices are normal with standard deviation `deviation` (0 means 1/sqrt(inputs) per matrix,
 * and 0.02 for the embedding). o_proj and down_proj, whose results are added to the residual stream 2L times, are
 * divided by sqrt(2L). Norm weights are 1, biases 0. Each tensor has a separate generator (seed and index), so one
 * tensor's size does not change the next one's values. */
void model_weights_init(model_weights *w, uint64_t seed, double deviation);

const model_tensor *model_weights_find(const model_weights *w, const char *name); /* NULL if there is none */
/* Returns the number of tensors that make up the output head (and a tied embedding): config.vocab_piece rows each,
 * adjacent in the registry and in memory. */
int64_t model_weights_pieces(const model_config *c);
/* Returns the tensor that feeds a function's parameter; "lm_head" of a tied model is embed_tokens. If it has several
 * pieces, returns the first. NULL if there is none. */
const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param);
/* Returns the k-th of the tensors that are stored together with t, including t itself, counted from the first row. NULL
 * if there are no more. */
const model_tensor *model_weights_piece(const model_weights *w, const model_tensor *t, int k);
/* The tensor's fp32 data, or NULL if the model is only read and stores fewer bits. */
float *model_weights_data(const model_weights *w, const model_tensor *t);

#endif
