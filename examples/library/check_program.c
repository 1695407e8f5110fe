/* SPDX-License-Identifier: MIT
 * Reports whether a Neural Engine accepts a program, and how long it takes: check_program FILE CHIPS. Both are
 * answered without an engine: by the known rules, and by a model fitted to published measurements.
 */
#include <stdio.h>

#include "propane.h"

static void print_findings(const propane_report *r) {
    static const char *const words[] = {"note", "warning", "refused"};
    propane_finding f = {.size = sizeof f};
    propane_verdict v = {.size = sizeof v};
    for (int i = 0; propane_report_get(r, i, &f); i++)
        printf("%s %s at %s: %s (%s)\n", words[f.severity], f.rule, f.op ? f.op : "the program", f.message, f.evidence);
    for (int i = 0; propane_report_verdict(r, i, &v); i++)
        printf("%s: %d refusals, %d warnings\n", v.chip, v.refusals, v.warnings);
}

static void print_costs(const propane_estimate *e) {
    propane_estimate_row row = {.size = sizeof row};
    propane_estimate_op op = {.size = sizeof op};
    for (int i = 0; propane_estimate_get(e, i, &row); i++) {
        printf("%s, %s: %.3f ms (%.3f to %.3f), %.3f mJ, estimated\n", row.chip, row.function, row.ms, row.low_ms,
               row.high_ms, row.energy_mj);
        for (int k = 0; propane_estimate_get_op(e, i, k, &op); k++)
            if (op.ms > 0) printf("    %-12s %8.2f us, bound by %s\n", op.op, 1000 * op.ms, op.bound);
    }
}

int main(int argc, char **argv) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_report *r = NULL;
    propane_estimate *e = NULL;
    if (argc != 3) {
        fprintf(stderr, "usage: check_program FILE CHIPS\n");
        return 2;
    }
    const propane_check_options rules = {.size = sizeof rules, .target = argv[2]};
    const propane_estimate_options costs = {.size = sizeof costs, .target = argv[2]};
    propane_status status = propane_check_file(argv[1], &rules, &r, &err);
    if (!status) print_findings(r);
    if (!status) status = propane_module_read(argv[1], &m, &err);
    if (!status) status = propane_estimate_module(m, &costs, &e, &err);
    if (!status) print_costs(e);
    propane_estimate_free(e); /* freed before its module */
    propane_module_free(m);
    propane_report_free(r);
    if (status) fprintf(stderr, "check_program: %s\n", err.text);
    return status != PROPANE_OK;
}
