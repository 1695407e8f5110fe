/* SPDX-License-Identifier: MIT
 * Emits slice_update and scatter. The result is the old tensor, in the same memory if that is free, in which one box,
 * or some rows along an axis, are overwritten. The position of the box or rows may be known only when the program runs
 * (positions in a cache of keys and values).
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/ops/emitters.h"
#include "cpu/plan/emit.h"

typedef struct update_args {
    const mil_op *op;
    int rank, element;
    int64_t bytes;
    mil_dtype begin_type, end_type;
    mil_type update;
    cpu_ref x, update_at, begin, end, y;
} update_args;

static propane_status emit_update_read_slice(const cpu_run *run, const update_args *a, mil_slice *s,
                                             propane_error *err) {
    double first[MIL_MAX_RANK], last[MIL_MAX_RANK];
    int64_t end[MIL_MAX_RANK];
    char have[160], wanted[160];
    *s = (mil_slice){.rank = a->rank};
    mil_unpack_f64(first, a->begin_type, cpu_ref_at(run, a->begin), a->rank);
    mil_unpack_f64(last, a->end_type, cpu_ref_at(run, a->end), a->rank);
    for (int d = 0; d < a->rank; d++) s->begin[d] = (int64_t)first[d], end[d] = (int64_t)last[d];
    PROPANE_TRY(mil_slice_resolve(a->op, end, s, err));
    mil_type want = {.dtype = a->update.dtype};
    for (int d = 0; d < s->rank; d++)
        if (!s->squeeze[d]) want.dim[want.rank++] = s->count[d];
    if (mil_shape_equal(&want, &a->update)) return PROPANE_OK;
    return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "update is %s, but begin and end make the slice %s",
                       mil_shape_print(have, &a->update), mil_shape_print(wanted, &want));
}

static propane_status emit_update_run(const cpu_run *run, const void *args, propane_error *err) {
    const update_args *a = args;
    unsigned char *y = cpu_ref_at(run, a->y);
    const unsigned char *from = cpu_ref_at(run, a->update_at);
    int64_t step[MIL_MAX_RANK], lines = 1, length = 1;
    mil_slice s;
    mil_walk w;
    PROPANE_TRY(emit_update_read_slice(run, a, &s, err));
    if (y != cpu_ref_at(run, a->x)) memcpy(y, cpu_ref_at(run, a->x), (size_t)a->bytes);
    const mil_type *x = &mil_in(a->op, "x")->type;
    mil_strides(x, step);
    for (int d = 0; d < s.rank; d++) {
        y += s.begin[d] * step[d] * a->element;
        step[d] *= s.step[d];
    }
    int rank = s.rank; /* complete trailing dimensions form one piece of memory */
    int64_t dense = 1;
    while (rank > 0 && step[rank - 1] == dense && (s.step[rank - 1] == 1)) {
        length *= s.count[rank - 1];
        dense = s.count[rank - 1] == x->dim[rank - 1] ? dense * x->dim[rank - 1] : -1;
        rank--;
    }
    for (int d = 0; d < rank; d++) lines *= s.count[d];
    mil_walk_begin(&w, rank, s.count);
    mil_walk_add(&w, step);
    for (int64_t i = 0; i < lines; i++, mil_walk_next(&w))
        memcpy(y + w.at[0] * a->element, from + i * length * a->element, (size_t)(length * a->element));
    return PROPANE_OK;
}

static propane_status emit_update_dense_operand(planner *p, const mil_op *op, const char *param, cpu_view *out,
                                                propane_error *err) {
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, param), out, err));
    return cpu_emit_dense(p, op->results[0], out, out, err);
}

static propane_status emit_update(planner *p, const mil_op *op, propane_error *err) {
    update_args *a = ARENA_NEW(p->arena, update_args);
    cpu_view x, update, begin, end, y, at;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(emit_update_dense_operand(p, op, "x", &x, err));
    PROPANE_TRY(emit_update_dense_operand(p, op, "update", &update, err));
    PROPANE_TRY(emit_update_dense_operand(p, op, "begin", &begin, err));
    PROPANE_TRY(emit_update_dense_operand(p, op, "end", &end, err));
    PROPANE_TRY(cpu_emit_result_dense(p, op->results[0], &y, &at, err));
    a->op = op;
    a->rank = x.rank;
    a->element = cpu_view_dtype_bytes(x.dtype);
    a->bytes = cpu_view_count(&x) * a->element;
    a->begin_type = begin.dtype, a->end_type = end.dtype;
    a->update = mil_in(op, "update")->type;
    a->x = cpu_view_ref(&x);
    a->update_at = cpu_view_ref(&update);
    a->begin = cpu_view_ref(&begin);
    a->end = cpu_view_ref(&end);
    a->y = cpu_view_ref(&at);
    const cpu_view *all[] = {&x, &update, &begin, &end, &at};
    for (int k = 0; k < 5; k++) cpu_emit_touch(p, all[k]->buffer);
    if (x.buffer != update.buffer && x.buffer != begin.buffer && x.buffer != end.buffer)
        PROPANE_TRY(cpu_emit_may_share(p, &x, &at, err));
    p->program->reference_count++; /* reads its operation when it runs, so the planner's module must stay */
    PROPANE_TRY(cpu_emit_step(p, emit_update_run, a, "update", op->results[0], 0, 2.0 * (double)a->bytes, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, op->results[0], &at, &y, err);
}

static bool emit_update_takes_update(const mil_op *op) { return mil_dtype_get(mil_in(op, "x")->type.dtype)->bits >= 8; }

const cpu_emitter cpu_emitter_update = {.emit = emit_update, .takes = emit_update_takes_update};

/* ---- rows -------------------------------------------------------------------------------------------------------- */

typedef struct rows_args {
    const mil_op *op;
    int64_t bytes, outer, size, picks, row; /* bytes: in total; row: bytes per row */
    mil_dtype index_type;
    cpu_ref x, indices, updates, y;
} rows_args;

static propane_status emit_update_rows_run(const cpu_run *run, const void *args, propane_error *err) {
    const rows_args *a = args;
    unsigned char *y = cpu_ref_at(run, a->y);
    const unsigned char *from = cpu_ref_at(run, a->updates), *indices = cpu_ref_at(run, a->indices);
    if (y != cpu_ref_at(run, a->x)) memcpy(y, cpu_ref_at(run, a->x), (size_t)a->bytes);
    for (int64_t p = 0; p < a->picks; p++) {
        double given;
        mil_unpack_f64(&given, a->index_type, indices + p * cpu_view_dtype_bytes(a->index_type), 1);
        int64_t at = (int64_t)given < 0 ? (int64_t)given + a->size : (int64_t)given;
        if (at < 0 || at >= a->size)
            return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "indices[%lld] is %lld, but the axis has %lld elements",
                               (long long)p, (long long)given, (long long)a->size);
        for (int64_t o = 0; o < a->outer; o++)
            memcpy(y + (o * a->size + at) * a->row, from + (o * a->picks + p) * a->row, (size_t)a->row);
    }
    return PROPANE_OK;
}

/* True if whole rows replace old rows; emit_gather_scatter.c combines old and new values. */
static bool emit_update_is_rows(const mil_op *op) {
    mil_scatter_mode mode;
    return mil_scatter_mode_read(op, &mode, NULL) == PROPANE_OK && mode == MIL_SCATTER_UPDATE &&
           mil_dtype_get(mil_in(op, "data")->type.dtype)->bits >= 8 &&
           mil_in(op, "updates")->type.dtype == mil_in(op, "data")->type.dtype;
}

static propane_status emit_rows(planner *p, const mil_op *op, propane_error *err) {
    rows_args *a = ARENA_NEW(p->arena, rows_args);
    cpu_view x, indices, updates, y, at;
    int axis = 0;
    if (!emit_update_is_rows(op)) return cpu_emit_scatter(p, op, err);
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(emit_update_dense_operand(p, op, "data", &x, err));
    PROPANE_TRY(emit_update_dense_operand(p, op, "indices", &indices, err));
    PROPANE_TRY(emit_update_dense_operand(p, op, "updates", &updates, err));
    PROPANE_TRY(cpu_emit_result_dense(p, op->results[0], &y, &at, err));
    PROPANE_TRY(mil_attr_axis(op, "axis", x.rank, &axis, err));
    *a = (rows_args){.op = op,
                     .outer = 1,
                     .size = x.dim[axis],
                     .picks = cpu_view_count(&indices),
                     .row = cpu_view_dtype_bytes(x.dtype),
                     .index_type = indices.dtype};
    a->bytes = cpu_view_count(&x) * a->row;
    for (int d = 0; d < axis; d++) a->outer *= x.dim[d];
    for (int d = axis + 1; d < x.rank; d++) a->row *= x.dim[d];
    a->x = cpu_view_ref(&x);
    a->indices = cpu_view_ref(&indices);
    a->updates = cpu_view_ref(&updates);
    a->y = cpu_view_ref(&at);
    const cpu_view *all[] = {&x, &indices, &updates, &at};
    for (int k = 0; k < 4; k++) cpu_emit_touch(p, all[k]->buffer);
    if (x.buffer != updates.buffer && x.buffer != indices.buffer) PROPANE_TRY(cpu_emit_may_share(p, &x, &at, err));
    p->program->reference_count++; /* names its operation in messages, so the planner's module must stay */
    PROPANE_TRY(cpu_emit_step(p, emit_update_rows_run, a, "update", op->results[0], 0,
                              2.0 * (double)a->picks * (double)a->row, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, op->results[0], &at, &y, err);
}

static bool emit_update_takes_rows(const mil_op *op) { return emit_update_is_rows(op) || cpu_emit_takes_scatter(op); }

const cpu_emitter cpu_emitter_rows = {.emit = emit_rows, .takes = emit_update_takes_rows};
