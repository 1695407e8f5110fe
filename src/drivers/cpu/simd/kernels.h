/* SPDX-License-Identifier: MIT
 * The tables of the kernels_*.c files, one set for each instruction set of this build.
 */
#ifndef CPU_SIMD_KERNELS_H
#define CPU_SIMD_KERNELS_H

#include "drivers/cpu/simd/elementwise.h"
#include "drivers/cpu/simd/reduce.h"

extern const cpu_map_table cpu_map_table_plain;
extern const cpu_rows_table cpu_rows_table_plain;
#if defined(__x86_64__)
extern const cpu_map_table cpu_map_table_avx2, cpu_map_table_avx512;
extern const cpu_rows_table cpu_rows_table_avx2, cpu_rows_table_avx512;
#elif defined(__aarch64__)
extern const cpu_map_table cpu_map_table_neon;
extern const cpu_rows_table cpu_rows_table_neon;
#endif

#endif
