/* SPDX-License-Identifier: MIT
 * Owns the names that other programs use for the parts of an example. Roles that no chat format supports are refused,
 * because a conversation without such a turn would be a different one.
 */
#include "lm/data/example_keys.h"

#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

static void example_keys_add(json_t *list, const char *role, json_t *content) {
    json_add(list, json_pack("{s:s, s:o}", "role", role, "content", content));
}

static const char *example_keys_role(const char *from) {
    static const char *const names[][2] = {{"human", "user"},          {"user", "user"},       {"gpt", "assistant"},
                                           {"assistant", "assistant"}, {"model", "assistant"}, {"bot", "assistant"},
                                           {"chatgpt", "assistant"},   {"system", "system"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], from) == 0) return names[i][1];
    return NULL;
}

static const char *example_keys_text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

static propane_status example_keys_turn(const json_t *turn, int number, json_t *out, propane_error *err) {
    const char *from = json_string_value(json_object_get(turn, "from"));
    json_t *value = json_object_get(turn, "value");
    if (!from) from = json_string_value(json_object_get(turn, "role"));
    if (!value) value = json_object_get(turn, "content");
    if (!from || !json_is_string(value))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "turn %d of \"conversations\" must have strings \"from\" and \"value\"", number);
    const char *role = example_keys_role(from);
    if (!role)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "turn %d of \"conversations\" is from '%.40s', not from human, user, gpt, assistant or "
                            "system; remove such examples",
                            number, from);
    example_keys_add(out, role, json_incref(value));
    return PROPANE_OK;
}

static propane_status example_keys_sharegpt(const json_t *object, const json_t *turns, json_t *out,
                                            propane_error *err) {
    if (!json_is_array(turns)) return propane_fail(err, PROPANE_ERR_INVALID, "\"conversations\" must be an array");
    const char *first = example_keys_text(json_array_get(turns, 0), "from");
    if (*example_keys_text(object, "system") && strcmp(first, "system") != 0)
        example_keys_add(out, "system", json_string(example_keys_text(object, "system")));
    for (size_t i = 0; i < json_array_size(turns); i++)
        PROPANE_TRY(example_keys_turn(json_array_get(turns, i), (int)i + 1, out, err));
    return PROPANE_OK;
}

/* Makes the messages of an Alpaca example. The instruction and, on the next line, its input become one message. */
static propane_status example_keys_alpaca(const json_t *object, json_t *out, propane_error *err) {
    const json_t *history = json_object_get(object, "history");
    const char *input = example_keys_text(object, "input");
    text ask = {0};
    if (!json_is_string(json_object_get(object, "instruction")) || !json_is_string(json_object_get(object, "output")))
        return propane_fail(err, PROPANE_ERR_INVALID, "\"instruction\" and \"output\" must be strings");
    if (*example_keys_text(object, "system"))
        example_keys_add(out, "system", json_string(example_keys_text(object, "system")));
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *pair = json_array_get(history, i);
        if (!json_is_string(json_array_get(pair, 0)) || !json_is_string(json_array_get(pair, 1)))
            return propane_fail(err, PROPANE_ERR_INVALID, "\"history\" must be pairs of strings");
        example_keys_add(out, "user", json_incref(json_array_get(pair, 0)));
        example_keys_add(out, "assistant", json_incref(json_array_get(pair, 1)));
    }
    text_printf(&ask, "%s%s%s", example_keys_text(object, "instruction"), *input ? "\n" : "", input);
    if (ask.failed) return propane_fail_memory(err, ask.length);
    example_keys_add(out, "user", json_string(ask.data));
    text_deinit(&ask);
    example_keys_add(out, "assistant", json_incref(json_object_get(object, "output")));
    return PROPANE_OK;
}

propane_status example_keys_messages(const json_t *object, json_t **out, propane_error *err) {
    const json_t *turns = json_object_get(object, "conversations");
    *out = NULL;
    if (!turns && !(json_object_get(object, "instruction") && json_object_get(object, "output"))) return PROPANE_OK;
    json_t *list = json_array();
    propane_status status =
        turns ? example_keys_sharegpt(object, turns, list, err) : example_keys_alpaca(object, list, err);
    if (status == PROPANE_OK)
        *out = list;
    else
        json_decref(list);
    return status;
}
