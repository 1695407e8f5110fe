/* SPDX-License-Identifier: MIT
 * propane ops: the rows of ops.def as a table or as JSON lines, so that no other list of operations is needed.
 */
#include <stdio.h>

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
    [MIL_CLASS_K_TENSOR] = "const",
};

static void print_row(const mil_op_info *info) {
    printf("%-28s %-6s %-18s", info->name, mil_opset_name(info->since), columns[info->code].grad);
    for (int i = 0; i < info->param_count; i++) {
        const mil_param *p = &info->params[i];
        printf("%s%s%s: %s", i ? ", " : " ", p->name, p->need == MIL_VARIADIC ? "..." : "", class_names[p->klass]);
        if (p->need == MIL_OPTIONAL) printf(" = %s", p->standard ? p->standard : "none");
    }
    printf("\n");
}

static void print_json(const mil_op_info *info) {
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

int cmd_ops(int argc, char **argv) {
    bool json = false;
    const cli_flag flags[] = {{"--json", CLI_SWITCH, &json, .help = "one JSON object a line"}};
    int code = cli_parse(argc, argv, flags, 1, "ops [--json]",
                         "Lists the MIL operations: name, first opset, gradient rule, parameters.");
    if (code >= 0) return code;
    for (int i = 0; i < MIL_OP_COUNT; i++) (json ? print_json : print_row)(mil_op_get((mil_opcode)i));
    return CLI_OK;
}
