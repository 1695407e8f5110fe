/* SPDX-License-Identifier: MIT
 * Which of the two does a large product: the own kernels or the library (cpu/blas.h). Measured once a machine, a shape
 * and a library, when a program is planned, and kept in a file, so that later processes choose the same and have the
 * same bits.
 *
 * The file is propane/products.txt in XDG_CACHE_HOME, or else in ~/Library/Caches on Apple's systems, ~/.cache
 * elsewhere: a line a shape, with both times. It may be removed at any time. Where it cannot be written each process
 * measures for itself.
 */
#ifndef CPU_GEMM_GEMM_CHOICE_H
#define CPU_GEMM_GEMM_CHOICE_H

#include "cpu/blas.h"
#include "cpu/gemm/gemm.h"

/* True: the library does it (cpu_gemm_blas_run). Addresses of `g` are not used; `blas` NULL: false. Any thread. */
bool cpu_gemm_choose_blas(const cpu_blas *blas, const cpu_gemm *g);

#endif
