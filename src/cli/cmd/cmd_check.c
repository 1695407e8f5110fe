/* SPDX-License-Identifier: MIT
 * propane check FILE: which known rules of the Neural Engines a program or a weight file violates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "chip/check.h"
#include "cli/cli.h"
#include "mil/coreml/package.h"
#include "model/files/store.h"

static int cmd_check_print_json(json_t *root) {
    char *line = NULL;
    propane_error err = {0};
    propane_status status = json_print(root, JSON_INDENT(1) | JSON_PRESERVE_ORDER, &line, NULL, &err);
    json_decref(root);
    if (status) return cli_error("check", &err);
    puts(line);
    mem_free(line);
    return CLI_OK;
}

static int cmd_check_print_text(text *out) {
    fwrite(out->data, 1, out->length, stdout);
    bool failed = out->failed;
    text_deinit(out);
    propane_error err = {0};
    return failed ? cli_error("check", (propane_fail_memory(&err, 0), &err)) : CLI_OK;
}

static int cmd_check_print_rules(bool json, bool markdown) {
    text out = {0};
    if (json) return cmd_check_print_json(chip_limits_json());
    if (markdown) {
        chip_limits_markdown(&out);
    } else {
        for (int i = 0; i < chip_limit_count(); i++) {
            const chip_limit *l = chip_limit_get(i);
            text_printf(&out, "%-5s %-8s %-11s %s\n", l->id, chip_limit_scope(l), chip_evidence_name(l->evidence),
                        l->sentence);
        }
    }
    return cmd_check_print_text(&out);
}

/* "26" or "26.3" or "15.7.4" -> 2600, 2603, 1507. */
static bool cmd_check_read_os(const char *given, int *out) {
    int major = 0, minor = 0, used = 0;
    if (sscanf(given, "%d%n", &major, &used) != 1 || major < 1 || major > 99) return false;
    const char *rest = given + used;
    if (*rest == '.' && (sscanf(rest, ".%d%n", &minor, &used) != 1 || minor < 0 || minor > 99)) return false;
    if (*rest == '.') rest += used;
    while (*rest == '.' || (*rest >= '0' && *rest <= '9')) rest++;
    *out = major * 100 + minor;
    return *rest == 0;
}

static int cmd_check_check(const char *file, const chip_check_options *options, bool json, bool strict) {
    propane_error err = {0};
    model_form form = MODEL_FORM_DIR;
    if (!text_ends_with(file, ".mil") && !file_is_dir(file) && model_store_form(file, &form, &err) == PROPANE_OK &&
        (form == MODEL_FORM_GGUF || form == MODEL_FORM_SAFETENSORS)) { /* not a MILBlob with a wrong header */
        (void)propane_fail(&err, PROPANE_ERR_INVALID,
                           "%s: it holds a language model's weights; check the programs that 'propane convert %s "
                           "NAME.mlpackage' or 'propane plan %s --write DIR' makes of it",
                           file, file, file);
        return cli_error("check", &err);
    }
    err = (propane_error){0};
    chip_report *r = chip_report_create(options);
    propane_status status = r ? chip_check_file(r, file, &err) : propane_fail_memory(&err, 0);
    int code = CLI_OK;
    if (status != PROPANE_OK) {
        chip_report_free(r);
        return cli_error("check", &err);
    }
    if (json) {
        code = cmd_check_print_json(chip_report_json(r));
    } else {
        text out = {0};
        chip_report_print(r, &out);
        if (chip_report_worst(r) == 2 && mil_is_program_folder(file))
            text_append(&out,
                        "\nCore ML gives what an engine does not take to the GPU or CPU; the rules tell what keeps "
                        "the whole\nprogram on the engine. --most 1 shows one place for each rule.\n");
        code = cmd_check_print_text(&out);
    }
    int worst = chip_report_worst(r);
    chip_report_free(r);
    if (code != CLI_OK) return code;
    return worst == 2 ? 1 : worst == 1 && strict ? 2 : 0;
}

int cmd_check(int argc, char **argv) {
    const char *file = NULL, *target = "all", *os = NULL;
    bool json = false, strict = false, rules = false, markdown = false;
    int64_t per_limit = 20;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &file,
         .help = "a program (.mil), a Core ML package, a folder with model.mil, a weight file"},
        {"--target", CLI_TEXT, &target, .words = "CHIPS", .help = "m1,m4-max,... or all, all-a (phones); all"},
        {"--os", CLI_TEXT, &os, .words = "VERSION",
         .help = "macOS 26.3; without it rules about some versions warn only"},
        {"--strict", CLI_SWITCH, &strict, .help = "exit code 2 if there are warnings"},
        {"--most", CLI_INT, &per_limit, 1, 1000000, "N", "findings shown for each rule"},
        {"--json", CLI_SWITCH, &json, .help = "one JSON object"},
        {"--rules", CLI_SWITCH, &rules, .help = "list the rules instead of checking a file"},
        {"--markdown", CLI_SWITCH, &markdown, .help = "with --rules: the page docs/constraints.md"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "check FILE [flags]",
                         "Tells which known rules of the Neural Engines a MIL program or a weight file violates: "
                         "place, rule, how the rule is "
                         "known and by whom, what to do; then a table of operations by chip. That no known rule "
                         "refuses a program does not "
                         "mean that it runs.\n"
                         "Exit code: 0 nothing refuses it, 1 refused (or the file cannot be read), 2 warnings with "
                         "--strict (and, as everywhere, "
                         "wrong use).");
    if (code >= 0) return code;
    if (rules) return cmd_check_print_rules(json, markdown);
    if (!file) return cli_misuse("check", "a FILE is missing");
    const chip *targets[CHIP_COUNT];
    propane_error err = {0};
    chip_check_options options = {.targets = targets, .per_limit = (int)per_limit};
    if (chip_find_list(target, targets, &options.target_count, &err) != PROPANE_OK)
        return cli_misuse("check", "--target: %s", err.text);
    if (os && !cmd_check_read_os(os, &options.os))
        return cli_misuse("check", "--os must be a version such as 26 or 15.7, not '%.40s'", os);
    return cmd_check_check(file, &options, json, strict);
}
