/* SPDX-License-Identifier: MIT
 * Weights times vectors in terms of vec_*.h; included by each kernels_*.c. A tile keeps a row's sums in registers. A
 * vector of weights is loaded, converted to fp32 and used for all columns.
 */
#ifndef CPU_SIMD_BODY_GEMV_BODY_H
#define CPU_SIMD_BODY_GEMV_BODY_H

#include <string.h>

#include "core/base/float16.h"
#include "cpu/simd/gemv_ukernel.h"

/* ---- loading: VL weights as fp32 --------------------------------------------------------------------------------- */

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

/* Return the low or the high nibbles of bytes, minus 8, as fp32. */
#if VL == 16
VFN vf gemv_nibble(vi index) { /* the low four bits of each lane are the index */
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

/* Converts up to GEMV_SCALES scales of a row to fp32. */
enum { GEMV_SCALES = 32 };
static VTARGET void gemv_scales(float *out, const uint16_t *scales, int64_t count) {
    int64_t i = 0;
    for (; i + VL <= count; i += VL) v_store(out + i, v_load_f16(scales + i));
    if (i < count) v_store_n(out + i, v_load_f16_n(scales + i, count - i), count - i);
}

/* ---- tiles: rows times C columns, a constant after inlining ------------------------------------------------------ */
/* With one vector, rows are processed one after the other, so that the weights are one stream from the first byte to
 * the last, which hardware prefetchers follow. Four rows in parallel are four short streams, read at half that rate
 * (docs/notes/decoding.md). A row's sums continue while the next row begins.
 *
 * With several vectors, GEMV_ROWS rows share each load of the vectors, because these may be larger than the L1 cache.
 * The next rows are then prefetched. Each sum adds the same numbers in the same order in both cases. */

#define GEMV_EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* Sums per row and column, used in turn if a vector is short: a single sum would wait for its last addition. */
enum { GEMV_CHAINS = VL == 1 ? 4 : VL == 4 ? 2 : 1, GEMV_INT4_AHEAD = 1024, GEMV_MOST_ROWS = 4 };

/* The number of rows whose sums with C columns fit into the registers: 32 registers, or 16 with AVX2. */
#define GEMV_ROWS(C)                                                                                                   \
    ((C) == 1 || VL == 1 ? 1 : VL == 16 ? ((C) == 8 ? 2 : 4) : VL == 8 ? 8 / (C) : (C) == 8 ? 1 : 8 / (C))

VFN void gemv_finish(float *y, const vf *sums, const int C) {
    GEMV_EACH(j, C) {
        vf all = sums[j];
        for (int n = 1; n < GEMV_CHAINS; n++) all = v_add(all, sums[n * C + j]);
        y[j] = v_sum(all);
    }
}

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

/* Multiplies R neighbouring rows by C columns. */
VFN void gemv_numbers(const cpu_weights format, float *y, const char *rows, int64_t row_bytes, const float *x,
                      int64_t step, int64_t k, const int R, const int C) {
    const int64_t line = format == CPU_WEIGHTS_F32 ? 16 : 32;
    int64_t i = 0;
    vf sums[GEMV_MOST_ROWS][GEMV_CHAINS * CPU_GEMV_COLUMNS], w[GEMV_MOST_ROWS];
    GEMV_EACH(r, R) GEMV_EACH(a, GEMV_CHAINS * C) sums[r][a] = v_set(0);
    for (; i + line <= k; i += line) {
        if (R > 1) GEMV_EACH(r, R) __builtin_prefetch(rows + (R + r) * row_bytes + i * 64 / line, 0, 3);
        _Pragma("GCC unroll 8") for (int64_t u = 0; u < line; u += VL) {
            GEMV_EACH(r, R) w[r] = gemv_number(format, rows + r * row_bytes, i + u);
            GEMV_EACH(j, C) {
                const vf column = v_load(x + j * step + i + u);
                const int at = (int)(u / VL % GEMV_CHAINS) * C + j;
                GEMV_EACH(r, R) sums[r][at] = v_fma(w[r], column, sums[r][at]);
            }
        }
    }
    for (; i < k; i += VL) {
        int64_t n = k - i < VL ? k - i : VL;
        GEMV_EACH(r, R) {
            vf v = gemv_number_n(format, rows + r * row_bytes, i, n);
            GEMV_EACH(j, C) sums[r][j] = v_fma(v, v_load_n(x + j * step + i, n), sums[r][j]);
        }
    }
    GEMV_EACH(r, R) gemv_finish(y + r * C, sums[r], C);
}

/* Adds a block's products with C vectors. The second half of the block in x is 16 numbers further. The sum over both
 * halves is scaled once. */
VFN void gemv_block(vf *sums, vf low, vf high, float scale, const float *x, int64_t step, const int C) {
    vf factor = v_set(scale);
    GEMV_EACH(j, C) {
        vf sum = v_fma(high, v_load(x + j * step + 16), v_mul(low, v_load(x + j * step)));
        sums[j] = v_fma(sum, factor, sums[j]);
    }
}

VFN void gemv_blocks(const cpu_weights format, float *y, const uint8_t *row, const uint16_t *scales, const float *x,
                     int64_t step, int64_t k, const int C) {
    const int64_t blocks = k / CPU_GEMV_BLOCK;
    float scale[GEMV_SCALES];
    vf sums[GEMV_CHAINS * CPU_GEMV_COLUMNS];
    GEMV_EACH(a, GEMV_CHAINS * C) sums[a] = v_set(0);
    for (int64_t first = 0; first < blocks; first += GEMV_SCALES) {
        int64_t count = blocks - first < GEMV_SCALES ? blocks - first : GEMV_SCALES;
        gemv_scales(scale, scales + first, count);
        for (int64_t b = 0; b < count; b++) {
            /* Four bits per weight are so few bytes that the hardware prefetcher is not far enough ahead. With eight
             * bits, it is. */
            if (format == CPU_WEIGHTS_INT4) __builtin_prefetch(row + (first + b) * 16 + GEMV_INT4_AHEAD, 0, 3);
            _Pragma("GCC unroll 4") for (int64_t i = 0; i < 16; i += VL) {
                const float *at = x + (first + b) * CPU_GEMV_BLOCK + i;
                vf *to = sums + i / VL % GEMV_CHAINS * C;
                if (format == CPU_WEIGHTS_INT8) {
                    const int8_t *q = (const int8_t *)row + (first + b) * CPU_GEMV_BLOCK + i;
                    gemv_block(to, gemv_load_i8(q), gemv_load_i8(q + 16), scale[b], at, step, C);
                } else {
                    vi bytes = gemv_load_u8(row + (first + b) * 16 + i);
                    gemv_block(to, gemv_low(bytes), gemv_high(bytes), scale[b], at, step, C);
                }
            }
        }
    }
    gemv_finish(y, sums, C);
}

VFN void gemv_rows(const cpu_weights format, float *y, const void *w, const uint16_t *scales, const float *x,
                   int64_t step, int64_t k, int rows, const int C) {
    const int64_t row_bytes = cpu_weights_row_bytes(format, k), blocks = k / CPU_GEMV_BLOCK;
    const char *row = w;
    if (format >= CPU_WEIGHTS_INT8) {
        for (int r = 0; r < rows; r++, row += row_bytes)
            gemv_blocks(format, y + r * C, (const uint8_t *)row, scales + r * blocks, x, step, k, C);
        return;
    }
    int r = 0;
    for (; r + GEMV_ROWS(C) <= rows; r += GEMV_ROWS(C), row += GEMV_ROWS(C) * row_bytes)
        gemv_numbers(format, y + r * C, row, row_bytes, x, step, k, GEMV_ROWS(C), C);
    for (; GEMV_ROWS(C) > 1 && r < rows; r++, row += row_bytes)
        gemv_numbers(format, y + r * C, row, row_bytes, x, step, k, 1, C);
}

#define GEMV_TILE(type, format, C)                                                                                     \
    static VTARGET void KERNEL_TILE(gemv, type, n, C)(float *y, const void *w, const uint16_t *s, const float *x,      \
                                                      int64_t step, int64_t k, int rows) {                             \
        gemv_rows(format, y, w, s, x, step, k, rows, C);                                                               \
    }
#define GEMV_TILES(type, format)                                                                                       \
    GEMV_TILE(type, format, 1) GEMV_TILE(type, format, 2) GEMV_TILE(type, format, 4) GEMV_TILE(type, format, 8)
GEMV_TILES(f32, CPU_WEIGHTS_F32)
GEMV_TILES(f16, CPU_WEIGHTS_F16)
GEMV_TILES(bf16, CPU_WEIGHTS_BF16)
GEMV_TILES(i8, CPU_WEIGHTS_INT8)
GEMV_TILES(i4, CPU_WEIGHTS_INT4)

/* ---- rows for matrix products with many columns ------------------------------------------------------------------ */

static VTARGET void KERNEL(unpack, bf16)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                         const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t first,
                                         int64_t count) {
    (void)scales, (void)row_scales;
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *row = (const uint16_t *)(const void *)((const char *)w + r * row_bytes) + first;
        int64_t i = 0;
        __builtin_prefetch((const char *)row + rows * row_bytes, 0, 3);
        for (; i + VL <= count; i += VL) v_store(out + r * step + i, gemv_load_bf16(row + i));
        if (i < count) v_store_n(out + r * step + i, gemv_load_bf16_n(row + i, count - i), count - i);
    }
}

static VTARGET void KERNEL(unpack, i8)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                       const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t first,
                                       int64_t count) {
    scales += first / CPU_GEMV_BLOCK;
    for (int64_t r = 0; r < rows; r++) {
        const int8_t *row = (const int8_t *)w + r * row_bytes + first;
        __builtin_prefetch(row + rows * row_bytes, 0, 3);
        for (int64_t i = 0; i < count; i += VL) {
            vf scale = v_set(fp16_to_f32(scales[r * row_scales + i / CPU_GEMV_BLOCK]));
            v_store(out + r * step + i, v_mul(gemv_load_i8(row + i), scale));
        }
    }
}

static VTARGET void KERNEL(unpack, i4)(float *out, int64_t step, const void *w, int64_t row_bytes,
                                       const uint16_t *scales, int64_t row_scales, int64_t rows, int64_t first,
                                       int64_t count) {
    scales += first / CPU_GEMV_BLOCK;
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *row = (const uint8_t *)w + r * row_bytes + first / 2;
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

#include "cpu/simd/body/kquant_body.h"

#define GEMV_COLUMNS(type)                                                                                             \
    {KERNEL_TILE(gemv, type, n, 1), KERNEL_TILE(gemv, type, n, 2), KERNEL_TILE(gemv, type, n, 4),                      \
     KERNEL_TILE(gemv, type, n, 8)}

static const cpu_gemv_kernels KERNEL(gemv, f32) = {
    .unpack =
        {
            NULL,
            NULL,
            KERNEL(unpack, bf16),
            KERNEL(unpack, i8),
            KERNEL(unpack, i4),
#define KQUANT(NAME, name, ...) KERNEL(unpack, name),
#include "core/base/kquants.def"
#undef KQUANT
        },
    .tiles =
        {
            GEMV_COLUMNS(f32),
            GEMV_COLUMNS(f16),
            GEMV_COLUMNS(bf16),
            GEMV_COLUMNS(i8),
            GEMV_COLUMNS(i4),
#define KQUANT(NAME, name, ...) GEMV_COLUMNS(name),
#include "core/base/kquants.def"
#undef KQUANT
        },
};

#endif
