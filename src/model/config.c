/* SPDX-License-Identifier: MIT
 * Owns reading, checking and writing of model configurations. The sizes are bounded so that no product of them
 * overflows; what a Llama has but Propane lacks is refused rather than ignored.
 */
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"

/* One row per whole-number key: name, field, smallest, largest, needed. */
typedef struct int_key {
    const char *name;
    size_t offset;
    int64_t min, max;
    bool needed;
} int_key;

#define KEY(name, min, max, needed) {#name, offsetof(model_config, name), min, max, needed}
static const int_key int_keys[] = {
    KEY(hidden_size, 1, 1 << 17, true),          KEY(intermediate_size, 1, 1 << 20, true),
    KEY(num_hidden_layers, 1, 1000, true),       KEY(num_attention_heads, 1, 1 << 12, true),
    KEY(num_key_value_heads, 1, 1 << 12, false), KEY(head_dim, 2, 1 << 12, false),
    KEY(vocab_size, 2, 1 << 21, true),           KEY(max_position_embeddings, 1, 1 << 24, false),
};
#undef KEY
enum { INT_KEYS = sizeof int_keys / sizeof int_keys[0] };

static int64_t *field(model_config *c, const int_key *key) { return (int64_t *)(void *)((char *)c + key->offset); }

static int64_t value_of(const model_config *c, const int_key *key) {
    return *(const int64_t *)(const void *)((const char *)c + key->offset);
}

void model_config_default(model_config *c) {
    *c = (model_config){
        .model_type = "llama",
        .hidden_size = 192,
        .intermediate_size = 512,
        .num_hidden_layers = 4,
        .num_attention_heads = 6,
        .num_key_value_heads = 6,
        .head_dim = 32,
        .vocab_size = 1024,
        .max_position_embeddings = 256,
        .rms_norm_eps = 1e-5,
        .rope_theta = 10000,
        .tie_word_embeddings = true,
        .bos_token_id = -1,
        .eos_token_id = -1,
    };
}

int64_t model_config_q(const model_config *c) { return c->num_attention_heads * c->head_dim; }
int64_t model_config_kv(const model_config *c) { return c->num_key_value_heads * c->head_dim; }

static propane_status bad(propane_error *err, const char *source, const char *format, ...) BASE_PRINTF(3, 4);
static propane_status bad(propane_error *err, const char *source, const char *format, ...) {
    va_list args;
    va_start(args, format);
    propane_vfail(err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    return propane_fail_prefix(err, PROPANE_ERR_INVALID, "%s", source);
}

propane_status model_config_check(const model_config *c, const char *source, propane_error *err) {
    if (memchr(c->model_type, 0, sizeof c->model_type) == NULL || strcmp(c->model_type, "llama") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: model_type is '%.15s'; only 'llama' is known", source,
                            c->model_type);
    for (int i = 0; i < INT_KEYS; i++) {
        int64_t v = value_of(c, &int_keys[i]);
        if (v < int_keys[i].min || v > int_keys[i].max)
            return bad(err, source, "key '%s' is %lld; it must be from %lld to %lld", int_keys[i].name, (long long)v,
                       (long long)int_keys[i].min, (long long)int_keys[i].max);
    }
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return bad(err, source, "num_attention_heads (%lld) must be a multiple of num_key_value_heads (%lld)",
                   (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
    if (c->head_dim % 2 != 0)
        return bad(err, source, "head_dim is %lld; it must be even, because RoPE turns pairs", (long long)c->head_dim);
    if (model_config_q(c) > 1 << 20)
        return bad(err, source, "num_attention_heads * head_dim is %lld; at most 1048576 is possible",
                   (long long)model_config_q(c));
    if (!(c->rms_norm_eps >= 1e-12 && c->rms_norm_eps <= 0.1))
        return bad(err, source, "rms_norm_eps is %g; it must be from 1e-12 to 0.1", c->rms_norm_eps);
    if (!(c->rope_theta > 1 && c->rope_theta <= 1e12))
        return bad(err, source, "rope_theta is %g; it must be above 1 and at most 1e12", c->rope_theta);
    const int64_t ids[] = {c->bos_token_id, c->eos_token_id};
    const char *const id_names[] = {"bos_token_id", "eos_token_id"};
    for (int i = 0; i < 2; i++)
        if (ids[i] < -1 || ids[i] >= c->vocab_size)
            return bad(err, source, "%s is %lld; it must be below vocab_size (%lld)", id_names[i], (long long)ids[i],
                       (long long)c->vocab_size);
    return PROPANE_OK;
}

/* What a config.json may say that this code does not do. */
static propane_status refuse_unsupported(const json_t *object, const char *source, propane_error *err) {
    const char *act = "silu";
    PROPANE_TRY(json_get_text(object, source, "hidden_act", false, &act, err));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: hidden_act is '%.40s'; only 'silu' can be done", source,
                            act);
    const char *const switches[] = {"attention_bias", "mlp_bias"};
    for (int i = 0; i < 2; i++) {
        bool on = false;
        PROPANE_TRY(json_get_bool(object, source, switches[i], false, &on, err));
        if (on)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: %s is true; only models without biases can be done",
                                source, switches[i]);
    }
    const json_t *scaling = json_object_get(object, "rope_scaling"), *rope = json_object_get(object, "rope_parameters");
    const char *rope_type = "default"; /* transformers 5 writes rope_parameters for both rope_theta and rope_scaling */
    if (json_is_object(rope)) PROPANE_TRY(json_get_text(rope, source, "rope_type", false, &rope_type, err));
    if ((scaling && !json_is_null(scaling)) || strcmp(rope_type, "default") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: rope_scaling is set; only plain RoPE can be done",
                            source);
    return PROPANE_OK;
}

/* eos_token_id may be a list: the first one counts. */
static propane_status read_id(const json_t *object, const char *source, const char *key, int64_t *out,
                              propane_error *err) {
    const json_t *v = json_object_get(object, key);
    if (json_is_array(v)) {
        v = json_array_get(v, 0);
        if (!json_is_integer(v)) return bad(err, source, "key '%s' must be a whole number or a list of them", key);
        *out = json_integer_value(v);
        return PROPANE_OK;
    }
    return json_get_int(object, source, key, false, -1, 1 << 21, out, err);
}

propane_status model_config_from_json(const json_t *object, const char *source, model_config *out, propane_error *err) {
    model_config c = {.num_key_value_heads = -1,
                      .head_dim = -1,
                      .max_position_embeddings = 2048,
                      .rms_norm_eps = 1e-6,
                      .rope_theta = 10000,
                      .bos_token_id = -1,
                      .eos_token_id = -1};
    const char *type = "llama";
    PROPANE_TRY(json_get_text(object, source, "model_type", false, &type, err));
    snprintf(c.model_type, sizeof c.model_type, "%s", type);
    if (strcmp(type, c.model_type) != 0) c.model_type[0] = '?';
    if (strcmp(type, "llama") != 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: model_type is '%.40s'; only 'llama' is known", source,
                            type);
    PROPANE_TRY(refuse_unsupported(object, source, err));
    for (int i = 0; i < INT_KEYS; i++)
        PROPANE_TRY(json_get_int(object, source, int_keys[i].name, int_keys[i].needed, int_keys[i].min, int_keys[i].max,
                                 field(&c, &int_keys[i]), err));
    if (c.num_key_value_heads < 0) c.num_key_value_heads = c.num_attention_heads;
    if (c.head_dim < 0) {
        if (c.hidden_size % c.num_attention_heads != 0)
            return bad(err, source,
                       "hidden_size (%lld) must be a multiple of num_attention_heads (%lld) or head_dim be given",
                       (long long)c.hidden_size, (long long)c.num_attention_heads);
        c.head_dim = c.hidden_size / c.num_attention_heads;
    }
    PROPANE_TRY(json_get_real(object, source, "rms_norm_eps", false, &c.rms_norm_eps, err));
    PROPANE_TRY(json_get_real(object, source, "rope_theta", false, &c.rope_theta, err));
    const json_t *rope = json_object_get(object, "rope_parameters");
    if (json_is_object(rope)) PROPANE_TRY(json_get_real(rope, source, "rope_theta", false, &c.rope_theta, err));
    PROPANE_TRY(json_get_bool(object, source, "tie_word_embeddings", false, &c.tie_word_embeddings, err));
    PROPANE_TRY(read_id(object, source, "bos_token_id", &c.bos_token_id, err));
    PROPANE_TRY(read_id(object, source, "eos_token_id", &c.eos_token_id, err));
    PROPANE_TRY(model_config_check(&c, source, err));
    *out = c;
    return PROPANE_OK;
}

propane_status model_config_parse(const char *data, size_t length, const char *source, model_config *out,
                                  propane_error *err) {
    json_t *object;
    PROPANE_TRY(json_parse(data, length, source, &object, err));
    propane_status status = model_config_from_json(object, source, out, err);
    json_decref(object);
    return status;
}

propane_status model_config_read(const char *path, model_config *out, propane_error *err) {
    char *data;
    size_t length;
    PROPANE_TRY(file_read(path, 1 << 20, &data, &length, err));
    propane_status status = model_config_parse(data, length, path, out, err);
    mem_free(data);
    return status;
}

json_t *model_config_to_json(const model_config *c) {
    json_t *o = json_object();
    int bad_sets = 0;
    bad_sets += json_object_set_new(o, "architectures", json_pack("[s]", "LlamaForCausalLM"));
    bad_sets += json_object_set_new(o, "model_type", json_string(c->model_type));
    bad_sets += json_object_set_new(o, "hidden_act", json_string("silu"));
    for (int i = 0; i < INT_KEYS; i++)
        bad_sets += json_object_set_new(o, int_keys[i].name, json_integer(value_of(c, &int_keys[i])));
    bad_sets += json_object_set_new(o, "rms_norm_eps", json_real(c->rms_norm_eps));
    bad_sets += json_object_set_new(o, "rope_theta", json_real(c->rope_theta));
    bad_sets += json_object_set_new(o, "tie_word_embeddings", json_boolean(c->tie_word_embeddings));
    if (c->bos_token_id >= 0) bad_sets += json_object_set_new(o, "bos_token_id", json_integer(c->bos_token_id));
    if (c->eos_token_id >= 0) bad_sets += json_object_set_new(o, "eos_token_id", json_integer(c->eos_token_id));
    if (bad_sets == 0) return o;
    json_decref(o);
    return NULL;
}

propane_status model_config_write(const model_config *c, const char *path, propane_error *err) {
    json_t *o = model_config_to_json(c);
    char *text = o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) : NULL;
    propane_status status = text ? file_write(path, text, strlen(text), err) : propane_fail_memory(err, 1000);
    free(text); /* jansson's own allocation */
    json_decref(o);
    return status;
}

bool model_config_equal(const model_config *a, const model_config *b) {
    for (int i = 0; i < INT_KEYS; i++)
        if (value_of(a, &int_keys[i]) != value_of(b, &int_keys[i])) return false;
    return strcmp(a->model_type, b->model_type) == 0 && a->rms_norm_eps == b->rms_norm_eps &&
           a->rope_theta == b->rope_theta && a->tie_word_embeddings == b->tie_word_embeddings &&
           a->bos_token_id == b->bos_token_id && a->eos_token_id == b->eos_token_id;
}
