/* SPDX-License-Identifier: MIT
 * Chooses whether Propane's kernels or the library (cpu/blas.h) compute a large matrix product. Measured once per
 * machine, shape and library, when a program is planned, and kept in a file, so that later processes make the same
 * choice and produce the same bits.
 *
 * The file is propane/products.txt in XDG_CACHE_HOME, or else in ~/Library/Caches on Apple's systems and ~/.cache
 * elsewhere. It has one line per shape, with both times, and may be removed at any time. If it cannot be written, each
 * process measures again.
 */
#ifndef CPU_GEMM_GEMM_CHOICE_H
#define CPU_GEMM_GEMM_CHOICE_H

#include "cpu/blas.h"
#include "cpu/gemm/gemm.h"

/* Returns true if the library should compute it (cpu_gemm_blas_run). Addresses in `g` are not used. Returns false if
 * `blas` is NULL. Any thread may call. */
bool cpu_gemm_choose_blas(const cpu_blas *blas, const cpu_gemm *g);

#endif
