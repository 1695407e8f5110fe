/* SPDX-License-Identifier: MIT
 * Emits depthwise convolution and pooling. A task handles one plane, which is copied into the worker's memory with its
 * padding. For strides above 1, the columns are sorted by their position in the stride, so that the elements that one
 * tap reads for adjacent results are adjacent too. Then lines of results are computed 16 at a time, with one load per
 * tap and no edge cases.
 */
#include "cpu/ops/emit_depthwise_pool.h"

#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "cpu/conv/conv_window.h"
#include "cpu/ops/emit_conv_nhwc.h"

enum { LANES = CPU_WINDOW_LANES, MAX_TAPS = 1024 };

/* ---- a plane ----------------------------------------------------------------------------------------------------- */

typedef struct window_args {
    mil_conv c; /* with three dimensions; missing ones are added in front */
    cpu_window_plane plane;
    cpu_window_kind kind;
    void (*line)(float *out, int64_t blocks, const float *const *taps, const float *weights, int64_t count,
                 float start);
    bool exclude, average; /* average pooling; exclude: without the padding */
    bool half, half_bias, has_bias;
    mil_dtype w_type;
    int64_t taps, pixels, points;
    int64_t blocks, bias_stride;
    int64_t worker_floats;
    cpu_ref x, w, y, bias, scratch;
} window_args;

typedef struct window_call {
    const window_args *a;
    const void *x, *w, *bias;
    void *y;
    unsigned char *scratch;
} window_call;

static float emit_depthwise_number_at(const void *data, bool half, int64_t i) {
    if (!half) return ((const float *)data)[i];
    return fp16_to_f32(((const uint16_t *)data)[i]);
}

/* Returns how many elements of window `at` count along dimension d. */
static int64_t emit_depthwise_counted(const window_args *a, int d, int64_t at) {
    const mil_conv *c = &a->c;
    const int64_t begin = at * c->stride[d] - c->before[d], end = begin + c->kernel[d];
    const int64_t padded = c->in[d] + c->after[d];
    if (!a->exclude) return (end < padded ? end : padded) - begin;
    return (end < c->in[d] ? end : c->in[d]) - (begin < 0 ? 0 : begin);
}

static void emit_depthwise_write_line(const window_args *a, const float *from, void *y, int64_t offset) {
    const int64_t count = a->c.out[2];
    if (!a->half) {
        memcpy((float *)y + offset, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++) ((uint16_t *)y)[offset + i] = fp16_from_f32(from[i]);
}

static void emit_depthwise_finish_line(const window_args *a, float *line, int64_t z, int64_t y) {
    if (a->kind == CPU_WINDOW_SQUARES)
        for (int64_t i = 0; i < a->c.out[2]; i++) line[i] = sqrtf(line[i]);
    if (!a->average) return;
    const int64_t rest = emit_depthwise_counted(a, 0, z) * emit_depthwise_counted(a, 1, y);
    for (int64_t i = 0; i < a->c.out[2]; i++) line[i] /= (float)(rest * emit_depthwise_counted(a, 2, i));
}

static void emit_depthwise_task_plane(void *context, int task, int worker) {
    const window_call *call = context;
    const window_args *a = call->a;
    const mil_conv *c = &a->c;
    float *plane = (float *)(void *)(call->scratch + (size_t)worker * (size_t)a->worker_floats * sizeof(float));
    float *line = plane + a->plane.floats, *weights = line + a->blocks * LANES;
    const float *taps[MAX_TAPS];
    const int64_t each = c->c_out / c->c_in, size = a->half ? 2 : 4; /* results per plane */
    cpu_window_plane_fill(&a->plane, (const char *)call->x + (int64_t)task * a->pixels * size, a->half,
                          a->kind == CPU_WINDOW_MAX ? -INFINITY : 0.0f, plane);
    for (int64_t k = 0; k < each; k++) {
        const int64_t channel = task % c->c_in * each + k, out = (task / c->c_in * c->c_out + channel) * a->points;
        float start = a->kind == CPU_WINDOW_MAX ? -INFINITY : 0.0f;
        if (a->kind == CPU_WINDOW_WEIGHTS)
            for (int64_t t = 0; t < a->taps; t++)
                weights[t] = emit_depthwise_number_at(call->w, a->w_type == MIL_fp16, channel * a->taps + t);
        if (a->has_bias) start = emit_depthwise_number_at(call->bias, a->half_bias, channel * a->bias_stride);
        for (int64_t z = 0; z < c->out[0]; z++)
            for (int64_t y = 0; y < c->out[1]; y++) {
                int64_t t = 0;
                const float *here = plane + cpu_window_result(&a->plane, z, y, 0);
                for (int64_t k0 = 0; k0 < c->kernel[0]; k0++)
                    for (int64_t k1 = 0; k1 < c->kernel[1]; k1++)
                        for (int64_t k2 = 0; k2 < c->kernel[2]; k2++)
                            taps[t++] = here + cpu_window_tap(&a->plane, k0, k1, k2);
                a->line(line, a->blocks, taps, weights, a->taps, start);
                emit_depthwise_finish_line(a, line, z, y);
                emit_depthwise_write_line(a, line, call->y, out + (z * c->out[1] + y) * c->out[2]);
            }
    }
}

static propane_status emit_depthwise_window_run(const cpu_run *run, const void *args, propane_error *err) {
    const window_args *a = args;
    window_call call = {a,
                        cpu_ref_at(run, a->x),
                        a->kind == CPU_WINDOW_WEIGHTS ? cpu_ref_at(run, a->w) : NULL,
                        a->has_bias ? cpu_ref_at(run, a->bias) : NULL,
                        cpu_ref_at(run, a->y),
                        cpu_ref_at(run, a->scratch)};
    (void)err;
    cpu_run_parallel(run, emit_depthwise_task_plane, &call, (int)(a->c.n * a->c.c_in));
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static bool emit_depthwise_small_enough(const mil_conv *c) {
    mil_conv three = *c;
    cpu_window_three(&three);
    const double taps = (double)three.kernel[0] * (double)three.kernel[1] * (double)three.kernel[2];
    double padded = 1.0;
    for (int d = 0; d < 3; d++)
        padded *= (double)(three.in[d] + three.before[d] + three.after[d] + three.kernel[d] * three.dilation[d]);
    return taps <= MAX_TAPS && padded <= (double)(1 << 26) && three.stride[2] <= 64;
}

bool cpu_window_takes_conv(const mil_op *op) {
    mil_conv c;
    if (mil_conv_read(op, &c, NULL)) return false;
    return c.groups == c.c_in && c.c_out / c.c_in <= 8 && emit_depthwise_small_enough(&c);
}

/* `w` is dense. `w` and `bias` are NULL if there are none. */
static propane_status emit_window(planner *p, const mil_op *op, window_args *a, const cpu_view *w, const cpu_view *bias,
                                  propane_error *err) {
    cpu_view x, y, at;
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &x, &x, err));
    PROPANE_TRY(cpu_emit_result_dense(p, op->results[0], &y, &at, err));
    cpu_window_three(&a->c);
    const mil_conv *c = &a->c;
    a->half = x.dtype == MIL_fp16;
    a->taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    a->pixels = c->in[0] * c->in[1] * c->in[2];
    a->points = c->out[0] * c->out[1] * c->out[2];
    a->line = p->g.options.kernels->window.line[a->kind];
    cpu_window_plane_plan(&a->plane, c);
    a->blocks = (c->out[2] + LANES - 1) / LANES;
    a->worker_floats = (a->plane.floats + a->blocks * LANES + a->taps + 15) / 16 * 16;
    a->x = cpu_view_ref(&x);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, x.buffer);
    cpu_emit_touch(p, at.buffer);
    if (w) {
        a->w = cpu_view_ref(w);
        a->w_type = w->dtype;
        cpu_emit_touch(p, w->buffer);
    }
    if (bias) {
        a->has_bias = true;
        a->half_bias = bias->dtype == MIL_fp16;
        a->bias = cpu_view_ref(bias);
        a->bias_stride = bias->stride[0];
        cpu_emit_touch(p, bias->buffer);
    }
    PROPANE_TRY(cpu_emit_scratch(p, a->worker_floats * p->threads * (int64_t)sizeof(float), &a->scratch, err));
    const double flops = 2.0 * (double)c->n * (double)c->c_out * (double)a->points * (double)a->taps;
    PROPANE_TRY(cpu_emit_step(p, emit_depthwise_window_run, a, a->kind == CPU_WINDOW_WEIGHTS ? "depthwise" : "pool",
                              op->results[0], flops, 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, op->results[0], &at, &y, err);
}

propane_status cpu_window_emit_conv(planner *p, const mil_op *op, propane_error *err) {
    window_args *a = ARENA_NEW(p->arena, window_args);
    cpu_view w, bias;
    if (!a) return cpu_program_no_memory(err);
    a->kind = CPU_WINDOW_WEIGHTS;
    PROPANE_TRY(mil_conv_read(op, &a->c, err));
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "weight"), &w, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &w, &w, err));
    const bool has_bias = mil_in(op, "bias") != NULL;
    if (has_bias) PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "bias"), &bias, err));
    return emit_window(p, op, a, &w, has_bias ? &bias : NULL, err);
}

static propane_status emit_pool(planner *p, const mil_op *op, propane_error *err) {
    const int id = op->results[0]->id;
    if (op->info->code != MIL_OP_l2_pool && p->is_placed[id] && cpu_view_is_channels_last(&p->placed[id]))
        return cpu_conv_emit_pool(p, op, err);
    window_args *a = ARENA_NEW(p->arena, window_args);
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_pool_read(op, &a->c, err));
    a->kind = op->info->code == MIL_OP_max_pool  ? CPU_WINDOW_MAX
              : op->info->code == MIL_OP_l2_pool ? CPU_WINDOW_SQUARES
                                                 : CPU_WINDOW_SUM;
    if (op->info->code == MIL_OP_avg_pool) {
        a->average = true;
        PROPANE_TRY(mil_attr_bool(op, "exclude_padding_from_average", &a->exclude, err));
    }
    return emit_window(p, op, a, NULL, NULL, err);
}

static bool emit_depthwise_takes_pool(const mil_op *op) {
    mil_conv c;
    return !mil_pool_read(op, &c, NULL) && emit_depthwise_small_enough(&c);
}

const cpu_emitter cpu_emitter_pool = {.emit = emit_pool, .takes = emit_depthwise_takes_pool};
