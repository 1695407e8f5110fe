/* SPDX-License-Identifier: MIT
 * Owns the graph: which operations are needed, the readers of each value, and the order of the nodes.
 */
#include "cpu/plan/graph.h"

#include "core/mil/ops.h"
#include "cpu/cpu_program.h"
#include "cpu/plan/facts.h"
#include "cpu/plan/table.h"
#include "cpu/signed_rows.h"

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* Lists only the operations that results depend on. */
static propane_status graph_list_ops(cpu_graph *g, propane_error *err) {
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
        for (int r = 0; r < op->result_count; r++) wanted |= needed[op->results[r]->id] && !op->results[r]->constant;
        if (!wanted) continue;
        g->ops[g->op_count++] = op;
        MIL_FOR_OPERANDS (op, v) needed[v->id] = true;
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

static propane_status graph_list_readers(cpu_graph *g, propane_error *err) {
    const int values = g->f->value_count;
    int total = 0;
    g->read_from = ARENA_ARRAY(g->work, values + 2, int);
    for (int i = 0; g->read_from && i < g->op_count; i++)
        MIL_FOR_OPERANDS (g->ops[i], v) {
            g->read_from[v->id + 2]++; /* one position further, because filling the list shifts it back */
            g->uses[v->id]++;
            total++;
        }
    g->readers = ARENA_ARRAY(g->work, total + 1, int);
    if (!g->read_from || !g->readers) return cpu_program_no_memory(err);
    for (int id = 2; id < values + 2; id++) g->read_from[id] += g->read_from[id - 1];
    for (int i = 0; i < g->op_count; i++)
        MIL_FOR_OPERANDS (g->ops[i], v) g->readers[g->read_from[v->id + 1]++] = i;
    return PROPANE_OK;
}

static void graph_start_node(cpu_node *n, mil_op **op, int index) {
    const cpu_emitter *e = cpu_emitter_of(*op);
    n->ops = op;
    n->op_count = 1;
    n->first = n->last = index;
    if (cpu_plan_is_product(*op)) n->kind = CPU_NODE_GEMM;
    if (e->tile && e->tile(*op)) {
        n->kind = CPU_NODE_TILE;
        n->axes = cpu_plan_tile_axes(*op);
        n->shape = n->axes ? (*op)->operands[0].values[0]->type : (*op)->results[0]->type;
    }
}

static propane_status graph_start_nodes(cpu_graph *g, propane_error *err) {
    g->node_count = g->op_count;
    g->nodes = ARENA_ARRAY(g->work, g->op_count + 1, cpu_node);
    g->node_of = ARENA_ARRAY(g->work, g->op_count + 1, int);
    g->across = ARENA_ARRAY(g->work, g->op_count + 1, int);
    g->stack = ARENA_ARRAY(g->work, g->op_count + 1, int);
    g->seen = ARENA_ARRAY(g->work, g->op_count + 1, int);
    g->value_seen = ARENA_ARRAY(g->work, g->f->value_count + 1, int);
    if (!g->nodes || !g->node_of || !g->across || !g->stack || !g->seen || !g->value_seen)
        return cpu_program_no_memory(err);
    for (int i = 0; i < g->op_count; i++) {
        graph_start_node(&g->nodes[i], &g->ops[i], i);
        g->node_of[i] = i;
    }
    return PROPANE_OK;
}

propane_status cpu_graph_build(cpu_graph *g, propane_error *err) {
    PROPANE_TRY(graph_list_ops(g, err));
    PROPANE_TRY(graph_list_readers(g, err));
    return graph_start_nodes(g, err);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

int cpu_graph_readers(const cpu_graph *g, const mil_value *v, const mil_op **out, int most) {
    const int *readers;
    const int all = cpu_graph_reads(g, v, &readers);
    int count = 0;
    if (all != g->uses[v->id]) return -1;
    for (int i = 0; i < all; i++) {
        if (i && readers[i] == readers[i - 1]) continue;
        if (count == most) return -1;
        out[count++] = g->ops[readers[i]];
    }
    return count;
}

const mil_op *cpu_graph_only_reader(const cpu_graph *g, const mil_value *v) {
    const int *readers;
    return cpu_graph_reads(g, v, &readers) == 1 && g->uses[v->id] == 1 ? g->ops[readers[0]] : NULL;
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

/* ---- merging ----------------------------------------------------------------------------------------------------- */

/* Pushes the nodes that `node` reads and that are not entirely before `cut`. Returns true if `node` is not a member
 * (`inside` is false) but reads one. Members are marked g->mark, pushed nodes g->mark + 1. */
static bool graph_push_makers(cpu_graph *g, int node, bool inside, int cut, int *depth) {
    for (int i = 0; i < g->nodes[node].op_count; i++)
        MIL_FOR_OPERANDS (g->nodes[node].ops[i], v) {
            const int maker = cpu_graph_maker(g, v);
            if (maker < 0) continue;
            const int n = g->node_of[maker];
            if (g->seen[n] == g->mark && !inside) return true;
            if (g->seen[n] >= g->mark || g->nodes[n].last < cut) continue;
            g->seen[n] = g->mark + 1;
            g->stack[(*depth)++] = n;
        }
    return false;
}

/* Returns the position at which a search for paths between members can stop. An operation reads only results of earlier
 * operations. If no node spans a position, no node before that position reads a result from after it. The search
 * therefore stops at the last such position before all members. Its cost depends on the distance between the members,
 * not on the whole function. */
static int graph_cut_before(const cpu_graph *g, const mil_op *const *ops, int count) {
    int cut = g->op_count;
    for (int i = 0; i < count; i++) {
        const int first = g->nodes[g->node_of[cpu_graph_index(g, ops[i])]].first;
        if (first < cut) cut = first;
    }
    while (cut > 0 && g->across[cut]) cut--;
    return cut;
}

bool cpu_graph_is_between(cpu_graph *g, const mil_op *const *ops, int count) {
    const int cut = graph_cut_before(g, ops, count);
    int depth = 0;
    g->mark += 2;
    for (int i = 0; i < count; i++) g->seen[g->node_of[cpu_graph_index(g, ops[i])]] = g->mark;
    for (int i = 0; i < count; i++)
        (void)graph_push_makers(g, g->node_of[cpu_graph_index(g, ops[i])], true, cut, &depth);
    while (depth > 0)
        if (graph_push_makers(g, g->stack[--depth], false, cut, &depth)) return true;
    return false;
}

/* Updates the counts of spanned positions. Positions that both nodes span count once for the merged node, and those
 * between the nodes are added. */
static void graph_join_spans(cpu_graph *g, cpu_node *a, const cpu_node *b) {
    const cpu_node *front = a->first <= b->first ? a : b, *rear = front == a ? b : a;
    const int least = front->last < rear->last ? front->last : rear->last;
    for (int i = front->last + 1; i <= rear->first; i++) g->across[i]++;
    for (int i = rear->first + 1; i <= least; i++) g->across[i]--;
    a->last = front->last > rear->last ? front->last : rear->last;
    a->first = front->first;
}

/* Moves the operations of node `from` to node `into`, in order. Returns false if memory runs out. */
static bool graph_merge_nodes(cpu_graph *g, int into, int from) {
    cpu_node *a = &g->nodes[into], *b = &g->nodes[from];
    mil_op **ops = ARENA_ARRAY(g->work, a->op_count + b->op_count, mil_op *);
    if (!ops) return false;
    int i = 0, j = 0, n = 0;
    while (i < a->op_count || j < b->op_count) {
        const bool left =
            j == b->op_count || (i < a->op_count && cpu_graph_index(g, a->ops[i]) < cpu_graph_index(g, b->ops[j]));
        ops[n++] = left ? a->ops[i++] : b->ops[j++];
    }
    for (int k = 0; k < b->op_count; k++) g->node_of[cpu_graph_index(g, b->ops[k])] = into;
    a->ops = ops;
    a->op_count = n;
    graph_join_spans(g, a, b);
    b->op_count = 0;
    return true;
}

cpu_node *cpu_graph_merge(cpu_graph *g, const mil_op *const *ops, int count) {
    const int into = g->node_of[cpu_graph_index(g, ops[0])];
    for (int i = 1; i < count; i++) {
        const int from = g->node_of[cpu_graph_index(g, ops[i])];
        if (from != into && !graph_merge_nodes(g, into, from)) return NULL;
    }
    return &g->nodes[into];
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

/* Returns a node that this one reads and that is not in the order yet; -1 if there is none. */
static int graph_unfinished(const cpu_graph *g, const cpu_node *n, const int *state) {
    for (int i = 0; i < n->op_count; i++)
        MIL_FOR_OPERANDS (n->ops[i], v) {
            const int maker = cpu_graph_maker(g, v);
            if (maker >= 0 && state[g->node_of[maker]] == 0) return g->node_of[maker];
        }
    return -1;
}

/* Sorts depth first from each node in the order of the text, operands before users. The graph of nodes has no
 * cycles. */
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
            const int next = graph_unfinished(g, &g->nodes[n], state);
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
