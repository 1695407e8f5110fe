/* SPDX-License-Identifier: MIT
 * Weights in the form of their file, for models that are only read and for those below adapters. A matrix in fp16, bf16
 * or blocks of few bits (quantize.h) keeps that form; everything else is fp32. Such a model has no fp32 masters (`data`
 * is NULL) until they are requested.
 *
 * A reader declares the registry (model_weights_declare), sets each tensor's `form`, reserves the memory and fills it.
 */
#ifndef LM_ARCH_STORED_WEIGHTS_H
#define LM_ARCH_STORED_WEIGHTS_H

#include "lm/arch/model_tensors.h"

/* Reserves zeroed memory for all tensors in their forms. */
PROPANE_CHECK propane_status stored_weights_reserve(model_weights *w, propane_error *err);

/* Returns the address of a tensor's numbers: fp32, 16-bit numbers, or blocks. `scales` (may be NULL) receives that of the blocks' scales. */
void *stored_weights_at(const model_weights *w, const model_tensor *t, uint16_t **scales);
/* Returns fp32 data of a stored model or of masters, or NULL if they are stored in fewer bits. */
const float *stored_weights_floats(const model_weights *w, const model_tensor *t);
/* Converts elements [first, first + count) to fp32; both are multiples of model_packing_block. */
void stored_weights_read(const model_weights *w, const model_tensor *t, int64_t first, int64_t count, float *out);

/* Moves the weights of `from`, stored or not, to a model of the same configuration, whose tables may be divided into
 * pieces. `from` receives the masters of `to` and no longer has weights of its own. */
void stored_weights_take(model_weights *to, model_weights *from);

/* Returns the name of the first tensor that holds a NaN or an infinity, or NULL if none does. It reads all weights and
 * is meant for error messages. */
const char *stored_weights_not_finite(const model_weights *w);

/* Makes the fp32 masters, once; any thread may call it. The stored form is released unless a holder remains. */
PROPANE_CHECK propane_status stored_weights_expand(model_weights *w, propane_error *err);
/* Keeps the stored form in place until the same number of releases. */
void stored_weights_hold(model_weights *w);
void stored_weights_release(model_weights *w);

#endif
