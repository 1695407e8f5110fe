/* SPDX-License-Identifier: MIT
 * Owns the recognition of tool calls in an answer. Anything that is not a complete call stays in the text that the
 * client receives.
 */
#include "apps/serve/tool_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"

#define OPEN  "<tool_call>"
#define CLOSE "</tool_call>"

/* Returns the call in the text between two marks, or NULL if the text is not a call. */
static json_t *tool_call_read(const char *data, size_t length, const char *id) {
    propane_error err;
    json_t *said = NULL, *call = NULL;
    char *arguments = NULL;
    if (json_parse(data, length, "a call of a tool", &said, &err)) return NULL;
    const char *name = json_string_value(json_object_get(said, "name"));
    const json_t *given = json_object_get(said, "arguments");
    if (!given) given = json_object_get(said, "parameters");
    if (name && json_is_object(given) && json_print(given, 0, &arguments, NULL, &err) == PROPANE_OK)
        call = json_pack("{s:s,s:s,s:{s:s,s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                         arguments);
    mem_free(arguments);
    json_decref(said);
    return call;
}

static size_t tool_calls_trimmed(const char *data, size_t length) {
    while (length > 0 && strchr(" \n\r\t", data[length - 1])) length--;
    return length;
}

json_t *serve_tool_calls(text *content, uint64_t seed) {
    json_t *calls = NULL;
    size_t kept = 0;
    const char *at = content->data, *open, *close;
    for (; at && (open = strstr(at, OPEN)) && (close = strstr(open, CLOSE)); at = close + strlen(CLOSE)) {
        char id[48];
        snprintf(id, sizeof id, "call_%016" PRIx64 "_%zu", seed, json_array_size(calls));
        const char *inside = open + strlen(OPEN);
        json_t *call = tool_call_read(inside, (size_t)(close - inside), id);
        const size_t length = (size_t)((call ? open : close + strlen(CLOSE)) - at);
        memmove(content->data + kept, at, length);
        kept += length;
        if (!call) continue;
        kept = tool_calls_trimmed(content->data, kept);
        if (!calls) calls = json_array();
        json_add(calls, call);
    }
    if (!calls) return NULL;
    const size_t rest = content->length - (size_t)(at - content->data);
    memmove(content->data + kept, at, rest);
    content->length = tool_calls_trimmed(content->data, kept + rest);
    content->data[content->length] = 0;
    return calls;
}
