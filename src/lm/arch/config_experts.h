/* SPDX-License-Identifier: MIT
 * The part of a configuration that describes the experts of a feed-forward half.
 */
#ifndef LM_ARCH_CONFIG_EXPERTS_H
#define LM_ARCH_CONFIG_EXPERTS_H

#include "lm/arch/arch.h"

/* Sets the values for a new model: 8 experts, 2 of which are chosen and together compute as much as a feed-forward half
 * of `intermediate_size`. */
void config_experts_default(const model_arch *a, model_config *c);
PROPANE_CHECK propane_status config_experts_read(const json_t *object, const model_arch *a, const char *source,
                                                 model_config *c, propane_error *err);
PROPANE_CHECK propane_status config_experts_check(const model_config *c, const char *source, propane_error *err);
void config_experts_write(const model_config *c, json_t *o);
bool config_experts_equal(const model_config *a, const model_config *b);

#endif
