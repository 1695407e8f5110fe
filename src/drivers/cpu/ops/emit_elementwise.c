/* SPDX-License-Identifier: MIT
 * Rows that may become part of a tile program: elementwise operations, casts, reductions, softmax. What they compute is in
 * elementwise_program.c; here is which of them the tiles take. Arithmetic on integers goes to the reference: tiles are fp32.
 */
#include "drivers/cpu/loop/loop_box.h"
#include "drivers/cpu/plan/table.h"
#include "drivers/cpu/signed_rows.h"
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

/* A reduction over no axis at all (a scalar's) has no place in a tile. */
static bool takes_reduce(const mil_op *op) { return takes_floats(op) && mil_in(op, "x")->type.rank > 0; }

const cpu_emitter cpu_emitter_map = {.tile = takes_floats};
const cpu_emitter cpu_emitter_select = {.tile = takes_floats};
const cpu_emitter cpu_emitter_gelu = {.tile = takes_floats};
const cpu_emitter cpu_emitter_cast = {.tile = takes_cast};
const cpu_emitter cpu_emitter_reduce = {.tile = takes_reduce};
const cpu_emitter cpu_emitter_softmax = {.tile = takes_reduce};
const cpu_emitter cpu_emitter_pick = {.tile = cpu_signed_rows_is};
