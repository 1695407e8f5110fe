/* SPDX-License-Identifier: MIT
 * Token files of other training programs. Those of llm.c have a header of 256 integers of 4 bytes, the first of which
 * is 20240520 for ids of 2 bytes or 20240801 for ids of 4 bytes. Those of nanoGPT (*.bin) have only ids of 2 bytes.
 * Neither format names its tokenizer.
 */
#ifndef LM_DATA_TOKEN_DUMP_H
#define LM_DATA_TOKEN_DUMP_H

#include "lm/text/tokens.h"

/* Returns whether a file's bytes and name match one of these formats. */
bool token_dump_is(const char *path, const void *data, size_t length);
/* Opens such a file as token_file_open does for Propane's own. Returns PROPANE_ERR_INVALID if the tokenizer lacks an id
 * of the file, because the file then belongs to another tokenizer. */
PROPANE_CHECK propane_status token_dump_open(const char *path, const tokenizer *t, token_file *out, propane_error *err);

#endif
