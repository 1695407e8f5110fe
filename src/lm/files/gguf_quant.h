/* SPDX-License-Identifier: MIT
 * The functions that the rows of gguf_types.def name, which decode and encode blocks. Private to the gguf_*.c files.
 */
#ifndef LM_FILES_GGUF_QUANT_H
#define LM_FILES_GGUF_QUANT_H

#include "lm/files/gguf.h"

/* Each function processes `blocks` consecutive blocks. */
#define GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_READ(number, NAME, word, block, bytes)                                                                    \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow)                                              \
    void gguf_decode_##word(const uint8_t *b, int64_t blocks, float *out);                                             \
    void gguf_encode_##word(const float *v, int64_t blocks, uint8_t *out);
#include "lm/files/gguf_types.def"

/* Reads scale and minimum number `s` of a Q4_K or Q5_K block. Its eight scales and eight minima have six bits each and
 * are packed into twelve bytes. */
void gguf_k_scale_min(const uint8_t *packed, int s, uint8_t *scale, uint8_t *min);
/* Returns the signed scale number `s` of a Q3_K block. Its 16 scales have six bits each and are packed into twelve
 * bytes. */
int gguf_q3_k_scale(const uint8_t *packed, int s);
/* Returns the signed scale number `s` of the eight scales of the IQ4_XS block `b`. */
int gguf_iq4_xs_scale(const uint8_t *b, int s);

/* GGUF_BLOCK_Q4_0, GGUF_BYTES_Q4_0, ... */
#define GGUF_KNOWN(number, NAME, block, bytes)                            GGUF_BLOCK_##NAME = block, GGUF_BYTES_##NAME = bytes,
#define GGUF_READ(number, NAME, word, block, bytes)                       GGUF_KNOWN(number, NAME, block, bytes)
#define GGUF_WRITTEN(number, NAME, word, block, bytes, file_type, narrow) GGUF_KNOWN(number, NAME, block, bytes)
enum {
#include "lm/files/gguf_types.def"
};

#endif
