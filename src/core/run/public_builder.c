/* SPDX-License-Identifier: MIT
 * Owns the public builder: core/mil/build.h with names instead of codes. Rejects what core/mil/build.h rejects, and
 * operations with blocks, which are easier to write as text.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/ir_edit.h"
#include "core/run/public.h"

struct propane_builder {
    mil_builder b;
    mil_module *module; /* NULL once it has been handed to the caller */
};

propane_status propane_builder_create(const char *function, propane_builder **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, out);
    if (function && !mil_name_legal(function, strlen(function)))
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "function '%.60s': a name begins with a letter or _ and continues with letters, digits, _, @ and .",
            function);
    propane_builder *b = mem_alloc(sizeof *b);
    if (b) b->module = mil_module_create(function ? function : "main");
    if (!b || !b->module) {
        mem_free(b);
        return propane_fail_memory(err, sizeof *b);
    }
    mil_build_begin(&b->b, b->module, function ? function : "main", MIL_IOS18);
    *out = b;
    return PROPANE_OK;
}

void propane_builder_free(propane_builder *builder) {
    if (!builder) return;
    mil_module_free(builder->module);
    mem_free(builder);
}

static bool api_builder_works(propane_builder *b) {
    if (!b) return false;
    if (!b->module && !b->b.err.status)
        (void)propane_fail(&b->b.err, PROPANE_ERR_INVALID, "the builder is already finished");
    return !b->b.err.status;
}

/* Returns true if the builder works and `pointer` is not NULL. Records an error in the builder if it is NULL. */
static bool api_builder_has(propane_builder *b, const char *call, const char *name, const void *pointer) {
    return api_builder_works(b) && need_pointers(&b->b.err, call, name, &pointer, 1) == PROPANE_OK;
}

static bool api_builder_type(propane_builder *b, const char *name, propane_dtype dtype, int rank, const int64_t *dim,
                             mil_type *out) {
    if (!api_builder_works(b)) return false;
    if (rank < 0 || rank > PROPANE_MAX_RANK || api_dtype_in(dtype) == MIL_DTYPE_NONE || (rank && !dim)) {
        (void)propane_fail(&b->b.err, PROPANE_ERR_INVALID, "'%.60s' has an invalid type: element type %d, rank %d",
                           name ? name : "constant", (int)dtype, rank);
        return false;
    }
    *out = mil_type_tensor(api_dtype_in(dtype), rank, dim);
    return true;
}

propane_value *propane_build_input(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                   const int64_t *dim) {
    mil_type type;
    if (!api_builder_has(b, __func__, "name", name)) return NULL;
    return api_builder_type(b, name, dtype, rank, dim, &type) ? mil_build_param(&b->b, name, type) : NULL;
}

propane_value *propane_build_constant(propane_builder *b, const char *name, propane_dtype dtype, int rank,
                                      const int64_t *dim, const void *data) {
    mil_type type;
    if (!api_builder_has(b, __func__, "data", data)) return NULL;
    return api_builder_type(b, name, dtype, rank, dim, &type) ? mil_build_const(&b->b, name, &type, data) : NULL;
}

propane_value *propane_build_int(propane_builder *b, int32_t value) {
    return api_builder_works(b) ? mil_build_int(&b->b, value) : NULL;
}

propane_value *propane_build_ints(propane_builder *b, const int64_t *values, int count) {
    return api_builder_has(b, __func__, "values", values) ? mil_build_ints(&b->b, values, count) : NULL;
}

propane_value *propane_build_bool(propane_builder *b, bool value) {
    return api_builder_works(b) ? mil_build_bool(&b->b, value) : NULL;
}

propane_value *propane_build_text(propane_builder *b, const char *value) {
    return api_builder_has(b, __func__, "value", value) ? mil_build_text(&b->b, value) : NULL;
}

propane_value *propane_build_real(propane_builder *b, propane_dtype dtype, double value) {
    mil_type type;
    return api_builder_type(b, NULL, dtype, 0, NULL, &type) ? mil_build_scalar(&b->b, type.dtype, value) : NULL;
}

static bool api_builder_argument(propane_builder *b, const char *op, const propane_argument *a, int index) {
    if (a->name && a->count >= 0 && (a->values || !a->count)) return true;
    (void)propane_fail(&b->b.err, PROPANE_ERR_INVALID, "%.60s: arguments[%d] has no %s", op, index,
                       a->name ? "values" : "name");
    return false;
}

propane_value *propane_build_op(propane_builder *b, const char *op, const char *name, const propane_argument *arguments,
                                int count) {
    mil_argument own[MIL_MAX_PARAMS];
    if (!api_builder_has(b, __func__, "op", op)) return NULL;
    if (need_list(&b->b.err, __func__, "arguments", "count", arguments, count)) return NULL;
    const mil_op_info *info = mil_op_find(op, strlen(op));
    if (!info || info->code == MIL_OP_const || mil_op_blocks(info) || count > MIL_MAX_PARAMS) {
        (void)propane_fail(&b->b.err, info ? PROPANE_ERR_UNSUPPORTED : PROPANE_ERR_NOT_FOUND,
                           !info                        ? "there is no operation '%.60s'"
                           : info->code == MIL_OP_const ? "%.60s: constants are made by propane_build_constant"
                           : mil_op_blocks(info)        ? "%.60s has blocks: write it as text"
                                                        : "%.60s: too many arguments",
                           op);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (!api_builder_argument(b, op, &arguments[i], i)) return NULL;
        own[i] = arguments[i].count ? (mil_argument){arguments[i].name, arguments[i].count, arguments[i].values}
                                    : (mil_argument){arguments[i].name, 1, &arguments[i].value};
    }
    mil_op *made = mil_build_op(&b->b, info->code, name, own, count);
    return made && made->result_count ? made->results[0] : NULL;
}

propane_value *propane_build_result(propane_builder *b, propane_value *first, int index) {
    if (!api_builder_has(b, __func__, "first", first)) return NULL;
    if (first->def && index >= 0 && index < first->def->result_count) return first->def->results[index];
    (void)propane_fail(&b->b.err, PROPANE_ERR_INVALID, "'%.60s' has no result %d", first->name, index);
    return NULL;
}

void propane_build_output(propane_builder *b, propane_value *value) {
    if (api_builder_has(b, __func__, "value", value)) mil_build_result(&b->b, value);
}

propane_status propane_builder_finish(propane_builder *builder, propane_module **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, builder, out);
    if (!api_builder_works(builder)) {
        if (err) *err = builder->b.err;
        return builder->b.err.status;
    }
    PROPANE_TRY(mil_build_end(&builder->b, err));
    *out = builder->module;
    builder->module = NULL;
    return PROPANE_OK;
}
