/* SPDX-License-Identifier: MIT
 * Owns constant folding: an op with only constant operands becomes a constant, computed in double by the reference
 * function of its row and rounded once. Ops that expand compressed weights stay, because their weights are compressed
 * on purpose. So do ops over constants that have not been read from their file or have more than MAX_ELEMENTS elements.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/pass/rewrite.h"

enum { MAX_ELEMENTS = 1 << 20 };

static bool fold_foldable(const rewrite *r, const mil_op *op) {
    if (op->info->code == MIL_OP_const || mil_op_compressed(op) || op->result_count != 1 || op->block_count)
        return false;
    const mil_type *type = &op->results[0]->type;
    if (type->container != MIL_TENSOR || !op->info->eval || rewrite_is_result(r, op->results[0]) ||
        type->dtype == MIL_string || mil_type_count(type) > MAX_ELEMENTS)
        return false;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (op->info->params[p].type_class == MIL_CLASS_SHAPE) continue;
            if (v->type.container != MIL_TENSOR || !v->constant || !v->constant->data ||
                mil_type_count(&v->type) > MAX_ELEMENTS)
                return false;
        }
    return true;
}

/* Unpacks an operand to doubles; the data of strings stay NULL. Compressed weights are expanded first. */
static propane_status fold_unpack(arena *a, const mil_value *v, const mil_tensor **out, propane_error *err) {
    mil_tensor *t = ARENA_NEW(a, mil_tensor);
    const int64_t count = mil_type_count(&v->type);
    if (!t) return propane_fail_memory(err, sizeof *t);
    t->type = v->type;
    *out = t;
    if (v->type.dtype == MIL_string) return PROPANE_OK;
    if (v->constant && v->constant->data) {
        t->data = ARENA_ARRAY(a, count, double);
        if (!t->data) return propane_fail_memory(err, (size_t)count * sizeof *t->data);
        mil_unpack_f64(t->data, v->type.dtype, v->constant->data, count);
        return PROPANE_OK;
    }
    if (!v->def || !mil_op_compressed(v->def)) return PROPANE_OK;
    mil_tensor *made = ARENA_ARRAY(a, v->def->result_count, mil_tensor);
    if (!made) return propane_fail_memory(err, sizeof *made);
    PROPANE_TRY(rewrite_evaluate(a, v->def, made, err));
    *t = made[v->index];
    return PROPANE_OK;
}

propane_status rewrite_evaluate(arena *a, const mil_op *op, mil_tensor *out, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {0};
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *o = &op->operands[p];
        if (!o->count) continue;
        const mil_tensor **list = ARENA_ARRAY(a, o->count, const mil_tensor *);
        if (!list) return propane_fail_memory(err, 0);
        for (int i = 0; i < o->count; i++) PROPANE_TRY(fold_unpack(a, o->values[i], &list[i], err));
        in[p] = list;
    }
    for (int i = 0; i < op->result_count; i++) {
        out[i].type = op->results[i]->type;
        out[i].data = ARENA_ARRAY(a, mil_type_count(&out[i].type), double);
        if (!out[i].data) return propane_fail_memory(err, (size_t)mil_type_count(&out[i].type) * sizeof(double));
    }
    PROPANE_TRY(mil_eval_op(op, in, out, err));
    for (int i = 0; i < op->result_count; i++)
        for (int64_t k = 0, n = mil_type_count(&out[i].type); k < n; k++)
            out[i].data[k] = mil_round(out[i].type.dtype, out[i].data[k]);
    return PROPANE_OK;
}

propane_status pass_fold(rewrite *r, propane_error *err) {
    for (mil_op *op = r->function->first, *next; op; op = next) {
        next = op->next;
        rewrite_operands(r, op);
        if (!fold_foldable(r, op)) continue;
        arena *a = arena_create();
        mil_tensor out = {0};
        propane_status status = a ? rewrite_evaluate(a, op, &out, err) : propane_fail_memory(err, 0);
        if (status == PROPANE_OK) {
            mil_value *v = mil_build_const_f64(&r->build, op->results[0]->name, &out.type, out.data);
            if (!v && err) *err = r->build.err;
            status = v ? PROPANE_OK : r->build.err.status;
            if (v) rewrite_replace(r, op, v);
        }
        arena_free(a);
        PROPANE_TRY(status);
    }
    return PROPANE_OK;
}

static propane_status fold_make_dense(mil_function *f, mil_op *op, propane_error *err) {
    mil_builder b;
    arena *a = arena_create();
    mil_tensor *out = a ? ARENA_ARRAY(a, op->result_count, mil_tensor) : NULL;
    propane_status status = out ? rewrite_evaluate(a, op, out, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) {
        mil_build_resume(&b, f);
        b.before = op->next;
        mil_op_remove(op);
    }
    for (int i = 0; i < op->result_count && status == PROPANE_OK; i++) {
        mil_value *v = mil_build_const_f64(&b, op->results[i]->name, &out[i].type, out[i].data);
        if (v)
            mil_replace_uses(f, op->results[i], v);
        else
            status = propane_fail(err, b.err.status, "%s", b.err.text);
    }
    arena_free(a);
    return status;
}

static propane_status fold_make_all_dense(mil_function *f, pass_chosen chosen, void *context, int *count,
                                          propane_error *err) {
    for (mil_op *op = f->first, *next; op; op = next) {
        next = op->next;
        mil_replace_settle(op);
        if (!mil_op_compressed(op) || !chosen(context, op->results[0]->name)) continue;
        PROPANE_TRY(fold_make_dense(f, op, err));
        ++*count;
    }
    return PROPANE_OK;
}

propane_status pass_decompress(mil_function *f, pass_chosen chosen, void *context, int *count, propane_error *err) {
    *count = 0;
    mil_replace_begin(f);
    const propane_status status = fold_make_all_dense(f, chosen, context, count, err);
    mil_replace_end(f);
    return status;
}
