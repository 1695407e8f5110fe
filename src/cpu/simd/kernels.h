/* SPDX-License-Identifier: MIT
 * Everything that depends on the instruction set, in one context for each: kernels, and the sizes of blocks that suit
 * them. Whoever computes gets a `const cpu_kernels *` and asks for nothing else.
 *
 * A context begins as the plain one; kernels_<name>.c lays over it what that instruction set has of its own. So a new
 * set is a row of isa.def and one file, and may begin with a single kernel.
 *
 * Kernels are named by operation, type of the weights or sums, instruction set and tile: cpu_gemm_f32_avx2_6x16.
 */
#ifndef CPU_SIMD_KERNELS_H
#define CPU_SIMD_KERNELS_H

#include "core/base/isa.h"
#include "core/base/status.h"
#include "cpu/simd/array_ukernel.h"
#include "cpu/simd/attention_ukernel.h"
#include "cpu/simd/conv_ukernel.h"
#include "cpu/simd/elementwise.h"
#include "cpu/simd/gemm_ukernel.h"
#include "cpu/simd/gemv_ukernel.h"
#include "cpu/simd/reduce.h"
#include "cpu/simd/window_ukernel.h"

/* Bytes are of an L2 of 1 MB and scaled to the machine's (mem_l2_bytes). How k is cut decides the order of sums, so
 * the results' last bits; all other sizes decide speed alone. */
typedef struct cpu_gemm_sizes {
    int64_t kc_whole; /* elements of k that are one pass; */
    /* more are cut into passes of about this where C has more rows than columns, so that B is small, */
    int64_t kc_tall;
    int64_t kc;       /* or else of this */
    int64_t nc;       /* columns of a streamed block of B, which stays in L2 while all of A passes, */
    int64_t nc_bytes; /* and what it takes there at most */
    /* Rows of a streamed block of A. Few where B fits in L2; many where B comes from L3. What is prefetched across the
     * rows wants whole lines. */
    int64_t mc_along, mc_across, mc_many;
    int64_t b_bytes;                          /* a stationary B is read from L2 up to this */
    double inline_flops, inline_vector_flops; /* below this, waking the pool costs more than it gives; with a vector */
    double whole_item_flops;                  /* above this, an item of a batch is worth all threads */
} cpu_gemm_sizes;

typedef struct cpu_attention_sizes {
    int64_t span;          /* keys at a time, whose scores stay in L1 */
    int64_t backward_rows; /* query rows at a time in the backward pass */
    int64_t ahead_bytes;   /* the most of the next item that is fetched */
} cpu_attention_sizes;

typedef struct cpu_gemv_sizes {
    int64_t task_most, task_least; /* bytes of weights that a task reads, */
    int64_t tasks;        /* so many tasks for each thread where there are enough: one that ends early takes more */
    int64_t inline_bytes; /* no more than this: not worth waking the pool */
} cpu_gemv_sizes;

typedef struct cpu_kernels {
    cpu_isa isa; /* a set that this machine or build lacks is PLAIN */
    cpu_gemm_kernels gemm;
    cpu_gemm_kernels gemm_bf16; /* for operands that are rounded to bfloat16 */
    cpu_gemm_sizes gemm_sizes;
    cpu_array_kernels array; /* of the simulator */
    cpu_attention_kernels attention;
    cpu_attention_decode_kernels attention_decode;
    cpu_attention_sizes attention_sizes;
    cpu_gemv_kernels gemv;
    cpu_int_dot_kernels int_dot;
    cpu_gemv_sizes gemv_sizes;
    cpu_conv_kernels conv;
    cpu_window_kernels window;
    cpu_elementwise_kernels elementwise;
    cpu_reduce_kernels reduce;
} cpu_kernels;

/* Constant from the first call on; any thread. */
const cpu_kernels *cpu_kernels_of(cpu_isa isa);

/* Lays the kernels of an instruction set over `k`; false, and `k` as it was: this machine or this build lacks it. */
#define CPU_ISA(id, name) bool cpu_kernels_##name(cpu_kernels *k);
#include "core/base/isa.def"
#undef CPU_ISA
void cpu_kernels_avx512_vnni(cpu_kernels *k); /* laid over AVX-512's where the machine has it */

#endif
