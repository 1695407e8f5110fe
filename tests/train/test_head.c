/* SPDX-License-Identifier: MIT
 * A head in pieces of the vocabulary: the pieces' loss equals the loss over all logits, and whole steps with a split
 * head give the losses, gradients and weights of steps with a whole one.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/files/store.h"
#include "lm/run/language_run.h"
#include "lm/step/loss.h"
#include "lm/step/step.h"
#include "support/test.h"

static propane_error err;

enum { VOCAB = 96, PIECE = 24, BATCH = 2, CONTEXT = 19, TOKENS = BATCH * CONTEXT, STEPS = 3 };

TEST(the_loss_of_pieces_is_that_of_all_logits) {
    enum { ROWS = 160 };
    static float whole[BATCH * ROWS * CONTEXT], parts[BATCH * ROWS * CONTEXT];
    static const int cuts[] = {0, 1, 70, 160};
    float top[TOKENS], goal[TOKENS];
    double sum[TOKENS], nats[TOKENS], again[TOKENS], mean, split;
    int32_t targets[TOKENS];
    rng r;
    rng_init(&r, 4);
    for (int i = 0; i < BATCH * ROWS * CONTEXT; i++) whole[i] = parts[i] = (float)(6 * rng_normal(&r));
    for (int i = 0; i < TOKENS; i++) targets[i] = (int32_t)rng_below(&r, ROWS + 1) - 1;
    train_logits l = {whole, PROPANE_FP32, BATCH, ROWS, CONTEXT, ROWS * CONTEXT * 4, CONTEXT * 4};
    EXPECT_OK(train_loss(&l, targets, 3, nats, &mean, &err));
    train_loss_sums sums = {.top = top, .goal = goal, .sum = sum, .vocab = ROWS};
    for (int gradient = 0; gradient < 2; gradient++)
        for (int k = 0; k < 3; k++) {
            l.data = parts + cuts[k] * CONTEXT;
            l.vocab = cuts[k + 1] - cuts[k];
            if (gradient)
                EXPECT_OK(train_loss_gradient(&l, cuts[k], targets, 3, NULL, &sums, &err));
            else
                EXPECT_OK(train_loss_add(&l, cuts[k], targets, &sums, &err));
        }
    train_loss_mean(&sums, targets, TOKENS, again, &split);
    EXPECT_MSG(fabs(split - mean) < 1e-6, "%.9g and %.9g", split, mean); /* observed 1e-8 */
    for (int i = 0; i < TOKENS; i++) EXPECT(fabs(nats[i] - again[i]) < 1e-5);
    for (int i = 0; i < BATCH * ROWS * CONTEXT; i++)
        EXPECT_MSG(fabsf(whole[i] - parts[i]) < 1e-6f, "%g and %g", (double)whole[i], (double)parts[i]);
    targets[3] = ROWS;
    EXPECT_FAIL(train_loss_add(&l, 0, targets, &sums, &err), PROPANE_ERR_INVALID, "outside the vocabulary of 160");
}

static model_weights *model(bool tied, int64_t piece) {
    model_config c;
    model_weights *w = NULL;
    model_config_default(&c);
    c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 1, c.head_dim = 16, c.vocab_size = VOCAB, c.tie_word_embeddings = tied;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 3, 0.3);
    if (piece == 0) return w;
    model_weights *split = NULL;
    c.vocab_piece = piece;
    EXPECT_OK(model_weights_create(&c, &split, &err));
    EXPECT(split->floats == w->floats && split->count == w->count + VOCAB / PIECE - 1);
    memcpy(split->data, w->data, (size_t)w->floats * sizeof(float));
    model_weights_free(w);
    return split;
}

typedef struct run {
    double losses[STEPS], evaluated;
    model_weights *weights, *gradients; /* after the first step */
} run;

static run train(const train_step_options *how, bool tied, int64_t piece) {
    run out = {.weights = model(tied, piece), .gradients = model(tied, piece)};
    train_step *s = NULL;
    int32_t inputs[TOKENS], targets[TOKENS];
    bool half = how->partition.precision == MIL_fp16;
    double scale = half ? 256 : 1;
    int parts = how->accumulate ? BATCH : 1;
    train_step_options o = *how;
    o.partition.batch = BATCH / parts, o.partition.context = CONTEXT;
    rng r;
    rng_init(&r, 9);
    EXPECT_OK(train_step_create(&o, out.weights, &s, &err));
    for (int step = 0; step < STEPS; step++) {
        double part = 0;
        for (int i = 0; i < TOKENS; i++)
            inputs[i] = (int32_t)rng_below(&r, VOCAB), targets[i] = (int32_t)rng_below(&r, VOCAB);
        EXPECT_OK(train_step_refresh(s, &err));
        for (int p = 0; p < parts; p++, out.losses[step] += part / parts)
            EXPECT_OK(train_step_batch(s, inputs + p * CONTEXT, targets + p * CONTEXT, p == 0, scale, &part, &err));
        for (int i = 0; i < out.gradients->count && step == 0; i++)
            EXPECT_OK(train_step_gradient(s, i, model_weights_data(out.gradients, &out.gradients->tensors[i]), &err));
        adamw_step adam = {.lr = 1e-2,
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .epsilon = 1e-3,
                           .weight_decay = 0.1,
                           .gradient_scale = 1 / (scale * parts),
                           .step = step + 1};
        EXPECT_OK(train_step_update(s, &adam, &err));
    }
    EXPECT_OK(train_step_refresh(s, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &out.evaluated, &err));
    train_step_free(s);
    return out;
}

static double difference(const model_weights *a, const model_weights *b) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < a->floats; i++) {
        worst = fmax(worst, fabs((double)a->data[i] - (double)b->data[i]));
        largest = fmax(largest, fabs((double)a->data[i]));
    }
    return worst / largest;
}

static void compare(const char *title, run whole, run split, double tolerance) {
    for (int i = 0; i < STEPS; i++)
        EXPECT_MSG(fabs(whole.losses[i] - split.losses[i]) < tolerance * whole.losses[i], "step %d: %.9g and %.9g", i,
                   whole.losses[i], split.losses[i]);
    EXPECT(fabs(whole.evaluated - split.evaluated) < tolerance * whole.evaluated);
    double gradients = difference(whole.gradients, split.gradients), weights = difference(whole.weights, split.weights);
    EXPECT_MSG(gradients < tolerance && weights < tolerance, "gradients differ by %g, weights by %g", gradients,
               weights);
    if (getenv("TEST_VERBOSE")) printf("%s: gradients %g, weights %g\n", title, gradients, weights);
    model_weights_free(whole.weights);
    model_weights_free(whole.gradients);
    model_weights_free(split.weights);
    model_weights_free(split.gradients);
}

static void check(const train_step_options *how, bool tied, double tolerance) {
    compare(how->partition.name, train(how, tied, 0), train(how, tied, PIECE), tolerance);
}

/* Compares the head on the host with the head on the device. */
static void check_places(const train_step_options *how, int64_t piece, double tolerance) {
    train_step_options host = *how, device = *how;
    host.partition.head = PARTITION_HEAD_HOST, device.partition.head = PARTITION_HEAD_DEVICE;
    compare(how->partition.name, train(&host, true, piece), train(&device, true, piece), tolerance);
}

static train_step_options how(const char *name, mil_dtype precision) {
    return (train_step_options){.partition = {.name = name, .precision = precision}, .device = "cpu"};
}

TEST(steps_in_fp32) { /* observed 3e-7 */
    for (int i = 0; i < partition_name_count(); i++)
        for (int tied = 0; tied < 2; tied++) {
            train_step_options o = how(partition_name(i), MIL_fp32);
            check(&o, tied, 1e-5);
        }
}

TEST(steps_in_fp16) { /* observed 7e-4: pieces of the stream's gradient are added in fp32, not in fp16 */
    for (int i = 0; i < partition_name_count(); i++) {
        train_step_options o = how(partition_name(i), MIL_fp16);
        check(&o, i % 2 == 0, 5e-3);
    }
}

/* Gradients of the stream are added up in fp16, piece by piece. Observed: gradients 1.4e-3, weights 2.6e-3. */
TEST(steps_with_the_stream_in_fp16) {
    for (int tied = 0; tied < 2; tied++) {
        train_step_options o = how("layer", MIL_fp16);
        o.partition.half_stream = true;
        check(&o, tied, 5e-3);
    }
}

TEST(steps_of_several_batches) {
    train_step_options o = how("layer", MIL_fp32);
    o.accumulate = true;
    check(&o, true, 1e-5);
    o.two_queues = true;
    check(&o, false, 1e-5);
}

TEST(steps_on_two_queues_with_baked_weights) {
    train_step_options o = how("layer", MIL_fp32);
    o.two_queues = true;
    o.weights = WEIGHT_MODE_BAKED;
    check(&o, true, 1e-5);
    o = how("six", MIL_fp32);
    o.two_queues = true;
    check(&o, false, 1e-5);
}

/* Observed: the same bits in fp32, where the same operations are cut at another place; 3.4e-3 in fp16. */
TEST(on_the_host_and_on_the_device) {
    for (int i = 0; i < partition_name_count(); i++)
        for (int half = 0; half < 2; half++) {
            train_step_options o = how(partition_name(i), half ? MIL_fp16 : MIL_fp32);
            check_places(&o, 0, half ? 5e-3 : 1e-5);
            check_places(&o, PIECE, half ? 5e-3 : 1e-5);
            o.two_queues = true;
            check_places(&o, 0, half ? 5e-3 : 1e-5);
            o.weights = WEIGHT_MODE_PACKED;
            if (i > 0 || !half) check_places(&o, 0, half ? 5e-3 : 1e-5); /* plan "layer" mixes types */
            o.weights = WEIGHT_MODE_BAKED;
            check_places(&o, PIECE, half ? 5e-3 : 1e-5);
        }
}

/* ---- sums over the vocabulary in parts ------------------------------------------------------------------------------------- */

static void check_parts(const train_step_options *how, bool tied, double tolerance) {
    train_step_options whole = *how, parts = *how;
    whole.partition.head = parts.partition.head = PARTITION_HEAD_DEVICE;
    whole.partition.sum_bytes = INT64_MAX;
    parts.partition.sum_bytes = (int64_t)PIECE * TOKENS * (how->partition.precision == MIL_fp16 ? 2 : 4);
    compare(how->partition.name, train(&whole, tied, 0), train(&parts, tied, 0), tolerance);
}

TEST(sums_in_parts) { /* observed 1e-6; in fp16 3.5e-3 */
    for (int i = 0; i < partition_name_count(); i++)
        for (int half = 0; half < 2; half++) {
            train_step_options o = how(partition_name(i), half ? MIL_fp16 : MIL_fp32);
            check_parts(&o, half == 0, half ? 7e-3 : 1e-5);
            o.weights = WEIGHT_MODE_PACKED;
            if (i > 0 || !half) check_parts(&o, true, half ? 7e-3 : 1e-5); /* plan "layer" mixes types */
            o.weights = WEIGHT_MODE_BAKED;
            check_parts(&o, false, half ? 7e-3 : 1e-5);
        }
}

static int parts_of(int64_t vocab, int64_t batch, int64_t context) {
    model_config c;
    partition *p = NULL;
    int64_t parts = 0;
    model_config_default(&c);
    c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 1, c.num_attention_heads = 2;
    c.num_key_value_heads = 1, c.head_dim = 16, c.vocab_size = vocab, c.bos_token_id = c.eos_token_id = -1;
    const partition_options o = {
        "layer", MIL_fp16, batch, context, .head = PARTITION_HEAD_DEVICE, .sum_bytes = PARTITION_SUM_BYTES};
    EXPECT_OK(partition_create(&c, &o, &p, &err));
    for (int k = 0; k < p->kernel_count; k++)
        for (const mil_op *op = p->kernels[k].function->first; op; op = op->next)
            if (op->info->code == MIL_OP_matmul && strstr(op->results[0]->name, "_parts"))
                parts = op->results[0]->type.dim[1];
    partition_free(p);
    return (int)parts;
}

/* The smallest number of equal parts of at most 1 MiB of the logits' gradient. */
TEST(how_many_parts) {
    EXPECT(parts_of(32000, 1, 256) == 16);
    EXPECT(parts_of(32000, 1, 64) == 4);
    EXPECT(parts_of(8192, 1, 64) == 0); /* 1 MiB */
    EXPECT(parts_of(8193, 1, 64) == 3);
    EXPECT(parts_of(8209, 1, 64) == 0); /* a prime, so it stays whole */
    EXPECT(parts_of(8192, 4, 64) == 4);
}

/* w += step x g */
static void walk(model_weights *w, const model_weights *g, double step) {
    for (int i = 0; i < g->count; i++) {
        float *to = model_weights_data(w, &w->tensors[i]);
        const float *along = model_weights_data(g, &g->tensors[i]);
        for (int64_t k = 0; k < g->tensors[i].count; k++) to[k] += (float)step * along[k];
    }
}

/* Along the gradient, the loss must change by the square of the gradient's norm. */
TEST(gradients_of_parts_are_the_slope_of_the_loss) {
    train_step_options o = how("layer", MIL_fp32);
    o.partition.head = PARTITION_HEAD_DEVICE, o.partition.batch = BATCH, o.partition.context = CONTEXT;
    o.partition.sum_bytes = (int64_t)PIECE * TOKENS * 4;
    model_weights *w = model(false, 0), *g = model(false, 0);
    train_step *s = NULL;
    int32_t inputs[TOKENS], targets[TOKENS];
    double loss, up, down, square = 0;
    rng r;
    rng_init(&r, 21);
    for (int i = 0; i < TOKENS; i++)
        inputs[i] = (int32_t)rng_below(&r, VOCAB), targets[i] = (int32_t)rng_below(&r, VOCAB);
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &loss, &err));
    for (int i = 0; i < g->count; i++) {
        float *at = model_weights_data(g, &g->tensors[i]);
        EXPECT_OK(train_step_gradient(s, i, at, &err));
        for (int64_t k = 0; k < g->tensors[i].count; k++) square += (double)at[k] * (double)at[k];
    }
    const double step = 0.003 / sqrt(square);
    walk(w, g, step);
    EXPECT_OK(train_step_publish(s, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &up, &err));
    walk(w, g, -2 * step);
    EXPECT_OK(train_step_publish(s, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &down, &err));
    const double slope = (up - down) / (2 * step);
    EXPECT_MSG(fabs(slope / square - 1) < 2e-3, "slope %.8g, square %.8g", slope, square); /* observed 2.2e-4 */
    train_step_free(s);
    model_weights_free(w);
    model_weights_free(g);
}

/* No chip for which the plan is made refuses it, at the size of Stories110M's vocabulary. */
TEST(known_rules_allow_it) {
    model_config c;
    model_config_default(&c);
    c.hidden_size = 768, c.intermediate_size = 128, c.num_hidden_layers = 1, c.num_attention_heads = 1;
    c.num_key_value_heads = 1, c.head_dim = 64, c.vocab_size = 32000, c.max_position_embeddings = 64;
    for (int on = 0; on < 2; on++)
        for (int i = 1; i < partition_name_count(); i++) {
            partition *p = NULL;
            const partition_options o = {
                partition_name(i), MIL_fp16, 1, 64, .head = PARTITION_HEAD_DEVICE, .sum_bytes = PARTITION_SUM_BYTES};
            EXPECT_OK(partition_create(&c, &o, &p, &err));
            EXPECT_TEXT(partition_head_name(&p->options), "device");
            EXPECT_OK(partition_supports(p, chip_get(on ? CHIP_m4 : CHIP_m1), 0, WEIGHT_MODE_INPUTS, &err));
            partition_free(p);
        }
}

TEST(which_heads_are_split) {
    static const struct {
        int64_t vocab, width, batch, context, piece;
    } cases[] = {{32000, 288, 1, 256, 0},   {151936, 1024, 1, 256, 9496}, {151936, 1024, 16, 256, 9496},
                 {50257, 768, 1, 256, 0},   {50257, 768, 8, 1024, 1733},  {128256, 2048, 1, 256, 16032},
                 {16384, 768, 64, 1024, 0}, {65537, 768, 1, 256, 0} /* a prime */};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model_config c;
        model_config_default(&c);
        c.vocab_size = cases[i].vocab, c.hidden_size = cases[i].width;
        partition_split_head(&c, cases[i].batch, cases[i].context);
        EXPECT_MSG(c.vocab_piece == cases[i].piece, "%lld: %lld", (long long)c.vocab_size, (long long)c.vocab_piece);
    }
}

/* A run with a split head: its files, finished or not, are read as a whole model, and it resumes. */
TEST(a_run_with_a_large_vocabulary) {
    enum { LARGE = 65552, COUNT = 600 };
    static uint32_t tokens[COUNT];
    char *dir = test_temp_dir(), path[300];
    model_config c;
    model_weights *done = NULL, *kept = NULL;
    bool restart = false;
    model_config_default(&c);
    c.hidden_size = 16, c.intermediate_size = 16, c.num_hidden_layers = 1, c.num_attention_heads = 1;
    c.num_key_value_heads = 1, c.head_dim = 16, c.vocab_size = LARGE, c.max_position_embeddings = 16;
    for (int i = 0; i < COUNT; i++) tokens[i] = (uint32_t)(i * 977) % LARGE;
    train_input in = {.config = &c,
                      .tokens = (const void *)tokens,
                      .token_bytes = 4,
                      .token_count = COUNT,
                      .source = "text",
                      .tokenizer_hash = "abc"};
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.batch = 1, o.context = 8, o.eval_interval = 0, o.warmup = 1, o.checkpoint_interval = 0, o.run_dir = dir;
    for (o.steps = 1; o.steps <= 2; o.steps++) {
        train_run *t = NULL;
        o.resume = o.steps == 2;
        EXPECT_OK(language_run_create(&o, &in, &t, &err));
        EXPECT_OK(train_run_go_until(t, INT64_MAX, NULL, NULL, &restart, &err));
        train_run_free(t);
    }
    snprintf(path, sizeof path, "%s/%s", dir, TRAIN_CHECKPOINT);
    EXPECT_OK(model_store_read(path, false, &kept, &err));
    EXPECT_OK(model_store_read(dir, false, &done, &err));
    EXPECT(done->count == kept->count && model_weights_find(done, "model.embed_tokens.weight")->dim[0] == LARGE);
    EXPECT(memcmp(done->data, kept->data, (size_t)done->floats * sizeof(float)) == 0);
    model_weights_free(done);
    model_weights_free(kept);
    mem_free(dir);
}

SUITE("train/head", T(a_run_with_a_large_vocabulary), T(the_loss_of_pieces_is_that_of_all_logits), T(steps_in_fp32),
      T(steps_in_fp16), T(steps_with_the_stream_in_fp16), T(steps_of_several_batches),
      T(steps_on_two_queues_with_baked_weights), T(on_the_host_and_on_the_device), T(sums_in_parts), T(how_many_parts),
      T(gradients_of_parts_are_the_slope_of_the_loss), T(known_rules_allow_it), T(which_heads_are_split))
