/* SPDX-License-Identifier: MIT
 * Owns the interface of a model of an older kind that has become a program. Every number and array becomes an array of
 * fp32 (int32 if the file declares an array of int32), images stay images, and a classifier ends in `classify`. Names
 * are changed to names that MIL allows.
 */
#include "core/mil/neural_network/interface_program.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/neural_network/wire_view.h"
#include "core/mil/resolve_shapes.h"

const char *interface_name(arena *a, const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.@";
    const bool digit = name[0] >= '0' && name[0] <= '9';
    char *out = arena_printf(a, "%s%s", digit || !name[0] ? "_" : "", name);
    for (char *p = out; p && *p; p++)
        if (!strchr(allowed, *p) || (p == out && (*p == '.' || *p == '@'))) *p = '_';
    return out;
}

static void interface_program_fail(mil_builder *b, propane_status status, const char *format, const char *name) {
    if (b->err.status) return;
    (void)!propane_fail(&b->err, status, format, TEXT_SHOWN(name));
    (void)!propane_fail_prefix(&b->err, status, "%s", b->module->source);
}

/* Marks the dimensions that the file leaves to the app as open. */
static void interface_program_open(const mil_feature *f, mil_type *type) {
    const int lead = type->rank - f->shape.rank;
    for (int d = 0; d < f->shape.rank; d++) {
        bool open = f->shape.dim[d] < 1 || (f->range_count == f->shape.rank && mil_feature_is_flexible(f, d));
        for (int i = 0; i < f->shape_count; i++)
            open |= f->shapes[i].rank == f->shape.rank && f->shapes[i].dim[d] != f->shape.dim[d];
        if (open) type->dim[lead + d] = MIL_OPEN;
    }
}

static bool interface_program_type(mil_builder *b, mil_feature *f, mil_type *type) {
    if (f->keys)
        f->kind = MIL_FEATURE_ARRAY, f->dtype = MIL_fp32, f->shape = mil_type_tensor(MIL_fp32, 1, &f->keys->count);
    const mil_dtype dtype = f->dtype == MIL_int32 && f->kind == MIL_FEATURE_ARRAY ? MIL_int32 : MIL_fp32;
    const bool gray = f->colour == MIL_GRAY || f->colour == MIL_GRAY_FP16;
    *type = (mil_type){.dtype = dtype};
    switch (f->kind) {
    case MIL_FEATURE_IMAGE:
        *type = (mil_type){.dtype = MIL_fp32, .rank = 4, .dim = {1, gray ? 1 : 3, f->shape.dim[0], f->shape.dim[1]}};
        break;
    case MIL_FEATURE_ARRAY:
        type->rank = f->shape.rank;
        memcpy(type->dim, f->shape.dim, sizeof type->dim);
        f->dtype = dtype;
        break;
    case MIL_FEATURE_INT64:
    case MIL_FEATURE_DOUBLE:
        f->kind = MIL_FEATURE_ARRAY, f->dtype = MIL_fp32;
        f->shape = *type = mil_type_tensor(MIL_fp32, 1, &(int64_t){1});
        break;
    default:
        interface_program_fail(
            b, PROPANE_ERR_UNSUPPORTED,
            "input '%s' is text, a dictionary or a list, and ML Programs have no such inputs: encode it as "
            "numbers in the app, and train or convert a model of those",
            f->name);
        return false;
    }
    if (!type->rank)
        interface_program_fail(b, PROPANE_ERR_INVALID, "input '%s' has no shape in the model's description", f->name);
    return !b->err.status;
}

/* Explains the error for an input whose described shape has a 0 for an open dimension, which is not a default. */
static void interface_program_say_open(mil_builder *b, const mil_feature *f, const mil_read_options *options) {
    char shape[160];
    bool open = false;
    for (int i = 0; i < f->shape.rank; i++) open |= f->shape.dim[i] < 1;
    for (int i = 0; options && i < options->shape_count; i++) open &= strcmp(options->shapes[i].name, f->name) != 0;
    if (open)
        (void)!propane_fail(&b->err, PROPANE_ERR_INVALID,
                            "%s: input '%s' has dimensions of any size, shown as 0 in its shape %s, and no default: "
                            "give its shape, for example --shape NAME=1,3,224,224",
                            b->module->source, TEXT_SHOWN(f->name), text_shape(shape, f->shape.rank, f->shape.dim));
}

mil_value *interface_param(mil_builder *b, mil_feature *f, const mil_read_options *options) {
    mil_type type;
    if (b->err.status || !interface_program_type(b, f, &type)) return NULL;
    const char *name = interface_name(b->module->arena, f->name);
    if (!name) (void)!propane_fail_memory(&b->err, 0);
    if (!name) return NULL;
    interface_program_open(f, &type);
    if (f->optional && !f->has_standard) f->has_standard = true, f->standard = 0;
    if (strcmp(f->name, name) != 0) f->called = f->name;
    f->name = name;
    if (mil_open_settle(options, b->module->source, name, f, NULL, &type, &b->err)) {
        interface_program_say_open(b, f, options);
        return NULL;
    }
    return mil_build_param(b, name, type);
}

/* Renames an inner value that has the name of an output. */
static void interface_program_make_room(mil_builder *b, const char *name) {
    mil_value *other = mil_scope_find(b->function, name, strlen(name));
    bool seen = !other || !other->def;
    for (int i = 0; i < b->function->result_count; i++) seen |= b->function->results[i] == other;
    if (seen || b->err.status) return;
    const char *inside = arena_printf(b->module->arena, "%s_inside", name);
    if (inside) inside = mil_scope_unique(b->function, inside);
    if (!inside) (void)!propane_fail_memory(&b->err, 0);
    if (inside) (void)!mil_rename(b->function, other, inside, &b->err);
}

static mil_value *interface_program_named(mil_builder *b, const char *wanted, mil_value *v) {
    const char *name = interface_name(b->module->arena, wanted);
    if (!name) (void)!propane_fail_memory(&b->err, 0);
    if (!name || b->err.status) return NULL;
    if (!v->def || v->type.dtype == MIL_bool || mil_is_result(b->function, v))
        v = mil_build_unary(b, MIL_OP_identity, v);
    if (!v || strcmp(v->name, name) == 0) return v;
    interface_program_make_room(b, name);
    name = mil_scope_unique(b->function, name);
    if (!name) (void)!propane_fail_memory(&b->err, 0);
    if (name) (void)!mil_rename(b->function, v, name, &b->err);
    return b->err.status ? NULL : v;
}

void interface_result(mil_builder *b, mil_feature *f, mil_value *v) {
    if (b->err.status || !v) return;
    const mil_dtype dtype = f->kind == MIL_FEATURE_ARRAY && f->dtype == MIL_int32 ? MIL_int32 : MIL_fp32;
    if (v->type.container == MIL_TENSOR && v->type.dtype != dtype && v->type.dtype != MIL_string &&
        v->type.dtype != MIL_int64)
        v = mil_build_cast(b, v, dtype);
    if (v) v = interface_program_named(b, f->name, v);
    if (!v) return;
    if (strcmp(f->name, v->name) != 0) f->called = f->name;
    f->name = v->name;
    if (f->kind != MIL_FEATURE_IMAGE && v->type.container == MIL_TENSOR && v->type.dtype == dtype) {
        f->kind = MIL_FEATURE_ARRAY, f->dtype = dtype;
        f->shape = v->type;
        f->shape_count = f->range_count = 0;
    }
    mil_build_result(b, v);
}

/* ---- classifiers ----------------------------------------------------------------------------------------------------------- */

mil_value *interface_labels(mil_builder *b, wire_view strings, wire_view numbers) {
    wire_view part, rest = strings;
    const int texts = wire_count(strings, 1);
    const int64_t most = texts ? texts : (int64_t)numbers.bytes;
    if (b->err.status || !most) return NULL;
    void *data = mem_array((size_t)most, 8);
    if (!data) (void)!propane_fail_memory(&b->err, (size_t)most * 8);
    int64_t count = 0;
    while (data && texts && count < texts && wire_each(&rest, 1, &part)) {
        char *one = arena_alloc(b->module->arena, part.bytes + 1);
        if (!one) (void)!propane_fail_memory(&b->err, part.bytes);
        if (one) memcpy(one, part.data, part.bytes);
        ((const char **)data)[count++] = one ? one : "";
    }
    if (data && !texts) count = wire_wholes(numbers, 1, data, (int)(most > INT32_MAX ? INT32_MAX : most));
    /* Core ML requires a list. */
    const mil_type type = {.dtype = texts ? MIL_string : MIL_int64, .container = MIL_LIST, .length = count};
    mil_value *out = data && count && !b->err.status ? mil_build_const(b, "labels", &type, data) : NULL;
    mem_free(data);
    return out;
}

void interface_classify(mil_builder *b, mil_interface *seen, mil_value *probabilities, mil_value *labels) {
    const mil_argument a[] = {{"probabilities", 1, &probabilities}, {"classes", 1, &labels}};
    const mil_op *op = b->err.status ? NULL : mil_build_op(b, MIL_OP_classify, NULL, a, 2);
    for (int i = 0; op && i < seen->output_count; i++) {
        mil_feature *f = &seen->outputs[i];
        const bool first = strcmp(f->name, seen->predicted) == 0;
        if (!first && strcmp(f->name, seen->probabilities) != 0) continue;
        const char *was = f->name;
        interface_result(b, f, op->results[first ? 0 : 1]);
        if (first && strcmp(was, seen->predicted) == 0) seen->predicted = f->name;
        if (!first) seen->probabilities = f->name;
        if (first) f->kind = labels->type.dtype == MIL_string ? MIL_FEATURE_STRING : MIL_FEATURE_INT64;
        if (!first) f->kind = labels->type.dtype == MIL_string ? MIL_FEATURE_DICT_STRING : MIL_FEATURE_DICT_INT64;
    }
}
