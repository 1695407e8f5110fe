/* SPDX-License-Identifier: MIT
 * The differences between architectures, as data: normalisation, the form of the feed-forward half, the encoding of
 * positions, and every tensor with its names and its form in files. Builders, weights, files, plans and estimates read
 * these rows, and no other code refers to an architecture by name. A new architecture needs one file that fills a
 * model_arch, and one line in arch.c.
 */
#ifndef LM_ARCH_ARCH_H
#define LM_ARCH_ARCH_H

#include "lm/arch/config.h"
#include "lm/arch/quantize.h"

typedef enum arch_norm { ARCH_RMS_NORM, ARCH_LAYER_NORM } arch_norm;
typedef enum arch_mlp { ARCH_SILU_GATED, ARCH_GELU_GATED, ARCH_GELU_TANH } arch_mlp;
typedef enum arch_position { ARCH_ROPE, ARCH_LEARNED } arch_position;

typedef enum model_part { MODEL_EMBED, MODEL_ATTN, MODEL_FFN, MODEL_HEAD } model_part;

/* Sizes by their meaning, in this order: 1, width, hidden (of all experts), queries, keys and values, one head,
 * vocabulary, positions, experts. */
typedef enum arch_size { ARCH_1, ARCH_D, ARCH_H, ARCH_Q, ARCH_KV, ARCH_HD, ARCH_V, ARCH_P, ARCH_E } arch_size;

typedef enum arch_role {
    ARCH_MATRIX,
    ARCH_RESIDUAL, /* a matrix whose result is added to the residual stream */
    ARCH_ROUTER,   /* a matrix that chooses between experts; never stored in fewer than 16 bits */
    ARCH_TABLE,    /* rows that the host gathers */
    ARCH_SCALE,    /* a norm's weight, initially 1 */
    ARCH_SHIFT     /* a bias, initially 0 */
} arch_role;

typedef enum arch_when { ARCH_ALWAYS, ARCH_IF_ATTENTION_BIAS, ARCH_IF_MLP_BIAS, ARCH_IF_OWN_HEAD } arch_when;

/* One tensor. In files, a layer's prefix ("model.layers.3." or "blk.3.") precedes the names of its tensors. Rows with
 * the same name in a file are stacked as one tensor in that file, in the table's order. */
typedef struct arch_tensor {
    model_part part;
    const char *param; /* parameter of the part's function: "q_proj", "norm_bias" */
    const char *name;  /* name in Propane, and in Hugging Face's files if `stored` is NULL */
    const char *gguf;
    arch_size out, in; /* in = ARCH_1 means a vector */
    arch_role role;
    arch_when when;
    const char *stored; /* name in Hugging Face's files; NULL means `name` */
    bool transposed;    /* Hugging Face's file holds [in, out] */
    bool less_one;      /* Hugging Face's file holds a norm's weight minus 1; `stored` must differ from `name` */
    bool experts; /* files hold one matrix [M,D] or [D,M] per expert; the expert's number replaces '*' in `stored` */
} arch_tensor;

/* A row that files hold unchanged. */
#define ARCH_ROW(part, param, name, gguf, out, in, role, when)                                                         \
    {MODEL_##part, param, name, gguf, ARCH_##out, ARCH_##in, ARCH_##role, ARCH_##when, NULL, false, false, false}

typedef struct arch_rename {
    const char *ours, *theirs; /* `theirs` is NULL if the architecture's configuration has no such key */
} arch_rename;

/* A key whose value, if present and not null, must be one of `words` (separated by blanks). If the value is a list,
 * each item must be. */
typedef struct arch_demand {
    const char *key, *words;
} arch_demand;

typedef struct model_arch {
    const char *type;       /* Hugging Face's model_type */
    const char *class_name; /* "LlamaForCausalLM" */
    const char *gguf;       /* general.architecture */
    arch_norm norm;
    arch_mlp mlp;
    arch_position position;
    bool factors;  /* config.json has embedding_multiplier and similar keys */
    bool windowed; /* config.json has sliding_window, and layer_types if full_every is not 0 */
    /* config.json has num_experts and similar keys; a router chooses experts for the feed-forward half */
    bool experts;
    bool gemma; /* embeddings are multiplied by sqrt(width); config.json has query_pre_attn_scalar and soft caps */
    /* How layers differ (model_config) if the configuration does not specify it. 0 in a field means that a
     * configuration cannot specify this difference. */
    int64_t window, full_every, nope_every;
    double rope_theta, rope_local_theta, attention_softcap, logits_softcap;
    bool partial_rotary; /* config.json has partial_rotary_factor */
    /* in GGUF files, the rows that RoPE rotates together are adjacent: 2i and 2i+1 of a head */
    bool gguf_pairs;
    const char *act_key, *act; /* the activation's key in config.json, and its value */
    /* `base` is "model.", which files of the model without a head omit; `layers` is "model.layers." */
    const char *base, *layers;
    /* defaults if the configuration does not specify them; head_dim 0 means width / heads */
    int64_t positions, head_dim;
    double norm_eps;
    bool tied;
    const char *adapted;        /* modules that get a low-rank adapter by default */
    const arch_rename *renames; /* ends with a row of NULL; NULL for none */
    const arch_demand *demands; /* ends with a row of NULL */
    const arch_tensor *tensors; /* embed, attn, ffn, head; ends with a row without a name */
} model_arch;

int model_arch_count(void);
const model_arch *model_arch_at(int index);
const model_arch *model_arch_find(const char *type); /* NULL if unknown */
const model_arch *model_arch_gguf(const char *name);
/* Writes the names of all architectures, "llama, qwen2, ...", to `out` for messages and returns `out`. */
#define ARCH_NAMES_LENGTH 160
const char *model_arch_names(char out[ARCH_NAMES_LENGTH]);
/* Returns the architecture of a configuration that was checked. */
const model_arch *model_arch_of(const model_config *c);
/* Returns whether the feed-forward half has a gate, and thus three matrices. */
static inline bool model_arch_is_gated(const model_arch *a) { return a->mlp != ARCH_GELU_TANH; }

int64_t model_arch_size(const model_config *c, arch_size size);
/* Return whether the row is a parameter of its part's function, and whether the model holds a separate tensor for this
 * row. A tied head has no separate tensor. */
bool model_arch_used(const model_config *c, const arch_tensor *row);
bool model_arch_held(const model_config *c, const arch_tensor *row);
/* Returns the first of the rows that files hold as one tensor together with `row`. This is `row` itself if files hold
 * it as a separate tensor. */
const arch_tensor *model_arch_leader(const model_config *c, const arch_tensor *row);
/* Returns the name of a row's tensor in Hugging Face's files, without the layer's prefix. */
const char *model_arch_stored(const arch_tensor *row);
/* Returns the form in which a matrix is kept if the form `wanted` is requested. */
model_packing model_arch_packing(const model_config *c, const arch_tensor *row, model_packing wanted);
/* Returns the number of elements in all tensors. */
int64_t model_arch_parameters(const model_config *c);
/* Returns the index-th parameter of a part's function after its activations, or NULL if there are no more. */
const arch_tensor *model_arch_param(const model_config *c, model_part part, int index);

/* The residual stream is stored divided by the embeddings' factor. Embeddings are then added unscaled, each half's
 * result is multiplied by model_arch_residual_scale, and the norms that read the stream use model_arch_stream_eps, the
 * epsilon divided by the factor's square. Nothing else changes, because a norm is invariant to its input's scale. */
double model_arch_residual_scale(const model_config *c);
double model_arch_stream_eps(const model_config *c);

/* The tables, one file per architecture. */
extern const model_arch model_arch_llama, model_arch_qwen2, model_arch_qwen3, model_arch_gpt2, model_arch_mistral,
    model_arch_granite, model_arch_olmo2, model_arch_phi3, model_arch_smollm3, model_arch_gemma2, model_arch_gemma3,
    model_arch_qwen3_moe;

#endif
