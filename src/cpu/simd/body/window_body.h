/* SPDX-License-Identifier: MIT
 * The kernels of window_ukernel.h; included once by each kernels_*.c. Written with the compiler's vectors of 16 lanes,
 * which VTARGET maps to the instruction set. Products and sums are rounded separately in all instruction sets.
 */
#ifndef CPU_SIMD_BODY_WINDOW_BODY_H
#define CPU_SIMD_BODY_WINDOW_BODY_H

#include <string.h>

#include "cpu/simd/window_ukernel.h"

typedef float window_lanes __attribute__((vector_size(4 * CPU_WINDOW_LANES)));
typedef int32_t window_bits __attribute__((vector_size(4 * CPU_WINDOW_LANES)));

VFN void window_line(float *out, int64_t blocks, const float *const *taps, const float *weights, int64_t count,
                     float start, const cpu_window_kind kind) {
    for (int64_t b = 0; b < blocks; b++) {
        window_lanes sum = start - (window_lanes){0};
        for (int64_t t = 0; t < count; t++) {
            window_lanes x;
            memcpy(&x, taps[t] + b * CPU_WINDOW_LANES, sizeof x);
            if (kind == CPU_WINDOW_MAX) {
                const window_bits keep = (window_bits)(sum > x) | (window_bits)(sum != sum);
                sum = (window_lanes)((keep & (window_bits)sum) | (~keep & (window_bits)x));
            } else if (kind == CPU_WINDOW_WEIGHTS) {
                sum += x * weights[t];
            } else {
                sum += kind == CPU_WINDOW_SQUARES ? x * x : x;
            }
        }
        memcpy(out + b * CPU_WINDOW_LANES, &sum, sizeof sum);
    }
}

#define WINDOW_LINE(name, kind)                                                                                        \
    static VTARGET void KERNEL(window_##name, f32)(float *out, int64_t blocks, const float *const *taps,               \
                                                   const float *weights, int64_t count, float start) {                 \
        window_line(out, blocks, taps, weights, count, start, kind);                                                   \
    }
WINDOW_LINE(weights, CPU_WINDOW_WEIGHTS)
WINDOW_LINE(max, CPU_WINDOW_MAX)
WINDOW_LINE(sum, CPU_WINDOW_SUM)
WINDOW_LINE(squares, CPU_WINDOW_SQUARES)

static VTARGET void KERNEL(window_pack, f32)(float *to, const cpu_window_patches *p, int64_t k0, int64_t k1) {
    const cpu_window_segment *segments = p->segments;
    const float *plane = p->planes + k0 / p->taps * p->plane_floats;
    const int64_t width = p->width, taps = p->taps;
    const int count = p->segment_count;
    int64_t tap = k0 % taps;
    for (int64_t k = k0; k < k1; k++, to += width) {
        const float *from = plane + p->tap[tap];
        for (int i = 0; i < count; i++)
            for (int64_t v = 0; v < segments[i].length; v += CPU_WINDOW_LANES)
                memcpy(to + segments[i].to + v, from + segments[i].from + v, CPU_WINDOW_LANES * sizeof *to);
        if (++tap == taps) tap = 0, plane += p->plane_floats;
    }
}

static const cpu_window_kernels KERNEL(window, f32) = {
    .line = {KERNEL(window_weights, f32), KERNEL(window_max, f32), KERNEL(window_sum, f32),
             KERNEL(window_squares, f32)},
    .pack = KERNEL(window_pack, f32),
};

#endif
