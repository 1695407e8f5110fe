/* SPDX-License-Identifier: MIT
 * Weights times vectors in terms of vec_*.h; included by each kernels_*.c. A tile keeps
 * rows x columns accumulators in registers; a vector of weights is loaded, made fp32 and used for all columns.
 */
#ifndef CPU_SIMD_BODY_GEMV_BODY_H
#define CPU_SIMD_BODY_GEMV_BODY_H

#include <string.h>

#include "base/float16.h"
#include "drivers/cpu/simd/gemv_ukernel.h"

/* ---- loading: VL weights as fp32 -------------------------------------------------------------------------------------- */

#if defined(VEC_PLAIN)
VFN vf gemv_load_bf16(const uint16_t *p) { return bf16_to_f32(*p); }
VFN vf gemv_load_i8(const int8_t *p) { return (float)*p; }
VFN vi gemv_load_u8(const uint8_t *p) { return *p; }
VFN vf gemv_float(vi v) { return (float)v; }
#elif VL == 16
VFN vf gemv_load_bf16(const uint16_t *p) {
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}
VFN vf gemv_load_i8(const int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
VFN vi gemv_load_u8(const uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
#elif VL == 8
VFN vf gemv_load_bf16(const uint16_t *p) {
    __m128i bits = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
VFN vf gemv_load_i8(const int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
VFN vi gemv_load_u8(const uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
VFN vf gemv_float(vi v) { return _mm256_cvtepi32_ps(v); }
#else
VFN vf gemv_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
VFN uint8x8_t gemv_four_bytes(const void *p) {
    uint32_t word;
    memcpy(&word, p, 4);
    return vreinterpret_u8_u32(vdup_n_u32(word));
}
VFN vf gemv_load_i8(const int8_t *p) {
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(gemv_four_bytes(p))))));
}
VFN vi gemv_load_u8(const uint8_t *p) {
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(gemv_four_bytes(p)))));
}
VFN vf gemv_float(vi v) { return vcvtq_f32_s32(v); }
#endif

/* A byte's low and high nibble, minus 8. */
#if VL == 16
VFN vf gemv_nibble(vi index) { /* the low four bits of each lane choose */
    return _mm512_permutexvar_ps(index, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}
VFN vf gemv_low(vi bytes) { return gemv_nibble(bytes); }
VFN vf gemv_high(vi bytes) { return gemv_nibble(vi_shr(bytes, 4)); }
#else
VFN vf gemv_low(vi bytes) { return v_sub(gemv_float(vi_and(bytes, vi_set(15))), v_set(8)); }
VFN vf gemv_high(vi bytes) { return v_sub(gemv_float(vi_shr(bytes, 4)), v_set(8)); }
#endif

VFN vf gemv_load_bf16_n(const uint16_t *p, int64_t n) {
    uint16_t lanes[VL] = {0};
    memcpy(lanes, p, (size_t)n * 2);
    return gemv_load_bf16(lanes);
}

/* Up to GEMV_SCALES scales of a row as fp32. */
enum { GEMV_SCALES = 32 };
static VTARGET void gemv_scales(float *out, const uint16_t *scales, int64_t count) {
    int64_t i = 0;
    for (; i + VL <= count; i += VL) v_store(out + i, v_load_f16(scales + i));
    if (i < count) v_store_n(out + i, v_load_f16_n(scales + i, count - i), count - i);
}

/* ---- tiles: R rows, C columns, both constants where these are inlined ------------------------------------------------- */

#define GEMV_EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

VFN void gemv_finish(float *y, const vf *sums, const int count) { GEMV_EACH(i, count) y[i] = v_sum(sums[i]); }

VFN vf gemv_number(cpu_weights format, const void *row, int64_t i) {
    if (format == CPU_WEIGHTS_F32) return v_load((const float *)row + i);
    if (format == CPU_WEIGHTS_F16) return v_load_f16((const uint16_t *)row + i);
    return gemv_load_bf16((const uint16_t *)row + i);
}

VFN vf gemv_number_n(cpu_weights format, const void *row, int64_t i, int64_t n) {
    if (format == CPU_WEIGHTS_F32) return v_load_n((const float *)row + i, n);
    if (format == CPU_WEIGHTS_F16) return v_load_f16_n((const uint16_t *)row + i, n);
    return gemv_load_bf16_n((const uint16_t *)row + i, n);
}

/* A line of each row at a time, and the same line of the next rows is asked for: the system's own foresight ends with
 * each row, and there are many rows. */
VFN void gemv_numbers(const cpu_weights format, float *y, const void *w, const float *x, int64_t step, int64_t k,
                      const int R, const int C) {
    const char *rows = w;
    const int64_t element = format == CPU_WEIGHTS_F32 ? 4 : 2, line = 64 / element;
    int64_t i = 0, row_bytes = k * element, ahead = R * row_bytes;
    vf sums[8], xs[8];
    GEMV_EACH(a, R * C) sums[a] = v_set(0);
    for (; i + line <= k; i += line) {
        GEMV_EACH(r, R) __builtin_prefetch(rows + r * row_bytes + i * element + ahead, 0, 3);
        _Pragma("GCC unroll 8") for (int64_t u = 0; u < line; u += VL) {
            GEMV_EACH(j, C) xs[j] = v_load(x + j * step + i + u);
            GEMV_EACH(r, R) {
                vf v = gemv_number(format, rows + r * row_bytes, i + u);
                GEMV_EACH(j, C) sums[r * C + j] = v_fma(v, xs[j], sums[r * C + j]);
            }
        }
    }
    for (; i < k; i += VL) {
        int64_t n = k - i < VL ? k - i : VL;
        GEMV_EACH(j, C) xs[j] = v_load_n(x + j * step + i, n);
        GEMV_EACH(r, R) {
            vf v = gemv_number_n(format, rows + r * row_bytes, i, n);
            GEMV_EACH(j, C) sums[r * C + j] = v_fma(v, xs[j], sums[r * C + j]);
        }
    }
    gemv_finish(y, sums, R * C);
}

/* The sum over the two halves of a block, which lie 16 weights apart, is scaled once. */
#define GEMV_BLOCK_STEP(LOW, HIGH)                                                                                     \
    {                                                                                                                  \
        GEMV_EACH(j, C) xs[j] = v_load(at + j * step);                                                                 \
        GEMV_EACH(j, C) ys[j] = v_load(at + j * step + 16);                                                            \
        GEMV_EACH(r, R) {                                                                                              \
            vf factor = v_set(scale[r][b]), low, high;                                                                 \
            LOW;                                                                                                       \
            HIGH;                                                                                                      \
            GEMV_EACH(j, C) {                                                                                          \
                vf sum = v_fma(high, ys[j], v_mul(low, xs[j]));                                                        \
                sums[r * C + j] = v_fma(sum, factor, sums[r * C + j]);                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

VFN void gemv_int8(float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k,
                   const int R, const int C) {
    const int8_t *rows = w;
    int64_t blocks = k / CPU_GEMV_BLOCK;
    float scale[4][GEMV_SCALES];
    vf sums[8], xs[8], ys[8];
    GEMV_EACH(a, R * C) sums[a] = v_set(0);
    for (int64_t first = 0; first < blocks; first += GEMV_SCALES) {
        int64_t count = blocks - first < GEMV_SCALES ? blocks - first : GEMV_SCALES;
        GEMV_EACH(r, R) gemv_scales(scale[r], scales + r * blocks + first, count);
        for (int64_t b = 0; b < count; b++)
            for (int64_t i = 0; i < 16; i += VL) {
                int64_t place = (first + b) * CPU_GEMV_BLOCK + i;
                const float *at = x + place;
                const int8_t *q = rows + place;
                if (i == 0) GEMV_EACH(r, R) __builtin_prefetch(q + (r + R) * k, 0, 3);
                GEMV_BLOCK_STEP(low = gemv_load_i8(q + r * k), high = gemv_load_i8(q + r * k + 16))
            }
    }
    gemv_finish(y, sums, R * C);
}

VFN void gemv_int4(float *y, const void *w, const uint16_t *scales, const float *x, int64_t step, int64_t k,
                   const int R, const int C) {
    const uint8_t *rows = w;
    int64_t blocks = k / CPU_GEMV_BLOCK;
    float scale[4][GEMV_SCALES];
    vf sums[8], xs[8], ys[8];
    GEMV_EACH(a, R * C) sums[a] = v_set(0);
    for (int64_t first = 0; first < blocks; first += GEMV_SCALES) {
        int64_t count = blocks - first < GEMV_SCALES ? blocks - first : GEMV_SCALES;
        GEMV_EACH(r, R) gemv_scales(scale[r], scales + r * blocks + first, count);
        for (int64_t b = 0; b < count; b++)
            for (int64_t i = 0; i < 16; i += VL) {
                const float *at = x + (first + b) * CPU_GEMV_BLOCK + i;
                const uint8_t *q = rows + (first + b) * 16 + i;
                if (i == 0) GEMV_EACH(r, R) __builtin_prefetch(q + (r + R) * (k / 2), 0, 3);
                vi bytes;
                GEMV_BLOCK_STEP(bytes = gemv_load_u8(q + r * (k / 2)); low = gemv_low(bytes), high = gemv_high(bytes))
            }
    }
    gemv_finish(y, sums, R * C);
}

#define GEMV_TILE(R, C)                                                                                                \
    static VTARGET void KERNEL_TILE(gemv, f32, R, C)(float *y, const void *w, const uint16_t *s, const float *x,       \
                                                     int64_t step, int64_t k) {                                        \
        (void)s;                                                                                                       \
        gemv_numbers(CPU_WEIGHTS_F32, y, w, x, step, k, R, C);                                                         \
    }                                                                                                                  \
    static VTARGET void KERNEL_TILE(gemv, f16, R, C)(float *y, const void *w, const uint16_t *s, const float *x,       \
                                                     int64_t step, int64_t k) {                                        \
        (void)s;                                                                                                       \
        gemv_numbers(CPU_WEIGHTS_F16, y, w, x, step, k, R, C);                                                         \
    }                                                                                                                  \
    static VTARGET void KERNEL_TILE(gemv, bf16, R, C)(float *y, const void *w, const uint16_t *s, const float *x,      \
                                                      int64_t step, int64_t k) {                                       \
        (void)s;                                                                                                       \
        gemv_numbers(CPU_WEIGHTS_BF16, y, w, x, step, k, R, C);                                                        \
    }                                                                                                                  \
    static VTARGET void KERNEL_TILE(gemv, i8, R, C)(float *y, const void *w, const uint16_t *s, const float *x,        \
                                                    int64_t step, int64_t k) {                                         \
        gemv_int8(y, w, s, x, step, k, R, C);                                                                          \
    }                                                                                                                  \
    static VTARGET void KERNEL_TILE(gemv, i4, R, C)(float *y, const void *w, const uint16_t *s, const float *x,        \
                                                    int64_t step, int64_t k) {                                         \
        gemv_int4(y, w, s, x, step, k, R, C);                                                                          \
    }
GEMV_TILE(4, 1)
GEMV_TILE(4, 2)
GEMV_TILE(2, 4)
GEMV_TILE(1, 1)
GEMV_TILE(1, 2)
GEMV_TILE(1, 4)
GEMV_TILE(1, 8)

/* ---- rows for products of many columns -------------------------------------------------------------------------------- */

static VTARGET void KERNEL(unpack, bf16)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                         const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t count) {
    (void)scales, (void)row_scales;
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = (const uint16_t *)(const void *)((const char *)w + r * row_bytes);
        int64_t i = 0;
        __builtin_prefetch((const char *)row + rows * row_bytes, 0, 3);
        for (; i + VL <= count; i += VL) v_store(out + r * step + i, gemv_load_bf16(row + i));
        if (i < count) v_store_n(out + r * step + i, gemv_load_bf16_n(row + i, count - i), count - i);
    }
}

static VTARGET void KERNEL(unpack, i8)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                       const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t count) {
    for (int64_t r = 0; r < rows; r++) {
        const int8_t *row = (const int8_t *)w + r * row_bytes;
        __builtin_prefetch(row + rows * row_bytes, 0, 3);
        for (int64_t i = 0; i < count; i += VL) {
            vf scale = v_set(fp16_to_f32(scales[r * row_scales + i / CPU_GEMV_BLOCK]));
            v_store(out + r * step + i, v_mul(gemv_load_i8(row + i), scale));
        }
    }
}

static VTARGET void KERNEL(unpack, i4)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                       const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t count) {
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *row = (const uint8_t *)w + r * row_bytes;
        __builtin_prefetch(row + rows * row_bytes, 0, 3);
        for (int64_t b = 0; b < count / CPU_GEMV_BLOCK; b++) {
            vf scale = v_set(fp16_to_f32(scales[r * row_scales + b]));
            for (int64_t i = 0; i < CPU_GEMV_BLOCK / 2; i += VL) {
                vi bytes = gemv_load_u8(row + b * CPU_GEMV_BLOCK / 2 + i);
                float *to = out + r * step + b * CPU_GEMV_BLOCK + i;
                v_store(to, v_mul(gemv_low(bytes), scale));
                v_store(to + CPU_GEMV_BLOCK / 2, v_mul(gemv_high(bytes), scale));
            }
        }
    }
}

#define GEMV_SEVERAL(type)                                                                                             \
    {KERNEL_TILE(gemv, type, 4, 1), KERNEL_TILE(gemv, type, 4, 2), KERNEL_TILE(gemv, type, 2, 4),                      \
     KERNEL_TILE(gemv, type, 1, 8)}
#define GEMV_SINGLE(type)                                                                                              \
    {KERNEL_TILE(gemv, type, 1, 1), KERNEL_TILE(gemv, type, 1, 2), KERNEL_TILE(gemv, type, 1, 4),                      \
     KERNEL_TILE(gemv, type, 1, 8)}

static const cpu_gemv_kernels KERNEL(gemv, f32) = {
    .unpack = {NULL, NULL, KERNEL(unpack, bf16), KERNEL(unpack, i8), KERNEL(unpack, i4)},
    .tiles = {GEMV_SEVERAL(f32), GEMV_SEVERAL(f16), GEMV_SEVERAL(bf16), GEMV_SEVERAL(i8), GEMV_SEVERAL(i4)},
    .singles = {GEMV_SINGLE(f32), GEMV_SINGLE(f16), GEMV_SINGLE(bf16), GEMV_SINGLE(i8), GEMV_SINGLE(i4)},
    .rows = {4, 4, 2, 1},
};

#endif
