/* SPDX-License-Identifier: MIT
 * Owns the expansion of operations that read an image at computed positions: resample, affine and crop_resize. A
 * position is split into its floor, which selects elements by a gather, and its fraction, which weights them. The
 * weights yield the gradient with respect to the positions, and the gather yields the gradient with respect to the
 * image. Everything is computed in fp32, because fp16 cannot represent every pixel's index.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"
#include "core/pass/unroll_loop.h"

/* A sampling operation. The positions y and x are in elements and broadcast to [n, height, width]. */
typedef struct sample {
    mil_builder *b;
    mil_type image; /* [images, c, h, w] */
    int64_t n, height, width;
    mil_value *y, *x, *base; /* base: int32, the row of the flat image at which the image of that position begins */
    bool nearest;
    bool masks_neighbours; /* a neighbour outside the image counts as padding */
    mil_value *inside;     /* 1 for each position that counts, else 0; NULL if all count */
    double padding;
} sample;

static mil_value *sample_binary(const sample *s, mil_opcode code, mil_value *x, mil_value *y) {
    return mil_build_binary(s->b, code, x, y);
}
static mil_value *sample_scalar(const sample *s, mil_opcode code, mil_value *x, double y) {
    return mil_build_binary_scalar(s->b, code, x, y);
}

/* Returns y - x. */
static mil_value *sample_from(const sample *s, double y, mil_value *x) {
    return x ? mil_build_binary(s->b, MIL_OP_sub, mil_build_scalar(s->b, x->type.dtype, y), x) : NULL;
}

static mil_value *sample_clipped(const sample *s, mil_value *x, double low, double high) {
    return sample_scalar(s, MIL_OP_minimum, sample_scalar(s, MIL_OP_maximum, x, low), high);
}

/* Returns 1 where low <= x <= high, else 0. */
static mil_value *sample_within(const sample *s, mil_value *x, double low, double high) {
    mil_value *is = sample_binary(s, MIL_OP_logical_and, sample_scalar(s, MIL_OP_greater_equal, x, low),
                                  sample_scalar(s, MIL_OP_less_equal, x, high));
    return is ? mil_build_cast(s->b, is, MIL_fp32) : NULL;
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

/* Returns the image as [images * h * w, c]. */
static mil_value *sample_flat_image(const sample *s, mil_value *x) {
    static const int64_t perm[] = {0, 2, 1};
    const int64_t *dim = s->image.dim;
    x = mil_build_reshape(s->b, mil_build_cast(s->b, x, MIL_fp32), (int64_t[]){dim[0], dim[1], dim[2] * dim[3]}, 3);
    return mil_build_reshape(s->b, mil_build_transpose(s->b, x, perm, 3), (int64_t[]){dim[0] * dim[2] * dim[3], dim[1]},
                             2);
}

/* Returns the elements at integer positions: [n, height, width, c]. */
static mil_value *sample_elements(const sample *s, mil_value *flat, mil_value *y, mil_value *x) {
    mil_value *row = mil_build_cast(s->b, sample_clipped(s, y, 0, (double)(s->image.dim[2] - 1)), MIL_int32),
              *column = mil_build_cast(s->b, sample_clipped(s, x, 0, (double)(s->image.dim[3] - 1)), MIL_int32);
    mil_value *at = sample_binary(s, MIL_OP_add, sample_scalar(s, MIL_OP_mul, row, (double)s->image.dim[3]), column);
    at = sample_binary(s, MIL_OP_add, at, s->base);
    mil_value *axis = mil_build_int(s->b, 0);
    const mil_op *op = mil_build_op(s->b, MIL_OP_gather, NULL,
                                    (mil_argument[]){{"x", 1, &flat}, {"indices", 1, &at}, {"axis", 1, &axis}}, 3);
    return op ? op->results[0] : NULL;
}

typedef struct sample_sum {
    mil_value *elements, *weights; /* [n, height, width, c] and [n, height, width, 1] */
} sample_sum;

static mil_value *sample_plus(const sample *s, mil_value *sum, mil_value *more) {
    return sum ? sample_binary(s, MIL_OP_add, sum, more) : more;
}

/* Adds one neighbour. A NULL weight means 1. */
static void sample_add(const sample *s, mil_value *flat, mil_value *y, mil_value *x, mil_value *weight,
                       sample_sum *sum) {
    mil_value *inside = s->inside;
    if (s->masks_neighbours)
        inside = sample_binary(s, MIL_OP_mul, sample_within(s, y, 0, (double)(s->image.dim[2] - 1)),
                               sample_within(s, x, 0, (double)(s->image.dim[3] - 1)));
    if (inside) weight = weight ? sample_binary(s, MIL_OP_mul, weight, inside) : inside;
    mil_value *elements = sample_elements(s, flat, y, x);
    if (weight && !s->b->err.status) {
        int64_t dim[4] = {1, 1, 1, 1};
        memcpy(dim, weight->type.dim, 3 * sizeof *dim);
        weight = mil_build_reshape(s->b, weight, dim, 4);
        elements = sample_binary(s, MIL_OP_mul, elements, weight);
    }
    if (inside) sum->weights = sample_plus(s, sum->weights, weight);
    sum->elements = sample_plus(s, sum->elements, elements);
}

/* Returns the image's elements at all positions: [n, c, height, width] of the image's type. */
static mil_value *sample_read(const sample *s, mil_value *image) {
    static const int64_t perm[] = {0, 3, 1, 2};
    mil_value *flat = sample_flat_image(s, image), *one[2], *part[2];
    sample_sum sum = {0};
    if (s->nearest) {
        sample_add(s, flat, mil_build_unary(s->b, MIL_OP_round, s->y), mil_build_unary(s->b, MIL_OP_round, s->x), NULL,
                   &sum);
    } else {
        one[0] = mil_build_unary(s->b, MIL_OP_floor, s->y);
        one[1] = mil_build_unary(s->b, MIL_OP_floor, s->x);
        part[0] = sample_binary(s, MIL_OP_sub, s->y, one[0]);
        part[1] = sample_binary(s, MIL_OP_sub, s->x, one[1]);
        for (int k = 0; k < 4; k++) {
            mil_value *v = k / 2 ? part[0] : sample_from(s, 1, part[0]),
                      *h = k % 2 ? part[1] : sample_from(s, 1, part[1]);
            sample_add(s, flat, k / 2 ? sample_scalar(s, MIL_OP_add, one[0], 1) : one[0],
                       k % 2 ? sample_scalar(s, MIL_OP_add, one[1], 1) : one[1], sample_binary(s, MIL_OP_mul, v, h),
                       &sum);
        }
    }
    mil_value *z = sum.elements;
    if (s->padding != 0 && sum.weights)
        z = sample_binary(s, MIL_OP_add, z, sample_scalar(s, MIL_OP_mul, sample_from(s, 1, sum.weights), s->padding));
    return z ? mil_build_cast(s->b, mil_build_transpose(s->b, z, perm, 4), s->image.dtype) : NULL;
}

/* Returns, for each of `count` samples, the row of the flat image at which its image begins: [count, 1, 1]. */
static mil_value *sample_bases(const sample *s, int64_t count) {
    int64_t *base = mem_array((size_t)count, sizeof *base);
    if (!base) return NULL;
    for (int64_t i = 0; i < count; i++) base[i] = i % s->image.dim[0] * s->image.dim[2] * s->image.dim[3];
    mil_value *v = mil_build_ints(s->b, base, (int)count);
    mem_free(base);
    return mil_build_reshape(s->b, v, (int64_t[]){count, 1, 1}, 3);
}

/* ---- resample, affine -------------------------------------------------------------------------------------------- */

static mil_value *sample_folded(const sample *s, mil_value *at, double low, double high) {
    const double span = high - low;
    if (span <= 0.0) return sample_scalar(s, MIL_OP_add, sample_scalar(s, MIL_OP_mul, at, 0), low);
    at = sample_scalar(s, MIL_OP_sub, at, low);
    at = sample_scalar(s, MIL_OP_mod, mil_build_unary(s->b, MIL_OP_abs, at), 2 * span);
    at = mil_build_unary(s->b, MIL_OP_abs, sample_scalar(s, MIL_OP_sub, at, span));
    return sample_from(s, span + low, at);
}

/* Computes mil_sampling_place for a tensor. */
static mil_value *sample_place(const sample *s, const mil_sampling *how, mil_value *at, int64_t size) {
    const double last = (double)(size - 1);
    const double scale = how->align ? last : (double)size, shift = how->align ? 0.0 : -0.5;
    if (how->normalized) {
        at = sample_scalar(s, MIL_OP_mul, at, how->centred ? scale / 2 : scale);
        at = sample_scalar(s, MIL_OP_add, at, shift + (how->centred ? scale / 2 : 0));
    }
    if (how->pad == MIL_SAMPLING_REFLECTION) at = sample_folded(s, at, 0, last);
    if (how->pad == MIL_SAMPLING_SYMMETRIC) at = sample_folded(s, at, -0.5, last + 0.5);
    return how->pad == MIL_SAMPLING_CONSTANT ? at : sample_clipped(s, at, 0, last);
}

static mil_value *sample_finish_places(sample *s, const mil_sampling *how, mil_value *image, mil_value *y,
                                       mil_value *x) {
    s->y = sample_place(s, how, y, s->image.dim[2]);
    s->x = sample_place(s, how, x, s->image.dim[3]);
    s->base = sample_bases(s, s->n);
    s->nearest = how->nearest;
    s->masks_neighbours = how->pad == MIL_SAMPLING_CONSTANT;
    s->padding = how->pad_value;
    return s->base ? sample_read(s, image) : NULL;
}

static mil_value *sample_resample(sample *s, const mil_op *op, const mil_sampling *how) {
    mil_value *at = mil_build_cast(s->b, mil_in(op, "coordinates"), MIL_fp32), *part[2];
    const int64_t size[] = {s->n, s->height, s->width, 1};
    for (int64_t k = 0; k < 2; k++)
        part[k] = mil_build_reshape(s->b, mil_build_slice(s->b, at, (int64_t[]){0, 0, 0, k}, size), size, 3);
    return sample_finish_places(s, how, mil_in(op, "x"), part[1], part[0]);
}

/* Returns column k of [rows, *] as [rows, 1, 1]. */
static mil_value *sample_column(const sample *s, mil_value *matrix, int64_t rows, int64_t k) {
    mil_value *v = mil_build_slice(s->b, matrix, (int64_t[]){0, k}, (int64_t[]){rows, 1});
    return mil_build_reshape(s->b, v, (int64_t[]){rows, 1, 1}, 3);
}

/* Returns the coordinates of a result along one dimension, [1, height, 1] or [1, 1, width]. */
static mil_value *sample_line(const sample *s, const mil_sampling *how, int d, int64_t size) {
    const mil_type type = mil_type_tensor(MIL_fp32, 3, (int64_t[]){1, d ? 1 : size, d ? size : 1});
    double *data = mem_array((size_t)size, sizeof *data);
    if (!data) return NULL;
    for (int64_t i = 0; i < size; i++) data[i] = mil_sampling_coordinate(how, i, size);
    mil_value *v = mil_build_const_f64(s->b, NULL, &type, data);
    mem_free(data);
    return v;
}

static mil_value *sample_affine(sample *s, const mil_op *op, const mil_sampling *how) {
    mil_value *matrix = mil_build_cast(s->b, mil_in(op, "transform_matrix"), MIL_fp32), *m[6], *at[2];
    mil_value *px = sample_line(s, how, 1, s->width), *py = sample_line(s, how, 0, s->height);
    for (int k = 0; k < 6; k++) m[k] = sample_column(s, matrix, mil_in(op, "transform_matrix")->type.dim[0], k);
    for (int k = 0; k < 2 && px && py; k++) {
        mil_value *sum = sample_binary(s, MIL_OP_add, sample_binary(s, MIL_OP_mul, m[3 * k], px),
                                       sample_binary(s, MIL_OP_mul, m[3 * k + 1], py));
        at[k] = sample_binary(s, MIL_OP_add, sum, m[3 * k + 2]);
    }
    return px && py ? sample_finish_places(s, how, mil_in(op, "x"), at[1], at[0]) : NULL;
}

/* ---- crop_resize ------------------------------------------------------------------------------------------------- */

/* Computes mil_grid_point for all i: at = a * base + c, clamped to 0 .. extent - 1; [n, out, 1] or [n, 1, out]. */
static mil_value *sample_grid(const sample *s, mil_grid grid, mil_value *extent, int d, int64_t out) {
    const bool one = out == 1, ends = grid == MIL_GRID_ALIGN || grid == MIL_GRID_STRICT_ALIGN;
    const double middle = grid == MIL_GRID_OFFSET || grid == MIL_GRID_UNALIGN ? 0.5 : 0.0;
    const mil_type type = mil_type_tensor(MIL_fp32, 3, (int64_t[]){1, d ? 1 : out, d ? out : 1});
    mil_value *last = sample_scalar(s, MIL_OP_sub, extent, 1), *base = ends ? last : extent;
    double *factor = mem_array((size_t)out, sizeof *factor);
    if (!factor) return NULL;
    for (int64_t i = 0; i < out; i++)
        factor[i] = ends && one ? (grid == MIL_GRID_ALIGN ? 0.5 : 0.0)
                    : ends      ? (double)i / (double)(out - 1)
                                : ((double)i + middle) / (double)out;
    mil_value *factors = mil_build_const_f64(s->b, NULL, &type, factor);
    mem_free(factor);
    if (grid == MIL_GRID_OFFSET) base = sample_scalar(s, MIL_OP_maximum, last, 1);
    mil_value *at = sample_binary(s, MIL_OP_mul, base, factors);
    if (grid == MIL_GRID_UNALIGN) at = sample_scalar(s, MIL_OP_sub, at, 0.5);
    return sample_binary(s, MIL_OP_minimum, sample_scalar(s, MIL_OP_maximum, at, 0), last);
}

/* Computes the positions along height (0) or width (1), as mil_crop_range and mil_crop_point do. */
static mil_value *sample_box_places(const sample *s, const mil_crop_resize *c, mil_value *boxes, int d) {
    const int first = c->width_first ? 1 - d : d;
    const double scale = c->scale * (c->normalized ? (double)(s->image.dim[2 + d] - 1) : 1.0);
    mil_value *p = sample_scalar(s, MIL_OP_mul, sample_column(s, boxes, s->n, c->indexed + first), scale),
              *q = sample_scalar(s, MIL_OP_mul, sample_column(s, boxes, s->n, c->indexed + first + 2), scale);
    mil_value *half = c->centred ? sample_scalar(s, MIL_OP_mul, q, 0.5) : NULL,
              *start = half ? sample_binary(s, MIL_OP_sub, p, half) : p,
              *end = half ? sample_binary(s, MIL_OP_add, p, half) : q;
    mil_value *length = sample_binary(s, MIL_OP_sub, end, start);
    mil_value *extent = sample_scalar(s, MIL_OP_add, mil_build_unary(s->b, MIL_OP_abs, length), 1);
    mil_value *back = mil_build_cast(s->b, sample_scalar(s, MIL_OP_less, length, 0), MIL_fp32);
    mil_value *sign = sample_from(s, 1, sample_scalar(s, MIL_OP_mul, back, 2));
    mil_value *at = sample_grid(s, c->grid, extent, d, c->target[d]);
    return at ? sample_binary(s, MIL_OP_add, start, sample_binary(s, MIL_OP_mul, at, sign)) : NULL;
}

/* Returns [n, 4 or 5]. If the boxes contain no image numbers, each box is repeated for every image. */
static mil_value *sample_boxes(const sample *s, const mil_op *op, const mil_crop_resize *c) {
    mil_value *boxes = mil_build_cast(s->b, mil_in(op, c->flat ? "boxes" : "roi"), MIL_fp32);
    if (c->images_each == 1) return mil_build_reshape(s->b, boxes, (int64_t[]){s->n, c->box_step}, 2);
    boxes = mil_build_reshape(s->b, boxes, (int64_t[]){c->boxes, 1, c->box_step}, 3);
    mil_value *reps = mil_build_ints(s->b, (int64_t[]){1, c->images_each, 1}, 3);
    const mil_op *tile =
        mil_build_op(s->b, MIL_OP_tile, NULL, (mil_argument[]){{"x", 1, &boxes}, {"reps", 1, &reps}}, 2);
    return tile ? mil_build_reshape(s->b, tile->results[0], (int64_t[]){s->n, c->box_step}, 2) : NULL;
}

static mil_value *sample_crop_resize(sample *s, const mil_op *op, const mil_crop_resize *c) {
    const int64_t plane = s->image.dim[2] * s->image.dim[3];
    mil_value *boxes = sample_boxes(s, op, c), *images = c->flat ? mil_in(op, "box_indices") : NULL;
    if (c->indexed) images = sample_column(s, boxes, s->n, 0);
    s->y = sample_box_places(s, c, boxes, 0);
    s->x = sample_box_places(s, c, boxes, 1);
    s->base = images ? sample_scalar(
                           s, MIL_OP_mul,
                           mil_build_reshape(s->b, mil_build_cast(s->b, images, MIL_int32), (int64_t[]){s->n, 1, 1}, 3),
                           (double)plane)
                     : sample_bases(s, s->n);
    s->padding = c->pad_value;
    if (!s->y || !s->x || !s->base) return NULL;
    s->inside = sample_binary(s, MIL_OP_mul, sample_within(s, s->y, 0, (double)(s->image.dim[2] - 1)),
                              sample_within(s, s->x, 0, (double)(s->image.dim[3] - 1)));
    mil_value *z = sample_read(s, mil_in(op, "x"));
    const mil_type *type = &op->results[0]->type;
    return z && !c->flat ? mil_build_reshape(s->b, z, type->dim, type->rank) : z;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static bool sample_is_known(const mil_op *op, const char *param) {
    mil_value *v = mil_op_param(op->info, param) < 0 ? NULL : mil_in(op, param);
    return !v || (mil_know(v) && v->constant->data);
}

propane_status unroll_sample(mil_function *f, mil_op *op, propane_error *err) {
    static const char *const places[] = {"coordinates", "transform_matrix", "roi", "boxes", "box_indices"};
    const mil_type *type = &op->results[0]->type;
    mil_builder b;
    sample s = {.b = &b,
                .image = mil_in(op, "x")->type,
                .height = type->dim[type->rank - 2],
                .width = type->dim[type->rank - 1],
                .n = type->dim[0]};
    mil_sampling how;
    mil_crop_resize crop;
    mil_value *z;
    bool known = true;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) known &= sample_is_known(op, places[i]);
    if (known) return PROPANE_OK;
    mil_build_resume(&b, f);
    b.before = op;
    b.stage = op->stage;
    if (op->info->code == MIL_OP_crop_resize) {
        PROPANE_TRY(mil_crop_resize_read(op, &crop, err));
        s.n = crop.boxes * crop.images_each;
        z = sample_crop_resize(&s, op, &crop);
    } else {
        PROPANE_TRY(mil_sampling_read(op, &how, err));
        z = op->info->code == MIL_OP_affine ? sample_affine(&s, op, &how) : sample_resample(&s, op, &how);
    }
    if (!z && !b.err.status) return propane_fail_memory(err, 0);
    return unroll_replace(&b, op, &z, err);
}
