/* SPDX-License-Identifier: MIT
 * propane check FILE: reports which known rules of the Neural Engines a program or a weight file violates.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/page_file.h"
#include "core/base/file.h"

/* Prints the text and frees it. */
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

/* Refuses known kinds of files that cannot be checked. The message names what can be checked instead. */
static propane_status cmd_check_refuse_others(const char *file, propane_error *err) {
    const char *form = file_is_dir(file) ? NULL : propane_model_form(file);
    const char *kind = propane_file_kind(file);
    /* Only these forms are refused, so that a MILBlob with a wrong header is still checked. */
    if (form && (strcmp(form, "gguf") == 0 || strcmp(form, "safetensors") == 0))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: it holds the weights of a language model; check the programs that 'propane convert %s "
                            "NAME.mlpackage' or 'propane plan %s --write DIR' makes from it",
                            file, file, file);
    const char *what = !kind                           ? NULL
                       : strcmp(kind, "tokens") == 0   ? "a token file"
                       : strcmp(kind, "examples") == 0 ? "instruction data (JSON lines)"
                       : strcmp(kind, "compiled") == 0 ? "a compiled program; check its source program"
                                                       : NULL;
    if (!what) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: cannot be checked: it is %s", file, what);
}

typedef struct check_job {
    propane_check_options options;
    const char *format, *colour, *html;
    bool strict;
} check_job;

/* Writes the page with the program's graph and the verdicts. Fails for a weight file, or a text that the reader
 * refuses, because these have no graph. */
static propane_status cmd_check_write_page(const char *file, const check_job *j, const propane_report *r,
                                           propane_error *err) {
    propane_module *m = NULL;
    propane_error why = {0};
    const propane_page_options options = {.size = sizeof options,
                                          .target = j->options.target,
                                          .os = j->options.os,
                                          .path = propane_report_path(r),
                                          .colour = "verdict"};
    propane_status status = propane_module_read(file, &m, &why);
    if (status)
        return propane_fail(err, status, "%s was not written, because %s has no graph: %.600s", j->html, file,
                            why.text);
    status = page_file_write(m, &options, j->html, err);
    propane_module_free(m);
    return status;
}

static propane_status cmd_check_print(const check_job *j, const propane_report *r, char **out, propane_error *err) {
    const propane_look look = {.size = sizeof look,
                               .styled = cli_wants_colour(j->colour, STDOUT_FILENO),
                               .width = cli_is_terminal(STDOUT_FILENO) ? cli_width() : 0};
    if (strcmp(j->format, "json") == 0) return propane_report_print(r, PROPANE_JSON, out, err);
    if (strcmp(j->format, "sarif") == 0) return propane_report_print(r, PROPANE_SARIF, out, err);
    if (strcmp(j->format, "github") == 0) return propane_report_print(r, PROPANE_GITHUB, out, err);
    return propane_report_print_look(r, &look, out, err);
}

static int cmd_check_check(const char *file, const check_job *j) {
    propane_error err = {0};
    propane_report *r = NULL;
    char *shown = NULL;
    if (cmd_check_refuse_others(file, &err) || propane_check_file(file, &j->options, &r, &err))
        return cli_error("check", &err);
    propane_status status = cmd_check_print(j, r, &shown, &err);
    int code = cmd_check_show(shown, status, &err);
    if (code == CLI_OK && j->html && cmd_check_write_page(file, j, r, &err)) code = cli_error("check", &err);
    const propane_severity worst = propane_report_worst(r);
    propane_report_free(r);
    if (code != CLI_OK) return code;
    if (worst >= PROPANE_CRASH) return 1;
    return !j->strict ? 0 : worst == PROPANE_FALLBACK ? 3 : worst == PROPANE_WARNING ? 2 : 0;
}

int cmd_check(int argc, char **argv) {
    const char *file = NULL, *target = "all", *os = NULL, *deploy = NULL, *path = NULL, *plan = NULL;
    check_job j = {.format = "text", .colour = "auto"};
    bool json = false, rules = false, markdown = false;
    int64_t per_limit = 20;
    const cli_flag flags[] = {
        {"FILE", CLI_TEXT, &file,
         .help = "a program (.mil), a Core ML package, a folder with model.mil, or a weight file"},
        {"--target", CLI_TEXT, &target, .words = "CHIPS", .help = "m1,m4-max,...; all: M chips; all-a: A chips"},
        {"--os", CLI_TEXT, &os, .words = "VERSION",
         .help = "system version: 26.3, macos14, ios17; without it, rules about versions are warnings"},
        {"--deploy", CLI_TEXT, &deploy, .words = "SYSTEMS",
         .help = "oldest systems on which the program must load: ios17,macos14"},
        {"--path", CLI_TEXT, &path, .words = "PATH",
         .help =
             "how the program reaches the engine: direct or coreml; default: coreml for Core ML files, else direct"},
        {"--plan", CLI_TEXT, &plan, .words = "PLAN",
         .help = "MLComputePlan dump (JSON) or Xcode performance report to compare with the verdicts"},
        {"--strict", CLI_SWITCH, &j.strict, .help = "exit code 3 if operations fall back, 2 if there are warnings"},
        {"--most", CLI_INT, &per_limit, 1, 1000000, "N", "maximum number of findings to print per rule"},
        {"--format", CLI_CHOICE, &j.format, .words = "text|json|sarif|github",
         .help = "output format; sarif is for code scanning, github for workflow annotations"},
        {"--json", CLI_SWITCH, &json, .help = "same as --format json"},
        {"--html", CLI_TEXT, &j.html, .words = "FILE",
         .help = "also write the program's graph, coloured by verdict, as an HTML page", .writes = "page"},
        {"--color", CLI_CHOICE, &j.colour, .words = "auto|always|never",
         .help = "when to use colours; auto: on a terminal, unless NO_COLOR is set"},
        {"--rules", CLI_SWITCH, &rules, .help = "list the rules instead of checking a file"},
        {"--markdown", CLI_SWITCH, &markdown, .help = "with --rules, print the text of docs/constraints.md"},
    };
    int code = cli_parse(
        argc, argv, flags, sizeof flags / sizeof flags[0], "check FILE [flags]",
        "Lists the Neural Engine rules that a MIL program or a weight file violates, with the place, evidence "
        "and fix of each, then a table of operations by chip. A program that no known rule refuses may still fail.\n"
        "Operations that an engine does not support run on the CPU through Core ML. For Core ML's path the "
        "command prints these operations, the number of switches and their cost.\n"
        "Exit code: 0 no rule refuses it; 1 refused, crashes elsewhere, or unreadable; 2 wrong usage; with "
        "--strict also 3 if something falls back, and 2 if there are warnings.");
    if (code >= 0) return code;
    if (rules && file) return cli_misuse("check", "--rules lists the rules; '%.100s' would not be checked", file);
    code = rules ? cli_refuse("check", "--target|--os|--deploy|--path|--plan|--strict|--most|--html|--color", "--rules")
                 : cli_refuse("check", "--markdown", "a file; it is for --rules");
    if (code >= 0) return code;
    if (rules)
        return cmd_check_print_rules(json || strcmp(j.format, "json") == 0 ? PROPANE_JSON
                                     : markdown                            ? PROPANE_MARKDOWN
                                                                           : PROPANE_TEXT);
    if (!file) return cli_misuse("check", "a FILE is missing");
    if (os && deploy) return cli_misuse("check", "give either --os (the system) or --deploy (the oldest systems)");
    if (json) j.format = "json";
    j.options = (propane_check_options){.size = sizeof j.options,
                                        .target = target,
                                        .os = os ? os : deploy,
                                        .per_rule = (int)per_limit,
                                        .path = path,
                                        .plan = plan};
    propane_error err = {0};
    if (propane_check_options_test(&j.options, &err) != PROPANE_OK) return cli_misuse("check", "--%s", err.text);
    return cmd_check_check(file, &j);
}
