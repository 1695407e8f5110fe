/* SPDX-License-Identifier: MIT
 * Owns the training steps and evaluations of an imported program, and the contents of its checkpoint. The order of the
 * samples depends only on the seed and on the position in the data, so no other state of the data is stored.
 */
#include "train/imported_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "core/base/temporary.h"
#include "train/train_run_internal.h"

typedef struct imported_run {
    train_run run;
    imported_model_options how;
    imported_model *model;
    const sample_source *source;
    imported_step *step;
    adamw *optimiser;
    float **moments;           /* [2 * weights] */
    int64_t count;             /* number of values over which the latest gradients are summed */
    int64_t device_ns;         /* device time of the latest step */
    double loss;               /* loss of the previous step */
    char *package;             /* NULL without a run folder */
    char samples[24], sum[24]; /* fingerprints for the checkpoint */
} imported_run;

static imported_run *imported_run_of(const train_run *r) { return (imported_run *)(uintptr_t)r; }

imported_step *imported_run_step(const train_run *r) { return imported_run_of(r)->step; }

imported_model_options imported_run_model_options(const train_options *o, const char *path, mil_read_options shapes) {
    return (imported_model_options){.path = path,
                                    .function = *o->function ? o->function : NULL,
                                    .output = *o->output ? o->output : NULL,
                                    .trainable = o->trainable,
                                    .freeze = o->freeze,
                                    .shapes = shapes,
                                    .class_axis = o->class_axis,
                                    .loss = strcmp(o->loss, "mse") == 0 ? IMPORTED_MSE : IMPORTED_CROSS_ENTROPY};
}

/* ---- steps ------------------------------------------------------------------------------------------------------------------- */

static int64_t imported_pick(const imported_run *t, int64_t n) {
    const int64_t count = t->source->count[0];
    const train_options *o = &t->run.options;
    return o->shuffle ? rng_shuffled((uint64_t)o->seed, (uint64_t)n, count) : n % count;
}

static propane_status imported_diverged(const imported_run *t, propane_error *err) {
    char before[80] = "";
    if (isfinite(t->loss)) snprintf(before, sizeof before, " (it was %g before)", t->loss);
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "step %lld: the loss is NaN or infinite%s: the training has diverged; start again with a "
                        "smaller --lr, or check the data for numbers that are too large",
                        (long long)t->run.state.step + 1, before);
}

/* Sums the gradients and the losses of all samples of the step. */
static propane_status imported_sum(imported_run *t, double *loss, propane_error *err) {
    const int64_t samples = imported_step_samples(t->step), begin = t->run.state.position;
    *loss = 0, t->count = t->device_ns = 0;
    for (int64_t at = 0; at < t->run.units; at += samples) {
        double part;
        int64_t counted;
        for (int64_t i = 0; i < samples; i++)
            PROPANE_TRY(imported_step_put(t->step, t->source, 0, imported_pick(t, begin + at + i), i, err));
        PROPANE_TRY(imported_step_run(t->step, at == 0, &part, &counted, &t->device_ns, err));
        *loss += part;
        t->count += counted;
    }
    if (t->count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "step %lld: all labels of its %lld samples are -1, so there is no class to train on",
                        (long long)t->run.state.step + 1, (long long)t->run.units);
}

static propane_status imported_gradients(train_run *run, const train_ahead *ahead, double *loss, double *norm,
                                         propane_error *err) {
    imported_run *t = imported_run_of(run);
    PROPANE_TRY(imported_sum(t, loss, err));
    *loss /= (double)t->count;
    *norm = adamw_gradient_norm(t->optimiser) / (double)t->count;
    if (!isfinite(*loss) || !isfinite(*norm)) return imported_diverged(t, err);
    t->loss = *loss;
    run->state.position += run->units;
    return PROPANE_OK;
}

static propane_status imported_update(train_run *run, adamw_step *how, propane_error *err) {
    imported_run *t = imported_run_of(run);
    (void)err;
    how->gradient_scale /= (double)t->count;
    adamw_update(t->optimiser, how);
    return PROPANE_OK;
}

static void imported_times(train_run *run, double seconds, train_report *report) {
    report->device_ms = (double)imported_run_of(run)->device_ns / 1e6;
    report->host_ms = seconds * 1e3 - report->device_ms;
}

static bool imported_evaluates(const train_run *run) { return imported_run_of(run)->source->count[1] > 0; }

static propane_status imported_evaluate(train_run *run, train_evaluation *out, propane_error *err) {
    imported_run *t = imported_run_of(run);
    const int64_t all = t->source->count[1], samples = imported_step_samples(t->step);
    double sum = 0;
    int64_t total = 0, good = 0;
    if (!all) return propane_fail(err, PROPANE_ERR_INVALID, "there are no samples to validate with");
    for (int64_t at = 0; at < all; at += samples) {
        const int64_t here = all - at < samples ? all - at : samples;
        double loss;
        int64_t count, right;
        PROPANE_TRY(train_run_check_cancel(run, err));
        for (int64_t i = 0; i < here; i++) PROPANE_TRY(imported_step_put(t->step, t->source, 1, at + i, i, err));
        PROPANE_TRY(imported_step_evaluate(t->step, here, &loss, &count, &right, err));
        sum += loss;
        total += count;
        good += right;
    }
    const double n = total ? (double)total : 1;
    out->val_loss = sum / n;
    out->val_accuracy = t->model->loss == IMPORTED_CROSS_ENTROPY ? (double)good / n : -1;
    return PROPANE_OK;
}

propane_status imported_run_write(const train_run *run, const char *path, propane_error *err) {
    const imported_run *t = imported_run_of(run);
    const int count = t->model->weight_count;
    const float **weights = mem_array((size_t)count, sizeof *weights);
    if (!weights) return propane_fail_memory(err, (size_t)count * sizeof *weights);
    for (int i = 0; i < count; i++) weights[i] = imported_step_weight(t->step, i);
    const propane_status status = imported_model_write(t->model, &t->how, weights, path, err);
    mem_free(weights);
    return status;
}

static propane_status imported_finish(train_run *run, propane_error *err) {
    return imported_run_write(run, imported_run_of(run)->package, err);
}

/* ---- contents of its checkpoint ---------------------------------------------------------------------------------- */

static int imported_fingerprints(const train_run *run, train_fingerprint out[TRAIN_FINGERPRINTS]) {
    const imported_run *t = imported_run_of(run);
    out[0] = (train_fingerprint){"samples", t->samples, "data with this number of samples:"};
    out[1] = (train_fingerprint){"data", t->sum, "data with the checksum"};
    return 2;
}

static int imported_tensor_count(const train_run *run) { return imported_run_of(run)->model->weight_count; }

static train_tensor imported_tensor(const train_run *run, int block, int index) {
    const imported_run *t = imported_run_of(run);
    const mil_type *type = &t->model->weights[index].type;
    return (train_tensor){t->model->names[index], type->rank, type->dim, mil_type_count(type),
                          block == 0                   ? imported_step_weight(t->step, index)
                          : block == TRAIN_OUTER_BLOCK ? NULL
                                                       : t->moments[2 * index + block - 1]};
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

static propane_status imported_make_moments(imported_run *t, adamw_tensor *list, propane_error *err) {
    for (int i = 0; i < t->model->weight_count; i++) {
        const mil_type *type = &t->model->weights[i].type;
        const int64_t elements = mil_type_count(type);
        float **pair = t->moments + 2 * i;
        for (int k = 0; k < 2; k++) pair[k] = mem_array((size_t)elements, sizeof(float));
        if (!pair[0] || !pair[1]) return propane_fail_memory(err, (size_t)elements * 4);
        list[i] = (adamw_tensor){.state.weight = imported_step_weight(t->step, i),
                                 .state.moment1 = pair[0],
                                 .state.moment2 = pair[1],
                                 .gradient = imported_step_gradient(t->step, i),
                                 .count = elements,
                                 .decay = type->rank > 1,
                                 .row = elements};
    }
    return adamw_create(list, t->model->weight_count, &t->optimiser, err);
}

static propane_status imported_make_optimiser(imported_run *t, propane_error *err) {
    const size_t count = (size_t)t->model->weight_count;
    adamw_tensor *list = mem_array(count, sizeof *list);
    t->moments = mem_array(count * 2, sizeof *t->moments);
    const propane_status status =
        list && t->moments ? imported_make_moments(t, list, err) : propane_fail_memory(err, count * sizeof *list);
    mem_free(list);
    return status;
}

/* Sets the number of steps from the number of epochs, unless the options give it. */
static void imported_count_steps(imported_run *t) {
    train_options *o = &t->run.options;
    t->run.units = o->batch * o->accumulate;
    if (!o->steps || o->given[TRAIN_OPTION_epochs])
        o->steps = (int64_t)ceil(o->epochs * (double)t->source->count[0] / (double)t->run.units - 1e-9);
    train_run_plan(&t->run);
}

static propane_status imported_check_options(const train_options *o, propane_error *err) {
    if (!*o->loss) return propane_fail(err, PROPANE_ERR_INVALID, "--loss is missing; give mse or cross_entropy");
    if (*o->trainable) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--trainable is missing; name the weights to train ('*' means all)");
}

static propane_status imported_begin(imported_run *t, propane_error *err) {
    const train_options *o = &t->run.options;
    PROPANE_TRY(imported_check_options(o, err));
    t->how = imported_run_model_options(o, t->how.path, t->how.shapes);
    imported_count_steps(t);
    train_scaler_init(&t->run.state.scaler, false);
    snprintf(t->samples, sizeof t->samples, "%lld", (long long)t->source->count[0]);
    snprintf(t->sum, sizeof t->sum, "%016llx", (unsigned long long)t->source->sum);
    PROPANE_TRY(train_run_path(&t->run, TRAIN_PACKAGE, &t->package, err));
    PROPANE_TRY(
        imported_step_create(t->model, o->device, o->shared, t->run.refused, o->batch, t->source, &t->step, err));
    if (imported_step_samples(t->step) < t->run.units) PROPANE_TRY(imported_step_sum(t->step, err));
    PROPANE_TRY(imported_make_optimiser(t, err));
    if (o->resume) return train_run_load(&t->run, 0, TRAIN_BLOCKS - 1, err);
    if (o->run_dir) temporary_sweep_folder(o->run_dir);
    return PROPANE_OK;
}

static void imported_free(train_run *run) {
    imported_run *t = imported_run_of(run);
    adamw_free(t->optimiser);
    for (int i = 0; t->moments && i < 2 * t->model->weight_count; i++) mem_free(t->moments[i]);
    mem_free(t->moments);
    imported_step_free(t->step);
}

static const train_run_kind imported_run_kind = {
    .free = imported_free,
    .gradients = imported_gradients,
    .update = imported_update,
    .times = imported_times,
    .evaluates = imported_evaluates,
    .evaluate = imported_evaluate,
    .finish = imported_finish,
    .fingerprints = imported_fingerprints,
    .tensor_count = imported_tensor_count,
    .tensor = imported_tensor,
};

propane_status imported_run_create(const train_options *options, const imported_model_options *how,
                                   imported_model *model, const sample_source *source, train_run **out,
                                   propane_error *err) {
    imported_run *t = mem_alloc(sizeof *t);
    *out = NULL;
    if (!t) return propane_fail_memory(err, sizeof *t);
    t->how = *how; /* path and shapes */
    t->model = model;
    t->source = source;
    t->loss = NAN;
    propane_status status = train_run_begin(&t->run, &imported_run_kind, options, err);
    if (status == PROPANE_OK) status = imported_begin(t, err);
    if (status == PROPANE_OK)
        *out = &t->run;
    else
        train_run_free(&t->run);
    return status;
}
