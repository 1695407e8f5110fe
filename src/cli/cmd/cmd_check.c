/* SPDX-License-Identifier: MIT
 * propane check FILE: which known rules of the Neural Engines a program or a weight file violates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

/* Takes the text. */
static int cmd_check_show(char *shown, propane_status status, const propane_error *err) {
    if (status) return cli_error("check", err);
    fputs(shown, stdout);
    propane_free(shown);
    return CLI_OK;
}

static int cmd_check_print_rules(propane_form form) {
    char *shown = NULL;
    propane_error err = {0};
    propane_status status = propane_rules_print(form, &shown, &err);
    return cmd_check_show(shown, status, &err);
}

static int cmd_check_check(const char *file, const propane_check_options *options, bool json, bool strict) {
    propane_error err = {0};
    const char *form = file_is_dir(file) ? NULL : propane_model_form(file);
    if (form && (strcmp(form, "gguf") == 0 || strcmp(form, "safetensors") == 0)) { /* no MILBlob with a wrong header */
        (void)propane_fail(&err, PROPANE_ERR_INVALID,
                           "%s: it holds a language model's weights; check the programs that 'propane convert %s "
                           "NAME.mlpackage' or 'propane plan %s --write DIR' makes of it",
                           file, file, file);
        return cli_error("check", &err);
    }
    propane_report *r = NULL;
    char *shown = NULL;
    if (propane_check_file(file, options, &r, &err) != PROPANE_OK) return cli_error("check", &err);
    propane_status status = propane_report_print(r, json ? PROPANE_JSON : PROPANE_TEXT, &shown, &err);
    const int code = cmd_check_show(shown, status, &err);
    const propane_severity worst = propane_report_worst(r);
    propane_report_free(r);
    if (code != CLI_OK) return code;
    if (worst == PROPANE_REFUSED) return 1;
    return !strict ? 0 : worst == PROPANE_FALLBACK ? 3 : worst == PROPANE_WARNING ? 2 : 0;
}

int cmd_check(int argc, char **argv) {
    const char *file = NULL, *target = "all", *os = NULL, *path = NULL;
    bool json = false, strict = false, rules = false, markdown = false;
    int64_t per_limit = 20;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &file,
         .help = "a program (.mil), a Core ML package, a folder with model.mil, a weight file"},
        {"--target", CLI_TEXT, &target, .words = "CHIPS", .help = "m1,m4-max,... or all, all-a (phones); all"},
        {"--os", CLI_TEXT, &os, .words = "VERSION",
         .help = "macOS 26.3; without it rules about some versions warn only"},
        {"--path", CLI_TEXT, &path, .words = "PATH",
         .help = "direct or coreml: how the program reaches the engine; coreml for Core ML's files, else direct"},
        {"--strict", CLI_SWITCH, &strict, .help = "exit code 3 if operations fall back, 2 if there are warnings"},
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
                         "Through Core ML, what an engine does not take falls back to the CPU: which operations, how "
                         "often the program changes sides and what that costs is told.\n"
                         "Exit code: 0 nothing refuses it, 1 refused (or the file cannot be read); with --strict 3 "
                         "something falls back, 2 warnings (and, as everywhere, wrong use).");
    if (code >= 0) return code;
    if (rules) return cmd_check_print_rules(json ? PROPANE_JSON : markdown ? PROPANE_MARKDOWN : PROPANE_TEXT);
    if (!file) return cli_misuse("check", "a FILE is missing");
    const propane_check_options options = {
        .size = sizeof options, .target = target, .os = os, .per_rule = (int)per_limit, .path = path};
    propane_error err = {0};
    if (propane_check_options_test(&options, &err) != PROPANE_OK) return cli_misuse("check", "--%s", err.text);
    return cmd_check_check(file, &options, json, strict);
}
