/* SPDX-License-Identifier: MIT
 * The part of a configuration that defines RoPE's angles, between config.json and model_config: its base, and the
 * scalings "linear", "llama3" and "longrope". Of longrope contexts up to the original one are done, with the short
 * factors.
 */
#ifndef LM_ARCH_CONFIG_ROPE_H
#define LM_ARCH_CONFIG_ROPE_H

#include "lm/arch/arch.h"

/* After the sizes. A longrope model's max_position_embeddings becomes the original one. */
PROPANE_CHECK propane_status config_rope_read(const json_t *object, const char *source, model_config *c,
                                              propane_error *err);
/* Where rope_original and max_position_embeddings are known: the model is longrope, with what follows from these where
 * files do not tell it. `factor` NAN: by how much contexts grew. */
void config_rope_be_long(model_config *c, double factor);
PROPANE_CHECK propane_status config_rope_check(const model_config *c, const char *source, propane_error *err);
void config_rope_write(const model_config *c, json_t *object);
bool config_rope_equal(const model_config *a, const model_config *b);

#endif
