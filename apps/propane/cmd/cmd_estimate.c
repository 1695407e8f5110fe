/* SPDX-License-Identifier: MIT
 * propane estimate: estimates the cost of a program or a training step on a Neural Engine. The command measures
 * nothing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/estimate_points.h"
#include "core/base/text.h"

static propane_status cmd_estimate_program(const char *path, const propane_estimate_options *options, bool json,
                                           bool per_op, propane_error *err) {
    propane_module *m = NULL;
    propane_estimate *e = NULL;
    char *shown = NULL;
    PROPANE_TRY(propane_module_read(path, &m, err));
    propane_status status = propane_estimate_module(m, options, &e, err);
    if (!status) status = propane_estimate_print(e, json ? PROPANE_JSON : PROPANE_TEXT, per_op, &shown, err);
    if (!status) fputs(shown, stdout);
    propane_free(shown);
    propane_estimate_free(e);
    propane_module_free(m);
    return status;
}

static propane_status cmd_estimate_model(const char *path, const propane_training_estimate_options *options, bool json,
                                         propane_error *err) {
    char *shown = NULL;
    propane_status status = propane_estimate_training(path, options, json ? PROPANE_JSON : PROPANE_TEXT, &shown, err);
    if (!status) fputs(shown, stdout);
    propane_free(shown);
    return status;
}

static propane_status cmd_estimate_file(const char *file, const char *through,
                                        const propane_training_estimate_options *model, bool json, propane_error *err) {
    const char *chips[PROPANE_MAX_CHIPS];
    int count = 0;
    const propane_estimate_options program = {.size = sizeof program, .target = model->target, .path = through};
    PROPANE_TRY(propane_chips(model->target, chips, PROPANE_MAX_CHIPS, &count, err));
    return propane_plan_takes(file) ? cmd_estimate_model(file, model, json, err)
                                    : cmd_estimate_program(file, &program, json, model->ops, err);
}

/* Reads a rate such as "20M" as bits per second. Returns false if the text is not a rate. */
static bool cmd_estimate_rate(const char *given, double *out) {
    static const char units[] = "kMGT";
    const char *end = text_read_real(given, out);
    if (!end) return false;
    const char *unit = *end ? strchr(units, *end == 'K' ? 'k' : *end) : NULL;
    if (*end && (!unit || end[1])) return false;
    for (int i = 0; unit && i <= (int)(unit - units); i++) *out *= 1e3;
    return *out > 0 && isfinite(*out);
}

static const propane_training_estimate_options cmd_estimate_standard = {.size = sizeof cmd_estimate_standard,
                                                                        .plan = "six",
                                                                        .batch = 1,
                                                                        .accumulate = 1,
                                                                        .wire = "fp32",
                                                                        .outer = 500,
                                                                        .head = "auto",
                                                                        .moments = "fp32",
                                                                        .clipping = "exact",
                                                                        .overlap = "on"};

#define TRAINING_FLAGS                                                                                                 \
    "--plan|--weights|--batch|--context|--accumulate|--head|--gradients|--moments|--clip-norm|--overlap|--lora-rank|"  \
    "--rates|--sources|--compare|--workers"
#define NETWORK_FLAGS "--bandwidth|--latency|--wire|--outer|--outer-warmup"

/* Refuses flags that have no effect on this estimate. Returns -1 if there are none, otherwise the exit code. */
static int cmd_estimate_misuse(const char *file, const propane_training_estimate_options *model) {
    int code = -1;
    if (!file) return cli_refuse("estimate", TRAINING_FLAGS "|" NETWORK_FLAGS "|--ops|--path|--target", "--points");
    if (!propane_plan_takes(file))
        return cli_refuse("estimate", TRAINING_FLAGS "|" NETWORK_FLAGS,
                          "a program, only to the training of a model, as for 'propane plan'");
    code = cli_refuse("estimate", "--path", "a training step, only to a program");
    if (code < 0 && !model->workers) code = cli_refuse("estimate", NETWORK_FLAGS, "one worker; give --workers, too");
    if (code < 0 && model->workers) code = cli_refuse("estimate", "--ops|--sources|--compare", "--workers");
    if (code < 0 && model->compare) code = cli_refuse("estimate", "--ops|--plan|--weights", "--compare");
    return code;
}

static int cmd_estimate_do(const char *file, const char *points, const char *through, const char *rate,
                           propane_training_estimate_options *model, bool json) {
    propane_error err = {0};
    if (!file == !points) return cli_misuse("estimate", "name a program or a model, or give --points FILE.csv");
    if (!cmd_estimate_rate(rate, &model->bandwidth))
        return cli_misuse("estimate", "--bandwidth is in bits per second: 20M, 1G");
    const int wrong = cmd_estimate_misuse(file, model);
    if (wrong >= 0) return wrong;
    const propane_status status =
        points ? estimate_points(points, json, &err) : cmd_estimate_file(file, through, model, json, &err);
    return status == PROPANE_OK ? CLI_OK : cli_error_of("estimate", "plan '", &err);
}

int cmd_estimate(int argc, char **argv) {
    const char *file = NULL, *points = NULL, *target = "m4", *through = NULL, *rate = "1G";
    bool json = false;
    propane_training_estimate_options model = cmd_estimate_standard;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &file,
         .help = "a program (.mil or Core ML package), a model as for 'propane plan', or stories110m"},
        {"--target", CLI_TEXT, &target, .words = "CHIP,...", .help = "m1,m4-max,...; all: M chips; all-a: A chips"},
        {"--json", CLI_SWITCH, &json, .help = "print JSON"},
        {"--ops", CLI_SWITCH, &model.ops, .help = "also print figures per operation or kernel"},
        {NULL, CLI_HEADING, NULL, .help = "Programs"},
        {"--path", CLI_CHOICE, &through, .words = "direct|e5rt|coreml|linux",
         .help = "how the engine is called; default: coreml for Core ML packages, else direct"},
        {NULL, CLI_HEADING, NULL, .help = "Models: training steps"},
        {"--plan", CLI_TEXT, &model.plan, .words = "NAME", .help = "layer, six or ten"},
        {"--weights", CLI_CHOICE, &model.weights, .words = propane_weight_modes(),
         .help = "how programs receive their weights [inputs; with adapters: the fastest that is not refused]"},
        {"--batch", CLI_INT, &model.batch, 1, 1024, "N", "sequences per batch"},
        {"--context", CLI_INT, &model.context, 0, 65536, "N",
         "positions per sequence; 0: 256, or the model's if fewer"},
        {"--accumulate", CLI_INT, &model.accumulate, 1, 100000, "N", "batches per update"},
        {"--head", CLI_CHOICE, &model.head, .words = "auto|host|device",
         .help = "where the output head runs; auto: as in the plan"},
        {"--gradients", CLI_CHOICE, &model.gradients, .words = "host|device",
         .help = "where the matrix products for weight gradients run [host]"},
        {"--stream", CLI_CHOICE, &model.stream, .words = "fp32|fp16",
         .help = "type of the residual stream between a layer's halves; fp16 is for plan layer [fp32]"},
        {"--moments", CLI_CHOICE, &model.moments, .words = "fp32|bf16|int8", .help = "storage of AdamW's moments"},
        {"--clip-norm", CLI_CHOICE, &model.clipping, .words = "exact|lagged", .help = "lagged: updates begin earlier"},
        {"--overlap", CLI_CHOICE, &model.overlap, .words = "on|early",
         .help = "early: updates begin before the gradient norm is known"},
        {"--lora-rank", CLI_INT, &model.lora_rank, 0, 4096, "N",
         "train only adapters of this rank; with --workers, adapters that a server averages (default 8)"},
        {"--rates", CLI_TEXT, &model.rates, .words = "FILE",
         .help = "file with host rates from 'propane devices --probe', instead of assumed rates"},
        {"--sources", CLI_SWITCH, &model.sources, .help = "print the source of each assumption"},
        {"--compare", CLI_SWITCH, &model.compare,
         .help = "compare plans, weight modes and batches, and name the fastest"},
        {NULL, CLI_HEADING, NULL, .help = "Models: several workers over a network"},
        {"--workers", CLI_INT, &model.workers, 0, 1000000, "N",
         "number of workers; compares ways to distribute training over them"},
        {"--bandwidth", CLI_TEXT, &rate, .words = "RATE",
         .help = "bandwidth of a worker's connection in bits per second: 20M, 1G"},
        {"--latency", CLI_REAL, &model.latency_ms, 0, 1e6, "MS", "one-way latency of a message"},
        {"--wire", CLI_CHOICE, &model.wire, .words = "fp32|bf16|fp16|int4", .help = "type of the numbers sent"},
        {"--outer", CLI_INT, &model.outer, 1, 1e9, "H", "steps between outer steps or rounds"},
        {"--outer-warmup", CLI_INT, &model.outer_warmup, 0, 1e12, "N", "data-parallel steps before the outer steps"},
        {NULL, CLI_HEADING, NULL, .help = "Accuracy"},
        {"--points", CLI_TEXT, &points, .words = "FILE.csv",
         .help = "compare the estimates with a table of published measurements"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "estimate FILE [flags]",
                  "Estimates the time, energy and utilisation of a Neural Engine for a program or for training a "
                  "model. The estimates come from published measurements; nothing is measured on this machine.");
    if (code >= 0) return code;
    model.target = target;
    return cmd_estimate_do(file, points, through, rate, &model, json);
}
