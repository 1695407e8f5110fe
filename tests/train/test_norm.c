/* SPDX-License-Identifier: MIT
 * The norm of all gradients, with squares that the kernels compute. It equals the norm from the gradients themselves,
 * for all plans, precisions, several batches per step, heads in pieces, frozen tensors, and adapters. If the squares
 * cannot be used (values beyond fp32, gradients to which other ranks add), the gradients are read.
 *
 * Bound for computed squares: 2e-7 of the norm, because a tensor's sum is rounded to fp32. Observed: 2.4e-9. A norm
 * from the gradients themselves has an error below 1e-13, which shows which of the two it was.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "lm/step/step.h"
#include "support/test.h"

enum { BATCH = 2, CONTEXT = 32, COUNT = BATCH * CONTEXT, VOCAB = 160, PIECE = 40 };

typedef struct setting {
    const char *plan, *device;
    mil_dtype precision;
    bool bf16, accumulate, tied, frozen, two_queues;
    weight_mode weights;
    int64_t piece, rank;
    double scale;    /* factor of the loss; 0 means 1 */
    int64_t squares; /* as in partition_options */
} setting;

typedef struct bench {
    setting how;
    model_weights *weights;
    train_step *step;
    int32_t inputs[COUNT], targets[COUNT];
} bench;

static propane_error err;

static void open_bench(bench *b, const setting *how) {
    model_config c;
    rng r;
    memset(b, 0, sizeof *b);
    b->how = *how;
    model_config_default(&c);
    c.hidden_size = 64, c.intermediate_size = 96, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 1, c.head_dim = 32, c.vocab_size = VOCAB, c.max_position_embeddings = 64;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = how->tied, c.vocab_piece = how->piece;
    EXPECT_OK(model_weights_create(&c, &b->weights, &err));
    model_weights_init(b->weights, 3, 0);
    if (how->rank) {
        model_lora l = {.rank = how->rank, .alpha = 8};
        EXPECT_OK(model_lora_choose(&l, &c, "all", &err));
        EXPECT_OK(model_weights_add_lora(b->weights, &l, &err));
        model_lora_init(b->weights, 9);
    }
    bool *trained = mem_array((size_t)model_weights_total(b->weights), 1);
    EXPECT(trained);
    for (int i = 0; i < model_weights_total(b->weights); i++) trained[i] = i % 3 != 1;
    train_step_options o = {.partition = {.name = how->plan,
                                          .precision = how->precision ? how->precision : MIL_fp32,
                                          .batch = BATCH,
                                          .context = CONTEXT,
                                          .squares = how->squares},
                            .device = how->device ? how->device : "cpu",
                            .weights = how->weights,
                            .bf16 = how->bf16,
                            .two_queues = how->two_queues,
                            .accumulate = how->accumulate,
                            .trained = how->frozen ? trained : NULL};
    EXPECT_OK(train_step_create(&o, b->weights, &b->step, &err));
    mem_free(trained);
    rng_init(&r, 9);
    for (int i = 0; i < COUNT; i++)
        b->inputs[i] = (int32_t)rng_below(&r, VOCAB), b->targets[i] = (b->inputs[i] * 7 + 3) % VOCAB;
}

static void close_bench(bench *b) {
    train_step_free(b->step);
    model_weights_free(b->weights);
}

static void run_batch(bench *b) {
    double loss, scale = b->how.scale > 0 ? b->how.scale : 1;
    EXPECT_OK(train_step_batch(b->step, b->inputs, b->targets, true, scale, &loss, &err));
    if (b->how.accumulate) EXPECT_OK(train_step_batch(b->step, b->targets, b->inputs, false, scale, &loss, &err));
}

/* Computes the norm from copies of all gradients. */
static double length(bench *b) {
    double sum = 0;
    for (int i = 0; i < train_step_updated_count(b->step); i++) {
        int tensor = train_step_updated(b->step, i);
        int64_t count = b->weights->tensors[tensor].count;
        float *g = mem_array((size_t)count, sizeof *g);
        EXPECT(g);
        EXPECT_OK(train_step_gradient(b->step, tensor, g, &err));
        for (int64_t k = 0; k < count; k++) sum += (double)g[k] * (double)g[k];
        mem_free(g);
    }
    return sqrt(sum);
}

/* Returns the relative error of the step's norm. */
static double error_of(bench *b) {
    double norm = 0, want = length(b);
    EXPECT_OK(train_step_gradient_norm(b->step, &norm, &err));
    EXPECT(want > 0 && isfinite(want));
    return fabs(norm - want) / want;
}

static double worst;

/* Two steps with the kernels' squares, one without. */
static void check(setting how) {
    bench b;
    for (how.squares = 1; how.squares >= 0; how.squares--) {
        open_bench(&b, &how);
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(train_step_refresh(b.step, &err));
            run_batch(&b);
            const double error = error_of(&b);
            EXPECT_MSG(how.squares ? error < 2e-7 && error > 1e-13 : error < 1e-13, "%s: the norm is off by %g",
                       how.plan, error);
            worst = fmax(worst, error);
            adamw_step adam = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1e-3};
            adam.step = i + 1;
            EXPECT_OK(train_step_update(b.step, &adam, &err));
        }
        close_bench(&b);
    }
}

TEST(all_plans) {
    static const char *const plans[] = {"layer", "six", "ten"};
    for (int i = 0; i < 3; i++) {
        check((setting){.plan = plans[i]});
        check((setting){.plan = plans[i], .accumulate = true, .tied = true});
        check((setting){.plan = plans[i], .precision = MIL_fp16, .scale = 256, .accumulate = true});
        check((setting){.plan = plans[i], .bf16 = true});
        check((setting){.plan = plans[i], .frozen = true, .two_queues = true});
    }
    if (getenv("TEST_VERBOSE")) printf("norms within %.2g\n", worst);
}

TEST(baked_and_packed) {
    check((setting){.plan = "six", .weights = WEIGHT_MODE_BAKED, .precision = MIL_fp16});
    check((setting){.plan = "layer", .weights = WEIGHT_MODE_PACKED, .accumulate = true});
}

TEST(a_head_in_pieces) {
    check((setting){.plan = "layer", .piece = PIECE});
    check((setting){.plan = "layer", .piece = PIECE, .tied = true, .accumulate = true});
    check((setting){.plan = "ten", .piece = PIECE, .frozen = true});
}

TEST(adapters) {
    check((setting){.plan = "layer", .rank = 3});
    check((setting){.plan = "six", .rank = 20, .accumulate = true, .precision = MIL_fp16});
    check((setting){.plan = "ten", .rank = 8, .two_queues = true});
}

TEST(on_a_simulated_engine) { check((setting){.plan = "six", .device = "sim:m4", .precision = MIL_fp16, .scale = 64}); }

/* Squares that fp32 cannot hold, or only with reduced precision: the gradients are read instead. */
TEST(scales_that_squares_do_not_survive) {
    static const double scales[] = {1e25, 1e-22};
    for (int i = 0; i < 2; i++) {
        bench b;
        open_bench(&b, &(setting){.plan = "layer", .scale = scales[i], .squares = 1});
        run_batch(&b);
        const double error = error_of(&b);
        EXPECT_MSG(error < 1e-13, "scale %g: the norm is off by %g", scales[i], error);
        close_bench(&b);
    }
    bench b;
    double norm = 0;
    open_bench(&b, &(setting){.plan = "layer", .scale = 1e300, .squares = 1});
    run_batch(&b);
    EXPECT_OK(train_step_gradient_norm(b.step, &norm, &err));
    EXPECT(!isfinite(norm));
    close_bench(&b);
}

static propane_status triple(void *context, int tensor, float *gradient, propane_error *e) {
    const bench *b = context;
    (void)e;
    for (int64_t i = 0; i < b->weights->tensors[train_step_updated(b->step, tensor)].count; i++) gradient[i] *= 3;
    return PROPANE_OK;
}

static propane_status finish(void *context, propane_error *e) {
    (void)context, (void)e;
    return PROPANE_OK;
}

TEST(gradients_that_are_added_up_by_others) {
    bench b;
    double before = 0, after = 0;
    open_bench(&b, &(setting){.plan = "layer", .squares = 1});
    run_batch(&b);
    EXPECT_OK(train_step_gradient_norm(b.step, &before, &err));
    train_step_reduce(b.step, &(train_reduce){&b, triple, finish});
    run_batch(&b);
    train_step_reduce(b.step, NULL);
    EXPECT_OK(train_step_gradient_norm(b.step, &after, &err));
    EXPECT_MSG(fabs(after - 3 * before) < 1e-6 * after, "%.9g, three times %.9g", after, before); /* observed 5e-8 */
    EXPECT(error_of(&b) < 1e-13);
    run_batch(&b);
    EXPECT(error_of(&b) > 1e-13); /* without other ranks again */
    close_bench(&b);
}

TEST(the_same_for_any_number_of_threads) {
    double norms[3];
    for (int threads = 1; threads <= 3; threads++) {
        bench b;
        pool_stop();
        EXPECT_OK(pool_set_threads(threads, &err));
        open_bench(&b, &(setting){.plan = "layer", .squares = 1, .accumulate = true});
        run_batch(&b);
        EXPECT_OK(train_step_gradient_norm(b.step, &norms[threads - 1], &err));
        close_bench(&b);
    }
    EXPECT(norms[0] == norms[1] && norms[0] == norms[2]);
}

SUITE("train/norm", T(all_plans), T(baked_and_packed), T(a_head_in_pieces), T(adapters), T(on_a_simulated_engine),
      T(scales_that_squares_do_not_survive), T(gradients_that_are_added_up_by_others),
      T(the_same_for_any_number_of_threads))
