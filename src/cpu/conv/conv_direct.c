/* SPDX-License-Identifier: MIT
 * Convolutions over all channels and linear layers with constant weights: the steps around the tiles of conv_ukernel.h.
 * The points of the result are divided into runs along its lines, and runs into blocks whose part of the image stays in
 * L2 while all panels of weights are applied. An image is copied first if it has padding, if its channels are not
 * adjacent, or if its points map to the same L1 sets. A linear layer's rows are the points of one line.
 */
#include <string.h>

#include "core/base/int_math.h"
#include "cpu/conv/conv.h"

typedef struct direct_call {
    const cpu_conv_direct_step *a;
    cpu_conv_direct_call d;
} direct_call;

/* ---- running ----------------------------------------------------------------------------------------------------- */

void cpu_conv_copy_line(const cpu_conv_direct_call *call, int64_t image, int64_t h, float *to) {
    const cpu_conv_direct *a = call->a;
    const int64_t line = a->plane_w * a->pitch;
    h -= a->before_h;
    if (h < 0 || h >= a->in_h) {
        memset(to, 0, (size_t)line * sizeof *to);
        return;
    }
    const int64_t count = min_i64(a->in_w, a->plane_w - a->before_w);
    const float *from = call->x + image * a->x_image + h * a->x_line;
    for (int64_t c = 0; a->apart && c < a->c_in; c++, from += a->x_channel, to += a->plane_w) {
        memset(to, 0, (size_t)a->before_w * sizeof *to);
        memcpy(to + a->before_w, from, (size_t)count * sizeof *to);
        memset(to + a->before_w + count, 0, (size_t)(a->plane_w - a->before_w - count) * sizeof *to);
    }
    if (a->apart) return;
    memset(to, 0, (size_t)(a->before_w * a->pitch) * sizeof *to);
    to += a->before_w * a->pitch;
    if (a->x_channel == 1 && a->pitch == a->c_in && a->x_col == a->c_in)
        memcpy(to, from, (size_t)(count * a->c_in) * sizeof *to);
    else if (a->x_channel == 1)
        for (int64_t i = 0; i < count; i++)
            memcpy(to + i * a->pitch, from + i * a->x_col, (size_t)a->c_in * sizeof *to);
    else
        for (int64_t i0 = 0; i0 < count; i0 += 16)
            for (int64_t c = 0; c < a->c_in; c++)
                for (int64_t i = i0; i < min_i64(count, i0 + 16); i++)
                    to[i * a->pitch + c] = from[i * a->x_col + c * a->x_channel];
    memset(to + count * a->pitch, 0, (size_t)(line - (a->before_w + count) * a->pitch) * sizeof *to);
}

static void direct_task_line(void *context, int task, int worker) {
    const direct_call *call = context;
    const cpu_conv_direct *a = call->d.a;
    (void)worker;
    cpu_conv_copy_line(&call->d, task / a->plane_h, task % a->plane_h, call->d.plane + task * a->plane_w * a->pitch);
}

/* The position of a run. Stepping from one run to the next avoids divisions. */
typedef struct place {
    int64_t image, row, col; /* col is its first point */
} place;

static place direct_place_of(const cpu_conv_direct *a, int64_t run) {
    const int64_t line = run / a->line_runs;
    return (place){line / a->out_h, line % a->out_h, run % a->line_runs * a->k->half};
}

static place direct_place_after(const cpu_conv_direct *a, place at) {
    at.col += a->k->half;
    if (at.col < a->out_w) return at;
    at.col = 0;
    if (++at.row == a->out_h) at.row = 0, at.image++;
    return at;
}

static int64_t direct_place_points(const cpu_conv_direct *a, const place *at) {
    return min_i64(a->k->half, a->out_w - at->col);
}

static void direct_set_run(const cpu_conv_direct_call *call, const place *at, int64_t first, int64_t k, int h,
                           cpu_conv_tile *t) {
    const cpu_conv_direct *a = call->a;
    t->a[h] = call->points + at->image * a->a_image + at->row * a->a_line + at->col * a->a_col + k;
    t->c[h] = call->y + at->image * a->y_image + at->row * a->y_line + at->col * a->y_col + first;
    t->other[h] = call->other ? call->other + at->image * a->other_image + at->row * a->other_line +
                                    at->col * a->other_col + first
                              : NULL;
}

/* Multiplies a panel of weights by runs [from, to), starting with element k of each tap. If `more`, the first four
 * tiles also prefetch the next panel. */
static void direct_run_panel(const cpu_conv_direct_call *call, cpu_conv_tile *t, int64_t panel, int64_t from,
                             int64_t to, int64_t k, bool more) {
    const cpu_conv_direct *a = call->a;
    const char *next = (const char *)(t->b + a->panel_floats);
    const int64_t share = a->taps * (t->k / 4) * 128;
    t->bias = call->bias ? call->bias + panel * a->k->width : NULL;
    t->cols = min_i64(a->k->width, a->c_out - panel * a->k->width);
    const bool narrow = t->cols <= a->k->lanes, gated = call->gate != NULL;
    place at = direct_place_of(a, from);
    for (int64_t run = from, tile = 0; run < to; run++, tile++) {
        const int64_t points = direct_place_points(a, &at);
        const place after = direct_place_after(a, at);
        const bool pair = points == a->k->half && run + 1 < to && direct_place_points(a, &after) == points &&
                          (!gated || after.image == at.image);
        direct_set_run(call, &at, panel * a->k->width, k, 0, t);
        direct_set_run(call, pair ? &after : &at, panel * a->k->width, k, 1, t);
        if (gated) t->gate = call->gate + at.image * a->gate_image + k;
        t->later = more && tile < 4 ? next + tile * share : (const char *)t->b;
        (pair ? a->k->pair[gated][narrow] : a->k->single[gated][narrow][points - 1])(t);
        for (int h = 0; t->finish && h <= pair; h++) cpu_conv_map(&a->end, t->c[h], t->c_row, points, t->cols);
        run += pair;
        at = pair ? direct_place_after(a, after) : after;
    }
}

void cpu_conv_direct_part(const cpu_conv_direct_call *call, int64_t run_from, int64_t run_to, int64_t panel_from,
                          int64_t panel_to) {
    const cpu_conv_direct *a = call->a;
    cpu_conv_tile t = {.a_row = a->a_col, .tap = a->tap, .taps = a->taps, .c_row = a->y_col, .other_row = a->other_col};
    for (int64_t k = 0; k < a->depth; k += a->pass)
        for (int64_t panel = panel_from; panel < panel_to; panel++) {
            t.add = k > 0;
            t.k = min_i64(a->pass, a->depth - k);
            t.finish = k + t.k == a->depth ? &a->end.finish : NULL;
            t.b = call->weights + panel * a->panel_floats + k * a->k->width;
            direct_run_panel(call, &t, panel, run_from, run_to, k, panel + 1 < panel_to);
        }
}

static void direct_task_block(void *context, int task, int worker) {
    const direct_call *call = context;
    const cpu_conv_direct_step *a = call->a;
    const int64_t block = task % a->blocks, chunk = task / a->blocks;
    (void)worker;
    cpu_conv_direct_part(&call->d, block * a->block_runs, min_i64(a->d.runs, (block + 1) * a->block_runs),
                         chunk * a->chunk_panels, min_i64(a->d.panels, (chunk + 1) * a->chunk_panels));
}

cpu_conv_direct_call cpu_conv_direct_at(const cpu_run *run, const cpu_conv_direct *a) {
    cpu_conv_direct_call call = {.a = a,
                                 .weights = cpu_ref_at(run, a->weights),
                                 .bias = cpu_conv_bias(run, &a->end),
                                 .other = a->has_other ? cpu_ref_at(run, a->other) : NULL,
                                 .gate = a->has_gate ? cpu_ref_at(run, a->gate) : NULL};
    return call;
}

propane_status cpu_conv_direct_run(const cpu_run *run, const void *step, propane_error *err) {
    const cpu_conv_direct_step *a = step;
    direct_call call = {a, cpu_conv_direct_at(run, &a->d)};
    (void)err;
    call.d.x = call.d.points = cpu_ref_at(run, a->d.x);
    call.d.y = cpu_ref_at(run, a->d.y);
    if (a->d.copied) {
        call.d.points = call.d.plane = cpu_ref_at(run, a->plane);
        cpu_run_parallel(run, direct_task_line, &call, (int)(a->d.images * a->d.plane_h));
    }
    cpu_run_parallel(run, direct_task_block, &call, (int)(a->blocks * a->chunks));
    return PROPANE_OK;
}
