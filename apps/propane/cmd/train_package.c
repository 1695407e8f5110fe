/* SPDX-License-Identifier: MIT
 * propane train MODEL: reads samples, and writes a run folder with the model and its new weights as a package.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/propane/cmd/train_command.h"
#include "apps/propane/cmd/train_job.h"
#include "core/base/text.h"

/* ---- output of the run
 * ---------------------------------------------------------------------------------------------------- */

static void train_package_print_evaluation(train_job *job, const propane_evaluation *e) {
    if (job->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->loss);
        if (e->accuracy >= 0) progress_number("val_accuracy", e->accuracy);
        printf("}\n");
    } else if (e->accuracy >= 0) {
        progress_line(&job->progress, "step %" PRId64 "  validation: loss %.4f, accuracy %.2f %%", e->step, e->loss,
                      100 * e->accuracy);
    } else {
        progress_line(&job->progress, "step %" PRId64 "  validation: loss %.6g", e->step, e->loss);
    }
}

static void train_package_print_start(const train_job *j) {
    const int64_t dense = train_job_int(j, "decompressed"), masks = train_job_int(j, "masks"),
                  together = train_job_int(j, "samples_at_a_time");
    printf("%s: %" PRId64 " of %" PRId64 " weights are trained, %" PRId64 " numbers\n", train_job_text(j, "model"),
           train_job_int(j, "weights_trained"), train_job_int(j, "weights"), train_job_int(j, "trained"));
    if (dense) printf("decompressed %" PRId64 " weight%s for training\n", dense, text_plural(dense));
    if (masks) printf("%" PRId64 " constants with values of 1e4 or more are treated as masks and not trained\n", masks);
    printf("operations: %" PRId64 ", differentiated: %" PRId64 ", for gradients: %" PRId64 "\n",
           train_job_int(j, "operations"), train_job_int(j, "operations_differentiated"),
           train_job_int(j, "operations_of_gradients"));
    if (json_object_get(j->facts, "classes")) printf("%" PRId64 " classes of images\n", train_job_int(j, "classes"));
    printf("%s: %" PRId64 " sample%s to train on, %" PRId64 " to validate with\n", train_job_text(j, "source"),
           train_job_int(j, "samples"), text_plural(train_job_int(j, "samples")),
           train_job_int(j, "validation_samples"));
    train_job_print_epochs(j, "samples", train_job_int(j, "samples"));
    printf("loss %s%s\n", train_job_option(j, "loss"),
           json_is_true(json_object_get(j->facts, "softmax")) ? ", of the input of the program's softmax" : "");
    if (*train_job_text(j, "why_one_at_a_time"))
        printf("training one sample at a time: %s\n", train_job_text(j, "why_one_at_a_time"));
    else
        printf("%" PRId64 " sample%s at a time\n", together, text_plural(together));
    printf("device %s, threads %d\n", train_job_option(j, "device"), propane_threads());
    if (j->first_step > 0) printf("resumed after step %" PRId64 "\n", j->first_step);
    progress_flush();
}

/* Prints the profile of the gradient program, one line per step. */
static void train_package_print_profile(const train_job *j, double seconds) {
    FILE *out = j->json ? stderr : stdout;
    propane_profile_row r = {.size = sizeof r};
    double total = 0;
    for (int i = 0; propane_trainer_profile_get(j->trainer, i, &r); i++) total += (double)r.ns;
    fprintf(out, "%4s %-9s %-32s %-12s %9s %6s %9s %8s\n", "step", "kind", "value", "stage", "us", "share", "GFLOP/s",
            "GB/s");
    for (int i = 0; propane_trainer_profile_get(j->trainer, i, &r); i++) {
        const double ns = r.runs ? (double)r.ns / (double)r.runs : 0;
        fprintf(out, "%4d %-9s %-32.32s %-12.12s %9.1f %5.1f%% %9.2f %8.2f\n", i, r.kind, r.name,
                r.stage ? r.stage : "", ns / 1e3, total > 0 ? 100 * (double)r.ns / total : 0, ns > 0 ? r.flops / ns : 0,
                ns > 0 ? r.bytes / ns : 0);
    }
}

static void train_package_print_end(const train_job *j, const char *note) {
    printf("package %s/model.mlpackage\n%s", train_job_option(j, "run"), note);
}

static propane_status train_package_report(train_job *j, propane_error *err) {
    return telemetry_page(&j->telemetry, err);
}

static const train_job_kind package_kind = {
    .unit = "samples",
    .print_start = train_package_print_start,
    .print_evaluation = train_package_print_evaluation,
    .print_profile = train_package_print_profile,
    .print_end = train_package_print_end,
    .report = train_package_report,
    .place = "model",
};

/* ---- the command ---------------------------------------------------------------------------------------------------------- */

static propane_status train_package_loaded(void *options, const char *name, const char *value, propane_error *err) {
    return PROPANE_OK; /* train_job_parse has loaded the file before the other flags */
}

static int train_package_parse(train_job *j, int argc, char **argv) {
    const char *none = "";
    const cli_flag model[] = {train_job_place_flag(j, "a package (.mlpackage), a compiled model (.mlmodelc), an "
                                                      ".mlmodel or MIL text; with --resume, the run folder")};
    cli_flag shown[1 + TRAIN_JOB_SHOW_FLAGS] = {{"--config", CLI_TEXT, &none, .words = "FILE",
                                                 .help = "options as JSON; flags take precedence",
                                                 .set = train_package_loaded}};
    train_job_show_flags(j, shown + 1);
    const train_flags groups[] = {
        {NULL, NULL, model, 1, NULL, 0},
        {"Samples", "data", NULL, 0, NULL, 0},
        {"What is trained", "trained", NULL, 0, NULL, 0},
        {"Training", "training", NULL, 0, NULL, 0},
        {"Machine", "machine", NULL, 0, NULL, 0},
        {"Run", "run", NULL, 0, shown, 1 + TRAIN_JOB_SHOW_FLAGS},
    };
    return train_job_parse(
        j, argc, argv, groups, sizeof groups / sizeof groups[0],
        "train MODEL --data DIR --loss mse|cross_entropy --trainable LIST [flags]",
        "Fine-tunes weights of a Core ML model in fp32, and writes a package with the new weights. After Ctrl-C or "
        "SIGTERM, the command finishes the current step, writes a checkpoint and exits. After SIGUSR1 it writes one "
        "and continues. 'propane train --resume RUN' continues from it bit for bit.");
}

int train_package_command(int argc, char **argv) {
    train_job j = {0};
    propane_error err = {0};
    bool again = false;
    propane_status status = train_job_init(&j, &package_kind, PROPANE_TRAIN_PROGRAM, &err);
    int code = status == PROPANE_OK ? train_package_parse(&j, argc, argv) : cli_error("train", &err);
    if (code < 0) {
        status = train_job_go(&j, &again, &err);
        code = status == PROPANE_OK ? CLI_OK : cli_error("train", &err);
    }
    train_job_deinit(&j);
    return code;
}
