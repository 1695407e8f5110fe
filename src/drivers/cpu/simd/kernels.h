/* SPDX-License-Identifier: MIT
 * The tables of the kernels_*.c files, one set for each instruction set of this build.
 */
#ifndef CPU_SIMD_KERNELS_H
#define CPU_SIMD_KERNELS_H

#include "drivers/cpu/simd/elementwise.h"
#include "drivers/cpu/simd/reduce.h"

extern const cpu_elementwise_kernels cpu_elementwise_kernels_plain;
extern const cpu_reduce_kernels cpu_reduce_kernels_plain;
#if defined(__x86_64__)
extern const cpu_elementwise_kernels cpu_elementwise_kernels_avx2, cpu_elementwise_kernels_avx512;
extern const cpu_reduce_kernels cpu_reduce_kernels_avx2, cpu_reduce_kernels_avx512;
#elif defined(__aarch64__)
extern const cpu_elementwise_kernels cpu_elementwise_kernels_neon;
extern const cpu_reduce_kernels cpu_reduce_kernels_neon;
#endif

#endif
