/* SPDX-License-Identifier: MIT
 * Owns the keys of inputs of text and dictionaries. The keys are copied from the model of a pipeline that encodes an
 * input to the pipeline's own input. In a package, the keys are part of the metadata, where an app finds how to encode
 * the input.
 */
#include "core/mil/coreml/package_keys.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"

/* ---- pipelines -------------------------------------------------------------------------------------------------------------- */

static const mil_keys *package_keys_copy(arena *a, const mil_keys *from) {
    mil_keys *to = ARENA_NEW(a, mil_keys);
    if (!to) return NULL;
    *to = *from;
    to->list = ARENA_ARRAY(a, from->count + 1, const char *);
    for (int64_t i = 0; to->list && i < from->count; i++)
        if (!(to->list[i] = arena_string(a, from->list[i]))) return NULL;
    return to->list ? to : NULL;
}

static bool package_keys_equal(const mil_keys *a, const mil_keys *b) {
    bool same = a->text == b->text && a->count == b->count;
    for (int64_t i = 0; same && i < a->count; i++) same = strcmp(a->list[i], b->list[i]) == 0;
    return same;
}

propane_status package_keys_note(arena *a, const mil_module *from, package_keyed **list, propane_error *err) {
    const mil_interface *seen = &from->package->interfaces[0];
    for (int i = 0; i < seen->input_count; i++) {
        const mil_feature *f = &seen->inputs[i];
        if (!f->keys) continue;
        package_keyed *one = ARENA_NEW(a, package_keyed);
        if (!one) return propane_fail_memory(err, 0);
        *one = (package_keyed){arena_string(a, f->name), package_keys_copy(a, f->keys), *list};
        if (!one->name || !one->keys) return propane_fail_memory(err, 0);
        *list = one;
    }
    return PROPANE_OK;
}

propane_status package_keys_attach(mil_module *m, const package_keyed *list, propane_error *err) {
    const mil_interface *seen = m->package->interface_count ? &m->package->interfaces[0] : NULL;
    for (; list; list = list->next) {
        mil_feature *f = mil_feature_find(seen, PROPANE_INPUT, list->name);
        if (!f || (f->kind == MIL_FEATURE_STRING) != list->keys->text) continue;
        if (f->kind != MIL_FEATURE_STRING && f->kind != MIL_FEATURE_DICT_STRING && f->kind != MIL_FEATURE_DICT_INT64)
            continue;
        if (f->keys && !package_keys_equal(f->keys, list->keys))
            return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                                "%s: two models of the pipeline read input '%s' with different lists of keys; an input "
                                "can have one: give the second model its own input",
                                m->source, TEXT_SHOWN(f->name));
        f->keys = list->keys;
    }
    return PROPANE_OK;
}

/* ---- metadata --------------------------------------------------------------------------------------------------------------- */

propane_status package_keys_print(const mil_keys *keys, char **out, propane_error *err) {
    json_t *o = json_object(), *list = json_array();
    json_put(o, "kind", json_words(keys->text ? "text" : "dictionary"));
    json_put(o, "strict", json_boolean(keys->strict));
    for (int64_t i = 0; i < keys->count; i++) json_add(list, json_words(keys->list[i]));
    json_put(o, "keys", list);
    const propane_status status = json_print(o, JSON_COMPACT, out, NULL, err);
    json_decref(o);
    return status;
}

static propane_status package_keys_read(arena *a, const json_t *o, const char *source, mil_keys **out,
                                        propane_error *err) {
    const json_t *list = json_object_get(o, "keys");
    const char *kind = NULL;
    mil_keys *keys = *out = ARENA_NEW(a, mil_keys);
    if (!keys) return propane_fail_memory(err, 0);
    PROPANE_TRY(json_get_text(o, source, "kind", true, &kind, err));
    PROPANE_TRY(json_get_bool(o, source, "strict", true, &keys->strict, err));
    keys->text = strcmp(kind, "text") == 0;
    if (!json_is_array(list) || !json_array_size(list) || (!keys->text && strcmp(kind, "dictionary") != 0))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it must be {\"kind\": \"text\" or \"dictionary\", "
                            "\"strict\": true or false, \"keys\": [...]}",
                            source);
    keys->list = ARENA_ARRAY(a, json_array_size(list) + 1, const char *);
    if (!keys->list) return propane_fail_memory(err, 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *key = json_string_value(json_array_get(list, i));
        if (!key) return propane_fail(err, PROPANE_ERR_INVALID, "%s: key %zu is not text", source, i);
        if (!(keys->list[keys->count++] = arena_string(a, key))) return propane_fail_memory(err, 0);
    }
    return PROPANE_OK;
}

/* Attaches keys to the input `f`. Refuses keys that do not fit, since another tool may have changed the input after the
 * metadata was written. */
static propane_status package_keys_check(mil_feature *f, const mil_keys *keys, const char *source, propane_error *err) {
    char shape[160];
    if (!f) return propane_fail(err, PROPANE_ERR_INVALID, "%s: the model has no input of that name", source);
    if (f->kind != MIL_FEATURE_ARRAY || f->shape.rank != 1 || f->shape.dim[0] != keys->count)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it has %lld keys, but the input is %s; it must be an array [%lld]", source,
                            (long long)keys->count,
                            f->kind == MIL_FEATURE_ARRAY ? text_shape(shape, f->shape.rank, f->shape.dim) : "no array",
                            (long long)keys->count);
    f->keys = keys;
    return PROPANE_OK;
}

static propane_status package_keys_take_one(mil_module *m, const mil_pair *pair, propane_error *err) {
    char source[600];
    const char *name = pair->key + strlen(PACKAGE_KEYS);
    const mil_interface *seen = m->package->interface_count ? &m->package->interfaces[0] : NULL;
    json_t *o = NULL;
    mil_keys *keys = NULL;
    (void)snprintf(source, sizeof source, "%.400s: metadata '" PACKAGE_KEYS "%s'", m->source, TEXT_SHOWN(name));
    PROPANE_TRY(json_parse(pair->value, strlen(pair->value), source, &o, err));
    propane_status status = package_keys_read(m->arena, o, source, &keys, err);
    if (!status) status = package_keys_check(mil_feature_find(seen, PROPANE_INPUT, name), keys, source, err);
    json_decref(o);
    return status;
}

propane_status package_keys_take(mil_module *m, propane_error *err) {
    struct mil_package *p = m->package;
    int kept = 0;
    for (int i = 0; i < p->user_count; i++) {
        if (strncmp(p->user[i].key, PACKAGE_KEYS, strlen(PACKAGE_KEYS)) == 0)
            PROPANE_TRY(package_keys_take_one(m, &p->user[i], err));
        else
            p->user[kept++] = p->user[i];
    }
    p->user_count = kept;
    return PROPANE_OK;
}
