/* SPDX-License-Identifier: MIT
 * propane train MODEL: samples in, a run folder with the model and its new weights as a package out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cmd/train_command.h"
#include "cli/cmd/train_job.h"
#include "device/device.h"
#include "device/uri.h"
#include "drivers/cpu/profile.h"
#include "run/session.h"
#include "train/data/arrays.h"
#include "train/data/image_folders.h"
#include "train/imported_run.h"

enum { MAX_SHAPES = 64 };

typedef struct package_job {
    train_job job;
    imported_model_options how;
    imported_model model;
    arrays *arrays;
    image_folders *images;
    const sample_source *source;
    const char *path, *data;
    image_folders_options pictures;
    char *shapes[MAX_SHAPES], *names[MAX_SHAPES];
    cli_list shape_list;
    mil_shape_choice choices[MAX_SHAPES];
} package_job;

/* ---- what the run tells --------------------------------------------------------------------------------------------------- */

static void package_tell_evaluation(train_job *job, const train_evaluation *e) {
    if (job->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->val_loss);
        if (e->val_accuracy >= 0) progress_number("val_accuracy", e->val_accuracy);
        printf("}\n");
    } else if (e->val_accuracy >= 0) {
        progress_line(&job->progress, "step %" PRId64 "  validation: loss %.4f, accuracy %.2f %%", e->step, e->val_loss,
                      100 * e->val_accuracy);
    } else {
        progress_line(&job->progress, "step %" PRId64 "  validation: loss %.6g", e->step, e->val_loss);
    }
}

static void package_tell_start(const train_job *job) {
    const package_job *j = (const package_job *)job;
    const imported_model *m = &j->model;
    imported_step *step = imported_run_step(job->run);
    const char *why = imported_step_why(step);
    printf("%s: %d of %d weights are learnt, %" PRId64 " numbers\n", j->path, m->weight_count, m->candidates,
           m->parameters);
    if (m->decompressed)
        printf("%d compressed weight%s became dense to be learnt\n", m->decompressed, m->decompressed == 1 ? "" : "s");
    if (m->masks) printf("%d constants with numbers of 1e4 and more are left alone: masks\n", m->masks);
    printf("%d operations, of which %d are differentiated; %d operations compute gradients\n", m->ops, m->learnt_ops,
           m->gradient_ops);
    if (j->images) printf("%d classes of pictures\n", image_folders_classes(j->images));
    printf("%s: %" PRId64 " samples to train on, %" PRId64 " to validate with\n", j->data, j->source->count[0],
           j->source->count[1]);
    printf("loss %s%s\n", job->options.loss, m->softmax ? ", of what goes into the program's softmax" : "");
    if (why)
        printf("one sample at a time: %s\n", why);
    else
        printf("%" PRId64 " sample%s at a time\n", imported_step_samples(step),
               imported_step_samples(step) == 1 ? "" : "s");
    printf("device %s, threads %d\n", job->options.device, pool_threads());
    if (train_run_steps_done(job->run) > 0) printf("resumed after step %" PRId64 "\n", train_run_steps_done(job->run));
    progress_flush();
}

/* Where the time of the program with the gradients went, step by step. */
static propane_status package_tell_profile(const train_job *job, propane_error *err) {
    text table = {0};
    cpu_profile_print(&imported_step_program(imported_run_step(job->run))->p, &table);
    fwrite(table.data, 1, table.length, job->json ? stderr : stdout);
    const bool failed = table.failed;
    text_deinit(&table);
    return failed ? propane_fail_memory(err, 0) : PROPANE_OK;
}

static propane_status package_begin_profile(const train_job *job, propane_error *err) {
    if (!device_is(job->options.device, "cpu"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--profile is for the cpu device; %s keeps no such record",
                            job->options.device);
    /* the record is the driver's own, not the program's */
    driver_program *p = (driver_program *)(uintptr_t)&imported_step_program(imported_run_step(job->run))->p;
    cpu_profile_enable(p, true);
    cpu_profile_reset(p);
    return PROPANE_OK;
}

static propane_status package_tell_end(train_job *job, double seconds, propane_error *err) {
    const train_evaluation *e = &job->last;
    char what[1200];
    if (job->profile) PROPANE_TRY(package_tell_profile(job, err));
    if (job->json) {
        printf("{\"event\":\"done\",\"step\":%" PRId64 ",\"seconds\":%.3f", train_run_steps_done(job->run), seconds);
        if (e->step) progress_number("val_loss", e->val_loss);
        if (e->step && e->val_accuracy >= 0) progress_number("val_accuracy", e->val_accuracy);
        printf("}\n");
        return PROPANE_OK;
    }
    snprintf(what, sizeof what, "package %s/%s", job->options.run_dir, TRAIN_PACKAGE);
    train_job_tell_done(job, seconds, what);
    return PROPANE_OK;
}

static propane_status package_report(train_job *job, propane_error *err) {
    return telemetry_page(&job->telemetry, err);
}

static void package_put_facts(const train_job *job, json_t *record) {
    const package_job *j = (const package_job *)job;
    const train_options *o = train_run_options(job->run);
    json_put(record, "unit", json_string(job->kind->unit));
    json_put(record, "model", json_string(j->path));
    json_put(record, "data", json_string(j->data));
    json_put(record, "tokens_per_step", json_integer(o->batch * o->accumulate));
    json_put(record, "samples", json_integer(j->source->count[0]));
    json_put(record, "validation_samples", json_integer(j->source->count[1]));
    json_put(record, "learnt", json_integer(j->model.parameters));
    json_put(record, "operations", json_integer(j->model.ops));
    json_put(record, "operations_differentiated", json_integer(j->model.learnt_ops));
}

static const train_job_kind package_kind = {
    "samples", package_tell_start, package_tell_evaluation, package_put_facts, package_tell_end, package_report,
};

/* ---- the command ---------------------------------------------------------------------------------------------------------- */

static propane_status package_open_data(package_job *j, propane_error *err) {
    if (arrays_here(j->data)) {
        if (j->pictures.mean || j->pictures.std)
            return propane_fail(err, PROPANE_ERR_INVALID, "%s holds arrays: --mean and --std are for pictures",
                                j->data);
        PROPANE_TRY(arrays_open(j->data, &j->model, j->pictures.held_out, &j->arrays, err));
        j->source = arrays_source(j->arrays);
        return PROPANE_OK;
    }
    PROPANE_TRY(image_folders_open(j->data, &j->model, &j->pictures, &j->images, err));
    j->source = image_folders_source(j->images);
    return PROPANE_OK;
}

static propane_status package_prepare(package_job *j, propane_error *err) {
    const train_options *o = &j->job.options;
    mil_read_options shapes = {.shapes = j->choices};
    for (int i = 0; i < j->shape_list.count; i++) {
        PROPANE_TRY(session_shape(j->shape_list.items[i], &j->choices[i], &j->names[i], err));
        shapes.shape_count = i + 1;
    }
    j->how = imported_run_model_options(o, j->path, shapes);
    PROPANE_TRY(imported_model_open(&j->how, &j->model, err));
    PROPANE_TRY(package_open_data(j, err));
    const bool holds_model = run_holds(o->run_dir, TRAIN_PACKAGE) || run_holds(o->run_dir, TRAIN_MODEL);
    PROPANE_TRY(run_begin(o->run_dir, o->resume, holds_model, &j->job.hold, err));
    PROPANE_TRY(imported_run_create(o, &j->how, &j->model, j->source, &j->job.run, err));
    return j->job.profile ? package_begin_profile(&j->job, err) : PROPANE_OK;
}

static int package_parse(package_job *j, int argc, char **argv) {
    const cli_flag model[] = {{"MODEL", CLI_TEXT, &j->path,
                               .help = "a package (.mlpackage), a compiled model (.mlmodelc), an .mlmodel, MIL text",
                               .required = true}};
    const cli_flag samples[] = {
        {"--data", CLI_TEXT, &j->data, .words = "DIR",
         .help =
             "folders of pictures, one for each class, in DIR/train and DIR/val or in DIR; or arrays: x.npy (or one "
             "for each input) and y.npy, train.npz and val.npz",
         .required = true},
        {"--val-fraction", CLI_REAL, &j->pictures.held_out, 0, 0.9, "X",
         "part of the samples that is kept for validation where there is no val"},
        {"--resize", CLI_SWITCH, &j->pictures.resize, .help = "scale pictures to the input's size"},
        {"--mean", CLI_TEXT, &j->pictures.mean, .words = "X[,X,X]",
         .help = "taken from a picture's 0 to 1; for inputs that are arrays"},
        {"--std", CLI_TEXT, &j->pictures.std, .words = "X[,X,X]", .help = "what that is divided by"},
    };
    const cli_flag shape = {"--shape",
                            CLI_TEXTS,
                            &j->shape_list,
                            .max = MAX_SHAPES,
                            .words = "NAME=1,3,224,224",
                            .help = "of an input that the file leaves open; its default"};
    const cli_flag threads = train_job_threads(&j->job);
    cli_flag shown[TRAIN_JOB_SHOW_FLAGS];
    train_job_show_flags(&j->job, shown, "at the end a table of the steps: time, share, rates (cpu)");
    const train_flags groups[] = {
        {NULL, -1, model, 1, NULL, 0},
        {"Samples", TRAIN_DATA, samples, sizeof samples / sizeof samples[0], NULL, 0},
        {"What is learnt", TRAIN_LEARNT, NULL, 0, &shape, 1},
        {"Training", TRAIN_TRAINING, NULL, 0, NULL, 0},
        {"Machine", TRAIN_MACHINE, NULL, 0, &threads, 1},
        {"Run", TRAIN_RUN, NULL, 0, shown, TRAIN_JOB_SHOW_FLAGS},
    };
    return train_job_parse(
        &j->job, argc, argv, groups, sizeof groups / sizeof groups[0],
        "train MODEL --data DIR --loss mse|cross_entropy --trainable LIST [flags]",
        "Trains weights of a Core ML model further, in fp32, and writes the model with its new weights as a "
        "package. Ctrl-C writes a checkpoint after the step at hand; --resume goes on from it bit for bit.");
}

static int package_check(const train_options *o) {
    if (!*o->loss) return cli_misuse("train", "--loss is missing: mse or cross_entropy");
    if (!*o->trainable) return cli_misuse("train", "--trainable is missing: which weights are learnt ('*': all)");
    if (o->given[TRAIN_OPTION_steps] && o->given[TRAIN_OPTION_epochs])
        return cli_misuse("train", "--steps and --epochs say the same; give one");
    if (o->min_lr > o->lr) return cli_misuse("train", "--min-lr is larger than --lr");
    return -1;
}

static void package_job_deinit(package_job *j) {
    train_job_deinit(&j->job); /* it borrows from the rest */
    arrays_close(j->arrays);
    image_folders_close(j->images);
    imported_model_close(&j->model);
    for (int i = 0; i < MAX_SHAPES; i++) mem_free(j->names[i]);
}

int train_package_command(int argc, char **argv) {
    package_job j = {.pictures = {.held_out = 0.1}};
    propane_error err = {0};
    bool again = false;
    train_job_init(&j.job, &package_kind, TRAIN_IMPORTED);
    j.shape_list.items = j.shapes;
    int code = package_parse(&j, argc, argv);
    if (code < 0) code = package_check(&j.job.options);
    if (code < 0) {
        propane_status status = pool_set_threads((int)j.job.threads, &err);
        if (status == PROPANE_OK) status = package_prepare(&j, &err);
        if (status == PROPANE_OK) status = train_job_go(&j.job, &again, &err);
        code = status == PROPANE_OK ? CLI_OK : cli_error("train", &err);
    }
    package_job_deinit(&j);
    return code;
}
