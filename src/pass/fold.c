/* SPDX-License-Identifier: MIT
 * Owns constant folding: an op of constants alone becomes a constant, computed in double by its row's reference and
 * rounded once. Ops that spread compressed weights stay, for they are small on purpose; so do ops over constants that
 * have not been read from their file.
 */
#include <string.h>

#include "base/memory.h"
#include "pass/rewrite.h"

enum { MAX_ELEMENTS = 1 << 20 };

static bool compressed(const mil_op *op) { return strncmp(op->info->name, "constexpr_", 10) == 0; }

static bool foldable(const rewrite *r, const mil_op *op) {
    if (op->info->code == MIL_OP_const || compressed(op) || op->result_count != 1 || op->block_count) return false;
    const mil_type *type = &op->results[0]->type;
    if (type->shell != MIL_TENSOR || !op->info->eval || rewrite_is_result(r, op->results[0]) ||
        type->dtype == MIL_string || mil_type_count(type) > MAX_ELEMENTS)
        return false;
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            if (op->info->params[p].klass == MIL_CLASS_SHAPE) continue;
            if (v->type.shell != MIL_TENSOR || !v->konst || !v->konst->data || mil_type_count(&v->type) > MAX_ELEMENTS)
                return false;
        }
    return true;
}

/* The operand as doubles; strings stay NULL. */
static const mil_tensor *unpack(arena *a, const mil_value *v) {
    mil_tensor *t = ARENA_NEW(a, mil_tensor);
    if (!t) return NULL;
    t->type = v->type;
    if (v->type.dtype == MIL_string || !v->konst) return t;
    t->data = ARENA_ARRAY(a, mil_type_count(&v->type), double);
    if (!t->data) return NULL;
    mil_unpack_f64(t->data, v->type.dtype, v->konst->data, mil_type_count(&v->type));
    return t;
}

static propane_status evaluate(arena *a, const mil_op *op, mil_tensor *out, propane_error *err) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {0};
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *o = &op->operands[p];
        if (!o->count) continue;
        const mil_tensor **list = ARENA_ARRAY(a, o->count, const mil_tensor *);
        if (!list) return propane_fail_memory(err, 0);
        for (int i = 0; i < o->count; i++) {
            list[i] = unpack(a, o->values[i]);
            if (!list[i]) return propane_fail_memory(err, (size_t)mil_type_bytes(&o->values[i]->type));
        }
        in[p] = list;
    }
    out->type = op->results[0]->type;
    out->data = ARENA_ARRAY(a, mil_type_count(&out->type), double);
    if (!out->data) return propane_fail_memory(err, (size_t)mil_type_count(&out->type) * sizeof(double));
    return mil_eval_op(op, in, out, err);
}

propane_status pass_fold(rewrite *r, propane_error *err) {
    for (mil_op *op = r->function->first, *next; op; op = next) {
        next = op->next;
        rewrite_operands(r, op);
        if (!foldable(r, op)) continue;
        arena *a = arena_create();
        mil_tensor out = {0};
        propane_status status = a ? evaluate(a, op, &out, err) : propane_fail_memory(err, 0);
        if (status == PROPANE_OK) {
            int64_t count = mil_type_count(&out.type);
            for (int64_t i = 0; i < count; i++) out.data[i] = mil_round(out.type.dtype, out.data[i]);
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
