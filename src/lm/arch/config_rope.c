/* SPDX-License-Identifier: MIT
 * Owns the RoPE keys of a configuration.
 */
#include "lm/arch/config_rope.h"

#include <math.h>
#include <string.h>

static const char *const rope_names[] = {"default", "linear", "llama3", "longrope"}; /* indexed by model_rope_scaling */

const char *model_config_rope_name(const model_config *c) { return rope_names[c->rope_scaling]; }

void config_rope_be_long(model_config *c, double factor) {
    const double original = (double)c->rope_original;
    c->rope_scaling = MODEL_ROPE_LONG;
    c->rope_factor = isnan(factor) ? fmax(1, (double)c->max_position_embeddings / original) : factor;
    c->rope_attention = c->rope_factor > 1 ? sqrt(1 + log(c->rope_factor) / log(original)) : 1;
    if (c->max_position_embeddings > c->rope_original) c->max_position_embeddings = c->rope_original;
}

/* ---- reading ------------------------------------------------------------------------------------------------------------ */

static propane_status rope_read_factors(const json_t *rope, const char *key, const char *source, double *out,
                                        propane_error *err) {
    const json_t *list = json_object_get(rope, key), *v;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > MODEL_ROPE_PAIRS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the rope scaling's %s must be a list of 1 to %d numbers",
                            source, key, MODEL_ROPE_PAIRS);
    json_array_foreach(list, i, v) {
        if (!json_is_number(v))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: the rope scaling's %s must contain only numbers", source,
                                key);
        out[i] = json_number_value(v);
    }
    return PROPANE_OK;
}

/* Reads longrope. The key of the original context is next to the scaling object or inside it. Without attention_factor,
 * the factor of queries and keys follows from the growth of the context. */
static propane_status rope_read_long(const json_t *object, const json_t *rope, const char *source, model_config *c,
                                     propane_error *err) {
    static const char key[] = "original_max_position_embeddings";
    const json_t *where = json_object_get(object, key) ? object : rope;
    PROPANE_TRY(json_get_int(where, source, key, true, 1, 1 << 24, &c->rope_original, err));
    PROPANE_TRY(rope_read_factors(rope, "short_factor", source, c->rope_short, err));
    PROPANE_TRY(rope_read_factors(rope, "long_factor", source, c->rope_long, err));
    double factor = NAN;
    if (json_is_number(json_object_get(rope, "factor")))
        PROPANE_TRY(json_get_real(rope, source, "factor", false, &factor, err));
    config_rope_be_long(c, factor);
    if (json_is_number(json_object_get(rope, "attention_factor")))
        PROPANE_TRY(json_get_real(rope, source, "attention_factor", false, &c->rope_attention, err));
    return PROPANE_OK;
}

static propane_status rope_read_scaling(const json_t *object, const json_t *rope, const char *source, model_config *c,
                                        propane_error *err) {
    const char *type = "default";
    PROPANE_TRY(json_get_text(rope, source, "type", false, &type, err));
    PROPANE_TRY(json_get_text(rope, source, "rope_type", false, &type, err));
    if (strcmp(type, "su") == 0) type = "longrope"; /* its original name */
    int scaling = 0;
    while (scaling <= MODEL_ROPE_LONG && strcmp(rope_names[scaling], type) != 0) scaling++;
    if (scaling > MODEL_ROPE_LONG)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: rope_scaling has type '%.40s'; only 'default', 'linear', 'llama3' and 'longrope' are supported",
            source, type);
    c->rope_scaling = (model_rope_scaling)scaling;
    if (c->rope_scaling == MODEL_ROPE_PLAIN) return PROPANE_OK;
    if (c->rope_scaling == MODEL_ROPE_LONG) return rope_read_long(object, rope, source, c, err);
    PROPANE_TRY(json_get_real(rope, source, "factor", true, &c->rope_factor, err));
    if (c->rope_scaling == MODEL_ROPE_LINEAR) return PROPANE_OK;
    PROPANE_TRY(json_get_real(rope, source, "low_freq_factor", true, &c->rope_low_factor, err));
    PROPANE_TRY(json_get_real(rope, source, "high_freq_factor", true, &c->rope_high_factor, err));
    return json_get_int(rope, source, "original_max_position_embeddings", true, 1, 1 << 24, &c->rope_original, err);
}

/* The scaling is in the object rope_scaling, or in rope_parameters, which transformers 5 writes for both the scaling
 * and rope_theta. */
propane_status config_rope_read(const json_t *object, const char *source, model_config *c, propane_error *err) {
    const json_t *scaling = json_object_get(object, "rope_scaling"), *rope = json_object_get(object, "rope_parameters");
    PROPANE_TRY(json_get_real(object, source, "rope_theta", false, &c->rope_theta, err));
    if (json_is_object(json_object_get(rope, "full_attention"))) rope = json_object_get(rope, "full_attention");
    if (json_is_object(rope)) PROPANE_TRY(json_get_real(rope, source, "rope_theta", false, &c->rope_theta, err));
    if (scaling && !json_is_null(scaling)) rope = scaling;
    if (!rope || json_is_null(rope)) return PROPANE_OK;
    if (!json_is_object(rope))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: rope_scaling must be an object", source);
    return rope_read_scaling(object, rope, source, c, err);
}

/* ---- checking ----------------------------------------------------------------------------------------------------------- */

static propane_status rope_check_long(const model_config *c, const char *source, propane_error *err) {
    const int64_t pairs = model_config_rotary(c) / 2;
    if (!(c->rope_attention > 0 && c->rope_attention <= 100))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: the rope scaling's attention_factor is %g; it must be above 0 and at most 100", source,
                            c->rope_attention);
    for (int64_t i = 0; i < MODEL_ROPE_PAIRS; i++) {
        const double low = fmin(c->rope_short[i], c->rope_long[i]), high = fmax(c->rope_short[i], c->rope_long[i]);
        const bool good = i < pairs ? low > 0 && high <= 1e6 : low == 0 && high == 0;
        if (!good || pairs > MODEL_ROPE_PAIRS)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "%s: the rope scaling's short_factor and long_factor must be %lld numbers above 0, one "
                                "for each pair of elements that RoPE rotates (at most %d)",
                                source, (long long)pairs, MODEL_ROPE_PAIRS);
    }
    return PROPANE_OK;
}

propane_status config_rope_check(const model_config *c, const char *source, propane_error *err) {
    if (!(c->rope_theta > 1 && c->rope_theta <= 1e12))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: rope_theta is %g; it must be above 1 and at most 1e12",
                            source, c->rope_theta);
    if (c->rope_scaling == MODEL_ROPE_PLAIN) return PROPANE_OK;
    if (!(c->rope_factor >= 1 && c->rope_factor <= 1e6))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the rope scaling's factor is %g; it must be from 1 to 1e6",
                            source, c->rope_factor);
    if (c->rope_scaling == MODEL_ROPE_LINEAR) return PROPANE_OK;
    if (c->rope_scaling == MODEL_ROPE_LLAMA3 &&
        !(c->rope_low_factor > 0 && c->rope_low_factor < c->rope_high_factor && c->rope_high_factor <= 1e6))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: the rope scaling's low_freq_factor is %g and high_freq_factor %g; they must be above 0 "
            "and the first below the second",
            source, c->rope_low_factor, c->rope_high_factor);
    if (c->rope_original < 1 || c->rope_original > 1 << 24)
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: the rope scaling's original_max_position_embeddings is %lld; it must be from 1 to 16777216", source,
            (long long)c->rope_original);
    return c->rope_scaling == MODEL_ROPE_LONG ? rope_check_long(c, source, err) : PROPANE_OK;
}

/* ---- writing ------------------------------------------------------------------------------------------------------------ */

static json_t *rope_list(const model_config *c, const double *factors) {
    json_t *list = json_array();
    for (int64_t i = 0; i < model_config_rotary(c) / 2; i++) json_array_append_new(list, json_real(factors[i]));
    return list;
}

/* Writes longrope as in Phi-3's files: rope_scaling has exactly three keys, and the context sizes are next to it. */
static void rope_write_long(const model_config *c, json_t *object) {
    json_put(object, "max_position_embeddings", json_integer(model_config_longest(c)));
    json_put(object, "original_max_position_embeddings", json_integer(c->rope_original));
    json_put(object, "rope_scaling",
             json_pack("{s:s, s:o, s:o}", "type", model_config_rope_name(c), "short_factor",
                       rope_list(c, c->rope_short), "long_factor", rope_list(c, c->rope_long)));
}

void config_rope_write(const model_config *c, json_t *object) {
    if (c->rope_scaling == MODEL_ROPE_LONG) rope_write_long(c, object);
    if (c->rope_scaling == MODEL_ROPE_LINEAR)
        json_put(object, "rope_scaling",
                 json_pack("{s:s, s:f}", "rope_type", model_config_rope_name(c), "factor", c->rope_factor));
    if (c->rope_scaling == MODEL_ROPE_LLAMA3)
        json_put(object, "rope_scaling",
                 json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", model_config_rope_name(c), "factor",
                           c->rope_factor, "low_freq_factor", c->rope_low_factor, "high_freq_factor",
                           c->rope_high_factor, "original_max_position_embeddings", (json_int_t)c->rope_original));
}

bool config_rope_equal(const model_config *a, const model_config *b) {
    for (int i = 0; i < MODEL_ROPE_PAIRS; i++)
        if (a->rope_short[i] != b->rope_short[i] || a->rope_long[i] != b->rope_long[i]) return false;
    return a->rope_theta == b->rope_theta && a->rope_scaling == b->rope_scaling && a->rope_factor == b->rope_factor &&
           a->rope_low_factor == b->rope_low_factor && a->rope_high_factor == b->rope_high_factor &&
           a->rope_original == b->rope_original && fabs(a->rope_attention - b->rope_attention) < 1e-9;
}
