/* SPDX-License-Identifier: MIT
 * Token files hold a text as ids, ready to be mapped into memory. The header holds the tokenizer's SHA-256, so that a
 * file made with another tokenizer is refused, and a checksum of the ids (docs/formats.md).
 */
#ifndef LM_TEXT_TOKENS_H
#define LM_TEXT_TOKENS_H

#include "core/base/file.h"
#include "lm/text/tokenizer.h"

typedef struct token_file {
    file_map map;
    const void *ids; /* aligned to their size */
    int id_bytes;    /* 2 or 4; little endian */
    int64_t vocab_size;
    int64_t count;
    int64_t text_bytes; /* size of the encoded text */
    char tokenizer_hash[65];
} token_file;

/* Returns whether bytes begin like a token file. */
bool token_file_is(const void *data, size_t length);
/* Returns PROPANE_ERR_INVALID for the content of a file that cannot be meant as text: content of another known kind, or
 * with a zero byte. A web page is accepted. */
PROPANE_CHECK propane_status token_text_check(const char *path, const char *data, size_t length, propane_error *err);
/* Maps a token file. Checks every id against vocab_size, and all ids against the checksum. */
PROPANE_CHECK propane_status token_file_open(const char *path, token_file *out, propane_error *err);
/* `data` (aligned to 4) must outlive the result; `source` is its name in messages. */
PROPANE_CHECK propane_status token_file_parse(const void *data, size_t length, const char *source, token_file *out,
                                              propane_error *err);
void token_file_close(token_file *t);
int32_t token_file_get(const token_file *t, int64_t index);
/* Returns an error that names both files if these tokens were made with another tokenizer. */
PROPANE_CHECK propane_status token_file_check(const token_file *t, const char *path, const tokenizer *maker,
                                              const char *tokenizer_path, propane_error *err);
PROPANE_CHECK propane_status token_file_write(const char *path, const tokenizer *maker, const int32_t *ids,
                                              int64_t count, int64_t text_bytes, propane_error *err);
/* Returns the checksum of the ids' bytes, as the header holds it. */
uint64_t token_file_checksum(const void *data, size_t bytes);

#endif
