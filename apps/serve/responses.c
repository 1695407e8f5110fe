/* SPDX-License-Identifier: MIT
 * Owns the translation of a request to the responses endpoint into a chat request.
 */
#include "apps/serve/responses.h"

#include <stdio.h>
#include <string.h>

static bool responses_refuse(responses_problem *p, const char *key, const char *what) {
    p->key = key;
    snprintf(p->why, sizeof p->why, "%s", what);
    return false;
}

static bool responses_refuse_unsupported(const json_t *body, responses_problem *p) {
    static const char *const keys[] = {"stream",       "tools",  "previous_response_id",
                                       "conversation", "prompt", "background"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *v = json_object_get(body, keys[i]);
        if (!v || json_is_null(v) || json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0)) continue;
        p->unsupported = true;
        p->key = keys[i];
        snprintf(p->why, sizeof p->why,
                 "'%s' is not supported by /v1/responses; leave it out, or use /v1/chat/completions", keys[i]);
        return false;
    }
    const char *type =
        json_string_value(json_object_get(json_object_get(json_object_get(body, "text"), "format"), "type"));
    if (!type || strcmp(type, "text") == 0) return true;
    p->unsupported = true;
    return responses_refuse(p, "text", "'text.format' other than {\"type\": \"text\"} is not supported; leave it out");
}

/* Returns a message's content in the form of a chat. Parts of the types "input_text" and "output_text" become "text".
 * Other parts keep their types, and the chat parser refuses them. */
static json_t *responses_content(const json_t *content) {
    const json_t *part;
    size_t i;
    if (!json_is_array(content)) return json_incref((json_t *)(uintptr_t)content);
    json_t *list = json_array();
    json_array_foreach(content, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const bool text = type && (strcmp(type, "input_text") == 0 || strcmp(type, "output_text") == 0);
        json_add(list, json_pack("{s:s, s:O*}", "type",
                                 text   ? "text"
                                 : type ? type
                                        : "",
                                 "text", json_object_get(part, "text")));
    }
    return list;
}

static bool responses_add_item(json_t *messages, const json_t *item, responses_problem *p) {
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *role = json_string_value(json_object_get(item, "role"));
    const json_t *content = json_object_get(item, "content");
    if (!role || !content || (type && strcmp(type, "message") != 0))
        return responses_refuse(p, "input", "each of the items of 'input' must be a message with 'role' and 'content'");
    json_add(messages, json_pack("{s:s, s:o}", "role", role, "content", responses_content(content)));
    return true;
}

bool responses_read(json_t *body, responses_problem *p) {
    const json_t *input = json_object_get(body, "input"), *item;
    const json_t *instructions = json_object_get(body, "instructions"),
                 *most = json_object_get(body, "max_output_tokens");
    size_t i;
    if (!json_is_object(body)) return responses_refuse(p, NULL, "it must be a JSON object");
    if (!responses_refuse_unsupported(body, p)) return false;
    if (!json_is_string(input) && !(json_is_array(input) && json_array_size(input) > 0))
        return responses_refuse(p, "input", "key 'input' must be a string or a list of messages");
    if (instructions && !json_is_null(instructions) && !json_is_string(instructions))
        return responses_refuse(p, "instructions", "key 'instructions' must be a string");
    if (most && !json_is_null(most) && !(json_is_integer(most) && json_integer_value(most) > 0))
        return responses_refuse(p, "max_output_tokens", "key 'max_output_tokens' must be an integer of at least 1");
    json_t *messages = json_array();
    if (json_is_string(instructions))
        json_add(messages, json_pack("{s:s, s:O}", "role", "system", "content", instructions));
    if (json_is_string(input)) json_add(messages, json_pack("{s:s, s:O}", "role", "user", "content", input));
    json_array_foreach(input, i, item) if (!responses_add_item(messages, item, p)) {
        json_decref(messages);
        return false;
    }
    json_put(body, "messages", messages);
    json_object_del(body, "max_tokens");
    if (most) json_put(body, "max_tokens", json_incref((json_t *)(uintptr_t)most));
    json_object_del(body, "n");
    return true;
}
