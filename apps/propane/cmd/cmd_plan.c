/* SPDX-License-Identifier: MIT
 * propane plan MODEL: prints the kernels of a training step, with the place where each one runs, the values that pass
 * between them, bytes and FLOPs.
 */
#include <stdio.h>

#include "apps/propane/cli.h"

/* Prints one line per chip: either that no known rule refuses the plan's device kernels, or the reason for a
 * refusal. */
static propane_status cmd_plan_print_chips(const propane_plan *p, const char *weights, const char *const *chips,
                                           int count, propane_error *err) {
    for (int i = 0; i < count; i++) {
        propane_error why = {0};
        propane_status status = propane_plan_supported(p, chips[i], weights, &why);
        if (status == PROPANE_ERR_MEMORY) {
            *err = why; /* an error, not a verdict */
            return status;
        }
        printf("%-9s %s\n", chips[i], status == PROPANE_OK ? "no known rule refuses its device kernels" : why.text);
    }
    return PROPANE_OK;
}

static propane_status cmd_plan_print(const propane_plan *p, propane_error *err) {
    char *shown = NULL;
    size_t length = 0;
    PROPANE_TRY(propane_plan_print(p, &shown, &length, err));
    if (cli_is_terminal(1))
        cli_wrap(shown, 0, 8, cli_width());
    else
        fwrite(shown, 1, length, stdout);
    propane_free(shown);
    return PROPANE_OK;
}

static int cmd_plan_search(const char *model, const propane_training_estimate_options *options, bool json) {
    if (!model) return cli_misuse("plan", "--search needs a model");
    propane_error err = {0};
    char *shown = NULL;
    const propane_status status =
        propane_estimate_training(model, options, json ? PROPANE_JSON : PROPANE_TEXT, &shown, &err);
    if (!status) fputs(shown, stdout);
    propane_free(shown);
    return status == PROPANE_OK ? CLI_OK : cli_error_of("plan", "plan '", &err);
}

/* Returns a flag that was given although only a search accepts it, or NULL. */
static const char *cmd_plan_stray(const propane_training_estimate_options *o) {
    return o->accumulate ? "--accumulate"
           : o->moments  ? "--moments"
           : o->clipping ? "--clip-norm"
           : o->overlap  ? "--overlap"
           : o->rates    ? "--rates"
                         : NULL;
}

static int cmd_plan_make(const char *model, const propane_plan_options *options, const char *weights,
                         const char *const *chips, int chip_count, const char *write) {
    propane_error err = {0};
    propane_plan *p = NULL;
    propane_status status = propane_plan_create(model, options, &p, &err);
    if (status == PROPANE_OK) status = cmd_plan_print(p, &err);
    if (status == PROPANE_OK) status = cmd_plan_print_chips(p, weights, chips, chip_count, &err);
    if (status == PROPANE_OK && write)
        status = propane_module_write(propane_plan_module(p), write, PROPANE_MIL_SHORT, &err);
    propane_plan_free(p);
    return status == PROPANE_OK ? CLI_OK : cli_error_of("plan", "context ", &err);
}

/* Returns the options of a plan. The members that a search has, too, are copied from `search`. */
static propane_plan_options cmd_plan_options(const char *name, const char *precision, const char *head, int64_t batch,
                                             int64_t context, const propane_training_estimate_options *search) {
    return (propane_plan_options){.size = sizeof(propane_plan_options),
                                  .plan = name,
                                  .precision = precision,
                                  .batch = batch,
                                  .context = context,
                                  .head = head,
                                  .gradients = search->gradients,
                                  .lora_rank = search->lora_rank,
                                  .stream = search->stream};
}

int cmd_plan(int argc, char **argv) {
    const char *model = NULL, *name = "layer", *head = "auto", *precision = "fp32", *weights = "inputs", *write = NULL,
               *target = NULL;
    int64_t batch = 1, context = 0;
    bool json = false, plan_given = false, head_given = false, weights_given = false;
    propane_training_estimate_options search = {.size = sizeof search};
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &model, .help = "a model or a config.json; default: a small model"},
        {"--plan", CLI_TEXT, &name, .words = "NAME", .help = "layer, six or ten", .given = &plan_given},
        {"--head", CLI_CHOICE, &head, .words = "auto|host|device",
         .help = "where the output head runs; auto: as in the plan", .given = &head_given},
        {"--gradients", CLI_CHOICE, &search.gradients, .words = "host|device",
         .help = "where the matrix products for weight gradients run [host]"},
        {"--batch", CLI_INT, &batch, 1, 4096, "N", "sequences per batch"},
        {"--context", CLI_INT, &context, 0, 65536, "N", "positions per sequence; 0: 256, or the model's if fewer"},
        {"--stream", CLI_CHOICE, &search.stream, .words = "fp32|fp16",
         .help = "type of the residual stream between a layer's halves; fp16 is for plan layer [fp32]"},
        {"--lora-rank", CLI_INT, &search.lora_rank, 0, 4096, "N", "train only adapters of this rank; 0: all weights"},
        {"--precision", CLI_CHOICE, &precision, .words = "fp32|fp16", .help = "precision of the device's programs"},
        {"--weights", CLI_CHOICE, &weights, .words = propane_weight_modes(),
         .help = "weight mode to check against --target", .given = &weights_given},
        {"--target", CLI_TEXT, &target, .words = "CHIPS", .help = "chips to check the plan for: m1,m4-max,... or all"},
        {NULL, CLI_HEADING, NULL, .help = "Search (estimated)"},
        {"--search", CLI_SWITCH, &search.search,
         .help = "find the fastest plan, head, weight mode, moments and batch on --target; also prints the runners-up"},
        {"--accumulate", CLI_INT, &search.accumulate, 1, 100000, "N", "batches per update, which share the sequences"},
        {"--moments", CLI_CHOICE, &search.moments, .words = "fp32|bf16|int8",
         .help = "search only this storage of the moments"},
        {"--clip-norm", CLI_CHOICE, &search.clipping, .words = "exact|lagged", .help = "as for 'propane train'"},
        {"--overlap", CLI_CHOICE, &search.overlap, .words = "on|early", .help = "as for 'propane train'"},
        {"--rates", CLI_TEXT, &search.rates, .words = "FILE", .help = "file with rates from 'propane devices --probe'"},
        {"--json", CLI_SWITCH, &json, .help = "print JSON"},
        {NULL, CLI_HEADING, NULL, .help = "The kernels"},
        {"--write", CLI_TEXT, &write, .words = "DIR", .help = "write the kernels as MIL text to a folder"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "plan [MODEL] [flags]",
                  "Lists the kernels of a training step with their place, inputs, outputs, bytes and floating-point "
                  "operations. Outputs include the taps, the values that the backward pass needs.");
    if (code >= 0) return code;
    propane_error err = {0};
    const char *chips[PROPANE_MAX_CHIPS];
    int chip_count = 0;
    if (target && propane_chips(target, chips, PROPANE_MAX_CHIPS, &chip_count, &err) != PROPANE_OK)
        return cli_misuse("plan", "--target: %s", err.text);
    const char *stray = json ? "--json" : cmd_plan_stray(&search);
    if (!search.search && stray) return cli_misuse("plan", "%s is for --search", stray);
    if (search.search) {
        search.target = target ? target : "m4", search.batch = batch, search.context = context;
        search.plan = plan_given ? name : NULL, search.head = head_given ? head : NULL;
        search.weights = weights_given ? weights : NULL;
        return cmd_plan_search(model, &search, json);
    }
    const propane_plan_options options = cmd_plan_options(name, precision, head, batch, context, &search);
    return cmd_plan_make(model, &options, weights, chips, chip_count, write);
}
