/* SPDX-License-Identifier: MIT
 * Owns running an fp16 program in fp32: every fp16 type, constant and type name in the program becomes fp32, in place,
 * including blocks. Weights keep their values: those that were rounded to fp16 when the program was made stay rounded.
 */
#include <string.h>

#include "core/base/array.h"
#include "core/base/map.h"
#include "core/pass/pass.h"

/* Constants that have been converted, by address, because const statements and their literals share them. */
typedef struct retype {
    arena *arena;
    id_map index; /* constant to index in `to` */
    mil_const **to;
    propane_error *err;
} retype;

static mil_const *retype_widened(retype *r, const mil_const *c) {
    mil_const *out = ARENA_NEW(r->arena, mil_const);
    if (!out) return NULL;
    out->type = c->type;
    out->type.dtype = MIL_fp32;
    out->bytes = mil_type_bytes(&out->type);
    float *data = arena_alloc(r->arena, out->bytes ? (size_t)out->bytes : 1);
    if (!data) return NULL;
    for (int64_t i = 0, count = mil_type_count(&c->type); i < count; i++) data[i] = (float)mil_const_f64(c, i);
    out->data = data;
    return out;
}

static mil_const *retype_renamed(retype *r, const mil_const *c) {
    static const char *const name = "fp32";
    mil_const *out = ARENA_NEW(r->arena, mil_const);
    if (!out) return NULL;
    *out = *c;
    out->data = arena_copy(r->arena, &name, sizeof name);
    return out->data ? out : NULL;
}

static propane_status retype_convert_const(retype *r, mil_value *v) {
    const mil_const *c = v->constant;
    const bool half = c && c->type.dtype == MIL_fp16 && c->data;
    const bool name = c && c->type.dtype == MIL_string && c->type.rank == 0 && c->type.container == MIL_TENSOR &&
                      c->data && strcmp(mil_const_text(c, 0), "fp16") == 0;
    if (!half && !name) return PROPANE_OK;
    const int32_t next = (int32_t)r->index.count, *at = id_map_enter(&r->index, (uintptr_t)c, next);
    mil_const **to = at ? ARENA_MORE(r->arena, r->to, next, NULL) : NULL;
    if (!to) return propane_fail_memory(r->err, sizeof *to);
    r->to = to;
    if (*at == next) to[next] = half ? retype_widened(r, c) : retype_renamed(r, c);
    if (!to[*at]) return propane_fail_memory(r->err, (size_t)c->bytes * 2);
    v->constant = to[*at];
    return PROPANE_OK;
}

static propane_status retype_convert_value(retype *r, mil_value *v) {
    const bool computed = v->def && v->def->info->code != MIL_OP_const;
    if (computed && mil_dtype_is_float(v->type.dtype)) v->constant = NULL; /* computed again on demand */
    PROPANE_TRY(retype_convert_const(r, v));
    if (v->type.dtype == MIL_fp16) v->type.dtype = MIL_fp32;
    return PROPANE_OK;
}

static propane_status retype_convert_function(retype *r, mil_function *f) {
    for (int i = 0; i < f->param_count; i++) PROPANE_TRY(retype_convert_value(r, f->params[i]));
    for (mil_op *op = f->first; op; op = op->next) {
        for (int p = 0; p < op->info->param_count; p++)
            for (int i = 0; i < op->operands[p].count; i++)
                if (op->operands[p].values[i]->is_inline)
                    PROPANE_TRY(retype_convert_value(r, op->operands[p].values[i]));
        for (int i = 0; i < op->result_count; i++) PROPANE_TRY(retype_convert_value(r, op->results[i]));
        for (int i = 0; i < op->block_count; i++) PROPANE_TRY(retype_convert_function(r, op->blocks[i]));
    }
    for (int i = 0; i < f->result_count; i++)
        if (f->results[i]->is_inline) PROPANE_TRY(retype_convert_value(r, f->results[i]));
    return PROPANE_OK;
}

propane_status pass_retype_fp32(mil_function *f, propane_error *err) {
    retype r = {.arena = f->module->arena, .err = err};
    propane_status status = retype_convert_function(&r, f);
    id_map_deinit(&r.index);
    return status ? status : mil_verify(f->module, err);
}
