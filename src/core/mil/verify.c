/* SPDX-License-Identifier: MIT
 * Owns the rules of the language. An operation's operands match its row, its results have the types that its rule
 * computes, and a function is in static single assignment with operands defined before their users.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/empty_operands.h"
#include "core/mil/ir_edit.h"

/* ---- operands ------------------------------------------------------------------------------------------------------------ */

#define BIT(dtype) (1u << MIL_##dtype)
enum {
    SET_FLOAT = BIT(fp16) | BIT(fp32),
    SET_NUM = SET_FLOAT | BIT(int32),
    SET_INT = BIT(int32) | BIT(int16) | BIT(uint16) | BIT(int8) | BIT(uint8),
    SET_WHOLE = SET_INT | BIT(uint32), /* for attributes */
    SET_ALL = (1u << MIL_DTYPE_COUNT) - 2,
    ANY_RANK = -1
};

/* The types that each class of parameter accepts: one row per mil_class. */
typedef struct class_rule {
    unsigned dtypes; /* bit set */
    int rank;
    bool constant;
    bool shares; /* shares one element type with all others that share */
    const char *text;
    unsigned containers; /* bits; 0 means tensors only */
} class_rule;

static const class_rule classes[] = {
    [MIL_CLASS_FLOAT] = {SET_FLOAT, ANY_RANK, false, true, "fp16 or fp32"},
    [MIL_CLASS_NUM] = {SET_NUM, ANY_RANK, false, true, "fp16, fp32 or int32"},
    [MIL_CLASS_CHOSEN] = {SET_NUM | BIT(bool), ANY_RANK, false, true, "fp16, fp32, int32 or bool"},
    [MIL_CLASS_TENSOR] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "numbers or bool"},
    [MIL_CLASS_EITHER] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "numbers or bool, or a list",
                          1u << MIL_TENSOR | 1u << MIL_LIST},
    [MIL_CLASS_BOOL] = {BIT(bool), ANY_RANK, false, false, "bool"},
    [MIL_CLASS_INT] = {SET_INT, ANY_RANK, false, false, "int32, int16, uint16, int8 or uint8"},
    [MIL_CLASS_WEIGHT] = {SET_FLOAT, ANY_RANK, false, false, "fp16 or fp32"},
    [MIL_CLASS_FACTOR] = {SET_NUM, ANY_RANK, false, false, "fp16, fp32 or int32"},
    [MIL_CLASS_ORDERED] = {SET_FLOAT | SET_INT, ANY_RANK, false, false,
                           "fp16, fp32, int32, int16, uint16, int8 or uint8"},
    [MIL_CLASS_SHAPE] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "numbers or bool"},
    [MIL_CLASS_ANY] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "a tensor, a list or a state",
                       1u << MIL_TENSOR | 1u << MIL_LIST | 1u << MIL_STATE},
    [MIL_CLASS_STATE] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "a state", 1u << MIL_STATE},
    [MIL_CLASS_LIST] = {SET_ALL & ~BIT(string), ANY_RANK, false, false, "a list", 1u << MIL_LIST},
    [MIL_CLASS_QUANT] = {BIT(int8) | BIT(uint8), ANY_RANK, false, false, "int8 or uint8"},
    [MIL_CLASS_K_INT] = {SET_WHOLE, 0, true, false, "a single int32"},
    [MIL_CLASS_K_INTS] = {SET_WHOLE, 1, true, false, "a list of int32 (a tensor of rank 1)"},
    [MIL_CLASS_K_BOOL] = {BIT(bool), 0, true, false, "a single bool"},
    [MIL_CLASS_K_BOOLS] = {BIT(bool), 1, true, false, "a list of bool (a tensor of rank 1)"},
    [MIL_CLASS_K_TEXT] = {BIT(string), 0, true, false, "a string"},
    [MIL_CLASS_K_FLOAT] = {SET_FLOAT, 0, true, false, "a single fp16 or fp32"},
    [MIL_CLASS_K_NUM] = {SET_ALL & ~BIT(string), 0, true, false, "a single number"},
    [MIL_CLASS_K_TENSOR] = {SET_ALL, ANY_RANK, true, false, "a constant", 1u << MIL_TENSOR | 1u << MIL_LIST},
};

static const char *verify_value_name(const mil_value *v) { return v->name ? v->name : "the literal"; }

/* Accepts a compressed constant as an operand of another one. Its values are known when the outer constant is
 * expanded. */
static bool verify_compressed(const mil_op *op, const mil_param *p, const mil_value *v) {
    return p->type_class == MIL_CLASS_K_TENSOR && v->def && mil_op_compressed(op) && mil_op_compressed(v->def);
}

bool mil_operand_unknown(const mil_op *op, int param, mil_value *v) {
    const mil_param *p = &op->info->params[param];
    return classes[p->type_class].constant && !verify_compressed(op, p, v) && !mil_know(v);
}

bool mil_op_waits(const mil_op *op) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            mil_value *v = op->operands[p].values[i];
            if (v && (mil_type_is_open(&v->type) || mil_operand_unknown(op, p, v))) return true;
        }
    return false;
}

static propane_status verify_value(const mil_op *op, const mil_param *p, mil_value *v, propane_error *err) {
    const class_rule *rule = &classes[p->type_class];
    char type[160];
    if (!((rule->containers ? rule->containers : 1u << MIL_TENSOR) >> v->type.container & 1) ||
        !(rule->dtypes >> v->type.dtype & 1) || (rule->rank != ANY_RANK && v->type.rank != rule->rank))
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s must be %s; %.60s is %s", p->name, rule->text,
                           verify_value_name(v), mil_type_print(type, &v->type));
    if (rule->constant && !verify_compressed(op, p, v) && !mil_know(v))
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s must be a constant; %.60s is %s", p->name,
                           verify_value_name(v), v->def ? "computed" : "a parameter of the function");
    return PROPANE_OK;
}

static propane_status verify_missing(const mil_op *op, const mil_param *p, propane_error *err) {
    char list[400] = "";
    size_t used = 0;
    for (int i = 0; i < op->info->param_count; i++)
        if (op->info->params[i].need != MIL_CAPTURED)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", op->info->params[i].name);
    return mil_op_fail(op, err, PROPANE_ERR_INVALID, "the argument %s is missing; %s has: %s", p->name, op->info->name,
                       list);
}

bool mil_operand_computed(const mil_op *op, int param, const mil_type *type) {
    const mil_class type_class = op->info->params[param].type_class;
    if (op->info->code == MIL_OP_const || (classes[type_class].constant && type_class != MIL_CLASS_K_TENSOR))
        return false;
    /* A rank-1 integer tensor may be a list of axes or sizes, which is empty for a scalar, such as `begin` of a slice
     * of a scalar. */
    return type->rank != 1 || mil_dtype_is_float(type->dtype) || mil_empty_takes(op);
}

const mil_value *mil_op_empty_operand(const mil_op *op, int *param) {
    for (int p = 0; p < op->info->param_count; p++)
        for (int i = 0; i < op->operands[p].count; i++) {
            const mil_value *v = op->operands[p].values[i];
            *param = p;
            if (v && v->type.container == MIL_TENSOR && mil_type_count(&v->type) == 0 &&
                mil_operand_computed(op, p, &v->type))
                return v;
        }
    return NULL;
}

/* Refuses operands without elements if the operation's rule was not written for them. */
static propane_status verify_empty(const mil_op *op, propane_error *err) {
    int p = 0;
    const mil_value *v = mil_op_empty_operand(op, &p);
    if (!v || mil_empty_takes(op)) return PROPANE_OK;
    return mil_op_fail(op, err, PROPANE_ERR_UNSUPPORTED,
                       "%s '%.60s' is empty, and the result of this operation is then undefined",
                       op->info->params[p].name, verify_value_name(v));
}

propane_status mil_verify_operands(const mil_op *op, propane_error *err) {
    const mil_op_info *info = op->info;
    if (info->since > op->function->opset)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s requires %s or later, but function '%s' is %s", info->name,
                           mil_opset_name(info->since), op->function->name, mil_opset_name(op->function->opset));
    const mil_value *first = NULL;
    const mil_param *first_param = NULL;
    for (int i = 0; i < info->param_count; i++) {
        const mil_param *p = &info->params[i];
        const mil_operand *o = &op->operands[i];
        if (o->count == 0 && p->need != MIL_OPTIONAL && p->need != MIL_CAPTURED) return verify_missing(op, p, err);
        if (o->count > 1 && p->need != MIL_VARIADIC && p->need != MIL_CAPTURED)
            return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s takes one value, not %d", p->name, o->count);
        for (int k = 0; k < o->count; k++) {
            mil_value *v = o->values[k];
            if (!v) return verify_missing(op, p, err);
            PROPANE_TRY(verify_value(op, p, v, err));
            if (!classes[p->type_class].shares) continue;
            if (first && first->type.dtype != v->type.dtype)
                return mil_op_fail(op, err, PROPANE_ERR_INVALID,
                                   "%s is %s and %s is %s; they must have one element type", first_param->name,
                                   mil_dtype_get(first->type.dtype)->name, p->name, mil_dtype_get(v->type.dtype)->name);
            if (!first) {
                first = v;
                first_param = p;
            }
        }
    }
    return verify_empty(op, err);
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

static propane_status verify_const(const mil_op *op, propane_error *err) {
    const mil_const *c = op->results[0]->constant;
    if (!c || !mil_type_equal(&c->type, &op->results[0]->type))
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "the constant's type differs from its value's");
    if (c->data && c->bytes != mil_type_bytes(&c->type))
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "the constant holds %lld bytes; its type needs %lld",
                           (long long)c->bytes, (long long)mil_type_bytes(&c->type));
    return PROPANE_OK;
}

/* Checks that there are as many blocks as in the row, each with a parameter for every captured operand. */
static propane_status verify_blocks(const mil_op *op, propane_error *err) {
    int count = mil_op_blocks(op->info);
    if (op->block_count != count)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "it has %d blocks, not %d", op->block_count, count);
    for (int b = 0; b < count; b++) {
        const mil_function *block = op->blocks[b];
        const mil_operand *captured = &op->operands[mil_op_captured(op->info)];
        int own = block->param_count - block->captured;
        if (block->owner != op || block->captured != captured->count || own < 0)
            return mil_op_fail(op, err, PROPANE_ERR_INVALID,
                               "block %d does not accept the values that the operation captures", b);
        for (int i = 0; i < captured->count; i++)
            if (!mil_type_equal(&block->params[own + i]->type, &captured->values[i]->type))
                return mil_op_fail(op, err, PROPANE_ERR_INVALID,
                                   "captured value %d of block %d has another type in the block", i, b);
    }
    return PROPANE_OK;
}

propane_status mil_verify_op(const mil_op *op, propane_error *err) {
    PROPANE_TRY(mil_verify_operands(op, err));
    PROPANE_TRY(verify_blocks(op, err));
    mil_type types[MIL_MAX_RESULTS];
    int count = 0;
    PROPANE_TRY(op->info->rule(op, types, &count, err));
    if (count != op->result_count)
        return mil_op_fail(op, err, PROPANE_ERR_INVALID, "it returns %d result%s instead of %d", count,
                           text_plural(count), op->result_count);
    for (int i = 0; i < count; i++) {
        const mil_value *v = op->results[i];
        char why[200], says[160], gives[160];
        if (!mil_type_readable(&types[i], why))
            return mil_op_fail(op, err, PROPANE_ERR_INVALID, "its result is invalid: %s", why);
        if (!mil_type_equal(&v->type, &types[i]))
            return mil_op_fail(op, err, PROPANE_ERR_INVALID,
                               "result '%.60s' is declared as %s, but the operation returns %s", v->name,
                               mil_type_print(says, &v->type), mil_type_print(gives, &types[i]));
    }
    return op->info->code == MIL_OP_const ? verify_const(op, err) : PROPANE_OK;
}

/* ---- functions ---------------------------------------------------------------------------------------------------------------- */

static propane_status verify_function_fail(const mil_function *f, propane_error *err, const char *format, ...)
    BASE_PRINTF(3, 4);
static propane_status verify_function_fail(const mil_function *f, propane_error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const propane_status status = propane_vfail(err, PROPANE_ERR_INVALID, format, args);
    va_end(args);
    if (f->line)
        return propane_fail_prefix(err, status, "%s:%d:%d: function '%.60s'", f->module->source, f->line, f->column,
                                   f->name);
    return propane_fail_prefix(err, status, "%s: function '%.60s'", f->module->source, f->name);
}

/* Values by id, filled in as they are defined. */
typedef struct walk {
    const mil_function *f;
    const mil_value **defined; /* [f->value_count] */
    int depth;                 /* number of blocks around f */
} walk;

/* Enters a new value. Its id must be unused, and its name must be legal and belong to this value alone. */
static propane_status verify_define(walk *w, const mil_value *v, propane_error *err) {
    char why[200];
    if (!v->name || !mil_name_legal(v->name, strlen(v->name)))
        return verify_function_fail(
            w->f, err,
            "'%.60s' is not a valid name; names consist of letters, digits, _ . and @, and do not begin with a digit",
            v->name ? v->name : "");
    if (!(w->f->late && mil_type_is_open(&v->type)) &&
        !(w->f->late ? mil_type_readable(&v->type, why) : mil_type_legal(&v->type, why)))
        return verify_function_fail(w->f, err, "'%.60s' has an invalid type: %s", v->name, why);
    if (v->id < 0 || v->id >= w->f->value_count || w->defined[v->id])
        return verify_function_fail(w->f, err, "'%.60s' is defined twice", v->name);
    if (!v->outer && mil_scope_find(w->f, v->name, strlen(v->name)) != v)
        return verify_function_fail(w->f, err, "the name '%.60s' is used twice", v->name);
    w->defined[v->id] = v;
    return PROPANE_OK;
}

static bool verify_is_defined(const walk *w, const mil_value *v) {
    return v->id >= 0 && v->id < w->f->value_count && w->defined[v->id] == v;
}

static propane_status verify_uses(walk *w, const mil_op *op, propane_error *err) {
    for (int i = 0; i < op->info->param_count; i++) {
        for (int k = 0; k < op->operands[i].count; k++) {
            const mil_value *v = op->operands[i].values[k];
            if (!v || (v->is_inline && v->constant) || verify_is_defined(w, v)) continue;
            return mil_op_fail(op, err, PROPANE_ERR_INVALID, "%s is '%.60s', which is not defined before it",
                               op->info->params[i].name, verify_value_name(v));
        }
    }
    return PROPANE_OK;
}

static propane_status verify_results(walk *w, propane_error *err) {
    const mil_function *f = w->f;
    if (f->result_count < 1) return verify_function_fail(f, err, "it has no results");
    for (int i = 0; i < f->result_count; i++) {
        const mil_value *v = f->results[i];
        if (f->owner && v && v->is_inline && v->constant) continue;
        if (!v || v->id < 0 || v->id >= f->value_count || (w->defined[v->id] && w->defined[v->id] != v) || !v->name)
            return verify_function_fail(f, err, "result %d is not defined in it", i);
        if (!w->defined[v->id])
            return verify_function_fail(f, err, "result %d, '%.60s', is not defined, or is a result already", i,
                                        v->name);
        if (f->owner || f->was_block) continue; /* a block's results have no names outside */
        if (!v->def)
            return verify_function_fail(f, err,
                                        "result '%.60s' is also a parameter; results are bound by name, so put an "
                                        "identity between them",
                                        v->name);
        if (v->type.container == MIL_LIST || v->type.container == MIL_STATE)
            return verify_function_fail(f, err, "result '%.60s' is a %s", v->name,
                                        v->type.container == MIL_LIST ? "list" : "state");
        if (v->type.dtype == MIL_string && v->constant)
            return verify_function_fail(f, err, "result '%.60s' is a string", v->name);
        w->defined[v->id] = NULL; /* so that a second mention is detected */
    }
    return PROPANE_OK;
}

static propane_status verify_nested(const mil_function *f, int depth, propane_error *err);

static propane_status verify_walk(walk *w, propane_error *err) {
    const mil_function *f = w->f;
    for (int i = 0; i < f->param_count; i++) {
        PROPANE_TRY(verify_define(w, f->params[i], err));
        const mil_type *type = &f->params[i]->type;
        if (type->dtype == MIL_string)
            return verify_function_fail(f, err, "parameter '%.60s' is a string", f->params[i]->name);
        if (!f->owner && !f->was_block &&
            (type->container == MIL_LIST || type->container == MIL_DICT || mil_type_count(type) == 0))
            return verify_function_fail(f, err, "parameter '%.60s' is %s", f->params[i]->name,
                                        type->container == MIL_TENSOR ? "empty" : "a list or a dict");
    }
    for (const mil_op *op = f->first; op; op = op->next) {
        PROPANE_TRY(verify_uses(w, op, err));
        for (int b = 0; b < op->block_count; b++) PROPANE_TRY(verify_nested(op->blocks[b], w->depth + 1, err));
        if (!f->late || !mil_op_waits(op)) PROPANE_TRY(mil_verify_op(op, err));
        for (int i = 0; i < op->result_count; i++) PROPANE_TRY(verify_define(w, op->results[i], err));
    }
    return verify_results(w, err);
}

static propane_status verify_nested(const mil_function *f, int depth, propane_error *err) {
    if (depth > MIL_MAX_DEPTH) return verify_function_fail(f, err, "more than %d nested blocks", MIL_MAX_DEPTH);
    if (!mil_name_legal(f->name, strlen(f->name))) return verify_function_fail(f, err, "the name is invalid");
    if (f->opset < MIL_IOS15 || f->opset > MIL_IOS18) return verify_function_fail(f, err, "it has no opset");
    walk w = {f, mem_array((size_t)f->value_count + 1, sizeof *w.defined), depth};
    if (!w.defined) return propane_fail_memory(err, (size_t)f->value_count * sizeof *w.defined);
    propane_status status = verify_walk(&w, err);
    mem_free(w.defined);
    return status;
}

propane_status mil_verify_function(const mil_function *f, propane_error *err) { return verify_nested(f, 0, err); }

propane_status mil_verify(const mil_module *m, propane_error *err) {
    if (!m->functions) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the program has no functions", m->source);
    for (const mil_function *f = m->functions; f; f = f->next) {
        for (const mil_function *other = m->functions; other != f; other = other->next)
            if (strcmp(other->name, f->name) == 0) return verify_function_fail(f, err, "the name is used twice");
        PROPANE_TRY(mil_verify_function(f, err));
    }
    return PROPANE_OK;
}
