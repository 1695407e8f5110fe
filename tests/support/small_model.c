/* SPDX-License-Identifier: MIT
 * The models of small_model.h: the default configuration with other sizes.
 */
#include "support/small_model.h"

#include "support/test.h"

model_config small_model_config(const small_model *s) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = s->width;
    c.intermediate_size = s->hidden;
    c.num_hidden_layers = s->layers;
    c.num_attention_heads = s->heads;
    c.num_key_value_heads = s->kv_heads;
    c.head_dim = s->head_dim;
    c.vocab_size = s->vocabulary;
    c.max_position_embeddings = s->positions;
    return c;
}

model_weights *small_model_make(const small_model *s, uint64_t seed, double deviation) {
    propane_error err = {0};
    const model_config c = small_model_config(s);
    model_weights *w = NULL;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, seed, deviation);
    return w;
}
