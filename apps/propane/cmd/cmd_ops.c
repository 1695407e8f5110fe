/* SPDX-License-Identifier: MIT
 * propane ops: prints the table of operations (ops.def) as a table or as JSON lines, so that no other list is needed.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "propane.h"

static propane_op_info cmd_ops_row(int index) {
    propane_op_info info = {.size = sizeof info};
    (void)propane_op_get(index, &info);
    return info;
}

static propane_op_parameter cmd_ops_parameter(int index, int parameter) {
    propane_op_parameter p = {.size = sizeof p};
    (void)propane_op_get_parameter(index, parameter, &p);
    return p;
}

static void cmd_ops_print_row(int index) {
    const propane_op_info info = cmd_ops_row(index);
    printf("%-28s %-6s %-18s", info.name, info.since, info.gradient);
    for (int i = 0; i < info.parameter_count; i++) {
        const propane_op_parameter p = cmd_ops_parameter(index, i);
        printf("%s%s%s: %s", i ? ", " : " ", p.name, strcmp(p.need, "variadic") == 0 ? "..." : "", p.class_name);
        if (strcmp(p.need, "optional") == 0) printf(" = %s", p.standard ? p.standard : "none");
    }
    printf("\n");
}

static void cmd_ops_print_json(int index) {
    const propane_op_info info = cmd_ops_row(index);
    printf("{\"op\":\"%s\",\"since\":\"%s\",\"gradient\":\"%s\",\"cpu\":\"%s\",\"parameters\":[", info.name, info.since,
           info.gradient, info.cpu);
    for (int i = 0; i < info.parameter_count; i++) {
        const propane_op_parameter p = cmd_ops_parameter(index, i);
        printf("%s{\"name\":\"%s\",\"class\":\"%s\",\"need\":\"%s\"", i ? "," : "", p.name, p.class_name,
               strcmp(p.need, "captured") == 0 ? "variadic" : p.need);
        if (p.standard) printf(",\"default\":\"%s\"", p.standard);
        printf("}");
    }
    printf("]}\n");
}

/* ---- coverage ------------------------------------------------------------------------------------------------------- */

typedef enum cover { COVER_KERNEL, COVER_FOLDED, COVER_REFERENCE, COVER_MISSING, COVER_COUNT } cover;

static cover cmd_ops_cover_of(const propane_op_info *info) {
    if (!strcmp(info->name, "const") || !strcmp(info->cpu, "fold") || info->stateful)
        return COVER_FOLDED; /* operations on states are gone, because states become parameters */
    if (!info->evaluated || !strcmp(info->cpu, "none")) return COVER_MISSING;
    return strcmp(info->cpu, "reference") ? COVER_KERNEL : COVER_REFERENCE;
}

/* Prints the names of the operations for which `is` returns true, under a title and with line breaks. */
static void cmd_ops_print_names(const char *title, bool (*is)(const propane_op_info *)) {
    int column = 0, count = 0;
    for (int i = 0; i < propane_op_count(); i++) {
        const propane_op_info info = cmd_ops_row(i);
        count += is(&info);
    }
    printf("\n%s: %d\n", title, count);
    for (int i = 0; i < propane_op_count(); i++) {
        const propane_op_info info = cmd_ops_row(i);
        if (!is(&info)) continue;
        const int length = (int)strlen(info.name);
        if (column && column + 1 + length > 118) column = 0, printf("\n");
        column += printf("%s%s", column ? " " : "  ", info.name);
    }
    if (column) printf("\n");
}

static bool cmd_ops_is_missing(const propane_op_info *info) { return cmd_ops_cover_of(info) == COVER_MISSING; }
static bool cmd_ops_is_reference(const propane_op_info *info) { return cmd_ops_cover_of(info) == COVER_REFERENCE; }
static bool cmd_ops_has_no_gradient(const propane_op_info *info) { return !strcmp(info->gradient, "none"); }

static void cmd_ops_print_coverage(void) {
    printf("%-8s %10s %10s %10s %10s %10s\n", "opset", "operations", "kernel", "folded", "reference", "missing");
    static const char *const opsets[] = {"ios15", "ios16", "ios17", "ios18"}; /* each opset includes those before it */
    for (int opset = 0; opset < 4; opset++) {
        int count[COVER_COUNT] = {0}, total = 0;
        for (int i = 0; i < propane_op_count(); i++) {
            const propane_op_info info = cmd_ops_row(i);
            if (strcmp(info.since, opsets[opset]) > 0) continue;
            count[cmd_ops_cover_of(&info)]++;
            total++;
        }
        printf("%-8s %10d %10d %10d %10d %10d\n", opsets[opset], total, count[COVER_KERNEL], count[COVER_FOLDED],
               count[COVER_REFERENCE], count[COVER_MISSING]);
    }
    cmd_ops_print_names("missing (read and checked, not run)", cmd_ops_is_missing);
    cmd_ops_print_names("run by the slow reference", cmd_ops_is_reference);
    cmd_ops_print_names("without a gradient", cmd_ops_has_no_gradient);
}

int cmd_ops(int argc, char **argv) {
    bool json = false, coverage = false;
    const cli_flag flags[] = {
        {"--json", CLI_SWITCH, &json, .help = "print one JSON object per line"},
        {"--coverage", CLI_SWITCH, &coverage,
         .help = "print how many operations of each opset the cpu driver supports, and how"},
    };
    int code = cli_parse(argc, argv, flags, 2, "ops [--json | --coverage]",
                         "Lists the MIL operations with their first opset, gradient rule and parameters.");
    if (code >= 0) return code;
    if (json && coverage) return cli_misuse("ops", "give --json or --coverage, not both");
    if (coverage) {
        cmd_ops_print_coverage();
        return CLI_OK;
    }
    for (int i = 0; i < propane_op_count(); i++) (json ? cmd_ops_print_json : cmd_ops_print_row)(i);
    return CLI_OK;
}
