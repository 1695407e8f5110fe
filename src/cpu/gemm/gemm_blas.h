/* SPDX-License-Identifier: MIT
 * Runs a cpu_gemm with a CBLAS (cpu/blas.h), including its batch, transposes, pieces of k, residual, sums and squares.
 * The bits of the result may differ from those of cpu_gemm_run. Operands that sgemm cannot read directly (fp16, rounded
 * to bfloat16, odd strides) are converted block by block into scratch.
 */
#ifndef CPU_GEMM_GEMM_BLAS_H
#define CPU_GEMM_GEMM_BLAS_H

#include "cpu/blas.h"
#include "cpu/gemm/gemm.h"

/* Returns true if the product is large enough for a library call, its operands are plain memory, and C's rows or
 * columns are contiguous. Packed operands and stored weights are left to Propane's kernels. */
bool cpu_gemm_blas_takes(const cpu_blas *blas, const cpu_gemm *g);
/* Returns the scratch size in bytes of cpu_gemm_blas_run with that many threads. */
size_t cpu_gemm_blas_scratch_bytes(const cpu_blas *blas, const cpu_gemm *g, int threads);
/* Like cpu_gemm_run, but ignores `next` and `kernels`. The bits may depend on the library and on the number of
 * threads. */
void cpu_gemm_blas_run(const cpu_blas *blas, const cpu_gemm *g, void *scratch);

#endif
