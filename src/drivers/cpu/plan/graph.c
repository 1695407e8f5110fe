/* SPDX-License-Identifier: MIT
 * Owns the graph: which operations count, who reads what, and the order of the nodes.
 */
#include "drivers/cpu/plan/graph.h"

#include "drivers/cpu/cpu_program.h"
#include "drivers/cpu/plan/facts.h"
#include "drivers/cpu/plan/table.h"
#include "drivers/cpu/signed_rows.h"
#include "mil/ops.h"

/* ---- operations ------------------------------------------------------------------------------------------------------- */

/* Only what results depend on. */
static propane_status list_ops(cpu_graph *g, propane_error *err) {
    int values = g->f->value_count;
    bool *needed = ARENA_ARRAY(g->work, values + 1, bool);
    g->op_of = ARENA_ARRAY(g->work, values + 1, int);
    g->uses = ARENA_ARRAY(g->work, values + 1, int);
    g->absorbed = ARENA_ARRAY(g->work, values + 1, bool);
    g->ops = ARENA_ARRAY(g->work, g->f->op_count + 1, mil_op *);
    if (!needed || !g->op_of || !g->uses || !g->absorbed || !g->ops) return cpu_program_no_memory(err);
    for (int i = 0; i < values; i++) g->op_of[i] = -1;
    for (int i = 0; i < g->f->result_count; i++) {
        needed[g->f->results[i]->id] = true;
        g->uses[g->f->results[i]->id]++;
    }
    for (mil_op *op = g->f->last; op; op = op->prev) {
        bool wanted = false;
        for (int r = 0; r < op->result_count; r++) wanted |= needed[op->results[r]->id] && !op->results[r]->konst;
        if (!wanted) continue;
        g->ops[g->op_count++] = op;
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++) {
                needed[op->operands[k].values[j]->id] = true;
                g->uses[op->operands[k].values[j]->id]++;
            }
    }
    for (int i = 0; i < g->op_count / 2; i++) {
        mil_op *other = g->ops[i];
        g->ops[i] = g->ops[g->op_count - 1 - i];
        g->ops[g->op_count - 1 - i] = other;
    }
    for (int i = 0; i < g->op_count; i++)
        for (int r = 0; r < g->ops[i]->result_count; r++) g->op_of[g->ops[i]->results[r]->id] = i;
    return PROPANE_OK;
}

static void start_node(cpu_node *n, mil_op **op, int index) {
    const cpu_emitter *e = cpu_emitter_of(*op);
    n->ops = op;
    n->op_count = 1;
    n->last = index;
    if (e->tile && e->tile(*op)) {
        n->kind = CPU_NODE_TILE;
        n->axes = cpu_plan_tile_axes(*op);
        n->shape = n->axes ? (*op)->operands[0].values[0]->type : (*op)->results[0]->type;
    }
}

static propane_status start_nodes(cpu_graph *g, propane_error *err) {
    g->node_count = g->op_count;
    g->nodes = ARENA_ARRAY(g->work, g->op_count + 1, cpu_node);
    g->node_of = ARENA_ARRAY(g->work, g->op_count + 1, int);
    if (!g->nodes || !g->node_of) return cpu_program_no_memory(err);
    for (int i = 0; i < g->op_count; i++) {
        start_node(&g->nodes[i], &g->ops[i], i);
        g->node_of[i] = i;
    }
    return PROPANE_OK;
}

propane_status cpu_graph_build(cpu_graph *g, propane_error *err) {
    PROPANE_TRY(list_ops(g, err));
    return start_nodes(g, err);
}

/* ---- questions --------------------------------------------------------------------------------------------------------- */

int cpu_graph_readers(const cpu_graph *g, const mil_value *v, const mil_op **out, int most) {
    int count = 0, found = 0;
    for (int i = g->op_of[v->id] + 1; i < g->op_count && found < g->uses[v->id]; i++)
        for (int k = 0; k < g->ops[i]->info->param_count; k++)
            for (int j = 0; j < g->ops[i]->operands[k].count; j++) {
                if (g->ops[i]->operands[k].values[j] != v) continue;
                found++;
                if (count && out[count - 1] == g->ops[i]) continue;
                if (count == most) return -1;
                out[count++] = g->ops[i];
            }
    return found == g->uses[v->id] ? count : -1;
}

bool cpu_graph_is_free(const cpu_graph *g, const mil_op *op) {
    const cpu_node *n = &g->nodes[g->node_of[g->op_of[op->results[0]->id]]];
    return n->kind == CPU_NODE_TILE && n->op_count == 1;
}

bool cpu_graph_takes_rows(const cpu_node *n) {
    for (int i = 0; i < n->op_count; i++)
        if (cpu_signed_rows_is(n->ops[i])) return true;
    return false;
}

/* ---- order ------------------------------------------------------------------------------------------------------------- */

/* Depth first from each node in the order of the text, operands before users; the graph of nodes has no cycles. */
propane_status cpu_graph_sort(cpu_graph *g, propane_error *err) {
    int *stack = ARENA_ARRAY(g->work, g->node_count + 1, int);
    int *state = ARENA_ARRAY(g->work, g->node_count + 1, int); /* 0 new, 1 open, 2 done */
    g->order = ARENA_ARRAY(g->work, g->node_count + 1, int);
    if (!stack || !state || !g->order) return cpu_program_no_memory(err);
    for (int i = 0; i < g->op_count; i++) {
        int root = g->node_of[i], depth = 0;
        if (g->nodes[root].last != i || state[root] == 2) continue;
        stack[depth++] = root;
        while (depth > 0) {
            int n = stack[depth - 1];
            state[n] = 1;
            int next = -1;
            for (int q = 0; q < g->nodes[n].op_count && next < 0; q++) {
                const mil_op *op = g->nodes[n].ops[q];
                for (int k = 0; k < op->info->param_count && next < 0; k++)
                    for (int j = 0; j < op->operands[k].count && next < 0; j++) {
                        int m = cpu_graph_maker(g, op->operands[k].values[j]);
                        if (m >= 0 && state[g->node_of[m]] == 0) next = g->node_of[m];
                    }
            }
            if (next >= 0) {
                stack[depth++] = next;
                continue;
            }
            state[n] = 2;
            g->order[g->order_count++] = n;
            depth--;
        }
    }
    return PROPANE_OK;
}
