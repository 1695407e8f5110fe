/* SPDX-License-Identifier: MIT
 * The choice of a model's chat format from its files. The model's own template decides, and a built-in format replaces
 * it only if both write the same text.
 */
#ifndef LM_TEXT_CHAT_FIND_H
#define LM_TEXT_CHAT_FIND_H

#include "lm/text/chat.h"

/* Finds the chat format of the model in `path` (a folder, or a file in one). The first of these decides: the format
 * `wanted` (NULL if none is given); the format that the tokenizer's files name; the chat template in
 * tokenizer_config.json or chat_template.jinja next to the model; the special tokens of the tokenizer (may be NULL);
 * "plain". A format replaces a template whose text is known, or for which Jinja2 produces the format's text in each of
 * a list of conversations. Any other template, and every template with the format "jinja", is run (chat_jinja.h).
 * Without Jinja2, this returns PROPANE_ERR_UNSUPPORTED, and the message names --chat. The caller releases the result
 * with chat_template_deinit. */
PROPANE_CHECK propane_status chat_template_find(const char *path, const tokenizer *t, const char *wanted,
                                                chat_template *out, propane_error *err);

#endif
