/* SPDX-License-Identifier: MIT
 * The functions that gguf_types.def's rows name: one decodes blocks, one encodes them. Private to the gguf_*.c files.
 */
#ifndef LM_FILES_GGUF_QUANT_H
#define LM_FILES_GGUF_QUANT_H

#include "lm/files/gguf.h"

/* Each processes `blocks` consecutive blocks. */
#define GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_READ(number, NAME, word, block, bytes)                                                                    \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow)                                              \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);                                             \
    void gguf_encode_##word(const float *v, int64_t blocks, uint8_t *out);
#include "lm/files/gguf_types.def"

/* Reads scale and minimum `s` of the eight of Q4_K and Q5_K: six bits each, packed into twelve bytes. */
void gguf_k_scale_min(const uint8_t *packed, int s, uint8_t *scale, uint8_t *min);
/* Returns scale `s` of the 16 of Q3_K, which are packed in the same way; signed. */
int gguf_q3_k_scale(const uint8_t *packed, int s);
/* Returns scale `s` of the eight of IQ4_XS; signed. `b` is the whole block. */
int gguf_iq4_xs_scale(const uint8_t *b, int s);

/* GGUF_BLOCK_Q4_0, GGUF_BYTES_Q4_0, ... */
#define GGUF_KNOWN(number, NAME, block, bytes)                            GGUF_BLOCK_##NAME = block, GGUF_BYTES_##NAME = bytes,
#define GGUF_READ(number, NAME, word, block, bytes)                       GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow) GGUF_KNOWN(number, NAME, block, bytes)
enum {
#include "lm/files/gguf_types.def"
};

#endif
