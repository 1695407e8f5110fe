/* SPDX-License-Identifier: MIT
 * Owns the gradients of reading at positions between elements: resample, affine, crop_resize. If the positions are
 * constants, each element of the result is a sum of at most four elements of x with constant weights. The gradient of x
 * adds weighted rows of the adjoint to the rows from which they were read.
 *
 * Refuses computed positions.
 */
#include <math.h>
#include <stdint.h>

#include "core/base/memory.h"
#include "core/grad/rules.h"
#include "core/mil/ops/shape_util.h"

/* Term i adds weight[i] times element from[i] of the result's planes to element to[i] of x's planes. */
typedef struct sample_terms {
    int64_t count;
    int64_t *to, *from;
    double *weight;
} sample_terms;

static void backward_sample_free(sample_terms *t) {
    mem_free(t->to);
    mem_free(t->from);
    mem_free(t->weight);
}

static propane_status backward_sample_room(sample_terms *t, int64_t points, propane_error *err) {
    const size_t room = points < INT32_MAX / 4 ? 4 * (size_t)points + 1 : SIZE_MAX; /* more than any memory holds */
    *t = (sample_terms){.to = mem_array(room, sizeof *t->to),
                        .from = mem_array(room, sizeof *t->from),
                        .weight = mem_array(room, sizeof *t->weight)};
    return t->to && t->from && t->weight ? PROPANE_OK : propane_fail_memory(err, room * sizeof *t->weight);
}

static const mil_const *backward_sample_known(const mil_op *op, const char *param) {
    mil_value *v = mil_in(op, param);
    return v && mil_know(v) && v->constant->data ? v->constant : NULL;
}

static propane_status backward_sample_refuse(const mil_op *op, const char *param, propane_error *err) {
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                       "no gradient if %s is computed; make it a constant, or remove this operation from the path "
                       "between the trained parameters and the results",
                       param);
}

/* Adds a term. Positions outside x are padding, to which x does not contribute. */
static void backward_sample_put(sample_terms *t, int64_t plane, int64_t h, int64_t w, double y, double x, int64_t from,
                                double weight) {
    if (!(y >= 0 && y < (double)h && x >= 0 && x < (double)w) || weight == 0.0) return;
    t->to[t->count] = (plane * h + (int64_t)y) * w + (int64_t)x;
    t->from[t->count] = from;
    t->weight[t->count++] = weight;
}

static void backward_sample_point(sample_terms *t, int64_t plane, const int64_t *dim, double y, double x,
                                  int64_t from) {
    const double y0 = floor(y), x0 = floor(x), py = y - y0, px = x - x0;
    backward_sample_put(t, plane, dim[2], dim[3], y0, x0, from, (1 - py) * (1 - px));
    backward_sample_put(t, plane, dim[2], dim[3], y0, x0 + 1, from, (1 - py) * px);
    backward_sample_put(t, plane, dim[2], dim[3], y0 + 1, x0, from, py * (1 - px));
    backward_sample_put(t, plane, dim[2], dim[3], y0 + 1, x0 + 1, from, py * px);
}

static void backward_sample_at(sample_terms *t, const mil_sampling *s, int64_t plane, const int64_t *dim, double y,
                               double x, int64_t from) {
    y = mil_sampling_place(s, y, dim[2]);
    x = mil_sampling_place(s, x, dim[3]);
    if (s->nearest)
        backward_sample_put(t, plane, dim[2], dim[3], nearbyint(y), nearbyint(x), from, 1.0);
    else
        backward_sample_point(t, plane, dim, y, x, from);
}

/* Reorders [rows, C, points] to [rows * points, C], or back. */
static mil_value *backward_sample_swap(grad_context *g, mil_value *v, const int64_t *dim) {
    static const int64_t perm[] = {0, 2, 1};
    return mil_build_transpose(grad_build(g), grad_reshape(g, v, 3, dim), perm, 3);
}

/* Gives x its adjoint, computed from the terms. `rows` is the number of planes of the result, each with `points`
 * elements per channel. */
static void backward_sample_give(grad_context *g, const mil_op *op, const sample_terms *t, int64_t rows,
                                 int64_t points) {
    mil_builder *b = grad_build(g);
    const mil_type x = mil_in(op, "x")->type;
    const int64_t c = x.dim[1], elements = x.dim[2] * x.dim[3];
    const mil_type weights = mil_type_tensor(x.dtype, 2, (int64_t[]){t->count, 1});
    if (!t->count) return; /* no element of x is read */
    mil_value *dz = backward_sample_swap(g, grad_of(g, op, 0), (int64_t[]){rows, c, points});
    dz = grad_reshape(g, dz, 2, (int64_t[]){rows * points, c});
    mil_value *axis = mil_build_int(b, 0), *from = mil_build_ints(b, t->from, (int)t->count),
              *to = mil_build_ints(b, t->to, (int)t->count);
    const mil_op *read = mil_build_op(b, MIL_OP_gather, NULL,
                                      (mil_argument[]){{"x", 1, &dz}, {"indices", 1, &from}, {"axis", 1, &axis}}, 3);
    mil_value *part = read ? grad_mul(g, read->results[0], mil_build_const_f64(b, NULL, &weights, t->weight)) : NULL;
    mil_value *shape = mil_build_ints(b, (int64_t[]){x.dim[0] * elements, c}, 2), *zero = grad_zero(g, x.dtype);
    const mil_op *fill =
        mil_build_op(b, MIL_OP_fill, NULL, (mil_argument[]){{"shape", 1, &shape}, {"value", 1, &zero}}, 2);
    mil_value *data = fill ? fill->results[0] : NULL, *mode = mil_build_text(b, "add");
    const mil_argument arguments[] = {
        {"data", 1, &data}, {"indices", 1, &to}, {"updates", 1, &part}, {"axis", 1, &axis}, {"mode", 1, &mode}};
    const mil_op *sum = mil_build_op(b, MIL_OP_scatter, NULL, arguments, 5);
    mil_value *dx = sum ? backward_sample_swap(g, sum->results[0], (int64_t[]){x.dim[0], elements, c}) : NULL;
    grad_give(g, op, "x", grad_reshape_as(g, dx, &x));
}

GRADIENT(resample) {
    const mil_const *at = backward_sample_known(op, "coordinates");
    const mil_type x = mil_in(op, "x")->type;
    mil_sampling s;
    sample_terms t;
    if (!at) return backward_sample_refuse(op, "coordinates", err);
    PROPANE_TRY(mil_sampling_read(op, &s, err));
    const int64_t points = at->type.dim[1] * at->type.dim[2];
    propane_status status = backward_sample_room(&t, x.dim[0] * points, err);
    for (int64_t i = 0; i < x.dim[0] * points && !status; i++)
        backward_sample_at(&t, &s, i / points, x.dim, mil_const_f64(at, 2 * i + 1), mil_const_f64(at, 2 * i), i);
    if (!status) backward_sample_give(g, op, &t, x.dim[0], points);
    backward_sample_free(&t);
    return status;
}

GRADIENT(affine) {
    const mil_const *matrix = backward_sample_known(op, "transform_matrix");
    const mil_type x = mil_in(op, "x")->type;
    const int64_t h = op->results[0]->type.dim[2], w = op->results[0]->type.dim[3];
    mil_sampling s;
    sample_terms t;
    if (!matrix) return backward_sample_refuse(op, "transform_matrix", err);
    PROPANE_TRY(mil_sampling_read(op, &s, err));
    propane_status status = backward_sample_room(&t, x.dim[0] * h * w, err);
    for (int64_t i = 0; i < x.dim[0] * h * w && !status; i++) {
        const int64_t image = i / (h * w), first = matrix->type.dim[0] == 1 ? 0 : 6 * image;
        const double px = mil_sampling_coordinate(&s, i % w, w), py = mil_sampling_coordinate(&s, i / w % h, h);
        double m[6];
        for (int k = 0; k < 6; k++) m[k] = mil_const_f64(matrix, first + k);
        backward_sample_at(&t, &s, image, x.dim, m[3] * px + m[4] * py + m[5], m[0] * px + m[1] * py + m[2], i);
    }
    if (!status) backward_sample_give(g, op, &t, x.dim[0], h * w);
    backward_sample_free(&t);
    return status;
}

/* Adds the terms of one box on one image, whose result is plane `row`. */
static void backward_sample_box(sample_terms *t, const mil_crop_resize *c, const double box[4], int64_t image,
                                const int64_t *dim, int64_t row) {
    double start[2], end[2];
    mil_crop_range(c, box, dim + 2, start, end);
    for (int64_t i = 0; i < c->target[0] * c->target[1]; i++) {
        const double y = mil_crop_point(c, start, end, 0, i / c->target[1]),
                     x = mil_crop_point(c, start, end, 1, i % c->target[1]);
        if (y >= 0 && y <= (double)(dim[2] - 1) && x >= 0 && x <= (double)(dim[3] - 1))
            backward_sample_point(t, image, dim, y, x, row * c->target[0] * c->target[1] + i);
    }
}

GRADIENT(crop_resize) {
    const mil_type x = mil_in(op, "x")->type;
    mil_crop_resize c;
    sample_terms t;
    PROPANE_TRY(mil_crop_resize_read(op, &c, err));
    const char *name = c.flat ? "boxes" : "roi";
    const mil_const *boxes = backward_sample_known(op, name), *indices = NULL;
    if (!boxes) return backward_sample_refuse(op, name, err);
    const bool listed = c.flat && mil_in(op, "box_indices");
    if (listed && !(indices = backward_sample_known(op, "box_indices")))
        return backward_sample_refuse(op, "box_indices", err);
    const int64_t rows = c.boxes * c.images_each, points = c.target[0] * c.target[1];
    propane_status status = backward_sample_room(&t, rows * points, err);
    for (int64_t row = 0; row < rows && !status; row++) {
        const int64_t b = row / c.images_each, first = b * c.box_step;
        double box[4];
        for (int k = 0; k < 4; k++) box[k] = mil_const_f64(boxes, first + c.indexed + k);
        const double image = c.indexed ? mil_const_f64(boxes, first)
                             : !c.flat ? (double)(row % c.images_each)
                             : indices ? mil_const_f64(indices, b)
                                       : (double)b;
        if (image >= 0 && image < (double)x.dim[0])
            backward_sample_box(&t, &c, box, (int64_t)image, x.dim, row);
        else
            status = mil_op_fail(op, err, PROPANE_ERR_INVALID, "a box refers to image %.0f, but there are %lld", image,
                                 (long long)x.dim[0]);
    }
    if (!status) backward_sample_give(g, op, &t, rows, points);
    backward_sample_free(&t);
    return status;
}
