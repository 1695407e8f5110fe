/* SPDX-License-Identifier: MIT
 * A conversation as JSON and as a list of messages.
 */
#ifndef LM_TEXT_CHAT_MESSAGES_H
#define LM_TEXT_CHAT_MESSAGES_H

#include "core/base/arena.h"
#include "core/base/json.h"

typedef struct chat_message {
    const char *role;    /* "system", "user", "assistant"; "tool" where a template knows it */
    const char *content; /* UTF-8, terminated */
    const json_t *more;  /* the whole message where it says what only a template writes; NULL: it does not */
    const json_t *whole; /* the message as it came, for templates; NULL: it came as role and content */
} chat_message;

/* Messages of a JSON array [{"role", "content"}, ...]: content is a string or an array of parts {"type":"text","text"}.
 * *out is the caller's to mem_free; strings belong to the array, joined parts to `a`. A message with calls of tools, or
 * the answer of one, may have no content. `more`: calls, answers of tools, and thoughts beside the content. */
PROPANE_CHECK propane_status chat_messages_from_json(const json_t *array, arena *a, chat_message **out, int *count,
                                                     propane_error *err);

/* Under which of "reasoning_content", "thinking" and "reasoning" a message has a thought; NULL: it has none. */
const char *chat_message_thought(const json_t *message);

#endif
