/* SPDX-License-Identifier: MIT
 * The kernels of NEON on aarch64.
 */
#include "cpu/simd/kernels.h"

#if defined(__aarch64__)
#include "cpu/simd/vec_neon.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA      neon
#define GEMM_TYPE       f32
#define GEMM_HEIGHTS(X) X(4) X(8)
#define GEMM_STEP       4
#define GEMM_MR         8
#define GEMM_NRV        3
#define GEMM_NR         12
#define GEMM_PAIR       1
#define CONV_HALF       4
#define CONV_NRV        3
#define CONV_NR         12
#include "cpu/simd/body/every_body.h"

bool cpu_kernels_neon(cpu_kernels *k) {
    every_kernel(k);
    return true;
}
#else
bool cpu_kernels_neon(cpu_kernels *k) {
    (void)k;
    return false;
}
#endif
