/* SPDX-License-Identifier: MIT
 * Converts GGUF's blocks to the forms of models that are only read (lm/arch/quantize.h). Each number has the same bits
 * as the result of gguf_quant.h's functions. Private to the gguf_*.c files.
 */
#ifndef LM_FILES_GGUF_KEEP_H
#define LM_FILES_GGUF_KEEP_H

#include "lm/arch/quantize.h"
#include "lm/files/gguf.h"

/* Returns the form that holds rows of `row` elements of a type, or MODEL_UNPACKED if there is none or if blocks would
 * span rows. Such rows become fp32. */
model_packing gguf_keep_form(gguf_type type, int64_t row);
/* Converts consecutive blocks of the file to the data and scales of this form. */
void gguf_keep_blocks(gguf_type type, const uint8_t *from, int64_t blocks, void *data, uint16_t *scales);

#endif
