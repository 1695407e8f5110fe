/* SPDX-License-Identifier: MIT
 * Rows that may become part of a tile program: elementwise operations, casts, reductions, softmax. What they compute is in
 * elementwise_program.c; here is which of them the tiles take. Arithmetic on integers goes to the reference: tiles are fp32.
 */
#include "drivers/cpu/loop/loop_box.h"
#include "mil/ops/shape_util.h"

static bool loop_float(const mil_value *v) {
    return v->type.dtype == MIL_fp32 || v->type.dtype == MIL_fp16 || v->type.dtype == MIL_bool;
}

static bool takes_floats(const mil_op *op) {
    if (op->result_count != 1 || !loop_float(op->results[0])) return false;
    for (int k = 0; k < op->info->param_count; k++)
        for (int j = 0; j < op->operands[k].count; j++) {
            const mil_value *v = op->operands[k].values[j];
            mil_class c = op->info->params[k].klass;
            bool tensor = c == MIL_CLASS_FLOAT || c == MIL_CLASS_NUM || c == MIL_CLASS_BOOL || c == MIL_CLASS_TENSOR;
            if (tensor && !loop_float(v)) return false;
        }
    return true;
}

static bool takes_cast(const mil_op *op) {
    mil_dtype from = mil_in(op, "x")->type.dtype, to = op->results[0]->type.dtype;
    if (!cpu_loop_dtype(from) || !cpu_loop_dtype(to)) return false;
    return mil_dtype_is_float(from) || mil_dtype_is_float(to) || from == MIL_bool || to == MIL_bool;
}

unsigned cpu_plan_tile_axes(const mil_op *op) {
    const cpu_plan_binding *b = cpu_plan_binding_of(op);
    if (b != &cpu_bind_softmax && b != &cpu_bind_reduce) return 0;
    int rank = mil_in(op, "x")->type.rank;
    if (b == &cpu_bind_softmax) {
        int axis = 0;
        return mil_attr_axis(op, "axis", rank, &axis, NULL) ? 0 : 1u << axis;
    }
    bool member[MIL_MAX_RANK] = {false};
    unsigned axes = 0;
    if (mil_attr_axes(op, "axes", rank, member, NULL)) return 0;
    for (int d = 0; d < rank; d++) axes |= (unsigned)member[d] << d;
    return axes;
}

/* A reduction over no axis at all (a scalar's) has no place in a tile. */
static bool takes_reduce(const mil_op *op) { return takes_floats(op) && mil_in(op, "x")->type.rank > 0; }

const cpu_plan_binding cpu_bind_map = {.tile = takes_floats};
const cpu_plan_binding cpu_bind_select = {.tile = takes_floats};
const cpu_plan_binding cpu_bind_gelu = {.tile = takes_floats};
const cpu_plan_binding cpu_bind_cast = {.tile = takes_cast};
const cpu_plan_binding cpu_bind_reduce = {.tile = takes_reduce};
const cpu_plan_binding cpu_bind_softmax = {.tile = takes_reduce};
