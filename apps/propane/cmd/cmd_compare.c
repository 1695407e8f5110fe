/* SPDX-License-Identifier: MIT
 * propane compare RUN RUN...: compares the results of several training runs, and the settings in which they differ.
 */
#include <stdio.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/report_file.h"
#include "core/base/json.h"
#include "core/base/memory.h"
#include "report/run/run_table.h"

static propane_status cmd_compare_print(const run_set *s, bool json, propane_error *err) {
    if (json) {
        char *printed = NULL;
        json_t *root = run_table_json(s);
        if (!root) return propane_fail_memory(err, 0);
        const propane_status status = json_print(root, JSON_COMPACT | JSON_REAL_PRECISION(9), &printed, NULL, err);
        json_decref(root);
        if (status == PROPANE_OK) puts(printed);
        mem_free(printed);
        return status;
    }
    run_table t;
    text out = {0};
    propane_status status = run_table_make(s, &t, err);
    if (status == PROPANE_OK) run_table_print(&t, cli_is_terminal(1) ? cli_width() : 0, &out);
    run_table_free(&t);
    if (out.failed) status = propane_fail_memory(err, out.length);
    if (status == PROPANE_OK) fwrite(out.data, 1, out.length, stdout);
    text_deinit(&out);
    return status;
}

int cmd_compare(int argc, char **argv) {
    cli_list runs = {0};
    const char *html = NULL;
    bool json = false;
    const cli_flag flags[] = {
        {"RUN...", CLI_TEXT, &runs, .help = "run folders", .required = true},
        {"--json", CLI_SWITCH, &json,
         .help = "print one JSON object: figures and settings of each run, and which settings differ"},
        {"--html", CLI_TEXT, &html, .words = "FILE", .help = "also write the page of 'propane report'",
         .writes = "page"},
    };
    const int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "compare RUN RUN... [flags]",
                               "Compares training runs, finished or not: losses, speed, time, and the settings in "
                               "which they differ. * marks the best. With different vocabularies, compare nats per "
                               "byte instead of losses. 'propane watch RUN RUN --once' draws the curves.");
    if (code >= 0) return code;
    propane_error err = {0};
    run_set s;
    propane_status status = run_set_open(&s, (const char *const *)runs.items, runs.count, &err);
    if (status == PROPANE_OK) status = run_set_read(&s, &err);
    if (status == PROPANE_OK) status = cmd_compare_print(&s, json, &err);
    if (status == PROPANE_OK && html) status = report_file_write(&s, html, &err);
    run_set_close(&s);
    return status == PROPANE_OK ? CLI_OK : cli_error("compare", &err);
}
