/* SPDX-License-Identifier: MIT
 * Plans, dataflow and step against PyTorch, with every program computed by the slow reference of its operations.
 */
#include <stdlib.h>

#include "core/base/rng.h"
#include "train/eval_driver.h"
#include "train/reference.h"

static void check(const char *plan_title, mil_dtype precision, weight_mode weights, bool two_queues, bool accumulate,
                  double tolerance) {
    train_step_options o = {.partition = {.name = plan_title, .precision = precision},
                            .device = "cpu",
                            .weights = weights,
                            .two_queues = two_queues,
                            .accumulate = accumulate};
    reference_check(&o, tolerance);
}

TEST(layer_fp32) { check("layer", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5); } /* observed 4e-7 */
TEST(six_fp32) { check("six", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5); }
TEST(ten_fp32) { check("ten", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5); }
TEST(layer_fp16) { check("layer", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2); }
TEST(six_fp16) { check("six", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2); }
TEST(ten_fp16) { check("ten", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2); }
TEST(baked) { check("six", MIL_fp32, WEIGHT_MODE_BAKED, false, false, 1e-5); }
TEST(two_queues_six) { check("six", MIL_fp32, WEIGHT_MODE_INPUTS, true, false, 1e-5); }
TEST(two_queues_ten) { check("ten", MIL_fp16, WEIGHT_MODE_INPUTS, true, false, 2e-2); }
TEST(two_queues_accumulated) { check("six", MIL_fp32, WEIGHT_MODE_BAKED, true, true, 1e-5); }
TEST(accumulated) { check("layer", MIL_fp32, WEIGHT_MODE_INPUTS, false, true, 1e-5); }

static void check_products(const char *plan_title, mil_dtype precision, double tolerance) {
    train_step_options o = {.partition = {.name = plan_title, .precision = precision, .gradients = true},
                            .device = "cpu"};
    reference_check(&o, tolerance);
}

TEST(products_on_the_device_layer) { check_products("layer", MIL_fp32, 1e-5); }
TEST(products_on_the_device_six) { check_products("six", MIL_fp16, 2e-2); }

/* ---- finite differences ------------------------------------------------------------------------------------------------ */

enum { FD_BATCH = 2, FD_CONTEXT = 7, FD_COUNT = FD_BATCH * FD_CONTEXT, FD_VOCAB = 11 };

/* Measures the slope of the loss along a random direction of each tensor, from the loss only. fp32 losses limit its
 * accuracy to about 1e-4. */
static void check_slopes(const char *plan_title, bool tied, int heads, int kv_heads) {
    propane_error err = {0};
    model_config c;
    model_weights *w = NULL;
    train_step *s = NULL;
    rng r;
    int32_t inputs[FD_COUNT], targets[FD_COUNT];
    double loss = 0, worst = 0;
    model_config_default(&c);
    c.hidden_size = 10, c.intermediate_size = 14, c.num_hidden_layers = 2, c.num_attention_heads = heads;
    c.num_key_value_heads = kv_heads, c.head_dim = 4, c.vocab_size = FD_VOCAB, c.max_position_embeddings = 16;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = tied;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 5, 0.6);
    rng_init(&r, 21);
    for (int i = 0; i < FD_COUNT; i++)
        inputs[i] = (int32_t)rng_below(&r, FD_VOCAB), targets[i] = (int32_t)rng_below(&r, FD_VOCAB);
    for (int i = 0; i < w->count; i++) /* norm weights other than 1 */
        for (int64_t k = 0; k < w->tensors[i].count && !w->tensors[i].decay; k++)
            model_weights_data(w, &w->tensors[i])[k] += 0.3f * (float)rng_normal(&r);
    train_step_options o = {
        .partition = {.name = plan_title, .precision = MIL_fp32, .batch = FD_BATCH, .context = FD_CONTEXT},
        .device = "cpu"};
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    for (int i = 0; i < w->count; i++) {
        EXPECT_OK(train_step_publish(s, &err));
        EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &loss, &err)); /* evaluations overwrite its gradients */
        const model_tensor *t = &w->tensors[i];
        size_t n = (size_t)t->count;
        float *data = model_weights_data(w, t), *kept = mem_array(n, 4), *way = mem_array(n, 4),
              *gradient = mem_array(n, 4);
        EXPECT(kept && way && gradient);
        memcpy(kept, data, n * 4);
        EXPECT_OK(train_step_gradient(s, i, gradient, &err));
        static const double at[] = {1, -1, 2, -2}; /* fourth order */
        double slope = 0, length = 0, side[4], h = 1e-3;
        for (size_t k = 0; k < n; k++) /* half along the gradient, so that the slope is not small by chance */
            length += (double)gradient[k] * (double)gradient[k];
        for (size_t k = 0; k < n; k++) {
            way[k] = (float)((double)gradient[k] / sqrt(length) + rng_normal(&r) / sqrt((double)n));
            slope += (double)way[k] * (double)gradient[k];
        }
        for (int side_index = 0; side_index < 4; side_index++) {
            for (size_t k = 0; k < n; k++) data[k] = kept[k] + (float)(at[side_index] * h) * way[k];
            EXPECT_OK(train_step_publish(s, &err));
            EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &side[side_index], &err));
        }
        double measured = (8 * (side[0] - side[1]) - (side[2] - side[3])) / (12 * h),
               off = fabs(measured - slope) / fabs(slope);
        worst = fmax(worst, off);
        EXPECT_MSG(off < 1e-3, "%s: slope %.7g, measured %.7g", t->name, slope,
                   measured); /* observed 6e-4 for small slopes */
        memcpy(data, kept, n * 4);
        mem_free(kept), mem_free(way), mem_free(gradient);
    }
    if (getenv("TEST_VERBOSE")) printf("%s: slopes within %.2g\n", plan_title, worst);
    train_step_free(s);
    model_weights_free(w);
}

TEST(slopes_of_a_tied_model) { check_slopes("layer", true, 2, 2); }
TEST(slopes_of_grouped_queries) { check_slopes("ten", false, 4, 2); }
TEST(slopes_of_one_key_head_tied) { check_slopes("six", true, 4, 1); }

SUITE("train/step_truth", T(layer_fp32), T(six_fp32), T(ten_fp32), T(layer_fp16), T(six_fp16), T(ten_fp16), T(baked),
      T(two_queues_six), T(two_queues_ten), T(two_queues_accumulated), T(accumulated), T(products_on_the_device_layer),
      T(products_on_the_device_six), T(slopes_of_a_tied_model), T(slopes_of_grouped_queries),
      T(slopes_of_one_key_head_tied))
