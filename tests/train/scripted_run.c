/* SPDX-License-Identifier: MIT
 * Owns the scripted kind of run.
 */
#include "train/scripted_run.h"

#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "support/test.h"

static scripted_run *scripted_of(const train_run *r) { return (scripted_run *)(uintptr_t)r; }

static propane_status scripted_note(const train_run *r, char letter, propane_error *err) {
    scripted_run *s = scripted_of(r);
    const propane_status status = s->fail[(int)letter];
    if (s->notes + 1 < (int)sizeof s->noted) s->noted[s->notes++] = letter;
    return status == PROPANE_OK ? status : propane_fail(err, status, "scripted: '%c' fails", letter);
}

const char *scripted_noted(scripted_run *s) {
    s->noted[s->notes] = 0;
    s->notes = 0;
    return s->noted;
}

static void scripted_free(train_run *r) { (void)r; }

static propane_status scripted_gradients(train_run *r, const train_ahead *ahead, double *loss, double *norm,
                                         propane_error *err) {
    scripted_run *s = scripted_of(r);
    const int64_t i = r->state.step;
    if (s->cancel_at == i + 1) {
        s->cancel_at = 0;
        return propane_fail(err, PROPANE_ERR_CANCELLED, "scripted: cancelled");
    }
    PROPANE_TRY(scripted_note(r, 'g', err));
    s->began_ahead[i] = ahead != NULL;
    if (ahead) s->ahead[i] = *ahead;
    *loss = s->loss[i] == 0 ? 1 : s->loss[i];
    *norm = s->norm[i] == 0 ? 1 : s->norm[i];
    r->state.position += SCRIPT_BATCH;
    return PROPANE_OK;
}

static propane_status scripted_update(train_run *r, adamw_step *how, propane_error *err) {
    scripted_run *s = scripted_of(r);
    s->update[s->updates++] = *how;
    for (int b = 0; b < TRAIN_OUTER_BLOCK; b++)
        for (int i = 0; i < SCRIPT_TENSORS; i++) {
            const train_tensor t = r->kind->tensor(r, b, i);
            for (int64_t k = 0; t.data && k < t.count; k++) t.data[k] = (float)(100 * b + how->step);
        }
    return scripted_note(r, 'u', err);
}

static void scripted_times(train_run *r, double seconds, train_report *report) {
    (void)r;
    report->device_ms = seconds >= 0 ? 3 : -1;
    report->host_ms = 4;
}

static propane_status scripted_settle(train_run *r, propane_error *err) { return scripted_note(r, 's', err); }
static propane_status scripted_publish(train_run *r, propane_error *err) { return scripted_note(r, 'p', err); }
static bool scripted_evaluates(const train_run *r) { return !scripted_of(r)->nothing_held_out; }

static propane_status scripted_evaluate(train_run *r, train_evaluation *out, propane_error *err) {
    scripted_run *s = scripted_of(r);
    PROPANE_TRY(scripted_note(r, 'e', err));
    out->val_loss = s->val[s->evaluations++];
    return PROPANE_OK;
}

static propane_status scripted_refresh(train_run *r, bool *over_budget, propane_error *err) {
    const scripted_run *s = scripted_of(r);
    *over_budget = s->over_budget_at && s->over_budget_at == r->state.step;
    return scripted_note(r, 'r', err);
}

static propane_status scripted_draft(train_run *r, propane_error *err) {
    scripted_of(r)->drafted = scripted_of(r)->data[0][0][0];
    return scripted_note(r, 'd', err);
}

static propane_status scripted_finish(train_run *r, propane_error *err) {
    scripted_of(r)->finished = scripted_of(r)->data[0][0][0];
    return scripted_note(r, 'f', err);
}

static const char *scripted_not_finite(const train_run *r) { return scripted_of(r)->wrong; }

static int scripted_fingerprints(const train_run *r, train_fingerprint out[TRAIN_FINGERPRINTS]) {
    out[0] = (train_fingerprint){"fingerprint", scripted_of(r)->fingerprint, "the fingerprint"};
    return 1;
}

static int scripted_tensor_count(const train_run *r) {
    (void)r;
    return SCRIPT_TENSORS;
}

/* The last tensor is not trained: it has no moments. */
static train_tensor scripted_tensor(const train_run *r, int block, int index) {
    static const int64_t dims[SCRIPT_TENSORS][2] = {{2, 3}, {4, 0}, {3, 1}};
    static const char *const names[SCRIPT_TENSORS] = {"first", "second", "fixed"};
    scripted_run *s = scripted_of(r);
    const bool there = block == 0 || (block == TRAIN_OUTER_BLOCK ? s->has_outer && index == 0 : index < 2);
    return (train_tensor){names[index], index == 1 ? 1 : 2, dims[index],
                          index == 0   ? 6
                          : index == 1 ? 4
                                       : 3,
                          there ? s->data[block][index] : NULL};
}

static bool scripted_learns(const train_run *r, int index) {
    (void)r;
    return index != 1;
}

static void scripted_keep(train_run *r, int block, int index) {
    (void)block, (void)index;
    scripted_of(r)->kept++;
}

static const train_run_kind scripted_kind = {
    .free = scripted_free,
    .gradients = scripted_gradients,
    .update = scripted_update,
    .times = scripted_times,
    .settle = scripted_settle,
    .evaluates = scripted_evaluates,
    .evaluate = scripted_evaluate,
    .refresh = scripted_refresh,
    .publish = scripted_publish,
    .not_finite = scripted_not_finite,
    .draft = scripted_draft,
    .finish = scripted_finish,
    .fingerprints = scripted_fingerprints,
    .tensor_count = scripted_tensor_count,
    .tensor = scripted_tensor,
    .learns = scripted_learns,
    .keep = scripted_keep,
};

train_options scripted_options(const char *run_dir, int64_t steps) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.run_dir = run_dir, o.steps = steps, o.lr = 0.5, o.min_lr = 0.25, o.warmup = 2, o.schedule = "linear";
    o.eval_interval = o.checkpoint_interval = 0;
    return o;
}

propane_status scripted_create(const train_options *options, scripted_run **out, propane_error *err) {
    scripted_run *s = mem_alloc(sizeof *s);
    *out = NULL;
    if (!s) return propane_fail_memory(err, sizeof *s);
    s->fingerprint = "this one";
    s->run.units = SCRIPT_BATCH;
    propane_status status = train_run_begin(&s->run, &scripted_kind, options, err);
    if (status == PROPANE_OK) {
        train_run_plan(&s->run);
        train_scaler_init(&s->run.state.scaler, true);
        if (options->resume) status = train_run_load(&s->run, 0, TRAIN_BLOCKS - 1, err);
    }
    if (status == PROPANE_OK)
        *out = s;
    else
        train_run_free(&s->run);
    return status;
}

static void scripted_on_step(void *context, const train_report *report) {
    scripted_run *s = context;
    s->report[report->step] = *report;
    if (s->set && report->step == s->set_at) atomic_store(s->set, true);
}

static void scripted_on_evaluation(void *context, const train_evaluation *evaluation) {
    scripted_run *s = context;
    s->evaluation[s->evaluations - 1] = *evaluation;
}

static void scripted_on_checkpoint(void *context, int64_t step, const char *path) {
    scripted_run *s = context;
    s->checkpoint_step = path && strcmp(path, s->run.checkpoint) == 0 ? step : -1;
    (void)!scripted_note(&s->run, 'c', NULL);
}

propane_status scripted_go(scripted_run *s, int64_t until, const atomic_bool *cancel, bool *restart,
                           propane_error *err) {
    const train_callbacks callbacks = {s, scripted_on_step, scripted_on_evaluation, scripted_on_checkpoint};
    return train_run_go_until(&s->run, until, &callbacks, cancel, restart, err);
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

scripted_run *scripted_made(const train_options *options) {
    propane_error err = {0};
    scripted_run *s = NULL;
    EXPECT_OK(scripted_create(options, &s, &err));
    return s;
}

void scripted_expect(scripted_run *s, const char *want) {
    char letters[400];
    size_t n = 0;
    for (; *want && n + 1 < sizeof letters; want++)
        if (*want != ' ') letters[n++] = *want;
    letters[n] = 0;
    EXPECT_TEXT(scripted_noted(s), letters);
}

void scripted_expect_run(scripted_run *s, const char *want) {
    propane_error err = {0};
    bool restart = true;
    EXPECT_OK(scripted_go(s, INT64_MAX, NULL, &restart, &err));
    EXPECT(!restart);
    scripted_expect(s, want);
}
