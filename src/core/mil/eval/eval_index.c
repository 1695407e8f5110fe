/* SPDX-License-Identifier: MIT
 * Owns the meanings of ops that pick, spread, sort or count by index. Negative indices count from the end unless
 * validate_indices is set. An index out of range is always an error, because no value could be right. Sorting is
 * stable: of equal elements, the one with the lower index comes first in both directions. NaN comes last.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

static propane_status eval_index_at(const mil_eval_args *a, const mil_tensor *indices, int64_t which, int64_t size,
                                    int64_t *out, propane_error *err) {
    const double given = indices->data[which],
                 at = given < 0 && !mil_index_strict(a->op) ? given + (double)size : given;
    if (!(at >= 0 && at < (double)size))
        return mil_op_fail(a->op, err, PROPANE_ERR_INVALID, "index %lld is %.0f, but there are %lld elements",
                           (long long)which, given, (long long)size);
    *out = (int64_t)at;
    return PROPANE_OK;
}

/* ---- gather ------------------------------------------------------------------------------------------------------------- */

propane_status mil_eval_gather_along_axis(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *indices = mil_eval_in(a, "indices");
    int64_t i = 0, at = 0;
    mil_gather g;
    PROPANE_TRY(mil_along_read(a->op, "x", &g, err));
    for (int64_t o = 0; o < g.outer; o++)
        for (int64_t p = 0; p < g.picks; p++)
            for (int64_t k = 0; k < g.inner; k++, i++) {
                PROPANE_TRY(eval_index_at(a, indices, i, g.size, &at, err));
                a->out[0].data[i] = x->data[(o * g.size + at) * g.inner + k];
            }
    return PROPANE_OK;
}

/* Sets *out to the offset of the slice whose coordinates are row `which` of the indices. */
static propane_status eval_index_place_of(const mil_eval_args *a, const mil_gather_nd *g, const mil_tensor *indices,
                                          int64_t which, int64_t *out, propane_error *err) {
    int64_t at = 0;
    *out = which / g->picks * g->image;
    for (int d = 0; d < g->depth; d++) {
        PROPANE_TRY(eval_index_at(a, indices, which * g->depth + d, g->size[d], &at, err));
        *out += at * g->step[d];
    }
    return PROPANE_OK;
}

propane_status mil_eval_gather_nd(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *indices = mil_eval_in(a, "indices");
    int64_t from = 0;
    mil_gather_nd g;
    PROPANE_TRY(mil_gather_nd_read(a->op, "x", &g, err));
    for (int64_t p = 0; p < g.batch * g.picks; p++) {
        PROPANE_TRY(eval_index_place_of(a, &g, indices, p, &from, err));
        memcpy(a->out[0].data + p * g.inner, x->data + from, (size_t)g.inner * sizeof(double));
    }
    return PROPANE_OK;
}

/* ---- scatter ------------------------------------------------------------------------------------------------------------- */

static void eval_index_put(double *to, double value, mil_scatter_mode mode) {
    switch (mode) {
    case MIL_SCATTER_UPDATE: *to = value; break;
    case MIL_SCATTER_ADD: *to += value; break;
    case MIL_SCATTER_SUB: *to -= value; break;
    case MIL_SCATTER_MUL: *to *= value; break;
    case MIL_SCATTER_DIV: *to /= value; break;
    case MIL_SCATTER_MAX: *to = isnan(*to) || *to > value ? *to : value; break;
    case MIL_SCATTER_MIN: *to = isnan(*to) || *to < value ? *to : value; break;
    }
}

static propane_status eval_index_begin_scatter(const mil_eval_args *a, mil_scatter_mode *mode, propane_error *err) {
    const mil_tensor *data = mil_eval_in(a, "data");
    memcpy(a->out[0].data, data->data, (size_t)mil_type_count(&data->type) * sizeof(double));
    return mil_scatter_mode_read(a->op, mode, err);
}

propane_status mil_eval_scatter(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "indices"), *updates = mil_eval_in(a, "updates");
    const mil_type *type = &a->out[0].type;
    const int64_t picks = mil_type_count(&indices->type);
    int64_t outer = 1, inner = 1, at = 0;
    int axis = 0;
    mil_scatter_mode mode;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", type->rank, &axis, err));
    PROPANE_TRY(eval_index_begin_scatter(a, &mode, err));
    for (int d = 0; d < axis; d++) outer *= type->dim[d];
    for (int d = axis + 1; d < type->rank; d++) inner *= type->dim[d];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t p = 0; p < picks; p++) {
            PROPANE_TRY(eval_index_at(a, indices, p, type->dim[axis], &at, err));
            for (int64_t k = 0; k < inner; k++)
                eval_index_put(&a->out[0].data[(o * type->dim[axis] + at) * inner + k],
                               updates->data[(o * picks + p) * inner + k], mode);
        }
    return PROPANE_OK;
}

propane_status mil_eval_scatter_along_axis(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "indices"), *updates = mil_eval_in(a, "updates");
    int64_t i = 0, at = 0;
    mil_scatter_mode mode;
    mil_gather g;
    PROPANE_TRY(mil_along_read(a->op, "data", &g, err));
    PROPANE_TRY(eval_index_begin_scatter(a, &mode, err));
    for (int64_t o = 0; o < g.outer; o++)
        for (int64_t p = 0; p < g.picks; p++)
            for (int64_t k = 0; k < g.inner; k++, i++) {
                PROPANE_TRY(eval_index_at(a, indices, i, g.size, &at, err));
                eval_index_put(&a->out[0].data[(o * g.size + at) * g.inner + k], updates->data[i], mode);
            }
    return PROPANE_OK;
}

propane_status mil_eval_scatter_nd(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "indices"), *updates = mil_eval_in(a, "updates");
    int64_t to = 0;
    mil_scatter_mode mode;
    mil_gather_nd g;
    PROPANE_TRY(mil_gather_nd_read(a->op, "data", &g, err));
    PROPANE_TRY(eval_index_begin_scatter(a, &mode, err));
    for (int64_t p = 0; p < g.batch * g.picks; p++) {
        PROPANE_TRY(eval_index_place_of(a, &g, indices, p, &to, err));
        for (int64_t k = 0; k < g.inner; k++)
            eval_index_put(&a->out[0].data[to + k], updates->data[p * g.inner + k], mode);
    }
    return PROPANE_OK;
}

/* ---- sorting --------------------------------------------------------------------------------------------------------------- */

typedef struct ranked {
    double value;
    int64_t index;
} ranked;

static int eval_index_by_index(const ranked *x, const ranked *y) {
    return x->index < y->index ? -1 : x->index > y->index;
}

static int eval_index_ascending(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value))
        return isnan(x->value) && isnan(y->value) ? eval_index_by_index(x, y) : isnan(x->value) ? 1 : -1;
    return x->value < y->value ? -1 : x->value > y->value ? 1 : eval_index_by_index(x, y);
}

static int eval_index_descending(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value)) return eval_index_ascending(a, b);
    return x->value > y->value ? -1 : x->value < y->value ? 1 : eval_index_by_index(x, y);
}

/* Sorts x along its axis. Stores the first k values in `values` and their indices in `places`; either may be NULL. */
static propane_status eval_index_sort_along(const mil_eval_args *a, int64_t k, double *values, double *places,
                                            propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    int64_t outer = 1, inner = 1;
    bool up = false;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", x->type.rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(a->op, "ascending", &up, err));
    const int64_t size = x->type.dim[axis];
    for (int d = 0; d < axis; d++) outer *= x->type.dim[d];
    for (int d = axis + 1; d < x->type.rank; d++) inner *= x->type.dim[d];
    ranked *row = mem_array((size_t)size, sizeof *row);
    if (!row) return propane_fail_memory(err, (size_t)size * sizeof *row);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            for (int64_t s = 0; s < size; s++) row[s] = (ranked){x->data[(o * size + s) * inner + i], s};
            qsort(row, (size_t)size, sizeof *row, up ? eval_index_ascending : eval_index_descending);
            for (int64_t s = 0; s < k; s++) {
                if (values) values[(o * k + s) * inner + i] = row[s].value;
                if (places) places[(o * k + s) * inner + i] = (double)row[s].index;
            }
        }
    mem_free(row);
    return PROPANE_OK;
}

propane_status mil_eval_argsort(const mil_eval_args *a, propane_error *err) {
    const mil_type *type = &a->out[0].type;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", type->rank, &axis, err));
    return eval_index_sort_along(a, type->dim[axis], NULL, a->out[0].data, err);
}

/* With `sort` false any order is allowed, including the sorted one. */
propane_status mil_eval_topk(const mil_eval_args *a, propane_error *err) {
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", a->out[0].type.rank, &axis, err));
    return eval_index_sort_along(a, a->out[0].type.dim[axis], a->out[0].data,
                                 a->op->result_count > 1 ? a->out[1].data : NULL, err);
}

/* ---- detection -------------------------------------------------------------------------------------------------------------- */

typedef struct detector {
    mil_nms n;
    const double *boxes, *scores; /* of one image */
    ranked *order;                /* [boxes], best score first */
    int64_t *kept;                /* [most] */
    int64_t kept_count;
} detector;

static double eval_index_box_value(const detector *d, int64_t box, int k) {
    return d->boxes[d->n.boxes_last ? k * d->n.boxes + box : box * 4 + k];
}
static double eval_index_score_value(const detector *d, int64_t box, int64_t category) {
    return d->scores[d->n.boxes_last ? category * d->n.boxes + box : box * d->n.classes + category];
}
static int64_t eval_index_best_class(const detector *d, int64_t box) {
    int64_t best = 0;
    for (int64_t k = 1; k < d->n.classes; k++)
        if (eval_index_score_value(d, box, k) > eval_index_score_value(d, box, best)) best = k;
    return best;
}

static double eval_index_overlap(double centre_a, double size_a, double centre_b, double size_b) {
    const double low = fmax(centre_a - size_a / 2, centre_b - size_b / 2);
    const double high = fmin(centre_a + size_a / 2, centre_b + size_b / 2);
    return high > low ? high - low : 0.0;
}

static double eval_index_intersection_over_union(const detector *d, int64_t a, int64_t b) {
    const double aw = eval_index_box_value(d, a, 2), ah = eval_index_box_value(d, a, 3),
                 bw = eval_index_box_value(d, b, 2), bh = eval_index_box_value(d, b, 3);
    const double both = eval_index_overlap(eval_index_box_value(d, a, 0), aw, eval_index_box_value(d, b, 0), bw) *
                        eval_index_overlap(eval_index_box_value(d, a, 1), ah, eval_index_box_value(d, b, 1), bh);
    const double all = aw * ah + bw * bh - both;
    return all > 0.0 ? both / all : 0.0;
}

static bool eval_index_suppressed(const detector *d, int64_t box) {
    for (int64_t k = 0; k < d->kept_count; k++) {
        if (d->n.per_class && eval_index_best_class(d, d->kept[k]) != eval_index_best_class(d, box)) continue;
        if (eval_index_intersection_over_union(d, d->kept[k], box) > d->n.iou_threshold) return true;
    }
    return false;
}

static void eval_index_detect(detector *d) {
    int64_t count = 0;
    d->kept_count = 0;
    for (int64_t b = 0; b < d->n.boxes; b++) {
        const double score = eval_index_score_value(d, b, eval_index_best_class(d, b));
        if (score >= d->n.score_threshold) d->order[count++] = (ranked){score, b};
    }
    qsort(d->order, (size_t)count, sizeof *d->order, eval_index_descending);
    for (int64_t k = 0; k < count && d->kept_count < d->n.most; k++)
        if (!eval_index_suppressed(d, d->order[k].index)) d->kept[d->kept_count++] = d->order[k].index;
}

/* Boxes and scores after the last selected box are 0, and indices are -1. */
propane_status mil_eval_nms(const mil_eval_args *a, propane_error *err) {
    detector d = {0};
    PROPANE_TRY(mil_nms_read(a->op, &d.n, err));
    const size_t bytes = (size_t)d.n.boxes * sizeof *d.order + (size_t)d.n.most * sizeof *d.kept;
    d.order = mem_alloc(bytes);
    if (!d.order) return propane_fail_memory(err, bytes);
    d.kept = (int64_t *)(d.order + d.n.boxes);
    const int64_t most = d.n.most, classes = d.n.classes;
    for (int64_t i = 0; i < d.n.batch; i++) {
        d.boxes = mil_eval_in(a, "boxes")->data + i * d.n.boxes * 4;
        d.scores = mil_eval_in(a, "scores")->data + i * d.n.boxes * classes;
        eval_index_detect(&d);
        for (int64_t k = 0; k < most; k++) {
            const bool there = k < d.kept_count;
            for (int j = 0; j < 4; j++)
                a->out[0].data[i * most * 4 + (d.n.boxes_last ? j * most + k : k * 4 + j)] =
                    there ? eval_index_box_value(&d, d.kept[k], j) : 0.0;
            for (int64_t j = 0; j < classes; j++)
                a->out[1].data[i * most * classes + (d.n.boxes_last ? j * most + k : k * classes + j)] =
                    there ? eval_index_score_value(&d, d.kept[k], j) : 0.0;
            a->out[2].data[i * most + k] = there ? (double)d.kept[k] : -1.0;
        }
        if (a->op->result_count > 3) a->out[3].data[i] = (double)d.kept_count;
    }
    mem_free(d.order);
    return PROPANE_OK;
}

/* ---- sizes that depend on values ------------------------------------------------------------------------------------------- */

propane_status mil_eval_non_zero(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    double *out = a->out[0].data;
    mil_walk w;
    mil_walk_begin(&w, x->type.rank, x->type.dim);
    for (int64_t i = 0; i < mil_type_count(&x->type); i++, mil_walk_next(&w))
        for (int d = 0; x->data[i] != 0.0 && d < x->type.rank; d++) *out++ = (double)w.index[d];
    return PROPANE_OK;
}

propane_status mil_eval_range_1d(const mil_eval_args *a, propane_error *err) {
    const double start = mil_eval_in(a, "start")->data[0], step = mil_eval_in(a, "step")->data[0];
    for (int64_t i = 0; i < a->out[0].type.dim[0]; i++) a->out[0].data[i] = start + (double)i * step;
    return PROPANE_OK;
}
