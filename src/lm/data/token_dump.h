/* SPDX-License-Identifier: MIT
 * Token files of other training programs: llm.c's (a header of 256 4-byte integers, the first one 20240520 for ids of 2
 * bytes or 20240801 for ids of 4) and nanoGPT's (only ids of 2 bytes, *.bin). Neither names its tokenizer.
 */
#ifndef LM_DATA_TOKEN_DUMP_H
#define LM_DATA_TOKEN_DUMP_H

#include "lm/text/tokens.h"

/* Returns whether a file's bytes and name match one of them. */
bool token_dump_is(const char *path, const void *data, size_t length);
/* Like token_file_open. Refuses ids that the tokenizer lacks, because the file then belongs to another one. */
PROPANE_CHECK propane_status token_dump_open(const char *path, const tokenizer *t, token_file *out, propane_error *err);

#endif
