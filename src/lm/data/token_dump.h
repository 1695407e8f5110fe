/* SPDX-License-Identifier: MIT
 * Token files of other training programs: llm.c's (a header of 256 whole numbers of 4 bytes, the first one 20240520 for
 * ids of 2 bytes or 20240801 for ids of 4) and nanoGPT's (ids of 2 bytes and nothing else, *.bin). Neither names its
 * tokenizer.
 */
#ifndef LM_DATA_TOKEN_DUMP_H
#define LM_DATA_TOKEN_DUMP_H

#include "lm/text/tokens.h"

/* Whether a file's bytes and name are of one of them. */
bool token_dump_is(const char *path, const void *data, size_t length);
/* As token_file_open. Refuses ids that the tokenizer does not have: it is then another one's file. */
PROPANE_CHECK propane_status token_dump_open(const char *path, const tokenizer *t, token_file *out, propane_error *err);

#endif
