/* SPDX-License-Identifier: MIT
 * Owns the run. The order of the samples follows from the seed and the number of the sample, so the state is the number of
 * steps and nothing else; the loop below reads top down as the life of a run.
 */
#include "train/finetune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/temporary.h"
#include "train/checkpoint.h"
#include "train/data/token_windows.h"
#include "train/optim/schedule.h"

struct tune {
    const tune_options *options;
    imported_model *model;
    const sample_source *source;
    imported_step *step;
    adamw *optimiser;
    float **moments; /* [2 * weights] */
    tune_state state;
    train_schedule schedule;
    int64_t saved;              /* step of the newest checkpoint; -1: none */
    double loss;                /* of the step before */
    char *checkpoint, *package; /* NULL without a run folder */
};

void tune_options_default(tune_options *o) {
    *o = (tune_options){.model = {.freeze = "", .loss = IMPORTED_CROSS_ENTROPY},
                        .steps = 0,
                        .batch = 16,
                        .accumulate = 1,
                        .lr = 1e-4,
                        .min_lr = -1,
                        .weight_decay = 0,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .epsilon = 1e-8,
                        .seed = 1,
                        .shuffle = true,
                        .device = "cpu"};
}

int64_t tune_steps_done(const tune *t) { return t->state.step; }
imported_step *tune_machine(const tune *t) { return t->step; }

/* ---- making --------------------------------------------------------------------------------------------------------------- */

static propane_status make_optimiser(tune *t, propane_error *err) {
    const int count = t->model->weight_count;
    adamw_tensor *list = mem_array((size_t)count, sizeof *list);
    t->moments = mem_array((size_t)count * 2, sizeof *t->moments);
    propane_status status = list && t->moments ? PROPANE_OK : propane_fail_memory(err, (size_t)count * sizeof *list);
    for (int i = 0; i < count && !status; i++) {
        const mil_type *type = &t->model->weights[i].type;
        const int64_t elements = mil_type_count(type);
        for (int k = 0; k < 2; k++) t->moments[2 * i + k] = mem_array((size_t)elements, sizeof(float));
        if (!t->moments[2 * i] || !t->moments[2 * i + 1]) status = propane_fail_memory(err, (size_t)elements * 4);
        list[i] = (adamw_tensor){.weight = imported_step_weight(t->step, i),
                                 .moment1 = t->moments[2 * i],
                                 .moment2 = t->moments[2 * i + 1],
                                 .gradient = imported_step_gradient(t->step, i),
                                 .count = elements,
                                 .decay = type->rank > 1,
                                 .row = elements};
    }
    if (!status) status = adamw_create(list, count, &t->optimiser, err);
    mem_free(list);
    return status;
}

static propane_status make_paths(tune *t, propane_error *err) {
    const char *dir = t->options->run_dir;
    if (!dir) return PROPANE_OK;
    const size_t room = strlen(dir) + 40;
    t->checkpoint = mem_alloc(room);
    t->package = mem_alloc(room);
    if (!t->checkpoint || !t->package) return propane_fail_memory(err, room);
    snprintf(t->checkpoint, room, "%s/%s", dir, TRAIN_CHECKPOINT);
    snprintf(t->package, room, "%s/%s", dir, IMPORTED_PACKAGE);
    return PROPANE_OK;
}

static propane_status load(tune *t, propane_error *err) {
    const tune_options *o = t->options;
    if (o->run_dir) temporary_sweep_folder(o->run_dir);
    if (!o->resume) return PROPANE_OK;
    PROPANE_TRY(tune_checkpoint_read(t->checkpoint, o, t->source, &t->state, t->model, t->step, t->moments, err));
    t->saved = t->state.step;
    if (t->state.step <= o->steps) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: the run has done %lld steps; --steps %lld is fewer",
                        t->checkpoint, (long long)t->state.step, (long long)o->steps);
}

static propane_status make(tune *t, propane_error *err) {
    const tune_options *o = t->options;
    PROPANE_TRY(make_paths(t, err));
    PROPANE_TRY(imported_step_create(t->model, o->device, o->batch, t->source, &t->step, err));
    if (imported_step_samples(t->step) < o->batch * o->accumulate) PROPANE_TRY(imported_step_sum(t->step, err));
    PROPANE_TRY(make_optimiser(t, err));
    t->schedule = (train_schedule){o->lr, o->min_lr < 0 ? o->lr : o->min_lr, o->warmup, o->steps};
    return load(t, err);
}

propane_status tune_create(const tune_options *options, imported_model *model, const sample_source *source, tune **out,
                           propane_error *err) {
    tune *t = mem_alloc(sizeof *t);
    *out = NULL;
    if (!t) return propane_fail_memory(err, sizeof *t);
    *t = (tune){.options = options, .model = model, .source = source, .saved = -1, .loss = NAN};
    t->state.evaluated = -1;
    propane_status status = make(t, err);
    if (status)
        tune_free(t);
    else
        *out = t;
    return status;
}

void tune_free(tune *t) {
    if (!t) return;
    adamw_free(t->optimiser);
    for (int i = 0; t->moments && i < 2 * t->model->weight_count; i++) mem_free(t->moments[i]);
    mem_free(t->moments);
    imported_step_free(t->step);
    mem_free(t->checkpoint);
    mem_free(t->package);
    mem_free(t);
}

/* ---- running -------------------------------------------------------------------------------------------------------------- */

static int64_t pick(const tune *t, int64_t n) {
    const int64_t count = t->source->count[0];
    return t->options->shuffle ? token_windows_shuffled((uint64_t)t->options->seed, (uint64_t)n, count) : n % count;
}

/* Sums of the gradients of all samples of the step. */
static propane_status gradients(tune *t, double *loss, int64_t *count, int64_t *device_ns, propane_error *err) {
    const int64_t per_step = t->options->batch * t->options->accumulate, samples = imported_step_samples(t->step);
    const int64_t begin = t->state.step * per_step;
    *loss = 0, *count = 0;
    for (int64_t at = 0; at < per_step; at += samples) {
        double part;
        int64_t counted;
        for (int64_t i = 0; i < samples; i++)
            PROPANE_TRY(imported_step_put(t->step, t->source, 0, pick(t, begin + at + i), i, err));
        PROPANE_TRY(imported_step_run(t->step, at == 0, &part, &counted, device_ns, err));
        *loss += part;
        *count += counted;
    }
    if (*count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "step %lld: no label of its %lld samples is a class: all are -1",
                        (long long)t->state.step + 1, (long long)per_step);
}

static propane_status diverged(const tune *t, propane_error *err) {
    char before[80] = "";
    if (isfinite(t->loss)) snprintf(before, sizeof before, " (it was %g before)", t->loss);
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "step %lld: the loss is not a number%s: the training has diverged; start again with a smaller "
                        "--lr, or look for numbers in the data that are too large",
                        (long long)t->state.step + 1, before);
}

static propane_status one_step(tune *t, const tune_callbacks *c, propane_error *err) {
    const tune_options *o = t->options;
    const int64_t start = clock_ns();
    int64_t device_ns = 0, count;
    double sum;
    train_report r = {.lr = train_schedule_at(&t->schedule, t->state.step), .loss_scale = 1};
    PROPANE_TRY(gradients(t, &sum, &count, &device_ns, err));
    PROPANE_TRY(file_map_check(err)); /* before what was read there changes a weight */
    r.loss = sum / (double)count;
    r.gradient_norm = adamw_gradient_norm(t->optimiser) / (double)count;
    if (!isfinite(r.loss) || !isfinite(r.gradient_norm)) return diverged(t, err);
    const double clip = o->clip > 0 && r.gradient_norm > o->clip ? o->clip / (r.gradient_norm + 1e-6) : 1;
    const adamw_step how = {.lr = r.lr,
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .epsilon = o->epsilon,
                            .weight_decay = o->weight_decay,
                            .gradient_scale = clip / (double)count,
                            .step = t->state.step + 1};
    adamw_update(t->optimiser, &how);
    r.step = ++t->state.step;
    t->loss = r.loss;
    const double seconds = (double)(clock_ns() - start) / 1e9;
    r.device_ms = (double)device_ns / 1e6;
    r.host_ms = seconds * 1e3 - r.device_ms;
    r.tokens_per_s = (double)(o->batch * o->accumulate) / seconds;
    if (c && c->on_step) c->on_step(c->context, &r);
    return PROPANE_OK;
}

static propane_status evaluate(tune *t, const tune_callbacks *c, const volatile bool *cancel, propane_error *err) {
    const int64_t all = t->source->count[1], samples = imported_step_samples(t->step);
    double sum = 0;
    int64_t total = 0, good = 0;
    for (int64_t at = 0; at < all; at += samples) {
        const int64_t here = all - at < samples ? all - at : samples;
        double loss;
        int64_t count, right;
        if (cancel && *cancel) return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped");
        for (int64_t i = 0; i < here; i++) PROPANE_TRY(imported_step_put(t->step, t->source, 1, at + i, i, err));
        PROPANE_TRY(imported_step_evaluate(t->step, here, &loss, &count, &right, err));
        sum += loss;
        total += count;
        good += right;
    }
    t->state.evaluated = t->state.step;
    const double n = total ? (double)total : 1;
    const tune_evaluation e = {t->state.step, sum / n,
                               t->model->loss == IMPORTED_CROSS_ENTROPY ? (double)good / n : -1};
    if (c && c->on_evaluation) c->on_evaluation(c->context, &e);
    return PROPANE_OK;
}

static propane_status save(tune *t, const tune_callbacks *c, propane_error *err) {
    if (!t->checkpoint || t->saved == t->state.step) return PROPANE_OK;
    PROPANE_TRY(
        tune_checkpoint_write(t->checkpoint, t->options, t->source, &t->state, t->model, t->step, t->moments, err));
    t->saved = t->state.step;
    if (c && c->on_checkpoint) c->on_checkpoint(c->context, t->state.step, t->checkpoint);
    return PROPANE_OK;
}

static bool evaluation_due(const tune *t) {
    const int64_t interval = t->options->eval_interval, step = t->state.step;
    if (t->source->count[1] == 0 || t->state.evaluated == step) return false;
    return step >= t->options->steps || (interval > 0 && step % interval == 0);
}

static propane_status loop(tune *t, const tune_callbacks *c, const volatile bool *cancel, propane_error *err) {
    const tune_options *o = t->options;
    for (;;) {
        const bool more = t->state.step < o->steps;
        if (evaluation_due(t)) PROPANE_TRY(evaluate(t, c, cancel, err));
        if (!more) return PROPANE_OK;
        if (cancel && *cancel) return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped");
        if (o->checkpoint_interval > 0 && t->state.step > 0 && t->state.step % o->checkpoint_interval == 0)
            PROPANE_TRY(save(t, c, err));
        PROPANE_TRY(one_step(t, c, err));
    }
}

static propane_status write_package(const tune *t, propane_error *err) {
    const float **weights = mem_array((size_t)t->model->weight_count, sizeof *weights);
    if (!weights) return propane_fail_memory(err, (size_t)t->model->weight_count * sizeof *weights);
    for (int i = 0; i < t->model->weight_count; i++) weights[i] = imported_step_weight(t->step, i);
    propane_status status = imported_model_write(t->model, &t->options->model, weights, t->package, err);
    mem_free(weights);
    return status;
}

propane_status tune_run(tune *t, const tune_callbacks *c, const volatile bool *cancel, propane_error *err) {
    propane_status status = loop(t, c, cancel, err);
    if (status && status != PROPANE_ERR_CANCELLED) return status;
    PROPANE_TRY(save(t, c, err));
    if (status)
        return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped after step %lld of %lld%s", (long long)t->state.step,
                            (long long)t->options->steps, t->checkpoint ? "; go on with --resume" : "");
    return t->package ? write_package(t, err) : PROPANE_OK;
}
