/* SPDX-License-Identifier: MIT
 * Owns the rewrites. Most of them copy a function's operations in order, with a map from old values to new ones.
 */
#include "lm/step/kernel_rewrite.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/ops/shape_util.h"

typedef struct rewrite {
    mil_builder b;
    const mil_function *from;
    mil_value **map; /* [value id of `from`] */
} rewrite;

static propane_status kernel_rewrite_begin(rewrite *r, const mil_function *f, mil_module *into, const char *name,
                                           propane_error *err) {
    *r = (rewrite){.from = f, .map = mem_array((size_t)f->value_count + 1, sizeof *r->map)};
    if (!r->map) return propane_fail_memory(err, ((size_t)f->value_count + 1) * sizeof *r->map);
    mil_build_begin(&r->b, into, name, f->opset);
    return PROPANE_OK;
}

static propane_status kernel_rewrite_end(rewrite *r, mil_function **out, propane_error *err) {
    propane_status status = mil_build_end(&r->b, err);
    *out = status == PROPANE_OK ? r->b.function : NULL;
    mem_free(r->map);
    return status;
}

static void kernel_rewrite_rename_value(rewrite *r, mil_value *v, const char *name) {
    propane_error err = {0};
    if (v && strcmp(v->name, name) != 0 && mil_rename(r->b.function, v, name, &err) && !r->b.err.status) r->b.err = err;
}

/* Makes `v` a result called `name`. A parameter, a constant or a value that is already a result is passed through an
 * identity. */
static void kernel_rewrite_give_result(rewrite *r, mil_value *v, const char *name) {
    if (!v) return;
    bool own = v->def && !v->constant;
    for (int i = 0; i < r->b.function->result_count; i++) own &= r->b.function->results[i] != v;
    if (!own && strcmp(v->name, name) != 0) v = mil_build_unary(&r->b, MIL_OP_identity, v);
    kernel_rewrite_rename_value(r, v, name);
    if (v) mil_build_result(&r->b, v);
}

static mil_value *kernel_rewrite_cast_to(rewrite *r, mil_value *v, mil_dtype dtype) {
    return v && v->type.dtype != dtype ? mil_build_cast(&r->b, v, dtype) : v;
}

/* ---- the residual stream --------------------------------------------------------------------------------------------- */

propane_status train_wrap(const mil_function *half, const char *name, mil_dtype stream_type, bool residual,
                          mil_function **out, propane_error *err) {
    rewrite r;
    PROPANE_TRY(kernel_rewrite_begin(&r, half, half->module, name, err));
    mil_value *stream = NULL;
    for (int i = 0; i < half->param_count; i++) {
        mil_type type = half->params[i]->type;
        if (i == 0) type.dtype = stream_type;
        r.map[half->params[i]->id] = mil_build_param(&r.b, half->params[i]->name, type);
    }
    if (half->param_count) {
        const mil_value *x = half->params[0];
        stream = r.map[x->id];
        r.b.stage = "enter";
        r.map[x->id] = kernel_rewrite_cast_to(&r, stream, x->type.dtype);
    }
    for (const mil_op *op = half->first; op; op = op->next) {
        r.b.stage = op->stage;
        if (!mil_build_copy(&r.b, op, r.map)) break;
    }
    mil_value *result = r.map[half->results[0]->id];
    r.b.stage = "residual";
    if (residual) {
        mil_value *sum = mil_build_binary(&r.b, MIL_OP_add, stream, kernel_rewrite_cast_to(&r, result, stream_type));
        kernel_rewrite_give_result(&r, sum, "out");
    } else {
        kernel_rewrite_give_result(&r, result, half->results[0]->name);
    }
    return kernel_rewrite_end(&r, out, err);
}

/* ---- fp32 arithmetic ---------------------------------------------------------------------------------------------------- */

static mil_value *kernel_rewrite_widen_const(rewrite *r, const mil_value *v) {
    int64_t count = mil_type_count(&v->type);
    mil_type type = v->type;
    type.dtype = MIL_fp32;
    if (!v->constant->data) {
        propane_fail(&r->b.err, PROPANE_ERR_INVALID, "constant '%s' has no data yet", v->name);
        return NULL;
    }
    double *data = mem_array((size_t)count, sizeof *data);
    if (!data) {
        propane_fail_memory(&r->b.err, (size_t)count * sizeof *data);
        return NULL;
    }
    mil_unpack_f64(data, v->type.dtype, v->constant->data, count);
    mil_value *wide = count == 1 && type.rank == 0
                          ? mil_build_scalar(&r->b, MIL_fp32, data[0])
                          : mil_build_const_f64(&r->b, v->is_inline ? NULL : v->name, &type, data);
    mem_free(data);
    return wide;
}

static bool kernel_rewrite_is_half_const(const mil_value *v) { return v->constant && v->type.dtype == MIL_fp16; }

/* Promotes one operation to fp32. Constants are widened where they are first used. Casts between float types are
 * dropped. */
static bool kernel_rewrite_promote_op(rewrite *r, const mil_op *op) {
    if (op->info->code == MIL_OP_const && kernel_rewrite_is_half_const(op->results[0])) return true;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (kernel_rewrite_is_half_const(v) && !r->map[v->id]) r->map[v->id] = kernel_rewrite_widen_const(r, v);
        }
    if (r->b.err.status) return false;
    if (op->info->code == MIL_OP_cast) {
        const mil_value *x = mil_in(op, "x");
        if (mil_dtype_is_float(x->type.dtype) && mil_dtype_is_float(op->results[0]->type.dtype)) {
            r->map[op->results[0]->id] = r->map[x->id];
            return true;
        }
    }
    r->b.stage = op->stage;
    r->b.backward = op->backward;
    return mil_build_copy(&r->b, op, r->map) != NULL;
}

static bool kernel_rewrite_is_sum(const char *result, const char *const *sums, int sum_count) {
    for (int i = 0; i < sum_count; i++)
        if (strncmp(result, "d_", 2) == 0 && strcmp(result + 2, sums[i]) == 0) return true;
    return false;
}

static void kernel_rewrite_promote_result(rewrite *r, const mil_value *old, mil_value *sum, bool keep_wide) {
    mil_value *v = r->map[old->id];
    if (!v && kernel_rewrite_is_half_const(old)) v = kernel_rewrite_widen_const(r, old);
    mil_dtype dtype = keep_wide ? MIL_fp32 : old->type.dtype;
    if (!v) return;
    bool more = sum || v->type.dtype != dtype;
    if (more && v->def && !v->constant && strcmp(v->name, old->name) == 0) { /* the final value needs this name */
        char *wide = arena_printf(r->b.module->arena, "%s_wide", old->name);
        if (wide) kernel_rewrite_rename_value(r, v, wide);
    }
    if (sum) v = mil_build_binary(&r->b, MIL_OP_add, sum, v);
    kernel_rewrite_give_result(r, kernel_rewrite_cast_to(r, v, dtype), old->name);
}

propane_status train_promote(const mil_function *f, mil_module *into, const char *name, const char *const *sums,
                             int sum_count, bool accumulate, mil_function **out, propane_error *err) {
    rewrite r;
    PROPANE_TRY(kernel_rewrite_begin(&r, f, into, name, err));
    mil_value **totals = mem_array((size_t)f->result_count + 1, sizeof *totals);
    if (!totals) propane_fail_memory(&r.b.err, (size_t)f->result_count * sizeof *totals);
    for (int i = 0; i < f->param_count; i++)
        r.map[f->params[i]->id] = mil_build_param(&r.b, f->params[i]->name, f->params[i]->type);
    for (int i = 0; totals && accumulate && i < f->result_count; i++) {
        mil_type type = f->results[i]->type;
        type.dtype = MIL_fp32;
        if (!kernel_rewrite_is_sum(f->results[i]->name, sums, sum_count)) continue;
        const char *total = arena_printf(into->arena, "sum_%s", f->results[i]->name + 2);
        totals[i] = total ? mil_build_param(&r.b, total, type) : NULL;
    }
    for (int i = 0; i < f->param_count; i++) {
        mil_value **v = &r.map[f->params[i]->id];
        if (!*v || (*v)->type.dtype != MIL_fp16) continue;
        *v = mil_build_cast(&r.b, *v, MIL_fp32);
        const char *wide = arena_printf(into->arena, "%s_wide", f->params[i]->name);
        if (wide) /* a cast gets a name automatically, which may clash with a result's name */
            kernel_rewrite_rename_value(&r, *v, wide);
    }
    for (const mil_op *op = f->first; op; op = op->next)
        if (!kernel_rewrite_promote_op(&r, op)) break;
    r.b.stage = NULL;
    for (int i = 0; totals && i < f->result_count && !r.b.err.status; i++)
        kernel_rewrite_promote_result(&r, f->results[i], totals[i],
                                      kernel_rewrite_is_sum(f->results[i]->name, sums, sum_count));
    mem_free(totals);
    return kernel_rewrite_end(&r, out, err);
}

propane_status train_add_squares(mil_function *f, const char *const *names, int count, propane_error *err) {
    static const int64_t axes[MIL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    rewrite r = {.from = f};
    const int results = f->result_count;
    mil_build_resume(&r.b, f);
    for (int i = 0; i < results && !r.b.err.status; i++) {
        mil_value *gradient = f->results[i];
        if (!kernel_rewrite_is_sum(gradient->name, names, count)) continue;
        mil_value *sum = mil_build_reduce(&r.b, MIL_OP_reduce_sum_square, gradient, axes, gradient->type.rank, true);
        const char *name = arena_printf(f->module->arena, "%s%s", TRAIN_SQUARES, gradient->name + 2);
        if (!name) return propane_fail_memory(err, 0);
        kernel_rewrite_give_result(&r, sum, name);
    }
    if (r.b.err.status && err) *err = r.b.err;
    return r.b.err.status;
}

/* ---- sums over many channels --------------------------------------------------------------------------------------------- */

/* Returns the number of parts into which to cut the sum of a matrix product between a transposed weight and an
 * activation of more than `bytes`. Returns 1 for other operations. */
static int64_t kernel_rewrite_parts(const mil_op *op, int64_t bytes) {
    mil_matmul m;
    if (op->info->code != MIL_OP_matmul || mil_matmul_read(op, &m, NULL)) return 1;
    const mil_value *x = mil_in(op, "x"), *root = x;
    const mil_type *y = &mil_in(op, "y")->type;
    while (root->def && root->def->info->code == MIL_OP_reshape) root = root->def->operands[0].values[0];
    const bool weight = !root->def && !root->constant && root->type.rank == 2 && root->type.dim[0] == m.k;
    const bool rows = m.x_row == 1 && m.x_col == m.m && m.y_row == m.n && m.y_col == 1;
    if (!weight || !rows || x->type.rank != 4 || y->rank != 4 || y->dim[1] != 1) return 1;
    const double row = (double)(y->dim[0] * m.n) * ((double)mil_type_bytes(y) / (double)mil_type_count(y));
    for (int64_t parts = 1; parts <= TRAIN_PARTS_MOST && parts <= m.k; parts++)
        if (m.k % parts == 0 && row * (double)(m.k / parts) <= (double)bytes) return parts;
    return 1;
}

static void kernel_rewrite_sum_parts(rewrite *r, const mil_op *op, int64_t parts) {
    const mil_value *result = op->results[0];
    mil_value *x = r->map[mil_in(op, "x")->id], *y = r->map[mil_in(op, "y")->id];
    static const int64_t axis[] = {1};
    r->b.stage = op->stage;
    r->b.backward = op->backward;
    if (!x || !y) return;
    const int64_t *dx = x->type.dim, *dy = y->type.dim;
    const int64_t rows = dx[2] / parts;
    mil_value *weights = mil_build_reshape(&r->b, x, (int64_t[]){1, parts, rows, dx[3]}, 4);
    mil_value *values = mil_build_reshape(&r->b, y, (int64_t[]){dy[0], parts, rows, dy[3]}, 4);
    mil_value *products = mil_build_matmul(&r->b, weights, values, true, false);
    mil_value *sum = mil_build_reduce(&r->b, MIL_OP_reduce_sum, products, axis, 1, true);
    if (r->b.err.status) return;
    const char *name = arena_printf(r->b.module->arena, "%s_parts", result->name);
    if (name) kernel_rewrite_rename_value(r, products, name);
    kernel_rewrite_rename_value(r, sum, result->name);
    r->map[result->id] = sum;
}

propane_status train_cut_sums(const mil_function *f, mil_module *into, const char *name, int64_t bytes,
                              mil_function **out, propane_error *err) {
    rewrite r;
    bool any = false;
    for (const mil_op *op = f->first; op; op = op->next) any |= kernel_rewrite_parts(op, bytes) > 1;
    *out = NULL;
    if (!any) return PROPANE_OK;
    PROPANE_TRY(kernel_rewrite_begin(&r, f, into, name, err));
    for (int i = 0; i < f->param_count; i++)
        r.map[f->params[i]->id] = mil_build_param(&r.b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op && !r.b.err.status; op = op->next) {
        const int64_t parts = kernel_rewrite_parts(op, bytes);
        r.b.stage = op->stage;
        r.b.backward = op->backward;
        if (parts > 1)
            kernel_rewrite_sum_parts(&r, op, parts);
        else
            (void)!mil_build_copy(&r.b, op, r.map);
    }
    for (int i = 0; i < f->result_count && !r.b.err.status; i++)
        kernel_rewrite_give_result(&r, r.map[f->results[i]->id], f->results[i]->name);
    return kernel_rewrite_end(&r, out, err);
}

/* ---- parameters made otherwise ---------------------------------------------------------------------------------------- */

/* Copies the operations, then the results under their names. The parameters are already in the map. */
static propane_status kernel_rewrite_copy_rest(rewrite *r, mil_function **out, propane_error *err) {
    for (const mil_op *op = r->from->first; op; op = op->next) {
        r->b.stage = op->stage;
        r->b.backward = op->backward;
        if (!mil_build_copy(&r->b, op, r->map)) break;
    }
    for (int i = 0; i < r->from->result_count && !r->b.err.status; i++)
        kernel_rewrite_give_result(r, r->map[r->from->results[i]->id], r->from->results[i]->name);
    return kernel_rewrite_end(r, out, err);
}

propane_status train_cut(const mil_function *f, mil_module *into, const char *name, train_cut_param cut, void *context,
                         mil_function **out, propane_error *err) {
    rewrite r;
    *out = NULL;
    PROPANE_TRY(kernel_rewrite_begin(&r, f, into, name, err));
    r.b.stage = "unpack";
    for (int i = 0; i < f->param_count && !r.b.err.status; i++) r.map[f->params[i]->id] = cut(context, &r.b, i);
    return kernel_rewrite_copy_rest(&r, out, err);
}

propane_status train_bake(const mil_function *f, mil_module *into, const char *name, train_constant constant,
                          void *context, mil_function **out, propane_error *err) {
    rewrite r;
    *out = NULL;
    PROPANE_TRY(kernel_rewrite_begin(&r, f, into, name, err));
    for (int i = 0; i < f->param_count; i++) {
        const mil_value *p = f->params[i];
        const void *data = NULL;
        propane_status status = constant(context, p, &data, err);
        if (status != PROPANE_OK) {
            mem_free(r.map);
            return status;
        }
        r.map[p->id] = data ? mil_build_const(&r.b, p->name, &p->type, data) : mil_build_param(&r.b, p->name, p->type);
    }
    return kernel_rewrite_copy_rest(&r, out, err);
}
