/* SPDX-License-Identifier: MIT
 * Owns encoders of categories, vectorizers of dictionaries and mappings of categories as programs. One idea: text and
 * dictionaries are encoded before the program runs (mil_keys), so the program's input is what the encoder would
 * produce. Encoders of numbers become comparisons.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/mil/neural_network/tabular.h"

enum { MOST_KEYS = 1 << 22 };

static void tabular_keys_text(tabular *t, mil_keys *keys, wire_view strings) {
    for (wire_view part; keys->list && wire_each(&strings, 1, &part);) {
        const char *key = arena_string_n(t->b.module->arena, (const char *)part.data, part.bytes);
        if (!key) (void)!propane_fail_memory(&t->b.err, part.bytes);
        keys->list[keys->count++] = key;
    }
}

static void tabular_keys_numbers(tabular *t, mil_keys *keys, wire_view numbers, int room) {
    int64_t *values = mem_array((size_t)room + 1, sizeof *values);
    if (!values) (void)!propane_fail_memory(&t->b.err, (size_t)room * sizeof *values);
    const int count = values ? wire_wholes(numbers, 1, values, room) : 0;
    for (int i = 0; i < count; i++) {
        const char *key = arena_printf(t->b.module->arena, "%lld", (long long)values[i]);
        if (!key) (void)!propane_fail_memory(&t->b.err, 0);
        keys->list[keys->count++] = key;
    }
    mem_free(values);
}

/* Makes the keys of the first input from a list of text or of integers (field 1 of either). */
static void tabular_keys_of(tabular *t, mil_module *m, wire_view strings, wire_view numbers, bool is_text,
                            bool strict) {
    const int texts = wire_count(strings, 1);
    const int64_t most = texts ? texts : (int64_t)numbers.bytes;
    mil_keys *keys = most > MOST_KEYS ? NULL : ARENA_NEW(m->arena, mil_keys);
    if (!keys || !(keys->list = ARENA_ARRAY(m->arena, most + 1, const char *))) {
        (void)!propane_fail(&t->b.err, PROPANE_ERR_LIMIT, "%s: a list of %lld keys; %d is the limit", m->source,
                            (long long)most, MOST_KEYS);
        return;
    }
    keys->text = is_text, keys->strict = strict;
    if (texts)
        tabular_keys_text(t, keys, strings);
    else
        tabular_keys_numbers(t, keys, numbers, (int)most);
    if (!keys->count) tabular_fail(t, "the list of keys is empty");
    m->package->interfaces[0].inputs[0].keys = keys;
}

/* Gives the first input its keys if it is text or a dictionary, and begins the program. */
static bool tabular_keys_begin(tabular *t, mil_module *m, wire_view body, wire_view strings, wire_view numbers,
                               bool strict, mil_opset opset, const mil_read_options *options) {
    const mil_interface *seen = &m->package->interfaces[0];
    const mil_feature_kind kind = seen->input_count ? seen->inputs[0].kind : MIL_FEATURE_NONE;
    const bool keyed = kind == MIL_FEATURE_STRING || kind == MIL_FEATURE_DICT_STRING || kind == MIL_FEATURE_DICT_INT64;
    *t = (tabular){.b = {.module = m}};
    if (keyed) tabular_keys_of(t, m, strings, numbers, kind == MIL_FEATURE_STRING, strict);
    const propane_error said = t->b.err;
    const bool begun = tabular_begin(t, m, body.data, body.bytes, opset, options);
    if (said.status) t->b.err = said;
    return begun && !said.status;
}

propane_status tabular_read_dictionary(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                       const mil_read_options *options, propane_error *err) {
    tabular t;
    bool broken = false;
    wire_view strings, numbers;
    const wire_view body = {data, bytes, &broken};
    (void)wire_part(body, 1, &strings);
    (void)wire_part(body, 2, &numbers);
    const bool begun = tabular_keys_begin(&t, m, body, strings, numbers, false, opset, options);
    t.broken |= broken;
    return tabular_end(&t, begun ? t.in[0] : NULL, err);
}

/* Encodes numbers: element i is 1 if the input equals category i, otherwise 0. */
static mil_value *tabular_equal(tabular *t, wire_view numbers) {
    static const wire_view none = {0};
    mil_value *labels = interface_labels(&t->b, none, numbers);
    const int64_t count = tabular_count(labels);
    double *list = mem_array((size_t)count + 1, sizeof *list);
    if (!list) (void)!propane_fail_memory(&t->b.err, 0);
    if (!labels) tabular_fail(t, "an encoder without categories");
    for (int64_t i = 0; list && i < count; i++) list[i] = (double)mil_const_i64(labels->constant, i);
    mil_value *categories = list ? tabular_list(t, "categories", list, count) : NULL;
    mem_free(list);
    mil_value *y = DO(t, equal, IN("x", t->in[0]), IN("y", categories));
    return y ? mil_build_cast(&t->b, y, MIL_fp32) : NULL;
}

propane_status tabular_read_one_hot(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                    const mil_read_options *options, propane_error *err) {
    tabular t;
    bool broken = false;
    mil_value *y = NULL;
    wire_view strings, numbers;
    const wire_view body = {data, bytes, &broken};
    (void)wire_part(body, 1, &strings);
    (void)wire_part(body, 2, &numbers);
    const bool ignored = wire_whole(body, 11, 0) == 1;
    if (tabular_keys_begin(&t, m, body, strings, numbers, !ignored, opset, options))
        y = t.seen->inputs[0].keys ? t.in[0] : tabular_equal(&t, numbers);
    t.broken |= broken;
    return tabular_end(&t, y, err);
}

/* Maps a text to its number: the product of the encoded text with the numbers, or `standard` if no key matches. */
static mil_value *tabular_mapped(tabular *t, wire_view map, double standard) {
    const mil_keys *keys = t->seen->inputs[0].keys;
    double *list = mem_array((size_t)keys->count + 1, sizeof *list);
    int64_t count = 0;
    if (!list) (void)!propane_fail_memory(&t->b.err, 0);
    for (wire_view pair; list && count < keys->count && wire_each(&map, 1, &pair);)
        list[count++] = (double)wire_whole(pair, 2, 0) - standard;
    mil_value *numbers = list ? tabular_list(t, "numbers", list, count) : NULL;
    mem_free(list);
    mil_value *product = DO(t, mul, IN("x", t->in[0]), IN("y", numbers));
    mil_value *sum = product ? mil_build_reduce(&t->b, MIL_OP_reduce_sum, product, &(int64_t){0}, 1, true) : NULL;
    return DO(t, add, IN("x", sum), IN("y", tabular_real(t, standard)));
}

/* Collects the keys of a map, {1: text} repeated, as a list like those of the other models. */
static bool tabular_map_keys(mil_module *m, wire_view map) {
    const int count = wire_count(map, 1);
    mil_keys *keys = ARENA_NEW(m->arena, mil_keys);
    if (keys) keys->list = ARENA_ARRAY(m->arena, count + 1, const char *);
    if (!keys || !keys->list) return false;
    keys->text = true;
    for (wire_view pair; wire_each(&map, 1, &pair);)
        if (!(keys->list[keys->count++] = wire_text(m->arena, pair, 1))) return false;
    m->package->interfaces[0].inputs[0].keys = keys;
    return true;
}

propane_status tabular_read_mapping(mil_module *m, const uint8_t *data, size_t bytes, mil_opset opset,
                                    const mil_read_options *options, propane_error *err) {
    tabular t = {0};
    bool broken = false;
    mil_value *y = NULL;
    wire_view map;
    const wire_view body = {data, bytes, &broken};
    const mil_interface *seen = &m->package->interfaces[0];
    if (!wire_part(body, 1, &map) || !wire_count(map, 1) || seen->input_count != 1 ||
        seen->inputs[0].kind != MIL_FEATURE_STRING)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: a mapping of numbers to text, which ML Programs cannot give: map the output in the app, "
            "and convert what comes before",
            m->source);
    if (!tabular_map_keys(m, map)) return propane_fail_memory(err, 0);
    if (tabular_begin(&t, m, data, bytes, opset, options))
        y = tabular_mapped(&t, map, (double)wire_whole(body, 102, 0));
    t.broken |= broken;
    return tabular_end(&t, y, err);
}
