/* SPDX-License-Identifier: MIT
 * propane ops: the rows of ops.def as a table or as JSON lines, so that no other list of operations is needed.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "mil/ops.h"

/* The columns of other layers, as words. */
static const struct {
    const char *grad, *cpu;
} columns[] = {
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) {grad, cpu},
#define GRAD(rule)                                             #rule
#define CPU(bind, ...)                                         #bind
#include "mil/ops.def"
};

static const char *const class_names[] = {
    [MIL_CLASS_FLOAT] = "float",
    [MIL_CLASS_NUM] = "number",
    [MIL_CLASS_TENSOR] = "tensor",
    [MIL_CLASS_BOOL] = "bool",
    [MIL_CLASS_INT] = "int",
    [MIL_CLASS_WEIGHT] = "float",
    [MIL_CLASS_SHAPE] = "shape of",
    [MIL_CLASS_ANY] = "tensor|list",
    [MIL_CLASS_STATE] = "state",
    [MIL_CLASS_LIST] = "list",
    [MIL_CLASS_QUANT] = "int8|uint8",
    [MIL_CLASS_K_INT] = "const int",
    [MIL_CLASS_K_INTS] = "const ints",
    [MIL_CLASS_K_BOOL] = "const bool",
    [MIL_CLASS_K_BOOLS] = "const bools",
    [MIL_CLASS_K_TEXT] = "const string",
    [MIL_CLASS_K_FLOAT] = "const float",
    [MIL_CLASS_K_NUM] = "const number",
    [MIL_CLASS_K_TENSOR] = "const",
};

static void cmd_ops_print_row(const mil_op_info *info) {
    printf("%-28s %-6s %-18s", info->name, mil_opset_name(info->since), columns[info->code].grad);
    for (int i = 0; i < info->param_count; i++) {
        const mil_param *p = &info->params[i];
        printf("%s%s%s: %s", i ? ", " : " ", p->name, p->need == MIL_VARIADIC ? "..." : "", class_names[p->klass]);
        if (p->need == MIL_OPTIONAL) printf(" = %s", p->standard ? p->standard : "none");
    }
    printf("\n");
}

static void cmd_ops_print_json(const mil_op_info *info) {
    printf("{\"op\":\"%s\",\"since\":\"%s\",\"gradient\":\"%s\",\"cpu\":\"%s\",\"parameters\":[", info->name,
           mil_opset_name(info->since), columns[info->code].grad, columns[info->code].cpu);
    for (int i = 0; i < info->param_count; i++) {
        const mil_param *p = &info->params[i];
        printf("%s{\"name\":\"%s\",\"class\":\"%s\",\"need\":\"%s\"", i ? "," : "", p->name, class_names[p->klass],
               p->need == MIL_REQUIRED   ? "required"
               : p->need == MIL_OPTIONAL ? "optional"
                                         : "variadic");
        if (p->standard) printf(",\"default\":\"%s\"", p->standard);
        printf("}");
    }
    printf("]}\n");
}

/* ---- coverage ------------------------------------------------------------------------------------------------------- */

typedef enum cover { COVER_KERNEL, COVER_FOLDED, COVER_REFERENCE, COVER_MISSING, COVER_COUNT } cover;

static cover cmd_ops_cover_of(const mil_op_info *info) {
    const char *cpu = columns[info->code].cpu;
    if (info->code == MIL_OP_const || !strcmp(cpu, "fold")) return COVER_FOLDED;
    if (info->params[0].klass == MIL_CLASS_STATE) return COVER_FOLDED; /* a pass makes parameters and results of them */
    if (!info->eval || !strcmp(cpu, "none")) return COVER_MISSING;
    return strcmp(cpu, "reference") ? COVER_KERNEL : COVER_REFERENCE;
}

/* One line of names, wrapped. */
static void cmd_ops_print_names(const char *title, bool (*is)(const mil_op_info *)) {
    int column = 0, count = 0;
    for (int i = 0; i < MIL_OP_COUNT; i++) count += is(mil_op_get((mil_opcode)i));
    printf("\n%s: %d\n", title, count);
    for (int i = 0; i < MIL_OP_COUNT; i++) {
        const mil_op_info *info = mil_op_get((mil_opcode)i);
        if (!is(info)) continue;
        const int length = (int)strlen(info->name);
        if (column && column + 1 + length > 118) column = 0, printf("\n");
        column += printf("%s%s", column ? " " : "  ", info->name);
    }
    if (column) printf("\n");
}

static bool cmd_ops_is_missing(const mil_op_info *info) { return cmd_ops_cover_of(info) == COVER_MISSING; }
static bool cmd_ops_is_reference(const mil_op_info *info) { return cmd_ops_cover_of(info) == COVER_REFERENCE; }
static bool cmd_ops_has_no_gradient(const mil_op_info *info) { return !strcmp(columns[info->code].grad, "none"); }

static void cmd_ops_print_coverage(void) {
    printf("%-8s %10s %10s %10s %10s %10s\n", "opset", "operations", "kernel", "folded", "reference", "missing");
    for (mil_opset opset = MIL_IOS15; opset <= MIL_IOS18; opset = (mil_opset)(opset + 1)) {
        int count[COVER_COUNT] = {0}, total = 0;
        for (int i = 0; i < MIL_OP_COUNT; i++) {
            const mil_op_info *info = mil_op_get((mil_opcode)i);
            if (info->since > opset) continue;
            count[cmd_ops_cover_of(info)]++;
            total++;
        }
        printf("%-8s %10d %10d %10d %10d %10d\n", mil_opset_name(opset), total, count[COVER_KERNEL],
               count[COVER_FOLDED], count[COVER_REFERENCE], count[COVER_MISSING]);
    }
    cmd_ops_print_names("missing (read and checked, not run)", cmd_ops_is_missing);
    cmd_ops_print_names("run by the slow reference", cmd_ops_is_reference);
    cmd_ops_print_names("without a gradient", cmd_ops_has_no_gradient);
}

int cmd_ops(int argc, char **argv) {
    bool json = false, coverage = false;
    const cli_flag flags[] = {
        {"--json", CLI_SWITCH, &json, .help = "one JSON object a line"},
        {"--coverage", CLI_SWITCH, &coverage, .help = "how many operations of each opset the cpu driver runs, and how"},
    };
    int code = cli_parse(argc, argv, flags, 2, "ops [--json | --coverage]",
                         "Lists the MIL operations: name, first opset, gradient rule, parameters.");
    if (code >= 0) return code;
    if (json && coverage) return cli_misuse("ops", "--json and --coverage do not go together");
    if (coverage) {
        cmd_ops_print_coverage();
        return CLI_OK;
    }
    for (int i = 0; i < MIL_OP_COUNT; i++) (json ? cmd_ops_print_json : cmd_ops_print_row)(mil_op_get((mil_opcode)i));
    return CLI_OK;
}
