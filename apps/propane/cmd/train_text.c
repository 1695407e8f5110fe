/* SPDX-License-Identifier: MIT
 * propane train without a MODEL: reads text or tokens, and writes a language model's run folder.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cmd/lost_ranks.h"
#include "apps/propane/cmd/train_command.h"
#include "apps/propane/cmd/train_job.h"
#include "apps/propane/power_meter.h"
#include "core/base/memory.h"
#include "core/base/text.h"

/* ---- output of the run
 * ----------------------------------------------------------------------------------------------------- */

static void train_text_print_evaluation(train_job *job, const propane_evaluation *e) {
    if (job->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->loss);
        if (e->accuracy >= 0)
            progress_number("val_accuracy", e->accuracy);
        else
            progress_number("val_nats_per_byte", e->nats_per_byte >= 0 ? e->nats_per_byte : NAN);
        printf("}\n");
    } else if (e->accuracy >= 0) {
        progress_line(&job->progress,
                      "step %" PRId64 "  validation: loss %.4f, the chosen answer is preferred in %.1f %% of pairs",
                      e->step, e->loss, 100 * e->accuracy);
    } else if (e->nats_per_byte >= 0) {
        progress_line(&job->progress, "step %" PRId64 "  validation: %.4f nats per token, %.4f nats per byte", e->step,
                      e->loss, e->nats_per_byte);
    } else {
        progress_line(&job->progress, "step %" PRId64 "  validation: %.4f nats per token", e->step, e->loss);
    }
}

static void train_text_print_cut(int64_t cut, int64_t empty) {
    if (cut > 0) printf("%" PRId64 " example%s longer than a window, truncated", cut, cut == 1 ? " is" : "s are");
    if (cut > 0 && empty > 0) printf("; ");
    if (empty > 0) printf("%" PRId64 " example%s skipped, with no answer left", empty, empty == 1 ? " is" : "s are");
    if (cut > 0 || empty > 0) printf("\n");
}

static void train_text_print_data(const train_job *j) {
    const int64_t files = train_job_int(j, "files"), left = train_job_int(j, "files_left_out");
    const char *source = train_job_text(j, "source");
    if (files > 1) printf("%" PRId64 " files\n", files);
    if (*train_job_text(j, "parts")) printf("%s\n", train_job_text(j, "parts"));
    if (left)
        printf("skipped %" PRId64 " file%s in folders that are %s\n", left, text_plural(left),
               *train_job_text(j, "parts") ? "of other kinds" : "neither text nor tokens");
    if (*train_job_text(j, "chat")) {
        printf("%s: %" PRId64 " example%s, %" PRId64 " of %" PRId64 " tokens count toward the loss, chat format %s\n",
               source, train_job_int(j, "examples"), text_plural(train_job_int(j, "examples")),
               train_job_int(j, "examples_trained"), train_job_int(j, "tokens"), train_job_text(j, "chat"));
        train_text_print_cut(train_job_int(j, "examples_cut"), train_job_int(j, "examples_empty"));
        if (train_job_int(j, "pairs"))
            printf("pairs: %" PRId64 ", beta %s, relative to the initial model\n", train_job_int(j, "pairs"),
                   train_job_option(j, "beta"));
    }
    const char *kind = train_job_text(j, "tokenizer");
    printf("%s: %" PRId64 " tokens, %s vocabulary of %" PRId64 "\n", source, train_job_int(j, "tokens"),
           strcmp(kind, "hf") == 0 ? "Hugging Face" : kind, train_job_int(j, "vocabulary"));
}

static void train_text_print_trained(const train_job *j) {
    const json_t *adapter = json_object_get(j->facts, "adapter");
    const int64_t trained = train_job_int(j, "trained");
    if (adapter)
        printf("adapters: rank %" PRId64 ", alpha %g, dropout %g, of %s; %" PRId64 " parameters are trained\n",
               (int64_t)json_integer_value(json_object_get(adapter, "rank")),
               json_number_value(json_object_get(adapter, "alpha")),
               json_number_value(json_object_get(adapter, "dropout")),
               json_string_value(json_object_get(adapter, "modules")), trained);
    else if (trained < train_job_int(j, "parameters"))
        printf("frozen: %" PRId64 " parameters are trained; the others have no gradient or optimizer state\n", trained);
}

static void train_text_print_start(const train_job *j) {
    const int64_t ranks = train_job_int(j, "ranks"), steps = strtoll(train_job_option(j, "steps"), NULL, 10),
                  warmup = strtoll(train_job_option(j, "warmup"), NULL, 10);
    train_text_print_data(j);
    printf("model: %" PRId64 " parameters, %" PRId64 " layer%s, width %" PRId64 ", context %s\n",
           train_job_int(j, "parameters"), train_job_int(j, "layers"), text_plural(train_job_int(j, "layers")),
           train_job_int(j, "width"), train_job_option(j, "context"));
    train_text_print_trained(j);
    train_job_print_epochs(j, "windows", train_job_int(j, "windows"));
    printf("training: %" PRId64 " step%s of %" PRId64 " tokens, learning rate %.6g after %" PRId64
           " step%s of warm-up, schedule %s, --keep %s\n",
           steps, text_plural(steps),
           (int64_t)json_integer_value(json_object_get(json_object_get(j->facts, "log"), "tokens_per_step")),
           strtod(train_job_option(j, "lr"), NULL), warmup, text_plural(warmup), train_job_option(j, "schedule"),
           train_job_option(j, "keep"));
    printf("device %s, %s, plan %s, weights %s, threads %d\n", train_job_option(j, "device"),
           train_job_option(j, "precision"), train_job_option(j, "plan"), train_job_option(j, "weights"),
           propane_threads());
    if (*train_job_text(j, "device_note"))
        printf("kernels: %s; %s\n", train_job_text(j, "programs"), train_job_text(j, "device_note"));
    const int64_t each =
        ranks ? json_integer_value(json_object_get(json_object_get(j->facts, "options"), "batch")) / ranks : 0;
    if (ranks)
        printf("%" PRId64 " rank%s, each with %" PRId64 " sequence%s per batch, gradients as %s%s\n", ranks,
               text_plural(ranks), each, text_plural(each), train_job_option(j, "wire"),
               strcmp(train_job_option(j, "shard"), "true") == 0 ? ", moments sharded" : "");
    if (j->first_step > 0) printf("resumed after step %" PRId64 "\n", j->first_step);
    progress_flush();
}

static void train_text_print_kernel(const train_job *j, const propane_profile_row *r, double seconds, bool engine) {
    const double ns = (double)r->ns, rate = ns > 0 ? (double)r->runs / ns : 0;
    if (!j->json) {
        printf("%-14s %-6s %8" PRId64 " %11.1f %5.1f%% %9.1f %8.2f\n", r->name, r->stage, r->runs, ns / 1e6,
               seconds > 0 ? ns / seconds / 1e7 : 0, r->flops * rate, r->bytes * rate);
        return;
    }
    printf("{\"event\":\"kernel\",\"kernel\":\"%s\",\"place\":\"%s\",\"calls\":%" PRId64
           ",\"ms\":%.3f,\"gflops\":%.2f,\"gbytes_per_s\":%.2f",
           r->name, r->stage, r->runs, ns / 1e6, r->flops * rate, r->bytes * rate);
    if (engine && strcmp(r->stage, "device") == 0)
        progress_number("engine_ms", r->engine_ns >= 0 ? (double)r->engine_ns / 1e6 : NAN);
    if (r->repeats) printf(",\"repeats\":%" PRId64, r->repeats);
    printf("}\n");
}

/* Prints one row per kernel of the plan that has run, and, without --json, one row for the rest of the time: loss,
 * embedding, AdamW, and other work on the host. */
static void train_text_print_profile(const train_job *j, double seconds) {
    const char *uri = train_job_option(j, "device");
    const bool ane = strncmp(uri, "ane", 3) == 0 && (!uri[3] || strchr(":?", uri[3]));
    propane_profile_row r = {.size = sizeof r};
    double rest = seconds * 1e3, engine = 0, device = 0;
    int64_t repeats = 0;
    bool given = false;
    if (!j->json)
        printf("%-14s %-6s %8s %11s %6s %9s %8s\n", "kernel", "place", "calls", "ms", "share", "GFLOP/s", "GB/s");
    for (int k = 0; propane_trainer_profile_get(j->trainer, k, &r); k++) {
        if (!r.runs) continue;
        rest -= (double)r.ns / 1e6;
        if (strcmp(r.stage, "device") == 0) device += (double)r.ns;
        repeats += r.repeats;
        if (r.engine_ns >= 0) engine += (double)r.engine_ns, given = true;
        train_text_print_kernel(j, &r, seconds, ane);
    }
    if (!j->json && seconds > 0)
        printf("%-14s %-6s %8s %11.1f %5.1f%%\n", "the rest", "host", "", rest, rest / seconds / 10);
    if (!j->json && ane && given)
        printf("time inside the engine: %.1f of the device's %.1f ms\n", engine / 1e6, device / 1e6);
    else if (!j->json && ane)
        printf("time inside the engine: not reported by this engine\n");
    if (!j->json && repeats)
        printf("evaluations repeated because the engine cancelled them while it woke up: %" PRId64 "\n", repeats);
}

static void train_text_print_end(const train_job *j, const char *note) {
    const propane_evaluation *e = &j->last;
    const double unigram = train_job_real(j, "unigram_nats_per_byte");
    printf("%s in %s\n%s", json_object_get(j->facts, "adapter") ? "adapter" : "model", train_job_option(j, "run"),
           note);
    if (!e->step) return;
    if (e->accuracy >= 0) {
        printf("validation at step %" PRId64 ": loss %.4f, the chosen answer is preferred in %.1f %% of pairs\n",
               e->step, e->loss, 100 * e->accuracy);
        return;
    }
    printf("validation at step %" PRId64 ": %.4f nats per token, perplexity %.2f", e->step, e->loss, exp(e->loss));
    if (e->nats_per_byte >= 0)
        printf("; %.4f nats per byte, %.3f bits per byte", e->nats_per_byte, e->nats_per_byte / M_LN2);
    if (e->nats_per_byte >= 0 && json_object_get(j->facts, "unigram_nats_per_byte"))
        printf(" (guessing by each byte's frequency: %.3f)", unigram / M_LN2);
    printf("\n");
}

static propane_status train_text_report(train_job *j, propane_error *err) {
    return telemetry_report(&j->telemetry, j->trainer, j->facts, err);
}

static const train_job_kind text_kind = {
    .unit = "tokens",
    .print_start = train_text_print_start,
    .print_evaluation = train_text_print_evaluation,
    .print_profile = train_text_print_profile,
    .print_end = train_text_print_end,
    .report = train_text_report,
    .place = "init",
};

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static int train_text_parse(train_job *j, bool *power, int argc, char **argv) {
    cli_flag shown[1 + TRAIN_JOB_SHOW_FLAGS] = {
        {"--power", CLI_SWITCH, power,
         .help = "print the joules that the machine used per step (see 'propane power')"}};
    train_job_show_flags(j, shown + 1);
    const cli_flag place[] = {
        train_job_place_flag(j, "model to start from (same as --init); with --resume, the run folder")};
    const train_flags groups[] = {
        {NULL, NULL, place, 1, NULL, 0},
        {"Text", "data", NULL, 0, NULL, 0},
        {"Model", "model", NULL, 0, NULL, 0},
        {"What is trained", "trained", NULL, 0, NULL, 0},
        {"Training", "training", NULL, 0, NULL, 0},
        {"Machine", "machine", NULL, 0, NULL, 0},
        {"Several processes (Open MPI): mpirun -n N propane train ...", "ranks", NULL, 0, NULL, 0},
        {"Run", "run", NULL, 0, shown, 1 + TRAIN_JOB_SHOW_FLAGS},
    };
    return train_job_parse(j, argc, argv, groups, sizeof groups / sizeof groups[0],
                           "train [MODEL] --data FILE [flags]  (a Core ML model: propane train MODEL.mlpackage --help)",
                           "Trains a language model on a text, or fine-tunes MODEL. All computation on a device is "
                           "done by MIL programs. After Ctrl-C or SIGTERM, the command finishes the current batch, "
                           "writes a checkpoint and exits. After SIGUSR1 it writes one and continues. 'propane train "
                           "--resume RUN' continues from it bit for bit, with the run's data and options.");
}

/* Joins the other ranks if mpirun started this process. Only rank 0 prints to standard output. */
static propane_status train_text_join_ranks(train_job *j, propane_error *err) {
    PROPANE_TRY(propane_ranks_open(&j->ranks, err));
    propane_options_set_ranks(j->options, j->ranks);
    if (!j->ranks || propane_ranks_rank(j->ranks) == 0) return PROPANE_OK;
    if (freopen("/dev/null", "w", stdout)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_IO, "/dev/null: %s", strerror(errno));
}

/* Prints the error of this rank and ends all ranks, because the others would wait for ever. The last checkpoint is not
 * changed. */
static void train_text_end_ranks(propane_ranks *ranks, propane_error *err) {
    propane_error named = {.status = err->status};
    snprintf(named.text, sizeof named.text, "rank %d of %d: %.600s%s%.300s", propane_ranks_rank(ranks),
             propane_ranks_count(ranks), err->text, *lost_ranks_advice() ? "; " : "", lost_ranks_advice());
    const int code = cli_error("train", &named);
    fflush(NULL);
    propane_ranks_abort(ranks, code);
}

static int train_text_start(train_job *j, bool power, char **again) {
    propane_error err = {0};
    bool restart = false;
    propane_status status = train_text_join_ranks(j, &err);
    if (status == PROPANE_OK && power && (status = power_open(&j->meter, &err)) != PROPANE_OK)
        status = propane_fail_prefix(&err, status, "train without --power");
    if (status == PROPANE_OK) status = train_job_go(j, &restart, &err);
    if (status == PROPANE_OK && restart && !(*again = mem_copy_string(train_job_option(j, "run"))))
        status = propane_fail_memory(&err, 0);
    energy_close(j->meter);
    if (j->ranks && status != PROPANE_OK && status != PROPANE_ERR_CANCELLED) train_text_end_ranks(j->ranks, &err);
    const bool first = !j->ranks || propane_ranks_rank(j->ranks) == 0;
    train_job_deinit(j);
    propane_ranks_close(j->ranks);
    if (status == PROPANE_OK || (status == PROPANE_ERR_CANCELLED && !first)) return CLI_OK; /* rank 0 reports it */
    return cli_error("train", &err);
}

int train_text_command(int argc, char **argv, char **again) {
    train_job j = {0};
    bool power = false;
    propane_error err = {0};
    int code =
        train_job_init(&j, &text_kind, PROPANE_TRAIN_LANGUAGE, &err) == PROPANE_OK ? -1 : cli_error("train", &err);
    if (code < 0) code = train_text_parse(&j, &power, argc, argv);
    if (code < 0) return train_text_start(&j, power, again);
    train_job_deinit(&j);
    return code;
}
