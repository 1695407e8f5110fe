/* SPDX-License-Identifier: MIT
 * The decisions of the training loop, tested with a run of scripted losses: when it validates, keeps weights, saves,
 * stops and resumes. scripted_run.h explains the letters.
 */
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "propane.h"
#include "support/test.h"
#include "train/scripted_run.h"

static propane_error err;
static bool restart;

static bool is_there(const char *dir, const char *name) {
    char path[1300];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return file_exists(path);
}

/* ---- validations and checkpoints --------------------------------------------------------------------------------- */

TEST(without_intervals_only_the_end_is_validated_and_saved) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    scripted_run *s = scripted_made(&o);
    scripted_expect_run(s, "rgurgurgu ressdc sf");
    EXPECT(s->evaluations == 1 && s->evaluation[0].step == 3 && s->checkpoint_step == 3);
    EXPECT(s->evaluation[0].val_nats_per_byte == -1 && s->evaluation[0].val_accuracy == -1);
    EXPECT(train_run_steps_done(&s->run) == 3 && s->run.state.position == 3 * SCRIPT_BATCH);
    EXPECT(is_there(dir, TRAIN_CHECKPOINT) && !is_there(dir, TRAIN_BEST));
    train_run_free(&s->run);
    mem_free(dir);
}

/* Validations at 2, 4, 6 and the end, 7, checkpoints at 3, 6 and the end. */
TEST(intervals_are_of_whole_steps) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 7);
    o.eval_interval = 2, o.checkpoint_interval = 3, o.keep = "last";
    scripted_run *s = scripted_made(&o);
    for (int i = 0; i < 4; i++) s->val[i] = 8 - i;
    scripted_expect_run(s, "rgurgu res gu r sdc gu res gurgu res sdc gu res sdc sf");
    static const int64_t at[] = {2, 4, 6, 7};
    for (int i = 0; i < 4; i++) EXPECT(s->evaluation[i].step == at[i] && s->evaluation[i].val_loss == 8 - i);
    EXPECT(s->evaluations == 4 && !is_there(dir, TRAIN_BEST));
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(the_last_step_is_validated_once_when_it_is_due_anyway) {
    train_options o = scripted_options(NULL, 4);
    o.eval_interval = 4;
    scripted_run *s = scripted_made(&o);
    scripted_expect_run(s, "rgurgurgurgu res s");
    train_run_free(&s->run);
}

TEST(without_held_out_data_nothing_is_validated) {
    train_options o = scripted_options(NULL, 3);
    o.eval_interval = 1;
    scripted_run *s = scripted_made(&o);
    s->nothing_held_out = true;
    scripted_expect_run(s, "rgurgurgu s");
    EXPECT(s->run.state.evaluated == -1 && s->run.state.best == -1);
    train_run_free(&s->run);
}

/* A checkpoint that is due at the last of the steps is written; a validation waits for the next call. */
TEST(one_step_at_a_time_is_the_same_run) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 5);
    o.eval_interval = 2, o.checkpoint_interval = 2, o.keep = "last";
    scripted_run *s = scripted_made(&o);
    static const char *const want[] = {"rgur", "rgu res sdc", "rgur", "rgu re sdc"};
    for (int step = 1; step < 5; step++) {
        EXPECT_OK(scripted_go(s, step, NULL, &restart, &err));
        EXPECT(s->run.state.step == step && !restart);
        scripted_expect(s, want[step - 1]);
    }
    scripted_expect_run(s, "rgu re sdc sf");
    train_run_free(&s->run);
    mem_free(dir);
}

/* Callbacks may be left out, all or each. */
TEST(callbacks_may_be_missing) {
    static const train_callbacks none = {0};
    for (int i = 0; i < 2; i++) {
        char *dir = test_temp_dir();
        train_options o = scripted_options(dir, 3);
        o.eval_interval = 1, o.checkpoint_interval = 2;
        scripted_run *s = scripted_made(&o);
        for (int k = 0; k < 3; k++) s->val[k] = 3 - k;
        EXPECT_OK(train_run_go_until(&s->run, INT64_MAX, i ? &none : NULL, NULL, &restart, &err));
        scripted_expect(s, "rgu resd gu resd sd gu resd sd sf");
        train_run_free(&s->run);
        mem_free(dir);
    }
}

/* ---- the best weights -------------------------------------------------------------------------------------------- */

typedef struct best_case {
    double val[5];
    int64_t best, stale;
} best_case;

/* With equal losses the earlier weights are kept; a loss that is not a number is never best, and counts as no
 * improvement. */
TEST(the_best_validation_is_kept) {
    static const best_case cases[] = {
        {{5, 4, 3, 2, 1}, 5, 0},
        {{5, 3, 3, 4, 3}, 2, 3},
        {{1, 2, 3, 4, 5}, 1, 4},
        {{0, 0, 0, 0, 0}, 1, 4},
        {{NAN, 4, NAN, 3, INFINITY}, 4, 1},
        {{4, NAN, 4, 5, 3}, 5, 0},
        {{2, -1, -1, -2, -1}, 4, 1},
        {{-INFINITY, 2, 1, NAN, 1}, 3, 2},
        {{NAN, NAN, NAN, NAN, NAN}, -1, 5},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const best_case *c = &cases[k];
        char *dir = test_temp_dir();
        train_options o = scripted_options(dir, 5);
        double loss = -7;
        o.eval_interval = 1;
        scripted_run *s = scripted_made(&o);
        EXPECT(train_run_best(&s->run, &loss) == -1 && !train_run_keeps_best(&s->run));
        memcpy(s->val, c->val, sizeof c->val);
        EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
        EXPECT_MSG(train_run_best(&s->run, &loss) == c->best && s->run.state.stale == c->stale,
                   "case %zu: best %lld, %lld stale", k, (long long)s->run.state.best, (long long)s->run.state.stale);
        EXPECT(c->best < 0 || loss == c->val[c->best - 1]);
        /* the result has the weights of that step; without any, the last ones */
        EXPECT_MSG(s->finished == (float)(c->best < 0 ? 5 : c->best), "case %zu: the result is of update %g", k,
                   (double)s->finished);
        EXPECT(train_run_keeps_best(&s->run) == (c->best >= 0) && is_there(dir, TRAIN_BEST) == (c->best >= 0));
        train_run_free(&s->run);
        mem_free(dir);
    }
}

/* The best weights are read and published only if they differ from the current ones; only then is a draft of a
 * checkpoint omitted. */
TEST(the_result_is_of_the_best_weights) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    o.eval_interval = 1, o.checkpoint_interval = 1;
    scripted_run *s = scripted_made(&o);
    s->val[0] = 3, s->val[1] = 1, s->val[2] = 2;
    scripted_expect_run(s, "rgu resd sdc gu resd sdc gu re sc spf");
    EXPECT(s->drafted == 2 && s->finished == 2);
    train_run_free(&s->run);
    mem_free(dir);
    dir = test_temp_dir();
    o.run_dir = dir;
    s = scripted_made(&o);
    s->val[0] = 3, s->val[1] = 2, s->val[2] = 1;
    scripted_expect_run(s, "rgu resd sdc gu resd sdc gu resd sdc sf");
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(keep_last_takes_the_last_weights) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    double loss;
    o.eval_interval = 1, o.keep = "last";
    scripted_run *s = scripted_made(&o);
    s->val[0] = 1, s->val[1] = 2, s->val[2] = 3;
    scripted_expect_run(s, "rgu res gu re gu re sdc sf");
    EXPECT(s->finished == 3 && train_run_best(&s->run, &loss) == 1 && loss == 1 && !train_run_keeps_best(&s->run));
    train_run_free(&s->run);
    mem_free(dir);
}

/* The file of another run's best step is not used. */
TEST(best_weights_of_another_step_are_not_taken) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    o.eval_interval = 1;
    scripted_run *s = scripted_made(&o);
    s->val[0] = 1, s->val[1] = 2, s->val[2] = 3;
    EXPECT_OK(scripted_go(s, 2, NULL, &restart, &err));
    s->run.state.best = 2;
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT(s->finished == 3 && !strchr(scripted_noted(s), 'p'));
    train_run_free(&s->run);
    mem_free(dir);
}

/* ---- patience ---------------------------------------------------------------------------------------------------- */

/* With a patience of 2 the second validation in a row without a better loss is the last. */
TEST(patience_counts_validations_without_improvement) {
    static const struct {
        double val[8];
        int64_t patience, steps;
    } cases[] = {{{3, 4, 5, 1}, 2, 3},
                 {{3, 4, 2, 4, 2, 1}, 2, 5},
                 {{3, 3, 1}, 1, 2},
                 {{NAN, NAN, NAN, 1}, 3, 3},
                 {{1, 2, 3, 4, 5, 6, 7, 8}, 0, 8},
                 {{1, 2, 3, 4, 5, 6, 7, 8}, 7, 8},
                 {{8, 7, 6, 5, 4, 3, 2, 1}, 1, 8}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char *dir = test_temp_dir();
        train_options o = scripted_options(dir, 8);
        o.eval_interval = 1, o.patience = cases[k].patience;
        scripted_run *s = scripted_made(&o);
        memcpy(s->val, cases[k].val, sizeof s->val[0] * 8);
        EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
        EXPECT_MSG(s->run.state.step == cases[k].steps && s->evaluations == cases[k].steps, "case %zu: %lld steps", k,
                   (long long)s->run.state.step);
        EXPECT(train_run_is_over(&s->run) == (cases[k].patience > 0 && s->run.state.stale >= cases[k].patience));
        EXPECT(s->checkpoint_step == cases[k].steps);
        EXPECT(s->run.state.best == -1 || s->finished == (float)s->run.state.best);
        train_run_free(&s->run);
        mem_free(dir);
    }
}

/* A finished run stays finished: it is not validated again, but its result is written again. */
TEST(a_run_that_is_over_takes_no_step) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 9);
    o.eval_interval = 1, o.patience = 1;
    scripted_run *s = scripted_made(&o);
    s->val[0] = 1, s->val[1] = 2;
    scripted_expect_run(s, "rgu resd gu re sc spf");
    train_run_free(&s->run);
    o.resume = true;
    s = scripted_made(&o);
    scripted_expect_run(s, "spf");
    EXPECT(s->run.state.step == 2 && s->finished == 1);
    train_run_free(&s->run);
    mem_free(dir);
}

/* ---- losses that are not numbers --------------------------------------------------------------------------------- */

/* The twentieth in a row ends the run; until one is a number again, nothing is saved. */
TEST(twenty_losses_in_a_row_that_are_not_numbers_end_the_run) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 60);
    o.checkpoint_interval = 5;
    scripted_run *s = scripted_made(&o);
    for (int i = 3; i < 22; i++) s->loss[i] = i % 2 ? NAN : INFINITY;
    for (int i = 30; i < 50; i++) s->loss[i] = NAN;
    EXPECT_FAIL(
        scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_LIMIT,
        "the loss has been NaN or infinite since step 31: the training has diverged; start again with a smaller --lr");
    EXPECT(!strstr(err.text, "fp32") && s->run.state.step == 50);
    EXPECT(s->checkpoint_step == 30 && !strchr(scripted_noted(s), 'f'));
    train_run_free(&s->run);
    o.run_dir = NULL, o.precision = "fp16", o.steps = 20;
    s = scripted_made(&o);
    for (int i = 0; i < 20; i++) s->loss[i] = NAN;
    EXPECT_FAIL(scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_LIMIT,
                "since step 1: the training has diverged; start again with a smaller --lr or with --precision fp32");
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(a_run_that_ends_lost_writes_no_model) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 7);
    o.checkpoint_interval = 3;
    scripted_run *s = scripted_made(&o);
    for (int i = 4; i < 7; i++) s->loss[i] = NAN;
    EXPECT_FAIL(
        scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_LIMIT,
        "the loss has been NaN or infinite since step 5: the training has diverged; use a smaller --lr; no model was "
        "written, the last checkpoint was kept");
    EXPECT(s->checkpoint_step == 3);
    scripted_expect(s, "rgurgurgu r sdc gurgrgrg res s");
    train_run_free(&s->run);
    o.run_dir = NULL, o.steps = 1;
    s = scripted_made(&o);
    s->loss[0] = NAN, s->wrong = "some.weight";
    EXPECT_FAIL(scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_LIMIT,
                "since step 1: the weights 'some.weight' contain NaN or infinity; no model was written");
    EXPECT(!strstr(err.text, "kept"));
    train_run_free(&s->run);
    mem_free(dir);
}

/* ---- stopping, saving on request, resuming ----------------------------------------------------------------------- */

TEST(a_stopped_run_is_saved_and_not_finished) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 5);
    atomic_bool cancel = false;
    scripted_run *s = scripted_made(&o);
    s->set = &cancel, s->set_at = 2;
    EXPECT_FAIL(scripted_go(s, INT64_MAX, &cancel, &restart, &err), PROPANE_ERR_CANCELLED,
                "stopped after step 2 of 5; continue with: propane train --resume ");
    EXPECT(strstr(err.text, dir) && s->checkpoint_step == 2);
    scripted_expect(s, "rgurgu r sdc");
    cancel = false; /* the same run can continue */
    scripted_expect_run(s, "rgurgurgu ress dc sf");
    train_run_free(&s->run);
    o.run_dir = NULL;
    s = scripted_made(&o);
    cancel = true;
    EXPECT_FAIL(scripted_go(s, INT64_MAX, &cancel, &restart, &err), PROPANE_ERR_CANCELLED, "stopped after step 0 of 5");
    EXPECT(!strstr(err.text, "--resume"));
    scripted_expect(s, "r");
    /* the flag is forgotten after that */
    train_report p;
    EXPECT_OK(train_run_step(&s->run, &p, &err));
    train_run_free(&s->run);
    mem_free(dir);
}

/* A step that is interrupted leaves no effects. */
TEST(a_step_that_is_stopped_is_taken_again) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    scripted_run *s = scripted_made(&o);
    s->cancel_at = 3;
    EXPECT_FAIL(scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_CANCELLED, "stopped after step 2 of 3");
    EXPECT(s->run.state.step == 2 && s->run.state.position == 2 * SCRIPT_BATCH && s->run.state.scaler.good == 2);
    scripted_expect(s, "rgurgu r sdc");
    scripted_expect_run(s, "rgu res sdc sf");
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(a_checkpoint_on_request_is_written_once) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 4);
    atomic_bool save = false;
    scripted_run *s = scripted_made(&o);
    train_run_save_by(&s->run, &save);
    s->set = &save, s->set_at = 1;
    scripted_expect_run(s, "rgu rgu r sdc gurgu res sdc sf"); /* noticed when the next step begins, written after it */
    EXPECT(!save);
    train_run_free(&s->run);
    mem_free(dir);
}

/* If a request and an interval fall on the same step, one file is written. */
TEST(a_request_for_a_step_that_is_saved_is_done) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 4);
    o.checkpoint_interval = 2;
    atomic_bool save = false;
    scripted_run *s = scripted_made(&o);
    train_run_save_by(&s->run, &save);
    s->set = &save, s->set_at = 1;
    scripted_expect_run(s, "rgurgu r sdc gurgu res sdc sf");
    EXPECT(!save && !s->run.asked);
    EXPECT_OK(train_run_save(&s->run, &err)); /* nothing is new */
    scripted_expect(s, "");
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(a_used_up_budget_saves_and_asks_for_a_new_process) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 4);
    scripted_run *s = scripted_made(&o);
    s->over_budget_at = 3;
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT(restart && s->run.state.step == 3 && s->checkpoint_step == 3);
    scripted_expect(s, "rgurgurgu r sdc");
    train_run_free(&s->run);
    o.resume = true;
    s = scripted_made(&o);
    scripted_expect_run(s, "rgu ressdc sf");
    train_run_free(&s->run);
    mem_free(dir);
}

/* From each step on, a resumed run does the same as an uninterrupted run. */
TEST(a_resumed_run_goes_on_where_it_was) {
    enum { STEPS = 9 };
    static const double val[] = {4, 3, 5, NAN, 2};
    char *one = test_temp_dir();
    train_options o = scripted_options(one, STEPS);
    o.eval_interval = 2, o.clip = 2, o.patience = 9;
    scripted_run *whole = scripted_made(&o);
    memcpy(whole->val, val, sizeof val);
    for (int i = 0; i < STEPS; i++) whole->norm[i] = i + 0.5, whole->loss[i] = i == 4 ? NAN : 9 - i;
    EXPECT_OK(scripted_go(whole, INT64_MAX, NULL, &restart, &err));
    for (int step = 1; step < STEPS; step++) {
        char *dir = test_temp_dir();
        o.run_dir = dir, o.resume = false;
        scripted_run *a = scripted_made(&o);
        memcpy(a->val, val, sizeof val);
        memcpy(a->norm, whole->norm, sizeof a->norm), memcpy(a->loss, whole->loss, sizeof a->loss);
        EXPECT_OK(scripted_go(a, step, NULL, &restart, &err));
        EXPECT_OK(train_run_save(&a->run, &err));
        o.resume = true;
        scripted_run *b = scripted_made(&o);
        EXPECT(memcmp(&a->run.state, &b->run.state, sizeof a->run.state) == 0);
        EXPECT(b->run.saved == step && memcmp(a->data, b->data, sizeof a->data) == 0);
        memcpy(b->val, val, sizeof val);
        memcpy(b->norm, whole->norm, sizeof b->norm), memcpy(b->loss, whole->loss, sizeof b->loss);
        b->evaluations = a->evaluations, b->updates = a->updates;
        EXPECT_OK(scripted_go(b, INT64_MAX, NULL, &restart, &err));
        EXPECT(memcmp(&b->run.state, &whole->run.state, sizeof b->run.state) == 0);
        EXPECT(memcmp(b->data, whole->data, sizeof b->data) == 0 && b->finished == whole->finished);
        EXPECT(memcmp(&b->update[a->updates], &whole->update[a->updates],
                      sizeof(adamw_step) * (size_t)(whole->updates - a->updates)) == 0);
        train_run_free(&a->run), train_run_free(&b->run);
        mem_free(dir);
    }
    train_run_free(&whole->run);
    mem_free(one);
}

TEST(a_resumed_run_needs_as_many_steps_as_were_done) {
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 3);
    scripted_run *s = scripted_made(&o);
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    train_run_free(&s->run);
    o.resume = true;
    s = scripted_made(&o); /* the same number of steps: only the result is written again */
    scripted_expect_run(s, "sf");
    train_run_free(&s->run);
    o.steps = 2;
    EXPECT_FAIL(scripted_create(&o, &s, &err), PROPANE_ERR_INVALID,
                "the run has already done 3 steps, more than --steps 2");
    mem_free(dir);
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* An error of any part ends the run with that error, and nothing follows. */
TEST(an_error_of_a_part_ends_the_run) {
    static const char *const wanted[] = {"rgurgu re",       "r", "rg", "rgu", "rgurgu res", "rgurgu ressd",
                                         "rgurgu ressdc sf"};
    static const char letters[] = "ergusdf";
    for (int i = 0; letters[i]; i++) {
        char *dir = test_temp_dir();
        train_options o = scripted_options(dir, 2);
        scripted_run *s = scripted_made(&o);
        s->fail[(int)letters[i]] = PROPANE_ERR_DEVICE;
        EXPECT_FAIL(scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_DEVICE, "scripted: ");
        scripted_expect(s, wanted[i]);
        EXPECT(s->run.state.step == (i == 0 || i > 3 ? 2 : 0));
        train_run_free(&s->run);
        mem_free(dir);
    }
}

TEST(another_folder_under_the_name_is_not_written_into) {
    char *dir = test_temp_dir(), run[1200], away[1200];
    snprintf(run, sizeof run, "%s/run", dir);
    snprintf(away, sizeof away, "%s/away", dir);
    EXPECT(mkdir(run, 0700) == 0);
    train_options o = scripted_options(run, 4);
    o.eval_interval = 3;
    scripted_run *s = scripted_made(&o);
    EXPECT_OK(scripted_go(s, 2, NULL, &restart, &err));
    EXPECT(rename(run, away) == 0 && mkdir(run, 0700) == 0);
    EXPECT_FAIL(scripted_go(s, INT64_MAX, NULL, &restart, &err), PROPANE_ERR_INVALID,
                "is no longer the folder in which the run started");
    EXPECT(s->run.state.step == 3 && !is_there(run, TRAIN_BEST));
    EXPECT_FAIL(train_run_save(&s->run, &err), PROPANE_ERR_INVALID, "is no longer the folder");
    EXPECT(!is_there(run, TRAIN_CHECKPOINT));
    EXPECT(rmdir(run) == 0 && rename(away, run) == 0); /* after the folder was moved back, the run continues */
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    train_run_free(&s->run);
    mem_free(dir);
}

TEST(the_trace_is_written_and_the_error_of_the_run_comes_first) {
    char *dir = test_temp_dir(), path[1200];
    snprintf(path, sizeof path, "%s/trace.json", dir);
    train_options o = scripted_options(NULL, 1);
    o.trace = path;
    scripted_run *s = scripted_made(&o);
    scripted_expect_run(s, "rgu res s");
    EXPECT(is_there(dir, "trace.json"));
    train_run_free(&s->run);
    EXPECT(unlink(path) == 0);
    s = scripted_made(&o);
    s->fail['g'] = PROPANE_ERR_DEVICE; /* the trace of a run that failed is written, too */
    EXPECT_FAIL(scripted_go(s, 1, NULL, &restart, &err), PROPANE_ERR_DEVICE, "'g' fails");
    EXPECT(is_there(dir, "trace.json"));
    train_run_free(&s->run);
    o.trace = "/nowhere/trace.json";
    s = scripted_made(&o);
    EXPECT_FAIL(scripted_go(s, 1, NULL, &restart, &err), PROPANE_ERR_NOT_FOUND,
                "--trace: cannot write /nowhere/trace.json");
    train_run_free(&s->run);
    s = scripted_made(&o);
    s->fail['g'] = PROPANE_ERR_DEVICE;
    EXPECT_FAIL(scripted_go(s, 1, NULL, &restart, &err), PROPANE_ERR_DEVICE, "'g' fails");
    train_run_free(&s->run);
    o.trace = "";
    s = scripted_made(&o);
    EXPECT(!s->run.timeline);
    train_run_free(&s->run);
    mem_free(dir);
}

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

/* The weights of ranks are the same after every third step, and at the end. */
static int64_t three_since(const train_group *g, int64_t step, int64_t steps) {
    (void)g;
    return step >= steps ? 0 : step % 3;
}
static int64_t three_stride(const train_group *g, int64_t step) {
    (void)g;
    return step % 3 ? step % 3 : 3;
}
static propane_status three_synchronise(train_group *g, int64_t step, int64_t steps, int64_t *bytes, propane_error *e) {
    (void)e;
    *bytes = three_since(g, step, steps) ? 0 : 12;
    return PROPANE_OK;
}
static propane_status three_save(train_group *g, train_run *r, propane_error *e) {
    (void)g, (void)r, (void)e;
    return PROPANE_OK;
}
static void three_free(train_group *g) { (void)g; }

/* Work that is due between two such steps waits for the second one. */
TEST(ranks_validate_save_and_stop_when_their_weights_are_the_same) {
    static const train_group_calls calls = {three_free, three_since, three_stride, three_synchronise,
                                            three_save, three_save,  three_save};
    train_group group = {&calls};
    char *dir = test_temp_dir();
    train_options o = scripted_options(dir, 11);
    o.eval_interval = 4, o.checkpoint_interval = 7, o.outer = 3;
    atomic_bool cancel = false;
    scripted_run *s = scripted_made(&o);
    s->run.group = &group;
    for (int i = 0; i < 4; i++) s->val[i] = 9 - i;
    EXPECT_OK(scripted_go(s, 7, NULL, &restart, &err));
    scripted_expect(s, "rgurgurgurgurgurgu resd gur");
    EXPECT(s->evaluation[0].step == 6 && s->report[6].staleness == 0 && s->report[7].staleness == 1);
    EXPECT(s->report[6].outer_bytes == 12 && s->report[7].outer_bytes == 0);
    EXPECT_FAIL(train_run_save(&s->run, &err), PROPANE_ERR_INVALID,
                "after step 7 the ranks' weights differ; save after a multiple of --outer 3");
    cancel = true;
    EXPECT_FAIL(scripted_go(s, INT64_MAX, &cancel, &restart, &err), PROPANE_ERR_CANCELLED, "stopped after step 9");
    scripted_expect(s, "rgurgu resd sdc");
    cancel = false;
    scripted_expect_run(s, "rgurgu resd sdc sf");
    train_run_free(&s->run);
    mem_free(dir);
}

SUITE("train/loop", T(without_intervals_only_the_end_is_validated_and_saved), T(intervals_are_of_whole_steps),
      T(the_last_step_is_validated_once_when_it_is_due_anyway), T(without_held_out_data_nothing_is_validated),
      T(one_step_at_a_time_is_the_same_run), T(callbacks_may_be_missing), T(the_best_validation_is_kept),
      T(the_result_is_of_the_best_weights), T(keep_last_takes_the_last_weights),
      T(best_weights_of_another_step_are_not_taken), T(patience_counts_validations_without_improvement),
      T(a_run_that_is_over_takes_no_step), T(twenty_losses_in_a_row_that_are_not_numbers_end_the_run),
      T(a_run_that_ends_lost_writes_no_model), T(a_stopped_run_is_saved_and_not_finished),
      T(a_step_that_is_stopped_is_taken_again), T(a_checkpoint_on_request_is_written_once),
      T(a_request_for_a_step_that_is_saved_is_done), T(a_used_up_budget_saves_and_asks_for_a_new_process),
      T(a_resumed_run_goes_on_where_it_was), T(a_resumed_run_needs_as_many_steps_as_were_done),
      T(an_error_of_a_part_ends_the_run), T(another_folder_under_the_name_is_not_written_into),
      T(the_trace_is_written_and_the_error_of_the_run_comes_first),
      T(ranks_validate_save_and_stop_when_their_weights_are_the_same))
