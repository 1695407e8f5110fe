/* SPDX-License-Identifier: MIT
 * Planes of images for kernels that slide a window over each by itself (window_ukernel.h), and for columns of patches.
 */
#ifndef CPU_CONV_CONV_WINDOW_H
#define CPU_CONV_CONV_WINDOW_H

#include "core/mil/ops/shape_util.h"
#include "cpu/simd/kernels.h"

/* The same geometry with three dimensions, the missing ones first. */
void cpu_window_three(mil_conv *c);

/* A plane of an image with its padding, its columns sorted by their place in the stride: the elements that one tap of a
 * window gives to neighbouring results are neighbours. Result (z, y, x) sees tap (i, j, k) at
 * cpu_window_result(z, y, x) + cpu_window_tap(i, j, k). What is read in runs of CPU_WINDOW_LANES stays inside. */
typedef struct cpu_window_plane {
    mil_conv c;                    /* three dimensions */
    int64_t high[2], phase, width; /* lines; columns of one place in the stride, of all */
    int64_t floats;
} cpu_window_plane;
void cpu_window_plane_plan(cpu_window_plane *p, const mil_conv *c);
/* `x`: the plane as it is stored, fp16 if `half`. */
void cpu_window_plane_fill(const cpu_window_plane *p, const void *x, bool half, float edge, float *plane);
static inline int64_t cpu_window_result(const cpu_window_plane *p, int64_t z, int64_t y, int64_t x) {
    return (z * p->c.stride[0] * p->high[1] + y * p->c.stride[1]) * p->width + x;
}
static inline int64_t cpu_window_tap(const cpu_window_plane *p, int64_t i, int64_t j, int64_t k) {
    const int64_t at = k * p->c.dilation[2], step = p->c.stride[2];
    return (i * p->c.dilation[0] * p->high[1] + j * p->c.dilation[1]) * p->width + at % step * p->phase + at / step;
}

#endif
