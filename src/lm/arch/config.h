/* SPDX-License-Identifier: MIT
 * What a model is made of, in the terms of Hugging Face's config.json. Plain data, no pointers.
 */
#ifndef LM_ARCH_CONFIG_H
#define LM_ARCH_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/json.h"

typedef enum model_rope_scaling {
    MODEL_ROPE_PLAIN,
    MODEL_ROPE_LINEAR,
    MODEL_ROPE_LLAMA3,
    MODEL_ROPE_LONG
} model_rope_scaling;
enum { MODEL_ROPE_PAIRS = 64 }; /* of a head, with factors of their own */

typedef struct model_config {
    char model_type[16];       /* of a row in lm/arch/arch.c: "llama" */
    int64_t hidden_size;       /* D */
    int64_t intermediate_size; /* H of a feed-forward half without experts */
    int64_t num_hidden_layers;
    int64_t num_attention_heads;
    int64_t num_key_value_heads; /* divides num_attention_heads */
    int64_t head_dim;            /* HD, even; heads * head_dim need not be hidden_size */
    int64_t vocab_size;
    int64_t max_position_embeddings; /* longest sequence */
    double rms_norm_eps;             /* of LayerNorms too */
    double rope_theta;
    model_rope_scaling rope_scaling;
    double rope_factor, rope_low_factor, rope_high_factor; /* 0 where they have no meaning */
    int64_t rope_original;                                 /* positions before scaling; likewise */
    /* Longrope: what pairs turn slower by, up to rope_original positions and beyond, and what turned queries and keys
     * are multiplied with. Contexts end at rope_original; the second list is kept for files alone. */
    double rope_short[MODEL_ROPE_PAIRS], rope_long[MODEL_ROPE_PAIRS], rope_attention;
    int64_t rotary_dim; /* of a head's numbers, those at the front that RoPE turns; 0: all */
    /* Layers may differ in where they look and in how they know positions. Those whose number, counted from 1, is a
     * multiple of full_every (0: none) see all positions before them, the others the last sliding_window, themselves
     * included (0: all of them do). Windowed ones turn with rope_local_theta, unscaled, where it is not 0. Multiples of
     * nope_every do not turn. */
    int64_t sliding_window, full_every, nope_every;
    double rope_local_theta;
    double attention_softcap, logits_softcap; /* scores and logits x become cap * tanh(x / cap); 0: they stay */
    double query_pre_attn_scalar;             /* scores are divided by its root; 0: by head_dim's */
    /* What embeddings, a half's result and scores are multiplied with, and logits divided by; 0: 1, for scores 1 /
     * sqrt(HD). Embeddings are not scaled as such: see model_arch_residual_scale. */
    double embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling;
    /* Experts: the router's softmax gives each a part; the num_experts_per_tok largest are kept, and, with
     * norm_topk_prob, divided by their sum. 0 experts: the half is one. */
    int64_t num_experts, num_experts_per_tok, moe_intermediate_size;
    bool norm_topk_prob;
    bool attention_bias, mlp_bias;      /* where the architecture leaves a choice */
    bool tie_word_embeddings;           /* lm_head is embed_tokens */
    int64_t bos_token_id, eos_token_id; /* -1: none */
    int64_t vocab_piece; /* not in files: rows of the output head in one tensor and one program; 0: all of them */
} model_config;

/* A model of about two million parameters; a place to start from. */
void model_config_default(model_config *c);
/* The same size in another architecture; an unknown `type` is PROPANE_ERR_UNSUPPORTED and the message lists those there
 * are. */
PROPANE_CHECK propane_status model_config_default_of(model_config *c, const char *type, propane_error *err);
/* Every value and how they fit together; the message begins with `source` and names key and value. */
PROPANE_CHECK propane_status model_config_check(const model_config *c, const char *source, propane_error *err);
/* Reads the keys of a JSON object. Needed: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
 * vocab_size, under the architecture's own names. Left out: what transformers takes (lm/arch/arch.h). What Propane
 * cannot do (an unknown model_type, another activation, sliding windows, other rope scaling) is
 * PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status model_config_from_json(const json_t *object, const char *source, model_config *out,
                                                    propane_error *err);
PROPANE_CHECK propane_status model_config_parse(const char *data, size_t length, const char *source, model_config *out,
                                                propane_error *err);
PROPANE_CHECK propane_status model_config_read(const char *path, model_config *out, propane_error *err);
/* json_decref the result; NULL: no memory. */
json_t *model_config_to_json(const model_config *c);
PROPANE_CHECK propane_status model_config_write(const model_config *c, const char *path, propane_error *err);
bool model_config_equal(const model_config *a, const model_config *b);
int64_t model_config_q(const model_config *c);          /* heads * head_dim */
int64_t model_config_kv(const model_config *c);         /* kv heads * head_dim */
int64_t model_config_hidden(const model_config *c);     /* of a feed-forward half: of all experts */
int64_t model_config_rotary(const model_config *c);     /* rotary_dim, or head_dim */
double model_config_score_scale(const model_config *c); /* what products of queries and keys are multiplied with */
/* Radians a position that pair i of a head turns, scaled as the configuration says; in layers with a base of their own
 * they turn by model_config_local_rate. */
double model_config_rope_rate(const model_config *c, int64_t i);
double model_config_local_rate(const model_config *c, int64_t i);
const char *model_config_rope_name(const model_config *c); /* as config.json has it: "default", "linear" */
/* What is turned is so long next to what it was: 1 but for longrope. */
double model_config_rope_length(const model_config *c);
/* max_position_embeddings as files have it: of longrope beyond the original context. */
int64_t model_config_longest(const model_config *c);

/* Layers that attend alike are of one kind and share programs. Kinds are numbered as their first layers come. */
#define MODEL_KINDS 4
int model_config_kinds(const model_config *c);
int model_config_kind(const model_config *c, int64_t layer);
int64_t model_config_kind_layer(const model_config *c, int kind);  /* the first of its layers */
int64_t model_config_window(const model_config *c, int64_t layer); /* how many positions the layer sees; 0: all */
bool model_config_turns(const model_config *c, int64_t layer);     /* by its RoPE, if the architecture has it */

#endif
