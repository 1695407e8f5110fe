/* SPDX-License-Identifier: MIT
 * Owns the description of a program, as text and as JSON: the package's metadata, and for each function the inputs,
 * outputs, states and classes that an app sees, and the amount of work.
 */
#include <inttypes.h>
#include <string.h>

#include "core/base/text.h"
#include "core/mil/coreml/package.h"
#include "core/mil/ir_edit.h"
#include "core/mil/ops.h"
#include "core/mil/text/mil_text.h"
#include "core/run/public.h"
#include "report/show.h"

enum { LABELS_SHOWN = 5, LABEL_BYTES = 200 };

/* The work of a function: the count of each operation, its FLOPs, and the bytes of its constants. */
typedef struct work {
    int counts[MIL_OP_COUNT];
    double flops, constants;
} work;

static void api_show_program_work(const mil_function *f, work *out) {
    *out = (work){.flops = 0};
    for (const mil_op *op = f->first; op; op = op->next) {
        mil_cost cost;
        out->counts[op->info->code]++;
        if (!f->late || !mil_op_waits(op)) {
            mil_op_cost(op, &cost);
            out->flops += cost.flops;
        }
        if (op->info->code == MIL_OP_const) out->constants += (double)mil_type_bytes(&op->results[0]->type);
    }
}

/* Returns the first systems that read a file of this specification version, or NULL if they are not known. */
static const char *api_show_program_system(int version) {
    static const char *const systems[] = {"iOS 15, macOS 12", "iOS 16, macOS 13", "iOS 17, macOS 14",
                                          "iOS 18, macOS 15"};
    return version >= 6 && version <= 9 ? systems[version - 6] : NULL;
}

/* ---- text --------------------------------------------------------------------------------------------------------------- */

static void api_show_program_put(text *to, const char *s) {
    char shown[600];
    text_harmless(shown, sizeof shown, s, strlen(s), "");
    text_append(to, shown);
}

static void api_show_program_metadata(const mil_module *m, text *to) {
    static const char *const keys[] = {"author", "license", "version", "description"};
    const struct mil_package *p = m->package;
    const char *system = p ? api_show_program_system(p->spec_version) : NULL;
    if (!p) return;
    text_printf(to, "  specification version %d%s%s%s\n", p->spec_version, system ? " (" : "", system ? system : "",
                system ? " and later)" : "");
    if (p->older) text_printf(to, "  the file contains %s, which is read as a program\n", p->older);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = propane_module_metadata(m, keys[i]);
        if (!value) continue;
        text_printf(to, "  %s: ", keys[i]);
        api_show_program_put(to, value);
        text_append(to, "\n");
    }
    for (int i = 0; i < p->user_count; i++) {
        text_append(to, "  ");
        api_show_program_put(to, p->user[i].key);
        text_append(to, " = \"");
        api_show_program_put(to, p->user[i].value);
        text_append(to, "\"\n");
    }
}

/* Prints the allowed dimensions, for example "1 to 8 x 3", if the file leaves some open. */
static void api_show_program_allowed(const propane_feature *f, text *to) {
    bool open = false;
    for (int d = 0; d < f->rank; d++) open |= f->least[d] != f->most[d];
    if (f->shape_count) text_printf(to, "; one of %d shapes", f->shape_count);
    if (!open || f->shape_count) return;
    text_append(to, "; allowed");
    for (int d = 0; d < f->rank; d++) {
        text_printf(to, "%s %" PRId64, d ? " x" : "", f->least[d]);
        if (f->most[d] < 0)
            text_append(to, " or more");
        else if (f->most[d] != f->least[d])
            text_printf(to, " to %" PRId64, f->most[d]);
    }
}

static void api_show_program_labels(const mil_module *m, const mil_function *f, text *to) {
    const int64_t count = propane_module_label_count(m, f->name);
    char label[LABEL_BYTES];
    text_printf(to, ": the best of %" PRId64 " classes", count);
    for (int64_t i = 0; i < count && i < LABELS_SHOWN; i++) {
        (void)propane_module_label(m, f->name, i, label, sizeof label);
        text_append(to, i ? ", " : ": ");
        api_show_program_put(to, label);
    }
    if (count > LABELS_SHOWN) text_append(to, ", ...");
}

static void api_show_program_keys(const mil_module *m, const mil_function *f, const propane_feature *seen, text *to) {
    char key[LABEL_BYTES];
    text_append(to, seen->kind == PROPANE_CATEGORY ? ": text, one of " : ": a dictionary of numbers by ");
    text_printf(to, "%" PRId64 "%s", seen->key_count, seen->kind == PROPANE_CATEGORY ? "" : " keys");
    for (int64_t i = 0; i < seen->key_count && i < LABELS_SHOWN; i++) {
        (void)propane_module_key(m, f->name, seen->name, i, key, sizeof key);
        text_append(to, i ? ", " : ": ");
        api_show_program_put(to, key);
    }
    if (seen->key_count > LABELS_SHOWN) text_append(to, ", ...");
}

static const char *api_show_program_colour(const char *colour) {
    return strcmp(colour, "rgb") == 0    ? "RGB"
           : strcmp(colour, "bgr") == 0  ? "BGR"
           : strcmp(colour, "gray") == 0 ? "gray"
                                         : "gray in fp16";
}

static void api_show_program_feature(const mil_module *m, const mil_function *f, const mil_value *v,
                                     const propane_feature *seen, text *to) {
    char type[160];
    text_printf(to, "%s ", mil_type_print(type, &v->type));
    api_show_program_put(to, v->name);
    if (seen->called) {
        text_append(to, " (in the file: \"");
        api_show_program_put(to, seen->called);
        text_append(to, "\")");
    }
    if (seen->key_count) api_show_program_keys(m, f, seen, to);
    if (seen->kind == PROPANE_IMAGE && seen->rank >= 2)
        text_printf(to, ": an image, %" PRId64 " x %" PRId64 " (width x height), %s", seen->dim[seen->rank - 1],
                    seen->dim[seen->rank - 2], api_show_program_colour(seen->colour));
    if (seen->kind == PROPANE_LABEL) api_show_program_labels(m, f, to);
    if (seen->kind == PROPANE_PROBABILITIES) text_append(to, ": of each class by name");
    api_show_program_allowed(seen, to);
    if (seen->optional) text_append(to, "; optional");
    if (seen->description) {
        text_append(to, "; \"");
        api_show_program_put(to, seen->description);
        text_append(to, "\"");
    }
    text_append(to, "\n");
}

static propane_status api_show_program_features(const mil_module *m, const mil_function *f, propane_role role, text *to,
                                                propane_error *err) {
    static const char *const titles[] = {
        [PROPANE_INPUT] = "input  ", [PROPANE_OUTPUT] = "output ", [PROPANE_STATE] = "state  "};
    const int count = propane_module_feature_count(m, f->name, role);
    for (int i = 0, at = 0; i < count; i++, at++) {
        propane_feature seen = {.size = sizeof seen};
        PROPANE_TRY(propane_module_feature(m, f->name, role, i, &seen, err));
        while (role != PROPANE_OUTPUT && (f->params[at]->type.container == MIL_STATE) != (role == PROPANE_STATE)) at++;
        text_printf(to, "  %s ", i ? "       " : titles[role]);
        api_show_program_feature(m, f, role == PROPANE_OUTPUT ? f->results[i] : f->params[at], &seen, to);
    }
    return PROPANE_OK;
}

static propane_status api_show_program_function(const mil_module *m, const mil_function *f, text *to,
                                                propane_error *err) {
    work w;
    char bytes[32];
    api_show_program_work(f, &w);
    text_printf(to, "func %s<%s>: %d operation%s, %.4g MFLOP, constants %s\n", f->name, mil_opset_name(f->opset),
                f->op_count, text_plural(f->op_count), w.flops / 1e6, text_bytes(bytes, w.constants));
    for (int role = PROPANE_INPUT; role <= PROPANE_STATE; role++)
        PROPANE_TRY(api_show_program_features(m, f, (propane_role)role, to, err));
    if (f->late) text_printf(to, "  dimensions marked ? depend on values and are planned at run time\n");
    text_printf(to, "  ops    ");
    for (int i = 0, shown = 0; i < MIL_OP_COUNT; i++)
        if (w.counts[i]) text_printf(to, "%s%s %d", shown++ ? ", " : " ", mil_op_get((mil_opcode)i)->name, w.counts[i]);
    text_printf(to, "\n");
    return PROPANE_OK;
}

propane_status api_show_program(const char *path, text *to, propane_error *err) {
    mil_module *m = NULL;
    PROPANE_TRY(mil_read(path, &(mil_read_options){.late = true}, &m, err));
    propane_status status = PROPANE_OK;
    text_printf(to, "%s: %sMIL program(%d.%d), %d function%s\n", path, m->package ? "Core ML model, " : "",
                m->version_major, m->version_minor, m->function_count, text_plural(m->function_count));
    api_show_program_metadata(m, to);
    for (int i = 0; i < m->build_info_count; i++)
        text_printf(to, "  %s = \"%s\"\n", m->build_info[i].key, m->build_info[i].value);
    for (const mil_function *f = m->functions; f && !status; f = f->next)
        status = api_show_program_function(m, f, to, err);
    mil_module_free(m);
    return status;
}

/* ---- JSON --------------------------------------------------------------------------------------------------------------- */

static json_t *api_show_program_dimensions(const int64_t *dim, int rank) {
    json_t *list = json_array();
    for (int d = 0; d < rank; d++) json_add(list, dim[d] < 0 ? json_null() : json_integer(dim[d]));
    return list;
}

static json_t *api_show_program_shapes(const mil_module *m, const mil_function *f, const propane_feature *seen) {
    json_t *list = json_array();
    for (int i = 0; i < seen->shape_count; i++) {
        propane_shape shape;
        if (propane_module_shape(m, f->name, seen->name, i, &shape, NULL) == PROPANE_OK)
            json_add(list, api_show_program_dimensions(shape.dim, shape.rank));
    }
    return list;
}

static json_t *api_show_program_keys_json(const mil_module *m, const mil_function *f, const propane_feature *seen) {
    json_t *list = json_array();
    char key[LABEL_BYTES];
    for (int64_t i = 0; i < seen->key_count; i++) {
        (void)propane_module_key(m, f->name, seen->name, i, key, sizeof key);
        json_add(list, json_words(key));
    }
    return list;
}

static json_t *api_show_program_feature_json(const mil_module *m, const mil_function *f, const propane_feature *seen) {
    static const char *const kinds[] = {"array", "image", "label", "probabilities", "category", "dictionary"};
    json_t *o = json_object();
    bool open = false;
    for (int d = 0; d < seen->rank; d++) open |= seen->least[d] != seen->most[d];
    json_put(o, "name", json_words(seen->name));
    json_put(o, "kind", json_string(kinds[seen->kind]));
    json_put(o, "type", json_string(seen->type));
    if (seen->called) json_put(o, "called", json_words(seen->called));
    if (seen->key_count) json_put(o, "keys", api_show_program_keys_json(m, f, seen));
    if (seen->kind != PROPANE_LABEL && seen->kind != PROPANE_PROBABILITIES)
        json_put(o, "shape", api_show_program_dimensions(seen->dim, seen->rank));
    if (seen->kind == PROPANE_IMAGE && seen->rank >= 2) {
        json_put(o, "width", json_integer(seen->dim[seen->rank - 1]));
        json_put(o, "height", json_integer(seen->dim[seen->rank - 2]));
        json_put(o, "colour", json_string(seen->colour));
    }
    if (open) {
        json_put(o, "least", api_show_program_dimensions(seen->least, seen->rank));
        json_put(o, "most", api_show_program_dimensions(seen->most, seen->rank));
    }
    if (seen->shape_count) json_put(o, "shapes", api_show_program_shapes(m, f, seen));
    json_put(o, "optional", json_boolean(seen->optional));
    if (seen->description) json_put(o, "description", json_words(seen->description));
    return o;
}

static json_t *api_show_program_features_json(const mil_module *m, const mil_function *f, propane_role role) {
    json_t *list = json_array();
    const int count = propane_module_feature_count(m, f->name, role);
    for (int i = 0; i < count; i++) {
        propane_feature seen = {.size = sizeof seen};
        if (propane_module_feature(m, f->name, role, i, &seen, NULL) == PROPANE_OK)
            json_add(list, api_show_program_feature_json(m, f, &seen));
    }
    return list;
}

static json_t *api_show_program_function_json(const mil_module *m, const mil_function *f) {
    json_t *o = json_object(), *counts = json_object();
    const int64_t labels = propane_module_label_count(m, f->name);
    work w;
    api_show_program_work(f, &w);
    json_put(o, "name", json_words(f->name));
    json_put(o, "opset", json_string(mil_opset_name(f->opset)));
    json_put(o, "inputs", api_show_program_features_json(m, f, PROPANE_INPUT));
    json_put(o, "outputs", api_show_program_features_json(m, f, PROPANE_OUTPUT));
    json_put(o, "states", api_show_program_features_json(m, f, PROPANE_STATE));
    if (labels) {
        json_t *list = json_array();
        char label[LABEL_BYTES];
        for (int64_t i = 0; i < labels; i++) {
            (void)propane_module_label(m, f->name, i, label, sizeof label);
            json_add(list, json_words(label));
        }
        json_put(o, "classes", list);
    }
    json_put(o, "operations", json_integer(f->op_count));
    json_put(o, "flops", json_real(w.flops));
    json_put(o, "constant_bytes", json_integer((json_int_t)w.constants));
    json_put(o, "open_shapes", json_boolean(f->late));
    for (int i = 0; i < MIL_OP_COUNT; i++)
        if (w.counts[i]) json_put(counts, mil_op_get((mil_opcode)i)->name, json_integer(w.counts[i]));
    json_put(o, "operation_counts", counts);
    return o;
}

static json_t *api_show_program_pairs(const mil_pair *pairs, int count) {
    json_t *o = json_object();
    for (int i = 0; i < count; i++) {
        json_t *key = json_words(pairs[i].key);
        if (key) json_put(o, json_string_value(key), json_words(pairs[i].value));
        json_decref(key);
    }
    return o;
}

json_t *api_show_module_json(const mil_module *m) {
    static const char *const keys[] = {"author", "license", "version", "description"};
    json_t *o = json_object(), *functions = json_array();
    const struct mil_package *p = m->package;
    char version[32];
    snprintf(version, sizeof version, "%d.%d", m->version_major, m->version_minor);
    json_put(o, "mil_version", json_string(version));
    if (p) {
        const char *system = api_show_program_system(p->spec_version);
        json_put(o, "specification_version", json_integer(p->spec_version));
        if (p->older) json_put(o, "older", json_string(p->older));
        if (system) json_put(o, "systems", json_string(system));
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            if (propane_module_metadata(m, keys[i]))
                json_put(o, keys[i], json_words(propane_module_metadata(m, keys[i])));
        json_put(o, "user", api_show_program_pairs(p->user, p->user_count));
    }
    json_put(o, "build_info", api_show_program_pairs(m->build_info, m->build_info_count));
    json_put(o, "default_function", json_words(propane_module_default_function(m)));
    for (const mil_function *f = m->functions; f; f = f->next)
        json_add(functions, api_show_program_function_json(m, f));
    json_put(o, "functions", functions);
    return o;
}
