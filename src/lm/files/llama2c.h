/* SPDX-License-Identifier: MIT
 * llama2.c checkpoints, version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len)
 * and fp32 tensors in a fixed order. A negative vocab_size means a separate output head. Query and key rows are stored
 * in interleaved pairs there and in half-split order here; loading and saving permute them.
 */
#ifndef LM_FILES_LLAMA2C_H
#define LM_FILES_LLAMA2C_H

#include "lm/arch/model_tensors.h"

PROPANE_CHECK propane_status llama2c_parse(const void *data, size_t length, const char *source, model_weights **out,
                                           propane_error *err);
PROPANE_CHECK propane_status llama2c_read(const char *path, model_weights **out, propane_error *err);
/* Refuses what the format cannot represent: head_dim other than hidden_size / heads, rms_norm_eps other than 1e-5,
 * rope_theta other than 10000. */
PROPANE_CHECK propane_status llama2c_write(const model_weights *w, const char *path, propane_error *err);

#endif
