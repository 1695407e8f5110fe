/* SPDX-License-Identifier: MIT
 * What a causal mask makes of the products around it. A softmax behind "+ mask", the mask a constant that holds about 0 up
 * to the diagonal and -1e4 or less behind it, gives zeros behind the diagonal; so does whatever is multiplied by it. And
 * nobody asks what the scores are where the mask goes, or what is multiplied by such zeros. Both are followed from value
 * to value here, and products then leave out the blocks that are zero (cpu_band in gemm.h): the sums keep their bits,
 * because terms of zero do not change them.
 *
 * Behind the diagonal exp() is taken to be 0, which holds while scores of a row differ by less than some 8,900.
 */
#include <math.h>

#include "drivers/cpu/cpu_program.h"
#include "drivers/cpu/fuse/fuse.h"
#include "drivers/cpu/plan/facts.h"
#include "drivers/cpu/plan/table.h"
#include "mil/ops/shape_util.h"

static int64_t last_dim(const mil_type *t, int from_end) {
    return t->rank >= from_end ? t->dim[t->rank - from_end] : 1;
}

/* The same elements in rows of the same length, and rows keep their place modulo `rows`. */
static bool keeps_rows(const mil_op *op, int64_t rows) {
    const mil_type *from = &op->operands[0].values[0]->type, *to = &op->results[0]->type;
    if (op->info->code != MIL_OP_cast && !cpu_plan_keeps_order(op)) return false;
    return last_dim(from, 1) == last_dim(to, 1) && last_dim(from, 2) % rows == 0 && last_dim(to, 2) % rows == 0;
}

static int64_t zeros_of(const cpu_graph *g, const mil_op *op) {
    const mil_value *v = op->results[0];
    if (cpu_plan_is_row_softmax(op)) {
        const mil_op *add = mil_in(op, "x")->def;
        return add ? cpu_plan_adds_mask(add, false) : 0;
    }
    if (op->info->code == MIL_OP_mul) {
        for (int k = 0; k < 2; k++) {
            const mil_value *x = mil_in(op, k ? "x" : "y");
            if (g->zeros[x->id] && mil_shape_equal(&x->type, &v->type)) return g->zeros[x->id];
        }
        return 0;
    }
    if (op->info->param_count == 0 || op->operands[0].count != 1) return 0;
    int64_t rows = g->zeros[op->operands[0].values[0]->id];
    return rows && keeps_rows(op, rows) ? rows : 0;
}

static bool only_softmaxes_read(const cpu_graph *g, const mil_value *v) {
    const int *readers;
    const int count = cpu_graph_reads(g, v, &readers);
    for (int i = 0; i < count; i++)
        if (!cpu_plan_is_row_softmax(g->ops[readers[i]])) return false;
    return count == g->uses[v->id];
}

/* Behind which diagonal `op` does not care what `v`, its only such operand, holds; 0: it does. */
static int64_t unasked_by(const cpu_graph *g, const mil_op *op, const mil_value *v) {
    const mil_value *y = op->results[0];
    mil_opcode code = op->info->code;
    if (code == MIL_OP_add || code == MIL_OP_sub || code == MIL_OP_mul) {
        const mil_value *other = mil_in(op, mil_in(op, "x") == v ? "y" : "x");
        if (other == v || !mil_shape_equal(&v->type, &y->type)) return 0;
        if (code == MIL_OP_mul && g->zeros[other->id] && mil_shape_equal(&other->type, &y->type))
            return g->zeros[other->id];
        int64_t rows = cpu_plan_adds_mask(op, false);
        if (rows && only_softmaxes_read(g, y)) return rows;
        return g->unasked[y->id];
    }
    int64_t rows = g->unasked[y->id];
    return rows && op->operands[0].count == 1 && op->operands[0].values[0] == v && keeps_rows(op, rows) ? rows : 0;
}

static int64_t unasked(const cpu_graph *g, const mil_value *v) {
    const int *readers;
    const int count = cpu_graph_reads(g, v, &readers);
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        const int64_t own = unasked_by(g, g->ops[readers[i]], v);
        if (!own || (rows && own != rows)) return 0;
        rows = own;
    }
    return count == g->uses[v->id] ? rows : 0; /* else it is a result of the function, too */
}

propane_status cpu_fuse_causal_bands(cpu_graph *g, propane_error *err) {
    int masks = 0;
    g->zeros = ARENA_ARRAY(g->work, g->f->value_count + 1, int64_t);
    g->unasked = ARENA_ARRAY(g->work, g->f->value_count + 1, int64_t);
    if (!g->zeros || !g->unasked) return cpu_program_no_memory(err);
    for (int i = 0; i < g->op_count; i++) {
        const mil_op *op = g->ops[i];
        if (op->result_count != 1) continue;
        g->zeros[op->results[0]->id] = zeros_of(g, op);
        masks += g->zeros[op->results[0]->id] != 0;
    }
    for (int i = g->op_count - 1; i >= 0 && masks; i--) {
        if (g->ops[i]->result_count != 1) continue;
        const mil_value *v = g->ops[i]->results[0];
        if (v->type.rank >= 2) g->unasked[v->id] = unasked(g, v);
    }
    return PROPANE_OK;
}
