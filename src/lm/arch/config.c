/* SPDX-License-Identifier: MIT
 * Owns the values that follow from a model's configuration alone.
 */
#include "lm/arch/config.h"

#include <math.h>
#include <string.h>

int64_t model_config_q(const model_config *c) { return c->num_attention_heads * c->head_dim; }

int64_t model_config_kv(const model_config *c) { return c->num_key_value_heads * c->head_dim; }

int64_t model_config_hidden(const model_config *c) {
    return c->num_experts ? c->num_experts * c->moe_intermediate_size : c->intermediate_size;
}

int64_t model_config_rotary(const model_config *c) { return c->rotary_dim ? c->rotary_dim : c->head_dim; }

double model_config_score_scale(const model_config *c) {
    if (c->attention_multiplier > 0) return c->attention_multiplier;
    return 1 / sqrt(c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : (double)c->head_dim);
}

static bool config_is_multiple(int64_t layer, int64_t every) { return every > 0 && (layer + 1) % every == 0; }

int64_t model_config_window(const model_config *c, int64_t layer) {
    return config_is_multiple(layer, c->full_every) ? 0 : c->sliding_window;
}

bool model_config_turns(const model_config *c, int64_t layer) { return !config_is_multiple(layer, c->nope_every); }

static int config_form(const model_config *c, int64_t layer) {
    return 2 * (model_config_window(c, layer) > 0) + model_config_turns(c, layer);
}

int64_t model_config_kind_layer(const model_config *c, int kind) {
    bool seen[MODEL_KINDS] = {false};
    for (int64_t layer = 0; layer < c->num_hidden_layers; layer++) {
        const int form = config_form(c, layer);
        if (!seen[form] && kind-- == 0) return layer;
        seen[form] = true;
    }
    return -1;
}

int model_config_kind(const model_config *c, int64_t layer) {
    int kind = 0;
    for (int64_t first; (first = model_config_kind_layer(c, kind)) >= 0; kind++)
        if (config_form(c, first) == config_form(c, layer)) return kind;
    return 0;
}

int model_config_kinds(const model_config *c) {
    int kinds = 0;
    while (kinds < MODEL_KINDS && model_config_kind_layer(c, kinds) >= 0) kinds++;
    return kinds;
}

static double config_plain_rate(const model_config *c, double theta, int64_t i) {
    return pow(theta, -2.0 * (double)i / (double)model_config_rotary(c));
}

double model_config_local_rate(const model_config *c, int64_t i) {
    return config_plain_rate(c, c->rope_local_theta, i);
}

double model_config_rope_length(const model_config *c) {
    return c->rope_scaling == MODEL_ROPE_LONG ? c->rope_attention : 1;
}

int64_t model_config_longest(const model_config *c) {
    const bool cut = c->rope_scaling == MODEL_ROPE_LONG && c->max_position_embeddings == c->rope_original;
    return cut ? (int64_t)round(c->rope_factor * (double)c->rope_original) : c->max_position_embeddings;
}

double model_config_rope_rate(const model_config *c, int64_t i) {
    double rate = config_plain_rate(c, c->rope_theta, i);
    if (c->rope_scaling == MODEL_ROPE_PLAIN) return rate;
    if (c->rope_scaling == MODEL_ROPE_LINEAR) return rate / c->rope_factor;
    if (c->rope_scaling == MODEL_ROPE_LONG) return rate / c->rope_short[i];
    /* Llama 3: the scaling depends on a pair's number of turns within the original context. Pairs with few turns are
     * slowed down, pairs with many turns are unchanged, and pairs in between are blended. */
    double turns = (double)c->rope_original * rate / (2 * 3.14159265358979323846);
    double keep = (turns - c->rope_low_factor) / (c->rope_high_factor - c->rope_low_factor);
    keep = fmin(fmax(keep, 0), 1);
    return rate * (keep + (1 - keep) / c->rope_factor);
}
