/* SPDX-License-Identifier: MIT
 * Estimated training steps: published ones within 25 %, and consistent parts for Propane's own plans.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "lm/arch/lora.h"
#include "lm/step/partition_compare.h"
#include "lm/step/partition_schedule.h"
#include "support/test.h"

/* Published steps of Stories110M and others, with the figures in their notes; the M4 Pro's two static runs differ by
 * half. */
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

/* A step of 8 layers of that shape, packed. */
static cost_step packed_step(const char *vocab, int context) {
    char shape[80];
    cost_step_point p;
    snprintf(shape, sizeof shape, "Qwen-like L=8,D=512,F=1536%s,S=%d", vocab, context);
    EXPECT(cost_step_point_read("row", "M4", "train_step", shape, "dynamic", 1, &p) && p.covered);
    return p.step;
}

/* Twice the positions cost the engine 1.46 times as much. The head grows with the vocabulary, which is 9,205 words if
 * none is stated; everything else scales with the positions. */
TEST(packed_steps_know_positions_and_vocabulary) {
    const cost_step a = packed_step(",V=9205", 256), b = packed_step(",V=9205", 512), c = packed_step(",V=18410", 256),
                    d = packed_step("", 256);
    EXPECT_MSG(fabs(b.engine_ms / a.engine_ms - 1.4596) < 1e-3, "%g", b.engine_ms / a.engine_ms);
    EXPECT(fabs(b.staging_ms / a.staging_ms - 2) < 1e-9 && fabs(b.elementwise_ms / a.elementwise_ms - 2) < 1e-9);
    EXPECT(fabs(b.gemm_ms / a.gemm_ms - 2) < 1e-9 && fabs(c.gemm_ms / a.gemm_ms - 2) < 1e-9);
    EXPECT(fabs(c.engine_ms - a.engine_ms) < 1e-9 && fabs(d.ms - a.ms) < 1e-9);
}

TEST(what_is_no_step_is_reported) {
    cost_step_point p;
    EXPECT(!cost_step_point_read("a", "M4", "conv1x1", "Cin=1", "", 1, &p));
    EXPECT(cost_step_point_read("a", "M4", "train_step", "tiny15 model, S=256", "", 37.7, &p) && !p.covered);
    EXPECT_TEXT(p.reason, "sizes not stated");
    EXPECT(cost_step_point_read("a", "M9", "train_step", "Stories110M", "", 37.7, &p) && !p.covered);
    EXPECT_TEXT(p.reason, "chip not known");
}

static void expect_sound(const partition_cost *c) {
    bool baked = c->how.weights == WEIGHT_MODE_BAKED, reload = c->how.weights == WEIGHT_MODE_RELOAD;
    double chain = c->engine_ms + c->staging_ms + c->host_ms + c->loss_ms;
    EXPECT(c->exposed_ms == 0 ? c->pass_ms <= chain + 1e-9 : fabs(chain + c->exposed_ms - c->pass_ms) < 1e-9);
    EXPECT(fabs(c->pass_ms + c->update_ms + c->recompile_ms - c->step_ms) < 1e-9);
    EXPECT(c->exposed_ms >= 0 && c->update_ms <= 2 * c->sweep_ms);
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
            const partition_training how = {(weight_mode)w, 1, MOMENT_FP32, false};
            EXPECT_OK(partition_cost_on(p, chip_get(CHIP_m4), &how, a, &cost[w], &err));
            expect_sound(&cost[w]);
        }
        EXPECT(cost[WEIGHT_MODE_PACKED].engine_ms >= cost[WEIGHT_MODE_INPUTS].engine_ms);
        EXPECT(cost[WEIGHT_MODE_BAKED].step_ms > cost[WEIGHT_MODE_RELOAD].step_ms);
        EXPECT(cost[WEIGHT_MODE_RELOAD].step_ms > cost[WEIGHT_MODE_INPUTS].step_ms);
        EXPECT(cost[WEIGHT_MODE_RELOAD].reloads == cost[WEIGHT_MODE_BAKED].compiles);
        EXPECT(cost[WEIGHT_MODE_RELOAD].programs ==
               cost[WEIGHT_MODE_BAKED].programs + cost[WEIGHT_MODE_RELOAD].reloads);
        const partition_training tenth = {WEIGHT_MODE_INPUTS, 10, MOMENT_FP32, false};
        EXPECT_OK(partition_cost_on(p, chip_get(CHIP_m4), &tenth, a, &ten, &err));
        EXPECT(fabs(ten.sweep_ms * 10 - cost[WEIGHT_MODE_INPUTS].sweep_ms) < 1e-9);
        EXPECT(ten.update_ms * 10 < cost[WEIGHT_MODE_INPUTS].update_ms + 1e-9);
        arena_free(a);
        partition_free(p);
    }
}

/* Adapters only: no gradients of the base, no program recompiled with baked weights, an update of the adapters'
 * size. */
TEST(adapters_leave_the_base_alone) {
    propane_error err = {0};
    model_config config;
    model_lora lora = {.rank = 4, .alpha = 4};
    partition_comparison all[2];
    const partition_batches one = {1, 1};
    model_config_default(&config);
    EXPECT_OK(model_lora_choose(&lora, &config, "all", &err));
    for (int i = 0; i < 2; i++) {
        const partition_question q = {.plan = "layer",
                                      .weights = "baked",
                                      .head = "device",
                                      .gradients = "host",
                                      .moments = "fp32",
                                      .batches = &one,
                                      .batch_count = 1,
                                      .context = 64,
                                      .lora = i ? &lora : NULL};
        EXPECT_OK(partition_compare(&config, &q, chip_get(CHIP_m4), &all[i], &err));
        EXPECT(all[i].count == 1);
    }
    const partition_cost *full = &all[0].list[0].cost, *few = &all[1].list[0].cost;
    EXPECT(full->compiles > 0 && few->compiles == 0 && few->recompile_ms == 0 && few->compile_ms > full->compile_ms);
    EXPECT(few->programs == full->programs + full->compiles);
    /* A and B of every matrix of a layer: rank x (in + out); queries, keys and values have separate A's, as do gate and
     * up. */
    const double d = (double)config.hidden_size, h = (double)config.intermediate_size,
                 q = (double)(config.num_attention_heads * config.head_dim),
                 kv = (double)(config.num_key_value_heads * config.head_dim),
                 adapters = 4 * (double)config.num_hidden_layers * (2 * (d + q) + 2 * (d + kv) + 3 * (d + h));
    EXPECT_MSG(fabs(few->sweep_ms / full->sweep_ms - adapters / (double)model_arch_parameters(&config)) < 1e-9,
               "%g of %g ms", few->sweep_ms, full->sweep_ms);
    EXPECT(few->products_ms < full->products_ms && few->host_j < full->host_j);
    EXPECT(fabs(partition_cost_joules(few) - few->energy_j - few->host_j - few->memory_j - few->idle_j) < 1e-12);
    for (int i = 0; i < 2; i++) partition_comparison_free(&all[i]);
}

/* The clock of a step, on tasks whose ends are known. */
TEST(lanes_share_memory_and_pool) {
    schedule_task alone[] = {{SCHEDULE_ENGINE, .ms = 2, .bytes = 2e6},
                             {SCHEDULE_HOST, .ms = 3, .waits = {0}, .wait_count = 1},
                             {SCHEDULE_ENGINE, .ms = 1, .waits = {1}, .wait_count = 1},
                             {SCHEDULE_HOST, .ms = 1}};
    schedule_run(alone, 4, 100);
    EXPECT(fabs(alone[0].end - 2) < 1e-9 && fabs(alone[1].end - 5) < 1e-9);
    /* in order, although it waits for nothing */
    EXPECT(fabs(alone[2].end - 6) < 1e-9 && fabs(alone[3].end - 6) < 1e-9);
    schedule_task pool[] = {{SCHEDULE_HOST, true, .ms = 2}, {SCHEDULE_UPDATE, true, .ms = 3}};
    schedule_run(pool, 2, 100);
    EXPECT(fabs(pool[0].end - 4) < 1e-9 && fabs(pool[1].end - 5) < 1e-9);
    schedule_task memory[] = {{SCHEDULE_ENGINE, .ms = 1, .bytes = 60e6}, {SCHEDULE_UPDATE, .ms = 1, .bytes = 60e6}};
    schedule_run(memory, 2, 60);
    EXPECT(fabs(memory[0].end - 2) < 1e-9 && fabs(memory[1].end - 2) < 1e-9);
}

/* A smaller update takes no longer. The step takes at most the sum of all parts, and at least as long as each lane
 * without the others. */
TEST(updates_hide) {
    propane_error err = {0};
    model_config config;
    double step[3][2];
    model_config_default(&config);
    for (int n = 0; n < partition_name_count(); n++) {
        partition *p = NULL;
        partition_options options = {partition_name(n), MIL_fp16, 1, 64, .head = PARTITION_HEAD_DEVICE};
        EXPECT_OK(partition_create(&config, &options, &p, &err));
        arena *a = arena_create();
        for (int form = 0; form < 3; form++)
            for (int lagged = 0; lagged < 2; lagged++) {
                partition_cost c;
                const partition_training how = {WEIGHT_MODE_INPUTS, 1, (moment_form)form, .lagged = lagged};
                EXPECT_OK(partition_cost_on(p, chip_get(CHIP_m4), &how, a, &c, &err));
                step[form][lagged] = c.step_ms;
                EXPECT(c.step_ms >= c.sweep_ms && c.step_ms >= c.engine_ms && c.step_ms >= c.products_ms);
                EXPECT_MSG(c.update_ms < c.sweep_ms, "%s: %g of %g ms are left", options.name, c.update_ms, c.sweep_ms);
                EXPECT(form == 0 || step[form][lagged] <= step[form - 1][lagged] + 1e-9);
            }
        /* With the lagged norm, the head's unit is the last: if there is little else to overlap, that may cost as much
         * as it saves. */
        for (int form = 0; form < 3; form++)
            EXPECT_MSG(step[form][1] <= 1.1 * step[form][0], "%s: lagged %g, exact %g ms", options.name, step[form][1],
                       step[form][0]);
        arena_free(a);
        partition_free(p);
    }
}

/* A search's first result equals that of its own separate query, and no other allowed one is faster; equal results
 * keep their order. */
TEST(a_search_names_the_fastest) {
    propane_error err = {0};
    model_config config;
    partition_comparison all, one;
    text words = {0};
    int equals = 0;
    const partition_batches batches[] = {{1, 4}, {4, 1}};
    model_config_default(&config);
    EXPECT_OK(partition_compare(&config, &(partition_question){.batches = batches, .batch_count = 2, .context = 64},
                                chip_get(CHIP_m4), &all, &err));
    EXPECT(all.count == 3 * 2 * 2 * 2 * (WEIGHT_MODE_COUNT - 1) * 3);
    for (int i = 1; i < all.count && !all.list[i].refused[0]; i++) {
        const partition_candidate *x = &all.list[i - 1], *y = &all.list[i];
        EXPECT(y->cost.tokens_per_s < x->cost.tokens_per_s ||
               (y->cost.tokens_per_s == x->cost.tokens_per_s && y->number > x->number));
        equals += y->cost.tokens_per_s == x->cost.tokens_per_s;
    }
    EXPECT(equals > 0);
    const partition_options *o = &all.list[0].partition->options;
    const partition_batches batch = {o->batch, all.list[0].cost.how.accumulate};
    const partition_question q = {.plan = o->name,
                                  .weights = weight_mode_name(all.list[0].cost.how.weights),
                                  .head = partition_head_name(o),
                                  .gradients = o->gradients ? "device" : "host",
                                  .moments = moment_form_name(all.list[0].cost.how.moments),
                                  .batches = &batch,
                                  .batch_count = 1,
                                  .context = 64};
    EXPECT_OK(partition_compare(&config, &q, chip_get(CHIP_m4), &one, &err));
    EXPECT(one.count == 1 && one.list[0].cost.step_ms == all.list[0].cost.step_ms);
    partition_candidate_print(&one.list[0], &words);
    EXPECT(strstr(words.data, ", moments "));
    text_deinit(&words);
    partition_comparison_free(&one);
    partition_comparison_free(&all);
}

SUITE("train/plan_cost", T(lanes_share_memory_and_pool), T(updates_hide), T(a_search_names_the_fastest),
      T(published_steps_within_a_quarter), T(packed_steps_know_positions_and_vocabulary),
      T(adapters_leave_the_base_alone), T(what_is_no_step_is_reported), T(parts_of_our_plans_add_up))
