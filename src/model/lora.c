/* SPDX-License-Identifier: MIT
 * Owns adapters: which matrices have one, their tensors in the registry, merging. Everything that trains or runs sees them
 * as tensors like the others. Refuses matrices that files hold together with others, because then an adapter of one of
 * them would not be one in the file.
 */
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/weights.h"

enum { ALIGN_FLOATS = 16 };

double model_lora_scale(const model_lora *l) {
    return l->alpha / (l->rank_root ? sqrt((double)l->rank) : (double)l->rank);
}

/* The item of a list separated by commas that begins at `at`; returns where the next one begins, NULL behind the last. */
static const char *next_item(const char *at, char out[100]) {
    size_t n = strcspn(at, ",");
    const char *next = at[n] ? at + n + 1 : NULL;
    while (n > 0 && *at == ' ') at++, n--;
    while (n > 0 && at[n - 1] == ' ') n--;
    snprintf(out, 100, "%.*s", (int)(n < 99 ? n : 99), at);
    return next;
}

bool model_lora_targets(const model_lora *l, const char *param) {
    char item[100];
    for (const char *at = l->rank > 0 ? l->targets : NULL; at;) {
        at = next_item(at, item);
        if (strcmp(item, param) == 0) return true;
    }
    return false;
}

bool model_name_matches(const char *pattern, const char *name) {
    const char *star = NULL, *held = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            held = name;
        } else if (*pattern == *name) {
            pattern++, name++;
        } else if (star) {
            pattern = star + 1;
            name = ++held;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

bool model_lora_equal(const model_lora *a, const model_lora *b) {
    return a->rank == b->rank && model_lora_scale(a) == model_lora_scale(b) && strcmp(a->targets, b->targets) == 0;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------------------- */

static bool is_candidate(const model_config *c, const arch_tensor *row) {
    return (row->part == MODEL_ATTN || row->part == MODEL_FFN) && row->in != ARCH_1 && model_arch_held(c, row);
}

/* The part of a module's name behind its last dot: "q_proj" of "self_attn.q_proj". */
static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

static propane_status choose_item(model_lora *l, const model_config *c, const char *item, propane_error *err) {
    char there[200] = "";
    bool found = false, all = strcmp(item, "all") == 0 || strcmp(item, "all-linear") == 0;
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++) {
        if (!is_candidate(c, row)) continue;
        size_t used = strlen(there);
        snprintf(there + used, sizeof there - used, "%s%s", used ? ", " : "", row->param);
        if (!all && !model_name_matches(last_part(item), row->param)) continue;
        found = true;
        if (row->stored || row->transposed)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "adapters of %s are not supported: the architecture's files hold '%s' in another form",
                                model_arch_of(c)->type, row->param);
        if (model_lora_targets(l, row->param)) continue;
        used = strlen(l->targets);
        snprintf(l->targets + used, sizeof l->targets - used, "%s%s", used ? "," : "", row->param);
    }
    if (found) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "the model's layers have no matrix '%.60s' to adapt; they have %s",
                        item, there);
}

propane_status model_lora_choose(model_lora *l, const model_config *c, const char *targets, propane_error *err) {
    char item[100];
    if (l->rank < 1 || l->rank > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "an adapter's rank is %lld; it must be 1 to 4096",
                            (long long)l->rank);
    if (!(l->alpha > 0) || !isfinite(l->alpha))
        return propane_fail(err, PROPANE_ERR_INVALID, "an adapter's alpha is %g; it must be positive", l->alpha);
    if (!(l->dropout >= 0 && l->dropout < 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "an adapter's dropout is %g; it must be at least 0 and below 1",
                            l->dropout);
    l->targets[0] = 0;
    for (const char *at = targets; at;) {
        at = next_item(at, item);
        PROPANE_TRY(choose_item(l, c, item, err));
    }
    return PROPANE_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------------ */

/* "model.layers.0.self_attn.q_proj.weight" -> "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
static const char *adapter_name(arena *a, const char *name, char kind) {
    size_t length = strlen(name), tail = strlen(".weight");
    if (length > tail && strcmp(name + length - tail, ".weight") == 0) length -= tail;
    return arena_printf(a, "base_model.model.%.*s.lora_%c.weight", (int)length, name, kind);
}

static bool add(model_weights *w, const model_tensor *base, char kind, int64_t out, int64_t in) {
    model_tensor *t = &w->tensors[model_weights_total(w)];
    *t = (model_tensor){.part = base->part, .layer = base->layer, .decay = true, .role = ARCH_MATRIX, .rank = 2};
    t->name = t->stored = t->gguf = adapter_name(w->arena, base->name, kind);
    t->param = arena_printf(w->arena, "%s_lora_%c", base->param, kind == 'A' ? 'a' : 'b');
    t->dim[0] = t->stored_rows = out;
    t->dim[1] = in;
    t->count = out * in;
    t->offset = w->adapter_floats;
    w->adapter_floats += (t->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    w->adapter_parameters += t->count;
    w->adapter_count++;
    return t->name && t->param;
}

static void drop_adapters(model_weights *w) {
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
        ok &= add(w, t, 'A', l->rank, t->dim[1]);
        ok &= add(w, t, 'B', t->dim[0], l->rank);
    }
    size_t bytes = (size_t)w->adapter_floats * sizeof(float);
    if (ok) w->adapter_data = mem_pages_alloc(bytes);
    if (w->adapter_data) return PROPANE_OK;
    drop_adapters(w);
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

/* ---- merging ------------------------------------------------------------------------------------------------------------------ */

typedef struct merge_context {
    float *target;
    const float *a, *b;
    int64_t in, rank;
    float scale;
} merge_context;

/* One row of the matrix: sums over the rank in one order, whatever the threads. */
static void merge_row(void *context, int task, int worker) {
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
        snprintf(name, sizeof name, "%s_lora_a", t->param);
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
        pool_run(merge_row, &c, (int)t->dim[0]);
    }
    drop_adapters(w);
    return PROPANE_OK;
}
