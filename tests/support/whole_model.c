/* SPDX-License-Identifier: MIT
 * Owns the tables and masks of a whole model without a cache.
 */
#include "support/whole_model.h"

#include "lm/arch/forward_internal.h"

propane_status whole_model_build(mil_module *m, const char *name, const model_config *c, const model_build_options *o,
                                 mil_function **out, propane_error *err) {
    forward_context x;
    PROPANE_TRY(forward_begin(&x, m, name, c, o, MODEL_ATTN, 0, err));
    mil_value *in = forward_activation(&x), *turn = NULL;
    model_attention all = {.length = o->sequence};
    for (int k = 0; k < model_config_kinds(c); k++) {
        const int64_t layer = model_config_kind_layer(c, k);
        const forward_rope rope = forward_rope_constants(&x, layer, turn);
        turn = rope.turn;
        all.cos[k] = rope.cos, all.sin[k] = rope.sin;
        all.mask[k] = forward_causal_mask(&x, layer);
    }
    mil_build_result(&x.b, forward_named(&x, model_build_layers(&x.b, c, o, &all, in), "logits"));
    return forward_end(&x, out, err);
}
