/* SPDX-License-Identifier: MIT
 * Owns the rows of ops.def as a table. The columns for rules and evaluations name functions of core/mil/ops/shape_*.c
 * and core/mil/eval/eval_*.c; a row that names a missing function does not link.
 */
#include "core/mil/ops.h"

#include <string.h>

/* First reading: declares the functions that the rows name. */
#define SHAPE(x)                                               propane_status mil_shape_rule_##x(const mil_op *op, mil_type *out, int *out_count, propane_error *err);
#define EVAL(x)                                                propane_status mil_eval_##x(const mil_eval_args *a, propane_error *err);
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) rule eval
#include "core/mil/ops.def"

#define mil_shape_rule_none NULL
#define mil_eval_none       NULL

/* Second reading: builds the table. */
#define REQ(name, type_class)           {#name, MIL_CLASS_##type_class, MIL_REQUIRED, NULL, 0}
#define OPT(name, type_class, standard) {#name, MIL_CLASS_##type_class, MIL_OPTIONAL, standard, 0}
#define VAR(name, type_class)           {#name, MIL_CLASS_##type_class, MIL_VARIADIC, NULL, 0}
#define CAP(name, blocks)               {#name, MIL_CLASS_ANY, MIL_CAPTURED, NULL, blocks}
#define IN(...)                                                                                                        \
    (int)(sizeof((mil_param[]){__VA_ARGS__}) / sizeof(mil_param)), { __VA_ARGS__ }
#define SHAPE(x) mil_shape_rule_##x
#define EVAL(x)  mil_eval_##x
#define COST(x)  x
#define DRAW(x)  MIL_DRAW_##x
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu)                                                         \
    {#name, MIL_OP_##name, MIL_##since, in, rule, eval, cost, draw},
static const mil_op_info table[MIL_OP_COUNT] = {
#include "core/mil/ops.def"
};

/* Third reading: collects the lengths of names, so that a search compares few names. */
#define OP(name, since, in, rule, eval, cost, draw, grad, cpu) sizeof #name - 1,
static const unsigned char name_lengths[MIL_OP_COUNT] = {
#include "core/mil/ops.def"
};

const mil_op_info *mil_op_get(mil_opcode code) { return code < MIL_OP_COUNT ? &table[code] : NULL; }

const mil_op_info *mil_op_find(const char *name, size_t length) {
    for (int i = 0; i < MIL_OP_COUNT; i++)
        if (name_lengths[i] == length && table[i].name[0] == name[0] && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}

int mil_op_param(const mil_op_info *info, const char *name) {
    for (int i = 0; i < info->param_count; i++)
        if (strcmp(info->params[i].name, name) == 0) return i;
    return -1;
}

int mil_op_captured(const mil_op_info *info) {
    for (int i = 0; i < info->param_count; i++)
        if (info->params[i].need == MIL_CAPTURED) return i;
    return -1;
}

bool mil_op_compressed(const mil_op *op) { return strncmp(op->info->name, "constexpr_", 10) == 0; }

int mil_op_blocks(const mil_op_info *info) {
    int captured = mil_op_captured(info);
    return captured < 0 ? 0 : info->params[captured].blocks;
}
