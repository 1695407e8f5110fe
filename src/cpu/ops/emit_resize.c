/* SPDX-License-Identifier: MIT
 * Emits resizing of the last two dimensions. A task computes one plane. A line of x is stretched to the new width once
 * and used for all adjacent lines of the result. The position of each element in x is computed at plan time.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/plan/emit.h"

/* Element i of the result is between low[i] and high[i], at the fraction `part`. */
typedef struct resize_axis {
    int64_t in, out;
    int32_t *low, *high;
    float *part;
} resize_axis;

typedef struct resize_args {
    resize_axis rows, columns;
    int64_t planes;
    bool nearest, half;
    cpu_ref x, y, scratch;
} resize_args;

typedef struct resize_call {
    const resize_args *a;
    const unsigned char *x;
    unsigned char *y;
    float *scratch;
} resize_call;

/* Interpolates between two elements. If the difference overflows fp32, or one element is infinite, each is weighted
 * separately. `high` does not count if its weight is 0. */
static inline float emit_resize_between(float low, float high, float part) {
    const float apart = high - low;
    if (isfinite(apart)) return low + apart * part;
    return part == 0 ? low : low * (1 - part) + high * part;
}

static void emit_resize_stretch(const resize_args *a, const void *line, float *to) {
    const resize_axis *c = &a->columns;
    const uint16_t *half = line;
    const float *full = line;
    for (int64_t i = 0; i < c->out; i++) {
        const float low = a->half ? fp16_to_f32(half[c->low[i]]) : full[c->low[i]];
        const float high = a->half ? fp16_to_f32(half[c->high[i]]) : full[c->high[i]];
        to[i] = emit_resize_between(low, high, c->part[i]);
    }
}

/* Returns which of the two lines in memory is the stretched line `row`. If neither is, stretches it over the line that
 * is not `keep`. */
static int emit_resize_stretched(const resize_args *a, const unsigned char *plane, int64_t row, float *memory,
                                 int64_t have[2], int keep) {
    const int64_t size = a->half ? 2 : 4;
    for (int k = 0; k < 2; k++)
        if (have[k] == row) return k;
    const int to = keep == 0 ? 1 : 0;
    emit_resize_stretch(a, plane + row * a->columns.in * size, memory + to * a->columns.out);
    have[to] = row;
    return to;
}

static void emit_resize_nearest_plane(const resize_args *a, const unsigned char *x, unsigned char *y) {
    const resize_axis *r = &a->rows, *c = &a->columns;
    for (int64_t i = 0; i < r->out; i++) {
        if (i > 0 && r->low[i] == r->low[i - 1]) {
            const size_t bytes = (size_t)(c->out * (a->half ? 2 : 4));
            memcpy(y + (size_t)i * bytes, y + (size_t)(i - 1) * bytes, bytes);
        } else if (a->half) {
            const uint16_t *from = (const uint16_t *)(const void *)x + r->low[i] * c->in;
            uint16_t *to = (uint16_t *)(void *)y + i * c->out;
            for (int64_t j = 0; j < c->out; j++) to[j] = from[c->low[j]];
        } else {
            const float *from = (const float *)(const void *)x + r->low[i] * c->in;
            float *to = (float *)(void *)y + i * c->out;
            for (int64_t j = 0; j < c->out; j++) to[j] = from[c->low[j]];
        }
    }
}

static void emit_resize_linear_plane(const resize_args *a, const unsigned char *x, unsigned char *y, float *memory) {
    const resize_axis *r = &a->rows;
    const int64_t width = a->columns.out;
    int64_t have[2] = {-1, -1};
    for (int64_t i = 0; i < r->out; i++) {
        const int first = emit_resize_stretched(a, x, r->low[i], memory, have, -1);
        const int second = emit_resize_stretched(a, x, r->high[i], memory, have, first);
        const float *low = memory + first * width, *high = memory + second * width, part = r->part[i];
        if (a->half)
            for (int64_t j = 0; j < width; j++)
                ((uint16_t *)(void *)y)[i * width + j] = fp16_from_f32(emit_resize_between(low[j], high[j], part));
        else
            for (int64_t j = 0; j < width; j++)
                ((float *)(void *)y)[i * width + j] = emit_resize_between(low[j], high[j], part);
    }
}

static void emit_resize_task_plane(void *context, int task, int worker) {
    const resize_call *call = context;
    const resize_args *a = call->a;
    const int64_t size = a->half ? 2 : 4;
    const unsigned char *x = call->x + task * a->rows.in * a->columns.in * size;
    unsigned char *y = call->y + task * a->rows.out * a->columns.out * size;
    if (a->nearest)
        emit_resize_nearest_plane(a, x, y);
    else
        emit_resize_linear_plane(a, x, y, call->scratch + worker * 2 * a->columns.out);
}

static propane_status emit_resize_run(const cpu_run *run, const void *args, propane_error *err) {
    const resize_args *a = args;
    resize_call call = {a, cpu_ref_at(run, a->x), cpu_ref_at(run, a->y), cpu_ref_at(run, a->scratch)};
    (void)err;
    cpu_run_parallel(run, emit_resize_task_plane, &call, (int)a->planes);
    return PROPANE_OK;
}

static propane_status emit_resize_plan_axis(planner *p, const mil_resize *r, int d, int64_t in, resize_axis *out,
                                            propane_error *err) {
    out->in = in, out->out = r->result.dim[d];
    out->low = ARENA_ARRAY(p->arena, out->out, int32_t);
    out->high = ARENA_ARRAY(p->arena, out->out, int32_t);
    out->part = ARENA_ARRAY(p->arena, out->out, float);
    if (!out->low || !out->high || !out->part) return cpu_program_no_memory(err);
    for (int64_t i = 0; i < out->out; i++) {
        const double at = d < r->first ? (double)i
                          : r->nearest ? (double)mil_resize_nearest(r, in, out->out, i)
                                       : mil_grid_point(r->grid, (double)in, out->out, i);
        const int64_t low = (int64_t)at;
        out->low[i] = (int32_t)low;
        out->high[i] = (int32_t)(low + 1 < in ? low + 1 : low);
        out->part[i] = (float)(at - (double)low);
    }
    return PROPANE_OK;
}

static propane_status emit_resize(planner *p, const mil_op *op, propane_error *err) {
    resize_args *a = ARENA_NEW(p->arena, resize_args);
    const mil_type *type = &mil_in(op, "x")->type;
    cpu_view x, y, at;
    mil_resize r;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(mil_resize_read(op, &r, err));
    PROPANE_TRY(cpu_emit_operand(p, mil_in(op, "x"), &x, err));
    PROPANE_TRY(cpu_emit_dense(p, op->results[0], &x, &x, err));
    PROPANE_TRY(cpu_emit_result_dense(p, op->results[0], &y, &at, err));
    const int last = type->rank - 1;
    PROPANE_TRY(emit_resize_plan_axis(p, &r, last - 1, type->dim[last - 1], &a->rows, err));
    PROPANE_TRY(emit_resize_plan_axis(p, &r, last, type->dim[last], &a->columns, err));
    a->planes = mil_type_count(type) / (type->dim[last] * type->dim[last - 1]);
    a->nearest = r.nearest;
    a->half = x.dtype == MIL_fp16;
    a->x = cpu_view_ref(&x);
    a->y = cpu_view_ref(&at);
    cpu_emit_touch(p, x.buffer);
    cpu_emit_touch(p, at.buffer);
    PROPANE_TRY(cpu_emit_scratch(p, 2 * a->columns.out * p->threads * (int64_t)sizeof(float), &a->scratch, err));
    const double elements = (double)mil_type_count(&r.result);
    PROPANE_TRY(cpu_emit_step(p, emit_resize_run, a, "resize", op->results[0], a->nearest ? 0 : 6 * elements, 0, err));
    return cpu_view_equal(&at, &y) ? PROPANE_OK : cpu_emit_copy(p, op->results[0], &at, &y, err);
}

static bool emit_resize_takes_resize(const mil_op *op) {
    const mil_type *x = &mil_in(op, "x")->type;
    mil_resize r;
    if (mil_resize_read(op, &r, NULL) || !mil_dtype_is_float(x->dtype)) return false;
    if (x->rank < 2 || r.first < x->rank - 2 || x->dim[x->rank - 1] > INT32_MAX || x->dim[x->rank - 2] > INT32_MAX)
        return false;
    return mil_type_count(x) / (x->dim[x->rank - 1] * x->dim[x->rank - 2]) <= INT32_MAX;
}

const cpu_emitter cpu_emitter_resize = {.emit = emit_resize, .takes = emit_resize_takes_resize};
