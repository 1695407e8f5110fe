/* SPDX-License-Identifier: MIT
 * The part of a configuration that defines RoPE's angles, converted between config.json and model_config: the base and
 * the scalings "linear", "llama3" and "longrope". For longrope, only contexts up to the original one are supported,
 * with the short factors.
 */
#ifndef LM_ARCH_CONFIG_ROPE_H
#define LM_ARCH_CONFIG_ROPE_H

#include "lm/arch/arch.h"

/* Must be called after the sizes have been read. Sets a longrope model's max_position_embeddings to the original
 * context. */
PROPANE_CHECK propane_status config_rope_read(const json_t *object, const char *source, model_config *c,
                                              propane_error *err);
/* Marks the model as longrope and sets the values that files omit. rope_original and max_position_embeddings must be
 * set before. `factor` is the growth of the context; NAN means the quotient of these two values. */
void config_rope_be_long(model_config *c, double factor);
PROPANE_CHECK propane_status config_rope_check(const model_config *c, const char *source, propane_error *err);
void config_rope_write(const model_config *c, json_t *object);
bool config_rope_equal(const model_config *a, const model_config *b);

#endif
