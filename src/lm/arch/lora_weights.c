/* SPDX-License-Identifier: MIT
 * Owns adapters as tensors: their registration after the model's own tensors, their initialisation, and their merge
 * into the matrices.
 */
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "lm/arch/lora.h"
#include "lm/arch/model_tensors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ALIGN_FLOATS = 16 };

/* "model.layers.0.self_attn.q_proj.weight" -> "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
static const char *lora_adapter_name(arena *a, const char *name, char kind) {
    size_t length = strlen(name), tail = strlen(".weight");
    if (length > tail && strcmp(name + length - tail, ".weight") == 0) length -= tail;
    return arena_printf(a, "base_model.model.%.*s.lora_%c.weight", (int)length, name, kind);
}

/* Returns llama.cpp's name: "blk.0.attn_q.weight.lora_a". */
static const char *lora_gguf_name(arena *a, const char *name, char kind) {
    return arena_printf(a, "%s.lora_%c", name, kind == 'A' ? 'a' : 'b');
}

static bool lora_add(model_weights *w, const model_tensor *base, char kind, int64_t out, int64_t in) {
    model_tensor *t = &w->tensors[model_weights_total(w)];
    *t = (model_tensor){.part = base->part, .layer = base->layer, .decay = true, .role = ARCH_MATRIX, .rank = 2};
    t->name = lora_adapter_name(w->arena, base->name, kind);
    t->stored = lora_adapter_name(w->arena, base->stored, kind);
    t->gguf = lora_gguf_name(w->arena, base->gguf, kind);
    t->param = arena_printf(w->arena, "%s_lora_%c", base->param, kind == 'A' ? 'a' : 'b');
    t->dim[0] = t->stored_rows = out;
    t->dim[1] = in;
    if (kind == 'B') {
        t->stored_rows = base->stored_rows;
        t->first_row = base->first_row;
    }
    t->count = out * in;
    t->offset = w->adapter_floats;
    w->adapter_floats += (t->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    w->adapter_parameters += t->count;
    w->adapter_count++;
    return t->name && t->stored && t->gguf && t->param;
}

static void lora_drop_adapters(model_weights *w) {
    if (w->adapter_data) mem_pages_free(w->adapter_data, (size_t)w->adapter_floats * sizeof(float));
    w->adapter_data = NULL;
    w->adapter_count = 0;
    w->adapter_floats = w->adapter_parameters = 0;
    w->lora = (model_lora){0};
}

propane_status model_weights_add_lora(model_weights *w, const model_lora *l, propane_error *err) {
    model_tensor *more = ARENA_ARRAY(w->arena, 3 * (int64_t)w->count, model_tensor);
    if (!more) return propane_fail_memory(err, 3 * (size_t)w->count * sizeof *more);
    memcpy(more, w->tensors, (size_t)w->count * sizeof *more);
    w->tensors = more;
    w->lora = *l;
    bool ok = true;
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        if (t->layer < 0 || t->rank != 2 || !model_lora_targets(l, t->param)) continue;
        if (t->first_row == 0) ok &= lora_add(w, t, 'A', l->rank, t->dim[1]);
        ok &= lora_add(w, t, 'B', t->dim[0], l->rank);
    }
    size_t bytes = (size_t)w->adapter_floats * sizeof(float);
    if (ok) w->adapter_data = mem_pages_alloc(bytes);
    if (w->adapter_data) return PROPANE_OK;
    lora_drop_adapters(w);
    return propane_fail_memory(err, bytes);
}

void model_lora_init(model_weights *w, uint64_t seed) {
    for (int i = w->count; i < model_weights_total(w); i++) {
        const model_tensor *t = &w->tensors[i];
        float *data = model_weights_data(w, t);
        size_t length = strlen(t->param);
        rng mixed, r;
        rng_init(&mixed, seed);
        rng_init(&r, rng_next(&mixed) + (uint64_t)i);
        double bound = 1 / sqrt((double)t->dim[1]);
        for (int64_t k = 0; k < t->count; k++)
            data[k] = t->param[length - 1] == 'a' ? (float)((2 * rng_unit(&r) - 1) * bound) : 0;
    }
}

typedef struct merge_context {
    float *target;
    const float *a, *b;
    int64_t in, rank;
    float scale;
} merge_context;

/* Merges one row of the matrix. The sums over the rank have a fixed order that does not depend on the number of
 * threads. */
static void lora_merge_row(void *context, int task, int worker) {
    (void)worker;
    const merge_context *c = context;
    float *row = c->target + task * c->in;
    for (int64_t r = 0; r < c->rank; r++) {
        float factor = c->scale * c->b[task * c->rank + r];
        const float *from = c->a + r * c->in;
        for (int64_t i = 0; i < c->in; i++) row[i] += factor * from[i];
    }
}

propane_status model_lora_merge(model_weights *w, propane_error *err) {
    char name[100];
    for (int i = 0; i < w->count && w->lora.rank > 0; i++) {
        const model_tensor *t = &w->tensors[i];
        if (t->layer < 0 || t->rank != 2 || !model_lora_targets(&w->lora, t->param)) continue;
        snprintf(name, sizeof name, "%s_lora_a", model_lora_leader(&w->config, t->part, t->param));
        const model_tensor *a = model_weights_param(w, t->part, t->layer, name);
        snprintf(name, sizeof name, "%s_lora_b", t->param);
        const model_tensor *b = model_weights_param(w, t->part, t->layer, name);
        if (!a || !b) return propane_fail(err, PROPANE_ERR_INVALID, "there is no adapter of '%s'", t->name);
        merge_context c = {.target = model_weights_data(w, t),
                           .a = model_weights_data(w, a),
                           .b = model_weights_data(w, b),
                           .in = t->dim[1],
                           .rank = w->lora.rank,
                           .scale = (float)model_lora_scale(&w->lora)};
        pool_run(lora_merge_row, &c, (int)t->dim[0]);
    }
    lora_drop_adapters(w);
    return PROPANE_OK;
}
