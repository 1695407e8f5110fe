/* SPDX-License-Identifier: MIT
 * Products that compute nothing: a constant matrix with a single 1 or -1 in each of its rows, on the left, takes rows
 * of the other operand and gives them signs (RoPE's rotation of halves). Row i of the result is `sign` times row
 * `line`.
 *
 * Refused: vectors (nothing is a row then).
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
/* One for each row; NULL: no memory. */
const cpu_signed_row *cpu_signed_rows_read(arena *a, const mil_op *op);

#endif
