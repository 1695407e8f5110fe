/* SPDX-License-Identifier: MIT
 * Depthwise convolution and pooling of images with adjacent channels. A task computes some lines of the result with the
 * line kernels of conv_ukernel.h. Padding is not stored; the kernel skips the taps outside the image.
 */
#include "cpu/conv/conv.h"

typedef struct window_call {
    const cpu_conv_window_step *a;
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

static void depthwise_task_lines(void *context, int task, int worker) {
    const window_call *call = context;
    const cpu_conv_window_step *a = call->a;
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

propane_status cpu_conv_window_run(const cpu_run *run, const void *step, propane_error *err) {
    const cpu_conv_window_step *a = step;
    window_call call = {a, cpu_conv_window_at(run, &a->w)};
    (void)err;
    call.w.x = cpu_ref_at(run, a->w.x);
    call.w.y = cpu_ref_at(run, a->w.y);
    cpu_run_parallel(run, depthwise_task_lines, &call, (int)((a->lines + a->task_lines - 1) / a->task_lines));
    return PROPANE_OK;
}
