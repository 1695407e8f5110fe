/* SPDX-License-Identifier: MIT
 * A CBLAS that is loaded at run time for large matrix products. On Apple's systems the default library is Accelerate,
 * whose sgemm uses matrix units that NEON code does not reach. Owns the choice of a library (PROPANE_BLAS, --blas), its
 * loading, and a trial that refuses libraries whose products are wrong.
 *
 *   off             only Propane's kernels; on one instruction set, a result has the same bits on every machine
 *   auto            measures each product with a library and with Propane's kernels (gemm/gemm_choice.h). Looks for
 *                   Accelerate on Apple's systems, and for the usual names elsewhere; if no library is found, Propane's
 *                   kernels compute everything
 *   auto:LIBRARY    the same with this library
 *   LIBRARY         computes all large products, without measuring; a path, or a name that the system's loader finds
 *
 * The default is auto on Apple's systems and off elsewhere. Elsewhere Propane's kernels are as fast (docs/blas.md), and
 * an installed library must not change the bits of a result.
 *
 * If auto finds a library that cannot be used, or auto:LIBRARY cannot be loaded, Propane's kernels are used and the
 * reason is logged once. A LIBRARY without auto fails with the reason.
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
    const char *identity; /* the file with its size and time, or with the system's release; part of the cache's key */
    cpu_blas_sgemm sgemm;
    bool measured;      /* auto: used only if it is faster */
    bool single;        /* runs on the calling thread only, so the pool calls it from several threads */
    double least_flops; /* of a product; below it, a call and a row of the table do not pay */
} cpu_blas;

/* Overrides PROPANE_BLAS for devices that are opened afterwards. NULL or "" restores the variable. The text is
 * copied. */
PROPANE_CHECK propane_status cpu_blas_choose(const char *how, propane_error *err);
/* Sets *out to the library for a cpu device that is opened now, or to NULL if only Propane's kernels are to be used. A
 * usable library is loaded once per process and name, and never unloaded. Callable from any thread. */
PROPANE_CHECK propane_status cpu_blas_current(const cpu_blas **out, propane_error *err);

/* Counts of the large products that have run in this process, and of their floating-point operations. */
typedef struct cpu_blas_counts {
    int64_t own, library;
    double own_flops, library_flops;
} cpu_blas_counts;
void cpu_blas_count(bool library, double flops);
cpu_blas_counts cpu_blas_counted(void);

#endif
