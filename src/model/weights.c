/* SPDX-License-Identifier: MIT
 * Owns the list of a Llama's tensors. One table per part says everything about them; offsets are running sums.
 */
#include "model/weights.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"

/* Sizes by what they stand for, so that the rows below need no code. */
typedef enum size_of { SIZE_ONE, SIZE_D, SIZE_H, SIZE_Q, SIZE_KV, SIZE_V } size_of;

typedef struct row {
    model_part part;
    const char *param, *name; /* name: inside a layer for MODEL_ATTN and MODEL_FFN, whole otherwise */
    size_of out, in;          /* in = SIZE_ONE: a norm weight */
    bool residual;            /* its result is added to the residual stream */
} row;

static const row embed_row = {MODEL_EMBED, "embed_tokens", "model.embed_tokens.weight", SIZE_V, SIZE_D, false};
static const row layer_rows[] = {
    {MODEL_ATTN, "norm_weight", "input_layernorm.weight", SIZE_D, SIZE_ONE, false},
    {MODEL_ATTN, "q_proj", "self_attn.q_proj.weight", SIZE_Q, SIZE_D, false},
    {MODEL_ATTN, "k_proj", "self_attn.k_proj.weight", SIZE_KV, SIZE_D, false},
    {MODEL_ATTN, "v_proj", "self_attn.v_proj.weight", SIZE_KV, SIZE_D, false},
    {MODEL_ATTN, "o_proj", "self_attn.o_proj.weight", SIZE_D, SIZE_Q, true},
    {MODEL_FFN, "norm_weight", "post_attention_layernorm.weight", SIZE_D, SIZE_ONE, false},
    {MODEL_FFN, "gate_proj", "mlp.gate_proj.weight", SIZE_H, SIZE_D, false},
    {MODEL_FFN, "up_proj", "mlp.up_proj.weight", SIZE_H, SIZE_D, false},
    {MODEL_FFN, "down_proj", "mlp.down_proj.weight", SIZE_D, SIZE_H, true},
};
static const row norm_row = {MODEL_HEAD, "norm_weight", "model.norm.weight", SIZE_D, SIZE_ONE, false};
static const row head_row = {MODEL_HEAD, "lm_head", "lm_head.weight", SIZE_V, SIZE_D, false};

enum { LAYER_ROWS = sizeof layer_rows / sizeof layer_rows[0], ALIGN_FLOATS = 16 };

static int64_t size_in(const model_config *c, size_of size) {
    const int64_t sizes[] = {
        1, c->hidden_size, c->intermediate_size, model_config_q(c), model_config_kv(c), c->vocab_size};
    return sizes[size];
}

/* False: no memory for the name. */
static bool add(model_weights *w, const row *r, int layer) {
    model_tensor *t = &w->tensors[w->count++];
    t->name = layer < 0 ? r->name : arena_printf(w->arena, "model.layers.%d.%s", layer, r->name);
    t->param = r->param;
    t->part = r->part;
    t->layer = layer;
    t->rank = r->in == SIZE_ONE ? 1 : 2;
    t->decay = t->rank == 2;
    t->dim[0] = size_in(&w->config, r->out);
    t->dim[1] = size_in(&w->config, r->in);
    t->count = t->dim[0] * t->dim[1];
    t->offset = w->floats;
    w->floats += (t->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    w->parameters += t->count;
    return t->name != NULL;
}

static bool add_all(model_weights *w) {
    bool ok = add(w, &embed_row, -1);
    for (int layer = 0; layer < w->config.num_hidden_layers; layer++)
        for (int i = 0; i < LAYER_ROWS; i++) ok &= add(w, &layer_rows[i], layer);
    ok &= add(w, &norm_row, -1);
    if (!w->config.tie_word_embeddings) ok &= add(w, &head_row, -1);
    return ok;
}

propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(model_config_check(config, "model configuration", err));
    model_weights *w = mem_alloc(sizeof *w);
    if (!w) return propane_fail_memory(err, sizeof *w);
    w->config = *config;
    w->arena = arena_create();
    int64_t most = 3 + config->num_hidden_layers * LAYER_ROWS;
    if (w->arena) w->tensors = ARENA_ARRAY(w->arena, most, model_tensor);
    if (!w->tensors || !add_all(w)) {
        model_weights_free(w);
        return propane_fail_memory(err, (size_t)most * sizeof(model_tensor));
    }
    w->data = mem_pages_alloc((size_t)w->floats * sizeof(float));
    if (!w->data) {
        propane_status status = propane_fail_memory(err, (size_t)w->floats * sizeof(float));
        model_weights_free(w);
        return status;
    }
    *out = w;
    return PROPANE_OK;
}

void model_weights_free(model_weights *w) {
    if (!w) return;
    mem_pages_free(w->data, (size_t)w->floats * sizeof(float));
    arena_free(w->arena);
    mem_free(w);
}

static bool adds_to_residual(const model_tensor *t) {
    for (int i = 0; i < LAYER_ROWS; i++)
        if (layer_rows[i].part == t->part && strcmp(layer_rows[i].param, t->param) == 0) return layer_rows[i].residual;
    return false;
}

void model_weights_init(model_weights *w, uint64_t seed, double deviation) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        float *data = w->data + t->offset;
        if (t->rank == 1) {
            for (int64_t k = 0; k < t->count; k++) data[k] = 1;
            continue;
        }
        double sigma = deviation > 0 ? deviation : t->part == MODEL_EMBED ? 0.02 : 1 / sqrt((double)t->dim[1]);
        if (adds_to_residual(t)) sigma /= sqrt(2.0 * (double)w->config.num_hidden_layers);
        rng mixed, r;
        rng_init(&mixed, seed);
        rng_init(&r, rng_next(&mixed) + (uint64_t)i);
        for (int64_t k = 0; k < t->count; k++) data[k] = (float)(sigma * rng_normal(&r));
    }
}

const model_tensor *model_weights_find(const model_weights *w, const char *name) {
    for (int i = 0; i < w->count; i++)
        if (strcmp(w->tensors[i].name, name) == 0) return &w->tensors[i];
    return NULL;
}

const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param) {
    if (part == MODEL_HEAD && w->config.tie_word_embeddings && strcmp(param, "lm_head") == 0) return &w->tensors[0];
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        if (t->part == part && t->layer == (t->part == MODEL_EMBED || t->part == MODEL_HEAD ? -1 : layer) &&
            strcmp(t->param, param) == 0)
            return t;
    }
    return NULL;
}

float *model_weights_data(const model_weights *w, const model_tensor *t) { return w->data + t->offset; }
