/* SPDX-License-Identifier: MIT
 * Learning rate and loss scale.
 */
#include <math.h>

#include "support/test.h"
#include "train/optim/scaler.h"
#include "train/optim/schedule.h"

TEST(warms_up_then_follows_a_cosine_to_the_floor) {
    train_schedule s = {.peak = 1e-3, .floor = 1e-4, .warmup = 10, .steps = 110};
    EXPECT(fabs(train_schedule_at(&s, 0) - 1e-4) < 1e-18);
    EXPECT(fabs(train_schedule_at(&s, 9) - 1e-3) < 1e-18);
    EXPECT(fabs(train_schedule_at(&s, 10) - 1e-3) < 1e-18);
    EXPECT(fabs(train_schedule_at(&s, 60) - 5.5e-4) < 1e-12);
    EXPECT(fabs(train_schedule_at(&s, 35) - (1e-4 + 9e-4 * (1 + sqrt(0.5)) / 2)) < 1e-12);
    EXPECT(train_schedule_at(&s, 110) == 1e-4);
    EXPECT(train_schedule_at(&s, 5000) == 1e-4);
    for (int i = 10; i < 110; i++) EXPECT(train_schedule_at(&s, i + 1) < train_schedule_at(&s, i));
}

TEST(no_warm_up_starts_at_the_peak) {
    train_schedule s = {.peak = 2, .floor = 0, .warmup = 0, .steps = 4};
    EXPECT(train_schedule_at(&s, 0) == 2);
    EXPECT(fabs(train_schedule_at(&s, 2) - 1) < 1e-12);
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-12; }

/* Each shape at its edges: the last step of the warm-up and the first one after it are at the peak, steps after the
 * end are at the minimum. */
TEST(shapes_at_their_edges) {
    static const struct {
        const char *word;
        double at[7]; /* steps 3, 4, 8, 9, 12, 13, 14 of 14 with 4 of warm-up, from 1 to 0.5 */
    } cases[] = {{"linear", {1, 1, 0.8, 0.75, 0.6, 0.55, 0.5}},
                 {"constant", {1, 1, 1, 1, 1, 1, 1}},
                 {"wsd", {1, 1, 1, 1, 0.5 + 0.5 / 1.4, 0.5 + 0.25 / 1.4, 0.5}}};
    static const int64_t steps[] = {3, 4, 8, 9, 12, 13, 14};
    for (int i = 0; i < 3; i++) {
        train_schedule s = {
            .peak = 1, .floor = 0.5, .warmup = 4, .steps = 14, .shape = train_schedule_find(cases[i].word)};
        for (int k = 0; k < 7; k++)
            EXPECT_MSG(near(train_schedule_at(&s, steps[k]), cases[i].at[k]), "%s, step %lld: %.9g", cases[i].word,
                       (long long)steps[k], train_schedule_at(&s, steps[k]));
        for (int k = 0; k < 4; k++) EXPECT(near(train_schedule_at(&s, k), 0.25 * (k + 1)));
    }
    EXPECT(train_schedule_find("cosine") == TRAIN_SCHEDULE_COSINE && train_schedule_find("x") == TRAIN_SCHEDULE_COSINE);
    EXPECT(train_schedule_find("linear") == TRAIN_SCHEDULE_LINEAR && train_schedule_find("wsd") == TRAIN_SCHEDULE_WSD);
}

/* If the warm-up is at least as long as the run, the run never leaves it. */
TEST(a_warm_up_may_be_the_whole_run) {
    train_schedule s = {.peak = 1, .floor = 0.5, .warmup = 8, .steps = 4, .shape = TRAIN_SCHEDULE_WSD};
    for (int k = 0; k < 8; k++) EXPECT(near(train_schedule_at(&s, k), (k + 1) / 8.0));
    EXPECT(train_schedule_at(&s, 8) == 0.5);
    s = (train_schedule){.peak = 1, .floor = 0.5, .warmup = 9, .steps = 10, .shape = TRAIN_SCHEDULE_WSD};
    EXPECT(near(train_schedule_at(&s, 9), 1)); /* a tail longer than the remaining steps begins at the peak */
}

TEST(loss_scale_halves_on_overflow_and_doubles_after_two_thousand_good_steps) {
    train_scaler s;
    train_scaler_init(&s, true);
    double start = s.scale;
    EXPECT(!train_scaler_step(&s, false));
    EXPECT(s.scale == start / 2 && s.skipped == 1);
    for (int i = 0; i < 1999; i++) EXPECT(train_scaler_step(&s, true));
    EXPECT(s.scale == start / 2);
    EXPECT(train_scaler_step(&s, true));
    EXPECT(s.scale == start && s.good == 0);
    for (int i = 0; i < 100; i++) train_scaler_step(&s, false);
    EXPECT(s.scale == 1);
    train_scaler_init(&s, false);
    for (int i = 0; i < 5000; i++) train_scaler_step(&s, true);
    EXPECT(s.scale == 1);
    EXPECT(!train_scaler_step(&s, false));
}

SUITE("train/schedule", T(warms_up_then_follows_a_cosine_to_the_floor), T(no_warm_up_starts_at_the_peak),
      T(shapes_at_their_edges), T(a_warm_up_may_be_the_whole_run),
      T(loss_scale_halves_on_overflow_and_doubles_after_two_thousand_good_steps))
