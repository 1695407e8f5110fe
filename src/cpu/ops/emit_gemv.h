/* SPDX-License-Identifier: MIT
 * What emit_matmul.c passes to emit_gemv.c about a possible product of weights and a few vectors.
 */
#ifndef CPU_OPS_EMIT_GEMV_H
#define CPU_OPS_EMIT_GEMV_H

#include "cpu/gemv/gemv.h"
#include "cpu/plan/emit.h"

typedef struct cpu_emit_vectors {
    cpu_weights format;
    int64_t m, k, n;
    cpu_view w, x, c, residual; /* only their buffers and offsets are used */
    int64_t w_row, w_col;
    const mil_value *scales;
    cpu_matrix_view x_matrix, c_matrix, residual_matrix;
    bool has_residual;
} cpu_emit_vectors;

bool cpu_emit_takes_gemv(const planner *p, const cpu_emit_vectors *v);
PROPANE_CHECK propane_status cpu_emit_gemv(planner *p, const cpu_emit_vectors *v, const mil_value *makes,
                                           propane_error *err);

#endif
