/* SPDX-License-Identifier: MIT
 * Emits a convolution, the depthwise convolution after it and what comes next (fuse/fuse_bottleneck.c) as a step of
 * conv/conv_bottleneck.c. Lays out the layers' images in a thread's memory.
 */
#include "core/base/int_math.h"
#include "cpu/ops/emit_conv_nhwc.h"

/* Returns the view of an image in thread memory. Only its strides are used. */
static cpu_view emit_conv_bottleneck_lines_of(int64_t line, int64_t col, const mil_type *type) {
    cpu_view v = cpu_view_dense(type, -1);
    v.stride[0] = 0;
    v.stride[1] = 1;
    v.stride[2] = line;
    v.stride[3] = col;
    return v;
}

static propane_status emit_conv_bottleneck_plan_last(planner *p, const cpu_fused_conv *l, const cpu_view *mid,
                                                     const cpu_view *y, cpu_conv_bottleneck_step *a,
                                                     propane_error *err) {
    cpu_view other;
    mil_conv c;
    PROPANE_TRY(mil_conv_read(l->last->op, &c, err));
    const cpu_view x = emit_conv_bottleneck_lines_of(a->out_line, a->channels, &l->result->type);
    a->last_adds_first = l->last->other == l->first->result;
    if (a->last_adds_first) {
        other = *mid;
    } else if (l->last->other) {
        PROPANE_TRY(cpu_emit_operand(p, l->last->other, &other, err));
        PROPANE_TRY(cpu_emit_channels(p, l->last->result, &l->last->other->type, &other, err));
    }
    PROPANE_TRY(cpu_conv_plan_direct(p, l->last, &c, &x, l->last->other ? &other : NULL, y, &a->last, err));
    a->last.a_image = 0;
    a->has_last = true;
    if (a->last_adds_first) a->last.has_other = false;
    if (!a->last.has_other) return PROPANE_OK;
    a->last.other = cpu_view_ref(&other);
    cpu_emit_touch(p, other.buffer);
    return PROPANE_OK;
}

propane_status cpu_conv_emit_bottleneck(planner *p, const cpu_fused_conv *l, propane_error *err) {
    cpu_conv_bottleneck_step *a = ARENA_NEW(p->arena, cpu_conv_bottleneck_step);
    const cpu_conv_kernels *k = &p->g.options.kernels->conv;
    const mil_value *result = l->last ? l->last->result : l->result;
    cpu_view x, y, at, mean, mean_at;
    mil_conv first;
    cpu_conv_bands d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_conv_read(l->first->op, &first, err));
    PROPANE_TRY(cpu_emit_operand(p, l->first->x, &x, err));
    PROPANE_TRY(cpu_emit_result_channels(p, result, &y, &at, err));
    PROPANE_TRY(cpu_conv_plan_depthwise(p, l, &a->window, err));
    mil_conv *c = &a->window.c;
    a->channels = c->c_out;
    a->mid_before = c->before[1];
    (void)cpu_conv_bottleneck_divide(k, &first, c, l->last != NULL, p->threads, &d);
    a->mid_col = min_i64(d.chunk_panels * k->width, a->window.w_row);
    a->mid_line = (c->before[1] + c->in[1] + c->after[1]) * a->mid_col;
    a->out_line = c->out[1] * a->channels;
    const cpu_view mid = emit_conv_bottleneck_lines_of(a->mid_line, a->mid_col, &l->first->result->type);
    PROPANE_TRY(cpu_conv_plan_direct(p, l->first, &first, &x, NULL, &mid, &a->first, err));
    if (a->first.copied) {
        a->plane_floats = ((d.mid_lines - 1) * first.stride[0] + a->first.reach_h) * a->first.plane_w * a->first.pitch;
        a->plane_floats = div_up(a->plane_floats, 16) * 16;
    }
    if (l->last) PROPANE_TRY(emit_conv_bottleneck_plan_last(p, l, &mid, &at, a, err));
    a->band_lines = d.band_lines, a->bands = d.bands, a->chunk_panels = d.chunk_panels, a->chunks = d.chunks;
    a->mid_floats = div_up(d.mid_lines * a->mid_line, 16) * 16;
    a->out_floats = l->last ? div_up(d.band_lines * a->out_line, 16) * 16 : 0;
    a->window.x_image = 0, a->window.x_line = a->mid_line, a->window.x_col = a->mid_col;
    c->in[1] += c->before[1] + c->after[1];
    c->before[1] = c->after[1] = 0;
    a->window.y_image = l->last ? 0 : at.stride[0];
    a->window.y_line = l->last ? a->out_line : at.stride[2];
    a->window.y_col = l->last ? a->channels : at.stride[3];
    if (l->mean) {
        PROPANE_TRY(cpu_emit_result_dense(p, l->mean, &mean, &mean_at, err));
        a->has_mean = true;
        a->count = (float)(c->out[0] * c->out[1]);
        a->mean = cpu_view_ref(&mean_at);
        cpu_emit_touch(p, mean_at.buffer);
        PROPANE_TRY(cpu_emit_scratch(p, c->n * c->out[0] * a->channels * (int64_t)sizeof(float), &a->sums, err));
    }
    a->x = cpu_view_ref(&x);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, x.buffer);
    cpu_emit_touch(p, at.buffer);
    PROPANE_TRY(cpu_emit_scratch(
        p, p->threads * (a->plane_floats + a->mid_floats + a->out_floats) * (int64_t)sizeof(float), &a->scratch, err));
    double flops = cpu_conv_flops(&first) + cpu_conv_flops(c);
    if (l->last) flops += 2.0 * (double)mil_type_count(&result->type) * (double)a->channels;
    PROPANE_TRY(cpu_emit_step(p, cpu_conv_bottleneck_run, a,
                              l->last   ? "conv+depthwise+conv"
                              : l->mean ? "conv+depthwise+mean"
                                        : "conv+depthwise",
                              result, flops, 0, err));
    if (l->mean && !cpu_view_equal(&mean, &mean_at)) PROPANE_TRY(cpu_emit_copy(p, l->mean, &mean_at, &mean, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, result, &at, &y, err);
}
