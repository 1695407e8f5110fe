/* SPDX-License-Identifier: MIT
 * Conversations with a model: its chat format, and what ends an answer in it (ids where the tokenizer has them, else
 * text).
 */
#ifndef LM_INFER_CONVERSE_H
#define LM_INFER_CONVERSE_H

#include "lm/text/chat.h"

enum { INFER_MAX_ENDS = 4 };

typedef struct infer_chat {
    chat_template format;
    int32_t ends[INFER_MAX_ENDS];
    int end_count;
    const char *stops[INFER_MAX_ENDS]; /* belong to the format */
    int stop_count;
} infer_chat;

/* `path`, `wanted`: as in chat_template_find. */
PROPANE_CHECK propane_status infer_chat_open(const char *path, const tokenizer *t, const char *wanted, infer_chat *out,
                                             propane_error *err);
void infer_chat_close(infer_chat *c);
/* The ids of a conversation, followed by the prefix of an answer; a bos where the tokenizer wants one and
 * the format has not written it. `tools`: as in chat_render. `out` is empty. */
PROPANE_CHECK propane_status infer_chat_encode(const infer_chat *c, const tokenizer *t, const chat_message *messages,
                                               int count, const json_t *tools, token_list *out, propane_error *err);
/* The same for a conversation that may have grown too long: the oldest turns, each a message of the user and what
 * follows it, are taken out of `messages` until at most `room` ids are left; the system's message stays. *dropped: how
 * many messages went. A last turn that is too long by itself is PROPANE_ERR_LIMIT. */
PROPANE_CHECK propane_status infer_chat_fit(const infer_chat *c, const tokenizer *t, chat_message *messages, int *count,
                                            int64_t room, token_list *out, int *dropped, propane_error *err);

#endif
