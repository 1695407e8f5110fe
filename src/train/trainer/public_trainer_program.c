/* SPDX-License-Identifier: MIT
 * Owns the start of a trainer of imported programs: the program, its samples from arrays, images or memory, and the
 * run's folder. train/imported_run.h trains the program.
 */
#include <stdio.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/device/uri.h"
#include "core/run/public.h"
#include "core/run/session.h"
#include "train/data/arrays.h"
#include "train/data/image_folders.h"
#include "train/imported_run.h"
#include "train/trainer/public_trainer.h"

typedef struct program_trainer {
    imported_model_options how;
    imported_model model;
    arrays *arrays;
    image_folders *images;
    const sample_source *source;
    mil_shape_choice *shapes;
    char **names; /* input names of the shapes */
    int shape_count;
} program_trainer;

static program_trainer *program_of(const propane_trainer *t) { return t->part; }

static propane_status api_trainer_program_check(const train_options *o, propane_error *err) {
    if (!*o->loss) return propane_fail(err, PROPANE_ERR_INVALID, "--loss is missing; give mse or cross_entropy");
    if (strchr(o->sources, ';'))
        return propane_fail(err, PROPANE_ERR_INVALID, "--data: give one folder of samples, not several");
    if (!*o->trainable)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--trainable is missing; name the weights to train ('*' means all)");
    if (o->given[TRAIN_OPTION_steps] && o->given[TRAIN_OPTION_epochs])
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--steps and --epochs both set the length of the run; give only one");
    if (o->min_lr > o->lr) return propane_fail(err, PROPANE_ERR_INVALID, "--min-lr is larger than --lr");
    return PROPANE_OK;
}

/* ---- the samples -------------------------------------------------------------------------------------------------------------- */

/* Describes an array of the caller in the form of arrays from files. */
static propane_status api_trainer_program_array(const propane_tensor *from, npy *to, propane_error *err) {
    if (!from->name || !from->values || from->rank < 1 || from->rank > PROPANE_MAX_RANK)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "an array of samples must have a name, values and 1 to %d dimensions", PROPANE_MAX_RANK);
    *to = (npy){.rank = from->rank, .count = 1, .data = (void *)(uintptr_t)from->values};
    if (!npy_set_type(to, from->dtype))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "array %.60s: this element type is not supported for samples",
                            from->name);
    for (int i = 0; i < from->rank; i++) {
        to->dim[i] = from->dim[i];
        if (to->dim[i] < 1 || to->count > INT64_MAX / 8 / to->dim[i])
            return propane_fail(err, PROPANE_ERR_INVALID, "array %.60s: dimension %d cannot be %lld", from->name, i,
                                (long long)from->dim[i]);
        to->count *= to->dim[i];
    }
    return PROPANE_OK;
}

static propane_status api_trainer_program_list(const propane_tensor *from, int count, npz *to, propane_error *err) {
    if (!from || !count) return PROPANE_OK;
    to->names = mem_array((size_t)count, sizeof *to->names);
    to->arrays = mem_array((size_t)count, sizeof *to->arrays);
    if (!to->names || !to->arrays) return propane_fail_memory(err, (size_t)count * sizeof *to->arrays);
    for (int i = 0; i < count; i++) {
        PROPANE_TRY(api_trainer_program_array(&from[i], &to->arrays[i], err));
        to->names[i] = mem_copy_string(from[i].name);
        if (!to->names[i]) return propane_fail_memory(err, strlen(from[i].name));
        to->count++;
    }
    return PROPANE_OK;
}

static void api_trainer_program_drop_list(npz *z) {
    for (int i = 0; i < z->count; i++) z->arrays[i].data = NULL; /* the data belong to the caller */
    npz_free(z);
}

static propane_status api_trainer_program_take_data(propane_trainer *t, const propane_data *data, propane_error *err) {
    program_trainer *p = program_of(t);
    npz parts[2] = {{0}};
    propane_status status = api_trainer_program_list(data->arrays, data->array_count, &parts[0], err);
    if (!status) status = api_trainer_program_list(data->validation, data->validation_count, &parts[1], err);
    if (!status) status = arrays_take(parts, &p->model, t->options->val_fraction, &p->arrays, err);
    api_trainer_program_drop_list(&parts[0]);
    api_trainer_program_drop_list(&parts[1]);
    if (!status) p->source = arrays_source(p->arrays);
    return status;
}

static propane_status api_trainer_program_open_data(propane_trainer *t, const propane_data *data, propane_error *err) {
    const train_options *o = t->options;
    program_trainer *p = program_of(t);
    if (data->arrays && data->array_count) return api_trainer_program_take_data(t, data, err);
    if (arrays_here(o->sources)) {
        if (*o->mean || *o->std)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s contains arrays, but --mean and --std apply to images",
                                o->sources);
        PROPANE_TRY(arrays_open(o->sources, &p->model, o->val_fraction, &p->arrays, err));
        p->source = arrays_source(p->arrays);
        return PROPANE_OK;
    }
    const image_folders_options pictures = {.held_out = o->val_fraction,
                                            .resize = o->resize,
                                            .mean = *o->mean ? o->mean : NULL,
                                            .std = *o->std ? o->std : NULL};
    PROPANE_TRY(image_folders_open(o->sources, &p->model, &pictures, &p->images, err));
    p->source = image_folders_source(p->images);
    return PROPANE_OK;
}

/* ---- the run ------------------------------------------------------------------------------------------------------------------ */

/* Parses "a=1,3;b=2" into choices. */
static propane_status api_trainer_program_read_shapes(propane_trainer *t, propane_error *err) {
    program_trainer *p = program_of(t);
    size_t most = 1;
    for (const char *c = t->options->shape; *c; c++) most += *c == ';';
    p->shapes = ARENA_ARRAY(t->own->arena, most, mil_shape_choice);
    p->names = ARENA_ARRAY(t->own->arena, most, char *);
    if (!p->shapes || !p->names) return propane_fail_memory(err, most * sizeof *p->shapes);
    for (const char *at = t->options->shape; *at;) {
        const size_t length = strcspn(at, ";");
        const char *one = arena_string_n(t->own->arena, at, length);
        if (!one) return propane_fail_memory(err, length);
        const propane_status status = session_shape(one, &p->shapes[p->shape_count], &p->names[p->shape_count], err);
        p->shape_count++; /* counted even after an error, so that its name is freed */
        if (status != PROPANE_OK) return status;
        at += length + (at[length] == ';');
    }
    return PROPANE_OK;
}

static propane_status api_trainer_program_begin_folder(propane_trainer *t, propane_error *err) {
    const train_options *o = t->options;
    if (!o->run_dir) return PROPANE_OK;
    static const char *const names[] = {NULL};
    const run_files files = {run_holds(o->run_dir, TRAIN_PACKAGE) || run_holds(o->run_dir, TRAIN_MODEL), names};
    return run_begin(o->run_dir, o->resume, &files, &t->hold, err);
}

static propane_status api_trainer_program_begin_profile(propane_trainer *t, propane_error *err) {
    if (!t->options->profile) return PROPANE_OK;
    propane_program *program = (propane_program *)(uintptr_t)imported_step_program(imported_run_step(t->run));
    propane_error none = {0};
    if (device_is(t->options->device, "cpu") && propane_program_profile(program, true, &none) == PROPANE_OK)
        return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--profile needs the cpu device; %s keeps no such record",
                        t->options->device);
}

static propane_status api_trainer_program_open(propane_trainer *t, const propane_data *data, propane_error *err) {
    program_trainer *p = program_of(t);
    const train_options *o = t->options;
    if (!*o->model) return propane_fail(err, PROPANE_ERR_INVALID, "MODEL, the program to train, is missing");
    if (o->mpi)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "programs are trained by one process; start without mpirun");
    PROPANE_TRY(api_trainer_program_read_shapes(t, err));
    p->how =
        imported_run_model_options(o, o->model, (mil_read_options){.shapes = p->shapes, .shape_count = p->shape_count});
    PROPANE_TRY(imported_model_open(&p->how, &p->model, err));
    PROPANE_TRY(api_trainer_program_open_data(t, data, err));
    PROPANE_TRY(api_trainer_program_begin_folder(t, err));
    PROPANE_TRY(imported_run_create(o, &p->how, &p->model, p->source, &t->run, err));
    return api_trainer_program_begin_profile(t, err);
}

static void api_trainer_program_close(propane_trainer *t) {
    program_trainer *p = program_of(t);
    arrays_close(p->arrays);
    image_folders_close(p->images);
    imported_model_close(&p->model);
    for (int i = 0; i < p->shape_count; i++) mem_free(p->names[i]);
}

static propane_status api_trainer_program_write(const propane_trainer *t, const char *path, propane_error *err) {
    return imported_run_write(t->run, path, err);
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

static void api_trainer_program_describe(const propane_trainer *t, propane_trainer_info *out) {
    const sample_source *s = program_of(t)->source;
    out->parameters = program_of(t)->model.parameters;
    out->count = s->count[0] + s->count[1];
    out->held_out = s->count[1];
}

static void api_trainer_program_facts(const propane_trainer *t, json_t *log, json_t *facts) {
    const train_options *o = train_run_options(t->run);
    const program_trainer *p = program_of(t);
    const imported_model *m = &p->model;
    imported_step *step = imported_run_step(t->run);
    json_put(log, "unit", json_string(t->kind->unit));
    json_put(log, "model", json_string(o->model));
    json_put(log, "data", json_string(t->source));
    json_put(log, "tokens_per_step", json_integer(o->batch * o->accumulate));
    json_put(log, "samples", json_integer(p->source->count[0]));
    json_put(log, "validation_samples", json_integer(p->source->count[1]));
    json_put(log, "trained", json_integer(m->parameters));
    json_put(log, "operations", json_integer(m->ops));
    json_put(log, "operations_differentiated", json_integer(m->trained_ops));
    json_put(facts, "model", json_string(o->model));
    json_put(facts, "samples", json_integer(p->source->count[0]));
    json_put(facts, "validation_samples", json_integer(p->source->count[1]));
    json_put(facts, "samples_at_a_time", json_integer(imported_step_samples(step)));
    if (imported_step_why(step)) json_put(facts, "why_one_at_a_time", json_string(imported_step_why(step)));
    if (p->images) json_put(facts, "classes", json_integer(image_folders_classes(p->images)));
    json_put(facts, "weights_trained", json_integer(m->weight_count));
    json_put(facts, "weights", json_integer(m->candidates));
    json_put(facts, "trained", json_integer(m->parameters));
    json_put(facts, "decompressed", json_integer(m->decompressed));
    json_put(facts, "masks", json_integer(m->masks));
    json_put(facts, "operations", json_integer(m->ops));
    json_put(facts, "operations_differentiated", json_integer(m->trained_ops));
    json_put(facts, "operations_of_gradients", json_integer(m->gradient_ops));
    json_put(facts, "softmax", json_boolean(m->softmax));
}

static const propane_program *api_trainer_program_of(const propane_trainer *t) {
    return imported_step_program(imported_run_step(t->run));
}

static int api_trainer_program_profile_count(const propane_trainer *t) {
    return propane_program_profile_count(api_trainer_program_of(t));
}

static void api_trainer_program_profile_row(const propane_trainer *t, int index, propane_profile_row *out) {
    out->size = sizeof *out;
    (void)propane_program_profile_get(api_trainer_program_of(t), index, out);
}

const trainer_kind api_trainer_program = {
    .unit = "samples",
    .bytes = sizeof(program_trainer),
    .check = api_trainer_program_check,
    .open = api_trainer_program_open,
    .close = api_trainer_program_close,
    .describe = api_trainer_program_describe,
    .facts = api_trainer_program_facts,
    .write = api_trainer_program_write,
    .profile_count = api_trainer_program_profile_count,
    .profile_row = api_trainer_program_profile_row,
};
