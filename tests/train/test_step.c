/* SPDX-License-Identifier: MIT
 * The training step on the cpu driver: against PyTorch in every plan and weight mode, without allocation in a step or
 * growth of memory, and with the same numbers for any number of threads.
 */
#include <stdlib.h>
#include <unistd.h>

#include "core/base/pool.h"
#include "core/base/rng.h"
#include "train/reference.h"

static void check(const char *plan_title, mil_dtype precision, weight_mode weights, bool two_queues, bool accumulate,
                  double tolerance) {
    propane_error err = {0};
    propane_device *d = NULL;
    if (propane_device_open("cpu", &d, &err)) SKIP("there is no cpu driver: %s", err.text);
    propane_device_close(d);
    train_step_options o = {.partition = {.name = plan_title, .precision = precision},
                            .device = "cpu",
                            .weights = weights,
                            .two_queues = two_queues,
                            .accumulate = accumulate};
    reference_check(&o, tolerance);
}

#define CASE(name, plan, precision, weights, queues, accumulate, tolerance)                                            \
    TEST(name) { check(plan, precision, weights, queues, accumulate, tolerance); }
CASE(layer_fp32, "layer", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5)
CASE(six_fp32, "six", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5)
CASE(ten_fp32, "ten", MIL_fp32, WEIGHT_MODE_INPUTS, false, false, 1e-5)
CASE(layer_fp32_baked, "layer", MIL_fp32, WEIGHT_MODE_BAKED, false, false, 1e-5)
CASE(six_fp32_baked, "six", MIL_fp32, WEIGHT_MODE_BAKED, false, false, 1e-5)
CASE(ten_fp32_baked, "ten", MIL_fp32, WEIGHT_MODE_BAKED, false, false, 1e-5)
CASE(layer_fp16, "layer", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2)
CASE(six_fp16, "six", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2)
CASE(ten_fp16, "ten", MIL_fp16, WEIGHT_MODE_INPUTS, false, false, 2e-2)
CASE(layer_fp16_baked, "layer", MIL_fp16, WEIGHT_MODE_BAKED, false, false, 2e-2)
CASE(six_fp16_baked, "six", MIL_fp16, WEIGHT_MODE_BAKED, false, false, 2e-2)
CASE(ten_fp16_baked, "ten", MIL_fp16, WEIGHT_MODE_BAKED, false, false, 2e-2)
CASE(six_fp32_packed, "six", MIL_fp32, WEIGHT_MODE_PACKED, false, false, 1e-5)
CASE(layer_fp32_packed, "layer", MIL_fp32, WEIGHT_MODE_PACKED, true, true, 1e-5)
CASE(ten_fp16_packed, "ten", MIL_fp16, WEIGHT_MODE_PACKED, true, false, 2e-2)
CASE(two_queues, "six", MIL_fp16, WEIGHT_MODE_INPUTS, true, false, 2e-2)
CASE(two_queues_accumulated, "ten", MIL_fp32, WEIGHT_MODE_BAKED, true, true, 1e-5)
CASE(accumulated, "layer", MIL_fp32, WEIGHT_MODE_INPUTS, false, true, 1e-5)

/* Gradients as matrix products on the device (lm/step/gradient_products.h), which are rounded to the programs' type. */
static void check_products(const char *plan_title, mil_dtype precision, bool two_queues, bool accumulate,
                           bool recompute, double tolerance) {
    propane_error err = {0};
    propane_device *d = NULL;
    if (propane_device_open("cpu", &d, &err)) SKIP("there is no cpu driver: %s", err.text);
    propane_device_close(d);
    train_step_options o = {.partition = {.name = plan_title, .precision = precision, .gradients = true},
                            .device = "cpu",
                            .two_queues = two_queues,
                            .recompute = recompute,
                            .accumulate = accumulate};
    reference_check(&o, tolerance);
}

TEST(products_layer_fp32) { check_products("layer", MIL_fp32, false, false, false, 1e-5); } /* observed 9e-7 */
TEST(products_layer_fp16) {
    check_products("layer", MIL_fp16, true, false, false, 8e-3);
} /* observed 3e-3, as on the host */
TEST(products_six_fp16) { check_products("six", MIL_fp16, true, true, false, 8e-3); }
TEST(products_ten_fp16) { check_products("ten", MIL_fp16, false, true, false, 8e-3); }
TEST(products_recomputed) { check_products("layer", MIL_fp32, true, true, true, 1e-5); }

/* ---- a somewhat larger model ------------------------------------------------------------------------------------- */

enum { BATCH = 2, CONTEXT = 40, COUNT = BATCH * CONTEXT };

typedef struct bench {
    model_weights *weights;
    train_step *step;
    int32_t inputs[COUNT], targets[COUNT];
    int64_t steps;
} bench;

static void bench_open(bench *b, const char *plan_title, const char *mode, mil_dtype precision, bool two_queues) {
    propane_error err = {0};
    model_config c;
    rng r;
    memset(b, 0, sizeof *b);
    model_config_default(&c);
    c.hidden_size = 48, c.intermediate_size = 80, c.num_hidden_layers = 3, c.num_attention_heads = 4;
    c.num_key_value_heads = 2, c.head_dim = 12, c.vocab_size = 100, c.max_position_embeddings = 64;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = true;
    EXPECT_OK(model_weights_create(&c, &b->weights, &err));
    model_weights_init(b->weights, 3, 0);
    train_step_options o = {
        .partition = {.name = plan_title, .precision = precision, .batch = BATCH, .context = CONTEXT},
        .device = "cpu",
        .weights = weight_mode_find(mode),
        .two_queues = two_queues,
        .accumulate = true};
    EXPECT_OK(train_step_create(&o, b->weights, &b->step, &err));
    rng_init(&r, 9);
    for (int i = 0; i < COUNT; i++)
        b->inputs[i] = (int32_t)rng_below(&r, 100), b->targets[i] = (b->inputs[i] * 7 + 3) % 100;
}

static void bench_close(bench *b) {
    train_step_free(b->step);
    model_weights_free(b->weights);
}

static double bench_step(bench *b) {
    propane_error err = {0};
    double loss = 0, more = 0, norm = 0;
    EXPECT_OK(train_step_refresh(b->step, &err));
    EXPECT_OK(train_step_batch(b->step, b->inputs, b->targets, true, 256, &loss, &err));
    EXPECT_OK(train_step_batch(b->step, b->targets, b->inputs, false, 256, &more, &err));
    EXPECT_OK(train_step_gradient_norm(b->step, &norm, &err));
    adamw_step how = {.lr = 3e-3,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .gradient_scale = 1.0 / 512,
                      .step = ++b->steps};
    EXPECT_OK(train_step_update(b->step, &how, &err));
    return loss + more;
}

static void no_allocation(bool two_queues) {
    bench b;
    bench_open(&b, two_queues ? "six" : "layer", "inputs", MIL_fp32, two_queues);
    double first = bench_step(&b), last = 0;
    for (int i = 0; i < 49; i++) bench_step(&b);
    (void)test_resident_pages(); /* the code that reads it also becomes resident */
    uint64_t count = mem_alloc_count();
    long grown = 9;
    for (int round = 0; round < 3 && grown > 8;
         round++) { /* the system may reclaim pages and return them; a leak grows each time */
        const long pages = test_resident_pages();
        for (int i = 0; i < 200; i++) last = bench_step(&b);
        grown = pages < 0 ? 0 : test_resident_pages() - pages;
    }
    EXPECT_MSG(mem_alloc_count() == count, "%llu blocks in 200 steps", (unsigned long long)(mem_alloc_count() - count));
    EXPECT_MSG(grown <= 8, "%ld pages more", grown);
    EXPECT_MSG(last < first / 2, "loss %g after %g", last, first);
    bench_close(&b);
}

TEST(a_step_does_not_allocate) { no_allocation(false); }
TEST(a_step_with_two_queues_does_not_allocate) { no_allocation(true); }

static void same_losses(bench *a, bench *b, int steps) {
    for (int i = 0; i < steps; i++) {
        double x = bench_step(a), y = bench_step(b);
        EXPECT_MSG(memcmp(&x, &y, sizeof x) == 0, "step %d: %.17g and %.17g", i, x, y);
    }
    bench_close(a);
    bench_close(b);
}

static void same_as_inputs(const char *plan_title, const char *weights, mil_dtype precision, bool two_queues) {
    bench a, b;
    bench_open(&a, plan_title, "inputs", precision, false);
    bench_open(&b, plan_title, weights, precision, two_queues);
    same_losses(&a, &b, 30);
}

TEST(inputs_and_baked_are_identical_layer) { same_as_inputs("layer", "baked", MIL_fp32, false); }
TEST(inputs_and_baked_are_identical_six) { same_as_inputs("six", "baked", MIL_fp16, false); }
TEST(inputs_and_baked_are_identical_ten) { same_as_inputs("ten", "baked", MIL_fp16, false); }
TEST(inputs_and_packed_are_identical_layer) { same_as_inputs("layer", "packed", MIL_fp32, false); }
TEST(inputs_and_packed_are_identical_six) { same_as_inputs("six", "packed", MIL_fp16, true); }
TEST(inputs_and_packed_are_identical_ten) { same_as_inputs("ten", "packed", MIL_fp16, false); }

TEST(packed_weights_need_one_type) {
    propane_error err = {0};
    bench b;
    bench_open(&b, "six", "inputs", MIL_fp32, false);
    train_step *s = NULL;
    train_step_options o = {.partition = {.name = "layer", .precision = MIL_fp16, .batch = BATCH, .context = CONTEXT},
                            .device = "cpu",
                            .weights = WEIGHT_MODE_PACKED};
    EXPECT_FAIL(train_step_create(&o, b.weights, &s, &err), PROPANE_ERR_UNSUPPORTED, "a packed input has one type");
    bench_close(&b);
}

TEST(one_and_two_queues_are_identical) {
    bench a, b;
    bench_open(&a, "six", "inputs", MIL_fp16, false);
    bench_open(&b, "six", "inputs", MIL_fp16, true);
    same_losses(&a, &b, 30);
}

TEST(does_not_depend_on_threads) {
    propane_error err = {0};
    bench a, b;
    double one[20];
    EXPECT_OK(pool_set_threads(1, &err));
    bench_open(&a, "layer", "inputs", MIL_fp32, false);
    for (int i = 0; i < 20; i++) one[i] = bench_step(&a);
    bench_close(&a);
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    bench_open(&b, "layer", "inputs", MIL_fp32, false);
    for (int i = 0; i < 20; i++) {
        double loss = bench_step(&b);
        EXPECT_MSG(memcmp(&loss, &one[i], sizeof loss) == 0, "step %d: %.17g and %.17g", i, loss, one[i]);
    }
    bench_close(&b);
}

/* The stream in fp16 as well: the engine of an M1 accepts no other type. */
TEST(layer_with_the_stream_in_fp16) {
    for (int two_queues = 0; two_queues < 2; two_queues++) {
        train_step_options o = {.partition = {.name = "layer", .precision = MIL_fp16, .half_stream = true},
                                .device = "cpu",
                                .weights = WEIGHT_MODE_INPUTS,
                                .two_queues = two_queues};
        reference_check(&o, 2e-2);
    }
}

SUITE("train/step", T(layer_with_the_stream_in_fp16), T(layer_fp32), T(six_fp32), T(ten_fp32), T(layer_fp32_baked),
      T(six_fp32_baked), T(ten_fp32_baked), T(layer_fp16), T(six_fp16), T(ten_fp16), T(layer_fp16_baked),
      T(six_fp16_baked), T(ten_fp16_baked), T(two_queues), T(two_queues_accumulated), T(products_layer_fp32),
      T(products_layer_fp16), T(products_six_fp16), T(products_ten_fp16), T(products_recomputed), T(accumulated),
      T(a_step_does_not_allocate), T(a_step_with_two_queues_does_not_allocate), T(inputs_and_baked_are_identical_layer),
      T(inputs_and_baked_are_identical_six), T(inputs_and_baked_are_identical_ten), T(six_fp32_packed),
      T(layer_fp32_packed), T(ten_fp16_packed), T(inputs_and_packed_are_identical_layer),
      T(inputs_and_packed_are_identical_six), T(inputs_and_packed_are_identical_ten), T(packed_weights_need_one_type),
      T(one_and_two_queues_are_identical), T(does_not_depend_on_threads))
