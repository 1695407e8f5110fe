/* SPDX-License-Identifier: MIT
 * Matrix products without arithmetic: a constant matrix on the left, with a single 1 or -1 in each row, picks rows of
 * the other operand and sets their signs (RoPE's rotation of halves). Row i of the result is `sign` times row `line`.
 *
 * Vectors are refused, because they have no rows.
 */
#ifndef CPU_SIGNED_ROWS_H
#define CPU_SIGNED_ROWS_H

#include "core/base/arena.h"
#include "core/mil/mil.h"

typedef struct cpu_signed_row {
    int32_t line;
    float sign;
} cpu_signed_row;

bool cpu_signed_rows_is(const mil_op *op);
/* Returns one pick per row, or NULL if memory runs out. */
const cpu_signed_row *cpu_signed_rows_read(arena *a, const mil_op *op);

#endif
