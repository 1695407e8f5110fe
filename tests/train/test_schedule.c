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
      T(loss_scale_halves_on_overflow_and_doubles_after_two_thousand_good_steps))
