/* SPDX-License-Identifier: MIT
 * A CBLAS that is loaded at run time for large matrix products. On Apple's systems it is Accelerate, whose sgemm uses
 * matrix units that NEON code does not reach. Owns the choice of a library (PROPANE_BLAS, --blas), loading it, and a
 * trial: a library whose products are wrong is refused.
 *
 *   off             only Propane's kernels; on one instruction set, a result has the same bits on every machine
 *   auto            measured against Propane's kernels, product by product (gemm/gemm_choice.h). Looks for Accelerate
 *                   on Apple's systems, and for the usual names elsewhere; without one, Propane's kernels do
 *                   everything
 *   auto:LIBRARY    the same with this library
 *   LIBRARY         does all large products, unmeasured; a path, or a name that the system's loader knows
 *
 * The default is auto on Apple's systems and off elsewhere. Elsewhere Propane's kernels are as fast (docs/blas.md), and
 * an installed library must not change the bits of a result.
 *
 * If a library is found but cannot be used, auto falls back to Propane's kernels and logs a sentence. A LIBRARY given
 * by name fails with the reason.
 */
#ifndef CPU_BLAS_H
#define CPU_BLAS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* cblas_sgemm with 32-bit integers. */
typedef void (*cpu_blas_sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a,
                               int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { CPU_BLAS_ROWS = 101, CPU_BLAS_AS_IS = 111, CPU_BLAS_TURNED = 112 };

typedef struct cpu_blas {
    const char *name;     /* as passed to the loader */
    const char *identity; /* name and version: the cache's key */
    cpu_blas_sgemm sgemm;
    bool measured;      /* auto: used only if it is faster */
    bool single;        /* runs on the calling thread only, so the pool calls it from several */
    double least_flops; /* of a product; below it, a call and a row of the table cost more than they save */
} cpu_blas;

/* Overrides PROPANE_BLAS for devices opened afterwards; NULL means to follow the variable. The text is copied. */
PROPANE_CHECK propane_status cpu_blas_choose(const char *how, propane_error *err);
/* Returns the library for a cpu device that is opened now; *out is NULL if only Propane's kernels are to be used. A
 * library is loaded once per process and name, and never unloaded. Callable from any thread. */
PROPANE_CHECK propane_status cpu_blas_current(const cpu_blas **out, propane_error *err);

/* Large products run so far in this process, and their operations. */
typedef struct cpu_blas_counts {
    int64_t own, library;
    double own_flops, library_flops;
} cpu_blas_counts;
void cpu_blas_count(bool library, double flops);
cpu_blas_counts cpu_blas_counted(void);

#endif
