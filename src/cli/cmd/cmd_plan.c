/* SPDX-License-Identifier: MIT
 * propane plan MODEL: the kernels of a training step, where each runs, what passes between them, bytes and FLOPs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "chip/chip.h"
#include "cli/cli.h"
#include "mil/text/mil_text.h"
#include "model/files/store.h"
#include "train/step/partition.h"

static propane_status cmd_plan_read_config(const char *path, model_config *out, propane_error *err) {
    if (!path) {
        model_config_default(out);
        return PROPANE_OK;
    }
    return run_config(path, out, err);
}

/* One line a chip: made for it and not refused by a known rule, or why not. */
static void cmd_plan_print_chips(const partition *p, weight_mode weights, const chip *const *chips, int count) {
    for (int i = 0; i < count; i++) {
        propane_error why = {0};
        propane_status status = partition_supports(p, chips[i], 0, weights, &why);
        printf("%-9s %s\n", chips[i]->name,
               status == PROPANE_OK ? "no known rule refuses its device kernels" : why.text);
    }
}

int cmd_plan(int argc, char **argv) {
    const char *model = NULL, *name = "layer", *precision = "fp32", *weights = "inputs", *write = NULL, *target = NULL;
    int64_t batch = 1, context = 256;
    const cli_flag flags[] = {
        {"MODEL", CLI_TEXT, &model, .help = "a model, or a config.json; without it the standard small model"},
        {"--plan", CLI_TEXT, &name, .words = "NAME", .help = "layer, six or ten"},
        {"--batch", CLI_INT, &batch, 1, 4096, "N", "sequences at a time"},
        {"--context", CLI_INT, &context, 1, 65536, "N", "positions of a sequence"},
        {"--precision", CLI_CHOICE, &precision, .words = "fp32|fp16", .help = "of the device's programs"},
        {"--weights", CLI_CHOICE, &weights, .words = WEIGHT_MODE_WORDS,
         .help = "the form that --target is asked about"},
        {"--target", CLI_TEXT, &target, .words = "CHIPS", .help = "say which of m1,m4-max,... or all it is made for"},
        {"--write", CLI_TEXT, &write, .words = "DIR", .help = "write the kernels as MIL text into a folder"},
    };
    int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "plan [MODEL] [flags]",
                  "Prints the kernels of a training step as they were cut out of the differentiated forward functions: "
                  "place, inputs, outputs (taps included), bytes and floating-point operations.");
    if (code >= 0) return code;
    propane_error err = {0};
    model_config config;
    partition *p = NULL;
    const chip *chips[CHIP_COUNT];
    int chip_count = 0;
    if (target && chip_find_list(target, chips, &chip_count, &err) != PROPANE_OK)
        return cli_misuse("plan", "--target: %s", err.text);
    propane_status status = cmd_plan_read_config(model, &config, &err);
    const partition_options options = {name, strcmp(precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32, batch, context};
    if (!model && config.max_position_embeddings < context) config.max_position_embeddings = context;
    double mask = 16 * (double)context * (double)context, memory = (double)mem_physical();
    if (status == PROPANE_OK && memory > 0 && mask > memory)
        status = propane_fail(&err, PROPANE_ERR_LIMIT,
                              "--context %" PRId64 ": its causal mask takes %.3g GB to build, the machine has %.3g GB",
                              context, mask / 1e9, memory / 1e9);
    if (status == PROPANE_OK) partition_split_head(&config, batch, context);
    if (status == PROPANE_OK) status = partition_create(&config, &options, &p, &err);
    if (status == PROPANE_OK) {
        text out = {0};
        partition_print(p, &out);
        if (cli_is_terminal(1) && out.data)
            cli_wrap(out.data, 0, 8, cli_width());
        else if (out.length)
            fwrite(out.data, 1, out.length, stdout);
        text_deinit(&out);
        cmd_plan_print_chips(p, weight_mode_find(weights), chips, chip_count);
    }
    if (status == PROPANE_OK && write) status = mil_write_dir(p->module, write, MIL_SHORT, &err);
    partition_free(p);
    return status == PROPANE_OK ? CLI_OK : cli_error("plan", &err);
}
