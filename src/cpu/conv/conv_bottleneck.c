/* SPDX-License-Identifier: MIT
 * Runs a convolution, the depthwise convolution after it, and what comes next (a 1x1 convolution, or the mean of each
 * channel) as one step. Intermediate images are never whole in memory. A task keeps only the part that it works on, in
 * thread memory that stays in L2.
 *
 * A task computes a band of lines of the depthwise results for a chunk of channels. First it computes the lines of the
 * image that the window reads, with zeros for the padding at the left and right, so that the window needs no border
 * cases. Then come the window's lines, and then the results of a 1x1 convolution, if there is one, which needs all
 * channels. Lines that two bands read are computed twice. The mean is summed line by line, by the task that computes
 * the line, and then over the lines in order, so the bits depend neither on bands nor on threads.
 */
#include <math.h>
#include <string.h>

#include "core/base/int_math.h"
#include "cpu/conv/conv.h"

enum {
    LEAST_CHANNELS = 32,    /* minimum per chunk */
    BAND_BYTES = 560 << 10, /* part of L2 that a band may use */
    /* Intermediate images of at least this size do not stay in L2, so the step also computes a 1x1 convolution of
     * them. */
    LARGE_BYTES = 768 << 10,
    ALIASED = 256,      /* images with a multiple of this many channels may need copying (conv_direct.c) */
    TASKS_A_THREAD = 4, /* the target number */
    TWICE = 8,          /* at most one in this many lines may be computed twice to get tasks for all threads */
    MOST_TWICE = 4,     /* the same limit for making a band fit */
};

typedef struct bottleneck_call {
    const cpu_conv_bottleneck_step *a;
    cpu_conv_direct_call first, last;
    cpu_conv_window_call window;
    float *scratch, *sums, *mean, *y;
} bottleneck_call;

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const cpu_conv_finish unchanged = {.least = -INFINITY, .low = -INFINITY, .high = INFINITY};

/* Sums `rows` x `cols` points of n channels, and divides the sums by *parts unless `parts` is NULL. */
static void bottleneck_add_points(const cpu_conv_kernels *k, const float *x, int64_t row, int64_t rows, int64_t col,
                                  int64_t cols, int64_t n, const float *parts, float *y) {
    const cpu_conv_line l = {.x = x,
                             .row = row,
                             .col = col,
                             .step = 1,
                             .dilation = 1,
                             .in = cols,
                             .kernel = cols,
                             .to = rows,
                             .parts = parts,
                             .y = y,
                             .count = 1,
                             .channels = n,
                             .finish = &unchanged};
    k->line[CPU_CONV_SUM](&l);
}

/* Computes lines [from, to) of the intermediate image for the channels of panels [panel, last). They are stored in the
 * thread's memory, where line `from` comes first. */
static void bottleneck_make_lines(const bottleneck_call *call, int64_t image, int64_t from, int64_t to, int64_t panel,
                                  int64_t last, float *plane, float *mid) {
    const cpu_conv_bottleneck_step *a = call->a;
    const cpu_conv_direct *d = &a->first;
    const int64_t before = a->mid_before * a->mid_col, inside = d->out_w * a->mid_col;
    cpu_conv_direct_call part = call->first;
    for (int64_t i = 0; i < to - from; i++) {
        memset(mid + i * a->mid_line, 0, (size_t)before * sizeof *mid);
        memset(mid + i * a->mid_line + before + inside, 0, (size_t)(a->mid_line - before - inside) * sizeof *mid);
    }
    part.y = mid - from * a->mid_line + before - panel * d->k->width;
    if (d->copied) {
        const int64_t line = d->plane_w * d->pitch, top = from * d->stride_h;
        const int64_t bottom = (to - 1) * d->stride_h + d->reach_h;
        for (int64_t h = top; h < bottom; h++) cpu_conv_copy_line(&part, image, h, plane + (h - top) * line);
        part.points = plane - from * d->a_line - image * d->a_image;
    }
    const int64_t runs = image * d->out_h * d->line_runs;
    cpu_conv_direct_part(&part, runs + from * d->line_runs, runs + to * d->line_runs, panel, last);
}

static void bottleneck_task_band(void *context, int task, int worker) {
    const bottleneck_call *call = context;
    const cpu_conv_bottleneck_step *a = call->a;
    const mil_conv *c = &a->window.c;
    const int64_t image = task / (a->bands * a->chunks), band = task / a->chunks % a->bands;
    const int64_t panel = task % a->chunks * a->chunk_panels, last = min_i64(a->first.panels, panel + a->chunk_panels);
    const int64_t from = band * a->band_lines, to = min_i64(c->out[0], from + a->band_lines);
    const int64_t top = max_i64(0, from * c->stride[0] - c->before[0]);
    const int64_t bottom =
        min_i64(c->in[0], (to - 1) * c->stride[0] - c->before[0] + (c->kernel[0] - 1) * c->dilation[0] + 1);
    const int64_t channel = panel * a->first.k->width, n = min_i64(a->channels, last * a->first.k->width) - channel;
    float *plane = call->scratch + worker * (a->plane_floats + a->mid_floats + a->out_floats);
    float *mid = plane + a->plane_floats, *out = mid + a->mid_floats;
    if (bottom > top) bottleneck_make_lines(call, image, top, bottom, panel, last, plane, mid);
    cpu_conv_window_call w = call->window;
    w.x = mid - top * a->mid_line;
    w.y = (a->has_last ? out - from * a->out_line - image * a->window.y_image : call->y) + channel;
    w.w += channel;
    if (w.bias) w.bias += channel;
    w.channels = n;
    for (int64_t h = from; h < to; h++) {
        cpu_conv_window_line(&w, image, h);
        if (a->has_mean)
            bottleneck_add_points(a->window.k, w.y + image * a->window.y_image + h * a->window.y_line, 0, 1,
                                  a->window.y_col, c->out[1], n, NULL,
                                  call->sums + (image * c->out[0] + h) * a->channels + channel);
    }
    if (!a->has_last) return;
    cpu_conv_direct_call part = call->last;
    part.points = out - from * a->out_line;
    part.y = call->y;
    if (a->last_adds_first) part.other = mid - top * a->mid_line + a->mid_before * a->mid_col;
    const int64_t runs = image * a->last.out_h * a->last.line_runs;
    cpu_conv_direct_part(&part, runs + from * a->last.line_runs, runs + to * a->last.line_runs, 0, a->last.panels);
}

propane_status cpu_conv_bottleneck_run(const cpu_run *run, const void *step, propane_error *err) {
    const cpu_conv_bottleneck_step *a = step;
    const mil_conv *c = &a->window.c;
    bottleneck_call call = {.a = a,
                            .first = cpu_conv_direct_at(run, &a->first),
                            .window = cpu_conv_window_at(run, &a->window),
                            .scratch = cpu_ref_at(run, a->scratch),
                            .y = cpu_ref_at(run, a->y)};
    (void)err;
    call.first.x = call.first.points = cpu_ref_at(run, a->x);
    if (a->has_last) call.last = cpu_conv_direct_at(run, &a->last);
    if (a->has_mean) {
        call.sums = cpu_ref_at(run, a->sums);
        call.mean = cpu_ref_at(run, a->mean);
    }
    cpu_run_parallel(run, bottleneck_task_band, &call, (int)(c->n * a->bands * a->chunks));
    for (int64_t i = 0; a->has_mean && i < c->n; i++)
        bottleneck_add_points(a->window.k, call.sums + i * c->out[0] * a->channels, a->channels, c->out[0], 0, 1,
                              a->channels, &a->count, call.mean + i * a->channels);
    return PROPANE_OK;
}

/* ---- dividing ---------------------------------------------------------------------------------------------------- */

/* Returns true if a task must compute all channels: a 1x1 convolution reads them, or the first convolution reads a copy
 * of its operand's lines, which each chunk would have to make again. */
static bool bottleneck_takes_whole(const mil_conv *first, bool last) {
    return last || first->kernel[0] * first->kernel[1] > 1 || first->c_in % ALIASED == 0;
}

/* Divides the work into bands and chunks. Returns false if too many lines would be computed twice. */
bool cpu_conv_bottleneck_divide(const cpu_conv_kernels *k, const mil_conv *first, const mil_conv *c, bool last,
                                int threads, cpu_conv_bands *out) {
    const bool whole = bottleneck_takes_whole(first, last);
    const int64_t panels = div_up(c->c_out, k->width), reach = (c->kernel[0] - 1) * c->dilation[0] + 1;
    const int64_t overlap = max_i64(0, reach - c->stride[0]), width = c->in[1] + c->before[1] + c->after[1];
    out->chunk_panels = whole ? panels : min_i64(panels, div_up(LEAST_CHANNELS, k->width));
    out->chunks = div_up(panels, out->chunk_panels);
    const int64_t channels = out->chunk_panels * k->width, copied = first->stride[0] * first->in[1] * first->c_in;
    const int64_t line = (width * channels + (whole ? copied : 0)) * (int64_t)sizeof(float);
    const int64_t more = last ? c->out[1] * channels * (int64_t)sizeof(float) : 0;
    const int64_t fits = max_i64(1, (BAND_BYTES - overlap * line) / (c->stride[0] * line + more));
    const int64_t wanted =
        min_i64(div_up(TASKS_A_THREAD * threads, out->chunks), overlap ? 1 + c->in[0] / (TWICE * overlap) : c->out[0]);
    int64_t bands = max_i64(div_up(c->out[0], fits), threads > 1 ? wanted : 1);
    out->band_lines = div_up(c->out[0], bands);
    out->bands = div_up(c->out[0], out->band_lines);
    out->mid_lines = min_i64(c->in[0], (out->band_lines - 1) * c->stride[0] + reach);
    return (out->bands - 1) * overlap * MOST_TWICE <= c->in[0];
}

bool cpu_conv_bottleneck_pays(const cpu_kernels *kernels, int threads, const mil_conv *first, const mil_conv *window,
                              bool last) {
    cpu_conv_bands d;
    const int64_t bytes = window->c_in * window->in[0] * window->in[1] * (int64_t)sizeof(float);
    if (last && bytes < LARGE_BYTES) return false;
    return cpu_conv_bottleneck_divide(&kernels->conv, first, window, last, threads, &d);
}
