/* SPDX-License-Identifier: MIT
 * What gguf_types.def's rows name: a function that takes blocks apart and one that makes them. Private to the gguf_*.c
 * files.
 */
#ifndef LM_FILES_GGUF_QUANT_H
#define LM_FILES_GGUF_QUANT_H

#include "lm/files/gguf.h"

/* `blocks` of them, one after the other. */
#define GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_READ(number, NAME, word, block, bytes)                                                                    \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow)                                              \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);                                             \
    void gguf_encode_##word(const float *v, int64_t blocks, uint8_t *out);
#include "lm/files/gguf_types.def"

/* GGUF_BLOCK_Q4_0, GGUF_BYTES_Q4_0, ... */
#define GGUF_KNOWN(number, NAME, block, bytes)                            GGUF_BLOCK_##NAME = block, GGUF_BYTES_##NAME = bytes,
#define GGUF_READ(number, NAME, word, block, bytes)                       GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow) GGUF_KNOWN(number, NAME, block, bytes)
enum {
#include "lm/files/gguf_types.def"
};

#endif
