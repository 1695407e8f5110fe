/* SPDX-License-Identifier: MIT
 * Chat templates that match none of chat.h's formats, run by Jinja2 in a separate Python process: "python3" (or the
 * value of PROPANE_PYTHON) with the package jinja2. Python is an optional dependency, which is looked for when a model
 * needs it.
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
 * `talks`, [{"messages", "ask"}, ...]. Sets *texts (`texts` may be NULL), which the caller must json_decref, to the
 * template's text of each conversation: a string, or null if the template refuses it. A date in these texts is replaced
 * by a random text. Returns PROPANE_ERR_UNSUPPORTED if Python or jinja2 is missing, and PROPANE_ERR_INVALID for an
 * invalid template. Any thread may call it. */
PROPANE_CHECK propane_status chat_jinja_probe(const chat_jinja *c, json_t *talks, char end[CHAT_JINJA_END],
                                              json_t **texts, propane_error *err);
/* Consumes `messages`, [{"role", "content"}, ...]; `tools` (may be NULL) still belongs to the caller. Sets *out, which
 * the caller must json_decref, to {"text", "answers"}. "answers" are pairs of byte positions in the text, or null if
 * the template hides the answers. With `ask`, the text ends with the beginning of an answer, and "answers" is null.
 * Returns PROPANE_ERR_INVALID if the template refuses, and PROPANE_ERR_LIMIT if it does not end. Any thread may call
 * it. */
PROPANE_CHECK propane_status chat_jinja_render(const chat_jinja *c, json_t *messages, const json_t *tools, bool ask,
                                               json_t **out, propane_error *err);

#endif
