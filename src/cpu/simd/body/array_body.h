/* SPDX-License-Identifier: MIT
 * The kernels of array_ukernel.h; included once by each kernels_*.c.
 *
 * A product of two fp16 has 22 bits. In units of 2^-16 and below 2^22 it is rounded by adding 1.5 * 2^23: a fused
 * multiply-add rounds once, and the low bits of the result are the integer. Halves would be rounded to even, so the
 * left factor is moved to the next float away from 0. This moves a product that is a half beyond the half and, because
 * products are on a grid of 22 bits, changes no other result. The bits of 1.5 * 2^23 are in each term and are
 * subtracted at the end. From 2^21, products are integers and are converted directly.
 */
#ifndef CPU_SIMD_BODY_ARRAY_BODY_H
#define CPU_SIMD_BODY_ARRAY_BODY_H

#include <string.h>

#include "cpu/simd/array_ukernel.h"

#define ARRAY_EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* Computes both arrays with bit operations only, so that the compiler vectorizes the loop. */
static VTARGET void KERNEL(array_left, f32)(float *up, float *least, const float *x, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int32_t bits, larger, bound;
        const float scaled = x[i] * 65536.0f;
        memcpy(&bits, &x[i], sizeof bits);
        memcpy(&larger, &scaled, sizeof larger);
        const int32_t field = bits >> 23 & 255, exponent = field < 127 - 14 ? -14 : field - 127;
        larger += field != 0;
        bound = -16 - exponent > -14 ? (127 - 16 - exponent) << 23 : 0;
        memcpy(&up[i], &larger, sizeof larger);
        memcpy(&least[i], &bound, sizeof bound);
    }
}

#ifdef VEC_PLAIN
/* Returns the rounded product of a left factor and b, or 0 if |b| is below `least`. `a` and `least` come from
 * array_left. */
VFN int32_t array_term(float a, float least, float b) {
    const float size = fabsf(b);
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    if (a != 0) bits--;
    memcpy(&a, &bits, sizeof a);
    const float p = a * b;
    return least <= size ? (int32_t)(p + copysignf(0.5f, p)) : 0;
}

VFN void array_add(int32_t (*sum)[CPU_ARRAY_COLUMNS], cpu_array_left left, const float *panel, int64_t depth,
                   const int rows, const int far) {
    (void)far;
    for (int r = 0; r < rows; r++)
        for (int64_t k = 0; k < depth; k++)
            for (int j = 0; j < CPU_ARRAY_COLUMNS; j++)
                sum[r][j] += array_term(left.up[r * left.step + k], left.least[r * left.step + k],
                                        panel[k * CPU_ARRAY_COLUMNS + j]);
}
#else
#define ARRAY_VECTORS (VL == 16 ? 4 : 2)

/* Returns the absolute value from which right factors have products with `a` that are integers. *exact receives the
 * left factor without the change by array_left. */
VFN float array_split(float a, float *exact) {
    int32_t bits, split;
    memcpy(&bits, &a, sizeof bits);
    const int32_t field = bits >> 23 & 255;
    if (field) bits--;
    memcpy(exact, &bits, sizeof bits);
    split = (field ? 127 + 127 + 21 - ((bits >> 23) & 255) : 255) << 23;
    memcpy(&a, &split, sizeof a);
    return a;
}

VFN vi array_far_term(float up, vf least, vf b, vf size, vf magic) {
    float exact;
    const vf split = v_set(array_split(up, &exact));
    const vi low = vi_of_bits(v_fma_where(vm_and(v_le(least, size), v_lt(size, split)), v_set(up), b, magic));
    return vi_add(low, vi_from(v_select(v_le(split, size), v_mul(v_set(exact), b), v_set(0))));
}

VFN void array_store(int32_t *sum, vi part, int64_t depth) {
    int32_t lanes[VL];
    memcpy(lanes, &part, sizeof lanes);
    for (int j = 0; j < VL; j++)
        sum[j] = (int32_t)((uint32_t)sum[j] + (uint32_t)lanes[j] - (uint32_t)depth * 0x4b400000u);
}

VFN void array_add(int32_t (*sum)[CPU_ARRAY_COLUMNS], cpu_array_left left, const float *panel, int64_t depth,
                   const int rows, const int far) {
    const vf magic = v_set(0x1.8p23f);
    for (int c = 0; c < CPU_ARRAY_COLUMNS; c += ARRAY_VECTORS * VL) {
        vi part[CPU_ARRAY_ROWS][ARRAY_VECTORS];
        ARRAY_EACH(r, rows) ARRAY_EACH(v, ARRAY_VECTORS) part[r][v] = vi_set(0);
        for (int64_t k = 0; k < depth; k++) {
            vf b[ARRAY_VECTORS], size[ARRAY_VECTORS];
            ARRAY_EACH(v, ARRAY_VECTORS) b[v] = v_load(panel + k * CPU_ARRAY_COLUMNS + c + v * VL);
            ARRAY_EACH(v, ARRAY_VECTORS) size[v] = v_abs(b[v]);
            ARRAY_EACH(r, rows) {
                const float up = left.up[r * left.step + k];
                const vf least = v_set(left.least[r * left.step + k]);
                ARRAY_EACH(v, ARRAY_VECTORS) {
                    const vi term = far ? array_far_term(up, least, b[v], size[v], magic)
                                        : vi_of_bits(v_fma_where(v_le(least, size[v]), v_set(up), b[v], magic));
                    part[r][v] = vi_add(part[r][v], term);
                }
            }
        }
        ARRAY_EACH(r, rows) ARRAY_EACH(v, ARRAY_VECTORS) array_store(sum[r] + c + v * VL, part[r][v], depth);
    }
}
#endif

#define ARRAY_ADD(name, rows, far)                                                                                     \
    static VTARGET void KERNEL(array_##name, f32)(int32_t(*sum)[CPU_ARRAY_COLUMNS], cpu_array_left left,               \
                                                  const float *panel, int64_t depth) {                                 \
        array_add(sum, left, panel, depth, rows, far);                                                                 \
    }
ARRAY_ADD(near_one, 1, 0)
ARRAY_ADD(near_rows, CPU_ARRAY_ROWS, 0)
ARRAY_ADD(far_one, 1, 1)
ARRAY_ADD(far_rows, CPU_ARRAY_ROWS, 1)

static const cpu_array_kernels KERNEL(array, f32) = {
    .near_one = KERNEL(array_near_one, f32),
    .near_rows = KERNEL(array_near_rows, f32),
    .far_one = KERNEL(array_far_one, f32),
    .far_rows = KERNEL(array_far_rows, f32),
    .left = KERNEL(array_left, f32),
};

#endif
