/* SPDX-License-Identifier: MIT
 * Owns inputs given as text or dictionaries. They become an array that holds the number of each key at the key's place.
 */
#include "core/run/session_keys.h"

#include <string.h>

#include "core/base/json.h"
#include "core/base/memory.h"
#include "core/base/text.h"

static const mil_keys *session_keys_of(const session *s, int index) {
    const mil_interface *seen = mil_interface_of(s->module, s->function->name);
    const mil_feature *f = mil_feature_find(seen, PROPANE_INPUT, runner_io(&s->run, index)->name);
    return f ? f->keys : NULL;
}

static propane_status session_keys_unknown(const mil_keys *keys, const char *name, const char *key,
                                           propane_error *err) {
    text list = {0};
    enum { SHOWN = 8 };
    for (int64_t i = 0; i < keys->count && i < SHOWN; i++)
        text_printf(&list, "%s'%s'", i ? ", " : "", TEXT_SHOWN(keys->list[i]));
    if (keys->count > SHOWN) text_printf(&list, ", ... (%lld)", (long long)keys->count);
    const propane_status status =
        list.failed ? propane_fail_memory(err, 0)
                    : propane_fail(err, PROPANE_ERR_INVALID, "input '%s' does not know '%s'; it must be one of: %s",
                                   TEXT_SHOWN(name), TEXT_SHOWN(key), list.data);
    text_deinit(&list);
    return status;
}

/* Fills `out` from the given keys. If a key occurs twice, the last one counts. */
static propane_status session_keys_fill(const mil_keys *keys, const char *name, const char *const *given,
                                        const double *values, int64_t count, float *out, propane_error *err) {
    piece_map map = {0};
    bool done = true;
    int32_t *at = NULL;
    for (int64_t i = 0; i < count && done; i++) {
        done = (at = piece_map_enter(&map, given[i], strlen(given[i]), 0)) != NULL;
        if (done) *at = (int32_t)i;
    }
    bool *used = done ? mem_array((size_t)count + 1, sizeof *used) : NULL;
    for (int64_t i = 0; used && i < keys->count; i++) {
        const int32_t *found = piece_map_find(&map, keys->list[i], strlen(keys->list[i]));
        if (!found) continue;
        out[i] = values ? (float)values[*found] : 1;
        used[*found] = true;
    }
    propane_status status = used ? PROPANE_OK : propane_fail_memory(err, (size_t)count);
    for (int64_t i = 0; used && keys->strict && i < count && !status; i++)
        if (!used[i] && piece_map_index(&map, given[i]) == i) status = session_keys_unknown(keys, name, given[i], err);
    mem_free(used);
    piece_map_deinit(&map);
    return status;
}

propane_status session_put_keys(session *s, const char *name, const char *const *given, const double *values,
                                int64_t count, propane_error *err) {
    const int at = session_find_input(s, name);
    const mil_keys *keys = at >= 0 ? session_keys_of(s, at) : NULL;
    if (at >= 0 && !keys)
        return propane_fail(err, PROPANE_ERR_INVALID, "input '%s' takes an array, not text or a dictionary",
                            TEXT_SHOWN(name));
    if (keys && keys->text && count != 1)
        return propane_fail(err, PROPANE_ERR_INVALID, "input '%s' takes one text, but count is %lld", TEXT_SHOWN(name),
                            (long long)count);
    if (keys && keys->text && values)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "input '%s' takes one text, not a dictionary: values must be NULL", TEXT_SHOWN(name));
    if (keys && !keys->text && !values)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "input '%s' takes a dictionary of numbers, not a text: {\"key\": 1, ...}",
                            TEXT_SHOWN(name));
    session_input in = {.name = name, .array = {.kind = 'f', .size = 4, .rank = 1}};
    in.array.count = in.array.dim[0] = keys ? keys->count : 1;
    float *out = mem_array((size_t)in.array.count, sizeof *out);
    if (!out) return propane_fail_memory(err, (size_t)in.array.count * sizeof *out);
    in.array.data = out;
    propane_status status = keys ? session_keys_fill(keys, name, given, values, count, out, err) : PROPANE_OK;
    if (!status) status = session_put(s, &in, err);
    mem_free(out);
    return status;
}

static propane_status session_put_object(session *s, const char *name, const char *source, json_t *o,
                                         propane_error *err) {
    const size_t count = json_object_size(o);
    const char **keys = mem_array(count + 1, sizeof *keys);
    double *values = mem_array(count + 1, sizeof *values);
    propane_status status = keys && values ? PROPANE_OK : propane_fail_memory(err, count * sizeof *values);
    const char *key;
    json_t *value;
    int64_t done = 0;
    if (!status && !json_is_object(o))
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: it must be an object, {\"key\": number, ...}", source);
    if (!status) json_object_foreach(o, key, value) {
            if (!json_is_number(value)) {
                status = propane_fail(err, PROPANE_ERR_INVALID, "%s: the value of '%s' must be a number", source,
                                      TEXT_SHOWN(key));
                break;
            }
            keys[done] = key;
            values[done++] = json_number_value(value);
        }
    if (!status) status = session_put_keys(s, name, keys, values, done, err);
    mem_free(keys);
    mem_free(values);
    return status;
}

propane_status session_put_words(session *s, const char *name, const char *words, propane_error *err) {
    enum { MOST_BYTES = 1 << 28 };
    const int at = session_find_input(s, name);
    const mil_keys *keys = at >= 0 ? session_keys_of(s, at) : NULL;
    char source[200];
    json_t *o = NULL;
    if (keys && keys->text) return session_put_keys(s, name, &words, NULL, 1, err);
    if (at < 0) return session_put(s, &(session_input){.name = name}, err); /* fails, and lists the inputs */
    if (!keys) {
        session_input in = {.name = name};
        PROPANE_TRY(npy_read(words, &in.array, err));
        const propane_status status = session_put(s, &in, err);
        npy_free(&in.array);
        return status;
    }
    (void)snprintf(source, sizeof source, "input '%s'", TEXT_SHOWN(name));
    if (words[0] == '{')
        PROPANE_TRY(json_parse(words, strlen(words), source, &o, err));
    else if (text_ends_with(words, ".json"))
        PROPANE_TRY(json_read(words, MOST_BYTES, &o, err));
    else
        return propane_fail(
            err, PROPANE_ERR_INVALID,
            "%s: '%s' must be a dictionary, {\"key\": 1, ...}, a .json file with one, or an array (.npy)", source,
            TEXT_SHOWN(words));
    const propane_status status = session_put_object(s, name, source, o, err);
    json_decref(o);
    return status;
}
