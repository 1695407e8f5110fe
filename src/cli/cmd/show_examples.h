/* SPDX-License-Identifier: MIT
 * propane show on instruction data: what a model would read of each example and what it would learn.
 */
#ifndef CLI_CMD_SHOW_EXAMPLES_H
#define CLI_CMD_SHOW_EXAMPLES_H

#include "base/status.h"

/* `model` gives tokenizer and chat format; `chat`: another format, or NULL. `json`: ids and marks, an object a line. */
PROPANE_CHECK propane_status show_examples(const char *path, const char *model, const char *chat, bool json,
                                           propane_error *err);

#endif
