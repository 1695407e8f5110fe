/* SPDX-License-Identifier: MIT
 * Owns the runs of the two programs. On a device that accepts the host's memory, the programs read the master weights
 * and write the optimiser's gradients directly. On other devices, weights and gradients are copied.
 *
 * A test shows whether a program for several samples gives the same results as for each sample separately, because an
 * operation may mix samples without changing shapes.
 */
#include "train/import/imported_step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/poll.h"
#include "core/device/runner.h"
#include "core/refusal/refusal.h"

enum { ALIGN_FLOATS = 16, PROOF = 4 };
#define PROOF_ERROR 1e-3 /* relative to the largest output; sums in another order differ by less than 1e-5 */

/* What an input or output of a program means for the step; `index` is the number of the weight or input. */
typedef struct role {
    enum { ROLE_OUTPUT, ROLE_WEIGHT, ROLE_INPUT, ROLE_TARGET, ROLE_SEED, ROLE_GRADIENT, ROLE_LOSS } kind;
    int index;
} role;

typedef struct unit {
    propane_program *program;
    role *roles; /* per input and output */
    runner run;
} unit;

struct imported_step {
    imported_model *model;
    propane_device *device;
    const char *bisect; /* borrowed folder for refusal_explain */
    bool shared;
    bool host; /* the device accepts the host's memory */
    unit train, forward;
    int64_t samples;
    char why[400];
    /* masters, gradients of the latest run, and sums of gradients; `sums` is NULL without imported_step_sum */
    float *weights, *fresh, *sums;
    int64_t *place; /* [weight], offset in these arrays */
    int64_t floats;
    void **stage;         /* [input], staging array for all samples */
    int64_t *stage_count; /* elements per sample, of 4 bytes each */
    int32_t *labels;
    float *target, *output;
    int64_t outputs, positions; /* per sample */
};

int64_t imported_step_samples(const imported_step *s) { return s->samples; }
const char *imported_step_why(const imported_step *s) { return *s->why ? s->why : NULL; }
const propane_program *imported_step_program(const imported_step *s) { return s->train.program; }
float *imported_step_weight(const imported_step *s, int weight) { return s->weights + s->place[weight]; }
const float *imported_step_gradient(const imported_step *s, int weight) {
    return (s->sums ? s->sums : s->fresh) + s->place[weight];
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

static int imported_weight_named(const imported_step *s, const char *name) {
    for (int i = 0; i < s->model->weight_count; i++)
        if (strcmp(s->model->names[i], name) == 0) return i;
    return -1;
}

static role imported_role_of(const imported_step *s, const char *name, bool output) {
    const mil_function *base = s->model->base;
    int i;
    if (output) {
        if (strcmp(name, IMPORTED_LOSS) == 0) return (role){ROLE_LOSS, 0};
        i = strncmp(name, "d_", 2) == 0 ? imported_weight_named(s, name + 2) : -1;
        return i >= 0 ? (role){ROLE_GRADIENT, i} : (role){ROLE_OUTPUT, 0};
    }
    if ((i = imported_weight_named(s, name)) >= 0) return (role){ROLE_WEIGHT, i};
    if (strcmp(name, IMPORTED_TARGET) == 0) return (role){ROLE_TARGET, 0};
    for (i = 0; i < base->param_count; i++)
        if (strcmp(base->params[i]->name, name) == 0) return (role){ROLE_INPUT, i};
    return (role){ROLE_SEED, 0};
}

/* Returns the host's memory for weights and gradients, or NULL if the role has a separate buffer. */
static float *imported_memory_of(const imported_step *s, role r) {
    if (r.kind != ROLE_WEIGHT && r.kind != ROLE_GRADIENT) return NULL;
    return (r.kind == ROLE_GRADIENT ? s->fresh : s->weights) + s->place[r.index];
}

typedef struct unit_choice {
    imported_step *step;
    unit *unit;
} unit_choice;

/* Binds the host's memory if the device accepts it. Otherwise leaves *out NULL, so that a buffer is made. */
static propane_status imported_choose_buffer(void *context, const propane_io *io, int index, propane_buffer **out,
                                             bool *lent, propane_error *err) {
    const unit_choice *c = context;
    imported_step *s = c->step;
    unit *u = c->unit;
    (void)lent;
    u->roles[index] = imported_role_of(s, io->name, index >= propane_program_input_count(u->program));
    float *memory = imported_memory_of(s, u->roles[index]);
    if (!memory || !s->host) return PROPANE_OK;
    const propane_status status = propane_buffer_wrap(s->device, memory, io->bytes, out, err);
    if (status != PROPANE_ERR_UNSUPPORTED) return status;
    s->host = false;
    return PROPANE_OK;
}

static propane_status imported_unit_open(imported_step *s, const mil_function *f, unit *u, propane_error *err) {
    const propane_compile_options options = {.size = sizeof options, .function = f->name};
    const propane_status status = propane_program_compile(s->device, s->model->module, &options, &u->program, err);
    if (status) { /* building for several samples may fail; the step then tries one */
        const bool last = u == &s->train || s->samples == 1;
        return refusal_explain(s->device, f, &options, last ? s->bisect : NULL, err);
    }
    const int count = runner_io_count(u->program);
    u->roles = mem_array((size_t)count + 1, sizeof *u->roles);
    if (!u->roles) return propane_fail_memory(err, (size_t)count * sizeof *u->roles);
    return runner_open(&u->run, s->device, u->program, imported_choose_buffer, &(unit_choice){s, u}, err);
}

static void imported_unit_close(unit *u) {
    runner_close(&u->run);
    mem_free(u->roles);
    propane_program_free(u->program);
    *u = (unit){0};
}

/* Copies the staging arrays and, if the device does not read them directly, the weights into the program's inputs. */
static propane_status imported_fill(imported_step *s, unit *u, propane_error *err) {
    static const float one = 1;
    for (int i = 0; i < u->run.inputs; i++) {
        const role r = u->roles[i];
        const void *from = r.kind == ROLE_WEIGHT   ? imported_step_weight(s, r.index)
                           : r.kind == ROLE_TARGET ? s->target
                           : r.kind == ROLE_INPUT  ? s->stage[r.index]
                                                   : (const void *)&one;
        const bool whole = r.kind == ROLE_INPUT && !mil_dtype_is_float(s->model->base->params[r.index]->type.dtype);
        if (r.kind != ROLE_WEIGHT || !s->host)
            PROPANE_TRY(runner_write(&u->run, i, whole ? PROPANE_INT32 : PROPANE_FP32, from, err));
    }
    return PROPANE_OK;
}

static propane_status imported_run(imported_step *s, unit *u, int64_t *device_ns, propane_error *err) {
    propane_completion done = {.size = sizeof done};
    poll_scope scope;
    PROPANE_TRY(imported_fill(s, u, err));
    poll_begin(&scope);
    const propane_status status = runner_run(&u->run, &done, err);
    PROPANE_TRY(poll_end(&scope, status, err));
    if (device_ns) *device_ns += done.device_ns;
    return PROPANE_OK;
}

/* ---- samples ---------------------------------------------------------------------------------------------------------------- */

propane_status imported_step_put(imported_step *s, const sample_source *source, int part, int64_t index, int64_t at,
                                 propane_error *err) {
    void *inputs[64];
    const int count = s->model->base->param_count;
    for (int i = 0; i < count; i++) inputs[i] = (char *)s->stage[i] + at * s->stage_count[i] * 4;
    int32_t *labels = s->labels + at * s->positions;
    const sample_room out = {inputs, labels, s->target + at * s->outputs};
    PROPANE_TRY(source->get(source->context, part, index, &out, err));
    if (s->model->loss == IMPORTED_MSE) return PROPANE_OK;
    for (int64_t i = 0; i < s->positions; i++)
        if (labels[i] < -1 || labels[i] >= s->model->classes)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "sample %lld has class %d, but the output has %lld classes, 0 to %lld (-1 means none)",
                                (long long)index, labels[i], (long long)s->model->classes,
                                (long long)s->model->classes - 1);
    return PROPANE_OK;
}

/* Returns the number of elements after the class axis, `inner`; position p is (p / inner, p % inner). */
static int64_t imported_inner_of(const imported_step *s) {
    const mil_type *type = &s->model->base->results[0]->type;
    int64_t inner = 1;
    for (int d = s->model->class_axis + 1; d < type->rank; d++) inner *= type->dim[d];
    return inner;
}

/* Writes one-hot targets and returns the number of positions that have a label. */
static int64_t imported_spread_labels(imported_step *s) {
    const int64_t inner = imported_inner_of(s), classes = s->model->classes, all = s->samples * s->positions;
    int64_t count = 0;
    memset(s->target, 0, (size_t)(s->samples * s->outputs) * sizeof *s->target);
    for (int64_t p = 0; p < all; p++) {
        if (s->labels[p] < 0) continue;
        s->target[p / inner * classes * inner + s->labels[p] * inner + p % inner] = 1;
        count++;
    }
    return count;
}

static void imported_add_up(imported_step *s, bool first) {
    if (first)
        memcpy(s->sums, s->fresh, (size_t)s->floats * sizeof *s->sums);
    else
        for (int64_t i = 0; i < s->floats; i++) s->sums[i] += s->fresh[i];
}

propane_status imported_step_run(imported_step *s, bool first, double *loss, int64_t *count, int64_t *device_ns,
                                 propane_error *err) {
    unit *u = &s->train;
    float sum = 0;
    *count = s->model->loss == IMPORTED_MSE ? s->samples * s->outputs : imported_spread_labels(s);
    PROPANE_TRY(imported_run(s, u, device_ns, err));
    for (int i = u->run.inputs; i < u->run.count; i++) {
        float *to = u->roles[i].kind == ROLE_LOSS ? &sum : s->host ? NULL : imported_memory_of(s, u->roles[i]);
        if (to) PROPANE_TRY(runner_read(&u->run, i, PROPANE_FP32, to, err));
    }
    *loss = (double)sum;
    if (!first && !s->sums)
        return propane_fail(err, PROPANE_ERR_INVALID, "the step was created without gradient accumulation");
    if (s->sums) imported_add_up(s, first);
    return PROPANE_OK;
}

static void imported_judge_position(const imported_step *s, int64_t p, int64_t inner, double *loss, int64_t *right) {
    const float *z = s->output + p / inner * s->model->classes * inner + p % inner;
    double sum = 0;
    int64_t top = 0;
    for (int64_t c = 1; c < s->model->classes; c++)
        if (z[c * inner] > z[top * inner]) top = c;
    for (int64_t c = 0; c < s->model->classes; c++) sum += exp((double)z[c * inner] - (double)z[top * inner]);
    *loss += log(sum) + (double)z[top * inner] - (double)z[s->labels[p] * inner];
    *right += top == s->labels[p];
}

propane_status imported_step_evaluate(imported_step *s, int64_t samples, double *loss, int64_t *count, int64_t *right,
                                      propane_error *err) {
    const int64_t inner = imported_inner_of(s);
    *loss = 0, *count = *right = 0;
    PROPANE_TRY(imported_run(s, &s->forward, NULL, err));
    PROPANE_TRY(runner_read(&s->forward.run, s->forward.run.inputs, PROPANE_FP32, s->output, err));
    if (s->model->loss == IMPORTED_MSE) {
        *count = samples * s->outputs;
        for (int64_t i = 0; i < *count; i++) {
            const double d = (double)s->output[i] - (double)s->target[i];
            *loss += d * d;
        }
        return PROPANE_OK;
    }
    for (int64_t p = 0; p < samples * s->positions; p++) {
        if (s->labels[p] < 0) continue;
        imported_judge_position(s, p, inner, loss, right);
        ++*count;
    }
    return PROPANE_OK;
}

/* ---- making ----------------------------------------------------------------------------------------------------------------- */

static propane_status imported_take_memory(imported_step *s, propane_error *err) {
    const imported_model *m = s->model;
    s->place = mem_array((size_t)m->weight_count + 1, sizeof *s->place);
    if (!s->place) return propane_fail_memory(err, 0);
    for (int i = 0; i < m->weight_count; i++) {
        s->place[i] = s->floats;
        s->floats += (mil_type_count(&m->weights[i].type) + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    }
    s->weights = mem_pages_alloc((size_t)s->floats * sizeof *s->weights);
    s->fresh = mem_pages_alloc((size_t)s->floats * sizeof *s->fresh);
    if (!s->weights || !s->fresh) return propane_fail_memory(err, (size_t)s->floats * 8);
    for (int i = 0; i < m->weight_count; i++) {
        const mil_const *c = m->weights[i].begin;
        memcpy(s->weights + s->place[i], c->data, (size_t)mil_type_count(&c->type) * sizeof *s->weights);
    }
    return PROPANE_OK;
}

static propane_status imported_take_stage(imported_step *s, int64_t samples, propane_error *err) {
    const mil_function *f = s->model->base;
    const int count = f->param_count;
    s->stage = mem_array((size_t)count + 1, sizeof *s->stage);
    s->stage_count = mem_array((size_t)count + 1, sizeof *s->stage_count);
    if (!s->stage || !s->stage_count) return propane_fail_memory(err, 0);
    if (count > 64) return propane_fail(err, PROPANE_ERR_LIMIT, "%d inputs; the maximum is 64", count);
    for (int i = 0; i < count; i++) {
        s->stage_count[i] = mil_type_count(&f->params[i]->type);
        s->stage[i] = mem_array((size_t)(samples * s->stage_count[i]), 4);
        if (!s->stage[i]) return propane_fail_memory(err, (size_t)(samples * s->stage_count[i]) * 4);
    }
    s->outputs = mil_type_count(&f->results[0]->type);
    s->positions = s->model->classes ? s->outputs / s->model->classes : 0;
    s->labels = mem_array((size_t)(samples * s->positions) + 1, sizeof *s->labels);
    s->target = mem_array((size_t)(samples * s->outputs), sizeof *s->target);
    s->output = mem_array((size_t)(samples * s->outputs), sizeof *s->output);
    return s->labels && s->target && s->output ? PROPANE_OK
                                               : propane_fail_memory(err, (size_t)(samples * s->outputs) * 8);
}

static propane_status imported_open_forward(imported_step *s, int64_t samples, unit *u, propane_error *err) {
    char name[60];
    mil_function *f;
    snprintf(name, sizeof name, "propane.forward.%lld", (long long)samples);
    PROPANE_TRY(imported_model_forward(s->model, samples, name, &f, err));
    propane_status status = imported_unit_open(s, f, u, err);
    mil_module_drop(s->model->module, f);
    return status;
}

/* Runs sample `at` separately, in place 0 of `single`, and compares it with the result of the batch. */
static propane_status imported_compare_one(imported_step *s, const sample_source *source, unit *single, int64_t at,
                                           double largest, float *alone, bool *same, propane_error *err) {
    PROPANE_TRY(imported_step_put(s, source, 0, at % source->count[0], 0, err));
    PROPANE_TRY(imported_run(s, single, NULL, err));
    PROPANE_TRY(runner_read(&single->run, single->run.inputs, PROPANE_FP32, alone, err));
    for (int64_t i = 0; i < s->outputs; i++) {
        const double d = fabs((double)alone[i] - (double)s->output[at * s->outputs + i]);
        if (!(d <= PROOF_ERROR * largest)) *same = false;
    }
    return PROPANE_OK;
}

/* Compares PROOF samples of the batch, including the first and the last, with the results of separate runs. */
static propane_status imported_prove(imported_step *s, const sample_source *source, bool *same, propane_error *err) {
    unit single = {0};
    double largest = 1e-6;
    float *alone = mem_array((size_t)s->outputs, sizeof *alone);
    propane_status status = alone ? PROPANE_OK : propane_fail_memory(err, (size_t)s->outputs * sizeof *alone);
    *same = true;
    for (int64_t i = 0; i < s->samples && !status; i++)
        status = imported_step_put(s, source, 0, i % source->count[0], i, err);
    if (!status) status = imported_run(s, &s->forward, NULL, err);
    if (!status) status = runner_read(&s->forward.run, s->forward.run.inputs, PROPANE_FP32, s->output, err);
    for (int64_t i = 0; i < s->samples * s->outputs; i++) largest = fmax(largest, fabs((double)s->output[i]));
    if (!status) status = imported_open_forward(s, 1, &single, err);
    for (int64_t k = 0; k < PROOF && !status && *same; k++)
        status =
            imported_compare_one(s, source, &single, (s->samples - 1) * k / (PROOF - 1), largest, alone, same, err);
    imported_unit_close(&single);
    mem_free(alone);
    return status;
}

/* Sets *works to whether this batch size works. If it does not, s->why holds the reason. */
static propane_status imported_try_batch(imported_step *s, int64_t batch, const sample_source *source, bool *works,
                                         propane_error *err) {
    propane_error why = {0};
    bool same;
    *works = false;
    s->samples = batch;
    propane_status status = imported_open_forward(s, batch, &s->forward, &why);
    if (status == PROPANE_ERR_MEMORY) return propane_fail(err, status, "%s", why.text);
    if (status) {
        snprintf(s->why, sizeof s->why, "%.390s", why.text);
        return PROPANE_OK;
    }
    PROPANE_TRY(imported_prove(s, source, &same, err));
    *works = same;
    if (!same) snprintf(s->why, sizeof s->why, "an operation mixes the samples of a batch");
    return PROPANE_OK;
}

static propane_status imported_make(imported_step *s, const char *device, propane_device *shared, int64_t batch,
                                    const sample_source *source, propane_error *err) {
    bool works = false;
    mil_function *f;
    s->shared = shared != NULL;
    s->device = shared;
    if (!shared) PROPANE_TRY(propane_device_open(device, &s->device, err));
    PROPANE_TRY(imported_take_memory(s, err));
    PROPANE_TRY(imported_take_stage(s, batch, err));
    s->host = true;
    if (batch > 1) PROPANE_TRY(imported_try_batch(s, batch, source, &works, err));
    if (!works) {
        imported_unit_close(&s->forward);
        s->samples = 1;
        PROPANE_TRY(imported_open_forward(s, 1, &s->forward, err));
    }
    PROPANE_TRY(imported_model_train(s->model, s->samples, "propane.train", &f, err));
    propane_status status = imported_unit_open(s, f, &s->train, err);
    mil_module_drop(s->model->module, f);
    return status;
}

propane_status imported_step_create(imported_model *m, const char *device, propane_device *shared, const char *bisect,
                                    int64_t batch, const sample_source *source, imported_step **out,
                                    propane_error *err) {
    *out = NULL;
    if (m->loss == IMPORTED_CROSS_ENTROPY && m->class_axis < 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "the classes of output '%.60s' could be along several axes; give --class-axis",
                            m->base->results[0]->name);
    imported_step *s = mem_alloc(sizeof *s);
    if (!s) return propane_fail_memory(err, sizeof *s);
    s->model = m;
    s->bisect = bisect;
    propane_status status = imported_make(s, device, shared, batch, source, err);
    if (status)
        imported_step_free(s);
    else
        *out = s;
    return status;
}

propane_status imported_step_sum(imported_step *s, propane_error *err) {
    if (!s->sums) s->sums = mem_pages_alloc((size_t)s->floats * sizeof *s->sums);
    return s->sums ? PROPANE_OK : propane_fail_memory(err, (size_t)s->floats * sizeof *s->sums);
}

void imported_step_free(imported_step *s) {
    if (!s) return;
    imported_unit_close(&s->train);
    imported_unit_close(&s->forward);
    if (!s->shared) propane_device_close(s->device);
    mem_pages_free(s->weights, (size_t)s->floats * sizeof *s->weights);
    mem_pages_free(s->fresh, (size_t)s->floats * sizeof *s->fresh);
    mem_pages_free(s->sums, (size_t)s->floats * sizeof *s->sums);
    for (int i = 0; s->stage && i < s->model->base->param_count; i++) mem_free(s->stage[i]);
    mem_free(s->stage);
    mem_free(s->stage_count);
    mem_free(s->place);
    mem_free(s->labels);
    mem_free(s->target);
    mem_free(s->output);
    mem_free(s);
}
