/* SPDX-License-Identifier: MIT
 * The content of ops.def's CPU column: an operation's family (families.def) and, if the family serves several rows, the
 * kernel's code. These are only names; plan/table.h and lower/lower.h describe what a family does.
 */
#ifndef CPU_CPU_FAMILY_H
#define CPU_CPU_FAMILY_H

#include "core/mil/mil.h"

typedef enum cpu_family {
#define FAMILY(name)   CPU_FAMILY_##name,
#define LOWERING(name) CPU_FAMILY_lower_##name,
#include "cpu/families.def"
    CPU_FAMILY_COUNT
} cpu_family;

/* How a reduction combines its elements. Its values are the codes of reductions in ops.def. */
typedef enum cpu_fold {
    CPU_FOLD_sum,
    CPU_FOLD_mean,
    CPU_FOLD_max,
    CPU_FOLD_min,
    CPU_FOLD_prod,
    CPU_FOLD_l1,
    CPU_FOLD_l2,
    CPU_FOLD_sum_square,
    CPU_FOLD_log_sum,
    CPU_FOLD_log_sum_exp
} cpu_fold;

cpu_family cpu_family_named(const mil_op *op);
int cpu_code_of(const mil_op *op);

#endif
