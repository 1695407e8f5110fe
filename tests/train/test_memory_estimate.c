/* SPDX-License-Identifier: MIT
 * The estimated memory of a run against the memory that its step uses: never more, and not much less.
 */
#include <stdlib.h>

#include "lm/arch/arch.h"
#include "lm/run/memory_estimate.h"
#include "lm/step/step.h"
#include "support/test.h"
#include "train/step_bytes.h"

static propane_error err;

typedef struct shape {
    const char *plan_title, *precision, *architecture;
    bool two_queues, recompute, untied;
    int accumulate, rank, vocab, context; /* 0 means 1, none, 512, 64 */
    double part;                          /* at least this fraction of the memory used is estimated */
} shape;

static const shape shapes[] = {
    {"layer", .part = 0.9},
    {"layer", .untied = true, .part = 0.9},
    {"layer", .accumulate = 2, .part = 0.9},
    {"layer", .recompute = true, .part = 0.85},
    {"layer", .rank = 4, .part = 0.85},
    {"layer", .rank = 4, .recompute = true, .part = 0.9},
    {"layer", "fp16", .part = 0.9},
    {"six", "fp16", .part = 0.85},
    {"layer", .architecture = "gpt2", .part = 0.9},
    {"layer", .vocab = 65552, .part = 0.9},
    {"six", .part = 0.9},
    {"six", .context = 512, .part = 0.8},
    {"layer", .context = 512, .part = 0.9},
    {"six", .two_queues = true, .part = 0.9},
    {"ten", .two_queues = true, .accumulate = 2, .part = 0.9},
};

static void check(const shape *h) {
    model_config c;
    model_weights *w = NULL;
    train_step *s = NULL;
    train_options o;
    EXPECT_OK(model_config_default_of(&c, h->architecture ? h->architecture : "llama", &err));
    c.hidden_size = 64, c.intermediate_size = 160, c.num_hidden_layers = 8, c.num_attention_heads = 4, c.head_dim = 16;
    c.num_key_value_heads = h->architecture ? 4 : 2, c.vocab_size = h->vocab ? h->vocab : 512;
    c.max_position_embeddings = 512, c.tie_word_embeddings = !h->untied;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.batch = 4, o.context = h->context ? h->context : 64, o.accumulate = h->accumulate ? h->accumulate : 1,
    o.plan = h->plan_title;
    o.precision = h->precision ? h->precision : "fp32", o.two_queues = h->two_queues, o.recompute = h->recompute;
    o.device = "cpu", o.lora_rank = h->rank, o.lora_targets = "q_proj,v_proj", o.lora_alpha = 8;
    partition_split_head(&c, o.batch, o.context);
    EXPECT_OK(model_weights_create(&c, &w, &err));
    if (h->rank) {
        model_lora l = {.rank = h->rank, .alpha = o.lora_alpha};
        EXPECT_OK(model_lora_choose(&l, &c, o.lora_targets, &err));
        EXPECT_OK(model_weights_add_lora(w, &l, &err));
    }
    mil_dtype precision = h->precision ? MIL_fp16 : MIL_fp32;
    train_step_options how = {
        .partition = {.name = o.plan, .precision = precision, .batch = o.batch, .context = o.context},
        .device = o.device,
        .two_queues = o.two_queues,
        .accumulate = o.accumulate > 1,
        .recompute = o.recompute != 0};
    EXPECT_OK(train_step_create(&how, w, &s, &err));
    memory_estimate f = memory_estimate_of(&c, &o, 1);
    double taken = 4 * (double)w->parameters + (double)step_state_bytes(s) + (double)train_step_activation_bytes(s) +
                   (h->precision ? 2 * (double)w->parameters : 0);
    double part = (f.state + f.batch) / taken;
    if (getenv("TEST_VERBOSE")) printf("shape %d: %.3f of %.0f bytes\n", (int)(h - shapes), part, taken);
    EXPECT_MSG(part <= 1 && part >= h->part, "shape %d: %g of the %.0f bytes that are taken", (int)(h - shapes), part,
               taken);
    train_step_free(s);
    model_weights_free(w);
}

TEST(what_is_foreseen_is_taken) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) check(&shapes[i]);
}

TEST(ranks_share_out_a_batch) {
    model_config c;
    train_options o;
    model_config_default(&c);
    train_options_default(&o, TRAIN_LANGUAGE);
    o.batch = 8, o.device = "cpu";
    const memory_estimate alone = memory_estimate_of(&c, &o, 1), rank = memory_estimate_of(&c, &o, 4);
    o.shard = true;
    const memory_estimate piece = memory_estimate_of(&c, &o, 4);
    o.batch = 2, o.shard = false;
    const memory_estimate small = memory_estimate_of(&c, &o, 1);
    EXPECT(rank.state == alone.state && rank.batch == small.batch && rank.batch < alone.batch);
    EXPECT(piece.batch == rank.batch && piece.state == rank.state - (double)model_arch_parameters(&c) * 8 * 3 / 4);
}

/* One process on a device that is not the processor: weights and moments exist twice, as in its step. */
TEST(speculation_takes_a_second_set) {
    model_config c;
    train_options o;
    size_t kept[2];
    model_config_default(&c);
    train_options_default(&o, TRAIN_LANGUAGE);
    o.device = "sim:m4", o.moments = "int8";
    const double parameters = (double)model_arch_parameters(&c), without = memory_estimate_of(&c, &o, 1).state;
    o.overlap = "early";
    EXPECT(memory_estimate_of(&c, &o, 1).state == without + 6 * parameters);
    EXPECT(memory_estimate_of(&c, &o, 2).state == without);
    o.weights = "packed";
    EXPECT(memory_estimate_of(&c, &o, 1).state == without);
    for (int early = 0; early < 2; early++) {
        model_weights *w = NULL;
        train_step *s = NULL;
        const train_step_options how = {.partition = {.name = "six", .precision = MIL_fp16, .batch = 1, .context = 32},
                                        .device = "sim:m4",
                                        .moments = MOMENT_INT8,
                                        .overlap = true,
                                        .early = early};
        EXPECT_OK(model_weights_create(&c, &w, &err));
        EXPECT_OK(train_step_create(&how, w, &s, &err));
        kept[early] = step_state_bytes(s);
        train_step_free(s);
        model_weights_free(w);
    }
    const double more = (double)(kept[1] - kept[0]);
    EXPECT_MSG(more >= 6 * parameters && more < 6.2 * parameters, "%g bytes for %g parameters", more, parameters);
}

SUITE("train/footprint", T(what_is_foreseen_is_taken), T(ranks_share_out_a_batch), T(speculation_takes_a_second_set))
