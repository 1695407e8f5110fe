/* SPDX-License-Identifier: MIT
 * A CBLAS that is loaded at run time, for large products: on Apple's systems Accelerate, whose sgemm runs on matrix
 * units that NEON code does not reach. Owns the choice of one (PROPANE_BLAS, --blas), loading it, and a trial: a
 * library whose products are wrong is refused.
 *
 *   off             the driver's own kernels alone; a result's bits are those of this instruction set on every machine
 *   auto            measured against the own kernels, product by product (gemm/gemm_choice.h). It looks for Accelerate on Apple's
 *                   systems, and for the usual names elsewhere; where there is none, the own kernels do everything
 *   auto:LIBRARY    the same with this library
 *   LIBRARY         it does all large products, unmeasured; a path, or a name that the system's loader knows
 *
 * Not said: auto on Apple's systems, off elsewhere. There the own kernels are as fast (docs/blas.md), and what somebody
 * has installed shall not change a result's bits.
 *
 * auto falls back to the own kernels with a sentence to the log where a library is found and cannot be used; a LIBRARY
 * that was named fails with the reason.
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
    const char *name;     /* as the loader was asked for it */
    const char *identity; /* name and version: the cache's key */
    cpu_blas_sgemm sgemm;
    bool measured;      /* auto: only where it is faster */
    bool single;        /* it is set to use the calling thread alone: the pool calls it from several */
    double least_flops; /* of a product; below, a call and a row of the table cost more than they give */
} cpu_blas;

/* Instead of PROPANE_BLAS, for devices that are opened from now on; NULL: what the variable says. Copied. */
PROPANE_CHECK propane_status cpu_blas_choose(const char *how, propane_error *err);
/* What a cpu device uses that is opened now; *out NULL: its own kernels alone. Loaded once a process and name, and
 * never unloaded. Any thread. */
PROPANE_CHECK propane_status cpu_blas_current(const cpu_blas **out, propane_error *err);

/* Large products run so far in this process, and their arithmetic. */
typedef struct cpu_blas_counts {
    int64_t own, library;
    double own_flops, library_flops;
} cpu_blas_counts;
void cpu_blas_count(bool library, double flops);
cpu_blas_counts cpu_blas_counted(void);

#endif
