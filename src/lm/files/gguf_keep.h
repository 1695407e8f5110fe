/* SPDX-License-Identifier: MIT
 * GGUF's blocks as models that are only read keep them (lm/arch/quantize.h): each number is what gguf_quant.h's functions give, to the
 * bit. Private to the gguf_*.c files.
 */
#ifndef LM_FILES_GGUF_KEEP_H
#define LM_FILES_GGUF_KEEP_H

#include "lm/arch/quantize.h"
#include "lm/files/gguf.h"

/* MODEL_UNPACKED: no form holds these; they become fp32. Blocks are those of one row. */
model_packing gguf_keep_form(gguf_type type, int64_t row);
/* Blocks of the file, one after the other, as that form's data and scales. */
void gguf_keep_blocks(gguf_type type, const uint8_t *from, int64_t blocks, void *data, uint16_t *scales);

#endif
