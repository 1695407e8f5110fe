/* SPDX-License-Identifier: MIT
 * The kernels of attention with a mask in terms of vec_*.h; included once by each kernels_*.c.
 */
#ifndef CPU_SIMD_BODY_ATTENTION_DECODE_BODY_H
#define CPU_SIMD_BODY_ATTENTION_DECODE_BODY_H

#include "cpu/simd/attention_ukernel.h"

enum { DECODE_AHEAD = 12 };

VFN vf decode_load(const void *p, bool half, int64_t at) {
    return half ? v_load_f16((const uint16_t *)p + at) : v_load((const float *)p + at);
}

VFN vf decode_load_n(const void *p, bool half, int64_t at, int64_t n) {
    return half ? v_load_f16_n((const uint16_t *)p + at, n) : v_load_n((const float *)p + at, n);
}

VFN vf decode_product(const float *q, const void *k, bool half, int64_t at, int64_t width) {
    vf sum = v_set(0);
    int64_t c = 0;
    for (; c + VL <= width; c += VL) sum = v_fma(v_load(q + c), decode_load(k, half, at + c), sum);
    if (c < width) sum = v_fma(v_load_n(q + c, width - c), decode_load_n(k, half, at + c, width - c), sum);
    return sum;
}

/* Prefetches a row. Rows of a cache are far apart, so no hardware prefetcher predicts them. */
VFN void decode_fetch(const void *p, bool half, int64_t at, int64_t width) {
    const char *line = (const char *)p + at * (half ? 2 : 4);
    for (int64_t c = 0; c < width * (half ? 2 : 4); c += 64) __builtin_prefetch(line + c, 0, 3);
}

/* Transposes the products of VL keys, so that their sums are one vector. */
VFN void decode_scores_of(float *s, const float *q, const void *k, bool half, int64_t row, int64_t width,
                          const int32_t *keys, const float *add, int64_t count) {
    for (int64_t i = 0; i < count; i += VL) {
        vf part[VL];
        int64_t n = count - i < VL ? count - i : VL;
        for (int64_t j = i + VL; j < i + 2 * VL && j < count; j++) decode_fetch(k, half, keys[j] * row, width);
        for (int64_t j = 0; j < n; j++) part[j] = decode_product(q, k, half, keys[i + j] * row, width);
        for (int64_t j = n; j < VL; j++) part[j] = v_set(0);
        v_transpose(part);
        for (int step = 1; step < VL; step *= 2)
            for (int j = 0; j < VL; j += 2 * step) part[j] = v_add(part[j], part[j + step]);
        v_store_n(s + i, v_add(part[0], v_load_n(add + i, n)), n);
    }
}

static VTARGET void KERNEL(attention_decode_scores, f32)(float *s, const float *q, const void *k, bool half,
                                                         int64_t row, int64_t width, const int32_t *keys,
                                                         const float *add, int64_t count) {
    if (half)
        decode_scores_of(s, q, k, true, row, width, keys, add, count);
    else
        decode_scores_of(s, q, k, false, row, width, keys, add, count);
}

VFN void decode_mix_of(float *o, const float *p, const void *v, bool half, int64_t row, int64_t width,
                       const int32_t *keys, int64_t count) {
    int64_t c = 0;
    for (; c + 4 * VL <= width; c += 4 * VL) {
        vf sum[4] = {v_set(0), v_set(0), v_set(0), v_set(0)};
        for (int64_t i = 0; i < count; i++) {
            vf weight = v_set(p[i]);
            if (i + DECODE_AHEAD < count) decode_fetch(v, half, keys[i + DECODE_AHEAD] * row + c, 4 * VL);
            for (int u = 0; u < 4; u++)
                sum[u] = v_fma(weight, decode_load(v, half, keys[i] * row + c + u * VL), sum[u]);
        }
        for (int u = 0; u < 4; u++) v_store(o + c + u * VL, sum[u]);
    }
    for (; c < width; c += VL) {
        int64_t n = width - c < VL ? width - c : VL;
        vf sum = v_set(0);
        for (int64_t i = 0; i < count; i++) sum = v_fma(v_set(p[i]), decode_load_n(v, half, keys[i] * row + c, n), sum);
        v_store_n(o + c, sum, n);
    }
}

static VTARGET void KERNEL(attention_decode_mix, f32)(float *o, const float *p, const void *v, bool half, int64_t row,
                                                      int64_t width, const int32_t *keys, int64_t count) {
    if (half)
        decode_mix_of(o, p, v, true, row, width, keys, count);
    else
        decode_mix_of(o, p, v, false, row, width, keys, count);
}

static const cpu_attention_decode_kernels KERNEL(attention_decode, f32) = {
    .scores = KERNEL(attention_decode_scores, f32),
    .mix = KERNEL(attention_decode_mix, f32),
};

#endif
