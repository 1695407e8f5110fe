/* SPDX-License-Identifier: MIT
 * Emits gather, gather_nd, scatter and scatter_nd, which copy or combine slices of `inner` neighbours at positions
 * given by indices. The positions are computed and checked first. Then the slices are moved in parallel, with the
 * updates to each position of a scatter in order, so that repeated indices produce the same bits on any number of
 * threads.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/ops/emitters.h"

/* Image o of x has image / inner slices. Pick p of the image's batch (o / outer_each) is the slice at the sum of
 * index[d] * step[d]. */
typedef struct slices {
    int64_t batch, outer_each, picks, inner, image;
    int depth;
    int64_t size[MIL_MAX_RANK], step[MIL_MAX_RANK];
} slices;

enum { MOST_RANGES = 16 };

typedef struct index_args {
    slices s;
    mil_dtype index_type, dtype;
    mil_scatter_mode mode;
    int element;
    bool strict; /* negative indices are out of range */
    cpu_ref x, indices, updates, y, places, wide;
    const char *where;
} index_args;

/* Computes the positions of all picks, in elements from the beginning of their image. */
static propane_status emit_gather_find_places(const cpu_run *run, const index_args *a, int64_t *places,
                                              propane_error *err) {
    const slices *s = &a->s;
    const void *indices = cpu_ref_at(run, a->indices);
    for (int64_t p = 0; p < s->batch * s->picks; p++) {
        double at[MIL_MAX_RANK];
        cpu_dense_load(at, a->index_type, indices, p * s->depth, 1, s->depth);
        places[p] = 0;
        for (int d = 0; d < s->depth; d++) {
            const int64_t given = (int64_t)at[d], index = given < 0 && !a->strict ? given + s->size[d] : given;
            if (index < 0 || index >= s->size[d])
                return propane_fail(err, PROPANE_ERR_INVALID, "%s: index %lld is %lld, but there are %lld elements",
                                    a->where, (long long)(p * s->depth + d), (long long)given, (long long)s->size[d]);
            places[p] += index * s->step[d];
        }
    }
    return PROPANE_OK;
}

typedef struct index_call {
    const index_args *a;
    const int64_t *places;
    const unsigned char *x, *updates;
    unsigned char *y;
    void *wide;
    int64_t ranges, range; /* for a scatter: an image is divided into `ranges` of `range` elements, one task each */
} index_call;

/* ---- gather ------------------------------------------------------------------------------------------------------ */

static void emit_gather_take_slices(const void *context, int64_t first, int64_t last, int worker) {
    const index_call *c = context;
    const slices *s = &c->a->s;
    const int64_t element = c->a->element;
    const size_t bytes = (size_t)(s->inner * element);
    (void)worker;
    for (int64_t i = first; i < last; i++) {
        const int64_t o = i / s->picks, from = o * s->image + c->places[o / s->outer_each * s->picks + i % s->picks];
        unsigned char *to = c->y + (size_t)i * bytes;
        const unsigned char *source = c->x + (size_t)(from * element);
        if (bytes == 4)
            memcpy(to, source, 4);
        else if (bytes == 2)
            memcpy(to, source, 2);
        else
            memcpy(to, source, bytes);
    }
}

static propane_status emit_gather_run(const cpu_run *run, const void *args, propane_error *err) {
    const index_args *a = args;
    index_call c = {a, cpu_ref_at(run, a->places), cpu_ref_at(run, a->x), NULL, cpu_ref_at(run, a->y), NULL, 0, 0};
    PROPANE_TRY(emit_gather_find_places(run, a, cpu_ref_at(run, a->places), err));
    cpu_dense_each(run, a->s.batch * a->s.outer_each * a->s.picks, cpu_dense_part(a->s.inner), emit_gather_take_slices,
                   &c);
    return PROPANE_OK;
}

/* ---- scatter ----------------------------------------------------------------------------------------------------- */

#define COMBINE(type, sum, take)                                                                                       \
    do {                                                                                                               \
        type *t = to;                                                                                                  \
        const take *f = from;                                                                                          \
        switch (mode) {                                                                                                \
        case MIL_SCATTER_UPDATE:                                                                                       \
            for (int64_t i = 0; i < count; i++) t[i] = (type)(f[i]);                                                   \
            break;                                                                                                     \
        case MIL_SCATTER_ADD:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = (type)((sum)t[i] + (sum)f[i]);                                  \
            break;                                                                                                     \
        case MIL_SCATTER_SUB:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = (type)((sum)t[i] - (sum)f[i]);                                  \
            break;                                                                                                     \
        case MIL_SCATTER_MUL:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = (type)((sum)t[i] * (sum)f[i]);                                  \
            break;                                                                                                     \
        case MIL_SCATTER_DIV:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = (type)(t[i] / f[i]);                                            \
            break;                                                                                                     \
        case MIL_SCATTER_MAX:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = t[i] != t[i] || t[i] > f[i] ? t[i] : (type)f[i];                \
            break;                                                                                                     \
        case MIL_SCATTER_MIN:                                                                                          \
            for (int64_t i = 0; i < count; i++) t[i] = t[i] != t[i] || t[i] < f[i] ? t[i] : (type)f[i];                \
            break;                                                                                                     \
        }                                                                                                              \
    } while (0)

/* Combines `count` numbers of `from` with those of `to`. Sums of fp16 and of integers stay in wide types until the
 * end. */
static void emit_gather_combine(mil_dtype dtype, mil_scatter_mode mode, void *to, const void *from, int64_t count) {
    if (dtype == MIL_fp32) {
        COMBINE(float, float, float);
        return;
    }
    if (dtype == MIL_int32) {
        COMBINE(double, double, int32_t);
        return;
    }
    float numbers[256];
    const uint16_t *half = from;
    for (int64_t i = 0; i < count; i += 256) {
        const int64_t n = count - i < 256 ? count - i : 256;
        fp16_to_f32_array(numbers, half + i, (size_t)n);
        emit_gather_combine(MIL_fp32, mode, (float *)to + i, numbers, n);
    }
}

/* Processes ranges first .. last-1 of the images' elements: combines every pick whose slice begins in one of them. */
static void emit_gather_put_slices(const void *context, int64_t first, int64_t last, int worker) {
    const index_call *c = context;
    const slices *s = &c->a->s;
    const int64_t wide = c->a->dtype == MIL_int32 ? 8 : 4;
    (void)worker;
    for (int64_t r = first; r < last; r++) {
        const int64_t o = r / c->ranges, low = r % c->ranges * c->range, high = low + c->range;
        const int64_t *places = c->places + o / s->outer_each * s->picks;
        for (int64_t p = 0; p < s->picks; p++)
            if (places[p] >= low && places[p] < high)
                emit_gather_combine(c->a->dtype, c->a->mode,
                                    (unsigned char *)c->wide + (size_t)((o * s->image + places[p]) * wide),
                                    c->updates + (size_t)((o * s->picks + p) * s->inner * c->a->element), s->inner);
    }
}

/* emit_gather_widen copies the data into the wide memory, and emit_gather_narrow the wide memory into the result. */
static void emit_gather_widen(const void *context, int64_t first, int64_t last, int worker) {
    const index_call *c = context;
    (void)worker;
    if (c->a->dtype == MIL_fp16)
        fp16_to_f32_array((float *)c->wide + first, (const uint16_t *)(const void *)c->x + first,
                          (size_t)(last - first));
    else
        cpu_dense_load((double *)c->wide + first, MIL_int32, c->x, first, 1, last - first);
}

static void emit_gather_narrow(const void *context, int64_t first, int64_t last, int worker) {
    const index_call *c = context;
    (void)worker;
    if (c->a->dtype == MIL_fp16)
        fp16_from_f32_array((uint16_t *)(void *)c->y + first, (const float *)c->wide + first, (size_t)(last - first));
    else
        cpu_dense_store(c->y, MIL_int32, first, 1, (const double *)c->wide + first, last - first);
}

static propane_status emit_gather_scatter_run(const cpu_run *run, const void *args, propane_error *err) {
    const index_args *a = args;
    const slices *s = &a->s;
    const int64_t images = s->batch * s->outer_each, count = images * s->image;
    index_call c = {a,
                    cpu_ref_at(run, a->places),
                    cpu_ref_at(run, a->x),
                    cpu_ref_at(run, a->updates),
                    cpu_ref_at(run, a->y),
                    cpu_ref_at(run, a->y)};
    PROPANE_TRY(emit_gather_find_places(run, a, cpu_ref_at(run, a->places), err));
    const bool apart = a->dtype != MIL_fp32;
    if (apart) c.wide = cpu_ref_at(run, a->wide);
    if (apart)
        cpu_dense_each(run, count, 32768, emit_gather_widen, &c);
    else if (c.y != c.x)
        memcpy(c.y, c.x, (size_t)(count * a->element));
    const int64_t work = s->picks * s->inner / 32768 + 1;
    c.ranges = work < MOST_RANGES ? work : MOST_RANGES;
    c.range = (s->image + c.ranges - 1) / c.ranges;
    cpu_dense_each(run, images * c.ranges, cpu_dense_part(s->picks * s->inner / c.ranges), emit_gather_put_slices, &c);
    if (apart) cpu_dense_each(run, count, 32768, emit_gather_narrow, &c);
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static propane_status emit_gather_read_slices(const mil_op *op, const char *data, slices *s, propane_error *err) {
    const mil_type *x = &mil_in(op, data)->type;
    mil_gather g;
    mil_gather_nd n;
    *s = (slices){.batch = 1, .outer_each = 1, .depth = 1};
    if (op->info->code == MIL_OP_gather_nd || op->info->code == MIL_OP_scatter_nd) {
        PROPANE_TRY(mil_gather_nd_read(op, data, &n, err));
        s->batch = n.batch, s->picks = n.picks, s->inner = n.inner, s->image = n.image, s->depth = n.depth;
        memcpy(s->size, n.size, sizeof s->size);
        memcpy(s->step, n.step, sizeof s->step);
        return PROPANE_OK;
    }
    if (op->info->code == MIL_OP_gather) {
        PROPANE_TRY(mil_gather_read(op, &g, err));
        s->batch = g.batch, s->outer_each = g.outer, s->picks = g.picks;
        s->size[0] = g.size, s->step[0] = s->inner = g.inner;
    } else {
        int axis = 0;
        PROPANE_TRY(mil_attr_axis(op, "axis", x->rank, &axis, err));
        s->inner = 1;
        for (int d = 0; d < axis; d++) s->outer_each *= x->dim[d];
        for (int d = axis + 1; d < x->rank; d++) s->inner *= x->dim[d];
        s->picks = mil_type_count(&mil_in(op, "indices")->type);
        s->size[0] = x->dim[axis], s->step[0] = s->inner;
    }
    s->image = s->size[0] * s->inner;
    return PROPANE_OK;
}

static propane_status emit_index(planner *p, const mil_op *op, propane_error *err) {
    static const char *const gathers[] = {"x", "indices", NULL}, *const scatters[] = {"data", "indices", "updates",
                                                                                      NULL};
    const bool scatter = op->info->code == MIL_OP_scatter || op->info->code == MIL_OP_scatter_nd;
    index_args *a = ARENA_NEW(p->arena, index_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    PROPANE_TRY(emit_gather_read_slices(op, scatter ? "data" : "x", &a->s, err));
    if (scatter) PROPANE_TRY(mil_scatter_mode_read(op, &a->mode, err));
    PROPANE_TRY(cpu_emit_begin(p, op, scatter ? scatters : gathers, &d, err));
    a->dtype = d.in[0].dtype, a->index_type = d.in[1].dtype, a->strict = mil_index_strict(op);
    a->element = cpu_view_dtype_bytes(a->dtype);
    a->x = cpu_view_ref(&d.in[0]);
    a->indices = cpu_view_ref(&d.in[1]);
    a->y = cpu_view_ref(&d.out[0]);
    a->where = cpu_emit_where(p, op);
    if (!a->where) return cpu_program_no_memory(err);
    PROPANE_TRY(cpu_emit_scratch(p, a->s.batch * a->s.picks * (int64_t)sizeof(int64_t), &a->places, err));
    if (!scatter) return cpu_emit_end(p, op, &d, emit_gather_run, a, "gather", 0, err);
    a->updates = cpu_view_ref(&d.in[2]);
    const int64_t count = mil_type_count(&op->results[0]->type);
    if (a->dtype != MIL_fp32) PROPANE_TRY(cpu_emit_scratch(p, count * (a->dtype == MIL_int32 ? 8 : 4), &a->wide, err));
    if (a->dtype == MIL_fp32 && d.in[0].buffer != d.in[1].buffer && d.in[0].buffer != d.in[2].buffer)
        PROPANE_TRY(cpu_emit_may_share(p, &d.in[0], &d.out[0], err));
    return cpu_emit_end(p, op, &d, emit_gather_scatter_run, a, "scatter", (double)cpu_view_count(&d.in[2]), err);
}

static bool emit_gather_takes_gather(const mil_op *op) { return mil_dtype_get(op->results[0]->type.dtype)->bits >= 8; }
bool cpu_emit_takes_scatter(const mil_op *op) {
    const mil_dtype dtype = op->results[0]->type.dtype;
    return dtype == MIL_fp32 || dtype == MIL_fp16 || dtype == MIL_int32;
}

const cpu_emitter cpu_emitter_gather = {.emit = emit_index, .takes = emit_gather_takes_gather};
propane_status cpu_emit_scatter(planner *p, const mil_op *op, propane_error *err) { return emit_index(p, op, err); }

const cpu_emitter cpu_emitter_scatter = {.emit = emit_index, .takes = cpu_emit_takes_scatter};
