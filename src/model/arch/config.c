/* SPDX-License-Identifier: MIT
 * Owns what follows from a model's configuration alone.
 */
#include "model/arch/config.h"

#include <math.h>
#include <string.h>

int64_t model_config_q(const model_config *c) { return c->num_attention_heads * c->head_dim; }

int64_t model_config_kv(const model_config *c) { return c->num_key_value_heads * c->head_dim; }

int64_t model_config_rotary(const model_config *c) { return c->rotary_dim ? c->rotary_dim : c->head_dim; }

static double config_or_one(double factor) { return factor > 0 ? factor : 1; }

double model_config_residual_scale(const model_config *c) {
    return config_or_one(c->residual_multiplier) / config_or_one(c->embedding_multiplier);
}

double model_config_stream_eps(const model_config *c) {
    const double m = config_or_one(c->embedding_multiplier);
    return c->rms_norm_eps / (m * m);
}

double model_config_rope_rate(const model_config *c, int64_t i) {
    double rate = pow(c->rope_theta, -2.0 * (double)i / (double)model_config_rotary(c));
    if (c->rope_scaling == MODEL_ROPE_PLAIN) return rate;
    if (c->rope_scaling == MODEL_ROPE_LINEAR) return rate / c->rope_factor;
    /* Llama 3: turns within the original context decide; few of them are slowed, many are left, between is a blend. */
    double turns = (double)c->rope_original * rate / (2 * 3.14159265358979323846);
    double keep = (turns - c->rope_low_factor) / (c->rope_high_factor - c->rope_low_factor);
    keep = fmin(fmax(keep, 0), 1);
    return rate * (keep + (1 - keep) / c->rope_factor);
}
