/* SPDX-License-Identifier: MIT
 * Depthwise convolution and pooling of images whose channels are neighbours: a task makes some lines of the result with the
 * line kernels of conv_ukernel.h. Padding is not stored: the kernel leaves out the taps that lie outside.
 */
#include <math.h>

#include "drivers/cpu/conv/conv_layers.h"

enum { TASKS_A_THREAD = 8 };

typedef struct window_args {
    cpu_conv_window w;
    int64_t lines, task_lines;
} window_args;

typedef struct window_call {
    const window_args *a;
    cpu_conv_window_call w;
} window_call;

void cpu_conv_window_line(const cpu_conv_window_call *call, int64_t image, int64_t h) {
    const cpu_conv_window *a = call->a;
    const mil_conv *c = &a->c;
    const int64_t first = h * c->stride[0] - c->before[0];
    cpu_conv_line l = {.x = call->x + image * a->x_image + first * a->x_line,
                       .row = c->dilation[0] * a->x_line,
                       .col = a->x_col,
                       .step = c->stride[1],
                       .dilation = c->dilation[1],
                       .in = c->in[1],
                       .before = c->before[1],
                       .kernel = c->kernel[1],
                       .to = c->kernel[0],
                       .w = call->w,
                       .bias = call->bias,
                       .w_row = a->w_row,
                       .parts = a->parts ? a->parts + h * c->out[1] : NULL,
                       .y = call->y + image * a->y_image + h * a->y_line,
                       .y_col = a->y_col,
                       .count = c->out[1],
                       .channels = call->channels,
                       .finish = &a->end.finish};
    while (l.from < l.to && first + l.from * c->dilation[0] < 0) l.from++;
    while (l.to > l.from && first + (l.to - 1) * c->dilation[0] >= c->in[0]) l.to--;
    a->k->line[a->kind](&l);
    cpu_conv_map(&a->end, l.y, a->y_col, c->out[1], call->channels);
}

static void task_lines(void *context, int task, int worker) {
    const window_call *call = context;
    const window_args *a = call->a;
    const int64_t from = task * a->task_lines, to = from + a->task_lines < a->lines ? from + a->task_lines : a->lines;
    const int64_t lines = a->w.c.out[0];
    (void)worker;
    for (int64_t line = from; line < to; line++) cpu_conv_window_line(&call->w, line / lines, line % lines);
}

cpu_conv_window_call cpu_conv_window_at(const cpu_run *run, const cpu_conv_window *a) {
    return (cpu_conv_window_call){.a = a,
                                  .w = a->kind == CPU_CONV_WEIGHTS ? cpu_ref_at(run, a->w) : NULL,
                                  .bias = cpu_conv_bias(run, &a->end),
                                  .channels = a->c.c_out};
}

static propane_status window_run(const cpu_run *run, const void *args, propane_error *err) {
    const window_args *a = args;
    window_call call = {a, cpu_conv_window_at(run, &a->w)};
    (void)err;
    call.w.x = cpu_ref_at(run, a->w.x);
    call.w.y = cpu_ref_at(run, a->w.y);
    cpu_run_parallel(run, task_lines, &call, (int)((a->lines + a->task_lines - 1) / a->task_lines));
    return PROPANE_OK;
}

static propane_status emit(planner *p, window_args *b, const mil_value *x, const mil_value *result,
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
    b->task_lines = (b->lines + TASKS_A_THREAD * p->threads - 1) / (TASKS_A_THREAD * p->threads);
    a->x = cpu_view_ref(&from);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, from.buffer);
    cpu_emit_touch(p, at.buffer);
    if (a->kind == CPU_CONV_WEIGHTS) cpu_emit_touch(p, a->w.buffer);
    if (a->end.has_bias) cpu_emit_touch(p, a->end.bias.buffer);
    const double taps = (double)(c->kernel[0] * c->kernel[1]);
    PROPANE_TRY(cpu_emit_step(p, window_run, b, a->kind == CPU_CONV_WEIGHTS ? "depthwise" : "pool", result,
                              2 * taps * (double)mil_type_count(&result->type), 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, result, &at, &y, err);
}

propane_status cpu_conv_plan_depthwise(planner *p, const cpu_fused_conv *l, cpu_conv_window *a, propane_error *err) {
    PROPANE_TRY(mil_conv_read(l->op, &a->c, err));
    a->k = &p->g.options.kernels->conv;
    a->kind = CPU_CONV_WEIGHTS;
    const int64_t channels = a->c.c_out, taps = a->c.kernel[0] * a->c.kernel[1];
    const float *w = mil_in(l->op, "weight")->konst->data;
    float *to;
    a->w_row = (channels + a->k->lanes - 1) / a->k->lanes * a->k->lanes;
    PROPANE_TRY(cpu_emit_constant(p, taps * a->w_row, &to, &a->w, err));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < taps; t++) to[t * a->w_row + c] = w[c * taps + t];
    return cpu_conv_plan_end(p, l, channels, a->k->lanes, &a->end, err);
}

propane_status cpu_conv_emit_depthwise(planner *p, const cpu_fused_conv *l, propane_error *err) {
    window_args *a = ARENA_NEW(p->arena, window_args);
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_conv_plan_depthwise(p, l, &a->w, err));
    return emit(p, a, l->x, l->result, err);
}

/* How many elements of a window along dimension d count. */
static int64_t counted(const mil_conv *c, bool exclude, int d, int64_t at) {
    const int64_t begin = at * c->stride[d] - c->before[d], end = begin + c->kernel[d], all = c->in[d] + c->after[d];
    if (!exclude) return (end < all ? end : all) - begin;
    return (end < c->in[d] ? end : c->in[d]) - (begin < 0 ? 0 : begin);
}

propane_status cpu_conv_emit_pool(planner *p, const mil_op *op, propane_error *err) {
    window_args *b = ARENA_NEW(p->arena, window_args);
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
                *parts++ = (float)(counted(c, exclude, 0, i) * counted(c, exclude, 1, j));
    }
    return emit(p, b, mil_in(op, "x"), op->results[0], err);
}
