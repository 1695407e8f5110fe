/* SPDX-License-Identifier: MIT
 * What a model is made of, in the terms of Hugging Face's config.json. Plain data, no pointers.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

typedef struct model_config {
    char model_type[16];       /* "llama" */
    int64_t hidden_size;       /* D */
    int64_t intermediate_size; /* H of the feed-forward half */
    int64_t num_hidden_layers;
    int64_t num_attention_heads;
    int64_t num_key_value_heads; /* divides num_attention_heads */
    int64_t head_dim;            /* HD, even; heads * head_dim need not be hidden_size */
    int64_t vocab_size;
    int64_t max_position_embeddings; /* longest sequence */
    double rms_norm_eps;
    double rope_theta;
    bool tie_word_embeddings;           /* lm_head is embed_tokens */
    int64_t bos_token_id, eos_token_id; /* -1: none */
} model_config;

/* A model of about two million parameters; a place to start from. */
void model_config_default(model_config *c);
/* Every value and how they fit together; the message begins with `source` and names key and value. */
PROPANE_CHECK propane_status model_config_check(const model_config *c, const char *source, propane_error *err);
/* Reads the keys of a JSON object. Needed: hidden_size, intermediate_size, num_hidden_layers, num_attention_heads,
 * vocab_size. Left out: num_key_value_heads = num_attention_heads, head_dim = hidden_size / heads,
 * max_position_embeddings 2048, rms_norm_eps 1e-6, rope_theta 10000, tie_word_embeddings false (as in transformers).
 * What Propane cannot do (another model_type or hidden_act, biases, rope_scaling) is PROPANE_ERR_UNSUPPORTED. */
PROPANE_CHECK propane_status model_config_from_json(const json_t *object, const char *source, model_config *out,
                                                    propane_error *err);
PROPANE_CHECK propane_status model_config_parse(const char *data, size_t length, const char *source, model_config *out,
                                                propane_error *err);
PROPANE_CHECK propane_status model_config_read(const char *path, model_config *out, propane_error *err);
/* json_decref the result; NULL: no memory. */
json_t *model_config_to_json(const model_config *c);
PROPANE_CHECK propane_status model_config_write(const model_config *c, const char *path, propane_error *err);
bool model_config_equal(const model_config *a, const model_config *b);
int64_t model_config_q(const model_config *c);  /* heads * head_dim */
int64_t model_config_kv(const model_config *c); /* kv heads * head_dim */

#endif
