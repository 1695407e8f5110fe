/* SPDX-License-Identifier: MIT
 * Conversations as the text that a model was trained on. A family's chat format is a row of data: the text in front
 * of and behind a message of each role. Beside the text there are the answers' places in it, so that training can learn
 * from the answers alone.
 */
#ifndef LM_TEXT_CHAT_H
#define LM_TEXT_CHAT_H

#include "lm/text/chat_messages.h"
#include "lm/text/tokenizer.h"

typedef struct chat_format chat_format;

int chat_format_count(void);
const chat_format *chat_format_at(int index);
const char *chat_format_name(const chat_format *f); /* "chatml" */
/* PROPANE_ERR_NOT_FOUND lists the names. */
PROPANE_CHECK propane_status chat_format_find(const char *name, const chat_format **out, propane_error *err);
/* Is it the model's own template, run as it is? */
bool chat_format_is_template(const chat_format *f);
/* The format that writes what the template of this SHA-256 (in hexadecimal) does; NULL: not known. */
const chat_format *chat_format_known(const char *sha256);

/* A format with one model's texts for the beginning and the end of a sequence. A copy of it lives as long as the
 * first. */
typedef struct chat_template {
    const chat_format *format;
    char bos[64], eos[64]; /* "" : the model has none */
    char *jinja;           /* the model's template, which the format "jinja" runs (chat_jinja.h); NULL: there is none */
    char *tools;           /* another one, where tools are given; NULL: there is none */
    char end[64];          /* of the format "jinja": what follows its answers */
    char date[11];         /* that it writes, "2026-01-31"; "": now */
} chat_template;

void chat_template_deinit(chat_template *c); /* of what chat_template_find (chat_find.h) found */
/* What ends an answer: "<|im_end|>"; "" in a format without an end (then: eos, or a new turn). */
const char *chat_template_end(const chat_template *c);

/* A part of a text (bytes) or of a list of tokens: [begin, end). */
typedef struct chat_span {
    size_t begin, end;
} chat_span;

typedef struct chat_text {
    text text;
    chat_span *answers; /* of the assistant, what ends it included */
    int answer_count;
} chat_text;
void chat_text_deinit(chat_text *t);
PROPANE_CHECK propane_status chat_text_add_answer(chat_text *t, chat_span answer, propane_error *err);

/* Does what it writes depend on the day? */
bool chat_template_is_dated(const chat_template *c);
/* Whether a model's template writes calls of tools as Propane reads them: <tool_call>{"name",
 * "arguments"}</tool_call>. */
bool chat_template_calls_tools(const chat_template *c);
/* Appends the conversation. `tools` (may be NULL): a list as OpenAI has it; they, and messages with calls, are the
 * model's own template's to write, whatever the format. `ask`: the prefix of an answer comes last, for
 * generation. Unknown roles, a system message that is not the first one, and turns that do not alternate where the
 * format wants it are errors that name the message (from 1). */
PROPANE_CHECK propane_status chat_render(const chat_template *c, const chat_message *messages, int count,
                                         const json_t *tools, bool ask, chat_text *out, propane_error *err);
/* Appends the text's ids; no bos is added, the format has written it. Where the tokenizer does not see special tokens
 * in a text (every kind but hf), bos and eos are put in as ids. `answers` (room for answer_count, or NULL) receives the
 * answers as parts of the list: a token that reaches into an answer belongs to it. */
PROPANE_CHECK propane_status chat_encode(const chat_template *c, const tokenizer *t, const chat_text *from,
                                         token_list *out, chat_span *answers, propane_error *err);

#endif
