/* SPDX-License-Identifier: MIT
 * The two element types that kernels read and write, the address of an element of an array, and views of matrices.
 */
#ifndef CPU_SIMD_ELEMENT_H
#define CPU_SIMD_ELEMENT_H

#include <stdint.h>

typedef enum cpu_dtype { CPU_F32, CPU_F16 } cpu_dtype;
static inline int64_t cpu_dtype_bytes(cpu_dtype dtype) { return dtype == CPU_F16 ? 2 : 4; }
static inline const void *cpu_element(const void *data, cpu_dtype dtype, int64_t index) {
    return (const char *)data + index * cpu_dtype_bytes(dtype);
}

/* Element (i, j) is at data + i * row_stride + j * col_stride, counted in elements. */
typedef struct cpu_matrix_view {
    const void *data; /* a result is written to this memory, so that it must not be const */
    cpu_dtype dtype;
    int64_t row_stride, col_stride;
} cpu_matrix_view;

#endif
