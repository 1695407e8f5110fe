/* SPDX-License-Identifier: MIT
 * How a model talks: which chat format its files ask for. A model's own template decides. A format replaces it
 * only where both write the same.
 */
#ifndef LM_TEXT_CHAT_FIND_H
#define LM_TEXT_CHAT_FIND_H

#include "lm/text/chat.h"

/* How the model in `path` (a folder, or a file in one) talks. In this order: `wanted`, a format's name (NULL: not
 * given); the chat template of tokenizer_config.json or chat_template.jinja beside the model; what special tokens the
 * tokenizer (may be NULL) has; "plain". The template is a format's where its text is known, or where Jinja2 makes the
 * format's text of each of a list of conversations; any other, and any with the format "jinja", is run as it is
 * (chat_jinja.h). Without Jinja2 that cannot be done: PROPANE_ERR_UNSUPPORTED, and the message names --chat.
 * chat_template_deinit what was found. */
PROPANE_CHECK propane_status chat_template_find(const char *path, const tokenizer *t, const char *wanted,
                                                chat_template *out, propane_error *err);

#endif
