/* SPDX-License-Identifier: MIT
 * Owns the names of values in a pipeline with models of older kinds. The programs of these models have names that MIL
 * allows, so the pipeline and its suppressions must use the same names. These programs have arrays instead of numbers.
 */
#include "core/mil/coreml/package_names.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/mil/coreml/package_wire.h"
#include "core/mil/neural_network/interface_program.h"

enum { MAX_NEST = 8 };

static propane_status package_names_rename(char **name, propane_error *err) {
    arena *a = arena_create();
    const char *legal = a ? interface_name(a, *name) : NULL;
    char *copy = legal ? mem_copy_string(legal) : NULL;
    arena_free(a);
    if (!copy) return propane_fail_memory(err, 0);
    if (*name != protobuf_c_empty_string) mem_free(*name);
    *name = copy;
    return PROPANE_OK;
}

static propane_status package_names_rename_features(Coreml__ModelDescription *d, propane_error *err) {
    for (size_t i = 0; d && i < d->n_input; i++) PROPANE_TRY(package_names_rename(&d->input[i]->name, err));
    for (size_t i = 0; d && i < d->n_output; i++) PROPANE_TRY(package_names_rename(&d->output[i]->name, err));
    if (d && d->predicted_feature[0]) PROPANE_TRY(package_names_rename(&d->predicted_feature, err));
    if (d && d->predicted_probabilities[0]) PROPANE_TRY(package_names_rename(&d->predicted_probabilities, err));
    return PROPANE_OK;
}

static propane_status package_names_rename_suppression(Coreml__Suppression *s, propane_error *err) {
    char **names[] = {&s->confidence_in,           &s->coordinates_in, &s->iou_threshold_in,
                      &s->confidence_threshold_in, &s->confidence_out, &s->coordinates_out};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i][0][0]) PROPANE_TRY(package_names_rename(names[i], err));
    return PROPANE_OK;
}

static propane_status package_names_rename_parts(const Coreml__Pipeline *pipeline, int depth, propane_error *err) {
    for (size_t i = 0; pipeline && depth <= MAX_NEST && i < pipeline->n_models; i++) {
        Coreml__Model *part = pipeline->models[i];
        PROPANE_TRY(package_names_rename_features(part->description, err));
        if (part->suppression) PROPANE_TRY(package_names_rename_suppression(part->suppression, err));
        PROPANE_TRY(package_names_rename_parts(package_wire_pipeline(part), depth + 1, err));
    }
    return PROPANE_OK;
}

static const char **package_names_list(arena *a, size_t count, Coreml__Feature *const *features) {
    const char **list = ARENA_ARRAY(a, count + 1, const char *);
    for (size_t i = 0; list && i < count; i++)
        if (!(list[i] = arena_string(a, features[i]->name))) return NULL;
    return list;
}

propane_status package_names_legal(arena *a, Coreml__Model *pipeline, package_called *called, propane_error *err) {
    const Coreml__ModelDescription *d = pipeline->description;
    if (d) called->inputs = package_names_list(a, d->n_input, d->input);
    if (d) called->outputs = package_names_list(a, d->n_output, d->output);
    if (d && (!called->inputs || !called->outputs)) return propane_fail_memory(err, 0);
    PROPANE_TRY(package_names_rename_features(pipeline->description, err));
    return package_names_rename_parts(package_wire_pipeline(pipeline), 0, err);
}

static void package_names_call_list(mil_feature *list, int count, const char *const *called) {
    for (int i = 0; called && i < count; i++)
        if (strcmp(list[i].name, called[i]) != 0) list[i].called = called[i];
}

void package_names_call(mil_module *m, const package_called *called) {
    mil_interface *seen = m->package->interface_count ? &m->package->interfaces[0] : NULL;
    if (seen) package_names_call_list(seen->inputs, seen->input_count, called->inputs);
    if (seen) package_names_call_list(seen->outputs, seen->output_count, called->outputs);
}

static void package_names_settle_feature(mil_feature *f, const mil_value *v) {
    const mil_type *type = &v->type;
    const bool number = f->kind == MIL_FEATURE_INT64 || f->kind == MIL_FEATURE_DOUBLE || f->keys;
    if (type->container != MIL_TENSOR ||
        (type->dtype != MIL_fp32 && type->dtype != MIL_fp16 && type->dtype != MIL_int32))
        return;
    if (!number && (f->kind != MIL_FEATURE_ARRAY || f->dtype != MIL_fp64)) return;
    if (number || !f->shape.rank) f->shape = *type;
    f->kind = MIL_FEATURE_ARRAY;
    f->dtype = type->dtype;
}

void package_names_settle(mil_module *m) {
    const mil_function *f = m->functions;
    const mil_interface *seen = m->package->interface_count ? &m->package->interfaces[0] : NULL;
    for (int i = 0; seen && i < f->param_count; i++) {
        mil_feature *feature = mil_feature_find(seen, PROPANE_INPUT, f->params[i]->name);
        if (feature) package_names_settle_feature(feature, f->params[i]);
    }
    for (int i = 0; seen && i < f->result_count; i++) {
        mil_feature *feature = mil_feature_find(seen, PROPANE_OUTPUT, f->results[i]->name);
        if (feature) package_names_settle_feature(feature, f->results[i]);
    }
}
