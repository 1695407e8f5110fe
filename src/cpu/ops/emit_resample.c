/* SPDX-License-Identifier: MIT
 * Emits crop_resize, resample and affine. Every point of a result is a weighted sum of four elements of an image. Their
 * positions and weights are computed once per stretch of points and used for all channels.
 */
#include <math.h>

#include "core/base/float16.h"
#include "core/mil/ops/shape_util.h"
#include "cpu/loop/dense.h"
#include "cpu/plan/emit.h"

enum { STRETCH = 64 };

typedef struct tap { /* taps of one point; elements with weight 0 are not read */
    int64_t at[4];
    float weight[4], constant;
} tap;

typedef struct sample_args {
    int64_t results, points, channels, images, size[2], target[2];
    mil_dtype dtype, number_type, image_type;
    mil_sampling s;
    mil_crop_resize c;
    bool crop, affine, one_matrix;
    /* numbers: boxes, coordinates or matrices; image: the image of each box, with buffer -1 if not given */
    cpu_ref x, numbers, image, y;
    const char *where;
} sample_args;

typedef struct sample_call {
    const sample_args *a;
    const void *x, *numbers, *image;
    void *y;
} sample_call;

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void emit_resample_numbers_at(const sample_call *c, int64_t at, int64_t count, double *out) {
    cpu_dense_load(out, c->a->number_type, c->numbers, at, 1, count);
}

static double emit_resample_image_of_box(const sample_call *c, int64_t r, const double *box) {
    const sample_args *a = c->a;
    const int64_t b = r / a->c.images_each;
    double image = (double)b;
    if (a->c.indexed) return box[0];
    if (!a->c.flat) return (double)(r % a->c.images_each);
    if (c->image) cpu_dense_load(&image, a->image_type, c->image, b, 1, 1);
    return image;
}

/* Sets `start` and `end` to the box of result r in its image, and returns the number of that image. */
static double emit_resample_box_of(const sample_call *c, int64_t r, double start[2], double end[2]) {
    const sample_args *a = c->a;
    double box[5];
    emit_resample_numbers_at(c, r / a->c.images_each * a->c.box_step, a->c.box_step, box);
    mil_crop_range(&a->c, box + a->c.indexed, a->size, start, end);
    return emit_resample_image_of_box(c, r, box);
}

/* ---- taps -------------------------------------------------------------------------------------------------------- */

static void emit_resample_add_tap(const sample_args *a, tap *t, int k, double y, double x, double weight) {
    t->at[k] = 0;
    t->weight[k] = 0.0f;
    if (weight == 0.0) return;
    if (y >= 0 && y < (double)a->size[0] && x >= 0 && x < (double)a->size[1]) {
        t->at[k] = (int64_t)y * a->size[1] + (int64_t)x;
        t->weight[k] = (float)weight;
    } else {
        t->constant += (float)(weight * (a->crop ? a->c.pad_value : a->s.pad_value));
    }
}

static void emit_resample_tap_at(const sample_args *a, tap *t, double y, double x) {
    const double last_y = (double)(a->size[0] - 1), last_x = (double)(a->size[1] - 1);
    t->constant = 0.0f;
    if (a->crop && !(y >= 0 && y <= last_y && x >= 0 && x <= last_x)) y = x = -1; /* completely outside */
    if (!a->crop && a->s.nearest) y = nearbyint(y), x = nearbyint(x);
    const double y0 = floor(y), x0 = floor(x), py = y - y0, px = x - x0;
    if (!isfinite(y) || !isfinite(x)) {
        for (int k = 0; k < 4; k++) t->at[k] = 0, t->weight[k] = 0.0f;
        t->constant = (float)a->s.pad_value;
        return;
    }
    emit_resample_add_tap(a, t, 0, y0, x0, (1 - py) * (1 - px));
    emit_resample_add_tap(a, t, 1, y0, x0 + 1, (1 - py) * px);
    emit_resample_add_tap(a, t, 2, y0 + 1, x0, py * (1 - px));
    emit_resample_add_tap(a, t, 3, y0 + 1, x0 + 1, py * px);
}

static void emit_resample_sampled_taps(const sample_call *c, int64_t r, int64_t first, int64_t count, tap *taps) {
    const sample_args *a = c->a;
    double at[2 * STRETCH];
    emit_resample_numbers_at(c, (r * a->points + first) * 2, 2 * count, at);
    for (int64_t i = 0; i < count; i++)
        emit_resample_tap_at(a, &taps[i], mil_sampling_place(&a->s, at[2 * i + 1], a->size[0]),
                             mil_sampling_place(&a->s, at[2 * i], a->size[1]));
}

static void emit_resample_affine_taps(const sample_call *c, int64_t r, int64_t first, int64_t count, tap *taps) {
    const sample_args *a = c->a;
    double m[6];
    emit_resample_numbers_at(c, a->one_matrix ? 0 : r * 6, 6, m);
    for (int64_t i = 0; i < count; i++) {
        const double x = mil_sampling_coordinate(&a->s, (first + i) % a->target[1], a->target[1]);
        const double y = mil_sampling_coordinate(&a->s, (first + i) / a->target[1], a->target[0]);
        emit_resample_tap_at(a, &taps[i], mil_sampling_place(&a->s, m[3] * x + m[4] * y + m[5], a->size[0]),
                             mil_sampling_place(&a->s, m[0] * x + m[1] * y + m[2], a->size[1]));
    }
}

static int64_t emit_resample_crop_taps(const sample_call *c, int64_t r, int64_t first, int64_t count, tap *taps) {
    const sample_args *a = c->a;
    double start[2], end[2];
    const double image = emit_resample_box_of(c, r, start, end);
    for (int64_t i = 0; i < count; i++)
        emit_resample_tap_at(a, &taps[i], mil_crop_point(&a->c, start, end, 0, (first + i) / a->target[1]),
                             mil_crop_point(&a->c, start, end, 1, (first + i) % a->target[1]));
    return (int64_t)image;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

#define SUM(load, store)                                                                                               \
    for (int64_t i = 0; i < count; i++) {                                                                              \
        float sum = taps[i].constant;                                                                                  \
        for (int k = 0; k < 4; k++)                                                                                    \
            if (taps[i].weight[k] != 0.0f) sum += taps[i].weight[k] * load(plane[taps[i].at[k]]);                      \
        out[i] = store(sum);                                                                                           \
    }

static void emit_resample_sample_stretch(const sample_call *c, int64_t r, int64_t first, int64_t count) {
    const sample_args *a = c->a;
    tap taps[STRETCH];
    int64_t image = r;
    if (a->crop)
        image = emit_resample_crop_taps(c, r, first, count, taps);
    else if (a->affine)
        emit_resample_affine_taps(c, r, first, count, taps);
    else
        emit_resample_sampled_taps(c, r, first, count, taps);
    for (int64_t channel = 0; channel < a->channels; channel++) {
        const int64_t from = (image * a->channels + channel) * a->size[0] * a->size[1];
        const int64_t to = (r * a->channels + channel) * a->points + first;
        if (a->dtype == MIL_fp16) {
            const uint16_t *plane = (const uint16_t *)c->x + from;
            uint16_t *out = (uint16_t *)c->y + to;
            SUM(fp16_to_f32, fp16_from_f32)
        } else {
            const float *plane = (const float *)c->x + from;
            float *out = (float *)c->y + to;
            SUM(, )
        }
    }
}

static void emit_resample_sample_part(const void *context, int64_t first, int64_t last, int worker) {
    const sample_call *c = context;
    const int64_t each = (c->a->points + STRETCH - 1) / STRETCH;
    (void)worker;
    for (int64_t t = first; t < last; t++) {
        const int64_t begin = t % each * STRETCH, left = c->a->points - begin;
        emit_resample_sample_stretch(c, t / each, begin, left < STRETCH ? left : STRETCH);
    }
}

static propane_status emit_resample_check_images(const sample_call *c, propane_error *err) {
    const sample_args *a = c->a;
    for (int64_t r = 0; a->crop && r < a->results; r++) {
        double start[2], end[2];
        const double image = emit_resample_box_of(c, r, start, end);
        if (!(image >= 0 && image < (double)a->images))
            return propane_fail(err, PROPANE_ERR_INVALID, "%s: a box refers to image %.0f, but there are %lld",
                                a->where, image, (long long)a->images);
    }
    return PROPANE_OK;
}

static propane_status emit_resample_sample_run(const cpu_run *run, const void *args, propane_error *err) {
    const sample_args *a = args;
    sample_call c = {a, cpu_ref_at(run, a->x), cpu_ref_at(run, a->numbers),
                     a->image.buffer >= 0 ? cpu_ref_at(run, a->image) : NULL, cpu_ref_at(run, a->y)};
    PROPANE_TRY(emit_resample_check_images(&c, err));
    cpu_dense_each(run, a->results * ((a->points + STRETCH - 1) / STRETCH),
                   cpu_dense_part(STRETCH * 4 * (a->channels + 4)), emit_resample_sample_part, &c);
    return PROPANE_OK;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static propane_status emit_sample(planner *p, const mil_op *op, propane_error *err) {
    static const char *const boxes[] = {"x", "boxes", "box_indices", NULL}, *const roi[] = {"x", "roi", NULL},
                             *const coordinates[] = {"x", "coordinates", NULL},
                             *const matrix[] = {"x", "transform_matrix", NULL};
    const mil_type *x = &mil_in(op, "x")->type, *y = &op->results[0]->type;
    sample_args *a = ARENA_NEW(p->arena, sample_args);
    cpu_emit_io d;
    if (!a) return cpu_program_no_memory(err);
    a->crop = op->info->code == MIL_OP_crop_resize;
    a->affine = op->info->code == MIL_OP_affine;
    if (a->crop)
        PROPANE_TRY(mil_crop_resize_read(op, &a->c, err));
    else
        PROPANE_TRY(mil_sampling_read(op, &a->s, err));
    PROPANE_TRY(cpu_emit_begin(p, op,
                               !a->crop    ? (a->affine ? matrix : coordinates)
                               : a->c.flat ? boxes
                                           : roi,
                               &d, err));
    a->channels = x->dim[1], a->images = x->dim[0];
    a->size[0] = x->dim[2], a->size[1] = x->dim[3];
    a->points = y->dim[y->rank - 1] * y->dim[y->rank - 2];
    a->results = a->crop ? a->c.boxes * a->c.images_each : x->dim[0];
    if (a->crop || a->affine) a->target[0] = y->dim[y->rank - 2], a->target[1] = y->dim[y->rank - 1];
    a->one_matrix = a->affine && d.in[1].dim[0] == 1;
    a->dtype = x->dtype, a->number_type = d.in[1].dtype;
    a->x = cpu_view_ref(&d.in[0]);
    a->numbers = cpu_view_ref(&d.in[1]);
    a->image.buffer = -1;
    if (d.in_count > 2 && d.in[2].buffer >= 0) {
        a->image = cpu_view_ref(&d.in[2]);
        a->image_type = d.in[2].dtype;
    }
    a->y = cpu_view_ref(&d.out[0]);
    a->where = cpu_emit_where(p, op);
    if (!a->where) return cpu_program_no_memory(err);
    return cpu_emit_end(p, op, &d, emit_resample_sample_run, a, op->info->name, 8.0 * (double)mil_type_count(y), err);
}

static bool emit_resample_takes_sample(const mil_op *op) {
    return mil_dtype_is_float(mil_in(op, "x")->type.dtype) && op->results[0]->type.dtype == mil_in(op, "x")->type.dtype;
}

const cpu_emitter cpu_emitter_sample = {.emit = emit_sample, .takes = emit_resample_takes_sample};
