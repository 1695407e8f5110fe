/* SPDX-License-Identifier: MIT
 * llama2.c checkpoints, version 0: seven int32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len)
 * and fp32 tensors in a fixed order. A negative vocab_size means a separate output head. In the file, the query and key
 * rows of a head are in interleaved pairs. Propane has them in half-split order, so reading and writing permute them.
 */
#ifndef LM_FILES_LLAMA2C_H
#define LM_FILES_LLAMA2C_H

#include "lm/arch/model_tensors.h"

PROPANE_CHECK propane_status llama2c_parse(const void *data, size_t length, const char *source, model_weights **out,
                                           propane_error *err);
PROPANE_CHECK propane_status llama2c_read(const char *path, model_weights **out, propane_error *err);
/* Returns PROPANE_ERR_UNSUPPORTED for a model that the format cannot represent. It represents only a Llama without
 * biases and RoPE scaling, with head_dim hidden_size / heads, rms_norm_eps 1e-5 and rope_theta 10000. */
PROPANE_CHECK propane_status llama2c_write(const model_weights *w, const char *path, propane_error *err);

#endif
