/* SPDX-License-Identifier: MIT
 * Emits layers with constant weights (fuse_conv.c) as steps of conv/conv.h: what all kinds of layers share,
 * convolutions by minimal filtering, depthwise convolutions and pooling.
 */
#include "cpu/ops/emit_conv_nhwc.h"

#include <math.h>

enum { WINOGRAD_TASKS = 4, WINDOW_TASKS = 8 }; /* per thread */

static cpu_conv_finish cpu_plan_finish_of(const cpu_fused_conv *l) {
    return (cpu_conv_finish){l->swish, (float)l->least, (float)l->p, (float)l->q, (float)l->low, (float)l->high};
}

propane_status cpu_conv_plan_end(planner *p, const cpu_fused_conv *l, int64_t channels, int64_t multiple,
                                 cpu_conv_end *out, propane_error *err) {
    const mil_value *bias = mil_in(l->op, "bias");
    float *to;
    out->finish = cpu_plan_finish_of(l);
    out->map = l->map >= 0 ? p->g.options.kernels->elementwise.unary[l->map] : NULL;
    out->p = (float)l->p, out->q = (float)l->q;
    if (!bias) return PROPANE_OK;
    out->has_bias = true;
    PROPANE_TRY(cpu_emit_constant(p, (channels + multiple - 1) / multiple * multiple, &to, &out->bias, err));
    const int64_t step = mil_type_count(&bias->type) == 1 ? 0 : 1; /* a single value for all is allowed */
    for (int64_t c = 0; c < channels; c++) to[c] = ((const float *)bias->constant->data)[c * step];
    return PROPANE_OK;
}

double cpu_conv_flops(const mil_conv *c) {
    return 2.0 * (double)(c->n * c->out[0] * c->out[1]) * (double)c->c_out * (double)(c->c_in / c->groups) *
           (double)(c->kernel[0] * c->kernel[1]);
}

/* ---- minimal filtering ------------------------------------------------------------------------------------------- */

static propane_status emit_conv_nhwc_pack_winograd(planner *p, cpu_conv_winograd_step *a, const mil_op *op,
                                                   propane_error *err) {
    const int64_t ci = a->c.c_in, width = a->k->width;
    float *to;
    a->panels = (a->c.c_out + width - 1) / width;
    PROPANE_TRY(cpu_emit_constant(p, (CPU_WINOGRAD_SQUARE * a->panels * ci + 64) * width, &to, &a->weights, err));
    cpu_conv_winograd_weights(&a->c, width, mil_in(op, "weight")->constant->data, to);
    return PROPANE_OK;
}

propane_status cpu_conv_emit_winograd(planner *p, const cpu_fused_conv *l, const mil_conv *c, const cpu_view *x,
                                      const cpu_view *other, const cpu_view *y, propane_error *err) {
    cpu_conv_winograd_step *a = ARENA_NEW(p->arena, cpu_conv_winograd_step);
    if (!a) return cpu_program_no_memory(err);
    a->c = *c;
    a->k = &p->g.options.kernels->conv;
    a->tall = (c->out[0] + CPU_WINOGRAD_STEP - 1) / CPU_WINOGRAD_STEP;
    a->wide = (c->out[1] + CPU_WINOGRAD_STEP - 1) / CPU_WINOGRAD_STEP;
    a->tiles = cpu_conv_winograd_tiles(c);
    a->task_tiles = (a->tiles + WINOGRAD_TASKS * p->threads - 1) / (WINOGRAD_TASKS * p->threads);
    a->x_image = x->stride[0], a->x_line = x->stride[2], a->x_col = x->stride[3];
    a->y_image = y->stride[0], a->y_line = y->stride[2], a->y_col = y->stride[3];
    PROPANE_TRY(cpu_conv_plan_end(p, l, c->c_out, a->k->width, &a->end, err));
    PROPANE_TRY(emit_conv_nhwc_pack_winograd(p, a, l->op, err));
    a->x = cpu_view_ref(x);
    a->y = cpu_view_ref(y);
    cpu_emit_touch(p, x->buffer);
    cpu_emit_touch(p, y->buffer);
    if (other) {
        a->has_other = true;
        a->other_image = other->stride[0], a->other_line = other->stride[2], a->other_col = other->stride[3];
        a->other = cpu_view_ref(other);
        cpu_emit_touch(p, other->buffer);
    }
    PROPANE_TRY(cpu_emit_scratch(p, CPU_WINOGRAD_SQUARE * a->tiles * c->c_in * (int64_t)sizeof(float), &a->v, err));
    PROPANE_TRY(cpu_emit_scratch(p, CPU_WINOGRAD_SQUARE * a->tiles * c->c_out * (int64_t)sizeof(float), &a->m, err));
    p->program->gemm_count++;
    return cpu_emit_step(p, cpu_conv_winograd_run, a, "conv", l->result, cpu_conv_flops(c), 0, err);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

static propane_status emit_window(planner *p, cpu_conv_window_step *b, const mil_value *x, const mil_value *result,
                                  propane_error *err) {
    cpu_conv_window *a = &b->w;
    cpu_view from, y, at;
    const mil_conv *c = &a->c;
    PROPANE_TRY(cpu_emit_operand(p, x, &from, err));
    PROPANE_TRY(cpu_emit_channels(p, result, &x->type, &from, err));
    PROPANE_TRY(cpu_emit_result_channels(p, result, &y, &at, err));
    a->x_image = from.stride[0], a->x_line = from.stride[2], a->x_col = from.stride[3];
    a->y_image = at.stride[0], a->y_line = at.stride[2], a->y_col = at.stride[3];
    b->lines = c->n * c->out[0];
    b->task_lines = (b->lines + WINDOW_TASKS * p->threads - 1) / (WINDOW_TASKS * p->threads);
    a->x = cpu_view_ref(&from);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, from.buffer);
    cpu_emit_touch(p, at.buffer);
    if (a->kind == CPU_CONV_WEIGHTS) cpu_emit_touch(p, a->w.buffer);
    if (a->end.has_bias) cpu_emit_touch(p, a->end.bias.buffer);
    const double taps = (double)(c->kernel[0] * c->kernel[1]);
    PROPANE_TRY(cpu_emit_step(p, cpu_conv_window_run, b, a->kind == CPU_CONV_WEIGHTS ? "depthwise" : "pool", result,
                              2 * taps * (double)mil_type_count(&result->type), 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, result, &at, &y, err);
}

propane_status cpu_conv_plan_depthwise(planner *p, const cpu_fused_conv *l, cpu_conv_window *a, propane_error *err) {
    PROPANE_TRY(mil_conv_read(l->op, &a->c, err));
    a->k = &p->g.options.kernels->conv;
    a->kind = CPU_CONV_WEIGHTS;
    const int64_t channels = a->c.c_out, taps = a->c.kernel[0] * a->c.kernel[1];
    const float *w = mil_in(l->op, "weight")->constant->data;
    float *to;
    a->w_row = (channels + a->k->lanes - 1) / a->k->lanes * a->k->lanes;
    PROPANE_TRY(cpu_emit_constant(p, taps * a->w_row, &to, &a->w, err));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < taps; t++) to[t * a->w_row + c] = w[c * taps + t];
    return cpu_conv_plan_end(p, l, channels, a->k->lanes, &a->end, err);
}

propane_status cpu_conv_emit_depthwise(planner *p, const cpu_fused_conv *l, propane_error *err) {
    cpu_conv_window_step *a = ARENA_NEW(p->arena, cpu_conv_window_step);
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_conv_plan_depthwise(p, l, &a->w, err));
    return emit_window(p, a, l->x, l->result, err);
}

/* Returns how many elements of window `at` count along dimension d. */
static int64_t emit_conv_nhwc_counted(const mil_conv *c, bool exclude, int d, int64_t at) {
    const int64_t begin = at * c->stride[d] - c->before[d], end = begin + c->kernel[d], all = c->in[d] + c->after[d];
    if (!exclude) return (end < all ? end : all) - begin;
    return (end < c->in[d] ? end : c->in[d]) - (begin < 0 ? 0 : begin);
}

propane_status cpu_conv_emit_pool(planner *p, const mil_op *op, propane_error *err) {
    cpu_conv_window_step *b = ARENA_NEW(p->arena, cpu_conv_window_step);
    if (!b) return cpu_program_no_memory(err);
    cpu_conv_window *a = &b->w;
    PROPANE_TRY(mil_pool_read(op, &a->c, err));
    const mil_conv *c = &a->c;
    const cpu_fused_conv plain = {.least = -INFINITY, .low = -INFINITY, .high = INFINITY, .map = -1};
    a->k = &p->g.options.kernels->conv;
    a->kind = op->info->code == MIL_OP_max_pool ? CPU_CONV_MAX : CPU_CONV_SUM;
    a->end.finish = cpu_plan_finish_of(&plain);
    if (a->kind == CPU_CONV_SUM) {
        bool exclude = false;
        PROPANE_TRY(mil_attr_bool(op, "exclude_padding_from_average", &exclude, err));
        float *parts = ARENA_ARRAY(p->arena, c->out[0] * c->out[1], float);
        if (!parts) return cpu_program_no_memory(err);
        a->parts = parts;
        for (int64_t i = 0; i < c->out[0]; i++)
            for (int64_t j = 0; j < c->out[1]; j++)
                *parts++ = (float)(emit_conv_nhwc_counted(c, exclude, 0, i) * emit_conv_nhwc_counted(c, exclude, 1, j));
    }
    return emit_window(p, b, mil_in(op, "x"), op->results[0], err);
}
