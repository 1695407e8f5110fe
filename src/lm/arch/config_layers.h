/* SPDX-License-Identifier: MIT
 * The part of a configuration in which layers differ, converted between config.json and model_config: windows, RoPE
 * bases, layers without positions, soft caps. Only keys that the architecture's row declares are read and written.
 */
#ifndef LM_ARCH_CONFIG_LAYERS_H
#define LM_ARCH_CONFIG_LAYERS_H

#include "lm/arch/arch.h"

/* Sets the defaults that transformers uses for missing keys. */
void config_layers_default(const model_arch *a, model_config *c);
/* Must be called after the sizes and the RoPE keys have been read. Returns PROPANE_ERR_UNSUPPORTED if a list of layers
 * is not a plain "every N-th layer differs". */
PROPANE_CHECK propane_status config_layers_read(const json_t *object, const model_arch *a, const char *source,
                                                model_config *c, propane_error *err);
PROPANE_CHECK propane_status config_layers_check(const model_config *c, const char *source, propane_error *err);
void config_layers_write(const model_config *c, json_t *object);
bool config_layers_equal(const model_config *a, const model_config *b);

#endif
