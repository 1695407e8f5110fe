/* SPDX-License-Identifier: MIT
 * propane where: reports on which unit of a chip (engine, CPU or GPU) to train a model. Without --trial the figures are
 * estimates or published ones; with --trial they are measured on this machine.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/where_trial.h"
#include "core/base/json.h"

/* Reads the context that the estimate for the same arguments uses, so that trial and estimate can be compared. For a
 * model without weights, reads its sizes, too. */
static propane_status cmd_where_context(const propane_where_options *o, where_trial *t, propane_error *err) {
    char *shown = NULL;
    json_error_t e;
    PROPANE_TRY(propane_where(t->model, o, PROPANE_JSON, &shown, err));
    json_t *list = json_load(shown, strlen(shown), &e);
    const json_t *first = json_array_get(list, 0), *sizes = json_object_get(first, "sizes");
    t->context = json_integer_value(json_object_get(first, "context"));
    t->layers = json_integer_value(json_object_get(sizes, "layers"));
    t->width = json_integer_value(json_object_get(sizes, "width"));
    t->heads = json_integer_value(json_object_get(sizes, "heads"));
    json_decref(list);
    propane_free(shown);
    return PROPANE_OK;
}

static int cmd_where_try(const propane_where_options *o, where_trial *t) {
    propane_error err = {0};
    if (!t->data) return cli_misuse("where", "--trial trains a model; give its --data");
    if (o->mode && strcmp(o->mode, "forward") == 0)
        return cli_misuse("where", "--trial trains a model; --mode must be full or lora");
    t->mode = o->mode ? o->mode : o->lora_rank ? "lora" : NULL;
    t->stream = o->stream;
    t->lora_rank = o->lora_rank, t->batch = o->batch, t->accumulate = o->accumulate;
    cli_catch_signals();
    propane_status status = cmd_where_context(o, t, &err);
    if (!status) status = where_trial_run(t, &err);
    if (cli_interrupted) return cli_interrupt_code();
    return status == PROPANE_OK ? CLI_OK : cli_error("where", &err);
}

int cmd_where(int argc, char **argv) {
    const char *model = NULL;
    bool json = false, markdown = false, trial = false, timed = false;
    double seconds = 60;
    propane_where_options o = {.size = sizeof o, .batch = 1, .accumulate = 10};
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &model, .help = "a model, its config.json, a run, or stories110m"},
        {"--target", CLI_TEXT, &o.target, .words = "CHIP,...", .help = "m1,m4-max,...; all: M chips; all-a: A chips"},
        {"--mode", CLI_CHOICE, &o.mode, .words = "full|lora|forward",
         .help =
             "train all weights (full) or adapters (lora), or run only the forward pass; default: full, or lora with "
             "--lora-rank"},
        {"--lora-rank", CLI_INT, &o.lora_rank, 0, 4096, "N", "rank of the adapters; 0: 8"},
        {"--goal", CLI_CHOICE, &o.goal, .words = "time|joules|background",
         .help = "what to minimize; background: training while the CPU and GPU are busy"},
        {"--batch", CLI_INT, &o.batch, 1, 1024, "N", "sequences per batch"},
        {"--context", CLI_INT, &o.context, 0, 65536, "N", "positions per sequence; 0: 256, or the model's if fewer"},
        {"--accumulate", CLI_INT, &o.accumulate, 1, 100000, "N", "batches per update"},
        {"--stream", CLI_CHOICE, &o.stream, .words = "fp32|fp16",
         .help = "type of the residual stream in plan 'layer'; default: fp16 on chips that refuse fp32 inputs"},
        {"--data", CLI_TEXT, &o.data, .words = "FILE",
         .help = "training data for --trial and for the command that is printed"},
        {"--trial", CLI_SWITCH, &trial,
         .help = "measure by training on this machine's cpu and ane, each in a separate process; all weights, and "
                 "adapters if MODEL has weights"},
        {"--seconds", CLI_REAL, &seconds, 0.1, 86400, "N", "seconds per trial, after its warm-up", .given = &timed},
        {"--json", CLI_SWITCH, &json, .help = "print JSON"},
        {"--markdown", CLI_SWITCH, &markdown, .help = "print the figures as a Markdown table"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "where MODEL [flags]",
                  "Prints what 1,000 tokens would cost on a chip's Neural Engine, CPU and GPU, and why. Figures for "
                  "the engine and the CPU are estimates; those for the GPU are published ones.");
    if (code >= 0) return code;
    propane_error err = {0};
    char *shown = NULL;
    if (!model) return cli_misuse("where", "name a model");
    if (json && markdown) return cli_misuse("where", "--json or --markdown, not both");
    if (trial && markdown) return cli_misuse("where", "--trial prints text or --json");
    if (trial && (o.target || o.goal))
        return cli_misuse("where", "--trial measures this machine: --target and --goal are for estimates");
    if (o.mode && strcmp(o.mode, "forward") == 0 &&
        (code = cli_refuse("where", "--accumulate", "--mode forward, which updates no weights")) >= 0)
        return code;
    if (timed && !trial) return cli_misuse("where", "--seconds needs --trial");
    if (!o.target) o.target = "m4";
    if (!o.goal) o.goal = "time";
    if (trial)
        return cmd_where_try(&o, &(where_trial){.model = model, .data = o.data, .seconds = seconds, .json = json});
    const propane_form form = json ? PROPANE_JSON : markdown ? PROPANE_MARKDOWN : PROPANE_TEXT;
    const propane_status status = propane_where(model, &o, form, &shown, &err);
    if (!status) fputs(shown, stdout);
    propane_free(shown);
    return status == PROPANE_OK ? CLI_OK : cli_error_of("where", "mode '", &err);
}
