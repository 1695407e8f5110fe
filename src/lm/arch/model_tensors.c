/* SPDX-License-Identifier: MIT
 * Owns the list of a model's tensors, made from its architecture's rows. Offsets are running sums.
 */
#include "lm/arch/model_tensors.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"

enum { ALIGN_FLOATS = 16 };

static const char *tensors_full_name(arena *a, const char *prefix, int layer, const char *name) {
    return layer < 0 ? name : arena_printf(a, "%s%d.%s", prefix, layer, name);
}

/* Counts the rows of the stored tensor: the rows before this tensor's rows, and all rows. */
static void tensors_place_rows(const model_config *c, const arch_tensor *row, model_tensor *t) {
    for (const arch_tensor *r = model_arch_of(c)->tensors; r->name; r++) {
        if (r->part != row->part || !model_arch_held(c, r) || strcmp(model_arch_stored(r), model_arch_stored(row)) != 0)
            continue;
        if (r < row) t->first_row += model_arch_size(c, r->out);
        t->stored_rows += model_arch_size(c, r->out);
    }
}

/* Returns the number of tensors of a row. The output head, and an embedding that is also the head, may be split into
 * several. */
static int64_t tensors_pieces_of(const model_config *c, const arch_tensor *row) {
    bool head = row->out == ARCH_V && (row->part == MODEL_HEAD || c->tie_word_embeddings);
    return head && c->vocab_piece > 0 ? c->vocab_size / c->vocab_piece : 1;
}

/* Adds one tensor. Returns false if there is no memory for its names. */
static bool tensors_add(model_weights *w, const arch_tensor *row, int layer, int64_t piece) {
    const model_config *c = &w->config;
    const model_arch *a = model_arch_of(c);
    model_tensor *t = &w->tensors[w->count++];
    t->name = tensors_full_name(w->arena, a->layers, layer, row->name);
    t->stored = row->stored ? tensors_full_name(w->arena, a->layers, layer, row->stored) : t->name;
    t->gguf = tensors_full_name(w->arena, "blk.", layer, row->gguf);
    t->param = row->param;
    t->part = row->part;
    t->layer = layer;
    t->role = row->role;
    t->rank = row->in == ARCH_1 ? 1 : 2;
    t->decay = t->rank == 2;
    t->dim[0] = model_arch_size(c, row->out);
    t->dim[1] = model_arch_size(c, row->in);
    t->transposed = row->transposed;
    t->less_one = row->less_one;
    t->experts = row->experts ? c->num_experts : 0;
    tensors_place_rows(c, row, t);
    if (tensors_pieces_of(c, row) > 1) {
        t->name = arena_printf(w->arena, "%s[%lld]", row->name, (long long)piece);
        t->dim[0] = c->vocab_piece;
        t->first_row = piece * c->vocab_piece;
    }
    t->count = t->dim[0] * t->dim[1];
    t->offset = w->floats;
    w->floats += (t->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    w->parameters += t->count;
    return t->name && t->stored && t->gguf;
}

static bool tensors_add_part(model_weights *w, model_part part, int layer) {
    bool ok = true;
    for (const arch_tensor *row = model_arch_of(&w->config)->tensors; row->name; row++)
        for (int64_t i = 0;
             row->part == part && model_arch_held(&w->config, row) && i < tensors_pieces_of(&w->config, row); i++)
            ok &= tensors_add(w, row, layer, i);
    return ok;
}

static bool tensors_add_all(model_weights *w) {
    bool ok = tensors_add_part(w, MODEL_EMBED, -1);
    for (int layer = 0; layer < w->config.num_hidden_layers; layer++) {
        ok &= tensors_add_part(w, MODEL_ATTN, layer);
        ok &= tensors_add_part(w, MODEL_FFN, layer);
    }
    return ok & tensors_add_part(w, MODEL_HEAD, -1);
}

int64_t model_weights_pieces(const model_config *c) { return c->vocab_piece > 0 ? c->vocab_size / c->vocab_piece : 1; }

static int64_t tensors_count_tensors(const model_config *c) {
    int64_t n = 0;
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        n += row->part == MODEL_ATTN || row->part == MODEL_FFN ? c->num_hidden_layers : tensors_pieces_of(c, row);
    return n;
}

propane_status model_weights_declare(const model_config *config, model_weights **out, propane_error *err) {
    *out = NULL;
    PROPANE_TRY(model_config_check(config, "model configuration", err));
    model_weights *w = mem_alloc(sizeof *w);
    if (!w) return propane_fail_memory(err, sizeof *w);
    w->config = *config;
    w->arena = arena_create();
    int64_t most = tensors_count_tensors(config);
    if (w->arena) w->tensors = ARENA_ARRAY(w->arena, most, model_tensor);
    if (!w->tensors || !tensors_add_all(w)) {
        model_weights_free(w);
        return propane_fail_memory(err, (size_t)most * sizeof(model_tensor));
    }
    *out = w;
    return PROPANE_OK;
}

propane_status model_weights_create(const model_config *config, model_weights **out, propane_error *err) {
    model_weights *w;
    *out = NULL;
    PROPANE_TRY(model_weights_declare(config, &w, err));
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
    mem_pages_free(w->stored, w->stored_bytes);
    if (w->adapter_data) mem_pages_free(w->adapter_data, (size_t)w->adapter_floats * sizeof(float));
    arena_free(w->arena);
    mem_free(w);
}

void model_weights_init(model_weights *w, uint64_t seed, double deviation) {
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        float *data = w->data + t->offset;
        if (t->rank == 1) {
            for (int64_t k = 0; k < t->count; k++) data[k] = t->role == ARCH_SCALE ? 1 : 0;
            continue;
        }
        double sigma = deviation > 0 ? deviation : t->role == ARCH_TABLE ? 0.02 : 1 / sqrt((double)t->dim[1]);
        if (t->role == ARCH_RESIDUAL) sigma /= sqrt(2.0 * (double)w->config.num_hidden_layers);
        rng mixed, r;
        rng_init(&mixed, seed);
        rng_init(&r, rng_next(&mixed) + (uint64_t)i);
        for (int64_t k = 0; k < t->count; k++) data[k] = (float)(sigma * rng_normal(&r));
    }
}

const model_tensor *model_weights_find(const model_weights *w, const char *name) {
    for (int i = 0; i < model_weights_total(w); i++)
        if (strcmp(w->tensors[i].name, name) == 0) return &w->tensors[i];
    return NULL;
}

const model_tensor *model_weights_param(const model_weights *w, model_part part, int layer, const char *param) {
    if (part == MODEL_HEAD && w->config.tie_word_embeddings && strcmp(param, "lm_head") == 0) return &w->tensors[0];
    for (int i = 0; i < model_weights_total(w); i++) {
        const model_tensor *t = &w->tensors[i];
        if (t->part == part && t->layer == (t->part == MODEL_EMBED || t->part == MODEL_HEAD ? -1 : layer) &&
            strcmp(t->param, param) == 0)
            return t;
    }
    return NULL;
}

model_expert model_tensor_expert(const model_tensor *t, int64_t expert) {
    if (t->role == ARCH_RESIDUAL)
        return (model_expert){t->dim[0], t->dim[1] / t->experts, expert * (t->dim[1] / t->experts)};
    return (model_expert){t->dim[0] / t->experts, t->dim[1], expert * (t->dim[0] / t->experts) * t->dim[1]};
}

const model_tensor *model_weights_piece(const model_weights *w, const model_tensor *t, int k) {
    for (int i = 0; i < model_weights_total(w); i++)
        if (w->tensors[i].layer == t->layer && strcmp(w->tensors[i].stored, t->stored) == 0 && k-- == 0)
            return &w->tensors[i];
    return NULL;
}

float *model_weights_data(const model_weights *w, const model_tensor *t) {
    if (t - w->tensors >= w->count) return w->adapter_data + t->offset;
    if (w->data) return w->data + t->offset;
    return t->form == MODEL_UNPACKED ? (float *)(void *)(w->stored + t->place) : NULL;
}
