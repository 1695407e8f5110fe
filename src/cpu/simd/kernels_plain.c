/* SPDX-License-Identifier: MIT
 * The kernels in plain C, for any machine and as the reference for all others, and the block sizes that every
 * instruction set starts with.
 */
#include "cpu/simd/vec_plain.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA      plain
#define GEMM_TYPE       f32
#define GEMM_HEIGHTS(X) X(4)
#define GEMM_STEP       4
#define GEMM_MR         4
#define GEMM_NRV        4
#define GEMM_NR         4
#define GEMM_PAIR       1
#define CONV_HALF       2
#define CONV_NRV        4
#define CONV_NR         4
#include "cpu/simd/body/every_body.h"

bool cpu_kernels_plain(cpu_kernels *k) {
    *k = (cpu_kernels){.isa = CPU_ISA_PLAIN};
    every_kernel(k);
    k->gemm_sizes = (cpu_gemm_sizes){.kc_whole = 1024,
                                     .kc_tall = 1024,
                                     .kc = 768,
                                     .nc = 256,
                                     .nc_bytes = 768 << 10,
                                     .mc_along = 24,
                                     .mc_across = 48,
                                     .mc_many = 96,
                                     .b_bytes = 1 << 20,
                                     .inline_flops = 4e5,
                                     .inline_vector_flops = 1e5,
                                     .whole_item_flops = 4e7};
    k->attention_sizes = (cpu_attention_sizes){.span = 256, .backward_rows = 128, .ahead_bytes = 512 << 10};
    k->gemv_sizes = (cpu_gemv_sizes){.task_most = 1 << 16, .task_least = 1 << 13, .tasks = 8, .inline_bytes = 1 << 15};
    return true;
}
