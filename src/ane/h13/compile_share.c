/* SPDX-License-Identifier: MIT
 * Decides which values share the memory of others, so that no task copies them. Reshapes, slices and exchanges of rows
 * and channels view their operand. The parts of a concatenation are written where they end up.
 *
 * Every operation can read and write a value with the strides of its type. Other strides suit only concatenations,
 * slices and the operations of compile_by_element, which pass a tensor's strides on to the DMA.
 */
#include "ane/h13/compile_parts.h"
#include "core/mil/ops/shape_util.h"

enum { SHARE_ALIGN = 64 }; /* bytes; a row that is fetched or stored begins at a multiple of this */

static bool compile_is_slice(const mil_op *op) {
    return op->info->code == MIL_OP_slice_by_index || op->info->code == MIL_OP_slice_by_size;
}

/* Sets the strides of a place, or 0 if they equal the strides of the value's type. */
static void compile_strides(compile_place *p, const emit_tensor *own, int64_t row, int64_t plane) {
    bool dense = (own->h == 1 || row == own->row) && (own->c == 1 || plane == own->plane);
    p->row = dense ? 0 : row;
    p->plane = dense ? 0 : plane;
}

/* Sets *out to the tensor of v with the strides of its place, but without its address. Returns false if the engine does
 * not support the type. */
static bool compile_placed(const compile *c, const mil_value *v, emit_tensor *out) {
    propane_error err;
    const compile_place *p = &c->places[v->id];
    if (compile_shape(NULL, v, out, &err)) return false;
    if (p->row) out->row = p->row, out->plane = p->plane;
    return true;
}

/* ---- values that view their operand ------------------------------------------------------------------------------ */

/* A view: its offset in bytes from its operand, and its strides. */
typedef struct share_view {
    int64_t offset, row, plane;
} share_view;

static bool compile_view_slice(const mil_op *op, const emit_tensor *a, const emit_tensor *y, share_view *out) {
    propane_error err;
    mil_slice s;
    const mil_type *x = &mil_in(op, "x")->type;
    int64_t begin = 0, inner = 1, count = 1, steps[3] = {a->plane, a->row, 2}, dims[3] = {1, 1, 1};
    if (mil_slice_read(op, &s, &err)) return false;
    *out = (share_view){0, a->row, a->plane};
    for (int d = s.rank - 1; d >= 0; d--) {
        int to = d - (s.rank - 3) < 0 ? 0 : d - (s.rank - 3);
        if (s.step[d] != 1) return false;
        if (to == 0) {
            if (s.count[d] > 1 && count != inner) return false; /* the planes are not evenly spaced */
            begin += s.begin[d] * inner, inner *= x->dim[d], count *= s.count[d];
        } else {
            out->offset += s.begin[d] * steps[to];
            dims[to] = s.count[d];
        }
    }
    out->offset += begin * steps[0], dims[0] = count;
    return y->c == dims[0] && y->h == dims[1] && y->w == dims[2] && out->offset % SHARE_ALIGN == 0;
}

/* Sets *out to the view that exchanges rows and channels. Returns false for any other transpose. */
static bool compile_view_transpose(const mil_op *op, const emit_tensor *a, const emit_tensor *y, share_view *out) {
    propane_error err;
    int perm[MIL_MAX_RANK], rank = op->results[0]->type.rank;
    if (mil_attr_perm(op, perm, &err) || rank < 3 || !compile_plain(&mil_in(op, "x")->type)) return false;
    for (int d = 0; d < rank; d++)
        if (perm[d] != (d == rank - 3 ? rank - 2 : d == rank - 2 ? rank - 3 : d)) return false;
    *out = (share_view){0, a->plane, a->row};
    return y->c == a->h && y->h == a->c;
}

static bool compile_readers_stride(const compile *c, const mil_value *v) {
    int seen = 0;
    for (const mil_op *op = v->def->next; op; op = op->next)
        for (int p = 0; p < op->info->param_count; p++)
            for (int k = 0; k < op->operands[p].count; k++) {
                if (op->operands[p].values[k] != v) continue;
                if (!compile_by_element(op) && op->info->code != MIL_OP_concat && !compile_is_slice(op)) return false;
                seen++;
            }
    return seen == c->users[v->id];
}

static bool compile_is_reshape(const mil_op *op) {
    switch (op->info->code) {
    case MIL_OP_reshape:
    case MIL_OP_expand_dims:
    case MIL_OP_squeeze:
    case MIL_OP_identity:
    case MIL_OP_cast: return true;
    default: return false;
    }
}

/* Makes the result a view of its operand if the operation only selects or reinterprets the operand's bytes. */
static void compile_view(compile *c, const mil_op *op) {
    bool reshape = compile_is_reshape(op), slice = compile_is_slice(op);
    if (!reshape && !slice && op->info->code != MIL_OP_transpose) return;
    mil_value *x = mil_in(op, "x"), *v = op->results[0];
    compile_place *p = &c->places[v->id], *from = &c->places[x->id];
    emit_tensor a, y;
    share_view view = {0};
    if (p->known || p->inside || !mil_dtype_is_float(x->type.dtype) || !mil_dtype_is_float(v->type.dtype)) return;
    if (compile_behind(x) || !compile_placed(c, x, &a) || !compile_placed(c, v, &y)) return;
    if (reshape) {
        if (from->row || !compile_same_bytes(&x->type, &v->type)) return;
        view = (share_view){0, y.row, y.plane};
    } else if (slice ? !compile_view_slice(op, &a, &y, &view) : !compile_view_transpose(op, &a, &y, &view))
        return;
    compile_place made = {.owner = from->owner, .offset = from->offset + view.offset, .view = true};
    compile_strides(&made, &y, view.row, view.plane);
    if (made.row && !compile_readers_stride(c, v)) return;
    *p = made;
}

/* ---- parts of a concatenation ------------------------------------------------------------------------------------ */

/* Returns whether the operation that makes v can store it with any strides. */
static bool compile_writer_strides(const compile *c, const mil_value *v) {
    if (compile_is_slice(v->def) || v->def->info->code == MIL_OP_concat) return true;
    return compile_by_element(v->def) && !compile_may_be_absorbed(c, v->def);
}

/* Lets v, an operand of a concatenation, be made in place if that is possible: `offset` bytes into y, with the strides
 * of `to`. */
static void compile_part(compile *c, mil_value *v, const mil_value *y, const emit_tensor *to, int64_t offset) {
    emit_tensor own;
    compile_place made = {.owner = c->places[y->id].owner, .offset = c->places[y->id].offset + offset, .inside = true};
    if (c->users[v->id] != 1 || !compile_placed(c, v, &own) || offset % SHARE_ALIGN) return;
    compile_strides(&made, &own, to->row, to->plane);
    while (v->def && compile_is_reshape(v->def) && !made.row) { /* the operand of a view is made in the same place */
        mil_value *x = mil_in(v->def, "x");
        if (c->users[x->id] != 1 || x->constant || !compile_same_bytes(&x->type, &v->type)) return;
        if (!mil_dtype_is_float(x->type.dtype)) return;
        v = x;
    }
    if (!v->def || c->places[v->id].known || compile_behind(v)) return;
    if (made.row && !compile_writer_strides(c, v)) return;
    c->places[v->id] = made;
}

static void compile_parts_of(compile *c, const mil_op *op) {
    propane_error err;
    mil_value *const *values, *y = op->results[0];
    const mil_type *type = &y->type;
    int count = mil_in_list(op, "values", &values), axis;
    bool interleave = false;
    emit_tensor to;
    if (mil_attr_bool(op, "interleave", &interleave, &err) || interleave || y->constant) return;
    if (mil_attr_axis(op, "axis", type->rank, &axis, &err) || !compile_placed(c, y, &to)) return;
    int which = axis - (type->rank - 3) < 0 ? 0 : axis - (type->rank - 3);
    int64_t inner = 1, at = 0;
    const int64_t steps[3] = {to.plane, to.row, 2};
    for (int d = 0; d < type->rank - 2; d++) {
        if (which == 0 && d < axis && type->dim[d] != 1) return; /* the parts alternate */
        if (which == 0 && d > axis) inner *= type->dim[d];
    }
    for (int i = 0; i < count; at += values[i++]->type.dim[axis])
        compile_part(c, values[i], y, &to, at * inner * steps[which]);
}

void compile_share(compile *c) {
    const mil_function *f = c->function;
    for (int i = 0; i < f->value_count; i++) c->places[i].owner = i;
    for (int i = 0; i < f->param_count; i++) c->values[f->params[i]->id] = f->params[i];
    for (const mil_op *op = f->first; op; op = op->next)
        for (int r = 0; r < op->result_count; r++) c->values[op->results[r]->id] = op->results[r];
    for (const mil_op *op = f->last; op; op = op->prev) /* the outer concatenation first */
        if (op->info->code == MIL_OP_concat) compile_parts_of(c, op);
    for (const mil_op *op = f->first; op; op = op->next)
        if (op->result_count == 1 && !op->results[0]->constant) compile_view(c, op);
}

void compile_share_place(compile *c) {
    for (int i = 0; i < c->function->value_count; i++) {
        compile_place *p = &c->places[i];
        const compile_place *owner = &c->places[p->owner];
        if (p->owner != i && owner->known) p->known = true, p->bar = owner->bar, p->base = owner->base + p->offset;
    }
}
