/* SPDX-License-Identifier: MIT
 * Everything that depends on the instruction set, in one context per set: kernels, and suitable block sizes. Callers
 * that compute get a `const cpu_kernels *` and need nothing else.
 *
 * A context starts as a copy of the plain one, and kernels_<name>.c replaces the kernels that its instruction set
 * provides. So a new set is a row of isa.def and one file, and may begin with a single kernel.
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

/* Bytes are for an L2 of 1 MB and are scaled to the machine's (mem_l2_bytes). The division of k determines the order of
 * sums, and so the last bits of the results; all other sizes affect only speed. */
typedef struct cpu_gemm_sizes {
    int64_t kc_whole; /* the largest k that is a single pass */
    /* A longer k is divided into passes of about this many elements if C has more rows than columns, so that B is
     * small. */
    int64_t kc_tall;
    int64_t kc;       /* the same for other shapes of C */
    int64_t nc;       /* columns in a streamed block of B, which stays in L2 while all of A is multiplied */
    int64_t nc_bytes; /* most bytes of L2 that such a block may occupy */
    /* Rows in a streamed block of A: mc_many if B comes from L3, and fewer if B fits in L2. mc_across is for an A whose
     * neighbours run across rows, because it is prefetched in whole lines. */
    int64_t mc_along, mc_across, mc_many;
    int64_t b_bytes; /* a stationary B is read from L2 up to this size */
    /* Products with fewer operations run on one thread, because waking the pool costs more than it saves.
     * inline_vector_flops is the same for products with a vector. */
    double inline_flops, inline_vector_flops;
    double whole_item_flops; /* above this, one item of a batch is worth all threads */
} cpu_gemm_sizes;

typedef struct cpu_attention_sizes {
    int64_t span;          /* keys at a time, with scores that stay in L1 */
    int64_t backward_rows; /* query rows at a time in the backward pass */
    int64_t ahead_bytes;   /* the limit for prefetching the next item */
} cpu_attention_sizes;

typedef struct cpu_gemv_sizes {
    int64_t task_most, task_least; /* bytes of weights that a task reads */
    int64_t tasks;        /* tasks per thread if there is enough work: a thread that finishes early takes more */
    int64_t inline_bytes; /* bytes of weights up to which waking the pool is not worthwhile */
} cpu_gemv_sizes;

typedef struct cpu_kernels {
    cpu_isa isa; /* PLAIN for a set that this machine or build lacks */
    cpu_gemm_kernels gemm;
    cpu_gemm_kernels gemm_bf16; /* for operands that are rounded to bfloat16 */
    cpu_gemm_sizes gemm_sizes;
    cpu_array_kernels array; /* for the simulator */
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

/* Returns a context that never changes. Callable from any thread. */
const cpu_kernels *cpu_kernels_of(cpu_isa isa);

/* Overlays the kernels of an instruction set on `k`. Returns false and leaves `k` unchanged if this machine or build
 * lacks the set. */
#define CPU_ISA(id, name) bool cpu_kernels_##name(cpu_kernels *k);
#include "core/base/isa.def"
#undef CPU_ISA
void cpu_kernels_avx512_vnni(cpu_kernels *k); /* overlays int_dot on the AVX-512 kernels if the machine has VNNI */

#endif
