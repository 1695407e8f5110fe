/* SPDX-License-Identifier: MIT
 * A thousand steps of a run on the cpu driver: after the fiftieth nothing is allocated and the process does not grow.
 */
#include <stdio.h>

#include "core/base/memory.h"
#include "lm/run/language_run.h"
#include "support/test.h"

enum { VOCAB = 20, TOKENS = 4000, STEPS = 1000 };

typedef struct log_book {
    uint64_t blocks[2]; /* at step 50, and at the last one */
    long pages[2];
    double first, last;
} log_book;

static void on_step(void *context, const train_report *r) {
    log_book *l = context;
    if (r->step == 1) l->first = r->loss;
    if (r->step == 49) (void)test_resident_pages(); /* the code that reads it also becomes resident */
    l->last = r->loss;
    if (r->step != 50 && r->step != STEPS) return;
    l->blocks[r->step == STEPS] = mem_alloc_count();
    l->pages[r->step == STEPS] = test_resident_pages();
}

static void thousand_steps(const char *partition_name, const char *precision) {
    static uint16_t tokens[TOKENS];
    propane_error err = {0};
    model_config c;
    train_options o;
    log_book l = {0};
    train_run *t = NULL;
    bool restart = true;
    for (int i = 0; i < TOKENS; i++) tokens[i] = (uint16_t)(i * i % 97 % VOCAB);
    model_config_default(&c);
    c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 2, c.num_attention_heads = 4,
    c.num_key_value_heads = 2;
    c.head_dim = 8, c.vocab_size = VOCAB, c.max_position_embeddings = 32, c.bos_token_id = c.eos_token_id = -1;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = STEPS, o.batch = 2, o.context = 16, o.plan = partition_name, o.precision = precision, o.accumulate = 2;
    o.eval_interval = o.checkpoint_interval = 0, o.run_dir = NULL;
    const train_input in = {.config = &c, .tokens = tokens, .token_bytes = 2, .token_count = TOKENS, .source = "text"};
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    const train_callbacks callbacks = {.context = &l, .on_step = on_step};
    EXPECT_OK(train_run_go_until(t, INT64_MAX, &callbacks, NULL, &restart, &err));
    train_run_free(t);
    EXPECT_MSG(l.last < l.first / 2, "loss %g after %g", l.last, l.first);
    EXPECT_MSG(l.blocks[0] == l.blocks[1], "%llu blocks in 950 steps", (unsigned long long)(l.blocks[1] - l.blocks[0]));
    /* observed: 0 to 2, when stacks of threads grow deeper for the first time; 70 bytes per step would show */
    EXPECT_MSG(l.pages[1] <= l.pages[0] + 16, "%ld pages more", l.pages[1] - l.pages[0]);
}

TEST(a_run_of_fp32_is_steady) { thousand_steps("layer", "fp32"); }
TEST(a_run_of_fp16_in_ten_kernels_is_steady) { thousand_steps("ten", "fp16"); }

SUITE("train/steady", T(a_run_of_fp32_is_steady), T_LONG(a_run_of_fp16_in_ten_kernels_is_steady))
