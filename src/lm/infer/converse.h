/* SPDX-License-Identifier: MIT
 * Conversations with a model: its chat format, and the ids that end an answer or, if the tokenizer has no such id, the
 * strings that end it.
 */
#ifndef LM_INFER_CONVERSE_H
#define LM_INFER_CONVERSE_H

#include "lm/text/chat.h"

enum { INFER_MAX_ENDS = 4 };

typedef struct infer_chat {
    chat_template format;
    int32_t ends[INFER_MAX_ENDS];
    int end_count;
    const char *stops[INFER_MAX_ENDS]; /* owned by the format */
    int stop_count;
} infer_chat;

/* `path` and `wanted` are as in chat_template_find. */
PROPANE_CHECK propane_status infer_chat_open(const char *path, const tokenizer *t, const char *wanted, infer_chat *out,
                                             propane_error *err);
void infer_chat_close(infer_chat *c);
/* Encodes a conversation, followed by the beginning of an answer. A bos is added if the tokenizer has one and the
 * format has not written it. `tools` is as in chat_render. `out` must be empty. */
PROPANE_CHECK propane_status infer_chat_encode(const infer_chat *c, const tokenizer *t, const chat_message *messages,
                                               int count, const json_t *tools, token_list *out, propane_error *err);
/* Encodes a conversation that may be too long. The oldest turns are removed from `messages` until at most `room` ids
 * remain. A turn is a user message and all messages up to the next one; the system message stays. Sets *dropped to the
 * number of removed messages. Returns PROPANE_ERR_LIMIT if the last turn alone is too long. */
PROPANE_CHECK propane_status infer_chat_fit(const infer_chat *c, const tokenizer *t, chat_message *messages, int *count,
                                            int64_t room, token_list *out, int *dropped, propane_error *err);

#endif
