/* SPDX-License-Identifier: MIT
 * Recognizes matrix products that need no arithmetic. A constant matrix on the left, with a single 1 or -1 in each row,
 * picks rows of the other operand and sets their signs (RoPE's rotation of halves). Row i of the result is `sign` times
 * row `line` of that operand, as given by pick i.
 *
 * Vectors, and matrices with an extent of 1, are not recognized.
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
/* Returns one pick per row of the result, or NULL if memory runs out or `op` is no such product. */
const cpu_signed_row *cpu_signed_rows_read(arena *a, const mil_op *op);

#endif
