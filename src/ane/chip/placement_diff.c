/* SPDX-License-Identifier: MIT
 * Owns the pairing of a plan's rows with a function's operations, and the printing of differences.
 */
#include "ane/chip/placement_diff.h"

#include <ctype.h>
#include <string.h>

#include "ane/chip/check_report.h"
#include "core/base/memory.h"

/* ---- pairing ---------------------------------------------------------------------------------------------------------------- */

static bool placement_is_planned(const mil_op *op) { return op->info->code != MIL_OP_const && !mil_op_compressed(op); }

/* Compares names. Core ML's compiler replaces characters that are neither letters nor digits by underscores. */
static bool placement_same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++) {
        const bool plain = isalnum((unsigned char)*a) && isalnum((unsigned char)*b);
        if (plain ? *a != *b : isalnum((unsigned char)*a) || isalnum((unsigned char)*b)) return false;
    }
    return !*a && !*b;
}

static bool placement_names(const compute_row *row, const mil_op *op) {
    for (int r = 0; r < op->result_count; r++)
        for (int i = 0; i < row->name_count; i++)
            if (placement_same_name(row->names[i], op->results[r]->name)) return true;
    return false;
}

static bool placement_is_about(const compute_row *row, const mil_function *f) {
    return !row->function || strcmp(row->function, f->name) == 0;
}

static const compute_row *placement_by_name(const compute_plan *p, const mil_function *f, const mil_op *op, int *from) {
    for (int k = 0; k < p->count; k++) { /* plans and functions have the same order, so the next row is tried first */
        const compute_row *row = &p->rows[(*from + k) % p->count];
        if (!placement_is_about(row, f) || strcmp(row->op, op->info->name) != 0 || !placement_names(row, op)) continue;
        *from = (*from + k + 1) % p->count;
        return row;
    }
    return NULL;
}

static const compute_row *placement_by_order(const compute_plan *p, const mil_function *f, const mil_op *op,
                                             int place) {
    for (int k = 0; k < p->count; k++) {
        const compute_row *row = &p->rows[k];
        if (placement_is_about(row, f) && strcmp(row->op, op->info->name) == 0 && place-- == 0) return row;
    }
    return NULL;
}

static int placement_rows_of(const compute_plan *p, const mil_function *f, const char *op) {
    int count = 0;
    for (int k = 0; k < p->count; k++) count += placement_is_about(&p->rows[k], f) && strcmp(p->rows[k].op, op) == 0;
    return count;
}

/* ---- one function ----------------------------------------------------------------------------------------------------------- */

static void placement_put_rules(const chip_report *r, const mil_op *op, char out[64]) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < chip_report_count(r) && used < 48; i++) {
        const chip_finding *f = chip_report_get(r, i);
        const bool its = f->op && f->name && op->result_count && strcmp(f->op, op->info->name) == 0 &&
                         strcmp(f->name, op->results[0]->name) == 0;
        if (its && f->severity >= CHIP_FALL)
            used += (size_t)snprintf(out + used, 64 - used, "%s%s", used ? ", " : "", f->limit->id);
    }
}

static void placement_add(placement_diff *d, const chip_report *r, const mil_op *op, const compute_row *row,
                          bool falls) {
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
    placement_put_rules(r, op, out->rules);
}

static void placement_pair(placement_diff *d, const mil_function *f, const chip_report *r, const bool *moved) {
    int from = 0, at = 0, seen[MIL_OP_COUNT] = {0}, counts[MIL_OP_COUNT] = {0};
    for (const mil_op *op = f->first; op; op = op->next) counts[op->info->code]++;
    for (const mil_op *op = f->first; op; op = op->next, at++) {
        if (!placement_is_planned(op)) continue;
        const int place = seen[op->info->code]++;
        const compute_row *row = placement_by_name(&d->plan, f, op, &from);
        if (!row && placement_rows_of(&d->plan, f, op->info->name) == counts[op->info->code])
            row = placement_by_order(&d->plan, f, op, place);
        placement_add(d, r, op, row, moved[at]);
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
    if (status == PROPANE_OK) placement_pair(d, f, r, moved);
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

/* ---- saying it -------------------------------------------------------------------------------------------------------------- */

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
    text_printf(out, "': %d operations, %d on the engine, %d on the GPU, %d on the CPU; ", d->planned,
                d->on[COMPUTE_ENGINE], d->on[COMPUTE_GPU], d->on[COMPUTE_CPU]);
    text_printf(out, "check agrees on %d and differs on %d\n", d->same, d->count);
    for (int i = 0; i < d->count; i++) placement_print_row(&d->rows[i], out);
    if (d->unplanned) text_printf(out, "  the plan does not mention %d operations of the program\n", d->unplanned);
    if (d->strange) text_printf(out, "  %d operations of the plan are not in the program\n", d->strange);
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
