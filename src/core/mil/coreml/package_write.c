/* SPDX-License-Identifier: MIT
 * Owns writing an .mlpackage: weights first, then the model file, then the manifest. These files are written to a
 * separate folder that gets the final name when complete, so an existing package of that name stays intact until then.
 * A package that was read and written again contains the same program, including names and descriptions. For any other
 * module, inputs and outputs are described by their types. Identifiers in the manifest are derived from the content, so
 * the same module produces the same files. Refuses to replace anything but an empty folder or a folder with a program.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_open.h"
#include "core/mil/coreml/package_program.h"
#include "core/mil/coreml/package_wire.h"
#include "core/mil/coreml/package_writer.h"
#include "core/mil/ir_edit.h"
#include "core/mil/text/mil_text.h"

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

static Coreml__Dimension *package_write_dimension(package_writer *w, int64_t size) {
    PACKAGE_NEW(w, d, Coreml__Dimension, coreml__dimension__init);
    if (size == MIL_OPEN || size == MIL_OPEN_RANK) {
        PACKAGE_NEW(w, u, Coreml__UnknownDimension, coreml__unknown_dimension__init);
        u->variadic = size == MIL_OPEN_RANK;
        d->kind_case = COREML__DIMENSION__KIND_UNKNOWN;
        d->unknown = u;
        return d;
    }
    PACKAGE_NEW(w, c, Coreml__ConstantDimension, coreml__constant_dimension__init);
    c->size = (uint64_t)size;
    d->kind_case = COREML__DIMENSION__KIND_CONSTANT;
    d->constant = c;
    return d;
}

static Coreml__ValueType *package_write_bare_type(package_writer *w, mil_dtype dtype, int rank, const int64_t *dim) {
    PACKAGE_NEW(w, v, Coreml__ValueType, coreml__value_type__init);
    PACKAGE_NEW(w, t, Coreml__TensorType, coreml__tensor_type__init);
    t->data_type = mil_dtype_get(dtype)->proto_code;
    t->rank = rank;
    t->dimensions = PACKAGE_LIST(w, Coreml__Dimension, rank);
    for (int i = 0; t->dimensions && i < rank; i++)
        t->dimensions[t->n_dimensions++] = package_write_dimension(w, dim[i]);
    v->kind_case = COREML__VALUE_TYPE__KIND_TENSOR;
    v->tensor = t;
    return v;
}

static Coreml__ValueType *package_write_type_of(package_writer *w, const mil_type *type) {
    Coreml__ValueType *inner = package_write_bare_type(w, type->dtype, type->rank, type->dim);
    if (type->container == MIL_TENSOR || !inner) return inner;
    PACKAGE_NEW(w, v, Coreml__ValueType, coreml__value_type__init);
    if (type->container == MIL_STATE) {
        PACKAGE_NEW(w, s, Coreml__StateType, coreml__state_type__init);
        s->wrapped = inner;
        v->kind_case = COREML__VALUE_TYPE__KIND_STATE;
        v->state = s;
    } else if (type->container == MIL_LIST) {
        PACKAGE_NEW(w, l, Coreml__ListType, coreml__list_type__init);
        l->type = inner;
        l->length = package_write_dimension(w, type->length);
        v->kind_case = COREML__VALUE_TYPE__KIND_LIST;
        v->list = l;
    } else {
        PACKAGE_NEW(w, d, Coreml__DictionaryType, coreml__dictionary_type__init);
        d->key = package_write_bare_type(w, type->key, 0, NULL);
        d->value = inner;
        v->kind_case = COREML__VALUE_TYPE__KIND_DICTIONARY;
        v->dictionary = d;
    }
    return v;
}

/* ---- constants -------------------------------------------------------------------------------------------------------------- */

static bool package_write_in_ints(mil_dtype dtype) {
    return dtype == MIL_int16 || dtype == MIL_uint16 || dtype == MIL_int32;
}

/* Stores elements in the form that Core ML's tools write for each element type: numbers, or bytes as in a weight
 * file. */
static Coreml__TensorValue *package_write_tensor_value(package_writer *w, const mil_const *c, int64_t first,
                                                       int64_t count) {
    PACKAGE_NEW(w, t, Coreml__TensorValue, coreml__tensor_value__init);
    const mil_dtype dtype = c->type.dtype;
    const size_t n = (size_t)count;
    if (dtype == MIL_string) {
        PACKAGE_NEW(w, s, Coreml__Strings, coreml__strings__init);
        s->values = PACKAGE_LIST(w, char, n);
        for (int64_t i = 0; s->values && i < count; i++)
            s->values[s->n_values++] = package_write_copy_text(w, mil_const_text(c, first + i));
        t->kind_case = COREML__TENSOR_VALUE__KIND_STRINGS, t->strings = s;
    } else if (dtype == MIL_bool) {
        PACKAGE_NEW(w, b, Coreml__Bools, coreml__bools__init);
        b->values = package_write_take(w, n * sizeof *b->values);
        for (int64_t i = 0; b->values && i < count; i++) b->values[b->n_values++] = mil_const_i64(c, first + i) != 0;
        t->kind_case = COREML__TENSOR_VALUE__KIND_BOOLS, t->bools = b;
    } else if (package_write_in_ints(dtype)) {
        PACKAGE_NEW(w, v, Coreml__Ints, coreml__ints__init);
        v->values = package_write_take(w, n * sizeof *v->values);
        for (int64_t i = 0; v->values && i < count; i++)
            v->values[v->n_values++] = (int32_t)mil_const_i64(c, first + i);
        t->kind_case = COREML__TENSOR_VALUE__KIND_INTS, t->ints = v;
    } else if (dtype == MIL_int64 || dtype == MIL_uint64) {
        PACKAGE_NEW(w, v, Coreml__Longs, coreml__longs__init);
        v->values = package_write_take(w, n * sizeof *v->values);
        for (int64_t i = 0; v->values && i < count; i++) v->values[v->n_values++] = mil_const_i64(c, first + i);
        t->kind_case = COREML__TENSOR_VALUE__KIND_LONGS, t->longs = v;
    } else if (dtype == MIL_fp32) {
        PACKAGE_NEW(w, v, Coreml__Floats, coreml__floats__init);
        v->values = package_write_take(w, n * sizeof *v->values);
        if (v->values && n) memcpy(v->values, (const float *)c->data + first, n * sizeof *v->values);
        v->n_values = v->values ? n : 0;
        t->kind_case = COREML__TENSOR_VALUE__KIND_FLOATS, t->floats = v;
    } else if (dtype == MIL_fp64) {
        PACKAGE_NEW(w, v, Coreml__Doubles, coreml__doubles__init);
        v->values = package_write_take(w, n * sizeof *v->values);
        for (int64_t i = 0; v->values && i < count; i++) v->values[v->n_values++] = mil_const_f64(c, first + i);
        t->kind_case = COREML__TENSOR_VALUE__KIND_DOUBLES, t->doubles = v;
    } else {
        PACKAGE_NEW(w, b, Coreml__Bytes, coreml__bytes__init);
        b->values.len = (size_t)c->bytes;
        b->values.data = (uint8_t *)(uintptr_t)c->data;
        t->kind_case = COREML__TENSOR_VALUE__KIND_BYTES, t->bytes = b;
    }
    return t;
}

static Coreml__Value *package_write_tensor_of(package_writer *w, const mil_const *c, int64_t first, int64_t count,
                                              Coreml__ValueType *type) {
    PACKAGE_NEW(w, v, Coreml__Value, coreml__value__init);
    PACKAGE_NEW(w, i, Coreml__ImmediateValue, coreml__immediate_value__init);
    v->type = type;
    v->kind_case = COREML__VALUE__KIND_IMMEDIATE;
    v->immediate = i;
    i->kind_case = COREML__IMMEDIATE_VALUE__KIND_TENSOR;
    i->tensor = package_write_tensor_value(w, c, first, count);
    return v;
}

static Coreml__Value *package_write_list_of(package_writer *w, const mil_const *c) {
    PACKAGE_NEW(w, v, Coreml__Value, coreml__value__init);
    PACKAGE_NEW(w, i, Coreml__ImmediateValue, coreml__immediate_value__init);
    PACKAGE_NEW(w, l, Coreml__ListValue, coreml__list_value__init);
    mil_type bare = mil_type_bare(&c->type);
    const int64_t count = mil_type_count(&bare);
    v->type = package_write_type_of(w, &c->type);
    v->kind_case = COREML__VALUE__KIND_IMMEDIATE;
    v->immediate = i;
    i->kind_case = COREML__IMMEDIATE_VALUE__KIND_LIST;
    i->list = l;
    l->values = PACKAGE_LIST(w, Coreml__Value, c->type.length);
    for (int64_t k = 0; l->values && k < c->type.length; k++)
        l->values[l->n_values++] = package_write_tensor_of(w, c, k * count, count, package_write_type_of(w, &bare));
    return v;
}

static Coreml__Value *package_write_value_of(package_writer *w, const mil_const *c) {
    if (c->type.container == MIL_LIST) return package_write_list_of(w, c);
    if (!c->blob_path)
        return package_write_tensor_of(w, c, 0, mil_type_count(&c->type), package_write_type_of(w, &c->type));
    PACKAGE_NEW(w, v, Coreml__Value, coreml__value__init);
    PACKAGE_NEW(w, b, Coreml__BlobValue, coreml__blob_value__init);
    v->type = package_write_type_of(w, &c->type);
    v->kind_case = COREML__VALUE__KIND_BLOB;
    v->blob = b;
    b->path = package_write_copy_text(w, c->blob_path);
    b->offset = c->blob_offset;
    return v;
}

static Coreml__Value *package_write_text_value(package_writer *w, const char *s) {
    const mil_const c = {.type = mil_type_scalar(MIL_string), .data = &s, .bytes = (int64_t)sizeof s};
    return package_write_value_of(w, &c);
}

static Coreml__ValuePair *package_write_attribute(package_writer *w, const char *key, Coreml__Value *value) {
    PACKAGE_NEW(w, p, Coreml__ValuePair, coreml__value_pair__init);
    p->key = package_write_copy_text(w, key);
    p->value = value;
    return p;
}

/* ---- operations ------------------------------------------------------------------------------------------------------------- */

static Coreml__NamedType *package_write_named(package_writer *w, const mil_value *v) {
    PACKAGE_NEW(w, n, Coreml__NamedType, coreml__named_type__init);
    const mil_type type = package_open_type(w->other, v);
    n->name = package_write_copy_text(w, v->name);
    n->type = package_write_type_of(w, &type);
    return n;
}

static Coreml__Binding *package_write_binding(package_writer *w, const mil_value *given) {
    PACKAGE_NEW(w, b, Coreml__Binding, coreml__binding__init);
    const mil_value *v = mil_written(given);
    if (v->is_inline) {
        b->kind_case = COREML__BINDING__KIND_VALUE;
        b->value = package_write_value_of(w, v->constant);
    } else {
        b->kind_case = COREML__BINDING__KIND_NAME;
        b->name = package_write_copy_text(w, v->name);
    }
    return b;
}

static Coreml__ArgumentPair *package_write_argument(package_writer *w, const mil_op *op, int param) {
    PACKAGE_NEW(w, p, Coreml__ArgumentPair, coreml__argument_pair__init);
    PACKAGE_NEW(w, a, Coreml__Argument, coreml__argument__init);
    const mil_operand *o = &op->operands[param];
    p->key = package_write_copy_text(w, op->info->params[param].name);
    p->value = a;
    a->bindings = PACKAGE_LIST(w, Coreml__Binding, o->count);
    for (int i = 0; a->bindings && i < o->count; i++)
        a->bindings[a->n_bindings++] = package_write_binding(w, o->values[i]);
    return p;
}

static Coreml__Block *package_write_block_of(package_writer *w, const mil_function *f, bool inputs);

/* Returns whether the op's operands are written as attributes, as for constants and for compressed ones up to
 * iOS 17. */
static bool package_write_has_attributes(const mil_op *op) {
    return op->info->code == MIL_OP_const || (mil_op_compressed(op) && op->info->since < MIL_IOS18);
}

static Coreml__Operation *package_write_operation(package_writer *w, const mil_op *op) {
    PACKAGE_NEW(w, o, Coreml__Operation, coreml__operation__init);
    const bool attributes = package_write_has_attributes(op);
    const char *label = op->label ? op->label : op->result_count ? op->results[0]->name : "";
    o->type = package_write_copy_text(w, op->info->name);
    o->inputs = PACKAGE_LIST(w, Coreml__ArgumentPair, op->info->param_count);
    o->attributes = PACKAGE_LIST(w, Coreml__ValuePair, op->info->param_count + 1);
    o->outputs = PACKAGE_LIST(w, Coreml__NamedType, op->result_count);
    o->blocks = PACKAGE_LIST(w, Coreml__Block, op->block_count);
    if (w->failed) return NULL;
    o->attributes[o->n_attributes++] = package_write_attribute(w, "name", package_write_text_value(w, label));
    for (int i = 0; i < op->info->param_count && !w->failed; i++) {
        if (!op->operands[i].count || op->info->params[i].need == MIL_CAPTURED) continue;
        const mil_value *v = op->operands[i].values[0];
        if (attributes && v->constant)
            o->attributes[o->n_attributes++] =
                package_write_attribute(w, op->info->params[i].name, package_write_value_of(w, v->constant));
        else
            o->inputs[o->n_inputs++] = package_write_argument(w, op, i);
    }
    for (int i = 0; i < op->result_count; i++) o->outputs[o->n_outputs++] = package_write_named(w, op->results[i]);
    const mil_function *around = w->other;
    for (int i = 0; i < op->block_count; i++) {
        w->other = package_open_block(around, op, i);
        o->blocks[o->n_blocks++] = package_write_block_of(w, op->blocks[i], true);
    }
    w->other = around;
    return o;
}

static Coreml__Block *package_write_block_of(package_writer *w, const mil_function *f, bool inputs) {
    PACKAGE_NEW(w, b, Coreml__Block, coreml__block__init);
    b->inputs = PACKAGE_LIST(w, Coreml__NamedType, f->param_count);
    b->operations = PACKAGE_LIST(w, Coreml__Operation, f->op_count);
    b->outputs = PACKAGE_LIST(w, char, f->result_count);
    if (w->failed) return NULL;
    for (int i = 0; inputs && i < f->param_count - f->captured; i++)
        b->inputs[b->n_inputs++] = package_write_named(w, f->params[i]);
    for (const mil_op *op = f->first; op && !w->failed; op = op->next)
        b->operations[b->n_operations++] = package_write_operation(w, op);
    for (int i = 0; i < f->result_count; i++)
        b->outputs[b->n_outputs++] = package_write_copy_text(w, mil_written(f->results[i])->name);
    return b;
}

static Coreml__FunctionPair *package_write_function_of(package_writer *w, const mil_function *f) {
    PACKAGE_NEW(w, p, Coreml__FunctionPair, coreml__function_pair__init);
    PACKAGE_NEW(w, to, Coreml__Function, coreml__function__init);
    PACKAGE_NEW(w, body, Coreml__BlockPair, coreml__block_pair__init);
    char opset[] = "CoreML5";
    opset[6] = (char)('5' + f->opset - MIL_IOS15);
    p->key = package_write_copy_text(w, f->name);
    p->value = to;
    to->opset = package_write_copy_text(w, opset);
    to->inputs = PACKAGE_LIST(w, Coreml__NamedType, f->param_count);
    to->blocks = PACKAGE_LIST(w, Coreml__BlockPair, 1);
    if (w->failed) return NULL;
    w->other = package_write_copy_of(w, f);
    for (int i = 0; i < f->param_count; i++) to->inputs[to->n_inputs++] = package_write_named(w, f->params[i]);
    to->blocks[to->n_blocks++] = body;
    body->key = to->opset;
    body->value = package_write_block_of(w, f, false);
    return p;
}

static Coreml__ValuePair *package_write_build_info(package_writer *w) {
    PACKAGE_NEW(w, v, Coreml__Value, coreml__value__init);
    PACKAGE_NEW(w, i, Coreml__ImmediateValue, coreml__immediate_value__init);
    PACKAGE_NEW(w, d, Coreml__DictionaryValue, coreml__dictionary_value__init);
    const mil_type type = {.dtype = MIL_string, .container = MIL_DICT, .key = MIL_string};
    d->values = PACKAGE_LIST(w, Coreml__KeyValue, w->module->build_info_count);
    for (int k = 0; d->values && k < w->module->build_info_count; k++) {
        PACKAGE_NEW(w, pair, Coreml__KeyValue, coreml__key_value__init);
        pair->key = package_write_text_value(w, w->module->build_info[k].key);
        pair->value = package_write_text_value(w, w->module->build_info[k].value);
        d->values[d->n_values++] = pair;
    }
    v->type = package_write_type_of(w, &type);
    v->kind_case = COREML__VALUE__KIND_IMMEDIATE;
    v->immediate = i;
    i->kind_case = COREML__IMMEDIATE_VALUE__KIND_DICTIONARY;
    i->dictionary = d;
    return package_write_attribute(w, "buildInfo", v);
}

static Coreml__Program *package_write_program_of(package_writer *w) {
    PACKAGE_NEW(w, p, Coreml__Program, coreml__program__init);
    p->version = 1;
    p->functions = PACKAGE_LIST(w, Coreml__FunctionPair, w->module->function_count);
    p->attributes = PACKAGE_LIST(w, Coreml__ValuePair, 1);
    if (w->failed) return NULL;
    for (const mil_function *f = w->module->functions; f && !w->failed; f = f->next)
        p->functions[p->n_functions++] = package_write_function_of(w, f);
    if (w->module->build_info_count) p->attributes[p->n_attributes++] = package_write_build_info(w);
    return p;
}
static propane_status package_write_find_open(package_writer *w) {
    int i = 0;
    w->open = package_write_take(w, ((size_t)w->module->function_count + 1) * sizeof *w->open);
    if (!w->open) return propane_fail_memory(w->err, 0);
    for (const mil_function *f = w->module->functions; f; f = f->next) w->open[i++] = package_open_copy(w->module, f);
    return PROPANE_OK;
}

static int package_write_spec_version(const mil_module *m) {
    int least = m->package ? m->package->spec_version : 6;
    for (const mil_function *f = m->functions; f; f = f->next)
        if (least < 6 + (int)f->opset - (int)MIL_IOS15) least = 6 + (int)f->opset - (int)MIL_IOS15;
    return m->function_count > 1 && least < 9 ? 9 : least;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------ */

static propane_status package_write_pack(package_writer *w, uint8_t **out, size_t *bytes) {
    Coreml__Model model = COREML__MODEL__INIT;
    Coreml__ModelDescription description = COREML__MODEL_DESCRIPTION__INIT;
    model.specification_version = package_write_spec_version(w->module);
    model.description = &description;
    PROPANE_TRY(package_interface_describe(w, &description));
    model.program = package_write_program_of(w);
    if (w->failed || !model.program) return propane_fail_memory(w->err, 0);
    *bytes = coreml__model__get_packed_size(&model);
    *out = mem_alloc(*bytes);
    if (!*out) return propane_fail_memory(w->err, *bytes);
    coreml__model__pack(&model, *out);
    return PROPANE_OK;
}

/* Formats 16 bytes of a hash as an identifier of the usual form. */
static void package_write_identifier(char out[40], const uint8_t *hash) {
    snprintf(out, 40, "%02x%02x%02x%02x-%02x%02x-4%01x%02x-a%01x%02x-%02x%02x%02x%02x%02x%02x", hash[0], hash[1],
             hash[2], hash[3], hash[4], hash[5], hash[6] & 15, hash[7], hash[8] & 15, hash[9], hash[10], hash[11],
             hash[12], hash[13], hash[14], hash[15]);
}

static json_t *package_write_item(const char *name, const char *what) {
    char path[100];
    snprintf(path, sizeof path, "com.apple.CoreML/%s", name);
    return json_pack("{s:s, s:s, s:s, s:s}", "author", "com.apple.CoreML", "description", what, "name", name, "path",
                     path);
}

static propane_status package_write_manifest(const char *path, const uint8_t *model, size_t bytes, propane_error *err) {
    uint8_t hash[32];
    char first[40], second[40];
    struct sha256 h;
    sha256_init(&h);
    sha256_update(&h, model, bytes);
    sha256_final(&h, hash);
    package_write_identifier(first, hash);
    package_write_identifier(second, hash + 16);
    json_t *root = json_pack("{s:s, s:{s:o, s:o}, s:s}", "fileFormatVersion", "1.0.0", "itemInfoEntries", first,
                             package_write_item("model.mlmodel", "CoreML Model Specification"), second,
                             package_write_item("weights", "CoreML Model Weights"), "rootModelIdentifier", first);
    propane_status status = json_write(path, root, JSON_INDENT(4) | JSON_SORT_KEYS, err);
    json_decref(root);
    return status;
}

propane_status mil_package_pack(mil_module *m, uint8_t **out, size_t *bytes, propane_error *err) {
    package_writer w = {.module = m, .arena = arena_create(), .err = err};
    *out = NULL;
    propane_status status = w.arena ? package_write_find_open(&w) : propane_fail_memory(err, 0);
    if (!status) status = package_write_pack(&w, out, bytes);
    arena_free(w.arena);
    return status;
}

/* Writes all files of the package into the folder `path`. */
static propane_status package_write_folder(mil_module *m, const char *path, propane_error *err) {
    text data = {0}, model = {0}, weights = {0}, manifest = {0};
    uint8_t *packed = NULL;
    size_t bytes = 0;
    text_printf(&data, "%s/Data/com.apple.CoreML", path);
    text_printf(&model, "%s/model.mlmodel", data.data ? data.data : "");
    text_printf(&weights, "%s/weights", data.data ? data.data : "");
    text_printf(&manifest, "%s/Manifest.json", path);
    const bool no_memory = data.failed || model.failed || weights.failed || manifest.failed;
    propane_status status = no_memory ? propane_fail_memory(err, 0) : PROPANE_OK;
    if (!status) status = file_make_dir(weights.data, err);
    if (!status) status = mil_write_weights(m, data.data, "weight", err);
    if (!status) status = mil_package_pack(m, &packed, &bytes, err);
    if (!status) status = file_write(model.data, packed, bytes, err);
    if (!status) status = package_write_manifest(manifest.data, packed, bytes, err);
    mem_free(packed);
    text_deinit(&data);
    text_deinit(&model);
    text_deinit(&weights);
    text_deinit(&manifest);
    return status;
}

/* Checks that the package replaces nothing but an empty folder or a folder with a program. */
static propane_status package_write_check_place(const char *path, propane_error *err) {
    if (!*path) return propane_fail(err, PROPANE_ERR_INVALID, "cannot write a package with an empty name");
    if (!file_exists(path) || mil_is_program_folder(path)) return PROPANE_OK;
    if (!file_is_dir(path))
        return propane_fail(err, PROPANE_ERR_INVALID, "cannot write %s: it exists and is not a folder", path);
    if (file_is_empty_dir(path)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "cannot write %s: a folder with that name exists and is not a package; give another name",
                        path);
}

propane_status mil_package_write(mil_module *m, const char *path, propane_error *err) {
    folder_writer *w = NULL;
    PROPANE_TRY(package_write_check_place(path, err));
    PROPANE_TRY(folder_writer_open(path, &w, err));
    return folder_writer_end(w, package_write_folder(m, folder_writer_path(w), err), err);
}
