/* SPDX-License-Identifier: MIT
 * A matrix product as a step of a plan: emit_matmul.c plans the step and matmul_step.c runs it.
 */
#ifndef CPU_OPS_MATMUL_STEP_H
#define CPU_OPS_MATMUL_STEP_H

#include "cpu/blas.h"
#include "cpu/cpu_program.h"
#include "cpu/gemm/gemm.h"

typedef struct matmul_step {
    cpu_gemm g;
    const cpu_blas *blas; /* the library that computes the product; NULL for Propane's kernels */
    bool counted;         /* a library was considered for the product */
    cpu_ref at[4];
    cpu_matrix residual;
    bool has_residual, packed_a, packed_b, has_stored;
    bool packs_b, reads_b; /* packs_b: this product makes packed_at[1]; reads_b: an earlier product has made it */
    int step;
    cpu_stored stored; /* the stored weights for A */
    cpu_ref scales;
    cpu_ref packed_at[2];
    cpu_ref scratch, table;
    int64_t *offset[4]; /* byte offset of each batch item; NULL if a single stride leads from each item to the next */
    cpu_ref squares_at;
    bool has_squares;
    int64_t rounds;           /* for a sum over the batch: number of products that run one after the other */
    int64_t *round_offset[2]; /* A, B */
} matmul_step;

/* A cpu_step_run whose arguments are a matmul_step. */
propane_status matmul_step_run(const cpu_run *run, const void *args, propane_error *err);
/* Returns the bytes that a->scratch needs, once everything else in `a` is set. */
int64_t matmul_step_scratch(const matmul_step *a, int threads);

#endif
