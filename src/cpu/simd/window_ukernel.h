/* SPDX-License-Identifier: MIT
 * Kernels for windows that slide over planes (a one-channel image with its padding), CPU_WINDOW_LANES results at a
 * time, and the same points copied side by side as a panel of a matrix of patches.
 */
#ifndef CPU_SIMD_WINDOW_UKERNEL_H
#define CPU_SIMD_WINDOW_UKERNEL_H

#include <stdint.h>

enum { CPU_WINDOW_LANES = 16 };

typedef enum cpu_window_kind {
    CPU_WINDOW_WEIGHTS,
    CPU_WINDOW_MAX, /* NaN stays NaN */
    CPU_WINDOW_SUM,
    CPU_WINDOW_SQUARES,
    CPU_WINDOW_KINDS
} cpu_window_kind;

/* Points of a panel that belong to one line of the result: `to` in the panel, `from` in a plane. */
typedef struct cpu_window_segment {
    int64_t to, from, length;
} cpu_window_segment;

/* Rows k0 .. k1-1 of a panel of `width` columns in the matrix of patches. Row k is tap k % taps of plane k / taps. */
typedef struct cpu_window_patches {
    const float *planes;
    int64_t plane_floats; /* floats from one plane to the next */
    const int64_t *tap;   /* [taps]: offsets in a plane */
    int64_t taps, width;
    const cpu_window_segment *segments;
    int segment_count;
} cpu_window_patches;

typedef struct cpu_window_kernels {
    /* Computes `blocks` times CPU_WINDOW_LANES results of one line. taps[t] points to the first number that tap t
     * reads, and `start` is the initial value of a result. */
    void (*line[CPU_WINDOW_KINDS])(float *out, int64_t blocks, const float *const *taps, const float *weights,
                                   int64_t count, float start);
    /* Copies rows k0 .. k1-1 of the panel in whole runs of lanes. The excess is written where the next segment or row
     * will be or, for the last row, to the CPU_WINDOW_LANES floats after it. Columns without a point have undefined
     * content. */
    void (*pack)(float *to, const cpu_window_patches *p, int64_t k0, int64_t k1);
} cpu_window_kernels;

#endif
