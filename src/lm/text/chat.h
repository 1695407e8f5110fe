/* SPDX-License-Identifier: MIT
 * Conversations in the text form on which a model was trained. The chat format of a family of models is a row of data:
 * the text before and after a message of each role. The positions of the answers are returned with the text, so that
 * training can learn only from the answers.
 */
#ifndef LM_TEXT_CHAT_H
#define LM_TEXT_CHAT_H

#include "lm/text/chat_messages.h"
#include "lm/text/tokenizer.h"

typedef struct chat_format chat_format;

int chat_format_count(void);
const chat_format *chat_format_at(int index);
const char *chat_format_name(const chat_format *f); /* "chatml" */
/* Returns PROPANE_ERR_NOT_FOUND, with a list of the names, for an unknown name. */
PROPANE_CHECK propane_status chat_format_find(const char *name, const chat_format **out, propane_error *err);
/* Returns whether the format is the model's own template, which Jinja2 runs. */
bool chat_format_is_template(const chat_format *f);
/* Returns the format that writes the same text as the template with this SHA-256 (in hexadecimal), or NULL if the
 * template is not known. */
const chat_format *chat_format_known(const char *sha256);

/* A format with a model's texts for the beginning and end of a sequence. A copy is valid only as long as the
 * original. */
typedef struct chat_template {
    const chat_format *format;
    char bos[64], eos[64]; /* "" if the model has none */
    char *jinja;           /* the model's template, which the format "jinja" runs (chat_jinja.h), or NULL */
    char *tools;           /* another template, used with tools, or NULL */
    char end[64];          /* for the format "jinja": the text that ends an answer */
    char date[11];         /* date that the template writes, "2026-01-31"; "" means today */
} chat_template;

void chat_template_deinit(chat_template *c); /* frees what chat_template_find (chat_find.h) returned */
/* Returns the text that ends an answer, such as "<|im_end|>" or the model's eos. Returns "" for a format without such a
 * text. */
const char *chat_template_end(const chat_template *c);

/* A part of a text (bytes) or of a list of tokens: [begin, end). */
typedef struct chat_span {
    size_t begin, end;
} chat_span;

typedef struct chat_text {
    text text;
    chat_span *answers; /* the assistant's answers, including the text that ends them */
    int answer_count;
} chat_text;
void chat_text_deinit(chat_text *t);
PROPANE_CHECK propane_status chat_text_add_answer(chat_text *t, chat_span answer, propane_error *err);

/* Returns whether the text that the template writes depends on the date. */
bool chat_template_is_dated(const chat_template *c);
/* Returns whether a model's template writes tool calls in the form that Propane reads: <tool_call>{"name",
 * "arguments"}</tool_call>. */
bool chat_template_calls_tools(const chat_template *c);
/* Appends the conversation to `out`. `tools` (may be NULL) is a list in OpenAI's form. Conversations with tools or tool
 * calls are always written by the model's own template. With `ask`, the text ends with the beginning of an answer, for
 * generation. Returns an error, with the number of the message (from 1), for an unknown role, for a system message that
 * is not the first, and for turns that do not alternate if the format requires it. */
PROPANE_CHECK propane_status chat_render(const chat_template *c, const chat_message *messages, int count,
                                         const json_t *tools, bool ask, chat_text *out, propane_error *err);
/* Appends the text's ids; no bos is added, because the format has written it. Only tokenizers of the hf kind recognise
 * special tokens in a text; for other kinds, bos and eos are inserted as ids. `answers` (room for answer_count, or
 * NULL) receives the answers as ranges of `out`. A token that overlaps an answer belongs to the answer. */
PROPANE_CHECK propane_status chat_encode(const chat_template *c, const tokenizer *t, const chat_text *from,
                                         token_list *out, chat_span *answers, propane_error *err);

#endif
