/* SPDX-License-Identifier: MIT
 * Owns describing a module (functions, inputs, outputs, states, labels, package metadata) and the rows of the operation
 * table. The program's declarations take precedence, and the package's description adds what an app sees.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ops.h"
#include "core/run/public.h"

int propane_module_function_count(const propane_module *module) { return module ? module->function_count : 0; }

const char *propane_module_function(const propane_module *module, int index) {
    if (!module) return NULL;
    const mil_function *f = module->functions;
    while (f && index-- > 0) f = f->next;
    return f && index == -1 ? f->name : NULL;
}

const char *propane_module_default_function(const propane_module *module) {
    if (!module) return NULL;
    const mil_function *f = api_function(module, NULL);
    return f ? f->name : NULL;
}

/* Sets *count to the number of values in that role. Returns the index-th of them, or NULL if there is none, as for
 * index -1. */
static const mil_value *api_feature_value(const mil_function *f, propane_role role, int index, int *count) {
    if (role == PROPANE_OUTPUT) {
        *count = f->result_count;
        return index >= 0 && index < *count ? f->results[index] : NULL;
    }
    const mil_value *last = f->param_count ? f->params[f->param_count - 1] : NULL;
    const int states = last ? last->states_before + (last->type.container == MIL_STATE) : 0;
    *count = role == PROPANE_STATE ? states : f->param_count - states;
    if (index < 0 || index >= *count) return NULL;
    int from = 0, to = f->param_count - 1; /* finds the last parameter with at most `index` of its role before it */
    while (from < to) {
        const int middle = from + (to - from + 1) / 2, before = f->params[middle]->states_before;
        if ((role == PROPANE_STATE ? before : middle - before) <= index)
            from = middle;
        else
            to = middle - 1;
    }
    return f->params[from];
}

int propane_module_feature_count(const propane_module *module, const char *function, propane_role role) {
    const mil_function *f = api_function(module, function);
    int count = -1;
    if (f && role >= 0 && role <= PROPANE_STATE) (void)api_feature_value(f, role, -1, &count);
    return count;
}

static propane_feature_kind api_feature_kind(const mil_value *v, const mil_feature *seen) {
    if (v->type.container == MIL_DICT) return PROPANE_PROBABILITIES;
    if (v->def && v->def->info->code == MIL_OP_classify) return PROPANE_LABEL;
    if (seen && seen->keys) return seen->keys->text ? PROPANE_CATEGORY : PROPANE_DICTIONARY;
    return seen && seen->kind == MIL_FEATURE_IMAGE ? PROPANE_IMAGE : PROPANE_ARRAY;
}

/* Fills the allowed dimensions. The description's dimensions are the last ones of the value: an image's are height and
 * width. */
static void api_feature_allowed(const mil_feature *seen, propane_feature *out) {
    for (int d = 0; d < out->rank; d++) {
        out->least[d] = out->most[d] = out->dim[d];
        for (int k = 0; seen && k < seen->shape_count; k++) {
            const int at = d - (out->rank - seen->shapes[k].rank);
            if (at < 0) continue;
            if (seen->shapes[k].dim[at] < out->least[d]) out->least[d] = seen->shapes[k].dim[at];
            if (seen->shapes[k].dim[at] > out->most[d]) out->most[d] = seen->shapes[k].dim[at];
        }
        const int at = seen ? d - (out->rank - seen->range_count) : -1;
        if (at < 0 || at >= seen->range_count) continue;
        out->least[d] = seen->ranges[at].lower;
        out->most[d] = seen->ranges[at].upper;
    }
}

propane_status propane_module_feature(const propane_module *module, const char *function, propane_role role, int index,
                                      propane_feature *out, propane_error *err) {
    NEED(err, module, out);
    NEED_WORD(err, role, PROPANE_STATE);
    PROPANE_TRY(sized_check(out, "propane_feature", err));
    API_ERROR(err);
    int count = 0;
    const mil_function *f = mil_module_function(module, function, err);
    if (!f) return err->status;
    const mil_value *v = api_feature_value(f, role, index, &count);
    if (!v)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "function '%.60s' has %d %s; index %d is out of range", f->name,
                            count,
                            role == PROPANE_INPUT    ? "inputs"
                            : role == PROPANE_OUTPUT ? "outputs"
                                                     : "states",
                            index);
    const mil_feature *seen = mil_feature_find(mil_interface_of(module, f->name), role, v->name);
    const bool bare = v->type.container == MIL_TENSOR || v->type.container == MIL_STATE;
    propane_feature mine = {.name = v->name,
                            .kind = api_feature_kind(v, seen),
                            .description = seen && seen->text && *seen->text ? seen->text : NULL,
                            .type = mil_dtype_get(v->type.dtype)->name,
                            .dtype = bare ? api_dtype_out(v->type.dtype) : PROPANE_DTYPE_NONE,
                            .rank = bare ? v->type.rank : 0,
                            .shape_count = seen ? seen->shape_count : 0,
                            .optional = seen && seen->optional,
                            .has_standard = seen && seen->has_standard,
                            .standard = seen && seen->has_standard ? seen->standard : 0,
                            .rows = seen ? seen->rows : NULL,
                            .called = seen ? seen->called : NULL,
                            .key_count = seen && seen->keys ? seen->keys->count : 0};
    if (mine.kind == PROPANE_IMAGE)
        mine.colour = seen->colour == MIL_RGB         ? "rgb"
                      : seen->colour == MIL_BGR       ? "bgr"
                      : seen->colour == MIL_GRAY_FP16 ? "gray_fp16"
                                                      : "gray";
    memcpy(mine.dim, v->type.dim, (size_t)mine.rank * sizeof *mine.dim);
    api_feature_allowed(seen, &mine);
    (void)api_give(out, &mine, sizeof mine);
    return PROPANE_OK;
}

propane_status propane_module_shape(const propane_module *module, const char *function, const char *input, int index,
                                    propane_shape *out, propane_error *err) {
    NEED(err, module, input, out);
    API_ERROR(err);
    const mil_function *f = mil_module_function(module, function, err);
    if (!f) return err->status;
    const mil_feature *seen = mil_feature_find(mil_interface_of(module, f->name), PROPANE_INPUT, input);
    if (!seen || index < 0 || index >= seen->shape_count)
        return propane_fail(err, PROPANE_ERR_NOT_FOUND,
                            "input '%.60s' has %d enumerated shapes; index %d is out of range", input,
                            seen ? seen->shape_count : 0, index);
    *out = (propane_shape){.name = seen->name, .rank = seen->shapes[index].rank};
    memcpy(out->dim, seen->shapes[index].dim, sizeof out->dim);
    return PROPANE_OK;
}

static const mil_const *api_feature_classes(const propane_module *module, const char *function) {
    const mil_function *f = api_function(module, function);
    for (const mil_op *op = f ? f->first : NULL; op; op = op->next)
        if (op->info->code == MIL_OP_classify) return mil_in(op, "classes")->constant;
    return NULL;
}

int64_t propane_module_label_count(const propane_module *module, const char *function) {
    if (!module) return 0;
    const mil_const *classes = api_feature_classes(module, function);
    return classes ? mil_type_count(&classes->type) : 0;
}

size_t propane_module_label(const propane_module *module, const char *function, int64_t index, char *out, size_t room) {
    const mil_const *classes = api_feature_classes(module, function);
    if (!out) room = 0;
    if (room) out[0] = 0;
    if (!classes || index < 0 || index >= mil_type_count(&classes->type)) return 0;
    if (classes->type.dtype == MIL_string) return (size_t)snprintf(out, room, "%s", mil_const_text(classes, index));
    return (size_t)snprintf(out, room, "%lld", (long long)mil_const_i64(classes, index));
}

size_t propane_module_key(const propane_module *module, const char *function, const char *input, int64_t index,
                          char *out, size_t room) {
    if (!out) room = 0;
    if (room) out[0] = 0;
    const mil_function *f = module && input ? api_function(module, function) : NULL;
    const mil_feature *seen = f ? mil_feature_find(mil_interface_of(module, f->name), PROPANE_INPUT, input) : NULL;
    if (!seen || !seen->keys || index < 0 || index >= seen->keys->count) return 0;
    return (size_t)snprintf(out, room, "%s", seen->keys->list[index]);
}

const char *propane_module_metadata(const propane_module *module, const char *key) {
    if (!module || !key) return NULL;
    const struct mil_package *p = module->package;
    if (!p) return NULL;
    const mil_pair own[] = {
        {"author", p->author}, {"description", p->text}, {"version", p->version}, {"license", p->license}};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].key, key) == 0) return own[i].value && *own[i].value ? own[i].value : NULL;
    for (int i = 0; i < p->user_count; i++)
        if (strcmp(p->user[i].key, key) == 0) return p->user[i].value;
    return NULL;
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

/* The operation table's columns for other layers, as words. */
static const struct {
    const char *grad, *cpu;
} api_op_columns[] = {
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) {grad, cpu},
#define GRAD(rule)                                             #rule
#define CPU(bind, ...)                                         #bind
#include "core/mil/ops.def"
};

static const char *const api_op_classes[] = {
    [MIL_CLASS_FLOAT] = "float",
    [MIL_CLASS_NUM] = "number",
    [MIL_CLASS_CHOSEN] = "number|bool",
    [MIL_CLASS_EITHER] = "tensor|list",
    [MIL_CLASS_TENSOR] = "tensor",
    [MIL_CLASS_BOOL] = "bool",
    [MIL_CLASS_INT] = "int",
    [MIL_CLASS_WEIGHT] = "float",
    [MIL_CLASS_FACTOR] = "number",
    [MIL_CLASS_ORDERED] = "number",
    [MIL_CLASS_SHAPE] = "shape of",
    [MIL_CLASS_ANY] = "tensor|list",
    [MIL_CLASS_STATE] = "state",
    [MIL_CLASS_LIST] = "list",
    [MIL_CLASS_QUANT] = "int8|uint8",
    [MIL_CLASS_K_INT] = "const int",
    [MIL_CLASS_K_INTS] = "const ints",
    [MIL_CLASS_K_BOOL] = "const bool",
    [MIL_CLASS_K_BOOLS] = "const bools",
    [MIL_CLASS_K_TEXT] = "const string",
    [MIL_CLASS_K_FLOAT] = "const float",
    [MIL_CLASS_K_NUM] = "const number",
    [MIL_CLASS_K_TENSOR] = "const",
};

int propane_op_count(void) { return MIL_OP_COUNT; }

bool propane_op_get(int index, propane_op_info *out) {
    if (!out) return false;
    if (index < 0 || index >= MIL_OP_COUNT) return false;
    const mil_op_info *info = mil_op_get((mil_opcode)index);
    const propane_op_info mine = {.name = info->name,
                                  .since = mil_opset_name(info->since),
                                  .gradient = api_op_columns[index].grad,
                                  .cpu = api_op_columns[index].cpu,
                                  .evaluated = info->eval != NULL,
                                  .stateful = info->params[0].type_class == MIL_CLASS_STATE,
                                  .parameter_count = info->param_count};
    return api_give(out, &mine, sizeof mine);
}

bool propane_op_get_parameter(int index, int parameter, propane_op_parameter *out) {
    if (!out) return false;
    if (index < 0 || index >= MIL_OP_COUNT) return false;
    const mil_op_info *info = mil_op_get((mil_opcode)index);
    if (parameter < 0 || parameter >= info->param_count) return false;
    const mil_param *p = &info->params[parameter];
    const propane_op_parameter mine = {.name = p->name,
                                       .class_name = api_op_classes[p->type_class],
                                       .need = p->need == MIL_REQUIRED   ? "required"
                                               : p->need == MIL_OPTIONAL ? "optional"
                                               : p->need == MIL_VARIADIC ? "variadic"
                                                                         : "captured",
                                       .standard = p->standard};
    return api_give(out, &mine, sizeof mine);
}
