/* SPDX-License-Identifier: MIT
 * Convolutions that are more than a product: the patches of one image become the columns of a matrix, which is multiplied
 * with the weights, group by group. 1x1 convolutions are products (bind_matmul.c).
 */
#include <string.h>

#include "base/pool.h"
#include "drivers/cpu/gemm.h"
#include "drivers/cpu/plan.h"
#include "mil/shape.h"

typedef struct conv_args {
    mil_conv c;
    int element;
    int64_t taps, points;   /* of the kernel and of the result's space */
    int64_t x_step, y_step; /* bytes from one image to the next */
    cpu_gemm g;
    cpu_matrix bias;
    bool has_bias;
    cpu_plan_ref x, w, y, bias_at, columns, scratch;
} conv_args;

typedef struct columns_context {
    const conv_args *a;
    const unsigned char *image;
    unsigned char *columns;
} columns_context;

/* One row of the matrix: one channel seen through one tap, for every point of the result. */
static void columns_task(void *context, int task, int worker) {
    const columns_context *x = context;
    const conv_args *a = x->a;
    const mil_conv *c = &a->c;
    (void)worker;
    int64_t channel = task / a->taps, tap = task % a->taps, at[3] = {0}, out[3] = {1, 1, 1}, in[3] = {1, 1, 1};
    int64_t step[3] = {1, 1, 1}, pixels = 1;
    int shift = 3 - c->spatial; /* missing dimensions come first and have one point */
    for (int d = c->spatial - 1; d >= 0; d--) {
        at[shift + d] = tap % c->kernel[d] * c->dilation[d] - c->before[d];
        tap /= c->kernel[d];
        out[shift + d] = c->out[d];
        in[shift + d] = c->in[d];
        step[shift + d] = c->stride[d];
        pixels *= c->in[d];
    }
    unsigned char *row = x->columns + (int64_t)task * a->points * a->element;
    const unsigned char *image = x->image + channel * pixels * a->element;
    memset(row, 0, (size_t)(a->points * a->element));
    for (int64_t i = 0; i < out[0]; i++)
        for (int64_t j = 0; j < out[1]; j++) {
            int64_t y0 = i * step[0] + at[0], y1 = j * step[1] + at[1];
            if (y0 >= 0 && y0 < in[0] && y1 >= 0 && y1 < in[1])
                for (int64_t k = 0; k < out[2]; k++) {
                    int64_t y2 = k * step[2] + at[2];
                    if (y2 >= 0 && y2 < in[2])
                        memcpy(row + k * a->element, image + ((y0 * in[1] + y1) * in[2] + y2) * a->element,
                               (size_t)a->element);
                }
            row += out[2] * a->element;
        }
}

static propane_status conv_run(const cpu_run *run, const void *args, propane_error *err) {
    const conv_args *a = args;
    cpu_gemm g = a->g;
    cpu_matrix bias = a->bias;
    (void)err;
    if (a->has_bias) {
        bias.data = cpu_plan_at(run, a->bias_at);
        g.epilogue.residual = &bias;
    }
    g.a.data = cpu_plan_at(run, a->w);
    g.b.data = cpu_plan_at(run, a->columns);
    for (int64_t n = 0; n < a->c.n; n++) {
        columns_context x = {a, (const unsigned char *)cpu_plan_at(run, a->x) + n * a->x_step,
                             cpu_plan_at(run, a->columns)};
        cpu_plan_parallel(run, columns_task, &x, (int)(a->c.c_in * a->taps));
        g.c.data = (unsigned char *)cpu_plan_at(run, a->y) + n * a->y_step;
        cpu_gemm_run(&g, cpu_plan_at(run, a->scratch));
    }
    return PROPANE_OK;
}

static propane_status emit_conv(planner *p, const mil_op *op, propane_error *err) {
    conv_args *a = ARENA_NEW(p->arena, conv_args);
    cpu_view x, w, y, bias, at;
    if (!a) return cpu_plan_no_memory(p, err);
    PROPANE_TRY(mil_conv_read(op, &a->c, err));
    PROPANE_TRY(cpu_plan_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_plan_operand(p, mil_in(op, "weight"), &w, err));
    PROPANE_TRY(cpu_plan_make_dense(p, op->results[0], &x, &x, err));
    PROPANE_TRY(cpu_plan_make_dense(p, op->results[0], &w, &w, err));
    PROPANE_TRY(cpu_plan_result_dense(p, op->results[0], &y, &at, err));
    const mil_conv *c = &a->c;
    int64_t pixels = 1, groups = c->groups;
    a->taps = a->points = 1;
    for (int d = 0; d < c->spatial; d++) {
        a->taps *= c->kernel[d];
        a->points *= c->out[d];
        pixels *= c->in[d];
    }
    a->element = cpu_plan_dtype_bytes(x.dtype);
    a->x_step = c->c_in * pixels * a->element;
    a->y_step = c->c_out * a->points * a->element;
    int64_t m = c->c_out / groups, n = a->points, k = c->c_in / groups * a->taps;
    cpu_dtype t = x.dtype == MIL_fp16 ? CPU_F16 : CPU_F32;
    a->g = (cpu_gemm){.isa = p->options.isa,
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = groups,
                      .alpha = 1,
                      .bf16 = p->options.bf16 && t == CPU_F32,
                      .a = {.dtype = t, .row_stride = k, .col_stride = 1, .batch_stride = m * k},
                      .b = {.dtype = t, .row_stride = n, .col_stride = 1, .batch_stride = k * n},
                      .c = {.dtype = t, .row_stride = n, .col_stride = 1, .batch_stride = m * n}};
    a->x = cpu_view_ref(&x);
    a->w = cpu_view_ref(&w);
    a->y = cpu_view_ref(&at);
    cpu_plan_touch(p, x.buffer);
    cpu_plan_touch(p, w.buffer);
    cpu_plan_touch(p, at.buffer);
    if (mil_in(op, "bias")) {
        PROPANE_TRY(cpu_plan_operand(p, mil_in(op, "bias"), &bias, err));
        cpu_plan_touch(p, bias.buffer);
        a->has_bias = true;
        a->bias_at = cpu_view_ref(&bias);
        a->bias = (cpu_matrix){.dtype = t, .row_stride = bias.stride[0], .batch_stride = m * bias.stride[0]};
    }
    PROPANE_TRY(cpu_plan_scratch(p, groups * k * n * a->element, &a->columns, err));
    PROPANE_TRY(cpu_plan_scratch(p, (int64_t)cpu_gemm_scratch_bytes(&a->g, p->threads), &a->scratch, err));
    double flops = 2.0 * (double)(c->n * groups) * (double)m * (double)n * (double)k;
    p->program->gemm_count++;
    PROPANE_TRY(cpu_plan_emit(p, conv_run, a, "conv", op->results[0], flops, 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_plan_copy(p, op->results[0], &at, &y, err);
}

static bool takes_conv(const mil_op *op) {
    mil_conv c;
    return !mil_conv_read(op, &c, NULL) && c.spatial <= 3;
}

const cpu_plan_binding cpu_bind_conv = {.emit = emit_conv, .takes = takes_conv};
