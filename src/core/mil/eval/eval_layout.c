/* SPDX-License-Identifier: MIT
 * Owns the meanings of ops that move elements. Most are a single loop over the result, in which the source offset is the
 * sum of one table entry per dimension; a negative entry means that the element does not come from x.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/eval/eval.h"
#include "core/mil/ops/shape_util.h"

/* Returns the index along the source dimension for element i of result dimension d, or -1 if the element is not
 * from x. */
typedef int64_t (*place)(const void *context, int d, int64_t i);

/* Computes a result of shape `size`. An element is x at the sum over d of where(d, i_d) * step[d], or `fill` if one of
 * the places is -1. */
static propane_status eval_layout_by_table(const mil_eval_args *a, int rank, const int64_t *size, const int64_t *step,
                                           place where, const void *context, double fill, propane_error *err) {
    const double *x = mil_eval_in(a, "x")->data;
    double *out = a->out[0].data;
    int64_t entries = 1, count = 1, *table[MIL_MAX_RANK];
    for (int d = 0; d < rank; d++) entries += size[d], count *= size[d];
    int64_t *memory = mem_array((size_t)entries, sizeof *memory), *next = memory;
    if (!memory) return propane_fail_memory(err, (size_t)entries * sizeof *memory);
    for (int d = 0; d < rank; d++) {
        table[d] = next;
        for (int64_t i = 0; i < size[d]; i++) {
            const int64_t at = where(context, d, i);
            *next++ = at < 0 ? -1 : at * step[d];
        }
    }
    mil_walk w;
    mil_walk_begin(&w, rank, size);
    for (int64_t i = 0; i < count; i++, mil_walk_next(&w)) {
        int64_t from = 0;
        for (int d = 0; d < rank && from >= 0; d++) from = table[d][w.index[d]] < 0 ? -1 : from + table[d][w.index[d]];
        out[i] = from < 0 ? fill : x[from];
    }
    mem_free(memory);
    return PROPANE_OK;
}

static int64_t eval_layout_place_same(const void *context, int d, int64_t i) { return i; }

propane_status mil_eval_transpose(const mil_eval_args *a, propane_error *err) {
    const mil_type *x = &mil_eval_in(a, "x")->type;
    int perm[MIL_MAX_RANK];
    int64_t step[MIL_MAX_RANK], moved[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_perm(a->op, perm, err));
    mil_strides(x, step);
    for (int d = 0; d < x->rank; d++) moved[d] = step[perm[d]];
    return eval_layout_by_table(a, x->rank, a->out[0].type.dim, moved, eval_layout_place_same, NULL, 0.0, err);
}

static int64_t eval_layout_place_slice(const void *context, int d, int64_t i) {
    const mil_slice *s = context;
    return s->begin[d] + i * s->step[d];
}

propane_status mil_eval_slice_by_index(const mil_eval_args *a, propane_error *err) {
    int64_t step[MIL_MAX_RANK];
    mil_slice s;
    PROPANE_TRY(mil_slice_read(a->op, &s, err));
    mil_strides(&mil_eval_in(a, "x")->type, step);
    return eval_layout_by_table(a, s.rank, s.count, step, eval_layout_place_slice, &s, 0.0, err);
}

propane_status mil_eval_slice_by_size(const mil_eval_args *a, propane_error *err) {
    return mil_eval_slice_by_index(a, err);
}

static int64_t eval_layout_place_tile(const void *context, int d, int64_t i) {
    return i % ((const mil_type *)context)->dim[d];
}

propane_status mil_eval_tile(const mil_eval_args *a, propane_error *err) {
    const mil_type *x = &mil_eval_in(a, "x")->type;
    int64_t step[MIL_MAX_RANK];
    mil_strides(x, step);
    return eval_layout_by_table(a, x->rank, a->out[0].type.dim, step, eval_layout_place_tile, x, 0.0, err);
}

typedef struct reversal {
    const mil_type *x;
    bool member[MIL_MAX_RANK];
} reversal;

static int64_t eval_layout_place_reverse(const void *context, int d, int64_t i) {
    const reversal *r = context;
    return r->member[d] ? r->x->dim[d] - 1 - i : i;
}

propane_status mil_eval_reverse(const mil_eval_args *a, propane_error *err) {
    reversal r = {.x = &mil_eval_in(a, "x")->type};
    int64_t step[MIL_MAX_RANK];
    PROPANE_TRY(mil_attr_axes(a->op, "axes", r.x->rank, r.member, err));
    mil_strides(r.x, step);
    return eval_layout_by_table(a, r.x->rank, r.x->dim, step, eval_layout_place_reverse, &r, 0.0, err);
}

typedef struct padding {
    const mil_type *x;
    mil_pad pad;
} padding;

static int64_t eval_layout_place_pad(const void *context, int d, int64_t i) {
    const padding *p = context;
    const int64_t last = p->x->dim[d] - 1, at = i - p->pad.before[d];
    if (at >= 0 && at <= last) return at;
    switch (p->pad.mode) {
    case MIL_PAD_REFLECT: return at < 0 ? -at : 2 * last - at; /* the edge itself is not repeated */
    case MIL_PAD_REPLICATE: return at < 0 ? 0 : last;
    default: return -1;
    }
}

propane_status mil_eval_pad(const mil_eval_args *a, propane_error *err) {
    padding p = {.x = &mil_eval_in(a, "x")->type};
    int64_t step[MIL_MAX_RANK];
    PROPANE_TRY(mil_pad_read(a->op, &p.pad, err));
    mil_strides(p.x, step);
    return eval_layout_by_table(a, p.x->rank, a->out[0].type.dim, step, eval_layout_place_pad, &p, p.pad.value, err);
}

/* ---- joining and splitting ------------------------------------------------------------------------------------------ */

static void eval_layout_outer_inner(const mil_type *type, int axis, int64_t *outer, int64_t *inner) {
    *outer = *inner = 1;
    for (int d = 0; d < axis; d++) *outer *= type->dim[d];
    for (int d = axis + 1; d < type->rank; d++) *inner *= type->dim[d];
}

propane_status mil_eval_concat(const mil_eval_args *a, propane_error *err) {
    const int values = mil_op_param(a->op->info, "values"), count = a->op->operands[values].count;
    const mil_type *type = &a->out[0].type;
    int64_t outer, inner, begin = 0;
    bool interleave = false;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", type->rank, &axis, err));
    PROPANE_TRY(mil_attr_bool(a->op, "interleave", &interleave, err));
    eval_layout_outer_inner(type, axis, &outer, &inner);
    for (int k = 0; k < count; k++) {
        const mil_tensor *x = a->in[values][k];
        const int64_t size = x->type.rank ? x->type.dim[axis] : 1;
        for (int64_t o = 0; o < outer; o++)
            for (int64_t s = 0; s < size; s++) {
                const int64_t at = interleave ? s * count + k : begin + s;
                memcpy(a->out[0].data + (o * type->dim[axis] + at) * inner, x->data + (o * size + s) * inner,
                       (size_t)inner * sizeof(double));
            }
        begin += size;
    }
    return PROPANE_OK;
}

propane_status mil_eval_stack(const mil_eval_args *a, propane_error *err) {
    const int values = mil_op_param(a->op->info, "values"), count = a->op->operands[values].count;
    const mil_type *type = &a->out[0].type;
    int64_t outer, inner;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", type->rank, &axis, err));
    eval_layout_outer_inner(type, axis, &outer, &inner);
    for (int k = 0; k < count; k++)
        for (int64_t o = 0; o < outer; o++)
            memcpy(a->out[0].data + (o * count + k) * inner, a->in[values][k]->data + o * inner,
                   (size_t)inner * sizeof(double));
    return PROPANE_OK;
}

propane_status mil_eval_split(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    int64_t outer, inner;
    mil_split s;
    PROPANE_TRY(mil_split_read(a->op, &s, err));
    eval_layout_outer_inner(&x->type, s.axis, &outer, &inner);
    for (int k = 0; k < s.count; k++)
        for (int64_t o = 0; o < outer; o++)
            memcpy(a->out[k].data + o * s.size[k] * inner, x->data + (o * x->type.dim[s.axis] + s.begin[k]) * inner,
                   (size_t)(s.size[k] * inner) * sizeof(double));
    return PROPANE_OK;
}

/* ---- indices -------------------------------------------------------------------------------------------------------- */

/* Negative indices count from the end unless validate_indices is set. An index out of range is always an error. */
propane_status mil_eval_gather(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x"), *indices = mil_eval_in(a, "indices");
    double *out = a->out[0].data;
    const bool strict = mil_index_strict(a->op);
    mil_gather g;
    PROPANE_TRY(mil_gather_read(a->op, &g, err));
    for (int64_t b = 0; b < g.batch; b++)
        for (int64_t o = 0; o < g.outer; o++)
            for (int64_t p = 0; p < g.picks; p++, out += g.inner) {
                const double given = indices->data[b * g.picks + p],
                             at = given < 0 && !strict ? given + (double)g.size : given;
                if (at < 0 || at >= (double)g.size)
                    return mil_op_fail(a->op, err, PROPANE_ERR_INVALID,
                                       "index %lld is %.0f, but dimension %d of x has %lld elements",
                                       (long long)(b * g.picks + p), given, g.axis, (long long)g.size);
                memcpy(out, x->data + (((b * g.outer + o) * g.size) + (int64_t)at) * g.inner,
                       (size_t)g.inner * sizeof(double));
            }
    return PROPANE_OK;
}

/* An index outside 0 .. size-1 sets off_value everywhere. */
propane_status mil_eval_one_hot(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *indices = mil_eval_in(a, "indices"), *on = mil_eval_in(a, "on_value"),
                     *off = mil_eval_in(a, "off_value");
    const mil_type *type = &a->out[0].type;
    int64_t outer, inner;
    int axis = 0;
    PROPANE_TRY(mil_attr_axis(a->op, "axis", type->rank, &axis, err));
    eval_layout_outer_inner(type, axis, &outer, &inner);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < type->dim[axis]; k++)
            for (int64_t i = 0; i < inner; i++) {
                const bool hit = indices->data[o * inner + i] == (double)k;
                a->out[0].data[(o * type->dim[axis] + k) * inner + i] =
                    hit ? (on ? on->data[0] : 1.0) : (off ? off->data[0] : 0.0);
            }
    return PROPANE_OK;
}

/* Keeps element (row, col) of the last two dimensions if row - col <= lower and col - row <= upper. A negative number
 * means no bound. */
propane_status mil_eval_band_part(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *x = mil_eval_in(a, "x");
    const int rank = x->type.rank;
    const int64_t rows = x->type.dim[rank - 2], cols = x->type.dim[rank - 1], count = mil_type_count(&x->type);
    int64_t lower = 0, upper = 0, at = 0;
    PROPANE_TRY(mil_attr_int(a->op, "lower", &lower, err));
    PROPANE_TRY(mil_attr_int(a->op, "upper", &upper, err));
    while (at < count)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++, at++)
                if ((lower < 0 || r - c <= lower) && (upper < 0 || c - r <= upper)) a->out[0].data[at] = x->data[at];
    return PROPANE_OK;
}

propane_status mil_eval_fill(const mil_eval_args *a, propane_error *err) {
    const mil_tensor *value = mil_eval_in(a, "value");
    const int64_t count = mil_type_count(&a->out[0].type);
    for (int64_t i = 0; i < count; i++) a->out[0].data[i] = value ? value->data[0] : 0.0;
    return PROPANE_OK;
}
