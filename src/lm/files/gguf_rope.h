/* SPDX-License-Identifier: MIT
 * RoPE's scaling in GGUF files, and two small helpers for readers of their metadata. Private to src/lm/files/gguf_*.c.
 */
#ifndef LM_FILES_GGUF_ROPE_H
#define LM_FILES_GGUF_ROPE_H

#include "core/base/file.h"
#include "lm/arch/arch.h"
#include "lm/files/gguf.h"

/* Returns "ARCH.KEY". */
const char *gguf_key_in(char out[80], const char *arch, const char *key);
/* Returns the shortest decimal number that rounds to an fp32 value: 1e-5f becomes 1e-5. */
double gguf_short_real(double value);

PROPANE_CHECK propane_status gguf_rope_read(const gguf *g, const char *arch, model_config *c, propane_error *err);
void gguf_rope_put(gguf_header *h, const model_arch *a, const model_config *c);
/* Put the tensors' entries, and, after all others, their data. */
void gguf_rope_put_tensors(gguf_header *h, const model_config *c);
PROPANE_CHECK propane_status gguf_rope_write(file_writer *f, const model_config *c, propane_error *err);

#endif
