/* SPDX-License-Identifier: MIT
 * A whole model as one function, of the layers that exports are made of.
 */
#ifndef TESTS_SUPPORT_WHOLE_MODEL_H
#define TESTS_SUPPORT_WHOLE_MODEL_H

#include "lm/arch/forward.h"

/* Its first parameter is x [B,D,1,S] (embedded tokens). With weights as parameters, each layer's attn and ffn
 * parameters follow with the layer's number appended (attn_norm_weight_L q_proj_L ... ffn_norm_weight_L ...), then
 * those of the head. The result is logits [B,V,1,S]. */
PROPANE_CHECK propane_status whole_model_build(mil_module *m, const char *name, const model_config *c,
                                               const model_build_options *o, mil_function **out, propane_error *err);

#endif
