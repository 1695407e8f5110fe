/* SPDX-License-Identifier: MIT
 * Owns the reading of ops.def's CPU column.
 */
#include "cpu/cpu_family.h"

#include "core/mil/ops.h"
#include "cpu/simd/elementwise.h"

#define CPU_NONE 0

static const struct {
    cpu_family family;
    int code;
} family_rows[MIL_OP_COUNT] = {
#define CPU(family, code)                                       {CPU_FAMILY_##family, (int)CPU_##code}
#define OP(name, since, in, shape, eval, cost, draw, grad, cpu) [MIL_OP_##name] = cpu,
#include "core/mil/ops.def"
};

cpu_family cpu_family_named(const mil_op *op) { return family_rows[op->info->code].family; }

int cpu_code_of(const mil_op *op) { return family_rows[op->info->code].code; }
