/* SPDX-License-Identifier: MIT
 * Planes of images for kernels that slide a window over each plane separately (window_ukernel.h), and for columns of
 * patches.
 */
#ifndef CPU_CONV_CONV_WINDOW_H
#define CPU_CONV_CONV_WINDOW_H

#include "core/mil/ops/shape_util.h"
#include "cpu/simd/kernels.h"

/* Rewrites the geometry with three dimensions. Missing ones are added in front, with extent 1. */
void cpu_window_three(mil_conv *c);

/* A plane of an image with its padding. Its columns are sorted by their position in the stride, so that the elements
 * that one tap of a window reads for adjacent results are adjacent. Result (z, y, x) reads tap (i, j, k) at
 * cpu_window_result(z, y, x) + cpu_window_tap(i, j, k). Reads in runs of CPU_WINDOW_LANES stay inside the plane. */
typedef struct cpu_window_plane {
    mil_conv c;                    /* with three dimensions */
    int64_t high[2], phase, width; /* high: lines; phase: columns per position in the stride; width: all columns */
    int64_t floats;
} cpu_window_plane;
void cpu_window_plane_plan(cpu_window_plane *p, const mil_conv *c);
/* Fills the plane from `x`, a plane of the stored image, which is fp16 if `half`, else fp32. The padding becomes
 * `edge`. */
void cpu_window_plane_fill(const cpu_window_plane *p, const void *x, bool half, float edge, float *plane);
static inline int64_t cpu_window_result(const cpu_window_plane *p, int64_t z, int64_t y, int64_t x) {
    return (z * p->c.stride[0] * p->high[1] + y * p->c.stride[1]) * p->width + x;
}
static inline int64_t cpu_window_tap(const cpu_window_plane *p, int64_t i, int64_t j, int64_t k) {
    const int64_t at = k * p->c.dilation[2], step = p->c.stride[2];
    return (i * p->c.dilation[0] * p->high[1] + j * p->c.dilation[1]) * p->width + at % step * p->phase + at / step;
}

#endif
