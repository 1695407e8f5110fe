/* SPDX-License-Identifier: MIT
 * The registry of a model's tensors: what they are called, where they lie in one block of fp32 master weights, and
 * which parameter of which forward function they feed. Gradients and optimiser moments use blocks of the same layout:
 * `floats` floats, tensor t at [t.offset, t.offset + t.count). The gaps between tensors (to 64 bytes) are zero and stay
 * so.
 */
#ifndef LM_ARCH_MODEL_TENSORS_H
#define LM_ARCH_MODEL_TENSORS_H

#include "core/base/arena.h"
#include "lm/arch/lora.h"

typedef struct model_tensor {
    const char *name;  /* "model.layers.0.self_attn.q_proj.weight": Hugging Face's, unless `stored` differs */
    const char *param; /* of the part's function: "q_proj", "norm_weight"; "embed_tokens" for MODEL_EMBED */
    model_part part;
    int layer;  /* -1: not in a layer */
    bool decay; /* weight decay is for matrices, not for norm weights and biases */
    arch_role role;
    int rank; /* 2: [out, in]; 1: a norm weight or a bias */
    int64_t dim[2];
    int64_t count;  /* elements */
    int64_t offset; /* in floats, a multiple of 16 */

    /* In files. Some hold several of our tensors, one below the other, as one; Hugging Face's may then be
     * transposed. */
    const char *stored, *gguf;      /* names there */
    int64_t stored_rows, first_row; /* of the stored tensor's rows, ours are [first_row, first_row + dim[0]) */
    bool transposed;                /* in Hugging Face's files: [in, stored_rows] */
    bool less_one;                  /* there each number is smaller by 1 */
    int64_t experts;                /* files hold so many matrices [rows,D] or [D,columns]; 0: one */

    model_packing form; /* of models that are only read (stored_weights.h), with */
    int64_t place;      /* bytes into `stored` */
} model_tensor;

/* One expert's matrix within a tensor of several: rows of `columns` floats, dim[1] of the tensor apart. Experts lie one
 * below the other where the width is what is read, side by side where it is what is made. */
typedef struct model_expert {
    int64_t rows, columns;
    int64_t first; /* element of the tensor */
} model_expert;

model_expert model_tensor_expert(const model_tensor *t, int64_t expert);

/* Stored as it is, in Hugging Face's files. */
static inline bool model_tensor_plain(const model_tensor *t) {
    return !t->transposed && !t->less_one && !t->experts && t->stored_rows == t->dim[0];
}

typedef struct model_weights {
    model_config config;
    arena *arena;
    int count;
    model_tensor *tensors; /* in the order of the architecture's rows, layer by layer */
    int64_t floats;        /* of the block, gaps included */
    int64_t parameters;    /* elements of all tensors */
    float *data;           /* [floats]; zero after create */
    uint8_t *stored;       /* NULL, or the numbers as their file holds them: stored_weights.h */
    size_t stored_bytes;
    int holders;    /* of `stored` */
    bool gradients; /* numbers of the same layout: files hold them as they are, without `less_one` */

    /* Adapters (lm/arch/lora.h): tensors [count, count + adapter_count), with a block of their own. */
    model_lora lora; /* rank 0: none */
    int adapter_count;
    int64_t adapter_floats, adapter_parameters;
    float *adapter_data;
} model_weights;

/* The model's own tensors and the adapters'. */
static inline int model_weights_total(const model_weights *w) { return w->count + w->adapter_count; }
/* Two models of one configuration exchange their own weights (not the adapters): how a large one changes hands. */
void model_weights_swap(model_weights *a, model_weights *b);

/* The registry without any numbers, for stored_weights.h. */
PROPANE_CHECK propane_status model_weights_declare(const model_config *config, model_weights **out, propane_error *err);
PROPANE_CHECK propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err);
void model_weights_free(model_weights *w);
/* Seeded. Matrices: normal with deviation `deviation` (0: 1/sqrt(inputs) of each matrix; the embedding 0.02); o_proj
 * and down_proj, whose results are added to the residual stream 2L times, divided by sqrt(2L). Norm weights: 1; biases:
 * 0. Each tensor draws from a generator of its own (seed and index), so one tensor's size does not change the next
 * one's values. */
void model_weights_init(model_weights *w, uint64_t seed, double deviation);

const model_tensor *model_weights_find(const model_weights *w, const char *name); /* NULL: there is none */
/* Tensors that make up the output head (and a tied embedding): config.vocab_piece rows each, one after the other, in
 * the registry and in memory. */
int64_t model_weights_pieces(const model_config *c);
/* The tensor that feeds a function's parameter; "lm_head" of a tied model is embed_tokens. The first of several pieces.
 * NULL: there is none. */
const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param);
/* The k-th of the tensors that are stored together with t, t itself included, from the first row on; NULL: no more. */
const model_tensor *model_weights_piece(const model_weights *w, const model_tensor *t, int k);
/* fp32. NULL: of a model that is only read, in fewer bits. */
float *model_weights_data(const model_weights *w, const model_tensor *t);

#endif
