/* SPDX-License-Identifier: MIT
 * Plans, wiring and step against PyTorch, with every program computed by the slow meaning of its ops.
 */
#include <stdlib.h>

#include "train/eval_driver.h"
#include "train/reference.h"

static void check(const char *plan_title, mil_dtype precision, bool baked, bool two_queues, bool accumulate,
                  double tolerance) {
    train_step_options o = {.plan = {.name = plan_title, .precision = precision}, .device = "cpu", .baked = baked,
                            .two_queues = two_queues, .accumulate = accumulate};
    reference_check(&o, tolerance);
}

TEST(layer_fp32) { check("layer", MIL_fp32, false, false, false, 1e-5); } /* observed 4e-7 */
TEST(six_fp32) { check("six", MIL_fp32, false, false, false, 1e-5); }
TEST(ten_fp32) { check("ten", MIL_fp32, false, false, false, 1e-5); }
TEST(layer_fp16) { check("layer", MIL_fp16, false, false, false, 2e-2); }
TEST(six_fp16) { check("six", MIL_fp16, false, false, false, 2e-2); }
TEST(ten_fp16) { check("ten", MIL_fp16, false, false, false, 2e-2); }
TEST(baked) { check("six", MIL_fp32, true, false, false, 1e-5); }
TEST(two_queues_six) { check("six", MIL_fp32, false, true, false, 1e-5); }
TEST(two_queues_ten) { check("ten", MIL_fp16, false, true, false, 2e-2); }
TEST(two_queues_accumulated) { check("six", MIL_fp32, true, true, true, 1e-5); }
TEST(accumulated) { check("layer", MIL_fp32, false, false, true, 1e-5); }

SUITE("train/step_truth", T(layer_fp32), T(six_fp32), T(ten_fp32), T(layer_fp16), T(six_fp16), T(ten_fp16), T(baked),
      T(two_queues_six), T(two_queues_ten), T(two_queues_accumulated), T(accumulated))
