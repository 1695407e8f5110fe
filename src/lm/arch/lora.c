/* SPDX-License-Identifier: MIT
 * Owns the choice of matrices that have an adapter, and their names. Matrices that files hold as one are adapted
 * together or not at all, because a file cannot express an adapter for only one of them.
 */
#include "lm/arch/lora.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/words.h"

double model_lora_scale(const model_lora *l) {
    return l->alpha / (l->rank_root ? sqrt((double)l->rank) : (double)l->rank);
}

/* Copies the item at `at` of a comma-separated list. Returns the start of the next item, or NULL after the last. */
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

/* ---- choosing ---------------------------------------------------------------------------------------------------------------- */

static bool lora_is_candidate(const model_config *c, const arch_tensor *row) {
    return (row->part == MODEL_ATTN || row->part == MODEL_FFN) && row->in != ARCH_1 && !row->experts &&
           row->role != ARCH_ROUTER && model_arch_held(c, row);
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

/* Returns the tensor's name in the files without its ending: "self_attn.q_proj", "attn.c_attn". */
static const char *lora_module_of(const arch_tensor *row, char out[100]) {
    const char *name = model_arch_stored(row);
    size_t length = strlen(name), tail = strlen(".weight");
    bool ends = length > tail && strcmp(name + length - tail, ".weight") == 0;
    snprintf(out, 100, "%.*s", (int)(ends ? length - tail : length), name);
    return out;
}

/* Returns the part of a module's name after its last dot: "q_proj" for "self_attn.q_proj". */
static const char *lora_last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Returns whether an item of the list matches a module. The item may be a pattern for the module or its last part, or a
 * longer name that ends with the module, as peft may write it. */
static bool lora_item_matches(const char *item, const char *module) {
    size_t n = strlen(module), m = strlen(item);
    if (words_match(item, lora_last_part(module)) || words_match(item, module)) return true;
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
    return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                        "the model's layers have no matrix '%.60s' to adapt; the matrices are %s", item, there);
}

/* Adds a module to l->modules under the last part of its name, or under its full name if a module that is not adapted
 * has the same last part. */
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
    for (const char *at = l->targets; at;) { /* in the order in which the modules were requested */
        at = lora_next_item(at, item);
        for (const arch_tensor *row = model_arch_of(c)->tensors; row->name; row++)
            if (lora_is_leader(c, row) && strcmp(row->param, item) == 0) lora_name_module(l, c, row);
    }
}

propane_status model_lora_choose(model_lora *l, const model_config *c, const char *targets, propane_error *err) {
    char item[100];
    if (l->rank < 1 || l->rank > 4096)
        return propane_fail(err, PROPANE_ERR_INVALID, "the adapter's rank is %lld; it must be 1 to 4096",
                            (long long)l->rank);
    if (!(l->alpha > 0) || !isfinite(l->alpha))
        return propane_fail(err, PROPANE_ERR_INVALID, "the adapter's alpha is %g; it must be positive", l->alpha);
    if (!(l->dropout >= 0 && l->dropout < 1))
        return propane_fail(err, PROPANE_ERR_INVALID, "the adapter's dropout is %g; it must be at least 0 and below 1",
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

/* ---- merging ------------------------------------------------------------------------------------------------------------------ */
