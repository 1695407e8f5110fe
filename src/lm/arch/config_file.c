/* SPDX-License-Identifier: MIT
 * Owns reading, checking and writing of model configurations. Sizes are bounded so that their products do not overflow.
 * Settings that Propane does not support are refused, not ignored.
 */
#include "lm/arch/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/words.h"
#include "lm/arch/arch.h"
#include "lm/arch/config_experts.h"
#include "lm/arch/config_layers.h"
#include "lm/arch/config_rope.h"

/* One row per integer key: name, field, smallest and largest value, and whether the key is required. */
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
/* Keys of factors, in architectures that have them. */
static const struct real_key {
    const char *name;
    size_t offset;
} real_keys[] = {{"embedding_multiplier", offsetof(model_config, embedding_multiplier)},
                 {"residual_multiplier", offsetof(model_config, residual_multiplier)},
                 {"attention_multiplier", offsetof(model_config, attention_multiplier)},
                 {"logits_scaling", offsetof(model_config, logits_scaling)}};
enum { REAL_KEYS = sizeof real_keys / sizeof real_keys[0] };

static double config_real_of(const model_config *c, int i) {
    return *(const double *)(const void *)((const char *)c + real_keys[i].offset);
}

enum { INT_KEYS = sizeof int_keys / sizeof int_keys[0] };

static int64_t *config_field(model_config *c, const int_key *key) {
    return (int64_t *)(void *)((char *)c + key->offset);
}

static int64_t config_value_of(const model_config *c, const int_key *key) {
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

propane_status model_config_default_of(model_config *c, const char *type, propane_error *err) {
    char known[ARCH_NAMES_LENGTH];
    const model_arch *a = model_arch_find(type);
    model_config_default(c);
    if (!a)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "unknown architecture '%.40s'; the known ones are %s", type,
                            model_arch_names(known));
    snprintf(c->model_type, sizeof c->model_type, "%s", a->type);
    if (!model_arch_is_gated(a)) c->intermediate_size = 4 * c->hidden_size;
    config_layers_default(a, c);
    config_experts_default(a, c);
    return PROPANE_OK;
}

static propane_status config_bad(propane_error *err, const char *source, const char *format, ...) BASE_PRINTF(3, 4);
static propane_status config_bad(propane_error *err, const char *source, const char *format, ...) {
    va_list args;
    va_start(args, format);
    propane_vfail(err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    return propane_fail_prefix(err, PROPANE_ERR_INVALID, "%s", source);
}

/* Returns the architecture's name of a key, or NULL if its configuration has no such key. */
static const char *config_name_in(const model_arch *a, const char *ours) {
    for (const arch_rename *r = a->renames; r && r->ours; r++)
        if (strcmp(r->ours, ours) == 0) return r->theirs;
    return ours;
}

propane_status model_config_check(const model_config *c, const char *source, propane_error *err) {
    char known[ARCH_NAMES_LENGTH];
    if (memchr(c->model_type, 0, sizeof c->model_type) == NULL || !model_arch_find(c->model_type))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: model_type '%.15s' is not supported; the supported types are %s", source,
                            c->model_type, model_arch_names(known));
    for (int i = 0; i < INT_KEYS; i++) {
        int64_t v = config_value_of(c, &int_keys[i]);
        if (v < int_keys[i].min || v > int_keys[i].max)
            return config_bad(err, source, "key '%s' is %lld; it must be from %lld to %lld", int_keys[i].name,
                              (long long)v, (long long)int_keys[i].min, (long long)int_keys[i].max);
    }
    if (c->num_attention_heads % c->num_key_value_heads != 0)
        return config_bad(err, source, "num_attention_heads (%lld) must be a multiple of num_key_value_heads (%lld)",
                          (long long)c->num_attention_heads, (long long)c->num_key_value_heads);
    if (c->head_dim % 2 != 0 && model_arch_of(c)->position == ARCH_ROPE)
        return config_bad(err, source, "head_dim is %lld; it must be even, because RoPE rotates pairs of elements",
                          (long long)c->head_dim);
    if (!config_name_in(model_arch_of(c), "head_dim") &&
        (c->num_key_value_heads != c->num_attention_heads || model_config_q(c) != c->hidden_size))
        return config_bad(err, source,
                          "a model of type %s must have as many key/value heads (%lld) as heads (%lld), and their "
                          "sizes (%lld each) must add up to the width (%lld)",
                          c->model_type, (long long)c->num_key_value_heads, (long long)c->num_attention_heads,
                          (long long)c->head_dim, (long long)c->hidden_size);
    if (model_config_q(c) > 1 << 20)
        return config_bad(err, source, "num_attention_heads * head_dim is %lld; the maximum is 1048576",
                          (long long)model_config_q(c));
    if (c->vocab_piece < 0 ||
        (c->vocab_piece > 0 && (c->vocab_size % c->vocab_piece || c->vocab_piece * c->hidden_size % 16)))
        return config_bad(err, source,
                          "pieces of %lld rows do not divide a head of %lld rows evenly into multiples of 64 bytes",
                          (long long)c->vocab_piece, (long long)c->vocab_size);
    if (!(c->rms_norm_eps >= 1e-12 && c->rms_norm_eps <= 0.1))
        return config_bad(err, source, "rms_norm_eps is %g; it must be from 1e-12 to 0.1", c->rms_norm_eps);
    for (int i = 0; i < REAL_KEYS; i++)
        if (!(config_real_of(c, i) >= 0 && config_real_of(c, i) <= 1e6))
            return config_bad(err, source, "%s is %g; it must be above 0 and at most 1e6", real_keys[i].name,
                              config_real_of(c, i));
    if (c->rotary_dim < 0 || c->rotary_dim > c->head_dim || c->rotary_dim % 2)
        return config_bad(err, source,
                          "RoPE rotates %lld of the %lld elements of a head; the number must be even and not larger",
                          (long long)c->rotary_dim, (long long)c->head_dim);
    PROPANE_TRY(config_rope_check(c, source, err));
    PROPANE_TRY(config_layers_check(c, source, err));
    PROPANE_TRY(config_experts_check(c, source, err));
    const int64_t ids[] = {c->bos_token_id, c->eos_token_id};
    const char *const id_names[] = {"bos_token_id", "eos_token_id"};
    for (int i = 0; i < 2; i++)
        if (ids[i] < -1 || ids[i] >= c->vocab_size)
            return config_bad(err, source, "%s is %lld; it must be below vocab_size (%lld)", id_names[i],
                              (long long)ids[i], (long long)c->vocab_size);
    return PROPANE_OK;
}

/* Returns a JSON scalar as a word: "silu", "true", "1", "0.5". */
static const char *config_word_of(const json_t *v, char out[60]) {
    if (json_is_string(v))
        snprintf(out, 60, "%.50s", json_string_value(v));
    else if (json_is_boolean(v))
        snprintf(out, 60, "%s", json_is_true(v) ? "true" : "false");
    else if (json_is_number(v))
        snprintf(out, 60, "%g", json_number_value(v));
    else
        snprintf(out, 60, "?");
    return out;
}

static propane_status config_meet_demand(const json_t *object, const model_arch *a, const arch_demand *d,
                                         const char *source, propane_error *err) {
    const json_t *v = json_object_get(object, d->key);
    size_t items = json_is_array(v) ? json_array_size(v) : 1;
    char word[60];
    if (!v || json_is_null(v)) return PROPANE_OK;
    for (size_t i = 0; i < items; i++) {
        config_word_of(json_is_array(v) ? json_array_get(v, i) : v, word);
        if (!words_have(d->words, ' ', word))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: %s is '%.40s'; with model_type %s only '%.*s' is supported", source, d->key, word,
                                a->type, (int)strcspn(d->words, " "), d->words);
    }
    return PROPANE_OK;
}

/* Refuses settings in config.json that this code does not support. */
static propane_status config_refuse_unsupported(const json_t *object, const model_arch *a, const char *source,
                                                propane_error *err) {
    const json_t *quantized = json_object_get(object, "quantization_config");
    for (const arch_demand *d = a->demands; d->key; d++) PROPANE_TRY(config_meet_demand(object, a, d, source, err));
    if (!quantized || json_is_null(quantized)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                        "%s: quantization_config is set; only models with F32, F16 or BF16 weights can be read",
                        source);
}

static bool config_uses(const model_arch *a, arch_when when) {
    for (const arch_tensor *row = a->tensors; row->name; row++)
        if (row->when == when) return true;
    return false;
}

/* Reads whether matrices have biases. If the architecture leaves no choice, the key is ignored, as in transformers. */
static propane_status config_read_bias(const json_t *object, const model_arch *a, const char *key, arch_when when,
                                       const char *source, bool *out, propane_error *err) {
    *out = false;
    return config_uses(a, when) ? json_get_bool(object, source, key, false, out, err) : PROPANE_OK;
}

/* Reads the keys that only some architectures have. */
static propane_status config_read_parts(const json_t *object, const model_arch *a, const char *source, model_config *c,
                                        propane_error *err) {
    double part = 1;
    const json_t *rope = json_object_get(object, "rope_parameters");
    for (int i = 0; a->factors && i < REAL_KEYS; i++)
        PROPANE_TRY(json_get_real(object, source, real_keys[i].name, false,
                                  (double *)(void *)((char *)c + real_keys[i].offset), err));
    PROPANE_TRY(config_layers_read(object, a, source, c, err));
    PROPANE_TRY(config_experts_read(object, a, source, c, err));
    if (!a->partial_rotary) return PROPANE_OK;
    PROPANE_TRY(json_get_real(object, source, "partial_rotary_factor", false, &part, err));
    if (json_is_object(rope)) PROPANE_TRY(json_get_real(rope, source, "partial_rotary_factor", false, &part, err));
    if (!(part > 0 && part <= 1))
        return config_bad(err, source, "partial_rotary_factor is %g; it must be above 0 and at most 1", part);
    c->rotary_dim = part < 1 ? (int64_t)((double)c->head_dim * part) : 0;
    return PROPANE_OK;
}

/* Reads a token id. eos_token_id may be a list, of which only the first item is used. */
static propane_status config_read_id(const json_t *object, const char *source, const char *key, int64_t *out,
                                     propane_error *err) {
    const json_t *v = json_object_get(object, key);
    if (json_is_array(v)) {
        v = json_array_get(v, 0);
        if (!json_is_integer(v)) return config_bad(err, source, "key '%s' must be an integer or a list of them", key);
        *out = json_integer_value(v);
        return PROPANE_OK;
    }
    return json_get_int(object, source, key, false, -1, 1 << 21, out, err);
}

static propane_status config_read_sizes(const json_t *object, const model_arch *a, const char *source, model_config *c,
                                        propane_error *err) {
    bool four = !model_arch_is_gated(a); /* without the key, the hidden size is four times the width */
    for (int i = 0; i < INT_KEYS; i++) {
        const char *name = config_name_in(a, int_keys[i].name);
        bool needed = int_keys[i].needed && !(four && strcmp(int_keys[i].name, "intermediate_size") == 0);
        if (name)
            PROPANE_TRY(json_get_int(object, source, name, needed, int_keys[i].min, int_keys[i].max,
                                     config_field(c, &int_keys[i]), err));
    }
    if (c->intermediate_size < 0) c->intermediate_size = 4 * c->hidden_size;
    if (c->num_key_value_heads < 0) c->num_key_value_heads = c->num_attention_heads;
    if (c->head_dim < 0 && a->head_dim > 0) c->head_dim = a->head_dim;
    if (c->head_dim > 0) return PROPANE_OK;
    if (c->hidden_size % c->num_attention_heads != 0)
        return config_bad(
            err, source, "hidden_size (%lld) must be a multiple of num_attention_heads (%lld), or head_dim must be set",
            (long long)c->hidden_size, (long long)c->num_attention_heads);
    c->head_dim = c->hidden_size / c->num_attention_heads;
    return PROPANE_OK;
}

propane_status model_config_from_json(const json_t *object, const char *source, model_config *out, propane_error *err) {
    const char *type = "llama";
    char known[ARCH_NAMES_LENGTH];
    PROPANE_TRY(json_get_text(object, source, "model_type", false, &type, err));
    const model_arch *a = model_arch_find(type);
    if (!a)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: model_type '%.40s' is not supported; the supported types are %s", source, type,
                            model_arch_names(known));
    model_config c;
    model_config_default(&c);
    snprintf(c.model_type, sizeof c.model_type, "%s", a->type);
    c.intermediate_size = c.num_key_value_heads = c.head_dim = -1;
    c.max_position_embeddings = a->positions;
    c.rms_norm_eps = a->norm_eps;
    c.tie_word_embeddings = a->tied;
    config_layers_default(a, &c);
    PROPANE_TRY(config_refuse_unsupported(object, a, source, err));
    PROPANE_TRY(config_read_sizes(object, a, source, &c, err));
    PROPANE_TRY(json_get_real(object, source, config_name_in(a, "rms_norm_eps"), false, &c.rms_norm_eps, err));
    if (a->position == ARCH_ROPE) PROPANE_TRY(config_rope_read(object, source, &c, err));
    PROPANE_TRY(config_read_parts(object, a, source, &c, err));
    PROPANE_TRY(config_read_bias(object, a, "attention_bias", ARCH_IF_ATTENTION_BIAS, source, &c.attention_bias, err));
    PROPANE_TRY(config_read_bias(object, a, "mlp_bias", ARCH_IF_MLP_BIAS, source, &c.mlp_bias, err));
    PROPANE_TRY(json_get_bool(object, source, "tie_word_embeddings", false, &c.tie_word_embeddings, err));
    PROPANE_TRY(config_read_id(object, source, "bos_token_id", &c.bos_token_id, err));
    PROPANE_TRY(config_read_id(object, source, "eos_token_id", &c.eos_token_id, err));
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

/* Converts an id to JSON. A missing id is written as null: transformers would otherwise use the architecture's default,
 * which belongs to another vocabulary. */
static json_t *config_id_to_json(int64_t id) { return id < 0 ? json_null() : json_integer(id); }

json_t *model_config_to_json(const model_config *c) {
    const model_arch *a = model_arch_of(c);
    json_t *o = json_object();
    json_put(o, "architectures", json_pack("[s]", a->class_name));
    json_put(o, "model_type", json_string(c->model_type));
    json_put(o, a->act_key, json_string(a->act));
    for (int i = 0; i < INT_KEYS; i++)
        if (config_name_in(a, int_keys[i].name))
            json_put(o, config_name_in(a, int_keys[i].name), json_integer(config_value_of(c, &int_keys[i])));
    json_put(o, config_name_in(a, "rms_norm_eps"), json_real(c->rms_norm_eps));
    if (a->position == ARCH_ROPE) json_put(o, "rope_theta", json_real(c->rope_theta));
    config_rope_write(c, o);
    for (int i = 0; a->factors && i < REAL_KEYS; i++)
        if (config_real_of(c, i) > 0) json_put(o, real_keys[i].name, json_real(config_real_of(c, i)));
    config_layers_write(c, o);
    config_experts_write(c, o);
    if (a->partial_rotary)
        json_put(o, "partial_rotary_factor", json_real((double)model_config_rotary(c) / (double)c->head_dim));
    if (config_uses(a, ARCH_IF_ATTENTION_BIAS)) json_put(o, "attention_bias", json_boolean(c->attention_bias));
    if (config_uses(a, ARCH_IF_MLP_BIAS)) json_put(o, "mlp_bias", json_boolean(c->mlp_bias));
    json_put(o, "tie_word_embeddings", json_boolean(c->tie_word_embeddings));
    json_put(o, "bos_token_id", config_id_to_json(c->bos_token_id));
    json_put(o, "eos_token_id", config_id_to_json(c->eos_token_id));
    json_put(o, "pad_token_id", json_null()); /* the default of transformers may exceed a small vocabulary */
    return o;
}

propane_status model_config_write(const model_config *c, const char *path, propane_error *err) {
    json_t *o = model_config_to_json(c);
    propane_status status = json_write(path, o, JSON_INDENT(2), err);
    json_decref(o);
    return status;
}

bool model_config_equal(const model_config *a, const model_config *b) {
    for (int i = 0; i < INT_KEYS; i++)
        if (config_value_of(a, &int_keys[i]) != config_value_of(b, &int_keys[i])) return false;
    return strcmp(a->model_type, b->model_type) == 0 && a->rms_norm_eps == b->rms_norm_eps && config_rope_equal(a, b) &&
           a->attention_bias == b->attention_bias && a->embedding_multiplier == b->embedding_multiplier &&
           a->residual_multiplier == b->residual_multiplier && a->attention_multiplier == b->attention_multiplier &&
           a->logits_scaling == b->logits_scaling && a->rotary_dim == b->rotary_dim && config_layers_equal(a, b) &&
           config_experts_equal(a, b) && a->mlp_bias == b->mlp_bias &&
           a->tie_word_embeddings == b->tie_word_embeddings && a->bos_token_id == b->bos_token_id &&
           a->eos_token_id == b->eos_token_id;
}
