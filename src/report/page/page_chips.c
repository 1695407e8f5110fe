/* SPDX-License-Identifier: MIT
 * Owns the findings of the engines' rules and the estimated costs for a page's operations. The data include the texts
 * of the rules: sentence, evidence, source, fix.
 */
#include <string.h>

#include "ane/chip/check.h"
#include "ane/chip/placed_cost.h"
#include "core/base/memory.h"
#include "core/mil/ops.h"
#include "report/page/page_parts.h"

enum { ALL_FINDINGS = 1000000 };

typedef struct judge {
    page *p;
    const chip *targets[CHIP_COUNT];
    int count;
    chip_report *r;
    json_t *chips, *rules, *whole;
} judge;

/* Converts a mask of chip ids to a mask whose bits are in the order of the page's list of chips. */
static json_t *page_chips_bits(const judge *j, uint64_t mask) {
    json_int_t bits = 0;
    for (int t = 0; t < j->count; t++)
        if (mask >> j->targets[t]->id & 1) bits |= (json_int_t)1 << t;
    return json_integer(bits);
}

static json_t *page_chips_finding(const judge *j, const chip_finding *f) {
    json_t *o = json_object(), *on = json_array();
    const chip_limit *l = f->limit;
    json_put(o, "r", json_string(l->id));
    json_put(o, "m", page_words(f->message));
    json_add(on, page_chips_bits(j, f->refused)); /* the page's script expects the severities in descending order */
    json_add(on, page_chips_bits(j, f->crashed));
    json_add(on, page_chips_bits(j, f->fell));
    json_add(on, page_chips_bits(j, f->warned));
    json_add(on, page_chips_bits(j, f->noted));
    json_put(o, "on", on);
    if (!json_object_get(j->rules, l->id))
        json_put(j->rules, l->id,
                 json_pack("{s:s, s:s, s:s, s:s}", "sentence", l->sentence, "evidence", chip_evidence_name(l->evidence),
                           "source", l->source, "fix", l->fix));
    return o;
}

static void page_chips_place(const judge *j, const chip_finding *f) {
    json_t *node = f->function && f->name ? page_graph_find(j->p, f->function, f->name) : NULL;
    json_t *found = page_chips_finding(j, f);
    if (!node) {
        json_add(j->whole, found);
        return;
    }
    if (!json_object_get(node, "v")) json_put(node, "v", json_array());
    json_add(json_object_get(node, "v"), found);
}

static void page_chips_put_chip(const judge *j, const chip *c) {
    json_t *o = json_object();
    text verdict = {0};
    const chip_severity worst = chip_report_worst_on(j->r, c);
    chip_report_put_verdict(j->r, c, &verdict);
    json_put(o, "name", json_string(c->name));
    json_put(o, "verdict", json_string(verdict.data ? verdict.data : ""));
    json_put(o, "worst", json_integer(worst == CHIP_NOTE ? chip_report_total(j->r, c, CHIP_NOTE) > 0 : (int)worst + 1));
    json_add(j->chips, o);
    text_deinit(&verdict);
}

/* ---- costs -------------------------------------------------------------------------------------------------------------- */

static void page_chips_append(json_t *node, const char *key, json_t *value) {
    if (!json_object_get(node, key)) json_put(node, key, json_array());
    json_add(json_object_get(node, key), value);
}

/* Adds each operation's milliseconds on one chip, and what limits its speed, to the operation's node. */
static propane_status page_chips_cost(const judge *j, page_graph *g, int chip_index, bool main, propane_error *err) {
    cost_program cost = {0};
    const cost_path path = chip_report_path(j->r) == CHIP_PATH_COREML ? COST_COREML : COST_DIRECT;
    PROPANE_TRY(placed_cost(j->targets[chip_index], path, g->f, j->p->arena, &cost, err));
    for (int i = 0; i < cost.op_count; i++) {
        const mil_op *op = cost.ops[i].op;
        if (!op->result_count || op->info->code == MIL_OP_const) continue;
        json_t *node = json_array_get(g->nodes, (size_t)g->maker[op->results[0]->id]);
        page_chips_append(node, "ms", json_real(cost.ops[i].ms));
        page_chips_append(node, "by", json_string(cost_bound_name(cost.ops[i].bound)));
    }
    if (!main) return PROPANE_OK;
    json_put(json_array_get(j->chips, (size_t)chip_index), "ms", json_real(cost.ms));
    json_put(json_array_get(j->chips, (size_t)chip_index), "mj", json_real(cost.energy_mj));
    return PROPANE_OK;
}

/* Adds the costs of all functions. A function whose shapes depend on values has no estimate. */
static propane_status page_chips_costs(const judge *j, propane_error *err) {
    const char *first = propane_module_default_function(j->p->m);
    for (int i = 0; i < j->p->graph_count; i++) {
        page_graph *g = &j->p->graphs[i];
        const bool main = !first ? i == 0 : strcmp(g->f->name, first) == 0;
        if (g->f->owner || g->f->late) continue;
        for (int t = 0; t < j->count; t++) PROPANE_TRY(page_chips_cost(j, g, t, main, err));
    }
    return PROPANE_OK;
}

/* ---- both --------------------------------------------------------------------------------------------------------------- */

/* Converts a version that has already been checked to a number: "26.3" becomes 2603. */
static int page_chips_os(const char *os) {
    int major = 0, minor = 0;
    for (; os && *os >= '0' && *os <= '9'; os++) major = major * 10 + *os - '0';
    if (os && *os == '.')
        for (os++; *os >= '0' && *os <= '9'; os++) minor = minor * 10 + *os - '0';
    return major * 100 + minor;
}

propane_status page_chips_judge(page *p, propane_error *err) {
    judge j = {.p = p, .chips = json_array(), .rules = json_object(), .whole = json_array()};
    const propane_page_options *o = p->options;
    const bool coreml = o->path ? strcmp(o->path, "coreml") == 0 : p->m->coreml;
    json_put(p->root, "chips", j.chips);
    json_put(p->root, "rules", j.rules);
    json_put(p->root, "whole", j.whole);
    if (mem_failed(NULL)) return propane_fail_memory(err, 0); /* json_put drops values when memory runs out */
    PROPANE_TRY(chip_find_list(o->target ? o->target : "m1,m4", j.targets, &j.count, err));
    const chip_check_options options = {.targets = j.targets,
                                        .target_count = j.count,
                                        .os = page_chips_os(o->os),
                                        .per_limit = ALL_FINDINGS,
                                        .path = coreml ? CHIP_PATH_COREML : CHIP_PATH_DIRECT};
    j.r = chip_report_create(&options);
    propane_status status = j.r ? chip_check_module(j.r, p->m, err) : propane_fail_memory(err, 0);
    for (int i = 0; !status && i < chip_report_count(j.r); i++) page_chips_place(&j, chip_report_get(j.r, i));
    for (int t = 0; !status && t < j.count; t++) page_chips_put_chip(&j, j.targets[t]);
    if (!status) status = page_chips_costs(&j, err);
    json_put(p->root, "path", json_string(coreml ? "through Core ML" : "as MIL text passed to the engine's compiler"));
    json_put(p->root, "verdicts", json_true());
    chip_report_free(j.r);
    return status;
}
