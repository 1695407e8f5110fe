/* SPDX-License-Identifier: MIT
 * Compiles operations that only move data: reshapes between rows of different lengths, transposes, slices and
 * concatenations.
 */
#include "ane/h13/compile_parts.h"
#include "core/mil/ops/shape_util.h"

/* ---- layout ------------------------------------------------------------------------------------------------------------------------------ */

/* Copies between tensors with different strides of rows. Either the rows have equal lengths, or a row of one side holds
 * several rows of the other. */
propane_status compile_layout(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    emit_tensor a, y;
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    int64_t wide = y.w > a.w ? y.w : a.w, small = y.w > a.w ? a.w : y.w;
    if (wide % small)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "rows of %lld become rows of %lld", (long long)a.w,
                            (long long)y.w);
    if (a.w == y.w) {
        y.c = a.c, y.h = a.h, y.plane = y.row * a.h;
        return lower_copy(&c->e, &a, &y, err);
    }
    /* both sides as [rows of the wide side, parts of such a row, elements of a part] */
    int64_t parts = wide / small, rows = a.c * a.h * a.w / wide;
    bool split = a.w > y.w;
    emit_tensor from = {a.bar, a.base, rows, parts, small, a.row, a.row * parts, a.total};
    emit_tensor to = {y.bar, y.base, rows, parts, small, y.row, y.row * parts, y.total};
    if (split)
        from.row = 2 * small, from.plane = a.row;
    else
        to.row = 2 * small, to.plane = y.row;
    return lower_copy(&c->e, &from, &to, err);
}

/* ---- several dimensions in front of rows and columns -------------------------------------------------------------- */

/* A dimension to copy: its length, and the bytes from one element to the next in the source and in the result. */
typedef struct compile_axis {
    int64_t count, from, to;
} compile_axis;

typedef struct compile_move {
    compile_axis axes[MIL_MAX_RANK]; /* all axes but `width` and `turned` */
    int count;
    compile_axis width;  /* the last dimension of the source */
    compile_axis turned; /* the dimension that becomes the result's last; `count` is 0 if that is `width` */
} compile_move;

/* Returns the bytes between neighbours in dimension d of a tensor of that type. */
static int64_t compile_step(const emit_tensor *t, const mil_type *type, int d) {
    if (d == type->rank - 1) return 2;
    if (d == type->rank - 2) return t->row;
    int64_t inner = 1;
    for (int i = d + 1; i < type->rank - 2; i++) inner *= type->dim[i];
    return inner * t->plane;
}

/* Adds an axis outside the axes of the list. Joins the new axis with the axis that was added last if `join` is set and
 * one stride per side serves both. */
static void compile_move_add(compile_move *m, compile_axis axis, bool join) {
    compile_axis *last = m->count ? &m->axes[m->count - 1] : NULL;
    if (axis.count == 1) return;
    if (join && last && axis.from == last->from * last->count && axis.to == last->to * last->count)
        last->count *= axis.count;
    else
        m->axes[m->count++] = axis;
}

/* Removes the longest axis from the list and returns it. Returns an axis of one element if the list is empty. */
static compile_axis compile_move_longest(compile_move *m) {
    int at = 0;
    if (!m->count) return (compile_axis){1, 0, 0};
    for (int k = 1; k < m->count; k++)
        if (m->axes[k].count > m->axes[at].count) at = k;
    const compile_axis longest = m->axes[at];
    m->axes[at] = m->axes[--m->count];
    return longest;
}

/* Makes tasks that each copy the width and two more axes, one task for every position on the remaining axes. */
static propane_status compile_move_all(compile *c, compile_move m, const emit_tensor *a, const emit_tensor *y,
                                       propane_error *err) {
    const bool turns = m.turned.count != 0;
    const compile_axis outer = turns ? m.turned : compile_move_longest(&m), inner = compile_move_longest(&m);
    int64_t tasks = 1;
    for (int k = 0; k < m.count; k++) tasks *= m.axes[k].count;
    for (int64_t i = 0; i < tasks; i++) {
        emit_tensor from = {a->bar, a->base, outer.count, inner.count, m.width.count, inner.from, outer.from, a->total};
        emit_tensor to = {y->bar, y->base, outer.count, inner.count, m.width.count, inner.to, outer.to, y->total};
        if (turns) to.c = m.width.count, to.w = outer.count, to.plane = m.width.to;
        if (inner.count == 1) from.row = a->total, to.row = y->total;
        int64_t at = i;
        for (int k = 0; k < m.count; at /= m.axes[k++].count) {
            from.base += at % m.axes[k].count * m.axes[k].from;
            to.base += at % m.axes[k].count * m.axes[k].to;
        }
        PROPANE_TRY(turns ? lower_transpose(&c->e, &from, &to, err) : lower_copy(&c->e, &from, &to, err));
    }
    return PROPANE_OK;
}

static propane_status compile_transpose_any(compile *c, const mil_op *op, const int *perm, const emit_tensor *a,
                                            const emit_tensor *y, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type, *out = &op->results[0]->type;
    compile_move m = {.count = 0};
    int place[MIL_MAX_RANK], rank = x->rank;
    for (int d = 0; d < rank; d++) place[perm[d]] = d;
    for (int d = rank - 1; d >= 0; d--) {
        const compile_axis axis = {x->dim[d], compile_step(a, x, d), compile_step(y, out, place[d])};
        if (d == rank - 1)
            m.width = axis;
        else if (place[d] == rank - 1)
            m.turned = axis;
        else
            compile_move_add(&m, axis, d < rank - 3 && place[d] < rank - 2 && place[d + 1] < rank - 2);
    }
    return compile_move_all(c, m, a, y, err);
}

static propane_status compile_slice_any(compile *c, const mil_op *op, const mil_slice *s, const emit_tensor *a,
                                        const emit_tensor *y, propane_error *err) {
    const mil_type *x = &mil_in(op, "x")->type, *out = &op->results[0]->type;
    compile_move m = {.count = 0};
    emit_tensor from = *a;
    int to = out->rank - 1;
    if (s->squeeze[s->rank - 1] || s->step[s->rank - 1] != 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the last dimension is dropped or has steps");
    for (int d = s->rank - 1; d >= 0; d--) {
        const int64_t step = compile_step(a, x, d);
        if (s->step[d] < 1) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "steps backwards are not supported");
        from.base += s->begin[d] * step;
        const compile_axis axis = {s->count[d], step * s->step[d], s->squeeze[d] ? 0 : compile_step(y, out, to)};
        if (d == s->rank - 1)
            m.width = axis;
        else
            compile_move_add(&m, axis, d < s->rank - 3);
        if (!s->squeeze[d]) to--;
    }
    return compile_move_all(c, m, &from, y, err);
}

/* ---- transposes, slices and concatenations ------------------------------------------------------------------------ */

/* Exchanges axes of [c, h, w]: a task exchanges channels and width if the width moves; otherwise, strides are
 * enough. */
propane_status compile_transpose(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    int perm[MIL_MAX_RANK], rank = x->type.rank, p[3] = {0, 1, 2};
    emit_tensor a, y;
    PROPANE_TRY(mil_attr_perm(op, perm, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    bool rows_only = true, same = true;
    for (int d = 0; d < rank - 2; d++) rows_only = rows_only && perm[d] == d;
    int lead = rank > 3 ? rank - 3 : 0, pad = rank < 3 ? 3 - rank : 0;
    for (int d = 0; d < rank; d++)
        same = same && ((d < lead) == (perm[d] < lead) || (x->type.dim[perm[d]] == 1 && x->type.dim[d] == 1));
    if (!rows_only && (!same || !compile_plain(&x->type))) return compile_transpose_any(c, op, perm, &a, &y, err);
    for (int d = lead; d < rank; d++) p[d - lead + pad] = perm[d] < lead ? d - lead + pad : perm[d] - lead + pad;
    /* y[i0, i1, i2] is the element of x with index ik on axis p[k]; x, as [c, h, w], is copied with strides of y */
    const int64_t stride_y[3] = {y.plane, y.row, 2}, dims[3] = {a.c, a.h, a.w}, stride_x[3] = {a.plane, a.row, 2};
    int64_t to[3];
    for (int k = 0; k < 3; k++) to[p[k]] = stride_y[k]; /* stride in y of each axis of x */
    if (to[2] == 2) {
        if (p[0] == 1) { /* read with the rows as channels, as Apple's compiler does */
            emit_tensor from = {a.bar, a.base, a.h, a.c, a.w, a.plane, a.row, a.total};
            return lower_copy(&c->e, &from, &y, err);
        }
        return lower_copy(&c->e, &a, &y, err);
    }
    /* the task reads the axis that becomes y's width as channels, and turns x's width into channels */
    int wide = p[2], rest = 3 - wide - 2;
    emit_tensor from = {a.bar, a.base, dims[wide], dims[rest], dims[2], stride_x[rest], stride_x[wide], a.total};
    emit_tensor into = {y.bar, y.base, dims[2], dims[rest], dims[wide], to[rest], to[2], y.total};
    if (dims[rest] == 1) from.row = a.total, into.row = y.total;
    return lower_transpose(&c->e, &from, &into, err);
}

propane_status compile_slice(compile *c, const mil_op *op, propane_error *err) {
    mil_value *x = mil_in(op, "x");
    mil_slice s;
    emit_tensor a, y;
    PROPANE_TRY(mil_slice_read(op, &s, err));
    PROPANE_TRY(compile_tensor(c, op, x, &a, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (!compile_plain(&x->type)) return compile_slice_any(c, op, &s, &a, &y, err);
    int64_t begin[3] = {0}, step[3] = {1, 1, 1}, count[3] = {a.c, a.h, a.w};
    for (int d = 0; d < s.rank; d++) {
        int to = d - (s.rank - 3);
        if (to >= 0) begin[to] = s.begin[d], step[to] = s.step[d], count[to] = s.count[d];
    }
    if (step[2] != 1 || step[0] < 1 || step[1] < 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "steps of %lld, %lld and %lld are not supported",
                            (long long)step[0], (long long)step[1], (long long)step[2]);
    emit_tensor from = {a.bar,
                        a.base + begin[0] * a.plane + begin[1] * a.row + 2 * begin[2],
                        count[0],
                        count[1],
                        count[2],
                        a.row * step[1],
                        a.plane * step[0],
                        a.total};
    int64_t rows = y.row, planes = y.plane;
    if (y.c != count[0] || y.h != count[1]) { /* dimensions of 1 were dropped */
        rows = y.w == count[2] ? y.row : 0;
        planes = rows * count[1];
    }
    if (!rows) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "the last dimension is dropped");
    emit_tensor to = {y.bar, y.base, count[0], count[1], count[2], rows, planes, y.total};
    return lower_copy(&c->e, &from, &to, err);
}

propane_status compile_concat(compile *c, const mil_op *op, propane_error *err) {
    mil_value *const *values;
    int count = mil_in_list(op, "values", &values), axis;
    emit_tensor y;
    bool interleave = false;
    PROPANE_TRY(mil_attr_bool(op, "interleave", &interleave, err));
    PROPANE_TRY(mil_attr_axis(op, "axis", op->results[0]->type.rank, &axis, err));
    PROPANE_TRY(compile_result(c, op, op->results[0], &y, err));
    if (interleave) return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "an interleaved concatenation");
    const mil_type *type = &op->results[0]->type;
    int which = axis - (type->rank - 3) < 0 ? 0 : axis - (type->rank - 3);
    int64_t outer = 1, at = 0;
    for (int d = 0; which == 0 && d < axis; d++) outer *= type->dim[d]; /* parts of the inputs alternate */
    const int64_t strides[3] = {y.plane, y.row, 2};
    for (int i = 0; i < count; i++) {
        emit_tensor a;
        PROPANE_TRY(compile_tensor(c, op, values[i], &a, err));
        const int64_t dims[3] = {a.c / outer, a.h, a.w};
        for (int64_t o = 0; o < outer; o++) {
            emit_tensor from = a, to = y;
            from.base += o * dims[0] * a.plane;
            to.base += at * strides[which] + (outer > 1 ? o * (y.c / outer) * y.plane : 0);
            from.c = to.c = dims[0], to.h = a.h, to.w = a.w;
            if (from.bar == to.bar && from.base == to.base) continue; /* the part was made in place */
            PROPANE_TRY(lower_copy(&c->e, &from, &to, err));
        }
        at += dims[which];
    }
    return PROPANE_OK;
}
