/* SPDX-License-Identifier: MIT
 * The order in which text is visited.
 */
#include "lm/data/corpus.h"
#include "lm/data/token_windows.h"
#include "support/test.h"

enum { COUNT = 1000, CONTEXT = 16 };
static uint16_t tokens[COUNT];

static void number_tokens(void) {
    for (int i = 0; i < COUNT; i++) tokens[i] = (uint16_t)i; /* a token's value is its position */
}

TEST(an_epoch_sees_every_window_once_and_never_the_held_out_part) {
    propane_error err = {0};
    token_windows d;
    number_tokens();
    EXPECT_OK(token_windows_init(&d, tokens, 2, COUNT, COUNT, CONTEXT, 0.1, 42, "t", &err));
    EXPECT(d.train_count == 900);
    int32_t x[CONTEXT], y[CONTEXT];
    int windows = 55; /* 899/16 = 56, minus one to leave room for the phase */
    int orders_differ = 0, first[64];
    for (int epoch = 0; epoch < 3; epoch++) {
        int seen[COUNT] = {0};
        for (int i = 0; i < windows; i++) {
            EXPECT_OK(token_windows_batch(&d, (uint64_t)(epoch * windows + i), 1, x, y, &err));
            EXPECT(y[CONTEXT - 1] < 900);
            for (int k = 0; k < CONTEXT; k++) {
                EXPECT(x[k] == x[0] + k && y[k] == x[k] + 1);
                EXPECT(!seen[x[k]]++);
            }
            if (epoch == 0)
                first[i] = x[0];
            else
                orders_differ += first[i] / CONTEXT != x[0] / CONTEXT;
        }
    }
    EXPECT(orders_differ > windows);
}

TEST(a_batch_is_its_windows_one_by_one) {
    propane_error err = {0};
    token_windows d;
    number_tokens();
    EXPECT_OK(token_windows_init(&d, tokens, 2, COUNT, COUNT, CONTEXT, 0, 1, "t", &err));
    int32_t x[5 * CONTEXT], y[5 * CONTEXT], x1[CONTEXT], y1[CONTEXT];
    EXPECT_OK(token_windows_batch(&d, 12345, 5, x, y, &err));
    for (int b = 0; b < 5; b++) {
        EXPECT_OK(token_windows_batch(&d, (uint64_t)(12345 + b), 1, x1, y1, &err));
        EXPECT(memcmp(x1, x + b * CONTEXT, sizeof x1) == 0 && memcmp(y1, y + b * CONTEXT, sizeof y1) == 0);
    }
}

TEST(seeds_differ) {
    propane_error err = {0};
    token_windows a, b;
    number_tokens();
    EXPECT_OK(token_windows_init(&a, tokens, 2, COUNT, COUNT, CONTEXT, 0, 1, "t", &err));
    EXPECT_OK(token_windows_init(&b, tokens, 2, COUNT, COUNT, CONTEXT, 0, 2, "t", &err));
    int32_t xa[10 * CONTEXT], xb[10 * CONTEXT], y[10 * CONTEXT];
    EXPECT_OK(token_windows_batch(&a, 0, 10, xa, y, &err));
    EXPECT_OK(token_windows_batch(&b, 0, 10, xb, y, &err));
    EXPECT(memcmp(xa, xb, sizeof xa) != 0);
}

TEST(held_out_windows_lie_evenly_to_the_last_token) {
    propane_error err = {0};
    token_windows d;
    number_tokens();
    EXPECT_OK(token_windows_init(&d, tokens, 2, COUNT, COUNT, CONTEXT, 0.1, 42, "t", &err));
    EXPECT(token_windows_held_out_windows(&d) == 6);
    int32_t x[CONTEXT], y[CONTEXT];
    EXPECT_OK(token_windows_held_out(&d, 0, 6, x, y, &err));
    EXPECT(x[0] == 900);
    EXPECT_OK(token_windows_held_out(&d, 5, 6, x, y, &err));
    EXPECT(y[CONTEXT - 1] == COUNT - 1);
    EXPECT_OK(token_windows_held_out(&d, 0, 1, x, y, &err));
    EXPECT(x[0] == 900);
}

TEST(the_smallest_text_is_one_window) {
    propane_error err = {0};
    token_windows d;
    uint32_t few[CONTEXT + 1];
    for (uint32_t i = 0; i <= CONTEXT; i++) few[i] = i;
    EXPECT_OK(token_windows_init(&d, few, 4, CONTEXT + 1, 100, CONTEXT, 0, 42, "t", &err));
    int32_t x[3 * CONTEXT], y[3 * CONTEXT];
    EXPECT_OK(token_windows_batch(&d, 7, 3, x, y, &err));
    EXPECT(x[0] == 0 && x[2 * CONTEXT] == 0 && y[CONTEXT - 1] == CONTEXT);
}

TEST(refuses_what_it_cannot_use) {
    propane_error err = {0};
    token_windows d;
    number_tokens();
    EXPECT_FAIL(token_windows_init(&d, tokens, 2, CONTEXT, 100, CONTEXT, 0, 1, "a.tok", &err), PROPANE_ERR_INVALID,
                "a.tok: only 16 tokens to train on, but a window needs 17");
    EXPECT_FAIL(token_windows_init(&d, tokens, 2, 100, 100, CONTEXT, 0.1, 1, "a.tok", &err), PROPANE_ERR_INVALID,
                "a.tok: a window needs 17 tokens, but 10 are held out");
    EXPECT_FAIL(token_windows_init(&d, tokens, 2, 100, 100, CONTEXT, 0.9, 1, "a.tok", &err), PROPANE_ERR_INVALID,
                "held-out part is 0.9");
    EXPECT_OK(token_windows_init(&d, tokens, 2, COUNT, 500, CONTEXT, 0.1, 1, "a.tok", &err));
    int32_t x[CONTEXT], y[CONTEXT];
    EXPECT_FAIL(token_windows_held_out(&d, 0, 1, x, y, &err), PROPANE_ERR_INVALID,
                "token 900 of the data is 900, outside the model's vocabulary of 500");
}

/* A vocabulary in memory takes precedence over files. It is only read and still belongs to the caller. */
TEST(a_vocabulary_from_memory_is_taken) {
    propane_error err = {0};
    static const char words[] = "the cat sat on the mat";
    static const char lines[] = "{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    tokenizer *t = NULL;
    corpus c;
    EXPECT_OK(tokenizer_create_bytes(&t, &err));
    corpus_options o = {
        .text = "memory", .data = words, .length = sizeof words - 1, .vocabulary = t, .tokenizer = "/no/such"};
    EXPECT_OK(corpus_open(&o, &c, &err));
    EXPECT(c.tokenizer == t && c.shared && c.count == (int64_t)sizeof words - 1);
    corpus_close(&c);
    corpus_options pairs = {.text = "pairs", .data = lines, .length = sizeof lines - 1, .lines = true, .vocabulary = t};
    EXPECT_OK(corpus_open(&pairs, &c, &err));
    EXPECT(c.tokenizer == t && c.shared && c.instructions);
    corpus_close(&c);
    pairs.vocabulary = NULL;
    EXPECT_FAIL(corpus_open(&pairs, &c, &err), PROPANE_ERR_INVALID, "give the model to train");
    tokenizer_free(t); /* freed by neither */
}

SUITE("train/data", T(a_vocabulary_from_memory_is_taken),
      T(an_epoch_sees_every_window_once_and_never_the_held_out_part), T(a_batch_is_its_windows_one_by_one),
      T(seeds_differ), T(held_out_windows_lie_evenly_to_the_last_token), T(the_smallest_text_is_one_window),
      T(refuses_what_it_cannot_use))
