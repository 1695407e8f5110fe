/* SPDX-License-Identifier: MIT
 * A cpu_gemm done by a CBLAS (cpu/blas.h): the same description, batch, transposes, pieces of k, residual, sums and
 * squares, other bits. What sgemm does not read as it lies, fp16, operands that are rounded to bfloat16, odd strides,
 * is converted block by block into scratch.
 */
#ifndef CPU_GEMM_GEMM_BLAS_H
#define CPU_GEMM_GEMM_BLAS_H

#include "cpu/blas.h"
#include "cpu/gemm/gemm.h"

/* Large enough for a library to be worth a call, of operands as they lie in memory, and C's rows or columns contiguous.
 * What is packed, or made of stored weights, is for the own kernels. */
bool cpu_gemm_blas_takes(const cpu_blas *blas, const cpu_gemm *g);
/* Scratch of cpu_gemm_blas_run with that many threads. */
size_t cpu_gemm_blas_scratch_bytes(const cpu_blas *blas, const cpu_gemm *g, int threads);
/* As cpu_gemm_run; `next` and `kernels` are not used. The bits may depend on the library and on the number of
 * threads. */
void cpu_gemm_blas_run(const cpu_blas *blas, const cpu_gemm *g, void *scratch);

#endif
