/* SPDX-License-Identifier: MIT
 * propane train MODEL: samples in, a run folder with the tuned package out. Ctrl-C finishes the step and writes a checkpoint.
 */
#include "cli/cmd/train_package.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/run/run_folder.h"
#include "cli/run/telemetry.h"
#include "device/device.h"
#include "device/uri.h"
#include "drivers/cpu/profile.h"
#include "run/session.h"
#include "train/data/arrays.h"
#include "train/data/image_folders.h"
#include "train/finetune.h"

enum { MAX_SHAPES = 64 };

typedef struct tune_job {
    tune_options options;
    imported_model model;
    arrays *arrays;
    image_folders *images;
    const sample_source *source;
    tune *run;
    const char *data, *loss, *logdir;
    image_folders_options pictures;
    double epochs;
    bool json, report, profile, steps_given, epochs_given;
    char *shapes[MAX_SHAPES], *names[MAX_SHAPES];
    cli_list shape_list;
    mil_shape_choice choices[MAX_SHAPES];
    progress progress;
    telemetry telemetry;
    int64_t start_ns, first_step;
    tune_evaluation first, last;
    arena *arena; /* texts of the resumed run's options */
    run_hold hold;
} tune_job;

bool tune_asked(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--loss") == 0 || strncmp(argv[i], "--loss=", 7) == 0) return true;
    return argc > 1 && argv[1][0] != '-';
}

/* ---- the run's folder ----------------------------------------------------------------------------------------------------- */

static propane_status prepare_folder(tune_job *j, propane_error *err) {
    const char *dir = j->options.run_dir;
    return run_begin(dir, j->options.resume, run_holds(dir, IMPORTED_PACKAGE) || run_holds(dir, TRAIN_MODEL), &j->hold,
                     err);
}

static propane_status recall(tune_job *j, propane_error *err) {
    if (!run_holds(j->options.run_dir, TRAIN_CHECKPOINT)) return PROPANE_OK; /* told later */
    char *path = run_path(j->options.run_dir, TRAIN_CHECKPOINT);
    j->arena = arena_create();
    propane_status status =
        path && j->arena ? tune_recall(path, j->arena, &j->options, err) : propane_fail_memory(err, 0);
    if (!status) j->loss = j->options.model.loss == IMPORTED_MSE ? "mse" : "cross_entropy";
    mem_free(path);
    return status;
}

/* ---- what the run tells --------------------------------------------------------------------------------------------------- */

static void on_step(void *context, const train_report *r) {
    tune_job *j = context;
    const double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    const progress_step s = progress_of(r, seconds, j->first_step, j->options.steps);
    telemetry_step(&j->telemetry, r, seconds, NULL);
    progress_show(&j->progress, &s);
    progress_flush();
}

static void on_evaluation(void *context, const tune_evaluation *e) {
    tune_job *j = context;
    j->last = *e;
    if (e->step == 0) j->first = *e;
    telemetry_judgement(&j->telemetry, e->step, e->loss, e->accuracy);
    if (j->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->loss);
        if (e->accuracy >= 0) progress_number("val_accuracy", e->accuracy);
        printf("}\n");
    } else if (e->accuracy >= 0) {
        progress_line(&j->progress, "step %" PRId64 "  validation: loss %.4f, accuracy %.2f %%", e->step, e->loss,
                      100 * e->accuracy);
    } else {
        progress_line(&j->progress, "step %" PRId64 "  validation: loss %.6g", e->step, e->loss);
    }
    progress_flush();
}

static void on_checkpoint(void *context, int64_t step, const char *path) {
    tune_job *j = context;
    progress_checkpoint(&j->progress, step, path, !j->options.checkpoint_interval || step == j->options.steps);
    progress_flush();
}

static void tell_start(const tune_job *j) {
    const imported_model *m = &j->model;
    const char *why = imported_step_why(tune_machine(j->run));
    if (j->json) return;
    printf("%s: %d of %d weights are learnt, %" PRId64 " numbers\n", j->options.model.path, m->weight_count,
           m->candidates, m->parameters);
    if (m->decompressed)
        printf("%d compressed weight%s became dense to be learnt\n", m->decompressed, m->decompressed == 1 ? "" : "s");
    if (m->masks) printf("%d constants with numbers of 1e4 and more are left alone: masks\n", m->masks);
    printf("%d operations, of which %d are differentiated; %d operations compute gradients\n", m->ops, m->learnt_ops,
           m->gradient_ops);
    if (j->images) printf("%d classes of pictures\n", image_folders_classes(j->images));
    printf("%s: %" PRId64 " samples to train on, %" PRId64 " to validate with\n", j->data, j->source->count[0],
           j->source->count[1]);
    printf("loss %s%s\n", j->loss, m->softmax ? ", of what goes into the program's softmax" : "");
    if (why)
        printf("one sample at a time: %s\n", why);
    else
        printf("%" PRId64 " sample%s at a time\n", imported_step_samples(tune_machine(j->run)),
               imported_step_samples(tune_machine(j->run)) == 1 ? "" : "s");
    printf("device %s, threads %d\n", j->options.device, pool_threads());
    if (tune_steps_done(j->run) > 0) printf("resumed after step %" PRId64 "\n", tune_steps_done(j->run));
    progress_flush();
}

static void tell_end(tune_job *j) {
    const double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    const int64_t done = tune_steps_done(j->run);
    if (j->json) {
        printf("{\"event\":\"done\",\"step\":%" PRId64 ",\"seconds\":%.3f", done, seconds);
        if (j->last.step) progress_number("val_loss", j->last.loss);
        if (j->last.step && j->last.accuracy >= 0) progress_number("val_accuracy", j->last.accuracy);
        printf("}\n");
        return;
    }
    printf("done: %" PRId64 " steps in %.1f s; package %s/%s\n", done - j->first_step, seconds, j->options.run_dir,
           IMPORTED_PACKAGE);
    if (done == j->first_step) printf("the run was complete already; a larger --steps goes on\n");
}

static json_t *start_record(const tune_job *j) {
    const tune_options *o = &j->options;
    json_t *r = telemetry_record();
    if (!r) return NULL;
    json_put(r, "unit", json_string("samples"));
    json_put(r, "model", json_string(o->model.path));
    json_put(r, "data", json_string(j->data));
    json_put(r, "loss", json_string(j->loss));
    json_put(r, "trainable", json_string(o->model.trainable));
    json_put(r, "steps", json_integer(o->steps));
    json_put(r, "batch", json_integer(o->batch));
    json_put(r, "accumulate", json_integer(o->accumulate));
    json_put(r, "tokens_per_step", json_integer(o->batch * o->accumulate));
    json_put(r, "samples", json_integer(j->source->count[0]));
    json_put(r, "validation_samples", json_integer(j->source->count[1]));
    json_put(r, "learnt", json_integer(j->model.parameters));
    json_put(r, "operations", json_integer(j->model.ops));
    json_put(r, "operations_differentiated", json_integer(j->model.learnt_ops));
    json_put(r, "lr", json_real(o->lr));
    json_put(r, "weight_decay", json_real(o->weight_decay));
    json_put(r, "seed", json_integer(o->seed));
    json_put(r, "device", json_string(o->device));
    return r;
}

/* Where the time of the program with the gradients went, step by step. */
static propane_status tell_profile(const tune_job *j, propane_error *err) {
    text table = {0};
    cpu_profile_print(&imported_step_program(tune_machine(j->run))->p, &table);
    fwrite(table.data, 1, table.length, j->json ? stderr : stdout);
    const bool failed = table.failed;
    text_deinit(&table);
    return failed ? propane_fail_memory(err, 0) : PROPANE_OK;
}

static propane_status begin_profile(const tune_job *j, propane_error *err) {
    if (!device_is(j->options.device, "cpu"))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--profile is for the cpu device; %s keeps no such record",
                            j->options.device);
    /* the record is the driver's own, not the program's */
    driver_program *p = (driver_program *)(uintptr_t)&imported_step_program(tune_machine(j->run))->p;
    cpu_profile_enable(p, true);
    cpu_profile_reset(p);
    return PROPANE_OK;
}

/* ---- the command ---------------------------------------------------------------------------------------------------------- */

static propane_status open_data(tune_job *j, propane_error *err) {
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

static propane_status prepare(tune_job *j, propane_error *err) {
    tune_options *o = &j->options;
    for (int i = 0; i < j->shape_list.count; i++) {
        PROPANE_TRY(session_shape(j->shape_list.items[i], &j->choices[i], &j->names[i], err));
        o->model.shapes.shape_count = i + 1;
    }
    o->model.shapes.shapes = j->choices;
    PROPANE_TRY(imported_model_open(&o->model, &j->model, err));
    PROPANE_TRY(open_data(j, err));
    const double per_step = (double)(o->batch * o->accumulate);
    if (!o->steps || j->epochs_given)
        o->steps = (int64_t)ceil(j->epochs * (double)j->source->count[0] / per_step - 1e-9);
    PROPANE_TRY(prepare_folder(j, err));
    return tune_create(o, &j->model, j->source, &j->run, err);
}

static propane_status run_job(tune_job *j, propane_error *err) {
    tune_options *o = &j->options;
    PROPANE_TRY(prepare(j, err));
    PROPANE_TRY(telemetry_begin(&j->telemetry, o->run_dir, o->resume, start_record(j), j->logdir, err));
    if (j->profile) PROPANE_TRY(begin_profile(j, err));
    tell_start(j);
    progress_init(&j->progress, j->json, o->steps);
    j->progress.unit = "samples";
    j->start_ns = clock_ns();
    j->first_step = tune_steps_done(j->run);
    const tune_callbacks callbacks = {j, on_step, on_evaluation, on_checkpoint};
    cli_catch_signals(); /* until here Ctrl-C ends the process at once: there is nothing to lose yet */
    propane_status status = tune_run(j->run, &callbacks, &cli_interrupted, err);
    progress_end(&j->progress);
    const char *state = status == PROPANE_ERR_CANCELLED ? "stopped" : status ? "failed" : "done";
    telemetry_end(&j->telemetry, state, tune_steps_done(j->run));
    if (!status && j->report) status = telemetry_page(&j->telemetry, err);
    if (!status && j->profile) status = tell_profile(j, err);
    if (!status) tell_end(j);
    if (status && j->json) printf("{\"event\":\"%s\",\"step\":%" PRId64 "}\n", state, tune_steps_done(j->run));
    return status;
}

static void job_deinit(tune_job *j) {
    telemetry_close(&j->telemetry);
    tune_free(j->run);
    arrays_close(j->arrays);
    image_folders_close(j->images);
    imported_model_close(&j->model);
    for (int i = 0; i < MAX_SHAPES; i++) mem_free(j->names[i]);
    arena_free(j->arena);
    run_end(j->options.run_dir, &j->hold);
}

static int parse(tune_job *j, int64_t *threads, int argc, char **argv) {
    tune_options *o = &j->options;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &o->model.path,
         .help = "a package (.mlpackage), a compiled model (.mlmodelc), an .mlmodel, MIL text", .required = true},
        {NULL, CLI_HEADING, NULL, .help = "Samples"},
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
        {"--shuffle", CLI_SWITCH, &o->shuffle, .help = "another order in every epoch (--no-shuffle: as listed)"},
        {NULL, CLI_HEADING, NULL, .help = "What is learnt"},
        {"--loss", CLI_CHOICE, &j->loss, .words = "mse|cross_entropy",
         .help = "mean of squares, or cross-entropy over the output's classes"},
        {"--trainable", CLI_TEXT, &o->model.trainable, .words = "LIST",
         .help = "weights with such names: parts of them, or patterns with *, separated by commas; *: all"},
        {"--freeze", CLI_TEXT, &o->model.freeze, .words = "LIST", .help = "not these"},
        {"--output", CLI_TEXT, &o->model.output, .words = "NAME", .help = "of a program with several"},
        {"--function", CLI_TEXT, &o->model.function, .words = "NAME", .help = "of a model with several"},
        {"--shape", CLI_TEXTS, &j->shape_list, .max = MAX_SHAPES, .words = "NAME=1,3,224,224",
         .help = "of an input that the file leaves open; its default"},
        {NULL, CLI_HEADING, NULL, .help = "Training"},
        {"--steps", CLI_INT, &o->steps, 0, 1e12, "N", "optimiser steps; 0: as many as --epochs are",
         .given = &j->steps_given},
        {"--epochs", CLI_REAL, &j->epochs, 1e-6, 1e6, "X", "times through the samples, instead of --steps",
         .given = &j->epochs_given},
        {"--batch", CLI_INT, &o->batch, 1, 65536, "N", "samples at a time, where the program can do that"},
        {"--accumulate", CLI_INT, &o->accumulate, 1, 65536, "N", "batches whose gradients make one step"},
        {"--lr", CLI_REAL, &o->lr, 0, 100, "X", "learning rate"},
        {"--min-lr", CLI_REAL, &o->min_lr, -1, 100, "X", "where a cosine ends; -1: the rate stays as it is"},
        {"--warmup", CLI_INT, &o->warmup, 0, 1e12, "N", "steps of linear rise"},
        {"--weight-decay", CLI_REAL, &o->weight_decay, 0, 10, "X", "of weights with two dimensions and more"},
        {"--beta1", CLI_REAL, &o->beta1, 0, 0.999999, "X", "AdamW"},
        {"--beta2", CLI_REAL, &o->beta2, 0, 0.999999, "X", "AdamW"},
        {"--epsilon", CLI_REAL, &o->epsilon, 0, 1, "X", "AdamW"},
        {"--clip", CLI_REAL, &o->clip, 0, 1e9, "X", "largest length of the gradient; 0: any"},
        {"--seed", CLI_INT, &o->seed, 0, 9e15, "N", "of the samples' order"},
        {NULL, CLI_HEADING, NULL, .help = "Machine"},
        {"--device", CLI_TEXT, &o->device, .words = "URI", .help = "see 'propane devices'"},
        {"--threads", CLI_INT, threads, 0, 256, "N", "0: one per core"},
        {NULL, CLI_HEADING, NULL, .help = "Run"},
        {"--run", CLI_TEXT, &o->run_dir, .words = "DIR", .help = "folder for checkpoint and package"},
        {"--resume", CLI_SWITCH, &o->resume, .help = "go on from the folder's checkpoint"},
        {"--eval-every", CLI_INT, &o->eval_interval, 0, 1e12, "N", "steps between validations; 0: at the end only"},
        {"--checkpoint-every", CLI_INT, &o->checkpoint_interval, 0, 1e12, "N", "steps; 0: at the end only"},
        {"--profile", CLI_SWITCH, &j->profile, .help = "at the end a table of the steps: time, share, rates (cpu)"},
        {"--json", CLI_SWITCH, &j->json, .help = "one JSON object a line instead of text"},
        {"--logdir", CLI_TEXT, &j->logdir, .words = "DIR",
         .help = "TensorBoard event files, in a folder of the run's name"},
        {"--report", CLI_SWITCH, &j->report, .help = "report.html in the run's folder at the end"},
    };
    return cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0],
        "train MODEL --data DIR --loss mse|cross_entropy --trainable LIST [flags]",
        "Trains weights of a Core ML model further, in fp32, and writes the model with its new weights as a "
        "package. Ctrl-C writes a checkpoint after the step at hand; --resume goes on from it bit for bit.");
}

static int check(const tune_job *j) {
    if (!j->loss) return cli_misuse("train", "--loss is missing: mse or cross_entropy");
    if (!j->options.model.trainable)
        return cli_misuse("train", "--trainable is missing: which weights are learnt ('*': all)");
    if (j->steps_given && j->epochs_given) return cli_misuse("train", "--steps and --epochs say the same; give one");
    if (j->options.min_lr > j->options.lr) return cli_misuse("train", "--min-lr is larger than --lr");
    return -1;
}

int tune_command(int argc, char **argv) {
    tune_job j = {.epochs = 10, .report = true, .hold = {.lock = -1}, .pictures = {.held_out = 0.1}};
    int64_t threads = 0;
    propane_error err = {0};
    tune_options_default(&j.options);
    j.options.run_dir = "propane-run";
    j.shape_list.items = j.shapes;
    int code = parse(&j, &threads, argc, argv);
    if (code < 0 && j.options.resume) { /* what the command line says goes over what the run's checkpoint says */
        j.shape_list.count = 0;
        code = recall(&j, &err) ? cli_error("train", &err) : parse(&j, &threads, argc, argv);
    }
    if (code < 0) code = check(&j);
    if (code < 0) {
        j.options.model.loss = strcmp(j.loss, "mse") == 0 ? IMPORTED_MSE : IMPORTED_CROSS_ENTROPY;
        propane_status status = pool_set_threads((int)threads, &err);
        if (status == PROPANE_OK) status = run_job(&j, &err);
        code = status == PROPANE_OK ? CLI_OK : cli_error("train", &err);
    }
    job_deinit(&j);
    return code;
}
