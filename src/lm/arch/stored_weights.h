/* SPDX-License-Identifier: MIT
 * Weights in the form of their file, for models that are only read and for frozen models with adapters. A matrix in
 * fp16, bf16 or blocks of few bits (quantize.h) keeps that form; all other tensors are fp32. Such a model has no fp32
 * masters (`data` is NULL) until stored_weights_expand makes them.
 *
 * The code that reads a file declares the registry (model_weights_declare), sets each tensor's `form`, and reserves and
 * fills the memory.
 */
#ifndef LM_ARCH_STORED_WEIGHTS_H
#define LM_ARCH_STORED_WEIGHTS_H

#include "lm/arch/model_tensors.h"

/* Reserves zeroed memory for all tensors in their forms. */
PROPANE_CHECK propane_status stored_weights_reserve(model_weights *w, propane_error *err);

/* Returns the address of a tensor's numbers: fp32, 16-bit numbers, or blocks. Sets *scales, unless `scales` is NULL, to
 * the address of the blocks' scales, or to NULL if the form has none. */
void *stored_weights_at(const model_weights *w, const model_tensor *t, uint16_t **scales);
/* Returns the tensor's fp32 data, stored or as masters, or NULL if the tensor is stored in fewer bits. */
const float *stored_weights_floats(const model_weights *w, const model_tensor *t);
/* Converts elements [first, first + count) to fp32; `first` and `count` are multiples of model_packing_block. */
void stored_weights_read(const model_weights *w, const model_tensor *t, int64_t first, int64_t count, float *out);

/* Moves the weights of `from`, stored or masters, to a model of the same configuration, whose tables may be divided
 * into pieces. `from` receives the previous masters of `to` in exchange. */
void stored_weights_take(model_weights *to, model_weights *from);

/* Returns the name of the first tensor that holds a NaN or an infinity, or NULL if none does. The function reads all
 * weights and is meant for error messages. */
const char *stored_weights_not_finite(const model_weights *w);

/* Makes the fp32 masters unless they exist; any thread may call this. Frees the stored form unless a holder remains. */
PROPANE_CHECK propane_status stored_weights_expand(model_weights *w, propane_error *err);
/* Keeps the stored form until stored_weights_release has been called as often as this function. */
void stored_weights_hold(model_weights *w);
void stored_weights_release(model_weights *w);

#endif
