/* SPDX-License-Identifier: MIT
 * Owns the life of a run. The state that a later process needs, in addition to weights and moments, is in train_state.
 * The loop brings the programs up to date, evaluates, saves and makes a step, in this order.
 */
#include "train/train_run.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/base/temporary.h"
#include "train/checkpoint.h"
#include "train/top_checkpoints.h"
#include "train/train_run_internal.h"

int64_t train_run_steps_done(const train_run *r) { return r->state.step; }
const train_options *train_run_options(const train_run *r) { return &r->options; }
int train_run_workers(const train_run *r) { return r->who.count > 1 ? r->who.count : 1; }
bool train_run_writes(const train_run *r) { return mpi_leads(r->options.mpi); }

/* ---- making ------------------------------------------------------------------------------------------------------------------ */

propane_status train_run_path(train_run *r, const char *name, char **out, propane_error *err) {
    *out = NULL;
    if (!r->options.run_dir) return PROPANE_OK;
    *out = arena_printf(r->arena, "%s/%s", r->options.run_dir, name);
    return *out ? PROPANE_OK : propane_fail_memory(err, strlen(r->options.run_dir));
}

propane_status train_run_begin(train_run *r, const train_run_kind *kind, const train_options *options,
                               propane_error *err) {
    r->kind = kind;
    r->options = *options;
    r->saved = r->state.evaluated = r->state.best = -1;
    r->arena = arena_create();
    if (!r->arena) return propane_fail_memory(err, 0);
    PROPANE_TRY(train_options_check(options, err));
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        const char **value = train_option_at(row, &r->options);
        if (!train_option_is_text(row) || !*value) continue;
        *value = arena_string(r->arena, *value);
        if (!*value) return propane_fail_memory(err, 0);
    }
    const train_options *o = &r->options;
    if (o->trace && *o->trace && train_run_writes(r)) PROPANE_TRY(timeline_create(&r->timeline, err));
    if (train_options_keeps(o->keep) > 0 && o->eval_interval > 0)
        PROPANE_TRY(train_run_path(r, TRAIN_BEST, &r->best, err));
    if (o->bisect && train_run_writes(r)) {
        char *refused = NULL;
        PROPANE_TRY(train_run_path(r, TRAIN_REFUSED, &refused, err));
        r->refused = refused ? refused : TRAIN_REFUSED;
    }
    return train_run_path(r, TRAIN_CHECKPOINT, &r->checkpoint, err);
}

/* Sets the schedule. The number of steps must be known, because the default warm-up is a fraction of it. */
void train_run_plan(train_run *r) {
    enum { WARMUP_MOST = 50, WARMUP_PART = 10 };
    train_options *o = &r->options;
    const int64_t part = o->steps / WARMUP_PART;
    if (o->lr < 0) o->lr = 1e-3;
    if (strcmp(o->schedule, "auto") == 0) o->schedule = "cosine";
    const bool flat = o->min_lr < 0 && strcmp(o->schedule, "cosine") == 0;
    if (o->warmup < 0) o->warmup = part < WARMUP_MOST ? part : WARMUP_MOST;
    r->schedule = (train_schedule){o->lr,
                                   o->min_lr >= 0 ? o->min_lr
                                   : flat         ? o->lr
                                                  : o->lr / 10,
                                   o->warmup, o->steps, train_schedule_find(o->schedule)};
}

propane_status train_run_load(train_run *r, int first, int last, propane_error *err) {
    if (first == 0 && train_run_writes(r)) temporary_sweep_folder(r->options.run_dir);
    PROPANE_TRY(train_checkpoint_read(r, first, last, err));
    if (last + 1 < TRAIN_BLOCKS) return PROPANE_OK;
    PROPANE_TRY(train_group_load(r->group, r, err));
    r->saved = r->state.step;
    if (r->state.step <= r->options.steps) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the run has already done %lld steps, more than --steps %lld",
                        r->checkpoint, (long long)r->state.step, (long long)r->options.steps);
}

void train_run_free(train_run *r) {
    if (!r) return;
    train_group_free(r->group);
    workers_dissolve(&r->who);
    r->kind->free(r);
    timeline_free(r->timeline);
    arena_free(r->arena);
    mem_free(r);
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

/* Returns whether a stop was requested. The host program reports a request only once, so `ended` remembers it. */
static bool train_run_is_asked(train_run *r) {
    if (!r->ended) r->ended = poll_ask();
    return r->ended || (r->cancel && atomic_load(r->cancel));
}

/* Returns whether all ranks have the same weights. Evaluations, checkpoints and stops wait for such a step. */
static bool train_run_is_common(const train_run *r) {
    return train_group_since(r->group, r->state.step, r->options.steps) <= 0;
}

static propane_status train_run_sum(const train_run *r, double *values, int count, propane_error *err) {
    return r->options.mpi ? mpi_sum(r->options.mpi, values, count, err) : PROPANE_OK;
}

propane_status train_run_check_cancel(train_run *r, propane_error *err) {
    if (!train_run_is_common(r)) return PROPANE_OK;
    double asked[2] = {train_run_is_asked(r), r->save && atomic_exchange(r->save, false)};
    PROPANE_TRY(train_run_sum(r, asked, 2, err));
    r->asked |= asked[1] > 0;
    if (asked[0] <= 0) return PROPANE_OK;
    r->ended = false;
    return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped");
}

propane_status train_run_ready(train_run *r, bool *restart, propane_error *err) {
    *restart = false;
    return r->kind->refresh ? r->kind->refresh(r, restart, err) : PROPANE_OK;
}

static propane_status train_run_settle(train_run *r, propane_error *err) {
    return r->kind->settle ? r->kind->settle(r, err) : PROPANE_OK;
}

/* Writes the draft of the model if the current weights are the best so far or, before the first validation, those of
 * the newest checkpoint. */
static propane_status train_run_draft(train_run *r, propane_error *err) {
    const bool worse = r->best && r->state.best >= 0 && r->state.best != r->state.step;
    if (!r->kind->draft || !r->checkpoint || worse || !train_run_writes(r)) return PROPANE_OK;
    return r->kind->draft(r, err);
}

/* Checks that the run's folder is still the one in which the run began, because another folder may have taken its name.
 * If there is no folder, the later write reports the error. */
static propane_status train_run_check_place(train_run *r, propane_error *err) {
    struct stat now;
    const char *dir = r->options.run_dir;
    if (!dir || !train_run_writes(r) || stat(dir, &now) != 0) return PROPANE_OK;
    if (!r->placed) r->place_device = now.st_dev, r->place_number = now.st_ino;
    r->placed = true;
    if (now.st_dev == r->place_device && now.st_ino == r->place_number) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "%.400s is no longer the folder in which the run started, so nothing is written into it; move "
                        "the run's folder back and continue from its last checkpoint with --resume",
                        dir);
}

propane_status train_run_save(train_run *r, propane_error *err) {
    if (r->saved == r->state.step) r->asked = false;
    if (!r->checkpoint || r->saved == r->state.step) return PROPANE_OK;
    if (!train_run_is_common(r))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "after step %lld the ranks' weights differ; save after a multiple of --outer %lld",
                            (long long)r->state.step, (long long)r->options.outer);
    PROPANE_TRY(train_run_check_place(r, err));
    PROPANE_TRY(train_run_settle(r, err));
    PROPANE_TRY(train_group_save(r->group, r, err));
    if (train_run_writes(r)) PROPANE_TRY(train_checkpoint_write(r, err));
    PROPANE_TRY(train_run_draft(r, err));
    PROPANE_TRY(train_group_saved(r->group, r, err));
    r->saved = r->state.step;
    r->asked = false;
    return PROPANE_OK;
}

/* Records the loss of an evaluation. Keeps the best weights so far in a separate file, because later training may make
 * the weights worse. */
static propane_status train_run_rate(train_run *r, double loss, propane_error *err) {
    train_state *s = &r->state;
    if (!isfinite(loss)) {
        s->stale++;
        return PROPANE_OK;
    }
    PROPANE_TRY(train_run_check_place(r, err));
    if (r->best && train_run_writes(r) && train_options_keeps(r->options.keep) > 1)
        PROPANE_TRY(top_checkpoints_offer(r, loss, err));
    if (s->best >= 0 && loss >= s->best_loss) {
        s->stale++;
        return PROPANE_OK;
    }
    s->best = s->step;
    s->best_loss = loss;
    s->stale = 0;
    PROPANE_TRY(train_run_settle(r, err));
    if (!r->best || !train_run_writes(r)) return PROPANE_OK;
    PROPANE_TRY(train_checkpoint_write_best(r, err));
    return train_run_draft(r, err);
}

int64_t train_run_best(const train_run *r, double *loss) {
    *loss = r->state.best_loss;
    return r->state.best;
}

bool train_run_keeps_best(const train_run *r) { return r->best && r->state.best >= 0; }

bool train_run_is_over(const train_run *r) { return r->options.patience > 0 && r->state.stale >= r->options.patience; }

propane_status train_run_evaluate(train_run *r, train_evaluation *out, propane_error *err) {
    *out = (train_evaluation){.step = r->state.step, .val_nats_per_byte = -1, .val_accuracy = -1};
    PROPANE_TRY(r->kind->evaluate(r, out, err));
    r->state.evaluated = r->state.step;
    return train_run_rate(r, out->val_loss, err);
}

/* Returns true every `interval` steps or, if the ranks' weights then differ, when the ranks next synchronise. */
static bool train_run_is_due(const train_run *r, int64_t interval) {
    const int64_t step = r->state.step, back = train_group_stride(r->group, step);
    return interval > 0 && train_run_is_common(r) && step % interval < back && step >= interval;
}

static bool train_run_evaluation_due(const train_run *r) {
    const int64_t step = r->state.step;
    if (!r->kind->evaluates(r) || r->state.evaluated == step) return false;
    return step >= r->options.steps || train_run_is_due(r, r->options.eval_interval);
}

/* Returns whether a checkpoint is due, by the interval or by request, and all ranks have the same weights. */
static bool train_run_checkpoint_due(const train_run *r) {
    const bool due = train_run_is_due(r, r->options.checkpoint_interval) || r->asked;
    return due && train_run_is_common(r);
}

/* Reports a run whose loss is not finite. Updates keep weights finite, so a tensor with non-finite numbers was read
 * from a file. */
static propane_status train_run_explain_lost(const train_run *r, propane_error *err) {
    const char *name = r->kind->not_finite ? r->kind->not_finite(r) : NULL;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the loss has been NaN or infinite since step %lld%s%.200s%s; no model was written%s",
                        (long long)(r->state.step - r->lost + 1), name ? ": the weights '" : "", name ? name : "",
                        name ? "' contain NaN or infinity" : ": the training has diverged; use a smaller --lr",
                        r->checkpoint ? ", the last checkpoint was kept" : "");
}

/* Ends the run if the loss stays non-finite for PATIENCE steps. Gradients that overflow now and then are handled by the
 * loss scale. */
static propane_status train_run_check_divergence(train_run *r, double loss, propane_error *err) {
    enum { PATIENCE = 20 };
    r->lost = isfinite(loss) ? 0 : r->lost + 1;
    if (r->lost < PATIENCE) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the loss has been NaN or infinite since step %lld: the training has diverged; start again "
                        "with a smaller --lr%s",
                        (long long)(r->state.step - PATIENCE + 1),
                        strcmp(r->options.precision, "fp16") == 0 ? " or with --precision fp32" : "");
}

/* ---- a step ------------------------------------------------------------------------------------------------------------------ */

/* Returns the parameters of the update for a gradient of norm `norm`. */
static adamw_step train_run_how(const train_run *r, double norm) {
    const train_options *o = &r->options;
    return (adamw_step){.lr = train_schedule_at(&r->schedule, r->state.step),
                        .beta1 = o->beta1,
                        .beta2 = o->beta2,
                        .epsilon = o->epsilon,
                        .weight_decay = o->weight_decay,
                        .gradient_scale = o->clip > 0 && norm > o->clip ? o->clip / (norm + 1e-6) : 1,
                        .step = r->state.updates + 1};
}

/* Prepares an update that may begin before the norm is known. With lagged clipping, the update uses the previous norm.
 * Otherwise, if the last gradient was not clipped, a speculative update assumes that this one will not be clipped
 * either. Returns false if there is no such update, for example in the first step. */
static bool train_run_looks_ahead(const train_run *r, train_ahead *out) {
    const double norm = r->state.norm;
    const bool lagged = r->options.clipping && strcmp(r->options.clipping, "lagged") == 0 && norm > 0;
    const bool calm = r->options.clip == 0 || (norm > 0 && norm <= r->options.clip);
    *out = (train_ahead){.how = train_run_how(r, norm), .speculative = !lagged};
    out->how.guarded = true;
    return lagged || (calm && train_options_speculates(&r->options));
}

propane_status train_run_step(train_run *r, train_report *out, propane_error *err) {
    PROPANE_TRY(train_run_check_cancel(r, err));
    if (!r->placed) PROPANE_TRY(train_run_check_place(r, err));
    const int64_t start = clock_ns();
    train_ahead ahead;
    const bool begins = train_run_looks_ahead(r, &ahead);
    train_report p = {.lr = ahead.how.lr, .loss_scale = r->state.scaler.scale};
    PROPANE_TRY(r->kind->gradients(r, begins ? &ahead : NULL, &p.loss, &p.gradient_norm, err));
    /* damaged data must not reach the weights or, if they were updated in the batch, a file */
    PROPANE_TRY(file_map_check(err));
    p.skipped = !train_scaler_step(&r->state.scaler, isfinite(p.gradient_norm) && isfinite(p.loss));
    if (!p.skipped) {
        adamw_step how = train_run_how(r, p.gradient_norm);
        r->state.updates++;
        r->state.norm = p.gradient_norm;
        if (!begins || ahead.speculative) PROPANE_TRY(r->kind->update(r, &how, err));
    }
    p.step = ++r->state.step;
    const int64_t inner = clock_ns();
    PROPANE_TRY(train_group_synchronise(r->group, p.step, r->options.steps, &p.outer_bytes, err));
    p.outer_ms = (double)(clock_ns() - inner) / 1e6;
    p.staleness = train_group_since(r->group, p.step, r->options.steps);
    const double seconds = (double)(clock_ns() - start) / 1e9;
    r->kind->times(r, seconds, &p);
    p.tokens_per_s = (double)r->units / seconds;
    *out = p;
    return PROPANE_OK;
}

/* Loads the best weights. The last checkpoint does not change, so a longer run can continue from it. */
static propane_status train_run_take_best(train_run *r, propane_error *err) {
    bool taken = false;
    if (!r->best || r->state.best < 0 || r->state.best == r->state.step) return PROPANE_OK;
    PROPANE_TRY(train_checkpoint_read_best(r, &taken, err));
    return taken && r->kind->publish ? r->kind->publish(r, err) : PROPANE_OK;
}

propane_status train_run_finish(train_run *r, propane_error *err) {
    PROPANE_TRY(train_run_settle(r, err));
    if (r->lost > 0) return train_run_explain_lost(r, err);
    PROPANE_TRY(train_run_save(r, err));
    if (!r->checkpoint || !train_run_writes(r)) return PROPANE_OK;
    PROPANE_TRY(train_run_check_place(r, err));
    PROPANE_TRY(train_run_take_best(r, err));
    return r->kind->finish(r, err);
}

void train_run_cancel_by(train_run *r, const atomic_bool *cancel) {
    r->cancel = cancel;
    r->ended = false;
}
void train_run_save_by(train_run *r, atomic_bool *save) { r->save = save; }

/* ---- access to its weights from outside -------------------------------------------------------------------------- */

bool train_run_trained(const train_run *r, int index, train_trained *out) {
    for (int i = 0; index >= 0 && i < r->kind->tensor_count(r); i++) {
        if ((r->kind->learns && !r->kind->learns(r, i)) || index-- > 0) continue;
        const train_tensor t = r->kind->tensor(r, 0, i);
        *out = (train_trained){t.name, t.rank, t.dim, t.count, t.data};
        return true;
    }
    return false;
}

propane_status train_run_changed(train_run *r, propane_error *err) {
    r->saved = r->state.evaluated = -1;
    return r->kind->publish ? r->kind->publish(r, err) : PROPANE_OK;
}

/* ---- the loop over the calls above, with callbacks --------------------------------------------------------------- */

static propane_status train_run_loop_save(train_run *r, const train_callbacks *c, propane_error *err) {
    const int64_t before = r->saved;
    PROPANE_TRY(train_run_save(r, err));
    if (r->saved != before && c && c->on_checkpoint) c->on_checkpoint(c->context, r->state.step, r->checkpoint);
    return PROPANE_OK;
}

static propane_status train_run_loop_evaluate(train_run *r, const train_callbacks *c, propane_error *err) {
    train_evaluation e;
    PROPANE_TRY(train_run_evaluate(r, &e, err));
    if (c && c->on_evaluation) c->on_evaluation(c->context, &e);
    return PROPANE_OK;
}

static propane_status train_run_loop_step(train_run *r, const train_callbacks *c, propane_error *err) {
    train_report p;
    PROPANE_TRY(train_run_step(r, &p, err));
    if (c && c->on_step) c->on_step(c->context, &p);
    return train_run_check_divergence(r, p.loss, err);
}

static propane_status train_run_loop(train_run *r, int64_t until, const train_callbacks *c, bool *restart,
                                     propane_error *err) {
    const train_options *o = &r->options;
    for (;;) {
        const bool more = r->state.step < o->steps && !train_run_is_over(r);
        if (more || train_run_evaluation_due(r)) PROPANE_TRY(train_run_ready(r, restart, err));
        if (*restart) return train_run_loop_save(r, c, err);
        if (train_run_evaluation_due(r)) PROPANE_TRY(train_run_loop_evaluate(r, c, err));
        if (!more || train_run_is_over(r)) break;
        if (r->lost == 0 && train_run_checkpoint_due(r)) PROPANE_TRY(train_run_loop_save(r, c, err));
        if (r->state.step >= until) return PROPANE_OK;
        PROPANE_TRY(train_run_loop_step(r, c, err));
    }
    /* on_checkpoint is called before the model is written */
    if (r->lost == 0) PROPANE_TRY(train_run_loop_save(r, c, err));
    return train_run_finish(r, err);
}

/* Stops the run cleanly before its last step, with a checkpoint. */
static propane_status train_run_stop(train_run *r, const train_callbacks *c, propane_error *err) {
    PROPANE_TRY(train_run_loop_save(r, c, err));
    return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped after step %lld of %lld%s%.400s", (long long)r->state.step,
                        (long long)r->options.steps, r->checkpoint ? "; continue with: propane train --resume " : "",
                        r->checkpoint ? r->options.run_dir : "");
}

/* Writes the trace, even if the run was stopped or failed. The run's own error takes precedence. */
static propane_status train_run_trace(train_run *r, propane_status status, propane_error *err) {
    propane_error own = {0};
    if (!r->timeline) return status;
    const propane_status written = timeline_write(r->timeline, r->options.trace, &own);
    if (status != PROPANE_OK || written == PROPANE_OK) return status;
    return propane_fail(err, written, "--trace: %.900s", own.text);
}

propane_status train_run_go_until(train_run *r, int64_t step, const train_callbacks *c, const atomic_bool *cancel,
                                  bool *restart, propane_error *err) {
    *restart = false;
    train_run_cancel_by(r, cancel);
    propane_status status = train_run_loop(r, step, c, restart, err);
    train_run_cancel_by(r, NULL);
    if (status == PROPANE_ERR_CANCELLED) status = train_run_stop(r, c, err);
    return train_run_trace(r, status, err);
}
