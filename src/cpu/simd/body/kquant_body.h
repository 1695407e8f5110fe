/* SPDX-License-Identifier: MIT
 * Multiplies weights in blocks (core/base/kquant.h) by vectors, and unpacks them to rows, in terms of vec_*.h. This is
 * the part of gemv_body.h for these forms. The form is a constant wherever a function is inlined. A weight is computed
 * with a single rounding, so it equals the weight that is read as fp32, except for the sign of a zero.
 */
#ifndef CPU_SIMD_BODY_KQUANT_BODY_H
#define CPU_SIMD_BODY_KQUANT_BODY_H

#include "core/base/kquant.h"

/* kquant_shift shifts right. kquant_spread puts bits i, i + 1, ... of `word` into the lowest bits of the lanes.
 * kquant_step looks up kquant_steps for codes below 16. */
#if defined(VEC_PLAIN)
VFN vi kquant_shift(vi v, int down) { return v >> down; }
VFN vi kquant_spread(uint32_t word, int i) { return (vi)(word >> i & 1); }
VFN vi kquant_step(vi v) { return kquant_steps[v]; }
#elif VL == 16
VFN vf gemv_float(vi v) { return _mm512_cvtepi32_ps(v); }
VFN vi kquant_shift(vi v, int down) { return _mm512_srl_epi32(v, _mm_cvtsi32_si128(down)); }
VFN vi kquant_spread(uint32_t word, int i) {
    return _mm512_maskz_mov_epi32((__mmask16)(word >> i), _mm512_set1_epi32(1));
}
VFN vi kquant_step(vi v) {
    __m128i steps = _mm_loadu_si128((const __m128i *)(const void *)kquant_steps);
    return _mm512_permutexvar_epi32(v, _mm512_cvtepu8_epi32(steps));
}
#elif VL == 8
VFN vi kquant_shift(vi v, int down) { return _mm256_srl_epi32(v, _mm_cvtsi32_si128(down)); }
VFN vi kquant_spread(uint32_t word, int i) {
    vi lanes = vi_add(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), vi_set(i));
    return vi_and(_mm256_srlv_epi32(vi_set((int32_t)word), lanes), vi_set(1));
}
VFN vi kquant_step(vi v) {
    __m128i steps = _mm_loadu_si128((const __m128i *)(const void *)kquant_steps);
    return vi_and(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(steps), v), vi_set(255));
}
#else
VFN vi kquant_shift(vi v, int down) { return vshlq_s32(v, vdupq_n_s32(-down)); }
VFN vi kquant_spread(uint32_t word, int i) {
    static const int32_t lanes[] = {0, 1, 2, 3};
    vi up = vi_sub(vi_set(-i), vld1q_s32(lanes));
    return vi_and(vreinterpretq_s32_u32(vshlq_u32(vdupq_n_u32(word), up)), vi_set(1));
}
VFN vi kquant_step(vi v) {
    return vi_and(vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(kquant_steps), vreinterpretq_u8_s32(v))), vi_set(255));
}
#endif

/* Returns a plane's bits of VL weights, starting at element `i`. The bits are in neighbouring bytes or, if rows have
 * one byte, in neighbouring bits. */
VFN vi kquant_bits(const kquant_form f, const uint8_t *plane, int bits, int i) {
    if (kquant_width(f, bits) == 1) {
        uint32_t word;
        memcpy(&word, plane, sizeof word);
        return kquant_spread(word, i);
    }
    return vi_and(kquant_shift(gemv_load_u8(plane + kquant_byte(f, bits, i)), kquant_up(f, bits, i)),
                  vi_set((1 << bits) - 1));
}

/* Returns the codes of VL weights, starting at element `i`. */
VFN vf kquant_codes(const kquant_form f, const uint8_t *block, int i) {
    const uint8_t *high = block + kquant_plane_bytes(f, f.low);
    vi low = kquant_bits(f, block, f.low, i);
    if (f.steps) return gemv_float(kquant_step(low));
    if (f.high == 1 && f.low == 2) low = vi_or(low, vi_shl(kquant_bits(f, high, 1, i), 2));
    if (f.high == 1 && f.low == 4) low = vi_or(low, vi_shl(kquant_bits(f, high, 1, i), 4));
    if (f.high == 2) low = vi_or(low, vi_shl(kquant_bits(f, high, 2, i), 4));
    return gemv_float(low);
}

/* w = code * factor + shift, for the weights that share one scale. */
VFN void kquant_scale(const kquant_form f, const uint8_t *block, const uint16_t *supers, int s, vf *factor, vf *shift) {
    float own, away;
    kquant_factors(f, block, supers, s, &own, &away);
    *factor = v_set(own);
    *shift = v_set(f.minimum ? -away : -(float)f.bias * own);
}

/* Adds the products of the weights that share one scale. */
VFN void kquant_add(const kquant_form f, vf *sums, const uint8_t *block, int s, vf factor, vf shift, const float *x,
                    int64_t step, const int C) {
    _Pragma("GCC unroll 4") for (int i = 0; i < f.sub; i += VL) {
        vf w = v_fma(kquant_codes(f, block, s * f.sub + i), factor, shift), *to = sums + i / VL % GEMV_CHAINS * C;
        GEMV_EACH(j, C) to[j] = v_fma(w, v_load(x + j * step + i), to[j]);
    }
}

VFN void kquant_row(const kquant_form f, float *y, const uint8_t *row, const uint16_t *supers, const float *x,
                    int64_t step, int64_t k, const int C) {
    vf sums[GEMV_CHAINS * CPU_GEMV_COLUMNS], factor, shift;
    GEMV_EACH(a, GEMV_CHAINS * C) sums[a] = v_set(0);
    for (; k > 0; k -= f.block, row += kquant_bytes(f), supers += kquant_supers(f))
        for (int s = 0; s < kquant_subs(f); s++, x += f.sub) {
            kquant_scale(f, row, supers, s, &factor, &shift);
            kquant_add(f, sums, row, s, factor, shift, x, step, C);
        }
    gemv_finish(y, sums, C);
}

/* Blocks of 32: the fp16 numbers of several blocks are converted to fp32 as a vector. */
VFN void kquant_small_row(const kquant_form f, float *y, const uint8_t *row, const uint16_t *supers, const float *x,
                          int64_t step, int64_t k, const int C) {
    const int each = kquant_supers(f);
    const int64_t all = k / f.block * each;
    float own[GEMV_SCALES];
    vf sums[GEMV_CHAINS * CPU_GEMV_COLUMNS];
    GEMV_EACH(a, GEMV_CHAINS * C) sums[a] = v_set(0);
    for (int64_t first = 0; first < all; first += GEMV_SCALES) {
        const int64_t count = all - first < GEMV_SCALES ? all - first : GEMV_SCALES;
        gemv_scales(own, supers + first, count);
        for (int64_t n = 0; n < count; n += each, row += kquant_bytes(f), x += f.block) {
            vf factor = v_set(own[n]), shift = v_set(f.minimum ? -own[n + each - 1] : -(float)f.bias * own[n]);
            kquant_add(f, sums, row, 0, factor, shift, x, step, C);
        }
    }
    gemv_finish(y, sums, C);
}

VFN void kquant_rows(const cpu_weights format, float *y, const void *w, const uint16_t *supers, const float *x,
                     int64_t step, int64_t k, int rows, const int C) {
    const kquant_form f = kquant_forms[format - CPU_WEIGHTS_KQUANT];
    const int64_t row_bytes = cpu_weights_row_bytes(format, k), row_supers = cpu_weights_row_scales(format, k);
    for (int r = 0; r < rows; r++) {
        const uint8_t *row = (const uint8_t *)w + r * row_bytes;
        if (kquant_has_scales(f))
            kquant_row(f, y + r * C, row, supers + r * row_supers, x, step, k, C);
        else
            kquant_small_row(f, y + r * C, row, supers + r * row_supers, x, step, k, C);
    }
}

/* Unpacks `count` weights of each row, starting at weight `first`. Both are multiples of 32. */
VFN void kquant_unpack(const kquant_form f, float *out, int64_t step, const void *w, int64_t row_bytes,
                       const uint16_t *supers, int64_t row_supers, int64_t rows, int64_t first, int64_t count) {
    vf factor, shift;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = first; at < first + count; at += f.sub) {
            const int64_t which = at / f.block;
            const uint8_t *block = (const uint8_t *)w + r * row_bytes + which * kquant_bytes(f);
            const int within = (int)(at % f.block);
            kquant_scale(f, block, supers + r * row_supers + which * kquant_supers(f), within / f.sub, &factor, &shift);
            for (int i = 0; i < f.sub; i += VL)
                v_store(out + r * step + (at - first) + i, v_fma(kquant_codes(f, block, within + i), factor, shift));
        }
}

#define KQUANT_TILE(type, format, C)                                                                                   \
    static VTARGET void KERNEL_TILE(gemv, type, n, C)(float *y, const void *w, const uint16_t *s, const float *x,      \
                                                      int64_t step, int64_t k, int rows) {                             \
        kquant_rows(format, y, w, s, x, step, k, rows, C);                                                             \
    }
#define KQUANT(NAME, name, ...)                                                                                        \
    KQUANT_TILE(name, CPU_WEIGHTS_##NAME, 1)                                                                           \
    KQUANT_TILE(name, CPU_WEIGHTS_##NAME, 2)                                                                           \
    KQUANT_TILE(name, CPU_WEIGHTS_##NAME, 4)                                                                           \
    KQUANT_TILE(name, CPU_WEIGHTS_##NAME, 8)                                                                           \
    static VTARGET void KERNEL(unpack, name)(float *out, int64_t step, const void *w, int64_t row_bytes,               \
                                             const uint16_t *s, int64_t row_scales, int64_t rows, int64_t first,       \
                                             int64_t count) {                                                          \
        kquant_unpack(kquant_forms[KQUANT_##NAME], out, step, w, row_bytes, s, row_scales, rows, first, count);        \
    }
#include "core/base/kquants.def"
#undef KQUANT

#endif
