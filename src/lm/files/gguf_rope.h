/* SPDX-License-Identifier: MIT
 * RoPE's scaling in GGUF files, and two small helpers for code that reads the metadata. Private to
 * src/lm/files/gguf_*.c.
 */
#ifndef LM_FILES_GGUF_ROPE_H
#define LM_FILES_GGUF_ROPE_H

#include "core/base/file.h"
#include "lm/arch/arch.h"
#include "lm/files/gguf.h"

/* Returns "ARCH.KEY". */
const char *gguf_key_in(char out[80], const char *arch, const char *key);
/* Returns an fp32 value rounded to seven decimal digits, which restores the number that was written: 1e-5f becomes
 * 1e-5. */
double gguf_short_real(double value);

PROPANE_CHECK propane_status gguf_rope_read(const gguf *g, const char *arch, model_config *c, propane_error *err);
void gguf_rope_put(gguf_header *h, const model_arch *a, const model_config *c);
/* gguf_rope_put_tensors declares the tensors of scaling factors after all others, and gguf_rope_write writes their
 * data. */
void gguf_rope_put_tensors(gguf_header *h, const model_config *c);
PROPANE_CHECK propane_status gguf_rope_write(file_writer *f, const model_config *c, propane_error *err);

#endif
