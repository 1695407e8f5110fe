/* SPDX-License-Identifier: MIT
 * Owns the keys that describe how layers differ. transformers lists every layer. Published models repeat a pattern of N
 * layers of which only the last differs, so only N is kept. Other lists are refused.
 */
#include "lm/arch/config_layers.h"

#include <math.h>
#include <string.h>

#define LAYERS_MAX 1000

void config_layers_default(const model_arch *a, model_config *c) {
    c->sliding_window = a->window;
    c->full_every = a->full_every;
    c->nope_every = a->nope_every;
    c->rope_local_theta = a->rope_local_theta;
    c->attention_softcap = a->attention_softcap;
    c->logits_softcap = a->logits_softcap;
    if (a->rope_theta > 0) c->rope_theta = a->rope_theta;
}

/* Returns whether a list item describes a layer that differs. */
typedef bool layers_test(const json_t *item);

static bool layers_is_full(const json_t *item) {
    const char *word = json_string_value(item);
    return word && strcmp(word, "full_attention") == 0;
}

static bool layers_is_still(const json_t *item) { return json_integer_value(item) == 0; }

/* Reads the list of a key as "every N-th layer differs" and sets *every to N, or to 0 if no layer does. Leaves *every
 * unchanged if the key is missing or null. */
static propane_status layers_read_list(const json_t *object, const char *key, layers_test *other, const char *source,
                                       const model_config *c, int64_t *every, propane_error *err) {
    const json_t *list = json_object_get(object, key);
    int64_t first = 0;
    if (!list || json_is_null(list)) return PROPANE_OK;
    if (!json_is_array(list) || (int64_t)json_array_size(list) < c->num_hidden_layers)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s must be a list with one item for each of the %lld layers",
                            source, key, (long long)c->num_hidden_layers);
    while (first < c->num_hidden_layers && !other(json_array_get(list, (size_t)first))) first++;
    *every = first < c->num_hidden_layers ? first + 1 : 0;
    for (int64_t i = first; i < c->num_hidden_layers; i++)
        if (other(json_array_get(list, (size_t)i)) != ((i + 1) % (first + 1) == 0))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: %s has no repeating pattern, which is not supported: starting at layer %lld, the "
                                "pattern should repeat every %lld layers, but layer %lld differs",
                                source, key, (long long)first, (long long)(first + 1), (long long)i);
    return PROPANE_OK;
}

static propane_status layers_read_windows(const json_t *object, const model_arch *a, const char *source,
                                          model_config *c, propane_error *err) {
    const json_t *window = json_object_get(object, "sliding_window");
    if (window && json_is_null(window)) c->sliding_window = 0;
    PROPANE_TRY(json_get_int(object, source, "sliding_window", false, 1, INT64_C(1) << 40, &c->sliding_window, err));
    if (a->full_every == 0) return PROPANE_OK;
    PROPANE_TRY(json_get_int(object, source, "sliding_window_pattern", false, 1, LAYERS_MAX, &c->full_every, err));
    PROPANE_TRY(json_get_int(object, source, "_sliding_window_pattern", false, 1, LAYERS_MAX, &c->full_every, err));
    return layers_read_list(object, "layer_types", layers_is_full, source, c, &c->full_every, err);
}

/* Reads the RoPE base of windowed layers. Its key is rope_parameters.sliding_attention.rope_theta in transformers 5,
 * and was rope_local_base_freq before. */
static propane_status layers_read_local_rope(const json_t *object, const char *source, model_config *c,
                                             propane_error *err) {
    const json_t *local = json_object_get(json_object_get(object, "rope_parameters"), "sliding_attention");
    const char *type = "default";
    PROPANE_TRY(json_get_real(object, source, "rope_local_base_freq", false, &c->rope_local_theta, err));
    if (!json_is_object(local)) return PROPANE_OK;
    PROPANE_TRY(json_get_real(local, source, "rope_theta", false, &c->rope_local_theta, err));
    PROPANE_TRY(json_get_text(local, source, "rope_type", false, &type, err));
    if (strcmp(type, "default") == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: rope_parameters of sliding_attention have type '%.40s'; only 'default' is supported",
                        source, type);
}

static propane_status layers_read_softcap(const json_t *object, const char *source, const char *key, double *out,
                                          propane_error *err) {
    const json_t *cap = json_object_get(object, key);
    if (cap && json_is_null(cap)) *out = 0;
    return json_get_real(object, source, key, false, out, err);
}

propane_status config_layers_read(const json_t *object, const model_arch *a, const char *source, model_config *c,
                                  propane_error *err) {
    if (a->windowed) PROPANE_TRY(layers_read_windows(object, a, source, c, err));
    if (a->rope_local_theta > 0) PROPANE_TRY(layers_read_local_rope(object, source, c, err));
    if (a->nope_every > 0) {
        PROPANE_TRY(json_get_int(object, source, "no_rope_layer_interval", false, 1, LAYERS_MAX, &c->nope_every, err));
        PROPANE_TRY(layers_read_list(object, "no_rope_layers", layers_is_still, source, c, &c->nope_every, err));
    }
    if (!a->gemma) return PROPANE_OK;
    PROPANE_TRY(layers_read_softcap(object, source, "attn_logit_softcapping", &c->attention_softcap, err));
    PROPANE_TRY(layers_read_softcap(object, source, "final_logit_softcapping", &c->logits_softcap, err));
    c->query_pre_attn_scalar = 256;
    return json_get_real(object, source, "query_pre_attn_scalar", false, &c->query_pre_attn_scalar, err);
}

propane_status config_layers_check(const model_config *c, const char *source, propane_error *err) {
    const struct {
        const char *name;
        double value, most;
    } rows[] = {{"sliding_window", (double)c->sliding_window, 0x1p40},
                {"sliding_window_pattern", (double)c->full_every, LAYERS_MAX},
                {"no_rope_layer_interval", (double)c->nope_every, LAYERS_MAX},
                {"attn_logit_softcapping", c->attention_softcap, 1e6},
                {"final_logit_softcapping", c->logits_softcap, 1e6},
                {"query_pre_attn_scalar", c->query_pre_attn_scalar, 1e6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!(rows[i].value >= 0 && rows[i].value <= rows[i].most))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %g; it must be above 0 and at most %g", source,
                                rows[i].name, rows[i].value, rows[i].most);
    /* the inverses of smaller values overflow fp16 */
    for (int i = 3; i < 6; i++)
        if (rows[i].value > 0 && rows[i].value < 1e-3)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: %s is %g; it must be at least 0.001", source,
                                rows[i].name, rows[i].value);
    if (c->rope_local_theta == 0 || (c->rope_local_theta > 1 && c->rope_local_theta <= 1e12)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%s: the rope_theta of sliding-window layers is %g; it must be above 1 and at most 1e12",
                        source, c->rope_local_theta);
}

static void layers_write_lists(const model_config *c, const model_arch *a, json_t *o) {
    json_t *types = json_array(), *turned = json_array();
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        const bool full = c->sliding_window == 0 || model_config_window(c, i) == 0;
        json_add(types, json_string(full ? "full_attention" : "sliding_attention"));
        json_add(turned, json_integer(model_config_turns(c, i)));
    }
    if (a->full_every > 0)
        json_put(o, "layer_types", types);
    else
        json_decref(types);
    if (a->nope_every > 0)
        json_put(o, "no_rope_layers", turned);
    else
        json_decref(turned);
}

static json_t *layers_real_or_null(double value) { return value > 0 ? json_real(value) : json_null(); }

void config_layers_write(const model_config *c, json_t *o) {
    const model_arch *a = model_arch_of(c);
    if (a->windowed) json_put(o, "sliding_window", c->sliding_window ? json_integer(c->sliding_window) : json_null());
    if (a->full_every > 0 || a->nope_every > 0) layers_write_lists(c, a, o);
    if (a->rope_local_theta > 0) json_put(o, "rope_local_base_freq", json_real(c->rope_local_theta));
    if (!a->gemma) return;
    const double scalar = c->query_pre_attn_scalar > 0 ? c->query_pre_attn_scalar : (double)c->head_dim;
    json_put(o, "attn_logit_softcapping", layers_real_or_null(c->attention_softcap));
    json_put(o, "final_logit_softcapping", layers_real_or_null(c->logits_softcap));
    json_put(o, "query_pre_attn_scalar", fmod(scalar, 1) == 0 ? json_integer((json_int_t)scalar) : json_real(scalar));
}

static bool layers_same_real(double a, double b) { return fabs(a - b) <= 0; }

bool config_layers_equal(const model_config *a, const model_config *b) {
    for (int64_t i = 0; i < a->num_hidden_layers; i++)
        if (model_config_window(a, i) != model_config_window(b, i) ||
            model_config_turns(a, i) != model_config_turns(b, i))
            return false;
    return layers_same_real(a->rope_local_theta, b->rope_local_theta) &&
           layers_same_real(a->attention_softcap, b->attention_softcap) &&
           layers_same_real(a->logits_softcap, b->logits_softcap) &&
           layers_same_real(model_config_score_scale(a), model_config_score_scale(b));
}
