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

#include "drivers/cpu/plan/plan.h"
#include "mil/ops/shape_util.h"

#define MASKED (-9000.0) /* or less */
#define SEEN   100.0     /* largest magnitude of what the mask adds elsewhere */

static int64_t last_dim(const mil_type *t, int from_end) {
    return t->rank >= from_end ? t->dim[t->rank - from_end] : 1;
}

/* Rows of a causal mask that is square in its last two dimensions and the same for all others; 0: it is none. */
static int64_t mask_rows(const mil_value *v, double seen) {
    if (!v->konst || !mil_dtype_is_float(v->type.dtype) || v->type.rank < 2) return 0;
    int64_t n = last_dim(&v->type, 1);
    if (n < 2 || last_dim(&v->type, 2) != n || mil_type_count(&v->type) != n * n) return 0;
    if (mil_const_f64(v->konst, 1) > MASKED) return 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double x = mil_const_f64(v->konst, i * n + j);
            if (j > i ? !(x <= MASKED) : !(fabs(x) <= seen)) return 0;
        }
    return n;
}

int64_t cpu_plan_adds_mask(const mil_op *op, bool exact) {
    if (op->info->code != MIL_OP_add) return 0;
    const mil_type *t = &op->results[0]->type;
    for (int k = 0; k < 2; k++) {
        int64_t n = mask_rows(mil_in(op, k ? "x" : "y"), exact ? 0 : SEEN);
        if (n && last_dim(t, 1) == n && last_dim(t, 2) == n) return n;
    }
    return 0;
}

bool cpu_plan_is_row_softmax(const mil_op *op) {
    int axis;
    if (op->info->code != MIL_OP_softmax) return false;
    const mil_type *t = &op->results[0]->type;
    return !mil_attr_axis(op, "axis", t->rank, &axis, NULL) && axis == t->rank - 1;
}

/* The same elements in rows of the same length, and rows keep their place modulo `rows`. */
static bool keeps_rows(const mil_op *op, int64_t rows) {
    const mil_type *from = &op->operands[0].values[0]->type, *to = &op->results[0]->type;
    if (op->info->code != MIL_OP_cast && !cpu_plan_keeps_order(op)) return false;
    return last_dim(from, 1) == last_dim(to, 1) && last_dim(from, 2) % rows == 0 && last_dim(to, 2) % rows == 0;
}

static int64_t zeros_of(const planner *p, const mil_op *op) {
    const mil_value *v = op->results[0];
    if (cpu_plan_is_row_softmax(op)) {
        const mil_op *add = mil_in(op, "x")->def;
        return add ? cpu_plan_adds_mask(add, false) : 0;
    }
    if (op->info->code == MIL_OP_mul) {
        for (int k = 0; k < 2; k++) {
            const mil_value *x = mil_in(op, k ? "x" : "y");
            if (p->zeros[x->id] && mil_shape_equal(&x->type, &v->type)) return p->zeros[x->id];
        }
        return 0;
    }
    if (op->info->param_count == 0 || op->operands[0].count != 1) return 0;
    int64_t rows = p->zeros[op->operands[0].values[0]->id];
    return rows && keeps_rows(op, rows) ? rows : 0;
}

static bool only_softmaxes_read(const planner *p, const mil_value *v) {
    int found = 0;
    for (int i = p->op_of[v->id] + 1; i < p->op_count; i++)
        if (cpu_plan_is_row_softmax(p->ops[i]) && mil_in(p->ops[i], "x") == v) found++;
    return found == p->uses[v->id];
}

/* Behind which diagonal `op` does not care what `v`, its only such operand, holds; 0: it does. */
static int64_t unasked_by(const planner *p, const mil_op *op, const mil_value *v) {
    const mil_value *y = op->results[0];
    mil_opcode code = op->info->code;
    if (code == MIL_OP_add || code == MIL_OP_sub || code == MIL_OP_mul) {
        const mil_value *other = mil_in(op, mil_in(op, "x") == v ? "y" : "x");
        if (other == v || !mil_shape_equal(&v->type, &y->type)) return 0;
        if (code == MIL_OP_mul && p->zeros[other->id] && mil_shape_equal(&other->type, &y->type))
            return p->zeros[other->id];
        int64_t rows = cpu_plan_adds_mask(op, false);
        if (rows && only_softmaxes_read(p, y)) return rows;
        return p->unasked[y->id];
    }
    int64_t rows = p->unasked[y->id];
    return rows && op->operands[0].count == 1 && op->operands[0].values[0] == v && keeps_rows(op, rows) ? rows : 0;
}

static int64_t unasked(const planner *p, const mil_value *v) {
    int64_t rows = 0;
    int found = 0;
    for (int i = p->op_of[v->id] + 1; i < p->op_count; i++) {
        const mil_op *op = p->ops[i];
        for (int k = 0; k < op->info->param_count; k++)
            for (int j = 0; j < op->operands[k].count; j++) {
                if (op->operands[k].values[j] != v) continue;
                int64_t own = unasked_by(p, op, v);
                if (!own || (rows && own != rows)) return 0;
                rows = own;
                found++;
            }
    }
    return found == p->uses[v->id] ? rows : 0; /* else it is a result of the function, too */
}

propane_status cpu_plan_causal(planner *p, propane_error *err) {
    int masks = 0;
    p->zeros = ARENA_ARRAY(p->work, p->f->value_count + 1, int64_t);
    p->unasked = ARENA_ARRAY(p->work, p->f->value_count + 1, int64_t);
    if (!p->zeros || !p->unasked) return cpu_plan_no_memory(p, err);
    for (int i = 0; i < p->op_count; i++) {
        const mil_op *op = p->ops[i];
        if (op->result_count != 1) continue;
        p->zeros[op->results[0]->id] = zeros_of(p, op);
        masks += p->zeros[op->results[0]->id] != 0;
    }
    for (int i = p->op_count - 1; i >= 0 && masks; i--) {
        if (p->ops[i]->result_count != 1) continue;
        const mil_value *v = p->ops[i]->results[0];
        if (v->type.rank >= 2) p->unasked[v->id] = unasked(p, v);
    }
    return PROPANE_OK;
}
