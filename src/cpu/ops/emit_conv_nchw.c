/* SPDX-License-Identifier: MIT
 * Emits convolutions that are not single matrix products. The patches of an image are the columns of a matrix that
 * never exists as a whole. Each task packs the columns of its points directly from the padded image, in the form that
 * the tiles read. It multiplies these columns by the weights, which are packed at plan time if they are constant, and
 * writes its part of the result. If there are few points, all tasks share one packed block and divide the output
 * channels.
 *
 * cpu/ops/emit_depthwise_pool.c handles one input channel per group. 1x1 convolutions of stride 1 are matrix products
 * (emit_matmul.c).
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/conv/conv_window.h"
#include "cpu/ops/emit_depthwise_pool.h"
#include "cpu/plan/emit.h"

enum {
    K_BLOCK = 512,           /* rows of the patch matrix packed at once; the order of the sums depends only on this */
    BLOCK_FLOATS = 64 << 10, /* size of a task's columns, and of its part of the result, both of which stay in L2 */
    SEGMENTS = 64,           /* the most columns in a panel */
    SLACK = CPU_WINDOW_LANES
};

typedef struct conv_args {
    mil_conv c; /* with three dimensions; missing ones are added in front */
    cpu_window_plane plane;
    const int64_t *tap_at; /* [taps]: offsets in a plane */
    const cpu_gemm_kernels *k;
    void (*pack)(float *to, const cpu_window_patches *p, int64_t k0, int64_t k1);
    cpu_dtype x_type, w_type, bias_type, y_type;
    int64_t taps, points, pixels; /* taps in the kernel, points in the result, pixels in the image */
    int64_t depth, rows;          /* size of a group's weight matrix */
    int64_t a_panels, a_floats;   /* a_floats: in a group's packed weights */
    int64_t b_panels, task_panels, column_tasks;
    int64_t chunk_panels, row_tasks;
    int64_t bias_stride;
    bool has_bias, shared, packed;
    cpu_ref x, w, y, bias, weights, image, columns, scratch;
    int64_t worker_floats, block_floats; /* block_floats: offset of the result's part in a worker's memory */
} conv_args;

typedef struct conv_call {
    const conv_args *a;
    const void *given; /* input of one batch item */
    unsigned char *y;
    const void *raw, *bias;
    float *weights, *planes, *columns, *scratch;
} conv_call;

/* ---- columns ----------------------------------------------------------------------------------------------------- */

static int emit_conv_nchw_cut_segments(const conv_args *a, int64_t first, cpu_window_segment *out) {
    const mil_conv *c = &a->c;
    const int64_t last = min_i64(first + a->k->nr, a->points);
    int count = 0;
    for (int64_t p = first; p < last; count++) {
        const int64_t x = p % c->out[2], y = p / c->out[2] % c->out[1], z = p / c->out[2] / c->out[1];
        out[count] =
            (cpu_window_segment){p - first, cpu_window_result(&a->plane, z, y, x), min_i64(c->out[2] - x, last - p)};
        p += out[count].length;
    }
    return count;
}

static void emit_conv_nchw_pack_columns(const conv_args *a, const float *planes, int64_t first, int64_t k0, int64_t k1,
                                        float *to) {
    cpu_window_segment segments[SEGMENTS];
    const cpu_window_patches patches = {.planes = planes,
                                        .plane_floats = a->plane.floats,
                                        .tap = a->tap_at,
                                        .taps = a->taps,
                                        .width = a->k->nr,
                                        .segments = segments,
                                        .segment_count = emit_conv_nchw_cut_segments(a, first, segments)};
    a->pack(to, &patches, k0, k1);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

static int64_t emit_conv_nchw_panel_rows(const conv_args *a, int64_t panel) {
    return min_i64(a->k->mr, a->rows - panel * a->k->mr);
}
static int emit_conv_nchw_panel_height(const conv_args *a, int64_t panel) {
    const int step = a->k->row_step;
    return (int)(div_up(emit_conv_nchw_panel_rows(a, panel), step) * step);
}

/* Returns a panel of a group's weights, which are stored by blocks of k, then panels. */
static float *emit_conv_nchw_panel_at(const conv_args *a, float *weights, int64_t group, int64_t panel, int64_t k0,
                                      int64_t k1) {
    const int64_t height = a->a_floats / a->depth;
    return weights + group * a->a_floats + k0 * height + panel * a->k->mr * (k1 - k0);
}

static void emit_conv_nchw_pack_weights(const conv_args *a, const void *raw, int64_t group, float *weights) {
    for (int64_t k0 = 0; k0 < a->depth; k0 += K_BLOCK) {
        const int64_t k1 = min_i64(a->depth, k0 + K_BLOCK);
        for (int64_t i = 0; i < a->a_panels; i++) {
            const int64_t row = group * a->rows + i * a->k->mr;
            a->k->pack(emit_conv_nchw_panel_at(a, weights, group, i, k0, k1), emit_conv_nchw_panel_height(a, i),
                       cpu_element(raw, a->w_type, row * a->depth), a->w_type, a->depth, 1,
                       emit_conv_nchw_panel_rows(a, i), k0, k1, false);
        }
    }
}

static void emit_conv_nchw_task_weights(void *context, int task, int worker) {
    const conv_call *call = context;
    (void)worker;
    emit_conv_nchw_pack_weights(call->a, call->raw, task, call->weights);
}

static void emit_conv_nchw_task_plane(void *context, int task, int worker) {
    const conv_call *call = context;
    const conv_args *a = call->a;
    (void)worker;
    cpu_window_plane_fill(&a->plane, cpu_element(call->given, a->x_type, (int64_t)task * a->pixels),
                          a->x_type == CPU_F16, 0.0f, call->planes + task * a->plane.floats);
}

static int64_t emit_conv_nchw_shared_floats(const conv_args *a) { return a->depth * a->k->nr + SLACK; }

/* Packs one panel of the shared columns over all of k. */
static void emit_conv_nchw_task_columns(void *context, int task, int worker) {
    const conv_call *call = context;
    const conv_args *a = call->a;
    const int64_t group = task / a->b_panels, panel = task % a->b_panels, width = a->k->nr;
    const float *planes = call->planes + group * (a->c.c_in / a->c.groups) * a->plane.floats;
    (void)worker;
    emit_conv_nchw_pack_columns(a, planes, panel * width, 0, a->depth,
                                call->columns + (int64_t)task * emit_conv_nchw_shared_floats(a));
}

static float emit_conv_nchw_bias_of(const conv_call *call, int64_t row) {
    const conv_args *a = call->a;
    if (!a->has_bias) return 0.0f;
    const void *at = cpu_element(call->bias, a->bias_type, row * a->bias_stride);
    if (a->bias_type == CPU_F32) return *(const float *)at;
    uint16_t half;
    memcpy(&half, at, 2);
    return fp16_to_f32(half);
}

/* Adds the bias to rows of sums and writes them to the result. */
static void emit_conv_nchw_write_rows(const conv_call *call, const float *sums, int64_t stride, int64_t row,
                                      int64_t rows, int64_t point, int64_t points) {
    const conv_args *a = call->a;
    for (int64_t i = 0; i < rows; i++, sums += stride) {
        const float bias = emit_conv_nchw_bias_of(call, row + i);
        void *to = call->y + ((row + i) * a->points + point) * cpu_dtype_bytes(a->y_type);
        if (a->y_type == CPU_F32)
            for (int64_t j = 0; j < points; j++) ((float *)to)[j] = sums[j] + bias;
        else
            for (int64_t j = 0; j < points; j++) ((uint16_t *)to)[j] = fp16_from_f32(sums[j] + bias);
    }
}

static void emit_conv_nchw_task_block(void *context, int task, int worker) {
    const conv_call *call = context;
    const conv_args *a = call->a;
    const int64_t width = a->k->nr, part = task % a->row_tasks, block = task / a->row_tasks % a->column_tasks;
    const int64_t group = task / a->row_tasks / a->column_tasks;
    const int64_t from = block * a->task_panels, panels = min_i64(a->task_panels, a->b_panels - from);
    const int64_t top = part * a->chunk_panels, bottom = min_i64(a->a_panels, top + a->chunk_panels);
    const float *planes = call->planes + group * (a->c.c_in / a->c.groups) * a->plane.floats;
    float *own = call->scratch + worker * a->worker_floats, *sums = own + a->block_floats;
    const int64_t stride = a->task_panels * width;
    for (int64_t k0 = 0; k0 < a->depth; k0 += K_BLOCK) {
        const int64_t k1 = min_i64(a->depth, k0 + K_BLOCK), count = k1 - k0;
        for (int64_t j = 0; j < panels && !a->shared; j++)
            emit_conv_nchw_pack_columns(a, planes, (from + j) * width, k0, k1, own + j * count * width);
        for (int64_t i = top; i < bottom; i++) {
            const float *weights = emit_conv_nchw_panel_at(a, call->weights, group, i, k0, k1);
            const gemm_tile tile = a->k->tiles[emit_conv_nchw_panel_height(a, i) / a->k->row_step - 1];
            for (int64_t j = 0; j < panels; j++) {
                const float *columns = own + j * count * width;
                if (a->shared)
                    columns =
                        call->columns + (group * a->b_panels + from + j) * emit_conv_nchw_shared_floats(a) + k0 * width;
                const gemm_next nothing = {(const char *)weights, 0, 0};
                tile(weights, columns, count, sums + (i - top) * a->k->mr * stride + j * width, stride, 1.0f, k0 > 0,
                     &nothing);
            }
        }
    }
    const int64_t point = from * width;
    emit_conv_nchw_write_rows(call, sums, stride, group * a->rows + top * a->k->mr,
                              min_i64(a->rows, bottom * a->k->mr) - top * a->k->mr, point,
                              min_i64(panels * width, a->points - point));
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */

static propane_status emit_conv_nchw_run(const cpu_run *run, const void *args, propane_error *err) {
    const conv_args *a = args;
    const int64_t groups = a->c.groups, x_step = a->c.c_in * a->pixels, y_step = a->c.c_out * a->points;
    conv_call call = {.a = a,
                      .raw = a->packed ? NULL : cpu_ref_at(run, a->w),
                      .bias = a->has_bias ? cpu_ref_at(run, a->bias) : NULL,
                      .weights = cpu_ref_at(run, a->weights),
                      .planes = cpu_ref_at(run, a->image),
                      .scratch = cpu_ref_at(run, a->scratch)};
    (void)err;
    if (a->shared) call.columns = cpu_ref_at(run, a->columns);
    if (!a->packed) cpu_run_parallel(run, emit_conv_nchw_task_weights, &call, (int)groups);
    for (int64_t n = 0; n < a->c.n; n++) {
        call.given = cpu_element(cpu_ref_at(run, a->x), a->x_type, n * x_step);
        call.y = (unsigned char *)cpu_ref_at(run, a->y) + n * y_step * cpu_dtype_bytes(a->y_type);
        cpu_run_parallel(run, emit_conv_nchw_task_plane, &call, (int)a->c.c_in);
        if (a->shared) cpu_run_parallel(run, emit_conv_nchw_task_columns, &call, (int)(groups * a->b_panels));
        cpu_run_parallel(run, emit_conv_nchw_task_block, &call, (int)(groups * a->column_tasks * a->row_tasks));
    }
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static cpu_dtype emit_conv_nchw_type_of(const cpu_view *v) { return v->dtype == MIL_fp16 ? CPU_F16 : CPU_F32; }

static void emit_conv_nchw_divide_work(conv_args *a, int threads) {
    const int64_t width = a->k->nr, deep = min_i64(a->depth, K_BLOCK), groups = a->c.groups;
    a->b_panels = div_up(a->points, width);
    a->task_panels = max_i64(1, min_i64(a->b_panels, BLOCK_FLOATS / (deep * width)));
    a->task_panels = max_i64(1, min_i64(a->task_panels, 2 * BLOCK_FLOATS / (a->a_panels * a->k->mr * width)));
    while (a->task_panels > 1 && groups * div_up(a->b_panels, a->task_panels) < 4 * threads) a->task_panels--;
    a->column_tasks = div_up(a->b_panels, a->task_panels);
    a->row_tasks = min_i64(a->a_panels, div_up(4 * threads, groups * a->column_tasks));
    if (threads == 1 || groups * a->column_tasks >= 2 * threads) a->row_tasks = 1;
    a->row_tasks = max_i64(a->row_tasks, div_up(a->a_panels * a->k->mr * a->task_panels * width, 4 * BLOCK_FLOATS));
    a->chunk_panels = div_up(a->a_panels, a->row_tasks);
    a->row_tasks = div_up(a->a_panels, a->chunk_panels);
    a->shared = a->row_tasks > 1;
    a->block_floats = a->shared ? 0 : div_up(a->task_panels * width * deep + SLACK, 16) * 16;
    a->worker_floats = a->block_floats + div_up(a->chunk_panels * a->k->mr * a->task_panels * width, 16) * 16;
}

static propane_status emit_conv_nchw_plan_taps(planner *p, conv_args *a, propane_error *err) {
    int64_t *taps = ARENA_ARRAY(p->arena, a->taps, int64_t), t = 0;
    if (!taps) return cpu_program_no_memory(err);
    cpu_window_plane_plan(&a->plane, &a->c);
    for (int64_t i = 0; i < a->c.kernel[0]; i++)
        for (int64_t j = 0; j < a->c.kernel[1]; j++)
            for (int64_t k = 0; k < a->c.kernel[2]; k++) taps[t++] = cpu_window_tap(&a->plane, i, j, k);
    a->tap_at = taps;
    a->pack = p->g.options.kernels->window.pack;
    return PROPANE_OK;
}

/* Packs the weights now if they are constant. Otherwise reserves memory in which each run packs them. */
static propane_status emit_conv_nchw_take_weights(planner *p, conv_args *a, const cpu_view *w, propane_error *err) {
    const cpu_buffer *source = &p->buffers[w->buffer];
    const int64_t floats = a->a_floats * a->c.groups;
    if (source->place != CPU_STORAGE_CONST) {
        a->w = cpu_view_ref(w);
        cpu_emit_touch(p, w->buffer);
        return cpu_emit_scratch(p, floats * (int64_t)sizeof(float), &a->weights, err);
    }
    unsigned char *memory = arena_alloc(p->work, (size_t)floats * sizeof(float) + 64);
    if (!memory) return cpu_program_no_memory(err);
    memory += (64 - (uintptr_t)memory % 64) % 64;
    for (int64_t g = 0; g < a->c.groups; g++)
        emit_conv_nchw_pack_weights(a, (const unsigned char *)source->data + cpu_view_ref(w).byte, g,
                                    (float *)(void *)memory);
    const int b = cpu_emit_buffer(p, CPU_STORAGE_CONST, floats * (int64_t)sizeof(float));
    if (b < 0) return cpu_program_no_memory(err);
    p->buffers[b].data = memory;
    cpu_emit_touch(p, b);
    a->weights = (cpu_ref){b, 0};
    a->packed = true;
    return PROPANE_OK;
}

static propane_status emit_conv_nchw_take_bias(planner *p, const mil_op *op, conv_args *a, propane_error *err) {
    cpu_view bias;
    if (!mil_in(op, "bias")) return PROPANE_OK;
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "bias"), &bias, err));
    cpu_emit_touch(p, bias.buffer);
    a->has_bias = true;
    a->bias = cpu_view_ref(&bias);
    a->bias_type = emit_conv_nchw_type_of(&bias);
    a->bias_stride = bias.stride[0];
    return PROPANE_OK;
}

static propane_status emit_conv(planner *p, const mil_op *op, propane_error *err) {
    if (cpu_window_takes_conv(op)) return cpu_window_emit_conv(p, op, err);
    conv_args *a = ARENA_NEW(p->arena, conv_args);
    cpu_view x, w, y, at;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_conv_read(op, &a->c, err));
    cpu_window_three(&a->c);
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "weight"), &w, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &x, &x, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &w, &w, err));
    PROPANE_TRY(cpu_emit_result_dense(p, op->results[0], &y, &at, err));
    const mil_conv *c = &a->c;
    a->k = &p->g.options.kernels->gemm;
    a->x_type = emit_conv_nchw_type_of(&x), a->w_type = emit_conv_nchw_type_of(&w),
    a->y_type = emit_conv_nchw_type_of(&at);
    a->taps = c->kernel[0] * c->kernel[1] * c->kernel[2];
    a->points = c->out[0] * c->out[1] * c->out[2];
    a->pixels = c->in[0] * c->in[1] * c->in[2];
    a->depth = c->c_in / c->groups * a->taps;
    a->rows = c->c_out / c->groups;
    a->a_panels = div_up(a->rows, a->k->mr);
    a->a_floats = ((a->a_panels - 1) * a->k->mr + emit_conv_nchw_panel_height(a, a->a_panels - 1)) * a->depth;
    emit_conv_nchw_divide_work(a, p->threads);
    PROPANE_TRY(emit_conv_nchw_plan_taps(p, a, err));
    a->x = cpu_view_ref(&x);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, x.buffer);
    cpu_emit_touch(p, at.buffer);
    PROPANE_TRY(emit_conv_nchw_take_bias(p, op, a, err));
    PROPANE_TRY(emit_conv_nchw_take_weights(p, a, &w, err));
    PROPANE_TRY(cpu_emit_scratch(p, c->c_in * a->plane.floats * (int64_t)sizeof(float), &a->image, err));
    if (a->shared)
        PROPANE_TRY(cpu_emit_scratch(
            p, c->groups * a->b_panels * emit_conv_nchw_shared_floats(a) * (int64_t)sizeof(float), &a->columns, err));
    PROPANE_TRY(cpu_emit_scratch(p, a->worker_floats * p->threads * (int64_t)sizeof(float), &a->scratch, err));
    const double flops = 2.0 * (double)c->n * (double)c->c_out * (double)a->points * (double)a->depth;
    p->program->gemm_count++;
    PROPANE_TRY(cpu_emit_step(p, emit_conv_nchw_run, a, "conv", op->results[0], flops, 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, op->results[0], &at, &y, err);
}

static bool emit_conv_nchw_takes_conv(const mil_op *op) {
    mil_conv c;
    return !mil_conv_read(op, &c, NULL) && c.spatial <= 3;
}

const cpu_emitter cpu_emitter_conv = {.emit = emit_conv, .takes = emit_conv_nchw_takes_conv};
