/* SPDX-License-Identifier: MIT
 * Owns adapters: which matrices have one, their tensors in the registry, merging. Everything that trains or runs sees them
 * as tensors like the others. Matrices that files hold as one are adapted together or not at all, because an adapter of one
 * of them would not be one in the file.
 */
#include "model/arch/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "model/arch/model_tensors.h"

enum { ALIGN_FLOATS = 16 };

double model_lora_scale(const model_lora *l) {
    return l->alpha / (l->rank_root ? sqrt((double)l->rank) : (double)l->rank);
}

/* The item of a list separated by commas that begins at `at`; returns where the next one begins, NULL behind the last. */
static const char *lora_next_item(const char *at, char out[100]) {
    size_t n = strcspn(at, ",");
    const char *next = at[n] ? at + n + 1 : NULL;
    while (n > 0 && *at == ' ') at++, n--;
    while (n > 0 && at[n - 1] == ' ') n--;
    snprintf(out, 100, "%.*s", (int)(n < 99 ? n : 99), at);
    return next;
}

static bool lora_is_listed(const char *list, const char *name) {
    char item[100];
    for (const char *at = list; at;) {
        at = lora_next_item(at, item);
        if (strcmp(item, name) == 0) return true;
    }
    return false;
}

bool model_lora_targets(const model_lora *l, const char *param) {
    return l->rank > 0 && lora_is_listed(l->targets, param);
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

bool model_name_listed(const char *list, const char *name) {
    char pattern[300];
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        bool free_ends = !memchr(at, '*', n);
        snprintf(pattern, sizeof pattern, "%s%.*s%s", free_ends ? "*" : "", (int)(n < 290 ? n : 290), at,
                 free_ends ? "*" : "");
        if (n > 0 && model_name_matches(pattern, name)) return true;
        at += n + (at[n] == ',');
    }
    return false;
}

bool model_lora_equal(const model_lora *a, const model_lora *b) {
    return a->rank == b->rank && model_lora_scale(a) == model_lora_scale(b) && strcmp(a->targets, b->targets) == 0;
}

/* ---- choosing ---------------------------------------------------------------------------------------------------------------- */

static bool lora_is_candidate(const model_config *c, const arch_tensor *row) {
    return (row->part == MODEL_ATTN || row->part == MODEL_FFN) && row->in != ARCH_1 && model_arch_held(c, row);
}

static bool lora_is_leader(const model_config *c, const arch_tensor *row) {
    return lora_is_candidate(c, row) && model_arch_leader(c, row) == row;
}

const char *model_lora_leader(const model_config *c, model_part part, const char *param) {
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        if (row->part == part && lora_is_candidate(c, row) && strcmp(row->param, param) == 0)
            return model_arch_leader(c, row)->param;
    return param;
}

/* "self_attn.q_proj", "attn.c_attn": the tensor's name in the files without its end. */
static const char *lora_module_of(const arch_tensor *row, char out[100]) {
    const char *name = model_arch_stored(row);
    size_t length = strlen(name), tail = strlen(".weight");
    bool ends = length > tail && strcmp(name + length - tail, ".weight") == 0;
    snprintf(out, 100, "%.*s", (int)(ends ? length - tail : length), name);
    return out;
}

/* The part of a module's name behind its last dot: "q_proj" of "self_attn.q_proj". */
static const char *lora_last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* A pattern of the module or of its last part; or a longer name that ends with the module, as peft may have it. */
static bool lora_item_matches(const char *item, const char *module) {
    size_t n = strlen(module), m = strlen(item);
    if (model_name_matches(item, lora_last_part(module)) || model_name_matches(item, module)) return true;
    return m > n && item[m - n - 1] == '.' && strcmp(item + m - n, module) == 0;
}

static void lora_append(char *list, size_t room, const char *separator, const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, room - used, "%s%s", used ? separator : "", name);
}

static propane_status lora_choose_item(model_lora *l, const model_config *c, const char *item, propane_error *err) {
    char there[200] = "", known[200] = "", module[100];
    const arch_tensor *tensors = model_arch_of(c)->tensors;
    bool found = false, all = strcmp(item, "all") == 0 || strcmp(item, "all-linear") == 0;
    for (const arch_tensor *leader = tensors; leader->name; leader++) {
        if (!lora_is_leader(c, leader)) continue;
        const char *last = lora_last_part(lora_module_of(leader, module));
        if (!lora_is_listed(known, last)) {
            lora_append(known, sizeof known, ",", last);
            lora_append(there, sizeof there, ", ", last);
        }
        if (!all && !lora_item_matches(item, module)) continue;
        found = true;
        for (const arch_tensor *row = leader; row->name; row++)
            if (lora_is_candidate(c, row) && row->part == leader->part && model_arch_leader(c, row) == leader &&
                !model_lora_targets(l, row->param))
                lora_append(l->targets, sizeof l->targets, ",", row->param);
    }
    if (found) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "the model's layers have no matrix '%.60s' to adapt; they have %s",
                        item, there);
}

/* A module is called by the last part of its name, unless another one that is not adapted ends with it, too. */
static void lora_name_module(model_lora *l, const model_config *c, const arch_tensor *leader) {
    char module[100], other[100];
    const char *name = lora_last_part(lora_module_of(leader, module));
    for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
        if (lora_is_leader(c, row) && !model_lora_targets(l, row->param) &&
            strcmp(lora_last_part(lora_module_of(row, other)), name) == 0)
            name = module;
    if (!lora_is_listed(l->modules, name)) lora_append(l->modules, sizeof l->modules, ",", name);
}

static void lora_name_modules(model_lora *l, const model_config *c) {
    char item[100];
    l->modules[0] = 0;
    for (const char *at = l->targets; at;) { /* in the order in which they were asked for */
        at = lora_next_item(at, item);
        for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
            if (lora_is_leader(c, row) && strcmp(row->param, item) == 0) lora_name_module(l, c, row);
    }
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
    for (const char *at = *targets ? targets : model_arch_of(c)->adapted; at;) {
        at = lora_next_item(at, item);
        PROPANE_TRY(lora_choose_item(l, c, item, err));
    }
    lora_name_modules(l, c);
    return PROPANE_OK;
}

/* ---- tensors ------------------------------------------------------------------------------------------------------------------ */

/* "model.layers.0.self_attn.q_proj.weight" -> "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" */
static const char *lora_adapter_name(arena *a, const char *name, char kind) {
    size_t length = strlen(name), tail = strlen(".weight");
    if (length > tail && strcmp(name + length - tail, ".weight") == 0) length -= tail;
    return arena_printf(a, "base_model.model.%.*s.lora_%c.weight", (int)length, name, kind);
}

static bool lora_add(model_weights *w, const model_tensor *base, char kind, int64_t out, int64_t in) {
    model_tensor *t = &w->tensors[model_weights_total(w)];
    *t = (model_tensor){.part = base->part, .layer = base->layer, .decay = true, .role = ARCH_MATRIX, .rank = 2};
    t->name = lora_adapter_name(w->arena, base->name, kind);
    t->stored = t->gguf = lora_adapter_name(w->arena, base->stored, kind);
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
    return t->name && t->stored && t->param;
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

/* ---- merging ------------------------------------------------------------------------------------------------------------------ */

typedef struct merge_context {
    float *target;
    const float *a, *b;
    int64_t in, rank;
    float scale;
} merge_context;

/* One row of the matrix: sums over the rank in one order, whatever the threads. */
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
