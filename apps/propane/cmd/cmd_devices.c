/* SPDX-License-Identifier: MIT
 * propane devices: lists every driver of this build, with the reason if it cannot work on this machine. --symbols lists
 * the symbols that the ane driver looks for. --probe tests a device for facts that public notes leave open. --forget
 * deletes the saved results of earlier trials of the ane device.
 */
#include <stdio.h>
#include <string.h>

#include "apps/ane-lab/probe/answers.h"
#include "apps/ane-lab/probe/probe_explain.h"
#include "apps/ane-lab/probe/probe_report.h"
#include "apps/ane-lab/probe/question_process.h"
#include "apps/ane-lab/probe/selftest.h"
#include "apps/propane/cli.h"
#include "apps/propane/cmd/host_flags.h"

/* Tries features that the system offers but that may not work. Each is tried in a separate process, because the attempt
 * may crash. */
static void cmd_devices_list_trials(void) {
    static const struct {
        const char *title, *id;
    } trials[] = {{"evaluation", "ways"},
                  {"surfaces of different sizes", "sizes"},
                  {"a loaded program", "keeping"},
                  {"several functions in one program", "procedures"},
                  {"engine's own time", "statistics"},
                  {"shared events", "events"},
                  {"chaining", "chaining"}};
    enum { TRIALS = sizeof trials / sizeof trials[0], SECONDS = 20 };
    for (int i = 0; i < TRIALS; i++) {
        char words[1200], line[1300];
        probe_words("ane", trials[i].id, SECONDS, words);
        snprintf(line, sizeof line, "%s: %s", trials[i].title, words);
        printf("            ");
        cli_wrap(line, 12, 14, cli_width());
        printf("\n");
    }
    answers_list();
}

static void cmd_devices_print_products(void) {
    char words[1200], line[1300];
    host_products_words(words, sizeof words);
    snprintf(line, sizeof line, "large products: %s", words);
    printf("            ");
    cli_wrap(line, 12, 14, cli_width());
    printf("\n");
}

/* Measures the products of a layer of Stories110M at 256 positions in fp32 and bf16, and prints which is faster. */
static propane_status cmd_devices_print_types(propane_error *err) {
    enum { ROWS = 2048, COLUMNS = 768, POSITIONS = 256 };
    propane_product_times t = {.size = sizeof t};
    propane_device *d = NULL;
    char line[300];
    PROPANE_TRY(propane_device_open("cpu", &d, err));
    const propane_status status = propane_device_time_products(d, ROWS, COLUMNS, POSITIONS, &t, err);
    propane_device_close(d);
    if (status != PROPANE_OK) return status;
    if (t.reproduced)
        snprintf(line, sizeof line,
                 "bf16: %.2f of fp32's time in a training step's products with weights of %d x %d; 'train --precision "
                 "auto' takes %s for them",
                 t.bf16_ms / t.fp32_ms, ROWS, COLUMNS, t.bf16_pays ? "bf16" : "fp32");
    else
        snprintf(line, sizeof line, "bf16: not known whether it is faster than fp32: %s",
                 t.fp32_ms > 0 ? "other work on this machine affected the comparison" : "a library computes both");
    printf("            ");
    cli_wrap(line, 12, 14, cli_width());
    printf("\n");
    return PROPANE_OK;
}

static int cmd_devices_list_devices(void) {
    for (int i = 0; i < propane_driver_count(); i++) {
        propane_error why = {0};
        propane_status status = propane_driver_probe(i, &why);
        if (status == PROPANE_ERR_MEMORY) return cli_error("devices", &why);
        printf("%-6s %-4s ", propane_driver_name(i), status == PROPANE_OK ? "yes" : "no");
        cli_wrap(propane_driver_summary(i), 12, 12, cli_width());
        if (status != PROPANE_OK) {
            printf("\n            ");
            cli_wrap(why.text, 12, 12, cli_width());
        }
        printf("\n");
        if (status == PROPANE_OK && strcmp(propane_driver_name(i), "cpu") == 0) {
            cmd_devices_print_products();
            if (cmd_devices_print_types(&why) == PROPANE_ERR_MEMORY) return cli_error("devices", &why);
        }
        if (status == PROPANE_OK && strcmp(propane_driver_name(i), "ane") == 0) cmd_devices_list_trials();
    }
    return CLI_OK;
}

int cmd_devices(int argc, char **argv) {
    bool probe = false, symbols = false, forget = false, device_given = false, only_given = false, output_given = false,
         limit_given = false;
    const char *explain = NULL;
    probe_options o = {.uri = "ane"};
    const cli_flag flags[] = {
        {"--probe", CLI_SWITCH, &probe,
         .help = "run tests that answer open questions about a device, and write a report"},
        {"--device", CLI_TEXT, &o.uri, .words = "URI", .help = "device to probe", .given = &device_given},
        {"--output", CLI_TEXT, &o.output, .words = "FILE", .help = "report to write", .given = &output_given,
         .writes = "probe", .standard = "probe.json in this user's cache"},
        {"--only", CLI_TEXT, &o.only, .words = "ID,...", .help = "run only these tests, and print JSON",
         .given = &only_given},
        {"--all", CLI_SWITCH, &o.all,
         .help = "also run tests that take minutes or use other programs' slots on the engine"},
        {"--limit", CLI_INT, &o.limit, 1, 3600, .words = "SECONDS", .help = "time limit per test",
         .given = &limit_given, .standard = "the test's own"},
        {"--explain", CLI_TEXT, &explain, .words = "FILE", .help = "explain a report (on any machine)"},
        {"--forget", CLI_SWITCH, &forget, .help = "forget the results of earlier trials of the ane device"},
        {"--symbols", CLI_SWITCH, &symbols, .help = "list every Apple symbol that the ane driver uses"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "devices [flags]",
                         "Lists the devices of this build, with the reason if one cannot be used here.");
    if (code >= 0) return code;
    const char *alone = device_given   ? "--device"
                        : only_given   ? "--only"
                        : output_given ? "--output"
                        : limit_given  ? "--limit"
                        : o.all        ? "--all"
                                       : NULL;
    if (!probe && alone) return cli_misuse("devices", "%s is for --probe", alone);
    if (explain) return explain_report(explain);
    if (forget) return answers_forget();
    if (symbols) {
        probe_list_symbols();
        return CLI_OK;
    }
    if (probe && only_given && question_is_child()) {
        question_begin_child();
        return probe_ask_here(o.uri, o.only);
    }
    return probe ? probe_all(&o) : cmd_devices_list_devices();
}
