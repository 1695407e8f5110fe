/* SPDX-License-Identifier: MIT
 * Owns the memory of values, the list of steps, and copies.
 */
#include "cpu/plan/emit.h"

#include <assert.h>
#include <string.h>

#include "core/base/array.h"
#include "cpu/loop/strided_copy.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

int cpu_emit_buffer(planner *p, cpu_storage place, int64_t bytes) {
    cpu_buffer *buffers = ARENA_MORE(p->work, p->buffers, p->buffer_count, NULL);
    if (!buffers) return -1;
    p->buffers = buffers;
    p->buffers[p->buffer_count] =
        (cpu_buffer){.place = place, .bytes = bytes, .first = 1 << 30, .last = -1, .alias = -1};
    return p->buffer_count++;
}

propane_status cpu_emit_constant(planner *p, int64_t floats, float **out, cpu_ref *at, propane_error *err) {
    unsigned char *memory = arena_alloc(p->work, (size_t)floats * sizeof(float) + 64);
    if (!memory) return cpu_program_no_memory(err);
    memory += (64 - (uintptr_t)memory % 64) % 64;
    memset(memory, 0, (size_t)floats * sizeof(float));
    const int b = cpu_emit_buffer(p, CPU_STORAGE_CONST, floats * (int64_t)sizeof(float));
    if (b < 0) return cpu_program_no_memory(err);
    p->buffers[b].data = memory;
    cpu_emit_touch(p, b);
    *out = (float *)(void *)memory;
    *at = (cpu_ref){b, 0};
    return PROPANE_OK;
}

void cpu_emit_touch(planner *p, int buffer) {
    cpu_buffer *b = &p->buffers[buffer];
    if (b->first > p->step_count) b->first = p->step_count;
    b->last = p->step_count;
}

propane_status cpu_emit_scratch(planner *p, int64_t bytes, cpu_ref *out, propane_error *err) {
    int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, bytes ? bytes : 64);
    if (b < 0) return cpu_program_no_memory(err);
    cpu_emit_touch(p, b);
    *out = (cpu_ref){b, 0};
    return PROPANE_OK;
}

propane_status cpu_emit_operand(planner *p, const mil_value *v, cpu_view *out, propane_error *err) {
    *out = p->views[v->id];
    if (out->buffer >= 0) return PROPANE_OK;
    assert(v->constant);
    mil_type type = v->constant->type;
    const mil_dtype_info *info = mil_dtype_get(type.dtype);
    if (!v->constant->data || info->kind == MIL_KIND_STRING || info->bits < 8 || type.container == MIL_LIST)
        return mil_op_fail(p->current, err, PROPANE_ERR_UNSUPPORTED, "the cpu driver cannot read a constant%s of %s",
                           type.container == MIL_LIST ? " list" : "", info->name);
    int b = cpu_emit_buffer(p, CPU_STORAGE_CONST, cpu_view_type_bytes(&type));
    if (b < 0) return cpu_program_no_memory(err);
    p->buffers[b].data = v->constant->data;
    p->views[v->id] = cpu_view_dense(&type, b);
    *out = p->views[v->id];
    return PROPANE_OK;
}

propane_status cpu_emit_result(planner *p, const mil_value *v, cpu_view *out, propane_error *err) {
    if (p->is_placed[v->id]) {
        *out = p->views[v->id] = p->placed[v->id];
        return PROPANE_OK;
    }
    int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_type_bytes(&v->type));
    if (b < 0) return cpu_program_no_memory(err);
    *out = p->views[v->id] = cpu_view_dense(&v->type, b);
    return PROPANE_OK;
}

propane_status cpu_emit_result_dense(planner *p, const mil_value *v, cpu_view *out, cpu_view *at, propane_error *err) {
    PROPANE_TRY(cpu_emit_result(p, v, out, err));
    *at = *out;
    if (cpu_view_is_dense(out)) return PROPANE_OK;
    int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_count(out) * cpu_view_dtype_bytes(out->dtype));
    if (b < 0) return cpu_program_no_memory(err);
    *at = cpu_view_dense(&v->type, b);
    return PROPANE_OK;
}

propane_status cpu_emit_result_channels(planner *p, const mil_value *v, cpu_view *out, cpu_view *at,
                                        propane_error *err) {
    PROPANE_TRY(cpu_emit_result(p, v, out, err));
    *at = *out;
    if (out->stride[1] == 1 || out->dim[1] == 1) return PROPANE_OK;
    const int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, mil_type_count(&v->type) * cpu_view_dtype_bytes(out->dtype));
    if (b < 0) return cpu_program_no_memory(err);
    *at = cpu_view_channels_last(&v->type, b);
    return PROPANE_OK;
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

propane_status cpu_emit_step(planner *p, cpu_step_run run, const void *args, const char *kind, const mil_value *makes,
                             double flops, double bytes, propane_error *err) {
    cpu_step *steps = ARENA_MORE(p->work, p->steps, p->step_count, NULL);
    if (!steps) return cpu_program_no_memory(err);
    p->steps = steps;
    cpu_step *s = &p->steps[p->step_count++];
    *s = (cpu_step){.run = run, .args = args, .kind = kind, .flops = flops, .bytes = bytes};
    s->name = arena_string(p->arena, makes && makes->name ? makes->name : "");
    const char *stage = makes && makes->def ? makes->def->stage : NULL;
    s->stage = stage ? arena_string(p->arena, stage) : NULL;
    return s->name && (!stage || s->stage) ? PROPANE_OK : cpu_program_no_memory(err);
}

propane_status cpu_emit_may_share(planner *p, const cpu_view *from, const cpu_view *to, propane_error *err) {
    if (p->buffers[from->buffer].bytes != p->buffers[to->buffer].bytes) return PROPANE_OK;
    cpu_emit_pair *pairs = ARENA_MORE(p->work, p->pairs, p->pair_count, NULL);
    if (!pairs) return cpu_program_no_memory(err);
    p->pairs = pairs;
    p->pairs[p->pair_count++] = (cpu_emit_pair){p->step_count, from->buffer, to->buffer};
    return PROPANE_OK;
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

propane_status cpu_emit_copy(planner *p, const mil_value *makes, const cpu_view *from, const cpu_view *to,
                             propane_error *err) {
    cpu_copy *c = ARENA_NEW(p->arena, cpu_copy);
    if (!c) return cpu_program_no_memory(err);
    cpu_copy_plan(c, from, to);
    cpu_emit_touch(p, from->buffer);
    cpu_emit_touch(p, to->buffer);
    p->program->copy_count++;
    return cpu_emit_step(p, cpu_copy_run, c, "copy", makes, 0, 2.0 * (double)cpu_view_count(from) * c->element, err);
}

propane_status cpu_emit_dense(planner *p, const mil_value *makes, const cpu_view *v, cpu_view *out,
                              propane_error *err) {
    cpu_view from = *v; /* because `out` may be `v` */
    *out = from;
    if (cpu_view_is_dense(&from)) return PROPANE_OK;
    mil_type type = mil_type_tensor(from.dtype, from.rank, from.dim);
    int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_type_bytes(&type));
    if (b < 0) return cpu_program_no_memory(err);
    *out = cpu_view_dense(&type, b);
    return cpu_emit_copy(p, makes, &from, out, err);
}

propane_status cpu_emit_channels(planner *p, const mil_value *makes, const mil_type *type, cpu_view *v,
                                 propane_error *err) {
    if (v->stride[1] == 1 || v->dim[1] == 1) return PROPANE_OK;
    const int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, mil_type_count(type) * cpu_view_dtype_bytes(type->dtype));
    if (b < 0) return cpu_program_no_memory(err);
    const cpu_view from = *v;
    *v = cpu_view_channels_last(type, b);
    return cpu_emit_copy(p, makes, &from, v, err);
}

/* ---- operations with dense operands and results ------------------------------------------------------------------ */

propane_status cpu_emit_begin(planner *p, const mil_op *op, const char *const *params, cpu_emit_io *d,
                              propane_error *err) {
    *d = (cpu_emit_io){.out_count = op->result_count};
    for (; params[d->in_count]; d->in_count++) {
        const mil_value *v = mil_in(op, params[d->in_count]);
        cpu_view *in = &d->in[d->in_count];
        in->buffer = -1;
        if (!v) continue;
        PROPANE_TRY(cpu_emit_operand(p, v, in, err));
        PROPANE_TRY(cpu_emit_dense(p, op->results[0], in, in, err));
    }
    for (int r = 0; r < op->result_count; r++)
        PROPANE_TRY(cpu_emit_result_dense(p, op->results[r], &d->want[r], &d->out[r], err));
    return PROPANE_OK;
}

propane_status cpu_emit_end(planner *p, const mil_op *op, const cpu_emit_io *d, cpu_step_run run, const void *args,
                            const char *kind, double flops, propane_error *err) {
    double bytes = 0;
    for (int i = 0; i < d->in_count; i++) {
        if (d->in[i].buffer < 0) continue;
        cpu_emit_touch(p, d->in[i].buffer);
        bytes += (double)cpu_view_count(&d->in[i]) * cpu_view_dtype_bytes(d->in[i].dtype);
    }
    for (int r = 0; r < d->out_count; r++) {
        cpu_emit_touch(p, d->out[r].buffer);
        bytes += (double)cpu_view_count(&d->out[r]) * cpu_view_dtype_bytes(d->out[r].dtype);
    }
    PROPANE_TRY(cpu_emit_step(p, run, args, kind, op->results[0], flops, bytes, err));
    for (int r = 0; r < d->out_count; r++)
        if (!cpu_view_equal(&d->out[r], &d->want[r]))
            PROPANE_TRY(cpu_emit_copy(p, op->results[r], &d->out[r], &d->want[r], err));
    return PROPANE_OK;
}

const char *cpu_emit_where(planner *p, const mil_op *op) {
    char where[300];
    return arena_string(p->arena, mil_op_where(where, op));
}
