/* SPDX-License-Identifier: MIT
 * Owns values that are known at compile time without being written as constants, because they follow from shapes and
 * constants alone. Converted models compute the arguments of reshape, slices and fills that way; once the input shapes
 * are fixed, these values are fixed too. One idea: to evaluate a value, first evaluate its operands. Refuses large
 * values and long chains, which are not such arguments.
 */
#include <string.h>

#include "core/mil/eval/eval.h"
#include "core/mil/ir_edit.h"

enum { MAX_ELEMENTS = 1 << 16, MAX_CHAIN = 200 };

static bool constants_know(mil_value *v, int chain);

/* Returns an operand as doubles, or NULL if it is not known. Strings, and operands of which only the shape matters,
 * have no data. */
static const mil_tensor *constants_operand(arena *a, mil_value *v, mil_class type_class, int chain) {
    mil_tensor *t = ARENA_NEW(a, mil_tensor);
    if (!t) return NULL;
    t->type = v->type;
    if (mil_type_is_open(&v->type)) return NULL;
    if (type_class == MIL_CLASS_SHAPE) return t;
    if (!constants_know(v, chain)) return NULL;
    if (v->type.dtype == MIL_string) return t;
    int64_t count = mil_type_count(&v->type);
    t->data = ARENA_ARRAY(a, count ? count : 1, double);
    if (!t->data) return NULL;
    mil_unpack_f64(t->data, v->type.dtype, v->constant->data, count);
    return t;
}

static bool constants_evaluate(arena *a, const mil_op *op, int chain, mil_tensor *out) {
    const mil_tensor *const *in[MIL_MAX_PARAMS] = {0};
    for (int p = 0; p < op->info->param_count; p++) {
        const mil_operand *o = &op->operands[p];
        const mil_tensor **list = ARENA_ARRAY(a, o->count ? o->count : 1, const mil_tensor *);
        if (!list) return false;
        for (int i = 0; i < o->count; i++) {
            list[i] = constants_operand(a, o->values[i], op->info->params[p].type_class, chain);
            if (!list[i]) return false;
        }
        in[p] = list;
    }
    for (int i = 0; i < op->result_count; i++) {
        int64_t count = mil_type_count(&op->results[i]->type);
        out[i].type = op->results[i]->type;
        out[i].data = ARENA_ARRAY(a, count ? count : 1, double);
        if (!out[i].data) return false;
    }
    propane_error err;
    return mil_eval_op(op, in, out, &err) == PROPANE_OK;
}

static bool constants_keep(mil_value *v, const mil_tensor *t) {
    arena *a = v->home->module->arena;
    mil_const *c = ARENA_NEW(a, mil_const);
    int64_t bytes = mil_type_bytes(&t->type);
    void *data = c ? arena_alloc(a, bytes ? (size_t)bytes : 1) : NULL;
    if (!data) return false;
    mil_pack_f64(data, t->type.dtype, t->data, mil_type_count(&t->type));
    *c = (mil_const){.type = t->type, .data = data, .bytes = bytes};
    v->constant = c;
    return true;
}

static bool constants_possible(const mil_op *op) {
    if (!op->info->eval || op->block_count || op->result_count < 1 || mil_op_compressed(op)) return false;
    for (int i = 0; i < op->result_count; i++) {
        const mil_type *type = &op->results[i]->type;
        if (type->container != MIL_TENSOR || type->dtype == MIL_string || mil_type_is_open(type) ||
            mil_type_count(type) > MAX_ELEMENTS)
            return false;
    }
    return true;
}

static bool constants_know(mil_value *v, int chain) {
    if (v->constant) return v->constant->data && mil_type_count(&v->type) <= MAX_ELEMENTS;
    if (!v->def || chain == MAX_CHAIN || !constants_possible(v->def)) return false;
    arena *a = arena_create();
    mil_tensor *out = a ? ARENA_ARRAY(a, v->def->result_count, mil_tensor) : NULL;
    bool known = out && constants_evaluate(a, v->def, chain + 1, out);
    for (int i = 0; known && i < v->def->result_count; i++) known = constants_keep(v->def->results[i], &out[i]);
    arena_free(a);
    return known;
}

bool mil_know(mil_value *v) { return v->constant || constants_know(v, 0); }
