/* SPDX-License-Identifier: MIT
 * propane report RUN...: writes a page about one or more training runs.
 */
#include <stdio.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/report_file.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "report/run/html_report.h"

propane_status report_file_write(const run_set *s, const char *path, propane_error *err) {
    text page = {0};
    propane_status status = file_check_output(path, err);
    if (status == PROPANE_OK) status = report_print(s, &page, err);
    if (status == PROPANE_OK) status = file_write(path, page.data, page.length, err);
    text_deinit(&page);
    return status;
}

int cmd_report(int argc, char **argv) {
    cli_list runs = {0};
    const char *out = NULL;
    const cli_flag flags[] = {
        {"RUN...", CLI_TEXT, &runs, .help = "run folders", .required = true},
        {"--out", CLI_TEXT, &out, .words = "FILE", .help = "file to write",
         .standard = "RUN/" RUN_REPORT ", of several " RUN_REPORT},
    };
    const int code =
        cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "report RUN... [--out FILE]",
                  "Writes a page about a training run: curves with their values, samples, settings and "
                  "machine. The run may be in progress, interrupted or finished. For several runs, the page "
                  "shows their curves in shared charts, and the settings that differ.");
    if (code >= 0) return code;
    propane_error err = {0};
    run_set s = {0};
    char *own = runs.count == 1 ? run_log_path(runs.items[0], RUN_REPORT) : NULL;
    const char *path = out ? out : own ? own : RUN_REPORT;
    propane_status status = cli_check_written(path, "page", &err);
    if (status == PROPANE_OK) status = run_set_open(&s, (const char *const *)runs.items, runs.count, &err);
    if (status == PROPANE_OK) status = run_set_read(&s, &err);
    if (status == PROPANE_OK) status = report_file_write(&s, path, &err);
    if (status == PROPANE_OK) printf("wrote %s\n", path);
    run_set_close(&s);
    mem_free(own);
    return status == PROPANE_OK ? CLI_OK : cli_error("report", &err);
}
