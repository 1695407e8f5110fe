/* SPDX-License-Identifier: MIT
 * Owns the predicates that fusions and emitters share.
 */
#include "cpu/plan/facts.h"

#include <math.h>

#include "cpu/plan/table.h"

static bool facts_is_pointwise(const mil_op *op) {
    mil_conv c;
    if (mil_conv_read(op, &c, NULL)) return false;
    for (int d = 0; d < c.spatial; d++)
        if (c.kernel[d] != 1 || c.stride[d] != 1 || c.before[d] || c.after[d]) return false;
    return true;
}

bool cpu_plan_is_product(const mil_op *op) {
    const cpu_family f = cpu_family_of(op);
    return f == CPU_FAMILY_matmul || f == CPU_FAMILY_linear || (f == CPU_FAMILY_conv && facts_is_pointwise(op));
}

bool cpu_plan_keeps_order(const mil_op *op) {
    mil_opcode c = op->info->code;
    return c == MIL_OP_identity || c == MIL_OP_reshape || c == MIL_OP_expand_dims || c == MIL_OP_squeeze;
}

/* ---- fused loops ------------------------------------------------------------------------------------------------- */

unsigned cpu_plan_tile_axes(const mil_op *op) {
    const cpu_family f = cpu_family_of(op);
    if (f != CPU_FAMILY_softmax && f != CPU_FAMILY_reduce) return 0;
    int rank = mil_in(op, "x")->type.rank;
    if (f == CPU_FAMILY_softmax) {
        int axis = 0;
        return mil_attr_axis(op, "axis", rank, &axis, NULL) ? 0 : 1u << axis;
    }
    bool member[MIL_MAX_RANK] = {false};
    unsigned axes = 0;
    if (mil_attr_axes(op, "axes", rank, member, NULL)) return 0;
    for (int d = 0; d < rank; d++) axes |= (unsigned)member[d] << d;
    return axes;
}

/* ---- causal masks ------------------------------------------------------------------------------------------------ */

#define MASKED (-9000.0) /* or less */

static int64_t facts_last_dim(const mil_type *t, int from_end) {
    return t->rank >= from_end ? t->dim[t->rank - from_end] : 1;
}

/* Returns the number of rows of a causal mask, or 0 if the value is not one. A mask is a constant that is square in its
 * last two dimensions and has no other extents above 1. */
static int64_t facts_mask_rows(const mil_value *v) {
    if (!v->constant || !mil_dtype_is_float(v->type.dtype) || v->type.rank < 2) return 0;
    int64_t n = facts_last_dim(&v->type, 1);
    if (n < 2 || facts_last_dim(&v->type, 2) != n || mil_type_count(&v->type) != n * n) return 0;
    if (mil_const_f64(v->constant, 1) > MASKED) return 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double x = mil_const_f64(v->constant, i * n + j);
            if (j > i ? !(x <= MASKED) : !(fabs(x) <= 0)) return 0; /* also catches NaN */
        }
    return n;
}

int64_t cpu_plan_adds_mask(const mil_op *op) {
    if (op->info->code != MIL_OP_add) return 0;
    const mil_type *t = &op->results[0]->type;
    for (int k = 0; k < 2; k++) {
        int64_t n = facts_mask_rows(mil_in(op, k ? "x" : "y"));
        if (n && facts_last_dim(t, 1) == n && facts_last_dim(t, 2) == n) return n;
    }
    return 0;
}

bool cpu_plan_is_row_softmax(const mil_op *op) {
    int axis;
    if (op->info->code != MIL_OP_softmax) return false;
    const mil_type *t = &op->results[0]->type;
    return !mil_attr_axis(op, "axis", t->rank, &axis, NULL) && axis == t->rank - 1;
}

/* ---- layers with constant weights -------------------------------------------------------------------------------- */

enum {
    LEAST_CHANNELS = 8, /* output channels of a convolution */
    MOST_TAPS = 1024,
};

bool cpu_plan_is_known(const mil_value *v) {
    return v && v->constant && v->constant->data && v->type.dtype == MIL_fp32;
}

bool cpu_plan_is_image_conv(const mil_op *op, mil_conv *c) {
    if (op->info->code != MIL_OP_conv || !cpu_plan_is_known(mil_in(op, "weight"))) return false;
    if (mil_conv_read(op, c, NULL) || c->spatial != 2 || c->out[0] * c->out[1] < 2 || c->n < 1) return false;
    if (c->in[0] < 2 || c->in[1] < 2 || c->kernel[0] * c->kernel[1] > MOST_TAPS) return false;
    if (c->groups == 1) return c->c_out >= LEAST_CHANNELS && c->c_in > 0;
    return c->groups == c->c_in && c->c_out == c->c_in && c->c_out >= LEAST_CHANNELS;
}

bool cpu_plan_is_image_pool(const mil_op *op, mil_conv *c) {
    if (op->info->code != MIL_OP_max_pool && op->info->code != MIL_OP_avg_pool) return false;
    return op->results[0]->type.dtype == MIL_fp32 && !mil_pool_read(op, c, NULL) && c->spatial == 2;
}
