/* SPDX-License-Identifier: MIT
 * Estimated training steps: the published ones within 25 %, Propane's own plans consistent in their parts.
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "support/test.h"
#include "train/step/partition_cost.h"

/* Published steps of Stories110M and others, with what their notes say; the M4 Pro's two static runs differ by half. */
TEST(published_steps_within_a_quarter) {
    static const struct {
        const char *chip, *shape, *note;
        double ms;
    } rows[] = {
        {"M1 Pro", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "range 148-163 ms", 155.5},
        {"M4", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "72 kernels", 106.7},
        {"M4", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "86 kernels", 91.8},
        {"M4", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "60 kernels", 147},
        {"M4", "Stories110M L=12,D=768,F=2048,H=12,S=256", "dynamic pipeline, 6 kernels/layer", 91},
        {"M4", "Stories110M L=12,D=768,F=2048,H=12,S=256", "weights as function-parameter IOSurfaces", 76.9},
        {"M4", "Qwen3-0.6B L=28,D=1024,F=3072,Hq=16,Hkv=8", "dynamic pipeline, 10 kernels/layer", 412},
        {"M4 Pro", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "range 69-73 ms", 71},
        {"M4 Pro", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "static pipeline, CPU classifier", 111},
        {"M4 Pro", "Stories110M dynamic L=12,D=768,F=2048,H=12,S=256", "", 95},
        {"M4 Max", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "range 64-64 ms", 64},
        {"M4 Max", "D=1536,F=4096,H=12,L=20,S=512,V=8192", "whole step, median of 5", 961},
        {"M4 Max", "D=3072,F=8192,H=24,L=44,S=512,V=8192", "whole step, median of 5", 7940},
        {"M3 Ultra", "Stories110M L=12,D=768,F=2048,H=12,S=256,V=32000", "compile 7545 ms", 81.2},
        {"M3 Ultra", "Stories110M dynamic L=12,D=768,F=2048,H=12,S=256", "compile 353 ms once", 115.4},
        {"M3 Ultra", "D=1536,F=4096,L=20,S=512,V=8192", "median of 3", 1302},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cost_step_point p;
        EXPECT(cost_step_point_read("row", rows[i].chip, "train_step", rows[i].shape, rows[i].note, rows[i].ms, &p));
        EXPECT_MSG(p.covered, "%s, %s: %s", rows[i].chip, rows[i].note, p.reason);
        EXPECT_MSG(fabs(p.step.ms / rows[i].ms - 1) < 0.25, "%s, %s: %.1f ms, published %.1f", rows[i].chip,
                   rows[i].note, p.step.ms, rows[i].ms);
        EXPECT(fabs(p.step.engine_ms + p.step.staging_ms + p.step.elementwise_ms + p.step.gemm_ms + p.step.update_ms -
                    p.step.ms) < 1e-9);
    }
}

TEST(what_is_no_step_is_told) {
    cost_step_point p;
    EXPECT(!cost_step_point_read("a", "M4", "conv1x1", "Cin=1", "", 1, &p));
    EXPECT(cost_step_point_read("a", "M4", "train_step", "tiny15 model, S=256", "", 37.7, &p) && !p.covered);
    EXPECT_TEXT(p.reason, "sizes not stated");
    EXPECT(cost_step_point_read("a", "M9", "train_step", "Stories110M", "", 37.7, &p) && !p.covered);
    EXPECT_TEXT(p.reason, "chip not known");
}

static void expect_sound(const partition_cost *c) {
    bool baked = c->weights == WEIGHT_MODE_BAKED, reload = c->weights == WEIGHT_MODE_RELOAD;
    double chain = c->engine_ms + c->staging_ms + c->host_ms + c->loss_ms;
    EXPECT(fabs(chain + c->exposed_ms - c->pass_ms) < 1e-9);
    EXPECT(fabs(c->pass_ms + c->update_ms + c->recompile_ms - c->step_ms) < 1e-9);
    EXPECT(c->exposed_ms >= 0 && c->exposed_ms <= c->products_ms);
    EXPECT(c->energy_j > 0 && c->utilisation > 0 && c->utilisation < 1);
    EXPECT(baked == (c->compiles > 0) && baked == (c->restarts_per_100 > 0) && reload == (c->reloads > 0));
    EXPECT((baked || reload) == (c->recompile_ms > 0));
    EXPECT(c->low_ms < c->step_ms && c->step_ms < c->high_ms);
}

TEST(parts_of_our_plans_add_up) {
    propane_error err = {0};
    model_config config;
    model_config_default(&config);
    for (int n = 0; n < partition_name_count(); n++) {
        partition *p = NULL;
        partition_options options = {partition_name(n), MIL_fp16, 2, 64};
        EXPECT_OK(partition_create(&config, &options, &p, &err));
        arena *a = arena_create();
        partition_cost cost[WEIGHT_MODE_COUNT], ten;
        for (int w = 0; w < WEIGHT_MODE_COUNT; w++) {
            EXPECT_OK(partition_cost_on(p, chip_get(CHIP_m4), (weight_mode)w, 1, a, &cost[w], &err));
            expect_sound(&cost[w]);
        }
        EXPECT(cost[WEIGHT_MODE_PACKED].engine_ms >= cost[WEIGHT_MODE_INPUTS].engine_ms);
        EXPECT(cost[WEIGHT_MODE_BAKED].step_ms > cost[WEIGHT_MODE_RELOAD].step_ms);
        EXPECT(cost[WEIGHT_MODE_RELOAD].step_ms > cost[WEIGHT_MODE_INPUTS].step_ms);
        EXPECT(cost[WEIGHT_MODE_RELOAD].reloads == cost[WEIGHT_MODE_BAKED].compiles);
        EXPECT(cost[WEIGHT_MODE_RELOAD].programs ==
               cost[WEIGHT_MODE_BAKED].programs + cost[WEIGHT_MODE_RELOAD].reloads);
        EXPECT_OK(partition_cost_on(p, chip_get(CHIP_m4), WEIGHT_MODE_INPUTS, 10, a, &ten, &err));
        EXPECT(fabs(ten.update_ms * 10 - cost[WEIGHT_MODE_INPUTS].update_ms) < 1e-9);
        arena_free(a);
        partition_free(p);
    }
}

SUITE("train/plan_cost", T(published_steps_within_a_quarter), T(what_is_no_step_is_told), T(parts_of_our_plans_add_up))
