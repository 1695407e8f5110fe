/* SPDX-License-Identifier: MIT
 * Owns the compiler's queries about a value: its tensor on the engine, its shape as channels, rows and columns, and its
 * readers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ane/h13/compile.h"
#include "ane/h13/compile_parts.h"
#include "core/base/float16.h"
#include "core/base/int_math.h"
#include "core/base/memory.h"
#include "core/base/offset_planner.h"

propane_status compile_shape(const mil_op *op, const mil_value *v, emit_tensor *out, propane_error *err) {
    int64_t d[3];
    char type[160];
    bool fits = (v->type.dtype == MIL_fp16 || v->type.dtype == MIL_fp32) && v->type.container == MIL_TENSOR &&
                compile_chw(&v->type, d);
    for (int i = 0; fits && i < 3; i++) fits = d[i] > 0 && d[i] <= (i ? 0x7fff : 0x1ffff);
    if (!fits) {
        mil_type_print(type, &v->type);
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: '%s' is %s; the engine supports floating-point tensors [1, C, H, W] with at most "
                            "131071 channels and 32767 rows and columns",
                            op ? op->info->name : "function", v->name, type);
    }
    *out = emit_surface(0, 0, d[0], d[1], d[2]);
    return PROPANE_OK;
}

/* Stores a constant as a surface in the constant section. */
static propane_status compile_constant(compile *c, mil_value *v, const mil_value *behind, emit_tensor *x,
                                       propane_error *err) {
    const uint16_t *halves = compile_halves(c, behind->constant);
    uint8_t *bytes = arena_alloc(c->object->arena, (size_t)x->total);
    if (!halves || !bytes) return propane_fail_memory(err, (size_t)x->total);
    for (int64_t row = 0; row < x->c * x->h; row++)
        for (int64_t i = 0; i < x->w; i++) {
            uint16_t half = halves[row * x->w + i];
            bytes[row * x->row + 2 * i] = (uint8_t)(half & 0xff);
            bytes[row * x->row + 2 * i + 1] = (uint8_t)(half >> 8);
        }
    c->places[v->id] = (compile_place){.known = true,
                                       .bar = ENGINE_BAR_CONSTANTS,
                                       .base = lower_constants(&c->e, bytes, (size_t)x->total),
                                       .owner = v->id};
    if (compile_patched(c, behind))
        emit_add_patch(&c->e, &(engine_patch){.constant = compile_patched(c, behind),
                                              .elements = mil_type_count(&v->type),
                                              .at = c->places[v->id].base,
                                              .count = {1, x->c * x->h, x->w},
                                              .from = {0, x->w, 1},
                                              .to = {0, x->row, 2}});
    return PROPANE_OK;
}

static void compile_at(const compile_place *p, emit_tensor *out) {
    out->bar = p->bar;
    out->base = p->base;
    if (p->row) out->row = p->row, out->plane = p->plane;
}

propane_status compile_tensor(compile *c, const mil_op *op, mil_value *v, emit_tensor *out, propane_error *err) {
    PROPANE_TRY(compile_shape(op, v, out, err));
    const mil_value *behind = c->places[v->id].known ? NULL : compile_behind(v);
    if (behind) PROPANE_TRY(compile_constant(c, v, behind, out, err));
    compile_place *p = &c->places[v->id];
    if (!p->known)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: '%s' has no address in memory", op->info->name, v->name);
    compile_at(p, out);
    return PROPANE_OK;
}

propane_status compile_result(compile *c, const mil_op *op, const mil_value *v, emit_tensor *out, propane_error *err) {
    PROPANE_TRY(compile_shape(op, v, out, err));
    compile_at(&c->places[v->id], out);
    return PROPANE_OK;
}

bool compile_plain(const mil_type *type) {
    for (int d = 0; d < type->rank - 3; d++)
        if (type->dim[d] != 1) return false;
    return true;
}

bool compile_same_bytes(const mil_type *a, const mil_type *b) {
    int64_t wa = a->rank ? a->dim[a->rank - 1] : 1, wb = b->rank ? b->dim[b->rank - 1] : 1;
    return wa == wb || (wa % 32 == 0 && wb % 32 == 0);
}

bool compile_scalar(const mil_value *v, double *out) {
    if (!v->constant || mil_type_count(&v->type) != 1) return false;
    *out = mil_const_f64(v->constant, 0);
    return true;
}

mil_value *compile_behind(mil_value *v) {
    while (!v->constant) {
        mil_opcode code = v->def ? v->def->info->code : MIL_OP_const;
        if (code != MIL_OP_reshape && code != MIL_OP_expand_dims && code != MIL_OP_squeeze && code != MIL_OP_identity &&
            code != MIL_OP_cast)
            return NULL;
        v = mil_in(v->def, "x");
    }
    return mil_dtype_is_float(v->type.dtype) ? v : NULL;
}

const char *compile_patched(const compile *c, const mil_value *v) {
    return c->patchable && v && v->constant && mil_type_count(&v->type) > 1 ? arena_string(c->object->arena, v->name)
                                                                            : NULL;
}

const uint16_t *compile_halves(compile *c, const mil_const *k) {
    int64_t count = mil_type_count(&k->type);
    uint16_t *out = ARENA_ARRAY(c->object->arena, count, uint16_t);
    if (out && k->type.dtype == MIL_fp16) {
        memcpy(out, k->data, (size_t)count * sizeof *out);
        return out;
    }
    for (int64_t i = 0; out && i < count; i++) out[i] = fp16_from_f64(mil_const_f64(k, i));
    return out;
}

bool compile_chw(const mil_type *type, int64_t out[3]) {
    int64_t channels = 1;
    for (int d = 0; d < type->rank - 2; d++) {
        if (type->dim[d] > 0x1ffff / channels) return false;
        channels *= type->dim[d];
    }
    out[0] = channels;
    out[1] = type->rank < 2 ? 1 : type->dim[type->rank - 2];
    out[2] = type->rank < 1 ? 1 : type->dim[type->rank - 1];
    return true;
}

const mil_op *compile_only_user(const compile *c, const mil_value *v) {
    if (c->users[v->id] != 1) return NULL;
    for (const mil_op *op = v->def ? v->def->next : c->function->first; op; op = op->next)
        for (int p = 0; p < op->info->param_count; p++)
            for (int k = 0; k < op->operands[p].count; k++)
                if (op->operands[p].values[k] == v) return op;
    return NULL;
}
