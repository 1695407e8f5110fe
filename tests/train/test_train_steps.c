/* SPDX-License-Identifier: MIT
 * The steps of a training run, tested with a run of scripted losses: the update that a step gets, updates that begin
 * early, the schedule, and loops of callers. scripted_run.h explains the letters.
 */
#include <math.h>

#include "core/base/memory.h"
#include "propane.h"
#include "support/test.h"
#include "train/scripted_run.h"

static propane_error err;
static bool restart;

/* ---- steps and updates ------------------------------------------------------------------------------------------- */

static bool near(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

TEST(a_step_gets_the_options_and_the_rate_of_its_step) {
    train_options o = scripted_options(NULL, 6);
    o.beta1 = 0.5, o.beta2 = 0.25, o.epsilon = 1e-3, o.weight_decay = 0.75, o.clip = 0;
    scripted_run *s = scripted_made(&o);
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    /* two steps of warm-up, then linear from 0.5 towards 0.25 */
    static const double rates[] = {0.25, 0.5, 0.5, 0.4375, 0.375, 0.3125};
    for (int i = 0; i < 6; i++) {
        const adamw_step *u = &s->update[i];
        EXPECT_MSG(near(u->lr, rates[i]) && near(s->report[i + 1].lr, rates[i]), "step %d: %g", i, u->lr);
        EXPECT(u->beta1 == 0.5 && u->beta2 == 0.25 && u->epsilon == 1e-3 && u->weight_decay == 0.75);
        EXPECT(u->step == i + 1 && u->gradient_scale == 1 && !u->guarded && !s->began_ahead[i]);
        const train_report *p = &s->report[i + 1];
        EXPECT(p->step == i + 1 && p->loss == 1 && p->gradient_norm == 1 && !p->skipped && p->loss_scale == 65536);
        EXPECT(p->device_ms == 3 && p->host_ms == 4 && p->outer_bytes == 0 && p->staleness == -1 && p->outer_ms >= 0);
        EXPECT(p->tokens_per_s > 0);
    }
    train_run_free(&s->run);
}

TEST(larger_gradients_are_clipped_to_the_norm) {
    static const struct {
        double clip, norm, scale;
    } cases[] = {{2, 1, 1}, {2, 2, 1}, {2, 8, 0.25}, {0, 1e9, 1}, {0.5, 1, 0.5}, {1, 1e30, 1e-30}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        train_options o = scripted_options(NULL, 1);
        o.clip = cases[k].clip;
        scripted_run *s = scripted_made(&o);
        s->norm[0] = cases[k].norm;
        EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
        const double ratio = s->update[0].gradient_scale / cases[k].scale;
        EXPECT_MSG(ratio <= 1 && ratio > 1 - 2e-6, "case %zu: %g", k, s->update[0].gradient_scale);
        EXPECT(ratio == 1 || cases[k].scale < 1);
        EXPECT(s->report[1].gradient_norm == cases[k].norm);
        train_run_free(&s->run);
    }
}

/* The scale matches torch.nn.utils.clip_grad_norm_, which adds 1e-6 to the norm. */
TEST(tiny_gradients_are_clipped_as_in_pytorch) {
    train_options o = scripted_options(NULL, 1);
    o.clip = 1e-6;
    scripted_run *s = scripted_made(&o);
    s->norm[0] = 3e-6;
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT_MSG(near(s->update[0].gradient_scale, 0.25), "%.17g", s->update[0].gradient_scale);
    train_run_free(&s->run);
}

/* A step whose loss or gradient is not finite counts as a step, not as an update. */
TEST(a_step_that_is_not_finite_changes_no_weight) {
    train_options o = scripted_options(NULL, 6);
    scripted_run *s = scripted_made(&o);
    s->norm[1] = INFINITY, s->loss[2] = NAN, s->norm[4] = NAN, s->norm[3] = 5;
    scripted_expect_run(s, "rgu rg rg rgu rg rgu res s");
    EXPECT(s->run.state.step == 6 && s->run.state.updates == 3 && s->run.state.position == 6 * SCRIPT_BATCH);
    EXPECT(s->update[0].step == 1 && s->update[1].step == 2 && s->update[2].step == 3);
    EXPECT(s->run.state.norm == 1 && s->run.lost == 0);
    static const bool skipped[] = {false, true, true, false, true, false};
    static const double scale[] = {65536, 65536, 32768, 16384, 16384, 8192}; /* before the step */
    for (int i = 0; i < 6; i++)
        EXPECT_MSG(s->report[i + 1].skipped == skipped[i] && s->report[i + 1].loss_scale == scale[i], "step %d: %g",
                   i + 1, s->report[i + 1].loss_scale);
    EXPECT(s->run.state.scaler.skipped == 3 && s->run.state.scaler.good == 1);
    train_run_free(&s->run);
}

/* ---- updates that begin early ------------------------------------------------------------------------------------ */

/* With the lagged norm, the update of a step is part of its gradients once there is a norm; it is not called again. */
TEST(lagged_clipping_takes_the_norm_of_the_step_before) {
    train_options o = scripted_options(NULL, 5);
    o.clipping = "lagged", o.clip = 2;
    scripted_run *s = scripted_made(&o);
    s->norm[0] = 4, s->norm[1] = 1, s->norm[2] = INFINITY, s->norm[3] = 8;
    scripted_expect_run(s, "rgu rg rg rg rg res s");
    static const double scale[] = {0, 0.5, 1, 1, 0.25};
    static const int64_t number[] = {1, 2, 3, 3, 4};
    EXPECT(!s->began_ahead[0] && s->run.state.updates == 4 && s->run.state.norm == 1);
    for (int i = 1; i < 5; i++) {
        const train_ahead *a = &s->ahead[i];
        EXPECT(s->began_ahead[i] && !a->speculative && a->how.guarded && a->how.step == number[i]);
        EXPECT_MSG(fabs(a->how.gradient_scale - scale[i]) < 1e-6, "step %d: %g", i + 1, a->how.gradient_scale);
    }
    train_run_free(&s->run);
}

/* An update is speculative if the last gradient was not clipped, and the update is called in any case. */
TEST(early_updates_are_speculative_after_a_gradient_that_was_not_clipped) {
    train_options o = scripted_options(NULL, 5);
    o.overlap = "early", o.clip = 2;
    scripted_run *s = scripted_made(&o);
    s->norm[0] = 2, s->norm[1] = 3, s->norm[2] = 1, s->norm[3] = NAN;
    scripted_expect_run(s, "rgu rgu rgu rg rgu res s");
    static const bool begins[] = {false, true, false, true, true};
    for (int i = 0; i < 5; i++)
        EXPECT_MSG(s->began_ahead[i] == begins[i] && (!begins[i] || s->ahead[i].speculative), "step %d", i + 1);
    EXPECT(s->ahead[1].how.gradient_scale == 1 && s->ahead[1].how.step == 2 && s->ahead[1].how.guarded);
    EXPECT(!s->update[1].guarded && s->update[1].gradient_scale < 0.67 && s->ahead[1].how.lr == s->update[1].lr);
    train_run_free(&s->run);
    o.clip = 0; /* nothing is ever clipped: the first one is speculative, too */
    s = scripted_made(&o);
    scripted_expect_run(s, "rgu rgu rgu rgu rgu res s");
    for (int i = 0; i < 5; i++) EXPECT(s->began_ahead[i]);
    train_run_free(&s->run);
    o.overlap = "on";
    s = scripted_made(&o);
    scripted_expect_run(s, "rgu rgu rgu rgu rgu res s");
    for (int i = 0; i < 5; i++) EXPECT(!s->began_ahead[i]);
    train_run_free(&s->run);
}

/* ---- a caller's own loop ----------------------------------------------------------------------------------------- */

TEST(a_caller_may_step_beyond_the_end) {
    train_options o = scripted_options(NULL, 2);
    train_report p = {0};
    train_evaluation e = {0};
    scripted_run *s = scripted_made(&o);
    for (int i = 1; i <= 4; i++) {
        EXPECT_OK(train_run_ready(&s->run, &restart, &err));
        EXPECT_OK(train_run_step(&s->run, &p, &err));
        EXPECT(p.step == i && !restart);
    }
    EXPECT(p.lr == 0.25);
    s->val[0] = 6;
    EXPECT_OK(train_run_evaluate(&s->run, &e, &err));
    EXPECT(e.step == 4 && e.val_loss == 6 && s->run.state.evaluated == 4 && s->run.state.best == 4);
    EXPECT_OK(train_run_save(&s->run, &err)); /* there is no folder */
    EXPECT_OK(train_run_finish(&s->run, &err));
    scripted_expect(s, "rgurgurgurgu es s");
    train_run_free(&s->run);
}

static bool asks_once(void *context) { return (*(int *)context)++ == 0; }

/* A request of the host ends one step, which leaves no effects; the next one runs. */
TEST(a_request_of_the_host_ends_one_step) {
    train_options o = scripted_options(NULL, 2);
    train_report p = {0};
    int asked = 0;
    scripted_run *s = scripted_made(&o);
    propane_set_interrupt(asks_once, &asked);
    EXPECT_FAIL(train_run_step(&s->run, &p, &err), PROPANE_ERR_CANCELLED, "stopped");
    EXPECT(s->run.state.step == 0);
    EXPECT_OK(train_run_step(&s->run, &p, &err));
    propane_set_interrupt(NULL, NULL);
    EXPECT(p.step == 1 && asked == 2);
    train_run_free(&s->run);
}

/* After weights were changed from outside, the same step is validated and saved again. */
TEST(changed_weights_are_published_validated_and_saved_again) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 2);
    scripted_run *s = scripted_made(&o);
    scripted_expect_run(s, "rgurgu res sdc sf");
    EXPECT_OK(train_run_changed(&s->run, &err));
    EXPECT(s->run.saved == -1 && s->run.state.evaluated == -1);
    scripted_expect_run(s, "p re sdc sf");
    s->fail['p'] = PROPANE_ERR_DEVICE;
    EXPECT_FAIL(train_run_changed(&s->run, &err), PROPANE_ERR_DEVICE, "'p' fails");
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(trained_tensors_are_counted_from_zero) {
    train_options o = scripted_options(NULL, 1);
    scripted_run *s = scripted_made(&o);
    train_trained t = {0};
    EXPECT(train_run_trained(&s->run, 0, &t));
    EXPECT_TEXT(t.name, "first");
    EXPECT(t.rank == 2 && t.count == 6 && t.dim[0] == 2 && t.dim[1] == 3 && t.data == s->data[0][0]);
    EXPECT(train_run_trained(&s->run, 1, &t)); /* the second is not trained */
    EXPECT_TEXT(t.name, "fixed");
    EXPECT(!train_run_trained(&s->run, 2, &t) && !train_run_trained(&s->run, -1, &t));
    EXPECT(train_run_workers(&s->run) == 1 && train_run_writes(&s->run));
    train_run_free(&s->run);
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

typedef struct plan_case {
    double lr, min_lr;
    const char *schedule;
    int64_t warmup, steps;
    double peak, floor;
    int64_t warm;
    train_schedule_shape shape;
} plan_case;

TEST(values_that_are_not_given_follow_from_the_others) {
    static const plan_case cases[] = {
        {-1, -1, "auto", -1, 1000, 1e-3, 1e-3, 50, TRAIN_SCHEDULE_COSINE},
        {-1, -1, "linear", -1, 499, 1e-3, 1e-4, 49, TRAIN_SCHEDULE_LINEAR},
        {0.5, -1, "wsd", -1, 500, 0.5, 0.05, 50, TRAIN_SCHEDULE_WSD},
        {0.5, -1, "constant", 0, 9, 0.5, 0.05, 0, TRAIN_SCHEDULE_CONSTANT},
        {0.5, 0, "cosine", -1, 9, 0.5, 0, 0, TRAIN_SCHEDULE_COSINE},
        {0, -1, "cosine", 70, 9, 0, 0, 70, TRAIN_SCHEDULE_COSINE},
        {0.5, 0.25, "auto", -1, 509, 0.5, 0.25, 50, TRAIN_SCHEDULE_COSINE},
        {0.5, 0.25, "linear", -1, 10, 0.5, 0.25, 1, TRAIN_SCHEDULE_LINEAR},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const plan_case *c = &cases[k];
        train_run run = {.options = scripted_options(NULL, c->steps)};
        train_options *o = &run.options;
        o->lr = c->lr, o->min_lr = c->min_lr, o->schedule = c->schedule, o->warmup = c->warmup;
        train_run_plan(&run);
        const train_schedule *p = &run.schedule;
        EXPECT_MSG(p->peak == c->peak && fabs(p->floor - c->floor) < 1e-15 && p->warmup == c->warm &&
                       p->steps == c->steps && p->shape == c->shape,
                   "case %zu: %g to %g, %lld of %lld, %d", k, p->peak, p->floor, (long long)p->warmup,
                   (long long)p->steps, (int)p->shape);
        EXPECT(o->lr == c->peak && o->warmup == c->warm && strcmp(o->schedule, "auto") != 0);
    }
}

SUITE("train/steps", T(a_step_gets_the_options_and_the_rate_of_its_step), T(larger_gradients_are_clipped_to_the_norm),
      T(tiny_gradients_are_clipped_as_in_pytorch), T(a_step_that_is_not_finite_changes_no_weight),
      T(lagged_clipping_takes_the_norm_of_the_step_before),
      T(early_updates_are_speculative_after_a_gradient_that_was_not_clipped), T(a_caller_may_step_beyond_the_end),
      T(a_request_of_the_host_ends_one_step), T(changed_weights_are_published_validated_and_saved_again),
      T(trained_tensors_are_counted_from_zero), T(values_that_are_not_given_follow_from_the_others))
