/* SPDX-License-Identifier: MIT
 * Owns conversations in JSON. Parts that only a template can write (tool calls, thoughts) stay JSON. Messages without a
 * role, and contents that are not text, are refused.
 */
#include "lm/text/chat_messages.h"

#include <string.h>

#include "core/base/memory.h"

/* Returns whether a message calls tools or holds a tool's answer. */
static bool chat_has_calls(const json_t *m) {
    const char *role = json_string_value(json_object_get(m, "role"));
    return json_array_size(json_object_get(m, "tool_calls")) > 0 || (role && strcmp(role, "tool") == 0);
}

const char *chat_message_thought(const json_t *message) {
    static const char *const keys[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (json_string_length(json_object_get(message, keys[i])) > 0) return keys[i];
    return NULL;
}

static propane_status chat_content_text(const json_t *m, int message, arena *a, const char **out, propane_error *err) {
    const json_t *content = json_object_get(m, "content");
    *out = json_string_value(content);
    if (*out) return PROPANE_OK;
    const json_t *part;
    size_t i;
    *out = "";
    if ((!content || json_is_null(content)) && chat_has_calls(m)) return PROPANE_OK;
    if (json_is_array(content)) {
        json_array_foreach(content, i, part) {
            const char *type = json_string_value(json_object_get(part, "type")),
                       *piece = json_string_value(json_object_get(part, "text"));
            if (!type || strcmp(type, "text") != 0 || !piece)
                return propane_fail(err, PROPANE_ERR_INVALID, "message %d has a part that is not text", message);
            *out = arena_printf(a, "%s%s", *out, piece);
            if (!*out) return propane_fail_memory(err, strlen(piece));
        }
        return PROPANE_OK;
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "message %d must have a string \"content\"", message);
}

propane_status chat_messages_from_json(const json_t *array, arena *a, chat_message **out, int *count,
                                       propane_error *err) {
    enum { MOST = 100000 };
    size_t n = json_array_size(array);
    *out = NULL;
    *count = 0;
    if (!json_is_array(array) || n == 0 || n > MOST)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "\"messages\" must be an array of 1 to %d objects {\"role\", \"content\"}", MOST);
    chat_message *list = mem_array(n, sizeof *list);
    if (!list) return propane_fail_memory(err, n * sizeof *list);
    propane_status status = PROPANE_OK;
    for (size_t i = 0; i < n && status == PROPANE_OK; i++) {
        const json_t *m = json_array_get(array, i);
        list[i].role = json_string_value(json_object_get(m, "role"));
        if (!list[i].role)
            status = propane_fail(err, PROPANE_ERR_INVALID, "message %d must have a string \"role\"", (int)i + 1);
        else
            status = chat_content_text(m, (int)i + 1, a, &list[i].content, err);
        list[i].whole = m;
        list[i].more = chat_has_calls(m) || chat_message_thought(m) ? m : NULL;
    }
    if (status != PROPANE_OK) {
        mem_free(list);
        return status;
    }
    *out = list;
    *count = (int)n;
    return PROPANE_OK;
}
