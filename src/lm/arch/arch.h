/* SPDX-License-Identifier: MIT
 * The differences between architectures, as data: how it normalises, what its feed-forward half is, how it knows
 * positions, and every tensor with its names and its form in the files. Builders, weights, files, plans and estimates
 * read these rows; none of them knows an architecture by name. A new architecture is one file that fills a model_arch
 * and a line in arch.c.
 */
#ifndef LM_ARCH_ARCH_H
#define LM_ARCH_ARCH_H

#include "lm/arch/config.h"
#include "lm/arch/quantize.h"

typedef enum arch_norm { ARCH_RMS_NORM, ARCH_LAYER_NORM } arch_norm;
typedef enum arch_mlp { ARCH_SILU_GATED, ARCH_GELU_GATED, ARCH_GELU_TANH } arch_mlp;
typedef enum arch_position { ARCH_ROPE, ARCH_LEARNED } arch_position;

typedef enum model_part { MODEL_EMBED, MODEL_ATTN, MODEL_FFN, MODEL_HEAD } model_part;

/* Sizes by what they stand for: width, hidden (of all experts), queries, keys, one head, vocabulary, positions,
 * experts. */
typedef enum arch_size { ARCH_1, ARCH_D, ARCH_H, ARCH_Q, ARCH_KV, ARCH_HD, ARCH_V, ARCH_P, ARCH_E } arch_size;

typedef enum arch_role {
    ARCH_MATRIX,
    ARCH_RESIDUAL, /* a matrix whose result is added to the residual stream */
    ARCH_ROUTER,   /* a matrix that chooses between experts; never in fewer than 16 bits */
    ARCH_TABLE,    /* rows that the host gathers */
    ARCH_SCALE,    /* a norm's weight, 1 at first */
    ARCH_SHIFT     /* a bias, 0 at first */
} arch_role;

typedef enum arch_when { ARCH_ALWAYS, ARCH_IF_ATTENTION_BIAS, ARCH_IF_MLP_BIAS, ARCH_IF_OWN_HEAD } arch_when;

/* One tensor. Inside a layer the names stand behind the layer's prefix ("model.layers.3." and "blk.3."). Rows with the
 * same name in a file lie there one below the other, in the table's order, as one tensor. */
typedef struct arch_tensor {
    model_part part;
    const char *param; /* of the part's function: "q_proj", "norm_bias" */
    const char *name;  /* in Propane; in Hugging Face's files too, unless `stored` says otherwise */
    const char *gguf;
    arch_size out, in; /* in = ARCH_1: a vector */
    arch_role role;
    arch_when when;
    const char *stored; /* NULL: name */
    bool transposed;    /* Hugging Face's file holds [in, out] */
    bool less_one;      /* Hugging Face's file holds a norm's weight less 1; `stored` must differ from `name` */
    bool experts; /* files hold a matrix [M,D] or [D,M] for each expert; in `stored` a '*' stands for its number */
} arch_tensor;

/* A row that the files hold as it is. */
#define ARCH_ROW(part, param, name, gguf, out, in, role, when)                                                         \
    {MODEL_##part, param, name, gguf, ARCH_##out, ARCH_##in, ARCH_##role, ARCH_##when, NULL, false, false, false}

typedef struct arch_rename {
    const char *ours, *theirs; /* theirs NULL: the configuration does not say it */
} arch_rename;

/* A key whose value must be one of `words` (blanks between them; of a list: each item), if it is there and not null. */
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
    bool factors;  /* embedding_multiplier and its like in config.json */
    bool windowed; /* sliding_window, and layer_types where full_every is not 0 */
    bool experts;  /* num_experts and its like: the feed-forward half is a choice of experts by a router */
    bool gemma;    /* embeddings are multiplied by sqrt(width); query_pre_attn_scalar, soft caps */
    /* Layers that differ (model_config), where the configuration does not say; 0: there it cannot say. */
    int64_t window, full_every, nope_every;
    double rope_theta, rope_local_theta, attention_softcap, logits_softcap;
    bool partial_rotary;         /* partial_rotary_factor */
    bool gguf_pairs;             /* rows of a head's queries and keys come in pairs (2i, 2i+1) in GGUF files */
    const char *act_key, *act;   /* how config.json says the activation */
    const char *base, *layers;   /* "model.", which files of the bare model leave out; "model.layers." */
    int64_t positions, head_dim; /* where the configuration does not say; head_dim 0: width / heads */
    double norm_eps;
    bool tied;
    const char *adapted;        /* modules that get a low-rank adapter by default */
    const arch_rename *renames; /* ends with a row of NULL */
    const arch_demand *demands; /* likewise */
    const arch_tensor *tensors; /* embed, attn, ffn, head; ends with a row without a name */
} model_arch;

int model_arch_count(void);
const model_arch *model_arch_at(int index);
const model_arch *model_arch_find(const char *type); /* NULL: unknown */
const model_arch *model_arch_gguf(const char *name);
/* "llama, qwen2, ...", for messages. */
#define ARCH_NAMES_LENGTH 160
const char *model_arch_names(char out[ARCH_NAMES_LENGTH]);
/* Of a checked configuration. */
const model_arch *model_arch_of(const model_config *c);
/* Has the feed-forward half a gate, so three matrices? */
static inline bool model_arch_is_gated(const model_arch *a) { return a->mlp != ARCH_GELU_TANH; }

int64_t model_arch_size(const model_config *c, arch_size size);
/* Is the row a parameter of its part's function; does the model hold a tensor of its own for it (a tied head does
 * not)? */
bool model_arch_used(const model_config *c, const arch_tensor *row);
bool model_arch_held(const model_config *c, const arch_tensor *row);
/* The first of the rows that lie in one tensor of the files with this one: itself, unless files hold several as one. */
const arch_tensor *model_arch_leader(const model_config *c, const arch_tensor *row);
/* What a row's tensor is called in Hugging Face's files, behind the layer's prefix. */
const char *model_arch_stored(const arch_tensor *row);
/* The form in which a matrix is kept where `wanted` is asked for. */
model_packing model_arch_packing(const model_config *c, const arch_tensor *row, model_packing wanted);
/* Elements of all tensors. */
int64_t model_arch_parameters(const model_config *c);
/* The index-th parameter of a part's function behind its activations; NULL: there are no more. */
const arch_tensor *model_arch_param(const model_config *c, model_part part, int index);

/* The residual stream is kept divided by the embeddings' factor: then embeddings are added as they are, each half's
 * result is multiplied with this, and the epsilon of the norms that read the stream is divided by the factor's square.
 * All else is the same, as a norm does not see its input's scale. */
double model_arch_residual_scale(const model_config *c);
double model_arch_stream_eps(const model_config *c);

/* The tables, one file each. */
extern const model_arch model_arch_llama, model_arch_qwen2, model_arch_qwen3, model_arch_gpt2, model_arch_mistral,
    model_arch_granite, model_arch_olmo2, model_arch_phi3, model_arch_smollm3, model_arch_gemma2, model_arch_gemma3,
    model_arch_qwen3_moe;

#endif
