/* SPDX-License-Identifier: MIT
 * Emits operations that change the layout. Reshapes, transposes, slices and splits are views and cost nothing. The
 * parts of concat and stack are computed in place, and copied only if a part already has another place. tile, reverse
 * and pad copy.
 */
#include <string.h>

#include "core/base/pool.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/loop_box.h"
#include "cpu/loop/strided_copy.h"
#include "cpu/ops/emitters.h"
#include "cpu/plan/facts.h"

/* ---- views ------------------------------------------------------------------------------------------------------- */

static bool emit_layout_view_of(const mil_op *op, int result, const cpu_view *source, cpu_view *out) {
    const mil_type *type = &op->results[result]->type;
    *out = *source;
    if (type->container == MIL_LIST) return true; /* identity */
    if (cpu_plan_keeps_order(op)) return cpu_view_reshape(source, type->rank, type->dim, out);
    if (op->info->code == MIL_OP_transpose) {
        int perm[MIL_MAX_RANK];
        if (mil_attr_perm(op, perm, NULL)) return false;
        *out = cpu_view_permute(source, perm);
        return true;
    }
    if (op->info->code == MIL_OP_split) {
        mil_split *s = &(mil_split){0};
        if (mil_split_read(op, s, NULL)) return false;
        *out = cpu_view_part(source, s->axis, s->begin[result], s->size[result]);
        return true;
    }
    mil_slice s;
    if (mil_slice_read(op, &s, NULL)) return false;
    *out = *source;
    out->rank = 0;
    for (int d = 0; d < s.rank; d++) {
        out->offset += s.begin[d] * source->stride[d];
        if (s.squeeze[d]) continue;
        out->dim[out->rank] = s.count[d];
        out->stride[out->rank++] = s.step[d] * source->stride[d];
    }
    return true;
}

static bool emit_layout_view_back(const mil_op *op, const cpu_view *target, cpu_view *out) {
    const mil_type *type = &op->operands[0].values[0]->type;
    *out = *target;
    if (type->container == MIL_LIST) return true;
    if (cpu_plan_keeps_order(op)) return cpu_view_reshape(target, type->rank, type->dim, out);
    if (op->info->code != MIL_OP_transpose) return false;
    int perm[MIL_MAX_RANK], back[MIL_MAX_RANK];
    if (mil_attr_perm(op, perm, NULL)) return false;
    for (int d = 0; d < target->rank; d++) back[perm[d]] = d;
    *out = cpu_view_permute(target, back);
    return true;
}

const cpu_emitter cpu_emitter_view = {.view = emit_layout_view_of, .unview = emit_layout_view_back};

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static bool emit_layout_takes_concat(const mil_op *op) {
    bool interleave = false;
    if (cpu_view_dtype_bytes(op->results[0]->type.dtype) < 1 || mil_dtype_get(op->results[0]->type.dtype)->bits < 8)
        return false;
    if (op->info->code == MIL_OP_stack) return true;
    return !mil_attr_bool(op, "interleave", &interleave, NULL) && !interleave;
}

/* Copies the parts that were not computed in their slice of the result. */
static propane_status emit_concat(planner *p, const mil_op *op, propane_error *err) {
    const mil_value *whole = op->results[0];
    mil_value *const *parts;
    int count = mil_in_list(op, "values", &parts);
    int64_t axis, at = 0;
    bool stacked = op->info->code == MIL_OP_stack || !parts[0]->type.rank; /* including scalars */
    cpu_view target;
    PROPANE_TRY(mil_attr_int(op, "axis", &axis, err));
    if (axis < 0) axis += whole->type.rank;
    PROPANE_TRY(cpu_emit_result(p, whole, &target, err));
    for (int i = 0; i < count; i++) {
        int64_t size = stacked ? 1 : parts[i]->type.dim[axis];
        cpu_view part = cpu_view_part(&target, (int)axis, at, size), have;
        if (stacked) part = cpu_view_drop(&part, (int)axis);
        PROPANE_TRY(cpu_emit_operand(p, parts[i], &have, err));
        if (!cpu_view_equal(&have, &part)) PROPANE_TRY(cpu_emit_copy(p, whole, &have, &part, err));
        at += size;
    }
    return PROPANE_OK;
}

const cpu_emitter cpu_emitter_concat = {.emit = emit_concat, .takes = emit_layout_takes_concat};

/* Emits tile as one copy: [d, e] becomes [r, d, s, e] with stride 0 along the repetitions. */
static propane_status emit_repeat(planner *p, const mil_op *op, propane_error *err) {
    cpu_view x, y, from = {0}, to = {0};
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &y, err));
    from = x;
    to = y;
    from.rank = to.rank = 0;
    for (int d = 0; d < x.rank; d++) {
        int64_t reps = x.dim[d] ? y.dim[d] / x.dim[d] : 0;
        from.dim[from.rank] = to.dim[to.rank] = reps;
        from.stride[from.rank++] = 0;
        to.stride[to.rank++] = y.stride[d] * x.dim[d];
        from.dim[from.rank] = to.dim[to.rank] = x.dim[d];
        from.stride[from.rank++] = x.stride[d];
        to.stride[to.rank++] = y.stride[d];
    }
    return cpu_emit_copy(p, op->results[0], &from, &to, err);
}

static propane_status emit_reverse(planner *p, const mil_op *op, propane_error *err) {
    cpu_view x, y;
    bool member[MIL_MAX_RANK];
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &y, err));
    PROPANE_TRY(mil_attr_axes(op, "axes", x.rank, member, err));
    for (int d = 0; d < x.rank; d++)
        if (member[d] && x.dim[d]) {
            x.offset += (x.dim[d] - 1) * x.stride[d];
            x.stride[d] = -x.stride[d];
        }
    return cpu_emit_copy(p, op->results[0], &x, &y, err);
}

/* Emits pad as two copies: the whole result from one element, and then the inside from x. */
static propane_status emit_pad(planner *p, const mil_op *op, propane_error *err) {
    mil_pad pad;
    cpu_view x, y, one;
    PROPANE_TRY(mil_pad_read(op, &pad, err));
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_result(p, op->results[0], &y, err));
    void *value = arena_alloc(p->work, 16);
    int b = cpu_emit_buffer(p, CPU_STORAGE_CONST, cpu_view_dtype_bytes(x.dtype));
    if (!value || b < 0) return cpu_program_no_memory(err);
    mil_pack_f64(value, x.dtype, &pad.value, 1);
    p->buffers[b].data = value;
    one = y;
    one.buffer = b;
    one.offset = 0;
    memset(one.stride, 0, sizeof one.stride);
    PROPANE_TRY(cpu_emit_copy(p, op->results[0], &one, &y, err));
    for (int d = 0; d < y.rank; d++) y = cpu_view_part(&y, d, pad.before[d], x.dim[d]);
    return cpu_emit_copy(p, op->results[0], &x, &y, err);
}

/* Returns true if two copies suffice: the inside is one box, and the frame one value. */
static bool emit_layout_is_framed(const mil_op *op) {
    mil_pad pad;
    if (mil_pad_read(op, &pad, NULL) || pad.mode != MIL_PAD_CONSTANT) return false;
    for (int d = 0; d < op->results[0]->type.rank; d++)
        if (pad.before[d] < 0 || pad.after[d] < 0) return false;
    return true;
}

static propane_status emit_copy(planner *p, const mil_op *op, propane_error *err) {
    if (op->info->code == MIL_OP_tile) return emit_repeat(p, op, err);
    if (op->info->code == MIL_OP_reverse) return emit_reverse(p, op, err);
    return emit_layout_is_framed(op) ? emit_pad(p, op, err) : cpu_emit_spread(p, op, err);
}

static bool emit_layout_takes_copy(const mil_op *op) {
    if (mil_dtype_get(op->results[0]->type.dtype)->bits < 8) return false;
    if (op->info->code == MIL_OP_tile) return mil_in(op, "x")->type.rank * 2 <= MIL_MAX_RANK;
    return true;
}

const cpu_emitter cpu_emitter_copy = {.emit = emit_copy, .takes = emit_layout_takes_copy};
