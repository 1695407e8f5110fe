/* SPDX-License-Identifier: MIT
 * Emits convolutions over all channels and linear layers with constant weights as steps of conv/conv_direct.c:
 * addresses for the tiles, packed weights and bias, and the division of runs and panels among tasks. A linear layer's
 * rows are the points of one line.
 */
#include "cpu/ops/emit_conv_nhwc.h"

#include <string.h>

#include "core/base/int_math.h"

enum {
    CACHE_BYTES = 800 << 10, /* of L2 that a block of the image and two panels of weights may use */
    LEAST_BLOCK_BYTES = 256 << 10,
    DEPTH_WHOLE = 1024, /* elements of a single tap in one pass */
    DEPTH_PASS = 768,   /* more elements are divided into passes of about this many */
    TASKS_A_THREAD = 4,
    ALIASING = 4096, /* points that are this many bytes apart map to the same cache sets */
    PITCH_MORE = 16, /* floats of padding to avoid that */
    MOST_APART = 8,  /* most channels that may be read in place if they are apart from one another, as in images */
};

/* Merges the lines of an image into one line if all points are contiguous. */
static void emit_conv_direct_join_lines(cpu_conv_direct *a) {
    const int64_t points = a->in_h * a->in_w;
    if (a->out_h != a->in_h || a->out_w != a->in_w || a->copied || a->taps != 1) return;
    if (a->a_line != a->out_w * a->a_col || a->y_line != a->out_w * a->y_col) return;
    if (a->has_other && a->other_line != a->out_w * a->other_col) return;
    a->out_h = a->in_h = 1;
    a->out_w = a->in_w = points;
    a->a_line = a->y_line = a->other_line = 0;
}

/* Makes each line of each channel a tap over its contiguous elements. */
static propane_status emit_conv_direct_channels_apart(planner *p, cpu_conv_direct *a, const mil_conv *c,
                                                      int64_t channel, int64_t line, propane_error *err) {
    int64_t *tap = ARENA_ARRAY(p->arena, c->kernel[0] * a->c_in, int64_t);
    if (!tap) return cpu_program_no_memory(err);
    for (int64_t i = 0; i < c->kernel[0]; i++)
        for (int64_t k = 0; k < a->c_in; k++) tap[a->taps++] = i * c->dilation[0] * line + k * channel;
    a->tap = tap;
    a->depth = c->kernel[1];
    return PROPANE_OK;
}

/* Decides whether the tiles can read the operand in place, and what they read otherwise. */
static propane_status emit_conv_direct_choose_points(planner *p, cpu_conv_direct *a, const mil_conv *c, bool gated,
                                                     propane_error *err) {
    const bool pointwise = c->kernel[0] == 1 && c->kernel[1] == 1;
    bool padded = false;
    for (int d = 0; d < 2; d++) padded |= c->before[d] || c->after[d];
    a->apart =
        a->c_in > 1 && a->c_in <= MOST_APART && a->x_channel != 1 && a->x_col == 1 && c->dilation[1] == 1 && !gated;
    a->copied = padded || (a->c_in > 1 && a->x_channel != 1 && !a->apart) ||
                (a->out_w > 1 && a->stride_w * a->x_col * (int64_t)sizeof(float) % ALIASING == 0);
    const int64_t reach_h = (c->out[0] - 1) * c->stride[0] + (c->kernel[0] - 1) * c->dilation[0] + 1;
    const int64_t reach_w = (c->out[1] - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilation[1] + 1;
    a->reach_h = (c->kernel[0] - 1) * c->dilation[0] + 1;
    a->plane_h = max_i64(reach_h, a->copied && !padded ? a->in_h : 0);
    a->plane_w = max_i64(reach_w, a->copied && !padded ? a->in_w : 0);
    a->plane_w = max_i64(a->plane_w, a->before_w + 1);
    a->pitch = a->c_in;
    if (pointwise && a->stride_w * a->pitch * (int64_t)sizeof(float) % ALIASING == 0) a->pitch += PITCH_MORE;
    int64_t line = a->x_line, col = a->x_col;
    if (a->copied) {
        line = a->plane_w * a->pitch;
        col = a->pitch;
    }
    a->a_image = a->copied ? a->plane_h * line : a->x_image;
    a->a_line = a->stride_h * line;
    a->a_col = a->stride_w * (a->apart ? 1 : col);
    if (a->apart) return emit_conv_direct_channels_apart(p, a, c, a->copied ? a->plane_w : a->x_channel, line, err);
    const bool joined = col == a->c_in && c->dilation[1] == 1; /* a row of taps is one run of elements */
    const int64_t across = joined ? 1 : c->kernel[1];
    int64_t *tap = ARENA_ARRAY(p->arena, c->kernel[0] * across, int64_t);
    if (!tap) return cpu_program_no_memory(err);
    for (int64_t i = 0; i < c->kernel[0]; i++)
        for (int64_t j = 0; j < across; j++) tap[a->taps++] = i * c->dilation[0] * line + j * c->dilation[1] * col;
    a->tap = tap;
    a->depth = joined ? c->kernel[1] * a->c_in : a->c_in;
    return PROPANE_OK;
}

/* Packs [c_out][c_in][taps] into panels of [taps][c_in][width], or, for channels that are apart, of [lines of
 * taps][c_in][taps of a line][width]. */
static propane_status emit_conv_direct_pack_weights(planner *p, cpu_conv_direct *a, const mil_op *op, int64_t taps,
                                                    int64_t across, propane_error *err) {
    const float *w = mil_in(op, "weight")->constant->data;
    const int64_t width = a->k->width;
    float *to;
    if (!a->apart) across = 1;
    a->panels = div_up(a->c_out, width);
    a->panel_floats = taps * a->c_in * width;
    PROPANE_TRY(cpu_emit_constant(p, a->panels * a->panel_floats + 64 * width, &to, &a->weights, err));
    for (int64_t o = 0; o < a->c_out; o++) {
        float *column = to + o / width * a->panel_floats + o % width;
        for (int64_t c = 0; c < a->c_in; c++)
            for (int64_t t = 0; t < taps; t++)
                column[((t / across * a->c_in + c) * across + t % across) * width] = *w++;
    }
    return PROPANE_OK;
}

static void emit_conv_direct_divide_runs(cpu_conv_direct *a) {
    a->line_runs = div_up(a->out_w, a->k->half);
    a->runs = a->images * a->out_h * a->line_runs;
    a->pass = a->depth;
    if (a->taps == 1 && a->depth > DEPTH_WHOLE) a->pass = div_up(a->depth, div_up(a->depth, DEPTH_PASS) * 16) * 16;
}

static void emit_conv_direct_divide_work(cpu_conv_direct_step *b, int threads) {
    const cpu_conv_direct *a = &b->d;
    const int64_t line = max_i64(a->a_line, a->out_h == 1 ? a->out_w * a->a_col : 0) * a->pass / a->depth;
    const int64_t run_bytes = max_i64(1, line * (int64_t)sizeof(float) / a->line_runs);
    const int64_t panel_bytes = a->taps * a->pass * a->k->width * (int64_t)sizeof(float);
    const int64_t block_bytes = max_i64(CACHE_BYTES - 2 * panel_bytes, LEAST_BLOCK_BYTES);
    b->block_runs = max_i64(2, min_i64(a->runs, block_bytes / run_bytes / 2 * 2));
    const int64_t blocks = div_up(a->runs, b->block_runs), wanted = TASKS_A_THREAD * threads;
    if (threads > 1 && (blocks > 1 || a->panels < wanted)) /* the same number of blocks per thread */
        b->block_runs = max_i64(2, div_up(a->runs, 2 * div_up(blocks, threads) * threads) * 2);
    b->blocks = div_up(a->runs, b->block_runs);
    b->chunks = 1;
    if (threads > 1 && b->blocks < TASKS_A_THREAD * threads)
        b->chunks = min_i64(a->panels, div_up(TASKS_A_THREAD * threads, b->blocks));
    b->chunk_panels = div_up(a->panels, b->chunks);
    b->chunks = div_up(a->panels, b->chunk_panels);
}

/* Sets the strides of images, lines, columns and channels of an [N, C, H, W] view. `channel` may be NULL. */
static void emit_conv_direct_set_strides(const cpu_view *v, int64_t *image, int64_t *line, int64_t *col,
                                         int64_t *channel) {
    *image = v->dim[0] == 1 ? 0 : v->stride[0];
    *line = v->dim[2] == 1 ? 0 : v->stride[2];
    *col = v->dim[3] == 1 ? 0 : v->stride[3];
    if (channel) *channel = v->dim[1] == 1 ? 1 : v->stride[1];
}

/* Views the rows of a matrix as the points of one line: [1, k, 1, m]. */
static cpu_view emit_conv_direct_rows_as_image(const cpu_view *v) {
    cpu_view out = *v;
    out.rank = 4;
    out.dim[0] = out.dim[2] = 1;
    out.stride[0] = out.stride[2] = 0;
    out.dim[1] = v->dim[1];
    out.stride[1] = v->stride[1];
    out.dim[3] = v->dim[0];
    out.stride[3] = v->stride[0];
    return out;
}

/* Views the rows of a tensor as the points of one line. Returns false if that requires a copy. */
static bool emit_conv_direct_as_rows(const cpu_view *v, cpu_view *out) {
    const int64_t columns = v->dim[v->rank - 1];
    cpu_view flat;
    if (!cpu_view_reshape(v, 2, (int64_t[]){cpu_view_count(v) / columns, columns}, &flat)) return false;
    *out = emit_conv_direct_rows_as_image(&flat);
    return true;
}

propane_status cpu_conv_plan_direct(planner *p, const cpu_fused_conv *l, const mil_conv *c, const cpu_view *x,
                                    const cpu_view *other, const cpu_view *y, cpu_conv_direct *a, propane_error *err) {
    *a = (cpu_conv_direct){.k = &p->g.options.kernels->conv};
    a->images = c->n, a->c_in = c->c_in, a->c_out = c->c_out;
    a->in_h = c->in[0], a->in_w = c->in[1], a->out_h = c->out[0], a->out_w = c->out[1];
    a->stride_h = c->stride[0], a->stride_w = c->stride[1];
    a->before_h = c->before[0], a->before_w = c->before[1];
    emit_conv_direct_set_strides(x, &a->x_image, &a->x_line, &a->x_col, &a->x_channel);
    emit_conv_direct_set_strides(y, &a->y_image, &a->y_line, &a->y_col, NULL);
    a->has_other = other != NULL;
    if (other) emit_conv_direct_set_strides(other, &a->other_image, &a->other_line, &a->other_col, NULL);
    PROPANE_TRY(emit_conv_direct_choose_points(p, a, c, l->gate != NULL, err));
    PROPANE_TRY(emit_conv_direct_pack_weights(p, a, l->op, c->kernel[0] * c->kernel[1], c->kernel[1], err));
    PROPANE_TRY(cpu_conv_plan_end(p, l, a->c_out, a->k->width, &a->end, err));
    emit_conv_direct_divide_runs(a);
    p->program->gemm_count++;
    if (!l->gate) return PROPANE_OK;
    cpu_view gate;
    PROPANE_TRY(cpu_emit_operand(p, l->gate, &gate, err));
    PROPANE_TRY(cpu_emit_dense(p, l->result, &gate, &gate, err));
    a->has_gate = true;
    a->gate_image = gate.dim[0] == 1 ? 0 : a->c_in;
    a->gate = cpu_view_ref(&gate);
    cpu_emit_touch(p, gate.buffer);
    return PROPANE_OK;
}

static propane_status emit_conv_direct_emit(planner *p, const cpu_fused_conv *l, const mil_conv *c, const cpu_view *x,
                                            const cpu_view *other, const cpu_view *y, propane_error *err) {
    cpu_conv_direct_step *b = ARENA_NEW(p->arena, cpu_conv_direct_step);
    if (!b) return cpu_program_no_memory(err);
    cpu_conv_direct *a = &b->d;
    PROPANE_TRY(cpu_conv_plan_direct(p, l, c, x, other, y, a, err));
    if (a->copied) PROPANE_TRY(cpu_emit_scratch(p, a->images * a->a_image * (int64_t)sizeof(float), &b->plane, err));
    if (!a->has_gate || a->images == 1) emit_conv_direct_join_lines(a);
    emit_conv_direct_divide_runs(a);
    emit_conv_direct_divide_work(b, p->threads);
    a->x = cpu_view_ref(x);
    a->y = cpu_view_ref(y);
    cpu_emit_touch(p, x->buffer);
    cpu_emit_touch(p, y->buffer);
    if (other) {
        a->other = cpu_view_ref(other);
        cpu_emit_touch(p, other->buffer);
        /* With several passes, y holds their sums while `other` is still needed. */
        bool same =
            a->pass == a->depth && other->buffer != x->buffer && !other->offset && !y->offset && other->rank == y->rank;
        for (int d = 0; d < y->rank; d++) same &= y->dim[d] == 1 || other->stride[d] == y->stride[d];
        if (same) PROPANE_TRY(cpu_emit_may_share(p, other, y, err));
    }
    return cpu_emit_step(p, cpu_conv_direct_run, b,
                         l->op->info->code != MIL_OP_conv ? "linear"
                         : l->gate                        ? "gate+conv"
                                                          : "conv",
                         l->result, cpu_conv_flops(c), 0, err);
}

static propane_status emit_linear(planner *p, const cpu_fused_conv *l, propane_error *err) {
    cpu_view x, y, other, target, rows;
    PROPANE_TRY(cpu_emit_operand(p, mil_in(l->op, "x"), &x, err));
    if (!emit_conv_direct_as_rows(&x, &rows)) {
        PROPANE_TRY(cpu_emit_dense(p, l->result, &x, &x, err));
        (void)emit_conv_direct_as_rows(&x, &rows);
    }
    if (l->other) {
        PROPANE_TRY(cpu_emit_operand(p, l->other, &other, err));
        if (!emit_conv_direct_as_rows(&other, &other) || (other.stride[1] != 1 && other.dim[1] > 1)) {
            PROPANE_TRY(cpu_emit_operand(p, l->other, &other, err));
            PROPANE_TRY(cpu_emit_dense(p, l->result, &other, &other, err));
            (void)emit_conv_direct_as_rows(&other, &other);
        }
    }
    PROPANE_TRY(cpu_emit_result(p, l->result, &target, err));
    cpu_view at = target;
    const bool direct = emit_conv_direct_as_rows(&target, &y) && (y.stride[1] == 1 || y.dim[1] == 1);
    if (!direct) {
        const int b = cpu_emit_buffer(p, CPU_STORAGE_TEMP, cpu_view_count(&target) * (int64_t)sizeof(float));
        if (b < 0) return cpu_program_no_memory(err);
        at = cpu_view_dense(&l->result->type, b);
        (void)emit_conv_direct_as_rows(&at, &y);
    }
    const mil_conv c = {.spatial = 2,
                        .n = 1,
                        .c_in = rows.dim[1],
                        .c_out = y.dim[1],
                        .groups = 1,
                        .in = {1, rows.dim[3], 1},
                        .out = {1, rows.dim[3], 1},
                        .kernel = {1, 1, 1},
                        .stride = {1, 1, 1},
                        .dilation = {1, 1, 1}};
    PROPANE_TRY(emit_conv_direct_emit(p, l, &c, &rows, l->other ? &other : NULL, &y, err));
    return direct ? PROPANE_OK : cpu_emit_copy(p, l->result, &at, &target, err);
}

propane_status cpu_conv_emit_direct(planner *p, const cpu_fused_conv *l, propane_error *err) {
    cpu_view x, y, at, other;
    mil_conv c;
    if (l->op->info->code == MIL_OP_linear) return emit_linear(p, l, err);
    PROPANE_TRY(mil_conv_read(l->op, &c, err));
    PROPANE_TRY(cpu_emit_operand(p, l->x, &x, err));
    if (l->other) {
        PROPANE_TRY(cpu_emit_operand(p, l->other, &other, err));
        PROPANE_TRY(cpu_emit_channels(p, l->result, &l->other->type, &other, err));
    }
    PROPANE_TRY(cpu_emit_result_channels(p, l->result, &y, &at, err));
    if (cpu_conv_winograd_pays(&c)) {
        PROPANE_TRY(cpu_emit_channels(p, l->result, &l->x->type, &x, err));
        PROPANE_TRY(cpu_conv_emit_winograd(p, l, &c, &x, l->other ? &other : NULL, &at, err));
    } else {
        PROPANE_TRY(emit_conv_direct_emit(p, l, &c, &x, l->other ? &other : NULL, &at, err));
    }
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, l->result, &at, &y, err);
}
