/* SPDX-License-Identifier: MIT
 * The registry of a model's tensors: for each tensor its names, its place in one block of fp32 master weights, and the
 * parameter of the forward function that reads it. The block has `floats` floats, with tensor t at [t.offset, t.offset
 * + t.count). The gaps between tensors (padding to 64 bytes) are zero and stay zero.
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

    /* The tensor in files. Some files hold several of our tensors stacked as one; Hugging Face's files may also hold
     * the transpose. */
    const char *stored, *gguf; /* the tensor's names in Hugging Face's and in GGUF files */
    /* this tensor is rows [first_row, first_row + dim[0]) of the stored tensor, which has stored_rows */
    int64_t stored_rows, first_row;
    bool transposed; /* in Hugging Face's files: [in, stored_rows] */
    bool less_one;   /* Hugging Face's files hold the numbers minus 1 */
    int64_t experts; /* number of matrices, [rows,D] or [D,columns], in Hugging Face's files; 0 means a single tensor */

    model_packing form;    /* form of models that are only read or whose weights are frozen (stored_weights.h) */
    int64_t place, scales; /* byte offsets of the numbers and of their scales in model_weights.stored */
} model_tensor;

/* One expert's matrix within a tensor of several experts: `rows` rows of `columns` floats, at a distance of the
 * tensor's dim[1]. Experts whose input is the residual stream are stacked; experts whose output is added to the stream
 * are next to each other. */
typedef struct model_expert {
    int64_t rows, columns;
    int64_t first; /* index of the matrix's first element in the tensor */
} model_expert;

model_expert model_tensor_expert(const model_tensor *t, int64_t expert);

/* Returns whether Hugging Face's files store the tensor unchanged. */
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
    uint8_t *stored;       /* NULL, or the numbers in the form of their file (stored_weights.h) */
    size_t stored_bytes;
    int holders; /* number of holders of `stored` */
    /* these are gradients in the layout of the weights; files hold them without the change of `less_one` */
    bool gradients;

    /* Adapters (lm/arch/lora.h): tensors [count, count + adapter_count), in a separate block. */
    model_lora lora; /* rank 0 means none */
    int adapter_count;
    int64_t adapter_floats, adapter_parameters;
    float *adapter_data;
} model_weights;

/* Returns the number of tensors, including the adapters'. */
static inline int model_weights_total(const model_weights *w) { return w->count + w->adapter_count; }

/* Makes the registry without memory for the numbers, for stored_weights.h. */
PROPANE_CHECK propane_status model_weights_declare(const model_config *config, model_weights **out, propane_error *err);
PROPANE_CHECK propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err);
void model_weights_free(model_weights *w);
/* Initialises the weights from a seed. Matrices are normal with standard deviation `deviation` (0 means 1/sqrt(inputs)
 * for a matrix and 0.02 for an embedding table). For o_proj and down_proj, whose results are added to the residual
 * stream 2L times, the deviation is divided by sqrt(2L). Norm weights are 1 and biases are 0. Each tensor has a
 * separate generator (from seed and index), so a tensor's size does not change the values of the next tensor. */
void model_weights_init(model_weights *w, uint64_t seed, double deviation);

const model_tensor *model_weights_find(const model_weights *w, const char *name); /* NULL if there is none */
/* Returns the number of tensors into which the output head (and a tied embedding) is divided. They have
 * config.vocab_piece rows each and are adjacent in the registry and in memory. */
int64_t model_weights_pieces(const model_config *c);
/* Returns the tensor of a function's parameter, or NULL if there is none. For "lm_head" of a tied model, this is
 * embed_tokens. If there are several pieces, returns the first. */
const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param);
/* Returns the k-th of the tensors that files hold as one with t, in the order of their rows and including t itself.
 * Returns NULL if there are no more. */
const model_tensor *model_weights_piece(const model_weights *w, const model_tensor *t, int k);
/* Returns the tensor's fp32 data, or NULL if the model has no masters and stores the tensor in fewer bits. */
float *model_weights_data(const model_weights *w, const model_tensor *t);

#endif
