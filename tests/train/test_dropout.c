/* SPDX-License-Identifier: MIT
 * Dropout's tensors: how much is dropped, that the kept elements are scaled up to compensate, and that each module,
 * sequence and channel draws independently but reproducibly for the same key.
 */
#include <math.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "lm/step/dropout.h"
#include "support/test.h"

enum { B = 3, C = 40, S = 50, COUNT = B * C * S };

static float *filled(int batch, uint64_t key, uint64_t mask, double dropout) {
    propane_io io = {.dtype = PROPANE_FP32, .rank = 4, .dim = {batch, C, 1, S}, .stride = {C * S * 4, S * 4, S * 4, 4}};
    float *data = mem_array(COUNT, sizeof *data);
    EXPECT(data);
    train_dropout_fill(data, &io, key, mask, dropout);
    return data;
}

static int dropped(const float *a, const float *b) { /* dropped in both */
    int n = 0;
    for (int i = 0; i < COUNT; i++) n += a[i] == 0 && b[i] == 0;
    return n;
}

/* 6,000 draws: the deviation of their share is sqrt(p (1 - p) / 6000); five of them are allowed. */
TEST(the_share_is_what_was_asked_for) {
    static const double shares[] = {0.05, 0.1, 0.5, 0.9};
    for (int k = 0; k < 4; k++) {
        double p = shares[k], sum = 0;
        float *a = filled(B, 77, train_dropout_mask(2, "drop_q_proj"), p);
        for (int i = 0; i < COUNT; i++) {
            EXPECT(a[i] == 0 || a[i] == (float)(1 / (1 - p)));
            sum += (double)a[i];
        }
        double share = dropped(a, a) / (double)COUNT, deviation = sqrt(p * (1 - p) / COUNT);
        EXPECT_MSG(fabs(share - p) < 5 * deviation, "%g of %g", share, p); /* observed 1.2 deviations */
        EXPECT(fabs(sum / COUNT - 1) < 5 * deviation / (1 - p));
        mem_free(a);
    }
}

/* Two masks are independent: both drop p * p of the elements. */
TEST(each_module_sequence_and_layer_draws_on_its_own) {
    const double p = 0.3, deviation = sqrt(p * p * (1 - p * p) / COUNT);
    const struct {
        uint64_t key;
        int instance;
        const char *name;
    } others[] = {{10, 4, "drop_k_proj"}, {10, 4, "drop_v_proj"}, {10, 4, "drop_o_proj"},
                  {10, 6, "drop_q_proj"}, {10, 5, "drop_q_proj"}, {10 + B, 4, "drop_q_proj"}};
    float *a = filled(B, 10, train_dropout_mask(4, "drop_q_proj"), p);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        float *b = filled(B, others[i].key, train_dropout_mask(others[i].instance, others[i].name), p);
        double both = dropped(a, b) / (double)COUNT;
        EXPECT_MSG(fabs(both - p * p) < 5 * deviation, "%s: %g of %g", others[i].name, both, p * p); /* observed 1.9 */
        mem_free(b);
    }
    for (int other = 1; other < B * C; other++) EXPECT(memcmp(a, a + other * S, S * sizeof *a) != 0);
    mem_free(a);
}

/* A rank that has only the last sequences of a batch drops the same elements there as a single process; fp16 drops the
 * same. */
TEST(parts_of_a_batch_drop_what_the_whole_does) {
    uint64_t mask = train_dropout_mask(0, "drop_up_proj");
    float *whole = filled(B, 100, mask, 0.4), *again = filled(B, 100, mask, 0.4), *part = filled(1, 102, mask, 0.4);
    EXPECT(memcmp(whole, again, COUNT * sizeof *whole) == 0);
    EXPECT(memcmp(whole + 2 * C * S, part, C * S * sizeof *part) == 0);
    uint16_t half[C * 64] = {0};
    propane_io io = {.dtype = PROPANE_FP16, .rank = 4, .dim = {1, C, 1, S}, .stride = {C * 128, 128, 128, 2}};
    train_dropout_fill(half, &io, 100, mask, 0.4);
    for (int c = 0; c < C; c++)
        for (int s = 0; s < S; s++) EXPECT((half[c * 64 + s] == 0) == (whole[c * S + s] == 0));
    mem_free(whole);
    mem_free(again);
    mem_free(part);
    float *none = filled(B, 0, mask, 0.4);
    for (int i = 0; i < COUNT; i++) EXPECT(none[i] == 1);
    mem_free(none);
}

SUITE("train/dropout", T(the_share_is_what_was_asked_for), T(each_module_sequence_and_layer_draws_on_its_own),
      T(parts_of_a_batch_drop_what_the_whole_does))
