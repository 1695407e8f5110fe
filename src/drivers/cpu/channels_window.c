/* SPDX-License-Identifier: MIT
 * Depthwise convolution and pooling of images whose channels are neighbours: a task makes some lines of the result with the
 * line kernels of channels.h. Padding is not stored: the kernel leaves out the taps that lie outside.
 */
#include <math.h>

#include "drivers/cpu/plan_channels.h"

enum { TASKS_A_THREAD = 8 };

typedef struct window_args {
    mil_conv c;
    const cpu_channels_kernels *k;
    cpu_channels_kind kind;
    int64_t x_image, x_line, x_col, y_image, y_line, y_col, w_row;
    int64_t lines, task_lines;
    const float *parts; /* average: [out_h][out_w] elements of a window that count; NULL: another kind */
    cpu_channels_finish finish;
    cpu_map_unary map;
    float map_p, map_q;
    bool has_bias;
    cpu_plan_ref x, y, w, bias;
} window_args;

typedef struct window_call {
    const window_args *a;
    const float *x, *w, *bias;
    float *y;
} window_call;

static void task_lines(void *context, int task, int worker) {
    const window_call *call = context;
    const window_args *a = call->a;
    const mil_conv *c = &a->c;
    const int64_t from = task * a->task_lines, to = from + a->task_lines < a->lines ? from + a->task_lines : a->lines;
    cpu_channels_line l = {.row = c->dilation[0] * a->x_line,
                           .col = a->x_col,
                           .step = c->stride[1],
                           .dilation = c->dilation[1],
                           .in = c->in[1],
                           .before = c->before[1],
                           .kernel = c->kernel[1],
                           .w = call->w,
                           .bias = call->bias,
                           .w_row = a->w_row,
                           .y_col = a->y_col,
                           .count = c->out[1],
                           .channels = c->c_out,
                           .finish = &a->finish};
    (void)worker;
    for (int64_t line = from; line < to; line++) {
        const int64_t image = line / c->out[0], h = line % c->out[0], first = h * c->stride[0] - c->before[0];
        l.from = 0, l.to = c->kernel[0];
        while (l.from < l.to && first + l.from * c->dilation[0] < 0) l.from++;
        while (l.to > l.from && first + (l.to - 1) * c->dilation[0] >= c->in[0]) l.to--;
        l.x = call->x + image * a->x_image + first * a->x_line;
        l.y = call->y + image * a->y_image + h * a->y_line;
        if (a->parts) l.parts = a->parts + h * c->out[1];
        a->k->line[a->kind](&l);
        for (int64_t i = 0; i < c->out[1] && a->map; i++)
            a->map(l.y + i * a->y_col, l.y + i * a->y_col, c->c_out, a->map_p, a->map_q);
    }
}

static propane_status window_run(const cpu_run *run, const void *args, propane_error *err) {
    const window_args *a = args;
    window_call call = {a, cpu_plan_at(run, a->x), a->kind == CPU_CHANNELS_WEIGHTS ? cpu_plan_at(run, a->w) : NULL,
                        a->has_bias ? cpu_plan_at(run, a->bias) : NULL, cpu_plan_at(run, a->y)};
    (void)err;
    cpu_plan_parallel(run, task_lines, &call, (int)((a->lines + a->task_lines - 1) / a->task_lines));
    return PROPANE_OK;
}

static propane_status emit(planner *p, window_args *a, const mil_value *x, const mil_value *result,
                           propane_error *err) {
    cpu_view from, y, at;
    const mil_conv *c = &a->c;
    PROPANE_TRY(cpu_plan_operand(p, x, &from, err));
    PROPANE_TRY(cpu_plan_as_channels(p, result, &x->type, &from, err));
    PROPANE_TRY(cpu_plan_channels_result(p, result, &y, &at, err));
    a->x_image = from.stride[0], a->x_line = from.stride[2], a->x_col = from.stride[3];
    a->y_image = at.stride[0], a->y_line = at.stride[2], a->y_col = at.stride[3];
    a->lines = c->n * c->out[0];
    a->task_lines = (a->lines + TASKS_A_THREAD * p->threads - 1) / (TASKS_A_THREAD * p->threads);
    a->x = cpu_view_ref(&from);
    a->y = cpu_view_ref(&at);
    cpu_plan_touch(p, from.buffer);
    cpu_plan_touch(p, at.buffer);
    if (a->kind == CPU_CHANNELS_WEIGHTS) cpu_plan_touch(p, a->w.buffer);
    if (a->has_bias) cpu_plan_touch(p, a->bias.buffer);
    const double taps = (double)(c->kernel[0] * c->kernel[1]);
    PROPANE_TRY(cpu_plan_emit(p, window_run, a, a->kind == CPU_CHANNELS_WEIGHTS ? "depthwise" : "pool", result,
                              2 * taps * (double)mil_type_count(&result->type), 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_plan_copy(p, result, &at, &y, err);
}

propane_status cpu_channels_emit_depthwise(planner *p, const cpu_plan_layer *l, propane_error *err) {
    window_args *a = ARENA_NEW(p->arena, window_args);
    if (!a) return cpu_plan_no_memory(p, err);
    PROPANE_TRY(mil_conv_read(l->op, &a->c, err));
    a->k = cpu_channels_kernels_of(p->options.isa);
    a->kind = CPU_CHANNELS_WEIGHTS;
    a->finish = cpu_plan_finish_of(l);
    if (l->map >= 0) a->map = cpu_map_table_of(p->options.isa)->unary[l->map];
    a->map_p = (float)l->p, a->map_q = (float)l->q;
    const int64_t channels = a->c.c_out, taps = a->c.kernel[0] * a->c.kernel[1];
    const float *w = mil_in(l->op, "weight")->konst->data;
    float *to;
    a->w_row = (channels + a->k->lanes - 1) / a->k->lanes * a->k->lanes;
    PROPANE_TRY(cpu_plan_channels_constant(p, taps * a->w_row, &to, &a->w, err));
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < taps; t++) to[t * a->w_row + c] = w[c * taps + t];
    const mil_value *bias = mil_in(l->op, "bias");
    if (bias) {
        a->has_bias = true;
        PROPANE_TRY(cpu_plan_channels_constant(p, a->w_row, &to, &a->bias, err));
        const int64_t step = mil_type_count(&bias->type) == 1 ? 0 : 1;
        for (int64_t c = 0; c < channels; c++) to[c] = ((const float *)bias->konst->data)[c * step];
    }
    return emit(p, a, mil_in(l->op, "x"), l->result, err);
}

bool cpu_plan_is_image_pool(const mil_op *op, mil_conv *c) {
    if (op->info->code != MIL_OP_max_pool && op->info->code != MIL_OP_avg_pool) return false;
    return op->results[0]->type.dtype == MIL_fp32 && !mil_pool_read(op, c, NULL) && c->spatial == 2;
}

/* How many elements of a window along dimension d count. */
static int64_t counted(const mil_conv *c, bool exclude, int d, int64_t at) {
    const int64_t begin = at * c->stride[d] - c->before[d], end = begin + c->kernel[d], all = c->in[d] + c->after[d];
    if (!exclude) return (end < all ? end : all) - begin;
    return (end < c->in[d] ? end : c->in[d]) - (begin < 0 ? 0 : begin);
}

propane_status cpu_channels_emit_pool(planner *p, const mil_op *op, propane_error *err) {
    window_args *a = ARENA_NEW(p->arena, window_args);
    if (!a) return cpu_plan_no_memory(p, err);
    PROPANE_TRY(mil_pool_read(op, &a->c, err));
    const mil_conv *c = &a->c;
    const cpu_plan_layer plain = {.least = -INFINITY, .low = -INFINITY, .high = INFINITY, .map = -1};
    a->k = cpu_channels_kernels_of(p->options.isa);
    a->kind = op->info->code == MIL_OP_max_pool ? CPU_CHANNELS_MAX : CPU_CHANNELS_SUM;
    a->finish = cpu_plan_finish_of(&plain);
    if (a->kind == CPU_CHANNELS_SUM) {
        bool exclude = false;
        PROPANE_TRY(mil_attr_bool(op, "exclude_padding_from_average", &exclude, err));
        float *parts = ARENA_ARRAY(p->arena, c->out[0] * c->out[1], float);
        if (!parts) return cpu_plan_no_memory(p, err);
        a->parts = parts;
        for (int64_t i = 0; i < c->out[0]; i++)
            for (int64_t j = 0; j < c->out[1]; j++)
                *parts++ = (float)(counted(c, exclude, 0, i) * counted(c, exclude, 1, j));
    }
    return emit(p, a, mil_in(op, "x"), op->results[0], err);
}
