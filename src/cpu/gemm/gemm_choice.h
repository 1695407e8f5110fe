/* SPDX-License-Identifier: MIT
 * Chooses whether Propane's kernels or the library (cpu/blas.h) compute a large matrix product, and compares fp32
 * operands with bf16 ones. Both ways are measured once per machine, shape and library, when a program is planned or a
 * run begins. The times are kept in a file, so that later processes make the same choice and produce the same bits.
 *
 * The file is propane/products.txt in XDG_CACHE_HOME, or else in ~/Library/Caches on Apple's systems and ~/.cache
 * elsewhere. It has one line per shape, with both times, and may be removed at any time. If it cannot be written, each
 * process measures again.
 */
#ifndef CPU_GEMM_GEMM_CHOICE_H
#define CPU_GEMM_GEMM_CHOICE_H

#include "cpu/blas.h"
#include "cpu/gemm/gemm.h"

/* Returns true if the library should compute the product with cpu_gemm_blas_run, and false if `blas` is NULL. Addresses
 * in `g` are not used. Callable from any thread. */
bool cpu_gemm_choose_blas(const cpu_blas *blas, const cpu_gemm *g);

/* The second of two ways is better only if it takes less than this fraction of the first way's time. */
extern const double cpu_gemm_choice_margin;

typedef struct cpu_gemm_types {
    int64_t fp32_ns, bf16_ns;
    bool agreed; /* the times were reproduced */
} cpu_gemm_types;

/* Adds the product's times with fp32 and with bf16 operands to *sum, each computed as a program would compute it, but
 * on one thread if the library computes neither. Clears sum->agreed if other work on the machine affected them, if the
 * product is too small to measure (4 MFLOP), if the library computes both, or if there is no memory for it. `g->bf16`
 * is not used. Callable from any thread. */
void cpu_gemm_compare_bf16(const cpu_blas *blas, const cpu_gemm *g, cpu_gemm_types *sum);

#endif
