/* SPDX-License-Identifier: MIT
 * Owns the public calls for estimates of programs. No other file writes their text and JSON. The model itself is in
 * ane/chip/cost_model.h.
 */
#include <string.h>

#include "ane/chip/placed_cost.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/ops.h"
#include "core/mil/specialize.h"
#include "core/run/public.h"

typedef struct estimate_row {
    const chip *chip;
    cost_program program;
} estimate_row;

struct propane_estimate {
    arena *arena;
    const char *source;
    mil_module *settled; /* owns the functions that mil_settle_standard builds */
    estimate_row *rows;
    int count;
    cost_path path;
};

static propane_status api_estimate_fill(propane_estimate *e, const propane_module *m,
                                        const propane_estimate_options *options, propane_error *err) {
    const chip *chips[CHIP_COUNT];
    int chip_count = 0, path = 0;
    const char *through = options->path ? options->path
                          : m->coreml   ? "coreml"
                                        : "direct"; /* the same default as check */
    PROPANE_TRY(chip_find_list(options->target ? options->target : "m4", chips, &chip_count, err));
    while (path < COST_PATH_COUNT && strcmp(cost_path_name((cost_path)path), through) != 0) path++;
    if (path == COST_PATH_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "path is '%.40s'; it must be direct, e5rt, coreml or linux",
                            through);
    e->path = (cost_path)path;
    e->rows = ARENA_ARRAY(e->arena, chip_count * m->function_count + 1, estimate_row);
    if (!e->rows) return propane_fail_memory(err, 0);
    e->source = m->source;
    e->settled = mil_module_create(m->source);
    if (!e->settled) return propane_fail_memory(err, 0);
    for (int i = 0; i < chip_count; i++)
        for (const mil_function *f = m->functions; f; f = f->next) {
            estimate_row *row = &e->rows[e->count];
            const mil_function *settled = NULL;
            propane_error why = {0};
            const propane_status status = mil_settle_standard(f, e->settled, &settled, &why);
            if (status == PROPANE_ERR_UNSUPPORTED) settled = f; /* operations that wait for values are not counted */
            if (status && status != PROPANE_ERR_UNSUPPORTED) return propane_fail(err, status, "%s", why.text);
            row->chip = chips[i];
            PROPANE_TRY(placed_cost(chips[i], (cost_path)path, settled, e->arena, &row->program, err));
            e->count++;
        }
    return PROPANE_OK;
}

propane_status propane_estimate_module(const propane_module *module, const propane_estimate_options *options,
                                       propane_estimate **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, module, out);
    propane_estimate_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_estimate_options", err));
    propane_estimate *e = mem_alloc(sizeof *e);
    if (e) e->arena = arena_create();
    propane_status status = e && e->arena ? api_estimate_fill(e, module, &o, err) : propane_fail_memory(err, sizeof *e);
    if (status)
        propane_estimate_free(e);
    else
        *out = e;
    return status;
}

void propane_estimate_free(propane_estimate *estimate) {
    if (!estimate) return;
    mil_module_free(estimate->settled);
    arena_free(estimate->arena);
    mem_free(estimate);
}

int propane_estimate_count(const propane_estimate *estimate) { return estimate ? estimate->count : 0; }

bool propane_estimate_get(const propane_estimate *estimate, int index, propane_estimate_row *out) {
    if (!estimate || !out) return false;
    if (index < 0 || index >= estimate->count) return false;
    const estimate_row *row = &estimate->rows[index];
    const cost_program *p = &row->program;
    const propane_estimate_row mine = {.chip = row->chip->name,
                                       .function = p->function->name,
                                       .ms = p->ms,
                                       .low_ms = p->low_ms,
                                       .high_ms = p->high_ms,
                                       .fixed_ms = p->fixed_ms,
                                       .io_ms = p->io_ms,
                                       .flops = p->flops,
                                       .bytes = p->bytes,
                                       .weight_bytes = p->weight_bytes,
                                       .utilisation = p->utilisation,
                                       .energy_mj = p->energy_mj,
                                       .compile_ms = cost_compile_ms(row->chip, p->weight_bytes),
                                       .op_count = p->op_count,
                                       .moved = p->moved,
                                       .switches = p->switches,
                                       .cpu_ms = p->cpu_ms,
                                       .switch_ms = p->switch_ms};
    return api_give(out, &mine, sizeof mine);
}

bool propane_estimate_get_op(const propane_estimate *estimate, int index, int op, propane_estimate_op *out) {
    if (!estimate || !out) return false;
    if (index < 0 || index >= estimate->count) return false;
    const cost_program *p = &estimate->rows[index].program;
    if (op < 0 || op >= p->op_count) return false;
    const cost_op *o = &p->ops[op];
    const propane_estimate_op mine = {.op = o->op->info->name,
                                      .name = mil_op_result_name(o->op),
                                      .bound = cost_bound_name(o->bound),
                                      .ms = o->ms,
                                      .flops = o->flops,
                                      .bytes = o->bytes,
                                      .energy_mj = o->energy_mj};
    return api_give(out, &mine, sizeof mine);
}

/* ---- printing --------------------------------------------------------------------------------------------------------------- */

static void api_estimate_print_ops(const chip *c, const cost_program *p, text *out) {
    text_printf(out, "\n%-8s %-22s %-20s %10s %10s %10s %9s  %s\n", c->title, "value", "op", "us", "MFLOP", "KB", "uJ",
                "bound by");
    for (int i = 0; i < p->op_count; i++) {
        const cost_op *o = &p->ops[i];
        const char *value = mil_op_result_name(o->op);
        if (o->ms > 0)
            text_printf(out, "%-8s %-22.22s %-20.20s %10.2f %10.3f %10.1f %9.2f  %s\n", "", value ? value : "",
                        o->op->info->name, o->ms * 1e3, o->flops / 1e6, o->bytes / 1e3, o->energy_mj * 1e3,
                        cost_bound_name(o->bound));
    }
}

/* Writes a time, such as "45 ms" or "2.3 s", and returns `out`. */
static const char *api_estimate_time(char out[24], double ms) {
    if (ms >= 3.6e6)
        snprintf(out, 24, "%.1f hours", ms / 3.6e6);
    else
        snprintf(out, 24, ms < 1000 ? "%.0f ms" : ms < 100000 ? "%.1f s" : "%.0f s", ms < 1000 ? ms : ms / 1e3);
    return out;
}

static void api_estimate_print_row(cost_path path, const chip *c, const cost_program *p, text *out) {
    char least[24], most[24];
    text_printf(out,
                "%-9s %-14.14s %8.3f ms (%.3f to %.3f)  call %.3f ms, in and out %.3f ms, %.4g GFLOP, weights %.2f MB, "
                "%4.1f %% of the peak, %.2f mJ, compiled in %s to %s",
                c->title, p->function->name, p->ms, p->low_ms, p->high_ms, p->fixed_ms, p->io_ms, p->flops / 1e9,
                p->weight_bytes / 1e6, 100 * p->utilisation, p->energy_mj,
                api_estimate_time(least, cost_compile_ms(c, p->weight_bytes)),
                api_estimate_time(most, cost_first_load_most_ms(c, path, p->weight_bytes)));
    if (p->moved)
        text_printf(out, "; %d operation%s on the CPU about %.3f ms, %d switch%s about %.3f ms", p->moved,
                    text_plural(p->moved), p->cpu_ms, p->switches, p->switches == 1 ? "" : "es", p->switch_ms);
    if (p->uncounted)
        text_printf(out, "; not counting %d operation%s whose shapes depend on values", p->uncounted,
                    text_plural(p->uncounted));
    text_printf(out, "\n");
}

static json_t *api_estimate_row_json(cost_path path, const chip *c, const cost_program *p) {
    json_t *ops = json_array();
    for (int i = 0; i < p->op_count; i++) {
        const cost_op *o = &p->ops[i];
        json_add(ops, json_pack("{s:s?, s:s, s:f, s:f, s:f, s:f, s:s}", "value", mil_op_result_name(o->op), "op",
                                o->op->info->name, "ms", o->ms, "flops", o->flops, "bytes", o->bytes, "energy_mj",
                                o->energy_mj, "bound_by", cost_bound_name(o->bound)));
    }
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, s:f, s:i, s:i, s:f, "
                     "s:i, s:f, s:o}",
                     "kind", "estimated", "chip", c->name, "function", p->function->name, "ms", p->ms, "low_ms",
                     p->low_ms, "high_ms", p->high_ms, "fixed_ms", p->fixed_ms, "io_ms", p->io_ms, "flops", p->flops,
                     "bytes", p->bytes, "weight_bytes", p->weight_bytes, "utilisation", p->utilisation, "energy_mj",
                     p->energy_mj, "compiles", 1, "compile_ms", cost_compile_ms(c, p->weight_bytes),
                     "first_load_most_ms", cost_first_load_most_ms(c, path, p->weight_bytes), "uncounted", p->uncounted,
                     "cpu_ops", p->moved, "cpu_ms", p->cpu_ms, "switches", p->switches, "switch_ms", p->switch_ms,
                     "ops", ops);
}

static propane_status api_estimate_print_json(const propane_estimate *e, text *out, propane_error *err) {
    char *line = NULL;
    json_t *list = json_array();
    for (int i = 0; i < e->count; i++)
        json_add(list, api_estimate_row_json(e->path, e->rows[i].chip, &e->rows[i].program));
    propane_status status = json_print(list, JSON_INDENT(1) | JSON_REAL_PRECISION(6), &line, NULL, err);
    if (line) text_printf(out, "%s\n", line);
    mem_free(line);
    json_decref(list);
    return status;
}

propane_status propane_estimate_print(const propane_estimate *estimate, propane_form form, bool ops, char **out,
                                      propane_error *err) {
    if (out) *out = NULL;
    NEED(err, estimate, out);
    NEED_FORM(err, form, 1 << PROPANE_TEXT | 1 << PROPANE_JSON);
    text t = {0};
    propane_status status = PROPANE_OK;
    if (form == PROPANE_JSON) {
        status = api_estimate_print_json(estimate, &t, err);
    } else {
        text_printf(&t, "%s: estimates for the path %s, not measurements\n", estimate->source,
                    cost_path_name(estimate->path));
        for (int i = 0; i < estimate->count; i++) {
            if (ops) api_estimate_print_ops(estimate->rows[i].chip, &estimate->rows[i].program, &t);
            api_estimate_print_row(estimate->path, estimate->rows[i].chip, &estimate->rows[i].program, &t);
        }
    }
    if (!status) status = api_give_text(&t, out, NULL, err);
    text_deinit(&t);
    return status;
}
