/* SPDX-License-Identifier: MIT
 * Chat templates that match none of chat.h's formats, run by Jinja2 in a separate Python process: "python3" (or the
 * value of PROPANE_PYTHON) with the package jinja2. It is an optional dependency, looked for when a model needs it.
 */
#ifndef LM_TEXT_CHAT_JINJA_H
#define LM_TEXT_CHAT_JINJA_H

#include "core/base/json.h"

enum { CHAT_JINJA_END = 64 };

/* A template, its names for the first and last token of a sequence, and the date that it writes (NULL or "" means
 * today). */
typedef struct chat_jinja {
    const char *text, *bos, *eos, *date;
} chat_jinja;

/* Compiles the template and finds the text that follows an answer: "<|im_end|>", or "" if that is not known. Consumes
 * `talks`, [{"messages", "ask"}, ...]. *texts (may be NULL), which the caller must json_decref, receives the template's
 * text of each: a string, or null if it refuses. A date in them is replaced by a random text. Returns
 * PROPANE_ERR_UNSUPPORTED if Python or jinja2 is missing, and PROPANE_ERR_INVALID for an invalid template. Any thread
 * may call it. */
PROPANE_CHECK propane_status chat_jinja_probe(const chat_jinja *c, json_t *talks, char end[CHAT_JINJA_END],
                                              json_t **texts, propane_error *err);
/* Consumes `messages`, [{"role", "content"}, ...]; `tools` (may be NULL) still belongs to the caller. *out, which the
 * caller must json_decref, is {"text", "answers"}. answers are pairs of byte positions in the text, or null if the
 * template hides them or `ask` is true, in which case the prefix of an answer comes last. Returns PROPANE_ERR_INVALID
 * if the template refuses, and PROPANE_ERR_LIMIT if it does not end. Any thread may call it. */
PROPANE_CHECK propane_status chat_jinja_render(const chat_jinja *c, json_t *messages, const json_t *tools, bool ask,
                                               json_t **out, propane_error *err);

#endif
