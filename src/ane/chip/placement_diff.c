/* SPDX-License-Identifier: MIT
 * Owns the pairing of a plan's rows with a function's operations, and the printing of differences.
 */
#include "ane/chip/placement_diff.h"

#include <ctype.h>
#include <string.h>

#include "ane/chip/check_report.h"
#include "core/base/arena.h"
#include "core/base/map.h"
#include "core/base/memory.h"
#include "core/base/text.h"

/* ---- pairing ---------------------------------------------------------------------------------------------------------------- */

static bool placement_is_planned(const mil_op *op) { return op->info->code != MIL_OP_const && !mil_op_compressed(op); }

static bool placement_is_about(const compute_row *row, const mil_function *f) {
    return !row->function || strcmp(row->function, f->name) == 0;
}

/* Finds rows by operation and name, rows of one kind of operation by order, and findings by operation and name. No
 * lookup searches all rows, because plans come from strangers and may be large. */
typedef struct placement_index {
    arena *keys;
    piece_map rows, findings; /* from a key to the first number of its chain */
    int *next_row, *last_row; /* a name's number is COMPUTE_NAMES * row + name; -1 ends a chain */
    int *next_finding, *last_finding;
    int *ordered, first[MIL_OP_COUNT + 1]; /* the rows of kind k: ordered[first[k]] and those before first[k + 1] */
    bool failed;                           /* memory ran out for a key */
} placement_index;

/* Returns the key of an operation and a name. Core ML's compiler replaces characters of a name that are neither letters
 * nor digits by underscores, and the key does, too. */
static const char *placement_key(arena *a, const char *op, const char *name) {
    char *key = arena_printf(a, "%s %s", op, name);
    for (char *c = key ? key + strlen(op) + 1 : NULL; c && *c; c++)
        if (!isalnum((unsigned char)*c)) *c = '_';
    return key;
}

/* Adds a number at the end of its key's chain. Returns false if memory runs out. */
static bool placement_enter(piece_map *m, const char *key, int number, int *next, int *last) {
    int32_t *first = key ? piece_map_enter(m, key, strlen(key), -1) : NULL;
    if (!first) return false;
    if (*first < 0)
        *first = number;
    else
        next[last[*first]] = number;
    next[number] = -1;
    last[*first] = number;
    return true;
}

static bool placement_index_rows(placement_index *x, const compute_plan *p, const mil_function *f) {
    bool good = true;
    for (int k = 0; k < p->count && good; k++)
        for (int i = 0; i < p->rows[k].name_count && good; i++)
            good = !placement_is_about(&p->rows[k], f) ||
                   placement_enter(&x->rows, placement_key(x->keys, p->rows[k].op, p->rows[k].names[i]),
                                   COMPUTE_NAMES * k + i, x->next_row, x->last_row);
    return good;
}

static int placement_kind(const compute_row *row, const mil_function *f) {
    const mil_op_info *info = placement_is_about(row, f) ? mil_op_find(row->op, strlen(row->op)) : NULL;
    return info && strcmp(info->name, row->op) == 0 ? (int)info->code : -1;
}

static void placement_index_kinds(placement_index *x, const compute_plan *p, const mil_function *f) {
    int used[MIL_OP_COUNT] = {0};
    for (int k = 0; k < p->count; k++) {
        const int kind = placement_kind(&p->rows[k], f);
        if (kind >= 0) x->first[kind + 1]++;
    }
    for (int kind = 0; kind < MIL_OP_COUNT; kind++) x->first[kind + 1] += x->first[kind];
    for (int k = 0; k < p->count; k++) {
        const int kind = placement_kind(&p->rows[k], f);
        if (kind >= 0) x->ordered[x->first[kind] + used[kind]++] = k;
    }
}

static bool placement_index_findings(placement_index *x, const chip_report *r) {
    bool good = true;
    for (int i = 0; i < chip_report_count(r) && good; i++) {
        const chip_finding *f = chip_report_get(r, i);
        if (f->op && f->name && (f->fell || f->refused))
            good = placement_enter(&x->findings, arena_printf(x->keys, "%s %s", f->op, f->name), i, x->next_finding,
                                   x->last_finding);
    }
    return good;
}

static void placement_index_deinit(placement_index *x) {
    piece_map_deinit(&x->rows);
    piece_map_deinit(&x->findings);
    mem_free(x->next_row);
    mem_free(x->last_row);
    mem_free(x->next_finding);
    mem_free(x->last_finding);
    mem_free(x->ordered);
    arena_free(x->keys);
}

static propane_status placement_index_init(placement_index *x, const compute_plan *p, const mil_function *f,
                                           const chip_report *r, propane_error *err) {
    const size_t names = (size_t)p->count * COMPUTE_NAMES + 1, findings = (size_t)chip_report_count(r) + 1;
    *x = (placement_index){.keys = arena_create(),
                           .next_row = mem_array(names, sizeof(int)),
                           .last_row = mem_array(names, sizeof(int)),
                           .next_finding = mem_array(findings, sizeof(int)),
                           .last_finding = mem_array(findings, sizeof(int)),
                           .ordered = mem_array((size_t)p->count + 1, sizeof(int))};
    if (!x->keys || !x->next_row || !x->last_row || !x->next_finding || !x->last_finding || !x->ordered ||
        !placement_index_rows(x, p, f) || !placement_index_findings(x, r))
        return propane_fail_memory(err, names * sizeof(int));
    placement_index_kinds(x, p, f);
    return PROPANE_OK;
}

/* Returns the row of an operation, or NULL if there is none. Of several rows, returns the first one from row *from on,
 * because plans and functions have the same order. Sets *from to the row after the returned one. */
static const compute_row *placement_by_name(placement_index *x, const compute_plan *p, const mil_op *op, int *from) {
    int best = -1, distance = p->count;
    for (int r = 0; r < op->result_count; r++) {
        const char *key = placement_key(x->keys, op->info->name, op->results[r]->name);
        x->failed |= !key;
        for (int i = key ? piece_map_index(&x->rows, key) : -1; i >= 0; i = x->next_row[i]) {
            const int away = (i / COMPUTE_NAMES - *from + p->count) % p->count;
            if (away < distance) best = i / COMPUTE_NAMES, distance = away;
        }
    }
    if (best < 0) return NULL;
    *from = (best + 1) % p->count;
    return &p->rows[best];
}

/* ---- one function ----------------------------------------------------------------------------------------------------------- */

static void placement_put_rules(placement_index *x, const chip_report *r, const mil_op *op, char out[64]) {
    size_t used = 0;
    out[0] = 0;
    const char *key = op->result_count ? arena_printf(x->keys, "%s %s", op->info->name, op->results[0]->name) : NULL;
    x->failed |= op->result_count && !key;
    for (int i = key ? piece_map_index(&x->findings, key) : -1; i >= 0 && used < 48; i = x->next_finding[i])
        used += (size_t)snprintf(out + used, 64 - used, "%s%s", used ? ", " : "", chip_report_get(r, i)->limit->id);
}

static void placement_add(placement_diff *d, placement_index *x, const chip_report *r, const mil_op *op,
                          const compute_row *row, bool falls) {
    if (!row) {
        d->unplanned++;
        return;
    }
    if ((row->preferred == COMPUTE_ENGINE) != falls) {
        d->same++;
        return;
    }
    placement_row *out = &d->rows[d->count++];
    *out = (placement_row){.op = op->info->name, .plan = row, .falls = falls};
    snprintf(out->name, sizeof out->name, "%.95s", op->result_count ? op->results[0]->name : "");
    placement_put_rules(x, r, op, out->rules);
}

static void placement_pair(placement_diff *d, placement_index *x, const mil_function *f, const chip_report *r,
                           const bool *moved) {
    int from = 0, at = 0, seen[MIL_OP_COUNT] = {0}, counts[MIL_OP_COUNT] = {0};
    for (const mil_op *op = f->first; op; op = op->next) counts[op->info->code]++;
    for (const mil_op *op = f->first; op; op = op->next, at++) {
        if (!placement_is_planned(op)) continue;
        const int kind = (int)op->info->code, place = seen[kind]++;
        const compute_row *row = placement_by_name(x, &d->plan, op, &from);
        if (!row && x->first[kind + 1] - x->first[kind] == counts[kind])
            row = &d->plan.rows[x->ordered[x->first[kind] + place]];
        placement_add(d, x, r, op, row, moved[at]);
    }
    for (int k = 0; k < d->plan.count; k++) {
        const compute_row *row = &d->plan.rows[k];
        if (!placement_is_about(row, f)) continue;
        d->planned++;
        d->on[row->preferred]++;
    }
    const int paired = d->same + d->count;
    d->strange = d->planned > paired ? d->planned - paired : 0;
}

static propane_status placement_check(placement_diff *d, const mil_function *f, const chip *c, int os,
                                      propane_error *err) {
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, os, 1 << 20, CHIP_PATH_COREML, false});
    bool *moved = mem_array((size_t)f->op_count + 1, sizeof *moved);
    d->rows = mem_array((size_t)f->op_count + 1, sizeof *d->rows);
    propane_status status = r && moved && d->rows ? PROPANE_OK : propane_fail_memory(err, (size_t)f->op_count);
    if (status == PROPANE_OK) {
        r->moved = moved;
        status = chip_check_function(r, f, err);
    }
    placement_index x = {0};
    if (status == PROPANE_OK) status = placement_index_init(&x, &d->plan, f, r, err);
    if (status == PROPANE_OK) placement_pair(d, &x, f, r, moved);
    if (x.failed) status = propane_fail_memory(err, 0);
    placement_index_deinit(&x);
    chip_report_free(r);
    mem_free(moved);
    return status;
}

/* Returns the function that the plan names, else "main", else the first one. */
static const mil_function *placement_function(const mil_module *m, const compute_plan *p) {
    const mil_function *main = NULL;
    for (const mil_function *f = m->functions; f; f = f->next) {
        if (p->rows[0].function && strcmp(p->rows[0].function, f->name) == 0) return f;
        if (strcmp(f->name, "main") == 0) main = f;
    }
    return main ? main : m->functions;
}

propane_status placement_diff_make(const mil_module *m, const chip *c, int os, const char *path, placement_diff *out,
                                   propane_error *err) {
    *out = (placement_diff){0};
    propane_status status = compute_plan_read(path, &out->plan, err);
    if (status) return status;
    const mil_function *f = placement_function(m, &out->plan);
    for (int k = 0; k < out->plan.count; k++) /* a plan may name the only function differently */
        if (!m->functions->next) out->plan.rows[k].function = NULL;
    snprintf(out->function, sizeof out->function, "%.63s", f->name);
    status = placement_check(out, f, c, os, err);
    if (status == PROPANE_OK && out->same + out->count == 0)
        status = propane_fail(err, PROPANE_ERR_INVALID,
                              "%s: none of its %d operations is in function '%.60s' (the first is %s '%.60s'); is it "
                              "the plan of another model?",
                              path, out->plan.count, f->name, out->plan.rows[0].op,
                              out->plan.rows[0].name_count ? out->plan.rows[0].names[0] : "");
    if (status) placement_diff_deinit(out);
    return status;
}

void placement_diff_deinit(placement_diff *d) {
    compute_plan_deinit(&d->plan);
    mem_free(d->rows);
    *d = (placement_diff){0};
}

/* ---- printing --------------------------------------------------------------------------------------------------------------- */

/* Escapes names from a file, so that a terminal does not obey them. */
static void placement_put(text *out, const char *name) {
    char shown[128];
    text_append_n(out, shown, text_harmless(shown, sizeof shown, name, strnlen(name, 60), ""));
}

static void placement_print_row(const placement_row *r, text *out) {
    text_printf(out, "  %s '", r->op);
    placement_put(out, r->name);
    text_printf(out, "': the plan says %s", compute_device_name(r->plan->preferred));
    if (r->plan->preferred != COMPUTE_ENGINE && r->plan->supported)
        text_append(out, r->plan->supported & 1u << COMPUTE_ENGINE ? ", which prefers it to the engine"
                                                                   : ", and that the engine does not support it");
    if (r->plan->cost >= 0) text_printf(out, " (cost %.3g)", r->plan->cost);
    text_printf(out, "; check says %s", r->falls ? "CPU" : "engine");
    if (*r->rules) text_printf(out, " (%s)", r->rules);
    text_append(out, "\n");
}

void placement_diff_print(const placement_diff *d, text *out) {
    text_printf(out, "\nplan of '");
    placement_put(out, d->function);
    text_printf(out, "': %d operation%s, %d on the engine, %d on the GPU, %d on the CPU; ", d->planned,
                text_plural(d->planned), d->on[COMPUTE_ENGINE], d->on[COMPUTE_GPU], d->on[COMPUTE_CPU]);
    text_printf(out, "check agrees on %d and differs on %d\n", d->same, d->count);
    for (int i = 0; i < d->count; i++) placement_print_row(&d->rows[i], out);
    if (d->unplanned)
        text_printf(out, "  the plan does not mention %d operation%s of the program\n", d->unplanned,
                    text_plural(d->unplanned));
    if (d->strange)
        text_printf(out, "  %d operation%s of the plan %s not in the program\n", d->strange, text_plural(d->strange),
                    d->strange == 1 ? "is" : "are");
}

json_t *placement_diff_json(const placement_diff *d) {
    json_t *root = json_object(), *rows = json_array();
    chip_report_set_text(root, "function", d->function);
    json_put(root, "operations", json_integer(d->planned));
    json_put(root, "engine", json_integer(d->on[COMPUTE_ENGINE]));
    json_put(root, "gpu", json_integer(d->on[COMPUTE_GPU]));
    json_put(root, "cpu", json_integer(d->on[COMPUTE_CPU]));
    json_put(root, "same", json_integer(d->same));
    json_put(root, "unplanned", json_integer(d->unplanned));
    json_put(root, "not_in_program", json_integer(d->strange));
    for (int i = 0; i < d->count; i++) {
        const placement_row *r = &d->rows[i];
        json_t *row = json_object();
        chip_report_set_text(row, "op", r->op);
        chip_report_set_text(row, "name", r->name);
        chip_report_set_text(row, "plan", compute_device_name(r->plan->preferred));
        if (r->plan->supported)
            json_put(row, "engine_supported", json_boolean(r->plan->supported & 1u << COMPUTE_ENGINE));
        if (r->plan->cost >= 0) json_put(row, "cost", json_real(r->plan->cost));
        chip_report_set_text(row, "check", r->falls ? "CPU" : "engine");
        if (*r->rules) chip_report_set_text(row, "rules", r->rules);
        json_add(rows, row);
    }
    json_put(root, "differs", rows);
    return root;
}
