/* SPDX-License-Identifier: MIT
 * Recomputed activations: the same bits in every plan, weight mode and queue, and much less memory.
 */
#include "core/base/rng.h"
#include "lm/step/step.h"
#include "support/test.h"
#include "train/eval_driver.h"

enum { BATCH = 2, CONTEXT = 8, COUNT = BATCH * CONTEXT, VOCAB = 13 };

static propane_error err;
static int32_t inputs[COUNT], targets[COUNT];

static model_weights *make_weights(const char *adapted, double dropout) {
    model_config c;
    model_weights *w = NULL;
    rng r;
    model_config_default(&c);
    c.hidden_size = 12, c.intermediate_size = 20, c.num_hidden_layers = 6, c.num_attention_heads = 4;
    c.num_key_value_heads = 2, c.head_dim = 4, c.vocab_size = VOCAB, c.max_position_embeddings = 16;
    c.bos_token_id = c.eos_token_id = -1;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 5, 0.5);
    if (adapted) {
        model_lora l = {.rank = 2, .alpha = 4, .dropout = dropout};
        EXPECT_OK(model_lora_choose(&l, &c, adapted, &err));
        EXPECT_OK(model_weights_add_lora(w, &l, &err));
        model_lora_init(w, 9);
        for (int64_t i = 0; i < w->adapter_floats; i++) w->adapter_data[i] += 0.01f * (float)(i % 13);
    }
    rng_init(&r, 21);
    for (int i = 0; i < COUNT; i++)
        inputs[i] = (int32_t)rng_below(&r, VOCAB), targets[i] = (int32_t)rng_below(&r, VOCAB);
    return w;
}

static train_step *make_step(model_weights *w, train_step_options o, bool recompute) {
    train_step *s = NULL;
    o.recompute = recompute;
    o.device = "cpu";
    o.partition.batch = BATCH;
    o.partition.context = CONTEXT;
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    return s;
}

static void check(const char *plan_title, mil_dtype precision, weight_mode weights, bool two_queues,
                  const char *adapted, double dropout) {
    model_weights *w = make_weights(adapted, dropout);
    const train_step_options o = {.partition = {.name = plan_title, .precision = precision},
                                  .weights = weights,
                                  .two_queues = two_queues,
                                  .accumulate = true};
    train_step *kept = make_step(w, o, false), *again = make_step(w, o, true);
    double want = 0, got = 0;
    for (int pass = 0; pass < 2; pass++) { /* the second is added to the first */
        EXPECT_OK(train_step_dropout(kept, 3, &err));
        EXPECT_OK(train_step_dropout(again, 3, &err));
        EXPECT_OK(train_step_batch(kept, inputs, targets, pass == 0, 4, &want, &err));
        EXPECT_OK(train_step_batch(again, inputs, targets, pass == 0, 4, &got, &err));
        EXPECT(want == got);
    }
    for (int i = 0; i < train_step_updated_count(kept); i++) {
        const model_tensor *t = &w->tensors[train_step_updated(kept, i)];
        float *a = mem_array((size_t)t->count, 4), *b = mem_array((size_t)t->count, 4);
        EXPECT(a && b);
        EXPECT_OK(train_step_gradient(kept, train_step_updated(kept, i), a, &err));
        EXPECT_OK(train_step_gradient(again, train_step_updated(kept, i), b, &err));
        EXPECT_MSG(memcmp(a, b, (size_t)t->count * 4) == 0, "%s: the gradient of %s is another", plan_title, t->name);
        mem_free(a);
        mem_free(b);
    }
    EXPECT_OK(train_step_evaluate(again, inputs, targets, NULL, &got, &err));
    EXPECT(want == got);
    size_t most = train_step_activation_bytes(kept), least = train_step_activation_bytes(again);
    EXPECT_MSG(least < most * 65 / 100, "%s: %zu bytes of activations, not recomputing %zu", plan_title, least, most);
    train_step_free(kept);
    train_step_free(again);
    model_weights_free(w);
}

TEST(layer) { check("layer", MIL_fp32, WEIGHT_MODE_INPUTS, false, NULL, 0); }
TEST(six_in_fp16) { check("six", MIL_fp16, WEIGHT_MODE_INPUTS, false, NULL, 0); }
TEST(ten_on_two_queues) { check("ten", MIL_fp32, WEIGHT_MODE_INPUTS, true, NULL, 0); }
TEST(baked) { check("six", MIL_fp32, WEIGHT_MODE_BAKED, false, NULL, 0); }
TEST(packed) { check("layer", MIL_fp32, WEIGHT_MODE_PACKED, false, NULL, 0); }
TEST(adapters_with_dropout) { check("layer", MIL_fp32, WEIGHT_MODE_INPUTS, true, "q_proj,o_proj", 0.2); }

SUITE("train/recompute", T(layer), T(six_in_fp16), T(ten_on_two_queues), T(baked), T(packed), T(adapters_with_dropout))
