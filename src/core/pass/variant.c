/* SPDX-License-Identifier: MIT
 * Owns making a variant of a function: constants become parameters, and the inputs hold several samples instead of one.
 * The function is copied op by op, so every shape is computed again. Operands written for one sample (the shape of a
 * reshape, the end of a slice, a constant that is concatenated to the samples) are rewritten on the way.
 *
 * The values of a sample are contiguous: a dimension of k becomes samples * k, with the samples as its outer part.
 * Refuses operations whose result cannot have that form. The caller must test whether samples are mixed even though the
 * shapes agree.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"
#include "core/pass/pass.h"

typedef struct variant {
    const mil_function *from;
    const pass_variant_options *options;
    mil_builder build;
    mil_value **map; /* by id: the value in the new function */
} variant;

enum { SAME = -1, BROKEN = -2 };

/* Returns the dimension that now holds the samples, SAME if there is none, or BROKEN if the types do not fit. */
static int variant_sample_axis(const variant *v, const mil_value *old) {
    const mil_value *new = v->map[old->id];
    int axis = SAME;
    if (!new) return SAME; /* a literal */
    if (new->type.rank != old->type.rank || new->type.dtype != old->type.dtype ||
        new->type.container != old->type.container)
        return BROKEN;
    for (int d = 0; d < old->type.rank; d++) {
        if (new->type.dim[d] == old->type.dim[d]) continue;
        if (axis != SAME || new->type.dim[d] != old->type.dim[d] * v->options->batch) return BROKEN;
        axis = d;
    }
    return axis;
}

static mil_value *variant_tiled(variant *v, mil_value *x, int axis) {
    int64_t reps[MIL_MAX_RANK];
    if (!x) return NULL;
    for (int d = 0; d < x->type.rank; d++) reps[d] = d == axis ? v->options->batch : 1;
    mil_value *list = mil_build_ints(&v->build, reps, x->type.rank);
    mil_op *op = mil_build_op(&v->build, MIL_OP_tile, NULL, (mil_argument[]){{"x", 1, &x}, {"reps", 1, &list}}, 2);
    return op ? op->results[0] : NULL;
}

/* An operand that is replaced in the copy of one operation only. `before` is the entry of `map` to restore. */
typedef struct stand_in {
    int id;
    mil_value *before;
} stand_in;

typedef struct stand_ins {
    stand_in list[8];
    int count;
} stand_ins;

static propane_status variant_put(variant *v, stand_ins *s, const mil_value *old, mil_value *new, propane_error *err) {
    if (!new) return propane_fail(err, v->build.err.status, "%s", v->build.err.text);
    if (s->count == (int)(sizeof s->list / sizeof s->list[0]))
        return propane_fail(err, PROPANE_ERR_LIMIT, "more than %d operands are constants that several samples share",
                            s->count);
    s->list[s->count++] = (stand_in){old->id, v->map[old->id]};
    v->map[old->id] = new;
    return PROPANE_OK;
}

/* Adjusts the dimension of the new shape that is to hold the samples. As many elements precede this dimension as
 * precede the samples' dimension in x. */
static propane_status variant_fit_reshape(variant *v, const mil_op *op, stand_ins *s, propane_error *err) {
    const mil_value *x = mil_in(op, "x"), *shape = mil_in(op, "shape");
    const int axis = variant_sample_axis(v, x);
    mil_type to = op->results[0]->type;
    int64_t before = 1, here = 1;
    if (axis < 0) return PROPANE_OK;
    for (int d = 0; d < axis; d++) before *= x->type.dim[d];
    int at = 0;
    for (; at < to.rank && here != before; at++) here *= to.dim[at];
    if (here != before || at == to.rank)
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "its shape has no dimension for %lld samples",
                           (long long)v->options->batch);
    to.dim[at] *= v->options->batch;
    return variant_put(v, s, shape, mil_build_ints(&v->build, to.dim, to.rank), err);
}

static propane_status variant_fit_slice(variant *v, const mil_op *op, const char *param, stand_ins *s,
                                        propane_error *err) {
    const mil_value *x = mil_in(op, "x"), *limit = mil_in(op, param);
    const int axis = variant_sample_axis(v, x);
    int64_t ends[2 * MIL_MAX_RANK];
    int count = 0;
    mil_slice slice;
    if (axis < 0) return PROPANE_OK;
    PROPANE_TRY(mil_slice_read(op, &slice, err));
    if (slice.begin[axis] || slice.step[axis] != 1 || slice.count[axis] != x->type.dim[axis] || slice.squeeze[axis])
        return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "it slices along the dimension of the samples");
    PROPANE_TRY(mil_attr_ints(op, param, ends, &count, err));
    ends[axis] = x->type.dim[axis] * v->options->batch;
    return variant_put(v, s, limit, mil_build_ints(&v->build, ends, count), err);
}

/* Repeats constants (class tokens, first states) that are combined with samples, once per sample. */
static propane_status variant_fit_beside(variant *v, const mil_op *op, const char *param, int axis, stand_ins *s,
                                         propane_error *err) {
    const int p = mil_op_param(op->info, param);
    for (int i = 0; axis == SAME && i < op->operands[p].count; i++)
        axis = variant_sample_axis(v, op->operands[p].values[i]);
    for (int i = 0; axis >= 0 && i < op->operands[p].count; i++) {
        mil_value *old = op->operands[p].values[i];
        if (variant_sample_axis(v, old) != SAME || axis >= old->type.rank) continue;
        mil_value *x = v->map[old->id];
        if (!x && old->constant) x = mil_build_const(&v->build, NULL, &old->type, old->constant->data);
        PROPANE_TRY(variant_put(v, s, old, variant_tiled(v, x, axis), err));
    }
    return PROPANE_OK;
}

/* Adjusts a list of dimensions that begins with the number of samples. */
static propane_status variant_fit_size(variant *v, const mil_op *op, const char *param, stand_ins *s,
                                       propane_error *err) {
    const mil_value *x = mil_in(op, "x"), *size = mil_in(op, param);
    int64_t dim[2 * MIL_MAX_RANK];
    int count = 0;
    if (!size || variant_sample_axis(v, x) != 0) return PROPANE_OK;
    PROPANE_TRY(mil_attr_ints(op, param, dim, &count, err));
    dim[0] *= v->options->batch;
    return variant_put(v, s, size, mil_build_ints(&v->build, dim, count), err);
}

static propane_status variant_fit(variant *v, const mil_op *op, stand_ins *s, propane_error *err) {
    switch (op->info->code) {
    case MIL_OP_reshape: return variant_fit_reshape(v, op, s, err);
    case MIL_OP_slice_by_size: return variant_fit_slice(v, op, "size", s, err);
    case MIL_OP_slice_by_index: return variant_fit_slice(v, op, "end", s, err);
    case MIL_OP_conv_transpose: return variant_fit_size(v, op, "output_shape", s, err);
    case MIL_OP_concat:
    case MIL_OP_stack: return variant_fit_beside(v, op, "values", SAME, s, err);
    case MIL_OP_lstm:
        if (variant_sample_axis(v, mil_in(op, "x")) >= 0)
            PROPANE_TRY(variant_fit_beside(v, op, "initial_c", 0, s, err));
        /* fall through */
    case MIL_OP_gru:
    case MIL_OP_rnn:
        return variant_sample_axis(v, mil_in(op, "x")) < 0 ? PROPANE_OK
                                                           : variant_fit_beside(v, op, "initial_h", 0, s, err);
    default: return PROPANE_OK;
    }
}

static bool variant_is_freed(const variant *v, const mil_op *op) {
    for (int i = 0; op->info->code == MIL_OP_const && i < v->options->free_count; i++)
        if (strcmp(v->options->free[i], op->results[0]->name) == 0) return true;
    return false;
}

static propane_status variant_copy_op(variant *v, const mil_op *op, propane_error *err) {
    stand_ins s = {.count = 0};
    propane_status status = v->options->batch > 1 ? variant_fit(v, op, &s, err) : PROPANE_OK;
    if (status == PROPANE_OK) (void)mil_build_copy(&v->build, op, v->map);
    for (int i = s.count - 1; i >= 0; i--) v->map[s.list[i].id] = s.list[i].before;
    PROPANE_TRY(status);
    if (v->build.err.status) return propane_fail(err, v->build.err.status, "%s", v->build.err.text);
    for (int i = 0; i < op->result_count; i++)
        if (variant_sample_axis(v, op->results[i]) == BROKEN)
            return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED, "its result has no dimension for %lld samples",
                               (long long)v->options->batch);
    return PROPANE_OK;
}

/* Copies the parameters: first the inputs in their order, then the freed constants in the requested order. */
static propane_status variant_copy_params(variant *v, propane_error *err) {
    const mil_function *f = v->from;
    for (int i = 0; i < f->param_count; i++) {
        mil_type type = f->params[i]->type;
        if (v->options->batch > 1 && type.rank == 0)
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "input '%.60s' is a scalar, which samples would share",
                                f->params[i]->name);
        if (type.rank > 0) type.dim[0] *= v->options->batch;
        v->map[f->params[i]->id] = mil_build_param(&v->build, f->params[i]->name, type);
    }
    for (int i = 0; i < v->options->free_count; i++) {
        const mil_op *op = f->first;
        while (op && !(op->info->code == MIL_OP_const && strcmp(op->results[0]->name, v->options->free[i]) == 0))
            op = op->next;
        if (!op)
            return propane_fail(err, PROPANE_ERR_NOT_FOUND, "function '%.60s' has no constant '%.100s'", f->name,
                                v->options->free[i]);
        v->map[op->results[0]->id] = mil_build_param(&v->build, op->results[0]->name, op->results[0]->type);
    }
    return PROPANE_OK;
}

static propane_status variant_copy_all(variant *v, propane_error *err) {
    PROPANE_TRY(variant_copy_params(v, err));
    for (const mil_op *op = v->from->first; op; op = op->next)
        if (!variant_is_freed(v, op)) PROPANE_TRY(variant_copy_op(v, op, err));
    for (int i = 0; i < v->from->result_count; i++) mil_build_result(&v->build, v->map[v->from->results[i]->id]);
    return mil_build_end(&v->build, err);
}

propane_status pass_variant(const mil_function *f, const pass_variant_options *options, mil_function **out,
                            propane_error *err) {
    variant v = {.from = f, .options = options, .map = mem_array((size_t)f->value_count + 1, sizeof *v.map)};
    *out = NULL;
    if (!v.map) return propane_fail_memory(err, (size_t)f->value_count * sizeof *v.map);
    mil_build_begin(&v.build, f->module, options->name, f->opset);
    propane_status status = v.build.err.status ? mil_build_end(&v.build, err) : variant_copy_all(&v, err);
    mem_free(v.map);
    if (status == PROPANE_OK)
        *out = v.build.function;
    else if (v.build.function)
        mil_module_drop(f->module, v.build.function);
    return status;
}
