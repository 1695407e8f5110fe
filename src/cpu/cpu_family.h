/* SPDX-License-Identifier: MIT
 * What ops.def's CPU column says of an operation: its family (families.def) and, where the family serves several rows,
 * the kernel's code. Names only: what a family does is in plan/table.h and lower/lower.h.
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

/* How a reduction row combines its elements: the code of its rows. */
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
