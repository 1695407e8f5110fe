/* SPDX-License-Identifier: MIT
 * GGUF's blocks in the forms of read-only models (lm/arch/quantize.h). Each number equals the result of gguf_quant.h's
 * functions, to the bit. Private to the gguf_*.c files.
 */
#ifndef LM_FILES_GGUF_KEEP_H
#define LM_FILES_GGUF_KEEP_H

#include "lm/arch/quantize.h"
#include "lm/files/gguf.h"

/* Returns the form for a type and a row length. MODEL_UNPACKED means that no form holds such rows, so they become
 * fp32; blocks must not span rows. */
model_packing gguf_keep_form(gguf_type type, int64_t row);
/* Converts consecutive blocks of the file to that form's data and scales. */
void gguf_keep_blocks(gguf_type type, const uint8_t *from, int64_t blocks, void *data, uint16_t *scales);

#endif
