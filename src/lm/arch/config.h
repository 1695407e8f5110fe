/* SPDX-License-Identifier: MIT
 * A model's configuration, in the terms of Hugging Face's config.json. The struct is plain data without pointers.
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
enum { MODEL_ROPE_PAIRS = 64 }; /* most pairs per head that can have separate factors */

typedef struct model_config {
    char model_type[16];       /* model_type in a row of lm/arch/arch.c: "llama" */
    int64_t hidden_size;       /* D, the width of the residual stream */
    int64_t intermediate_size; /* H of a feed-forward half without experts */
    int64_t num_hidden_layers;
    int64_t num_attention_heads;
    int64_t num_key_value_heads; /* divides num_attention_heads */
    int64_t head_dim;            /* HD, even with RoPE; heads * head_dim need not be hidden_size */
    int64_t vocab_size;
    int64_t max_position_embeddings; /* longest sequence */
    double rms_norm_eps;             /* also for LayerNorm */
    double rope_theta;
    model_rope_scaling rope_scaling;
    double rope_factor, rope_low_factor, rope_high_factor; /* 0 if unused */
    int64_t rope_original;                                 /* positions before scaling; 0 if unused */
    /* Longrope: the factors by which pairs rotate more slowly in contexts up to rope_original and in longer ones, and
     * the factor of rotated queries and keys. Contexts end at rope_original, so rope_long is kept only for files. */
    double rope_short[MODEL_ROPE_PAIRS], rope_long[MODEL_ROPE_PAIRS], rope_attention;
    int64_t rotary_dim; /* how many leading elements of a head RoPE rotates; 0 means all */
    /* Layers may differ in their windows and positional encodings. Layers whose number, counted from 1, is a multiple
     * of full_every (0 means none) see all earlier positions. In the other layers a position sees the last
     * sliding_window positions including itself; 0 means all. If rope_local_theta is not 0, windowed layers rotate with
     * this base, unscaled. Layers whose number is a multiple of nope_every do not rotate. */
    int64_t sliding_window, full_every, nope_every;
    double rope_local_theta;
    double attention_softcap, logits_softcap; /* a score or logit x becomes cap * tanh(x / cap); 0 means no cap */
    /* scores are divided by the square root of this value; 0 means head_dim */
    double query_pre_attn_scalar;
    /* Factors of embeddings, of a half's result and of scores, and the divisor of logits. 0 means 1, but for scores it
     * means the factor that follows from query_pre_attn_scalar. Embeddings are not scaled directly: see
     * model_arch_residual_scale. */
    double embedding_multiplier, residual_multiplier, attention_multiplier, logits_scaling;
    /* Experts: the router's softmax assigns a weight to each expert. The num_experts_per_tok largest weights are kept
     * and, with norm_topk_prob, divided by their sum. With num_experts 0, the feed-forward half has no experts. */
    int64_t num_experts, num_experts_per_tok, moe_intermediate_size;
    bool norm_topk_prob;
    bool attention_bias, mlp_bias;      /* false if the architecture leaves no choice */
    bool tie_word_embeddings;           /* lm_head is embed_tokens */
    int64_t bos_token_id, eos_token_id; /* -1 for none */
    int64_t vocab_piece; /* not in files: rows of the output head per tensor and program; 0 means all of them */
} model_config;

/* Sets the configuration of a model of about two million parameters, as a starting point. */
void model_config_default(model_config *c);
/* Sets such a configuration for the architecture `type`. Returns PROPANE_ERR_UNSUPPORTED for an unknown `type`; the
 * message lists the known types. */
PROPANE_CHECK propane_status model_config_default_of(model_config *c, const char *type, propane_error *err);
/* Checks every value and their combination. An error message begins with `source` and names the key and the value. */
PROPANE_CHECK propane_status model_config_check(const model_config *c, const char *source, propane_error *err);
/* Reads the keys of a JSON object. hidden_size, intermediate_size, num_hidden_layers, num_attention_heads and
 * vocab_size are required, under the architecture's names (intermediate_size is optional in architectures without a
 * gate). Other missing keys get the defaults of transformers (lm/arch/arch.h). Returns PROPANE_ERR_UNSUPPORTED for
 * anything that Propane does not support, such as an unknown model_type, another activation, windows in an architecture
 * without them, or another rope scaling. */
PROPANE_CHECK propane_status model_config_from_json(const json_t *object, const char *source, model_config *out,
                                                    propane_error *err);
PROPANE_CHECK propane_status model_config_parse(const char *data, size_t length, const char *source, model_config *out,
                                                propane_error *err);
PROPANE_CHECK propane_status model_config_read(const char *path, model_config *out, propane_error *err);
/* Returns an object that the caller releases with json_decref, or NULL if memory runs out. */
json_t *model_config_to_json(const model_config *c);
PROPANE_CHECK propane_status model_config_write(const model_config *c, const char *path, propane_error *err);
bool model_config_equal(const model_config *a, const model_config *b);
int64_t model_config_q(const model_config *c);          /* heads * head_dim */
int64_t model_config_kv(const model_config *c);         /* kv heads * head_dim */
int64_t model_config_hidden(const model_config *c);     /* width of a feed-forward half, including all experts */
int64_t model_config_rotary(const model_config *c);     /* rotary_dim, or head_dim if that is 0 */
double model_config_score_scale(const model_config *c); /* the factor of the scores */
/* Return the radians by which pair i of a head rotates per position: with rope_theta, scaled as the configuration
 * specifies, and with rope_local_theta. */
double model_config_rope_rate(const model_config *c, int64_t i);
double model_config_local_rate(const model_config *c, int64_t i);
const char *model_config_rope_name(const model_config *c); /* as in config.json: "default", "linear" */
/* Returns the factor by which RoPE changes a vector's length. It is 1 except for longrope. */
double model_config_rope_length(const model_config *c);
/* Returns max_position_embeddings as it is written in files. For longrope it exceeds the original context. */
int64_t model_config_longest(const model_config *c);

/* Layers that attend alike form a kind and share programs. Kinds are numbered in the order of their first layers. */
#define MODEL_KINDS 4
int model_config_kinds(const model_config *c);
int model_config_kind(const model_config *c, int64_t layer);
/* the first layer of the kind; -1 if there is no such kind */
int64_t model_config_kind_layer(const model_config *c, int kind);
/* Returns the number of positions that a position sees in this layer, including itself; 0 means all. */
int64_t model_config_window(const model_config *c, int64_t layer);
bool model_config_turns(const model_config *c, int64_t layer); /* whether RoPE rotates in this layer */

#endif
