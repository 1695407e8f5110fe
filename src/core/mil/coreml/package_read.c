/* SPDX-License-Identifier: MIT
 * Owns finding a program in any form (mil_read), and reading a model file's description of its program: the inputs,
 * outputs and states that an app sees, and the metadata. Refuses a package whose manifest leads outside it.
 */
#include <limits.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/coreml/package_compiled.h"
#include "core/mil/coreml/package_folder.h"
#include "core/mil/coreml/package_keys.h"
#include "core/mil/coreml/package_names.h"
#include "core/mil/coreml/package_older.h"
#include "core/mil/coreml/package_pipeline.h"
#include "core/mil/coreml/package_program.h"
#include "core/mil/coreml/package_wire.h"
#include "core/mil/ir_edit.h"
#include "core/mil/resolve_shapes.h"
#include "core/mil/text/mil_text.h"

enum { LEAST_VERSION = 6, LAST_VERSION = 9, MAX_MANIFEST = 1 << 24 };

/* ---- features -------------------------------------------------------------------------------------------------------------- */

static propane_status package_read_array_shape(const char *name, size_t count, const int64_t *dims, const char *source,
                                               mil_type *out, propane_error *err) {
    char quoted[80];
    *out = (mil_type){0};
    if (count > MIL_MAX_RANK)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: feature '%s' has %zu dimensions; at most %d are supported",
                            source, text_quote(quoted, name, strlen(name)), count, MIL_MAX_RANK);
    for (size_t i = 0; i < count; i++) out->dim[out->rank++] = dims[i];
    return PROPANE_OK;
}

static mil_dtype package_read_array_dtype(int code) {
    return code == 65552    ? MIL_fp16
           : code == 65568  ? MIL_fp32
           : code == 65600  ? MIL_fp64
           : code == 131104 ? MIL_int32
           : code == 131080 ? MIL_int8
                            : MIL_DTYPE_NONE;
}

/* Reads the default value of an optional input. */
static void package_read_standard(const Coreml__ArrayType *from, mil_feature *f) {
    f->has_standard = from->standard_case != COREML__ARRAY_TYPE__STANDARD__NOT_SET;
    f->standard = from->standard_case == COREML__ARRAY_TYPE__STANDARD_WHOLE  ? from->whole
                  : from->standard_case == COREML__ARRAY_TYPE__STANDARD_REAL ? (double)from->real
                  : f->has_standard                                          ? from->wide
                                                                             : 0;
}

static propane_status package_read_array(arena *a, const Coreml__ArrayType *from, const char *source, mil_feature *f,
                                         propane_error *err) {
    if (!from) return PROPANE_OK;
    f->dtype = package_read_array_dtype(from->data_type);
    if (f->optional) package_read_standard(from, f);
    PROPANE_TRY(package_read_array_shape(f->name, from->n_shape, from->shape, source, &f->shape, err));
    if (from->shapes) {
        f->shapes = ARENA_ARRAY(a, from->shapes->n_shapes + 1, mil_type);
        if (!f->shapes) return propane_fail_memory(err, 0);
        for (size_t i = 0; i < from->shapes->n_shapes; i++) {
            const Coreml__ArrayShape *s = from->shapes->shapes[i];
            PROPANE_TRY(
                package_read_array_shape(f->name, s->n_shape, s->shape, source, &f->shapes[f->shape_count++], err));
        }
    }
    if (from->range && from->range->n_sizes <= MIL_MAX_RANK) {
        f->ranges = ARENA_ARRAY(a, from->range->n_sizes + 1, mil_shape_range);
        if (!f->ranges) return propane_fail_memory(err, 0);
        for (size_t i = 0; i < from->range->n_sizes; i++) {
            const Coreml__SizeRange *s = from->range->sizes[i];
            f->ranges[f->range_count++] =
                (mil_shape_range){s->lower > INT64_MAX ? INT64_MAX : (int64_t)s->lower, s->upper};
        }
    }
    return PROPANE_OK;
}

static propane_status package_read_image(arena *a, const Coreml__ImageType *from, mil_feature *f, propane_error *err) {
    if (!from) return PROPANE_OK;
    f->colour = from->colour;
    f->dtype = from->colour == MIL_GRAY_FP16 ? MIL_fp16 : MIL_uint8;
    f->shape = (mil_type){.rank = 2, .dim = {from->height, from->width}};
    if (from->sizes) {
        f->shapes = ARENA_ARRAY(a, from->sizes->n_sizes + 1, mil_type);
        if (!f->shapes) return propane_fail_memory(err, 0);
        for (size_t i = 0; i < from->sizes->n_sizes; i++) {
            const Coreml__ImageSize *s = from->sizes->sizes[i];
            f->shapes[f->shape_count++] = (mil_type){.rank = 2, .dim = {(int64_t)s->height, (int64_t)s->width}};
        }
    }
    if (from->range && from->range->height && from->range->width) {
        f->ranges = ARENA_ARRAY(a, 2, mil_shape_range);
        if (!f->ranges) return propane_fail_memory(err, 0);
        f->ranges[0] = (mil_shape_range){(int64_t)from->range->height->lower, from->range->height->upper};
        f->ranges[1] = (mil_shape_range){(int64_t)from->range->width->lower, from->range->width->upper};
        f->range_count = 2;
    }
    return PROPANE_OK;
}

static propane_status package_read_feature(arena *a, const Coreml__Feature *from, const char *source, mil_feature *f,
                                           propane_error *err) {
    const Coreml__FeatureType *type = from->type;
    f->name = arena_string(a, from->name);
    f->text = arena_string(a, from->short_description);
    if (!f->name || !f->text) return propane_fail_memory(err, 0);
    if (!type) return PROPANE_OK;
    f->optional = type->is_optional;
    switch (type->kind_case) {
    case COREML__FEATURE_TYPE__KIND_INT64_TYPE: f->kind = MIL_FEATURE_INT64; break;
    case COREML__FEATURE_TYPE__KIND_DOUBLE_TYPE: f->kind = MIL_FEATURE_DOUBLE; break;
    case COREML__FEATURE_TYPE__KIND_STRING_TYPE: f->kind = MIL_FEATURE_STRING; break;
    case COREML__FEATURE_TYPE__KIND_SEQUENCE: f->kind = MIL_FEATURE_SEQUENCE; break;
    case COREML__FEATURE_TYPE__KIND_DICTIONARY:
        f->kind = type->dictionary->key_case == COREML__DICTIONARY_FEATURE__KEY_INT64_KEY ? MIL_FEATURE_DICT_INT64
                                                                                          : MIL_FEATURE_DICT_STRING;
        break;
    case COREML__FEATURE_TYPE__KIND_IMAGE:
        f->kind = MIL_FEATURE_IMAGE;
        return package_read_image(a, type->image, f, err);
    case COREML__FEATURE_TYPE__KIND_ARRAY:
        f->kind = MIL_FEATURE_ARRAY;
        return package_read_array(a, type->array, source, f, err);
    case COREML__FEATURE_TYPE__KIND_STATE:
        f->kind = MIL_FEATURE_STATE;
        return package_read_array(a, type->state->array, source, f, err);
    default: break;
    }
    return PROPANE_OK;
}

static propane_status package_read_features(arena *a, size_t count, Coreml__Feature *const *from, const char *source,
                                            mil_feature **out, int *out_count, propane_error *err) {
    *out = ARENA_ARRAY(a, count + 1, mil_feature);
    if (!*out) return propane_fail_memory(err, count * sizeof **out);
    for (size_t i = 0; i < count; i++) PROPANE_TRY(package_read_feature(a, from[i], source, &(*out)[i], err));
    *out_count = (int)count;
    return PROPANE_OK;
}

static propane_status package_read_interface(arena *a, const Coreml__FunctionDescription *from, const char *source,
                                             mil_interface *out, propane_error *err) {
    out->function = arena_string(a, from->name);
    out->predicted = arena_string(a, from->predicted_feature);
    out->probabilities = arena_string(a, from->predicted_probabilities);
    if (!out->function || !out->predicted || !out->probabilities) return propane_fail_memory(err, 0);
    PROPANE_TRY(package_read_features(a, from->n_input, from->input, source, &out->inputs, &out->input_count, err));
    PROPANE_TRY(package_read_features(a, from->n_output, from->output, source, &out->outputs, &out->output_count, err));
    return package_read_features(a, from->n_state, from->state, source, &out->states, &out->state_count, err);
}

/* Reads the interfaces. A file with one function has its features at the top; a file with several describes each
 * function. */
static propane_status package_read_interfaces(mil_module *m, const Coreml__ModelDescription *d, propane_error *err) {
    struct mil_package *p = m->package;
    p->interfaces = ARENA_ARRAY(m->arena, d->n_functions + 1, mil_interface);
    if (!p->interfaces) return propane_fail_memory(err, 0);
    for (size_t i = 0; i < d->n_functions; i++)
        PROPANE_TRY(
            package_read_interface(m->arena, d->functions[i], m->source, &p->interfaces[p->interface_count++], err));
    if (d->n_functions) {
        if (d->default_function[0]) m->default_function = arena_string(m->arena, d->default_function);
        return !d->default_function[0] || m->default_function ? PROPANE_OK : propane_fail_memory(err, 0);
    }
    char main_name[] = "main";
    Coreml__FunctionDescription only = COREML__FUNCTION_DESCRIPTION__INIT;
    only.name = main_name;
    only.n_input = d->n_input, only.input = d->input;
    only.n_output = d->n_output, only.output = d->output;
    only.n_state = d->n_state, only.state = d->state;
    only.predicted_feature = d->predicted_feature;
    only.predicted_probabilities = d->predicted_probabilities;
    return package_read_interface(m->arena, &only, m->source, &p->interfaces[p->interface_count++], err);
}

static propane_status package_read_metadata(mil_module *m, const Coreml__Metadata *from, propane_error *err) {
    struct mil_package *p = m->package;
    arena *a = m->arena;
    p->text = p->version = p->author = p->license = "";
    if (!from) return PROPANE_OK;
    p->text = arena_string(a, from->short_description);
    p->version = arena_string(a, from->version);
    p->author = arena_string(a, from->author);
    p->license = arena_string(a, from->license);
    p->user = ARENA_ARRAY(a, from->n_user_defined + 1, mil_pair);
    if (!p->text || !p->version || !p->author || !p->license || !p->user) return propane_fail_memory(err, 0);
    for (size_t i = 0; i < from->n_user_defined; i++) {
        mil_pair *pair = &p->user[p->user_count++];
        pair->key = arena_string(a, from->user_defined[i]->key);
        pair->value = arena_string(a, from->user_defined[i]->value);
        if (!pair->key || !pair->value) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

/* ---- pipelines with models of older kinds ------------------------------------------------------------------------------------ */

/* Replaces a part of an older kind by its program, packed like any other part, so that the pipeline can join it. */
static propane_status package_read_older_part(const mil_module *m, Coreml__Model *part, mil_opset opset,
                                              package_keyed **keyed, propane_error *err) {
    static const Coreml__ModelDescription none = COREML__MODEL_DESCRIPTION__INIT;
    mil_module *alone = mil_module_create(m->source);
    uint8_t *packed = NULL;
    size_t bytes = 0;
    Coreml__Model *program = NULL;
    propane_status status = alone ? PROPANE_OK : propane_fail_memory(err, 0);
    if (!status && !(alone->package = ARENA_NEW(alone->arena, struct mil_package)))
        status = propane_fail_memory(err, 0);
    if (!status) status = package_read_metadata(alone, NULL, err);
    if (!status) status = package_read_interfaces(alone, part->description ? part->description : &none, err);
    if (!status) alone->package->spec_version = LEAST_VERSION;
    if (!status) status = package_older_read(alone, part, opset, NULL, err);
    if (!status) status = package_keys_note(m->arena, alone, keyed, err);
    if (!status) status = mil_package_pack(alone, &packed, &bytes, err);
    if (!status) status = package_wire_unpack(packed, bytes, m->source, &program, err);
    if (!status) part->program = program->program, program->program = NULL;
    package_wire_free(program);
    mem_free(packed);
    mil_module_free(alone);
    return status;
}

enum { MAX_NEST = 8 };

/* Returns the opset of the pipeline's first program, or MIL_OPSET_NONE. */
static mil_opset package_read_opset(const Coreml__Pipeline *pipeline, int depth) {
    mil_opset found = MIL_OPSET_NONE;
    for (size_t i = 0; pipeline && depth <= MAX_NEST && i < pipeline->n_models && !found; i++) {
        const Coreml__Program *program = pipeline->models[i]->program;
        const Coreml__FunctionPair *pair = program && program->n_functions ? program->functions[0] : NULL;
        if (pair && pair->value && strncmp(pair->value->opset, "CoreML", 6) == 0 && pair->value->opset[6] >= '5' &&
            pair->value->opset[6] <= '8')
            found = (mil_opset)(MIL_IOS15 + pair->value->opset[6] - '5');
        else
            found = package_read_opset(package_wire_pipeline(pipeline->models[i]), depth + 1);
    }
    return found;
}

/* Adds the name of a pipeline's model to the error message about that model. */
static propane_status package_read_say_part(const mil_module *m, size_t index, const char *name, propane_error *err) {
    char shown[80];
    const size_t length = strlen(m->source);
    if (!err) return PROPANE_ERR_INVALID;
    propane_error said = *err;
    const bool named = strncmp(said.text, m->source, length) == 0 && strncmp(said.text + length, ": ", 2) == 0;
    return propane_fail(err, said.status, "%s: model %zu '%s' of the pipeline: %s", m->source, index + 1,
                        text_quote(shown, name, strlen(name)), named ? said.text + length + 2 : said.text);
}

/* Refuses the first part that cannot be read, rather than a later one that fails because it uses that part's
 * outputs. */
static propane_status package_read_refuse_part(const mil_module *m, const Coreml__Model *part, size_t index,
                                               const char *name, propane_error *err) {
    char shown[80];
    text what = {0};
    if (name[0]) text_printf(&what, "%s: model '%s' of the pipeline", m->source, text_quote(shown, name, strlen(name)));
    if (!name[0]) text_printf(&what, "%s: model '%zu' of the pipeline", m->source, index + 1);
    const propane_status status =
        what.failed ? propane_fail_memory(err, 0) : package_older_refuse(part, what.data, err);
    text_deinit(&what);
    return status;
}

static propane_status package_read_each_older(const mil_module *m, const Coreml__Pipeline *pipeline, mil_opset opset,
                                              int depth, bool *any, package_keyed **keyed, propane_error *err) {
    for (size_t i = 0; pipeline && depth <= MAX_NEST && i < pipeline->n_models; i++) {
        Coreml__Model *part = pipeline->models[i];
        const char *name = i < pipeline->n_names ? pipeline->names[i] : "";
        if (!part->program && !part->suppression && !package_wire_pipeline(part)) {
            if (!package_older_known(part)) return package_read_refuse_part(m, part, i, name, err);
            const propane_status status = package_read_older_part(m, part, opset, keyed, err);
            if (status) return package_read_say_part(m, i, name, err);
            *any = true;
        }
        PROPANE_TRY(package_read_each_older(m, package_wire_pipeline(part), opset, depth + 1, any, keyed, err));
    }
    return PROPANE_OK;
}

static propane_status package_read_older_parts(const mil_module *m, Coreml__Model *model, package_keyed **keyed,
                                               package_called *called, propane_error *err) {
    const Coreml__Pipeline *pipeline = package_wire_pipeline(model);
    const mil_opset opset = package_read_opset(pipeline, 0);
    bool any = false;
    PROPANE_TRY(package_read_each_older(m, pipeline, opset ? opset : MIL_IOS15, 0, &any, keyed, err));
    if (!any) return PROPANE_OK;
    m->package->older = "a pipeline with models of older kinds";
    if (m->package->spec_version < LEAST_VERSION) m->package->spec_version = LEAST_VERSION;
    return package_names_legal(m->arena, model, called, err);
}

/* ---- the model file --------------------------------------------------------------------------------------------------------- */

static propane_status package_read_model(mil_module *m, Coreml__Model *model, const mil_read_options *options,
                                         propane_error *err) {
    static const Coreml__ModelDescription none = COREML__MODEL_DESCRIPTION__INIT;
    m->package = ARENA_NEW(m->arena, struct mil_package);
    if (!m->package) return propane_fail_memory(err, 0);
    m->package->spec_version = model->specification_version;
    /* A pipeline's version may be older than the versions of its programs. */
    const bool pipeline = package_wire_pipeline(model) != NULL;
    if ((model->specification_version < LEAST_VERSION && model->program) || model->specification_version > LAST_VERSION)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: specification version %d is not supported, only ML Programs of versions %d to %d (iOS "
                            "15 to iOS 18): convert with minimum_deployment_target between iOS15 and iOS18",
                            m->source, model->specification_version, LEAST_VERSION, LAST_VERSION);
    const Coreml__ModelDescription *d = model->description ? model->description : &none;
    package_keyed *keyed = NULL;
    package_called called = {0};
    if (pipeline) PROPANE_TRY(package_read_older_parts(m, model, &keyed, &called, err));
    PROPANE_TRY(package_read_metadata(m, d->metadata, err));
    PROPANE_TRY(package_read_interfaces(m, d, err));
    PROPANE_TRY(package_keys_attach(m, keyed, err));
    package_names_call(m, &called);
    PROPANE_TRY(package_keys_take(m, err));
    Coreml__Program *program = model->program;
    if (!program && !pipeline) {
        m->package->spec_version = LEAST_VERSION;
        m->package->older =
            arena_printf(m->arena, "%s, version %d", package_older_name(model), model->specification_version);
        if (!m->package->older) return propane_fail_memory(err, 0);
        PROPANE_TRY(package_older_read(m, model, MIL_IOS15, options, err));
        for (int i = 0; i < m->package->interface_count; i++)
            if (!mil_interface_index(&m->package->interfaces[i])) return propane_fail_memory(err, 0);
        return mil_open_check(m, options, err);
    }
    if (pipeline) PROPANE_TRY(package_pipeline_join(m, model, options, &program, err));
    PROPANE_TRY(package_program_read(m, program, options, err));
    if (pipeline) package_names_settle(m);
    return PROPANE_OK;
}

static propane_status package_read_once(Coreml__Model *model, const char *source, const char *weights,
                                        const mil_read_options *options, mil_module **out, propane_error *err) {
    mil_module *m = mil_module_create(source);
    propane_status status = m ? PROPANE_OK : propane_fail_memory(err, sizeof *m);
    if (!status && weights && !(m->model_dir = arena_string(m->arena, weights))) status = propane_fail_memory(err, 0);
    if (!status) status = package_read_model(m, model, options, err);
    if (!status) *out = m;
    if (status) mil_module_free(m);
    return status;
}

/* Tries other sizes that the file allows for open inputs, because a converter may give such an input a default that
 * fits no run, 1 for every dimension. If none works, the caller reports the original error. */
static propane_status package_read_other_sizes(Coreml__Model *model, const char *source, const char *weights,
                                               const mil_read_options *given, mil_module **out) {
    propane_error ignored = {0};
    bool open = true;
    for (int k = 1; k <= MIL_OTHER_SIZES && open; k++) {
        mil_read_options options = given ? *given : (mil_read_options){0};
        options.other_size = k;
        options.open = &open;
        open = false;
        if (package_read_once(model, source, weights, &options, out, &ignored) == PROPANE_OK) return PROPANE_OK;
    }
    return PROPANE_ERR_INVALID;
}

/* `file` is the name of the model file; `source` is the name of the model, the package. */
static propane_status package_read_parse(const void *data, size_t bytes, const char *file, const char *source,
                                         const char *weights, const mil_read_options *options, mil_module **out,
                                         propane_error *err) {
    Coreml__Model *model = NULL;
    *out = NULL;
    PROPANE_TRY(package_wire_unpack(data, bytes, file, &model, err));
    propane_status status = package_read_once(model, source, weights, options, out, err);
    if (status == PROPANE_ERR_INVALID) {
        propane_error first = err ? *err : (propane_error){0};
        status = package_read_other_sizes(model, source, weights, options, out);
        if (err && status) *err = first;
    }
    package_wire_free(model);
    return status;
}

propane_status mil_package_parse(const void *data, size_t bytes, const char *source, const char *weights,
                                 const mil_read_options *options, mil_module **out, propane_error *err) {
    return package_read_parse(data, bytes, source, source, weights, options, out, err);
}

/* Returns whether the bytes look like a model file, which begins with field 1 (the specification version) or field 2
 * (the description). Text begins with neither byte. */
static bool mil_package_looks_like(const void *data, size_t bytes) {
    const uint8_t *p = data;
    return bytes >= 2 && (p[0] == 0x08 || (p[0] == 0x12 && bytes > 8 && memchr(p, 0, bytes < 512 ? bytes : 512)));
}

static propane_status package_read_model_file(const char *path, const char *source, const mil_read_options *options,
                                              mil_module **out, propane_error *err) {
    file_map map;
    char *folder = mem_copy_string(path);
    if (!folder) return propane_fail_memory(err, strlen(path));
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = 0;
    propane_status status = file_map_open(path, &map, err);
    if (!status) {
        const char *other = map.bytes ? file_disguise(map.data, map.bytes) : "";
        if (*other)
            status = propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no Core ML model%s", path, other);
        else
            status = package_read_parse(map.data, map.bytes, path, source, slash ? folder : ".", options, out, err);
        file_map_close(&map);
    }
    mem_free(folder);
    return status;
}

/* ---- packages --------------------------------------------------------------------------------------------------------------- */

static bool package_read_leaves_package(const char *path) {
    if (path[0] == '/' || !path[0]) return true;
    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.') return true;
        p += part;
        while (*p == '/') p++;
    }
    return false;
}

/* Sets *out to the path of the root model below Data/. */
static propane_status package_read_root_model(const json_t *manifest, const char *source, const char **out,
                                              propane_error *err) {
    const char *root = NULL, *version = NULL;
    if (!json_is_object(manifest)) return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a JSON object", source);
    PROPANE_TRY(json_get_text(manifest, source, "fileFormatVersion", true, &version, err));
    if (version[0] != '1' || version[1] != '.')
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "%s: fileFormatVersion is \"%.20s\"; only 1.x is supported",
                            source, version);
    PROPANE_TRY(json_get_text(manifest, source, "rootModelIdentifier", true, &root, err));
    const json_t *entries = json_object_get(manifest, "itemInfoEntries");
    const json_t *entry = entries ? json_object_get(entries, root) : NULL;
    if (!json_is_object(entry))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: itemInfoEntries has no entry for the root model \"%.60s\"",
                            source, root);
    PROPANE_TRY(json_get_text(entry, source, "path", true, out, err));
    if (package_read_leaves_package(*out))
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the root model's path \"%.100s\" points outside the package",
                            source, *out);
    return PROPANE_OK;
}

static propane_status package_read_package(const char *path, const char *manifest, const mil_read_options *options,
                                           mil_module **out, propane_error *err) {
    json_t *json = NULL;
    const char *inner = NULL;
    text full = {0};
    propane_status status = json_read(manifest, MAX_MANIFEST, &json, err);
    if (!status) status = package_read_root_model(json, manifest, &inner, err);
    if (!status) text_printf(&full, "%s/Data/%s", path, inner);
    if (!status && full.failed) status = propane_fail_memory(err, 0);
    if (!status) status = package_read_model_file(full.data, path, options, out, err);
    text_deinit(&full);
    json_decref(json);
    return status;
}

static propane_status package_read_compiled(const char *path, const char *program, const mil_read_options *options,
                                            mil_module **out, propane_error *err) {
    PROPANE_TRY(mil_parse_file_shaped(program, options, out, err));
    const propane_status status = mil_path_is_coreml(path) ? package_compiled_metadata(*out, path, err) : PROPANE_OK;
    if (!status) return PROPANE_OK;
    mil_module_free(*out);
    *out = NULL;
    return status;
}

static propane_status package_read_folder(const char *path, const mil_read_options *options, mil_module **out,
                                          propane_error *err) {
    text manifest = {0}, program = {0};
    text_printf(&manifest, "%s/Manifest.json", path);
    text_printf(&program, "%s/model.mil", path);
    propane_status status;
    if (manifest.failed || program.failed)
        status = propane_fail_memory(err, 0);
    else if (file_exists(manifest.data))
        status = package_read_package(path, manifest.data, options, out, err);
    else if (file_exists(program.data))
        status = package_read_compiled(path, program.data, options, out, err);
    else if (package_folder_holds(path, "model.espresso.net") || package_folder_holds(path, "neural_network_optionals"))
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                              "%s: a compiled neural network (model.espresso.net), whose format is documented nowhere; "
                              "give the .mlmodel that it was compiled from",
                              path);
    else if (package_folder_holds(path, "coremldata.bin"))
        status = propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                              "%s: a compiled model without model.mil: a pipeline, or not an ML Program; give the "
                              ".mlpackage that it was compiled from",
                              path);
    else
        status =
            propane_fail(err, PROPANE_ERR_INVALID,
                         "%s: a folder with neither Manifest.json (a package) nor model.mil (a compiled model): give "
                         "an .mlpackage, an .mlmodelc of an ML Program, an .mlmodel or a .mil file",
                         path);
    text_deinit(&manifest);
    text_deinit(&program);
    return status;
}

static propane_status package_read_any(const char *path, const mil_read_options *options, mil_module **out,
                                       propane_error *err) {
    file_map map;
    *out = NULL;
    if (file_is_dir(path)) return package_read_folder(path, options, out, err);
    PROPANE_TRY(file_map_open(path, &map, err));
    bool model = mil_package_looks_like(map.data, map.bytes), empty = map.bytes == 0;
    bool readable = model || empty || !memchr(map.data, 0, map.bytes < 512 ? map.bytes : 512);
    file_map_close(&map);
    if (empty) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the file is empty", path);
    if (!readable)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: neither MIL text nor a Core ML model; 'propane convert' turns a language model (GGUF, "
                            "safetensors, llama2.c) into a .mlpackage or .mil",
                            path);
    return model ? package_read_model_file(path, path, options, out, err)
                 : mil_parse_file_shaped(path, options, out, err);
}

bool mil_path_is_coreml(const char *path) {
    if (!file_is_dir(path)) return text_ends_with(path, ".mlmodel");
    return !package_folder_holds(path, "model.mil") || package_folder_holds(path, "coremldata.bin") ||
           text_ends_with(path, ".mlmodelc") || text_ends_with(path, ".mlmodelc/");
}

propane_status mil_read(const char *path, const mil_read_options *options, mil_module **out, propane_error *err) {
    PROPANE_TRY(package_read_any(path, options, out, err));
    (*out)->coreml = mil_path_is_coreml(path);
    return PROPANE_OK;
}
