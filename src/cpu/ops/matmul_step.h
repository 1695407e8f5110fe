/* SPDX-License-Identifier: MIT
 * A product as a step of a plan: what emit_matmul.c decides and matmul_step.c runs.
 */
#ifndef CPU_OPS_MATMUL_STEP_H
#define CPU_OPS_MATMUL_STEP_H

#include "cpu/blas.h"
#include "cpu/cpu_program.h"
#include "cpu/gemm/gemm.h"

typedef struct matmul_step {
    cpu_gemm g;
    const cpu_blas *blas; /* the library does it; NULL: the own kernels */
    bool counted;         /* it is one that a library was asked for */
    cpu_ref at[4];
    cpu_matrix residual;
    bool has_residual, packed_a, packed_b, has_stored;
    bool packs_b, reads_b; /* packed_at[1] is made by this product; is what one before has made */
    int step;
    cpu_stored stored; /* weights that A is made of */
    cpu_ref scales;
    cpu_ref packed_at[2];
    cpu_ref scratch, table;
    int64_t *offset[4]; /* bytes of each batch item; NULL: one stride leads from each to the next */
    cpu_ref squares_at;
    bool has_squares;
    int64_t rounds;           /* of a sum over the batch, one product after the other */
    int64_t *round_offset[2]; /* A, B */
} matmul_step;

/* A cpu_step_run; the arguments are a matmul_step. */
propane_status matmul_step_run(const cpu_run *run, const void *args, propane_error *err);
/* Bytes of a->scratch, once all else is decided. */
int64_t matmul_step_scratch(const matmul_step *a, int threads);

#endif
