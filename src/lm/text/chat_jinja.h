/* SPDX-License-Identifier: MIT
 * Chat templates that are none of chat.h's formats, run by Jinja2 in a Python process of its own: "python3" (or what
 * PROPANE_PYTHON names) with the package jinja2. An optional part that is looked for when a model needs it.
 */
#ifndef LM_TEXT_CHAT_JINJA_H
#define LM_TEXT_CHAT_JINJA_H

#include "core/base/json.h"

enum { CHAT_JINJA_END = 64 };

/* A template, what it calls the first and the last token of a sequence, and the date that it writes (NULL or "":
 * today). */
typedef struct chat_jinja {
    const char *text, *bos, *eos, *date;
} chat_jinja;

/* Compiles the template and finds what follows an answer: "<|im_end|>"; "" if that is not known. Takes
 * `talks`, [{"messages", "ask"}, ...]; *texts (may be NULL), the caller's to json_decref, is what the template makes of
 * each: a string, or null where it refuses. Dates in them are none. Without Python or jinja2 PROPANE_ERR_UNSUPPORTED
 * says so; a template that is wrong is PROPANE_ERR_INVALID. Any thread. */
PROPANE_CHECK propane_status chat_jinja_probe(const chat_jinja *c, json_t *talks, char end[CHAT_JINJA_END],
                                              json_t **texts, propane_error *err);
/* Takes `messages`, [{"role", "content"}, ...]; `tools` (may be NULL) stays the caller's. *out, the caller's to
 * json_decref: {"text", "answers"}; answers are pairs of places in the text (bytes), null where the template hides them
 * or `ask` is true: then the prefix of an answer comes last. What the template refuses is
 * PROPANE_ERR_INVALID, one that does not end PROPANE_ERR_LIMIT. Any thread. */
PROPANE_CHECK propane_status chat_jinja_render(const chat_jinja *c, json_t *messages, const json_t *tools, bool ask,
                                               json_t **out, propane_error *err);

#endif
