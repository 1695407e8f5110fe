/* SPDX-License-Identifier: MIT
 * Owns the interpretation of metadata.json and FlexibleShapeInformation, which replace the description inside a
 * package. The names of keys come from apple/coremltools, mlmodel/src/DataType.cpp (toDictionary), and from files
 * written by the compiler.
 */
#include "core/mil/coreml/package_compiled.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"

enum { COMPILED_MOST = 1 << 24, COMPILED_VERSION = 6 };

static struct mil_package *package_compiled_of(mil_module *m) {
    if (m->package) return m->package;
    struct mil_package *p = ARENA_NEW(m->arena, struct mil_package);
    if (!p) return NULL;
    p->text = p->version = p->author = p->license = "";
    p->spec_version = COMPILED_VERSION;
    return m->package = p;
}

static propane_status package_compiled_add(const mil_function *f, const mil_interface *one, propane_error *err) {
    mil_module *m = f->module;
    struct mil_package *p = package_compiled_of(m);
    const int version = COMPILED_VERSION + (int)(f->opset - MIL_IOS15);
    mil_interface *larger = p ? ARENA_ARRAY(m->arena, p->interface_count + 1, mil_interface) : NULL;
    if (!larger) return propane_fail_memory(err, 0);
    if (p->interface_count) memcpy(larger, p->interfaces, (size_t)p->interface_count * sizeof *larger);
    if (version > p->spec_version) p->spec_version = version;
    larger[p->interface_count++] = *one;
    p->interfaces = larger;
    return mil_interface_index(&larger[p->interface_count - 1]) ? PROPANE_OK : propane_fail_memory(err, 0);
}

static mil_feature package_compiled_plain(const mil_value *v) {
    mil_feature f = {.name = v->name, .text = "", .kind = MIL_FEATURE_ARRAY, .dtype = v->type.dtype};
    if (v->type.container == MIL_STATE) f.kind = MIL_FEATURE_STATE;
    if (v->type.container == MIL_DICT)
        f.kind = v->type.key == MIL_string ? MIL_FEATURE_DICT_STRING : MIL_FEATURE_DICT_INT64;
    else if (v->type.dtype == MIL_string)
        f.kind = MIL_FEATURE_STRING;
    else if (!mil_type_is_open(&v->type))
        f.shape = mil_type_bare(&v->type);
    return f;
}

/* Describes every parameter and result by its type. If `features` (indexed by parameter) is not NULL, it holds the
 * allowed shapes of inputs, and outputs get no shape. */
static propane_status package_compiled_interface(const mil_function *f, const mil_feature *features, mil_interface *out,
                                                 propane_error *err) {
    arena *a = f->module->arena;
    *out = (mil_interface){.function = f->name,
                           .predicted = "",
                           .probabilities = "",
                           .inputs = ARENA_ARRAY(a, f->param_count + 1, mil_feature),
                           .states = ARENA_ARRAY(a, f->param_count + 1, mil_feature),
                           .outputs = ARENA_ARRAY(a, f->result_count + 1, mil_feature)};
    if (!out->inputs || !out->states || !out->outputs) return propane_fail_memory(err, 0);
    for (int i = 0; i < f->param_count; i++) {
        mil_feature one = package_compiled_plain(f->params[i]);
        if (features) {
            one.shapes = features[i].shapes, one.shape_count = features[i].shape_count;
            one.ranges = features[i].ranges, one.range_count = features[i].range_count;
        }
        if (one.kind == MIL_FEATURE_STATE)
            out->states[out->state_count++] = one;
        else
            out->inputs[out->input_count++] = one;
    }
    for (int i = 0; i < f->result_count; i++) {
        mil_feature *one = &out->outputs[out->output_count++];
        *one = package_compiled_plain(f->results[i]);
        if (features) one->shape = (mil_type){0}; /* the shape follows from the inputs' shapes */
    }
    return PROPANE_OK;
}

propane_status package_compiled_shapes(const mil_function *f, const mil_feature *features, propane_error *err) {
    mil_interface made;
    bool any = false;
    for (int i = 0; i < f->param_count; i++) any |= features[i].shape_count || features[i].range_count;
    if (!any) return PROPANE_OK;
    PROPANE_TRY(package_compiled_interface(f, features, &made, err));
    return package_compiled_add(f, &made, err);
}

/* ---- metadata.json -------------------------------------------------------------------------------------------------------------- */

static const char *package_compiled_text(const json_t *o, const char *key) {
    const char *said = json_string_value(json_object_get(o, key));
    return said ? said : "";
}

static bool package_compiled_copy(mil_module *m, const json_t *o, const char *key, const char **out) {
    const char *said = package_compiled_text(o, key);
    if (*said) *out = arena_string(m->arena, said);
    return *out != NULL;
}

static bool package_compiled_user(mil_module *m, const json_t *pairs) {
    struct mil_package *p = m->package;
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(pairs) || !json_object_size(pairs)) return true;
    p->user = ARENA_ARRAY(m->arena, json_object_size(pairs), mil_pair);
    if (!p->user) return false;
    json_object_foreach((json_t *)(uintptr_t)pairs, key, value) {
        if (!json_is_string(value)) continue;
        mil_pair *pair = &p->user[p->user_count];
        pair->key = arena_string(m->arena, key);
        pair->value = arena_string(m->arena, json_string_value(value));
        if (!pair->key || !pair->value) return false;
        p->user_count++;
    }
    return true;
}

/* Turns an array of rank 4 whose colour space is known into an image. An image's shapes are [height, width], so the
 * first two dimensions are dropped. */
static void package_compiled_image(const json_t *o, const mil_value *v, mil_feature *f) {
    static const struct {
        const char *name;
        int colour;
    } known[] = {{"RGB", MIL_RGB}, {"BGR", MIL_BGR}, {"Grayscale", MIL_GRAY}};
    const char *space = package_compiled_text(o, "colorspace");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(space, known[i].name) == 0) f->colour = known[i].colour;
    const int64_t channels = f->colour == MIL_GRAY ? 1 : 3;
    if (!f->colour || v->type.rank != 4 || v->type.dim[1] != channels) {
        f->colour = 0; /* an array, as in the program */
        return;
    }
    f->kind = MIL_FEATURE_IMAGE;
    f->dtype = MIL_uint8;
    f->shape = (mil_type){.rank = 2, .dim = {v->type.dim[2], v->type.dim[3]}};
    if (f->range_count == 4) f->ranges += 2, f->range_count = 2;
    for (int i = 0; i < f->shape_count; i++)
        if (f->shapes[i].rank == 4)
            f->shapes[i] = (mil_type){.rank = 2, .dim = {f->shapes[i].dim[2], f->shapes[i].dim[3]}};
}

/* Returns whether the list names each of the features once and nothing else. Sets place[i] to the position of feature i
 * in the list. */
static bool package_compiled_lists(const json_t *list, const mil_interface *seen, propane_role role,
                                   const mil_feature *features, int count, int *place) {
    if (!json_is_array(list) || json_array_size(list) != (size_t)count) return false;
    for (int i = 0; i < count; i++) place[i] = -1;
    for (int i = 0; i < count; i++) {
        const char *name = package_compiled_text(json_array_get(list, (size_t)i), "name");
        const mil_feature *f = mil_feature_find(seen, role, name);
        if (!f || place[f - features] >= 0) return false;
        place[f - features] = i;
    }
    return true;
}

/* Sorts values and their features (in the same order) into the list's order, and adds the list's details. Changes
 * nothing if the list does not match. Returns false if memory runs out. */
static bool package_compiled_sort(mil_module *m, const json_t *list, mil_value **values, const mil_interface *seen,
                                  propane_role role) {
    const int count = role == PROPANE_INPUT ? seen->input_count : seen->output_count;
    mil_feature *features = role == PROPANE_INPUT ? seen->inputs : seen->outputs;
    int *place = ARENA_ARRAY(m->arena, count + 1, int);
    mil_value **sorted = ARENA_ARRAY(m->arena, count + 1, mil_value *);
    mil_feature *made = ARENA_ARRAY(m->arena, count + 1, mil_feature);
    if (!place || !sorted || !made) return false;
    if (!package_compiled_lists(list, seen, role, features, count, place)) return true;
    for (int i = 0; i < count; i++) {
        const json_t *o = json_array_get(list, (size_t)place[i]);
        mil_feature *one = &made[place[i]];
        sorted[place[i]] = values[i];
        *one = features[i];
        if (!package_compiled_copy(m, o, "shortDescription", &one->text)) return false;
        one->optional = strcmp(package_compiled_text(o, "isOptional"), "1") == 0;
        if (strcmp(package_compiled_text(o, "type"), "Image") == 0) package_compiled_image(o, values[i], one);
    }
    memcpy(values, sorted, (size_t)count * sizeof *values);
    memcpy(features, made, (size_t)count * sizeof *features);
    return true;
}

/* Sorts inputs and outputs as in the metadata. Parameters that are states stay where they are. */
static bool package_compiled_order(mil_module *m, mil_function *f, const json_t *o, mil_interface *seen) {
    mil_value **inputs = ARENA_ARRAY(m->arena, f->param_count + 1, mil_value *);
    int count = 0;
    if (!inputs) return false;
    for (int i = 0; i < f->param_count; i++)
        if (f->params[i]->type.container != MIL_STATE) inputs[count++] = f->params[i];
    if (!package_compiled_sort(m, json_object_get(o, "inputSchema"), inputs, seen, PROPANE_INPUT)) return false;
    for (int i = 0, from = 0; i < f->param_count; i++)
        if (f->params[i]->type.container != MIL_STATE) f->params[i] = inputs[from++];
    mil_params_placed(f);
    return package_compiled_sort(m, json_object_get(o, "outputSchema"), f->results, seen, PROPANE_OUTPUT) &&
           mil_interface_index(seen);
}

static propane_status package_compiled_function(mil_module *m, mil_function *f, const json_t *o, propane_error *err) {
    mil_interface *seen = (mil_interface *)(uintptr_t)mil_interface_of(m, f->name);
    if (!seen) {
        mil_interface made;
        PROPANE_TRY(package_compiled_interface(f, NULL, &made, err));
        PROPANE_TRY(package_compiled_add(f, &made, err));
        seen = &m->package->interfaces[m->package->interface_count - 1];
    }
    if (!package_compiled_order(m, f, o, seen)) return propane_fail_memory(err, 0);
    for (int i = 0; i < seen->output_count; i++) { /* the two outputs of a classifier */
        const mil_feature *one = &seen->outputs[i];
        const bool label = f->results[i]->def && f->results[i]->def->info->code == MIL_OP_classify;
        if (label && f->results[i]->index == 0) seen->predicted = one->name;
        if (label && f->results[i]->index == 1) seen->probabilities = one->name;
    }
    return PROPANE_OK;
}

/* Reads the description of each function: from the list of functions or, for a single function, from the top of the
 * file. */
static propane_status package_compiled_functions(mil_module *m, const json_t *o, propane_error *err) {
    const json_t *list = json_object_get(o, "functions");
    const char *first = package_compiled_text(o, "defaultFunctionName");
    for (mil_function *f = m->functions; f; f = f->next) {
        const json_t *one = m->function_count == 1 ? o : NULL;
        for (size_t i = 0; i < json_array_size(list); i++)
            if (strcmp(package_compiled_text(json_array_get(list, i), "name"), f->name) == 0)
                one = json_array_get(list, i);
        if (one) PROPANE_TRY(package_compiled_function(m, f, one, err));
        if (strcmp(first, f->name) == 0) m->default_function = f->name;
    }
    return PROPANE_OK;
}

propane_status package_compiled_metadata(mil_module *m, const char *folder, propane_error *err) {
    json_t *list = NULL;
    text path = {0};
    propane_status status = PROPANE_OK;
    text_printf(&path, "%s/metadata.json", folder);
    if (path.failed) status = propane_fail_memory(err, 0);
    if (!status && file_exists(path.data)) status = json_read(path.data, COMPILED_MOST, &list, err);
    const json_t *o = json_is_array(list) ? json_array_get(list, 0) : NULL;
    if (!status && json_is_string(json_object_get(o, "metadataOutputVersion"))) {
        struct mil_package *p = package_compiled_of(m);
        const bool read = p && package_compiled_copy(m, o, "shortDescription", &p->text) &&
                          package_compiled_copy(m, o, "version", &p->version) &&
                          package_compiled_copy(m, o, "author", &p->author) &&
                          package_compiled_copy(m, o, "license", &p->license) &&
                          package_compiled_user(m, json_object_get(o, "userDefinedMetadata"));
        const json_int_t version = json_integer_value(json_object_get(o, "specificationVersion"));
        if (p && version >= COMPILED_VERSION && version < COMPILED_VERSION + 4) p->spec_version = (int)version;
        status = read ? package_compiled_functions(m, o, err) : propane_fail_memory(err, 0);
    }
    json_decref(list);
    text_deinit(&path);
    return status;
}
