/* SPDX-License-Identifier: MIT
 * Token ids as people write them: whole numbers with blanks or commas between them.
 */
#ifndef CLI_IDS_H
#define CLI_IDS_H

#include "model/text/tokenizer.h"

/* `source` names the text in messages; each id must be in 0 .. vocab-1. */
PROPANE_CHECK propane_status ids_parse(const char *data, size_t length, const char *source, int64_t vocab,
                                       token_list *out, propane_error *err);

#endif
