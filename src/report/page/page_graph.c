/* SPDX-License-Identifier: MIT
 * Owns the nodes of the drawings: inputs, operations and outputs, with the nodes whose values they read. Constants are
 * not nodes. Small constants are attributes of the operation that reads them, and others are its weights.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "report/page/page_parts.h"

enum { ATTRIBUTE_MOST = 8 };

/* ---- which functions ---------------------------------------------------------------------------------------------------- */

static int page_graph_count(const mil_function *f) {
    int count = 1;
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->block_count; i++) count += page_graph_count(op->blocks[i]);
    return count;
}

static propane_status page_graph_begin(page *p, const mil_function *f, const char *name, const char *function,
                                       propane_error *err) {
    page_graph *g = &p->graphs[p->graph_count++];
    *g = (page_graph){.f = f, .name = name, .function = function};
    g->ops = ARENA_ARRAY(p->arena, f->op_count + 1, const mil_op *);
    g->maker = ARENA_ARRAY(p->arena, f->value_count + 1, int);
    if (!name || !g->ops || !g->maker) return propane_fail_memory(err, (size_t)f->op_count * sizeof *g->ops);
    for (int i = 0; i < f->value_count; i++) g->maker[i] = -1;
    for (int i = 0; i < f->param_count; i++) g->maker[f->params[i]->id] = g->node_count++;
    g->first_op = g->node_count;
    for (const mil_op *op = f->first; op; op = op->next) {
        if (op->info->code == MIL_OP_const) continue;
        g->ops[g->op_count++] = op;
        for (int i = 0; i < op->result_count; i++) g->maker[op->results[i]->id] = g->node_count;
        g->node_count++;
    }
    for (const mil_op *op = f->first; op; op = op->next)
        for (int i = 0; i < op->block_count; i++)
            PROPANE_TRY(page_graph_begin(p, op->blocks[i],
                                         arena_printf(p->arena, "%s / %s '%s' / block %d", name, op->info->name,
                                                      op->result_count ? op->results[0]->name : "", i + 1),
                                         function, err));
    return PROPANE_OK;
}

/* ---- constants ---------------------------------------------------------------------------------------------------------- */

static void page_graph_put_element(text *out, const mil_const *c, int64_t i) {
    const mil_dtype_kind kind = mil_dtype_get(c->type.dtype)->kind;
    char shown[80];
    if (kind == MIL_KIND_STRING)
        text_append(out, text_quote(shown, mil_const_text(c, i), strlen(mil_const_text(c, i))));
    else if (kind == MIL_KIND_BOOL)
        text_append(out, mil_const_i64(c, i) ? "true" : "false");
    else if (kind == MIL_KIND_FLOAT)
        text_printf(out, "%.6g", mil_const_f64(c, i));
    else
        text_printf(out, "%lld", (long long)mil_const_i64(c, i));
}

/* Adds a constant to an operation's attributes as text, or to its weights with type and bytes. */
static void page_graph_put_constant(const mil_value *v, const char *param, json_t *attributes, json_t *weights) {
    const mil_const *c = v->constant;
    const int64_t count = c ? mil_type_count(&c->type) : 0;
    char type[160];
    json_t *row = json_array();
    json_add(row, json_string(param));
    if (c && c->data && count <= ATTRIBUTE_MOST && c->type.rank <= 1) {
        text out = {0};
        if (c->type.rank) text_append(&out, "[");
        for (int64_t i = 0; i < count; i++) {
            if (i) text_append(&out, ", ");
            page_graph_put_element(&out, c, i);
        }
        if (c->type.rank) text_append(&out, "]");
        json_add(row, page_words(out.data));
        text_deinit(&out);
        json_add(attributes, row);
        return;
    }
    json_add(row, page_words(v->name));
    json_add(row, json_string(mil_type_print(type, &v->type)));
    json_add(row, json_integer((json_int_t)mil_type_bytes(&v->type)));
    json_add(weights, row);
}

/* ---- nodes -------------------------------------------------------------------------------------------------------------- */

static json_t *page_graph_node(const char *op, const char *name, const char *kind, const mil_type *type) {
    json_t *o = json_object(), *types = json_array();
    char shown[160];
    json_put(o, "o", json_string(op));
    json_put(o, "n", page_words(name));
    json_put(o, "k", json_string(kind));
    if (type) json_add(types, json_string(mil_type_print(shown, type)));
    json_put(o, "t", types);
    json_put(o, "i", json_array());
    return o;
}

static void page_graph_put_edge(json_t *node, int from, const char *param) {
    json_t *edge = json_array();
    json_add(edge, json_integer(from));
    json_add(edge, json_string(param));
    json_add(json_object_get(node, "i"), edge);
}

/* Returns the kind of an operation, which determines its colour. The kind follows from the operation's row in the table
 * and its cost, so that no second list of operations is needed. */
static const char *page_graph_kind(const mil_op *op, const mil_cost *cost, bool known) {
    if (op->block_count || op->info->params[0].type_class == MIL_CLASS_STATE) return "state";
    if (!known) return "other";
    if (cost->is_matrix) return "linear";
    if (cost->flops <= 0) return "move";
    return op->info->flops_per_element < 0 ? "norm" : "act";
}

static json_t *page_graph_op(const page *p, const page_graph *g, const mil_op *op) {
    mil_cost cost = {0};
    const bool known = !(g->f->late && mil_op_waits(op));
    char type[160];
    if (known) mil_op_cost(op, &cost);
    json_t *o = page_graph_node(op->info->name, op->result_count ? op->results[0]->name : op->label,
                                page_graph_kind(op, &cost, known), NULL);
    json_t *attributes = json_array(), *weights = json_array();
    for (int i = 0; i < op->result_count; i++)
        json_add(json_object_get(o, "t"), json_string(mil_type_print(type, &op->results[i]->type)));
    for (int param = 0; param < op->info->param_count; param++)
        for (int k = 0; k < op->operands[param].count; k++) {
            const mil_value *v = op->operands[param].values[k];
            const char *name = op->info->params[param].name;
            const bool constant = v->is_inline || (v->def && v->def->info->code == MIL_OP_const);
            if (constant)
                page_graph_put_constant(v, name, attributes, weights);
            else if (v->id < g->f->value_count && g->maker[v->id] >= 0)
                page_graph_put_edge(o, g->maker[v->id], name);
        }
    if (json_array_size(attributes)) json_put(o, "a", json_incref(attributes));
    if (json_array_size(weights)) json_put(o, "w", json_incref(weights));
    json_decref(attributes);
    json_decref(weights);
    if (cost.flops > 0) json_put(o, "f", json_real(cost.flops));
    if (cost.bytes_in + cost.bytes_out > 0) json_put(o, "b", json_real(cost.bytes_in + cost.bytes_out));
    for (int i = 0; i < op->block_count; i++)
        for (int k = 0; k < p->graph_count; k++)
            if (p->graphs[k].f == op->blocks[i]) {
                if (!json_object_get(o, "g")) json_put(o, "g", json_array());
                json_add(json_object_get(o, "g"), json_integer(k));
            }
    return o;
}

static void page_graph_fill(const page *p, page_graph *g) {
    const mil_function *f = g->f;
    for (int i = 0; i < f->param_count; i++)
        json_add(g->nodes, page_graph_node(f->params[i]->type.container == MIL_STATE ? "state" : "input",
                                           f->params[i]->name, "io", &f->params[i]->type));
    for (int i = 0; i < g->op_count; i++) json_add(g->nodes, page_graph_op(p, g, g->ops[i]));
    for (int i = 0; i < f->result_count; i++) {
        json_t *o = page_graph_node("output", f->results[i]->name, "io", &f->results[i]->type);
        if (g->maker[f->results[i]->id] >= 0) page_graph_put_edge(o, g->maker[f->results[i]->id], "");
        json_add(g->nodes, o);
    }
}

propane_status page_graphs_make(page *p, propane_error *err) {
    json_t *list = json_array();
    int count = 0;
    json_put(p->root, "graphs", list);
    for (const mil_function *f = p->m->functions; f; f = f->next) count += page_graph_count(f);
    p->graphs = ARENA_ARRAY(p->arena, count + 1, page_graph);
    if (!p->graphs || mem_failed(NULL)) return propane_fail_memory(err, (size_t)count * sizeof *p->graphs);
    for (const mil_function *f = p->m->functions; f; f = f->next)
        PROPANE_TRY(page_graph_begin(p, f, f->name, f->name, err));
    for (int i = 0; i < p->graph_count; i++) {
        page_graph *g = &p->graphs[i];
        json_t *o = json_object();
        g->nodes = json_array();
        json_put(o, "name", page_words(g->name));
        json_put(o, "function", page_words(g->function));
        json_put(o, "nodes", g->nodes);
        g->blocks = json_array();
        json_put(o, "blocks", g->blocks);
        json_add(list, o);
        if (mem_failed(NULL)) return propane_fail_memory(err, 0); /* json_put drops values when memory runs out */
        page_graph_fill(p, g);
        PROPANE_TRY(page_blocks_find(p, g, err));
    }
    return PROPANE_OK;
}

json_t *page_graph_find(const page *p, const char *function, const char *value) {
    for (int i = 0; i < p->graph_count && value; i++) {
        const page_graph *g = &p->graphs[i];
        if (g->f->owner || strcmp(g->f->name, function) != 0) continue;
        const mil_value *v = mil_scope_find(g->f, value, strlen(value));
        return v && g->maker[v->id] >= 0 ? json_array_get(g->nodes, (size_t)g->maker[v->id]) : NULL;
    }
    return NULL;
}
