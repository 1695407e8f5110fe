/* SPDX-License-Identifier: MIT
 * A convolution, the depthwise one behind it, and what follows that (a 1x1 convolution, or the mean of each channel) as one
 * step: what lies between them is never a whole image in memory, only what a task works on, in memory of its thread that
 * stays in the second cache.
 *
 * A task makes a band of lines of the depthwise results for a chunk of channels: first the lines of the image that the
 * window reads, with zeros at the left and right where the padding is, so that the window has no borders there; then the
 * window's lines; then, where a 1x1 convolution follows, which needs all channels, its results. Lines that two bands read are
 * made twice. The mean is summed line by line, each line's sums by the task that makes it, then over the lines in
 * their order: bits depend neither on bands nor on threads.
 */
#include <math.h>
#include <string.h>

#include "base/int_math.h"
#include "drivers/cpu/conv/conv_layers.h"

enum {
    LEAST_CHANNELS = 32,     /* of a chunk */
    BAND_BYTES = 560 << 10,  /* what a band may take of the second cache */
    LARGE_BYTES = 768 << 10, /* images between layers that do not stay there: the 1x1 convolution comes in */
    ALIASED = 256,           /* channels of which a multiple may lie so that they are copied (conv_direct.c) */
    TASKS_A_THREAD = 4,      /* wanted */
    TWICE = 8,               /* one of so many lines may be made twice, so that there are tasks for all threads, */
    MOST_TWICE = 4,          /* or so that a band fits */
};

typedef struct bottleneck_args {
    cpu_conv_direct first, last;
    cpu_conv_window window;
    bool has_last, has_mean, last_adds_first;
    int64_t channels, band_lines, bands, chunk_panels, chunks;
    int64_t mid_col, mid_before, mid_line, out_line; /* between the layers */
    int64_t plane_floats, mid_floats, out_floats;    /* of a thread */
    float count;                                     /* mean: points of an image */
    cpu_ref x, y, scratch, sums, mean;
} bottleneck_args;

typedef struct bottleneck_call {
    const bottleneck_args *a;
    cpu_conv_direct_call first, last;
    cpu_conv_window_call window;
    float *scratch, *sums, *mean, *y;
} bottleneck_call;

/* ---- running -------------------------------------------------------------------------------------------------------- */

static const cpu_conv_finish unchanged = {.least = -INFINITY, .low = -INFINITY, .high = INFINITY};

/* Sums of `rows` x `cols` points of n channels, divided by `parts`. */
static void add_points(const cpu_conv_kernels *k, const float *x, int64_t row, int64_t rows, int64_t col, int64_t cols,
                       int64_t n, const float *parts, float *y) {
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

/* Lines [from, to) of the image between, of the panels' channels, to the thread's memory, where line `from` is first. */
static void make_lines(const bottleneck_call *call, int64_t image, int64_t from, int64_t to, int64_t panel,
                       int64_t last, float *plane, float *mid) {
    const bottleneck_args *a = call->a;
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

static void task_band(void *context, int task, int worker) {
    const bottleneck_call *call = context;
    const bottleneck_args *a = call->a;
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
    if (bottom > top) make_lines(call, image, top, bottom, panel, last, plane, mid);
    cpu_conv_window_call w = call->window;
    w.x = mid - top * a->mid_line;
    w.y = (a->has_last ? out - from * a->out_line - image * a->window.y_image : call->y) + channel;
    w.w += channel;
    if (w.bias) w.bias += channel;
    w.channels = n;
    for (int64_t h = from; h < to; h++) {
        cpu_conv_window_line(&w, image, h);
        if (a->has_mean)
            add_points(a->window.k, w.y + image * a->window.y_image + h * a->window.y_line, 0, 1, a->window.y_col,
                       c->out[1], n, NULL, call->sums + (image * c->out[0] + h) * a->channels + channel);
    }
    if (!a->has_last) return;
    cpu_conv_direct_call part = call->last;
    part.points = out - from * a->out_line;
    part.y = call->y;
    if (a->last_adds_first) part.other = mid - top * a->mid_line + a->mid_before * a->mid_col;
    const int64_t runs = image * a->last.out_h * a->last.line_runs;
    cpu_conv_direct_part(&part, runs + from * a->last.line_runs, runs + to * a->last.line_runs, 0, a->last.panels);
}

static propane_status bottleneck_run(const cpu_run *run, const void *args, propane_error *err) {
    const bottleneck_args *a = args;
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
    cpu_run_parallel(run, task_band, &call, (int)(c->n * a->bands * a->chunks));
    for (int64_t i = 0; a->has_mean && i < c->n; i++)
        add_points(a->window.k, call.sums + i * c->out[0] * a->channels, a->channels, c->out[0], 0, 1, a->channels,
                   &a->count, call.mean + i * a->channels);
    return PROPANE_OK;
}

/* ---- planning ------------------------------------------------------------------------------------------------------- */

typedef struct division {
    int64_t band_lines, bands, chunk_panels, chunks, mid_lines;
} division;

/* Whether a task makes all channels: a 1x1 convolution reads them, or the first one works on a copy of its lines, which
 * would be made for each chunk anew. */
static bool takes_whole(const mil_conv *first, bool last) {
    return last || first->kernel[0] * first->kernel[1] > 1 || first->c_in % ALIASED == 0;
}

/* Into bands and chunks; false: too many lines would be made twice. */
static bool divide(const cpu_conv_kernels *k, const mil_conv *first, const mil_conv *c, bool last, int threads,
                   division *out) {
    const bool whole = takes_whole(first, last);
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
    division d;
    const int64_t bytes = window->c_in * window->in[0] * window->in[1] * (int64_t)sizeof(float);
    if (last && bytes < LARGE_BYTES) return false;
    return divide(&kernels->conv, first, window, last, threads, &d);
}

/* An image of the thread's memory: strides alone. */
static cpu_view lines_of(int64_t line, int64_t col, const mil_type *type) {
    cpu_view v = cpu_view_dense(type, -1);
    v.stride[0] = 0;
    v.stride[1] = 1;
    v.stride[2] = line;
    v.stride[3] = col;
    return v;
}

static propane_status plan_last(planner *p, const cpu_fused_conv *l, const cpu_view *mid, const cpu_view *y,
                                bottleneck_args *a, propane_error *err) {
    cpu_view other;
    mil_conv c;
    PROPANE_TRY(mil_conv_read(l->last->op, &c, err));
    const cpu_view x = lines_of(a->out_line, a->channels, &l->result->type);
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
    bottleneck_args *a = ARENA_NEW(p->arena, bottleneck_args);
    const cpu_conv_kernels *k = &p->g.options.kernels->conv;
    const mil_value *result = l->last ? l->last->result : l->result;
    cpu_view x, y, at, mean, mean_at;
    mil_conv first;
    division d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_conv_read(l->first->op, &first, err));
    PROPANE_TRY(cpu_emit_operand(p, l->first->x, &x, err));
    PROPANE_TRY(cpu_emit_result_channels(p, result, &y, &at, err));
    PROPANE_TRY(cpu_conv_plan_depthwise(p, l, &a->window, err));
    mil_conv *c = &a->window.c;
    a->channels = c->c_out;
    a->mid_before = c->before[1];
    (void)divide(k, &first, c, l->last != NULL, p->threads, &d);
    a->mid_col = min_i64(d.chunk_panels * k->width, a->window.w_row);
    a->mid_line = (c->before[1] + c->in[1] + c->after[1]) * a->mid_col;
    a->out_line = c->out[1] * a->channels;
    const cpu_view mid = lines_of(a->mid_line, a->mid_col, &l->first->result->type);
    PROPANE_TRY(cpu_conv_plan_direct(p, l->first, &first, &x, NULL, &mid, &a->first, err));
    if (a->first.copied) {
        a->plane_floats = ((d.mid_lines - 1) * first.stride[0] + a->first.reach_h) * a->first.plane_w * a->first.pitch;
        a->plane_floats = div_up(a->plane_floats, 16) * 16;
    }
    if (l->last) PROPANE_TRY(plan_last(p, l, &mid, &at, a, err));
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
    PROPANE_TRY(cpu_emit_step(p, bottleneck_run, a,
                              l->last   ? "conv+depthwise+conv"
                              : l->mean ? "conv+depthwise+mean"
                                        : "conv+depthwise",
                              result, flops, 0, err));
    if (l->mean && !cpu_view_equal(&mean, &mean_at)) PROPANE_TRY(cpu_emit_copy(p, l->mean, &mean_at, &mean, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, result, &at, &y, err);
}
