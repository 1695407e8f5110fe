/* SPDX-License-Identifier: MIT
 * A conversation as JSON and as a list of messages.
 */
#ifndef LM_TEXT_CHAT_MESSAGES_H
#define LM_TEXT_CHAT_MESSAGES_H

#include "core/base/arena.h"
#include "core/base/json.h"

typedef struct chat_message {
    const char *role;    /* "system", "user", "assistant"; also "tool", if a template supports it */
    const char *content; /* UTF-8, terminated */
    const json_t *more;  /* the whole message if only a template can write it, otherwise NULL */
    const json_t *whole; /* the message as received, for templates; NULL if it was given as role and content */
} chat_message;

/* Reads the messages of a JSON array [{"role", "content"}, ...], in which content is a string or an array of parts
 * {"type":"text","text"}. The caller must mem_free *out; strings belong to the array, joined parts to `a`. A message
 * with tool calls, or a tool's answer, need not have a content. `more` is set for tool calls, tool answers, and
 * thoughts that are separate from the content. */
PROPANE_CHECK propane_status chat_messages_from_json(const json_t *array, arena *a, chat_message **out, int *count,
                                                     propane_error *err);

/* Returns which of "reasoning_content", "thinking" and "reasoning" holds a message's thought, or NULL if it has
 * none. */
const char *chat_message_thought(const json_t *message);

#endif
