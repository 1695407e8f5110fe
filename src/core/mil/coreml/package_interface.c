/* SPDX-License-Identifier: MIT
 * Owns the description in a written package: features, shapes, images, metadata. The description with which a package
 * was read is kept. For any other module, every input and output is described by its type.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_keys.h"
#include "core/mil/coreml/package_open.h"
#include "core/mil/coreml/package_wire.h"
#include "core/mil/coreml/package_writer.h"
#include "core/mil/ir_edit.h"
#include "core/mil/text/mil_text.h"

/* ---- descriptions ----------------------------------------------------------------------------------------------------------- */

static int package_interface_array_code(mil_dtype dtype) {
    switch (dtype) {
    case MIL_fp16: return 65552;
    case MIL_fp32: return 65568;
    case MIL_fp64: return 65600;
    case MIL_int32: return 131104;
    case MIL_int8: return 131080;
    default: return 0;
    }
}

static Coreml__SizeRange *package_interface_size_range(package_writer *w, const mil_shape_range *from) {
    PACKAGE_NEW(w, r, Coreml__SizeRange, coreml__size_range__init);
    r->lower = (uint64_t)from->lower;
    r->upper = from->upper;
    return r;
}

static Coreml__ArrayShape *package_interface_array_shape(package_writer *w, const mil_type *from) {
    PACKAGE_NEW(w, s, Coreml__ArrayShape, coreml__array_shape__init);
    s->shape = package_write_take(w, ((size_t)from->rank + 1) * sizeof *s->shape);
    for (int i = 0; s->shape && i < from->rank; i++) s->shape[s->n_shape++] = from->dim[i];
    return s;
}

static Coreml__ArrayType *package_interface_array_of(package_writer *w, const mil_feature *f) {
    PACKAGE_NEW(w, a, Coreml__ArrayType, coreml__array_type__init);
    a->data_type = package_interface_array_code(f->dtype);
    a->shape = package_write_take(w, ((size_t)f->shape.rank + 1) * sizeof *a->shape);
    for (int i = 0; a->shape && i < f->shape.rank; i++) a->shape[a->n_shape++] = f->shape.dim[i];
    if (f->shape_count) {
        PACKAGE_NEW(w, all, Coreml__ArrayShapes, coreml__array_shapes__init);
        all->shapes = PACKAGE_LIST(w, Coreml__ArrayShape, f->shape_count);
        for (int i = 0; all->shapes && i < f->shape_count; i++)
            all->shapes[all->n_shapes++] = package_interface_array_shape(w, &f->shapes[i]);
        a->shapes = all;
    }
    if (f->range_count) {
        PACKAGE_NEW(w, all, Coreml__ArrayRange, coreml__array_range__init);
        all->sizes = PACKAGE_LIST(w, Coreml__SizeRange, f->range_count);
        for (int i = 0; all->sizes && i < f->range_count; i++)
            all->sizes[all->n_sizes++] = package_interface_size_range(w, &f->ranges[i]);
        a->range = all;
    }
    if (f->optional && f->has_standard) {
        a->standard_case = COREML__ARRAY_TYPE__STANDARD_WIDE;
        a->wide = f->standard;
    }
    return a;
}

/* Makes the image type of a feature whose shape is [height, width]. */
static Coreml__ImageType *package_interface_image_of(package_writer *w, const mil_feature *f) {
    PACKAGE_NEW(w, image, Coreml__ImageType, coreml__image_type__init);
    image->height = f->shape.dim[0];
    image->width = f->shape.dim[1];
    image->colour = f->colour;
    if (f->shape_count) {
        PACKAGE_NEW(w, all, Coreml__ImageSizes, coreml__image_sizes__init);
        all->sizes = PACKAGE_LIST(w, Coreml__ImageSize, f->shape_count);
        for (int i = 0; all->sizes && i < f->shape_count; i++) {
            PACKAGE_NEW(w, one, Coreml__ImageSize, coreml__image_size__init);
            one->height = (uint64_t)f->shapes[i].dim[0];
            one->width = (uint64_t)f->shapes[i].dim[1];
            all->sizes[all->n_sizes++] = one;
        }
        image->sizes = all;
    }
    if (f->range_count == 2) {
        PACKAGE_NEW(w, both, Coreml__ImageRange, coreml__image_range__init);
        both->height = package_interface_size_range(w, &f->ranges[0]);
        both->width = package_interface_size_range(w, &f->ranges[1]);
        image->range = both;
    }
    return image;
}

static Coreml__FeatureType *package_interface_feature_type(package_writer *w, const mil_feature *f) {
    PACKAGE_NEW(w, t, Coreml__FeatureType, coreml__feature_type__init);
    PACKAGE_NEW(w, nothing, Coreml__Nothing, coreml__nothing__init);
    t->is_optional = f->optional;
    switch (f->kind) {
    case MIL_FEATURE_INT64: t->kind_case = COREML__FEATURE_TYPE__KIND_INT64_TYPE, t->int64_type = nothing; break;
    case MIL_FEATURE_DOUBLE: t->kind_case = COREML__FEATURE_TYPE__KIND_DOUBLE_TYPE, t->double_type = nothing; break;
    case MIL_FEATURE_STRING: t->kind_case = COREML__FEATURE_TYPE__KIND_STRING_TYPE, t->string_type = nothing; break;
    case MIL_FEATURE_SEQUENCE: t->kind_case = COREML__FEATURE_TYPE__KIND_SEQUENCE, t->sequence = nothing; break;
    case MIL_FEATURE_ARRAY:
        t->kind_case = COREML__FEATURE_TYPE__KIND_ARRAY, t->array = package_interface_array_of(w, f);
        break;
    case MIL_FEATURE_IMAGE:
        t->kind_case = COREML__FEATURE_TYPE__KIND_IMAGE, t->image = package_interface_image_of(w, f);
        break;
    case MIL_FEATURE_DICT_INT64:
    case MIL_FEATURE_DICT_STRING: {
        PACKAGE_NEW(w, d, Coreml__DictionaryFeature, coreml__dictionary_feature__init);
        const bool numbers = f->kind == MIL_FEATURE_DICT_INT64;
        d->key_case = numbers ? COREML__DICTIONARY_FEATURE__KEY_INT64_KEY : COREML__DICTIONARY_FEATURE__KEY_STRING_KEY;
        if (numbers)
            d->int64_key = nothing;
        else
            d->string_key = nothing;
        t->kind_case = COREML__FEATURE_TYPE__KIND_DICTIONARY, t->dictionary = d;
        break;
    }
    case MIL_FEATURE_STATE: {
        PACKAGE_NEW(w, s, Coreml__StateFeature, coreml__state_feature__init);
        s->array = package_interface_array_of(w, f);
        t->kind_case = COREML__FEATURE_TYPE__KIND_STATE, t->state = s;
        break;
    }
    default: break;
    }
    return t;
}

static Coreml__Feature *package_interface_feature_of(package_writer *w, const mil_feature *f) {
    PACKAGE_NEW(w, to, Coreml__Feature, coreml__feature__init);
    to->name = package_write_copy_text(w, f->name);
    to->short_description = package_write_copy_text(w, f->text);
    if (f->kind) to->type = package_interface_feature_type(w, f);
    return to;
}

/* Restricts a description of several shapes to the shape of the program's parameter. */
static void package_interface_fix_shape(const mil_function *f, mil_feature *feature) {
    if (!feature->shape_count && !feature->range_count) return;
    feature->shape_count = feature->range_count = 0;
    const mil_value *v = f ? mil_scope_find(f, feature->name, strlen(feature->name)) : NULL;
    if (!v || v->def || v->type.rank < feature->shape.rank) return;
    for (int d = 0; d < feature->shape.rank; d++)
        feature->shape.dim[d] = v->type.dim[v->type.rank - feature->shape.rank + d];
}

static Coreml__Feature **package_interface_feature_list(package_writer *w, const mil_function *f,
                                                        const mil_feature *from, int count, size_t *out_count) {
    Coreml__Feature **out = PACKAGE_LIST(w, Coreml__Feature, count);
    for (int i = 0; out && i < count; i++) {
        mil_feature fixed = from[i];
        if (!package_write_copy_of(w, f)) package_interface_fix_shape(f, &fixed);
        out[(*out_count)++] = package_interface_feature_of(w, &fixed);
    }
    return out;
}

/* Describes a value by its type. Refuses element types that arrays of a package cannot have. */
static propane_status package_interface_describe_shapes(package_writer *w, const mil_value *v, mil_feature *out) {
    mil_type bare = mil_type_bare(&v->type);
    *out = (mil_feature){.name = v->name,
                         .text = "",
                         .kind = v->type.container == MIL_STATE ? MIL_FEATURE_STATE : MIL_FEATURE_ARRAY,
                         .dtype = v->type.dtype,
                         .shape = bare};
    if (v->type.container == MIL_DICT)
        out->kind = v->type.key == MIL_string ? MIL_FEATURE_DICT_STRING : MIL_FEATURE_DICT_INT64;
    else if (v->type.dtype == MIL_string)
        out->kind = MIL_FEATURE_STRING;
    else if (!package_interface_array_code(v->type.dtype))
        return propane_fail(w->err, PROPANE_ERR_UNSUPPORTED,
                            "%s: '%.60s' has type %s, which inputs and outputs of a package cannot have: cast it to "
                            "fp16, fp32 or int32",
                            w->module->source, v->name, mil_dtype_get(v->type.dtype)->name);
    return PROPANE_OK;
}

static propane_status package_interface_make_interface(package_writer *w, const mil_function *f, mil_interface *out) {
    *out = (mil_interface){.function = f->name, .predicted = "", .probabilities = ""};
    out->inputs = package_write_take(w, ((size_t)f->param_count + 1) * sizeof *out->inputs);
    out->states = package_write_take(w, ((size_t)f->param_count + 1) * sizeof *out->states);
    out->outputs = package_write_take(w, ((size_t)f->result_count + 1) * sizeof *out->outputs);
    if (w->failed) return propane_fail_memory(w->err, 0);
    for (int i = 0; i < f->param_count; i++) {
        const bool state = f->params[i]->type.container == MIL_STATE;
        PROPANE_TRY(package_interface_describe_shapes(
            w, f->params[i], state ? &out->states[out->state_count++] : &out->inputs[out->input_count++]));
    }
    for (int i = 0; i < f->result_count; i++)
        PROPANE_TRY(package_interface_describe_shapes(w, f->results[i], &out->outputs[out->output_count++]));
    return PROPANE_OK;
}

static Coreml__FunctionDescription *package_interface_interface_of(package_writer *w, const mil_interface *from) {
    PACKAGE_NEW(w, d, Coreml__FunctionDescription, coreml__function_description__init);
    const mil_function *f = w->module->functions;
    while (f && strcmp(f->name, from->function) != 0) f = f->next;
    d->name = package_write_copy_text(w, from->function);
    d->predicted_feature = package_write_copy_text(w, from->predicted);
    d->predicted_probabilities = package_write_copy_text(w, from->probabilities);
    d->input = package_interface_feature_list(w, f, from->inputs, from->input_count, &d->n_input);
    d->output = package_interface_feature_list(w, f, from->outputs, from->output_count, &d->n_output);
    d->state = package_interface_feature_list(w, f, from->states, from->state_count, &d->n_state);
    return d;
}

static void package_interface_pair(package_writer *w, Coreml__Metadata *to, const char *key, const char *value) {
    Coreml__TextPair *pair = package_write_take(w, sizeof *pair);
    if (!pair) return;
    coreml__text_pair__init(pair);
    pair->key = package_write_copy_text(w, key);
    pair->value = package_write_copy_text(w, value);
    to->user_defined[to->n_user_defined++] = pair;
}

/* Adds a feature's keys to the metadata, where an app finds them: the app has to encode text and dictionaries
 * itself. */
static void package_interface_keys(package_writer *w, const mil_feature *f, Coreml__Metadata *to) {
    char *json = NULL;
    text key = {0};
    text_printf(&key, "%s%s", PACKAGE_KEYS, f->name);
    w->failed |= key.failed || package_keys_print(f->keys, &json, w->err) != PROPANE_OK;
    if (!w->failed) package_interface_pair(w, to, key.data, json);
    text_deinit(&key);
    mem_free(json);
}

static int package_interface_keyed(const struct mil_package *p) {
    int count = 0;
    for (int i = 0; p && p->interface_count && i < p->interfaces[0].input_count; i++)
        count += p->interfaces[0].inputs[i].keys != NULL;
    return count;
}

/* Makes the metadata. Returns NULL if there is none or memory runs out. */
static Coreml__Metadata *package_interface_metadata_of(package_writer *w) {
    const struct mil_package *p = w->module->package;
    const int keyed = package_interface_keyed(p);
    if (!p || !(p->text[0] || p->version[0] || p->author[0] || p->license[0] || p->user_count || keyed)) return NULL;
    PACKAGE_NEW(w, to, Coreml__Metadata, coreml__metadata__init);
    to->short_description = package_write_copy_text(w, p->text);
    to->version = package_write_copy_text(w, p->version);
    to->author = package_write_copy_text(w, p->author);
    to->license = package_write_copy_text(w, p->license);
    to->user_defined = PACKAGE_LIST(w, Coreml__TextPair, p->user_count + keyed);
    for (int i = 0; to->user_defined && i < p->user_count; i++)
        package_interface_pair(w, to, p->user[i].key, p->user[i].value);
    for (int i = 0; to->user_defined && keyed && i < p->interfaces[0].input_count; i++)
        if (p->interfaces[0].inputs[i].keys) package_interface_keys(w, &p->interfaces[0].inputs[i], to);
    return to;
}

static propane_status package_interface_describe_function(package_writer *w, const mil_function *f,
                                                          Coreml__ModelDescription *d) {
    mil_interface made;
    const mil_interface *seen = mil_interface_of(w->module, f->name);
    if (!seen) PROPANE_TRY(package_interface_make_interface(w, f, &made));
    Coreml__FunctionDescription *one = package_interface_interface_of(w, seen ? seen : &made);
    if (!one) return propane_fail_memory(w->err, 0);
    if (w->module->function_count != 1 || strcmp(f->name, "main") != 0) {
        d->functions[d->n_functions++] = one;
        return PROPANE_OK;
    }
    d->n_input = one->n_input, d->input = one->input;
    d->n_output = one->n_output, d->output = one->output;
    d->n_state = one->n_state, d->state = one->state;
    d->predicted_feature = one->predicted_feature;
    d->predicted_probabilities = one->predicted_probabilities;
    return PROPANE_OK;
}

/* A single function called main is described at the top; any other functions are described separately. */
propane_status package_interface_describe(package_writer *w, Coreml__ModelDescription *d) {
    const mil_module *m = w->module;
    d->metadata = package_interface_metadata_of(w);
    d->functions = PACKAGE_LIST(w, Coreml__FunctionDescription, m->function_count);
    if (w->failed) return propane_fail_memory(w->err, 0);
    for (int i = 0; m->package && i < m->package->interface_count; i++) { /* in the order of the file that was read */
        const mil_interface *seen = &m->package->interfaces[i];
        const mil_function *f = m->functions;
        while (f && strcmp(f->name, seen->function) != 0) f = f->next;
        if (f && mil_interface_of(m, f->name) == seen) PROPANE_TRY(package_interface_describe_function(w, f, d));
    }
    for (const mil_function *f = m->functions; f; f = f->next)
        if (!mil_interface_of(m, f->name)) PROPANE_TRY(package_interface_describe_function(w, f, d));
    if (d->n_functions)
        d->default_function =
            package_write_copy_text(w, m->default_function ? m->default_function : m->functions->name);
    return w->failed ? propane_fail_memory(w->err, 0) : PROPANE_OK;
}
