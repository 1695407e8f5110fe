/* SPDX-License-Identifier: MIT
 * Owns access to an operation: its operands and attributes by the names of its row, including defaults, and messages
 * that name the operation and its position.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/mil.h"

static int op_read_mil_param_index(const mil_op *op, const char *param) {
    int index = mil_op_param(op->info, param);
    assert(index >= 0 && "the table row has no such parameter");
    return index;
}

mil_value *mil_in(const mil_op *op, const char *param) {
    const mil_operand *o = &op->operands[op_read_mil_param_index(op, param)];
    return o->count ? o->values[0] : NULL;
}

int mil_in_list(const mil_op *op, const char *param, mil_value *const **values) {
    const mil_operand *o = &op->operands[op_read_mil_param_index(op, param)];
    *values = o->values;
    return o->count;
}

mil_value *mil_operand_next(mil_operand_walk *walk) {
    for (; walk->param < walk->op->info->param_count; walk->param++, walk->index = 0) {
        const mil_operand *o = &walk->op->operands[walk->param];
        if (walk->index < o->count) return o->values[walk->index++];
    }
    return NULL;
}

mil_value *mil_captured(const mil_op *op, const mil_function *block, int index) {
    int place = index - (block->param_count - block->captured);
    return place < 0 ? NULL : op->operands[mil_op_captured(op->info)].values[place];
}

/* Finds the constant given to a parameter. If there is none, *given is NULL and *standard is the default text, which
 * may be NULL too. */
static propane_status op_read_mil_attribute(const mil_op *op, const char *param, const mil_const **given,
                                            const char **standard, propane_error *err) {
    int index = op_read_mil_param_index(op, param);
    const mil_operand *o = &op->operands[index];
    *given = NULL;
    *standard = op->info->params[index].standard;
    if (!o->count) return PROPANE_OK;
    *given = o->values[0]->constant;
    if (*given && (*given)->data) return PROPANE_OK;
    return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s must be a constant", param);
}

static propane_status op_read_mil_wrong_kind(const mil_op *op, const char *param, const mil_const *c,
                                             const char *wanted, propane_error *err) {
    char type[160];
    return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s must be a constant %s; it is %s", param, wanted,
                       mil_type_print(type, &c->type));
}

static bool op_read_mil_is_whole(mil_dtype dtype) {
    return mil_dtype_get(dtype)->kind == MIL_KIND_INT || mil_dtype_get(dtype)->kind == MIL_KIND_UINT;
}

propane_status mil_attr_int(const mil_op *op, const char *param, int64_t *out, propane_error *err) {
    const mil_const *c;
    const char *standard;
    *out = 0;
    PROPANE_TRY(op_read_mil_attribute(op, param, &c, &standard, err));
    if (c) {
        if (!op_read_mil_is_whole(c->type.dtype) || c->type.rank)
            return op_read_mil_wrong_kind(op, param, c, "int32", err);
        *out = mil_const_i64(c, 0);
    } else if (standard) {
        mil_whole whole = {0};
        bool ok = mil_number_whole(standard, strlen(standard), &whole);
        assert(ok && "the table row's default is not an integer");
        (void)ok;
        *out = whole.negative ? -(int64_t)whole.magnitude : (int64_t)whole.magnitude;
    }
    return PROPANE_OK;
}

propane_status mil_attr_ints(const mil_op *op, const char *param, int64_t out[MIL_MAX_RANK * 2], int *count,
                             propane_error *err) {
    const mil_const *c;
    const char *standard;
    *count = 0;
    PROPANE_TRY(op_read_mil_attribute(op, param, &c, &standard, err));
    if (!c) return PROPANE_OK;
    bool list = c->type.dtype == MIL_bool || op_read_mil_is_whole(c->type.dtype);
    if (!list || c->type.rank != 1) return op_read_mil_wrong_kind(op, param, c, "list of int32 (or bool)", err);
    if (c->type.dim[0] > 2 * MIL_MAX_RANK)
        return mil_op_fail(op, err, PROPANE_ERR_LIMIT, "%s has %lld elements; the maximum is %d", param,
                           (long long)c->type.dim[0], 2 * MIL_MAX_RANK);
    *count = (int)c->type.dim[0];
    for (int i = 0; i < *count; i++) out[i] = mil_const_i64(c, i);
    return PROPANE_OK;
}

propane_status mil_attr_bool(const mil_op *op, const char *param, bool *out, propane_error *err) {
    const mil_const *c;
    const char *standard;
    *out = false;
    PROPANE_TRY(op_read_mil_attribute(op, param, &c, &standard, err));
    if (c) {
        if (c->type.dtype != MIL_bool || c->type.rank) return op_read_mil_wrong_kind(op, param, c, "bool", err);
        *out = mil_const_i64(c, 0) != 0;
    } else if (standard) {
        *out = strcmp(standard, "true") == 0;
    }
    return PROPANE_OK;
}

propane_status mil_attr_float(const mil_op *op, const char *param, double *out, propane_error *err) {
    const mil_const *c;
    const char *standard;
    *out = 0;
    PROPANE_TRY(op_read_mil_attribute(op, param, &c, &standard, err));
    if (c) {
        if (!mil_dtype_is_float(c->type.dtype) || c->type.rank)
            return op_read_mil_wrong_kind(op, param, c, "float", err);
        *out = mil_const_f64(c, 0);
    } else if (standard) {
        bool ok = mil_number_real(standard, strlen(standard), out);
        assert(ok && "the table row's default is not a number");
        (void)ok;
    }
    return PROPANE_OK;
}

propane_status mil_attr_text(const mil_op *op, const char *param, const char **out, propane_error *err) {
    const mil_const *c;
    *out = NULL;
    PROPANE_TRY(op_read_mil_attribute(op, param, &c, out, err));
    if (!c) return PROPANE_OK;
    if (c->type.dtype != MIL_string || c->type.rank) return op_read_mil_wrong_kind(op, param, c, "string", err);
    *out = mil_const_text(c, 0);
    return PROPANE_OK;
}

const char *mil_op_result_name(const mil_op *op) {
    return op->result_count && op->results[0] ? op->results[0]->name : NULL;
}

const char *mil_op_where(char out[300], const mil_op *op) {
    const char *result = mil_op_result_name(op), *name = result ? result : op->label;
    const mil_function *f = op->function;
    const char *source = f ? f->module->source : "removed";
    int used;
    if (op->line)
        used = snprintf(out, 300, "%.120s:%d:%d: %s", source, op->line, op->column, op->info->name);
    else
        used = snprintf(out, 300, "%.80s: function '%.60s': %s", source, f ? f->name : "", op->info->name);
    if (name) snprintf(out + used, (size_t)(300 - used), " '%.60s'", name);
    return out;
}

propane_status mil_op_fail(const mil_op *op, propane_error *err, propane_status status, const char *format, ...) {
    char where[300];
    va_list args;
    va_start(args, format);
    status = propane_vfail(err, status, format, args); /* reports lack of memory if that is the reason */
    va_end(args);
    return propane_fail_prefix(err, status, "%s", mil_op_where(where, op));
}
