/* SPDX-License-Identifier: MIT
 * Weights in blocks of 256 (core/base/kquant.h) times vectors, and as rows, in terms of vec_*.h: the part of gemv_body.h for these
 * forms. The form is a constant wherever this is inlined. A weight is made with one rounding, so it is that of the fp32 reading, but for the sign of a zero.
 */
#ifndef CPU_SIMD_BODY_KQUANT_BODY_H
#define CPU_SIMD_BODY_KQUANT_BODY_H

#include "core/base/kquant.h"

#if defined(VEC_PLAIN)
VFN vi kquant_shift(vi v, int down) { return v >> down; }
#elif VL == 16
VFN vf gemv_float(vi v) { return _mm512_cvtepi32_ps(v); }
VFN vi kquant_shift(vi v, int down) { return _mm512_srl_epi32(v, _mm_cvtsi32_si128(down)); }
#elif VL == 8
VFN vi kquant_shift(vi v, int down) { return _mm256_srl_epi32(v, _mm_cvtsi32_si128(down)); }
#else
VFN vi kquant_shift(vi v, int down) { return vshlq_s32(v, vdupq_n_s32(-down)); }
#endif

VFN vi kquant_bits(const uint8_t *plane, int bits, int run, int i) {
    return vi_and(kquant_shift(gemv_load_u8(plane + kquant_run_at(bits, run) + i), kquant_run_shift(bits, run)),
                  vi_set((1 << bits) - 1));
}

/* Codes of VL weights from element `i` of a run on. */
VFN vf kquant_codes(const kquant_form f, const uint8_t *block, int run, int i) {
    vi low = kquant_bits(block, f.low, run, i);
    if (f.high == 1)
        low = vi_or(low, f.low == 2 ? vi_shl(kquant_bits(block + 64, 1, run, i), 2)
                                    : vi_shl(kquant_bits(block + 128, 1, run, i), 4));
    if (f.high == 2) low = vi_or(low, vi_shl(kquant_bits(block + 128, 2, run, i), 4));
    return gemv_float(low);
}

/* w = code * factor + shift of one scale's weights. */
VFN void kquant_scale(const kquant_form f, const uint8_t *block, const uint16_t *supers, int s, vf *factor, vf *shift) {
    float own, away;
    kquant_factors(f, block, supers, s, &own, &away);
    *factor = v_set(own);
    *shift = v_set(f.minimum ? -away : -(float)f.bias * own);
}

VFN void kquant_row(const kquant_form f, float *y, const uint8_t *row, const uint16_t *supers, const float *x,
                    int64_t step, int64_t k, const int C) {
    vf sums[GEMV_CHAINS * CPU_GEMV_COLUMNS], factor, shift;
    GEMV_EACH(a, GEMV_CHAINS * C) sums[a] = v_set(0);
    for (; k > 0; k -= KQUANT_BLOCK, row += kquant_bytes(f), supers += kquant_supers(f))
        for (int s = 0; s < kquant_subs(f); s++, x += f.sub) {
            kquant_scale(f, row, supers, s, &factor, &shift);
            const int run = s * f.sub / KQUANT_RUN, first = s * f.sub % KQUANT_RUN;
            _Pragma("GCC unroll 4") for (int i = 0; i < f.sub; i += VL) {
                vf w = v_fma(kquant_codes(f, row, run, first + i), factor, shift),
                   *to = sums + i / VL % GEMV_CHAINS * C;
                GEMV_EACH(j, C) to[j] = v_fma(w, v_load(x + j * step + i), to[j]);
            }
        }
    gemv_finish(y, sums, C);
}

VFN void kquant_rows(const cpu_weights format, float *y, const void *w, const uint16_t *supers, const float *x,
                     int64_t step, int64_t k, int rows, const int C) {
    const kquant_form f = kquant_forms[format - CPU_WEIGHTS_KQUANT];
    const int64_t row_bytes = cpu_weights_row_bytes(format, k), row_supers = cpu_weights_row_scales(format, k);
    for (int r = 0; r < rows; r++)
        kquant_row(f, y + r * C, (const uint8_t *)w + r * row_bytes, supers + r * row_supers, x, step, k, C);
}

/* `first` and `count` are multiples of 32. */
VFN void kquant_unpack(const kquant_form f, float *out, int64_t step, const void *w, int64_t row_bytes,
                       const uint16_t *supers, int64_t row_supers, int64_t rows, int64_t first, int64_t count) {
    vf factor, shift;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = first; at < first + count; at += f.sub) {
            const uint8_t *block = (const uint8_t *)w + r * row_bytes + at / KQUANT_BLOCK * kquant_bytes(f);
            const int within = (int)(at % KQUANT_BLOCK), run = within / KQUANT_RUN;
            kquant_scale(f, block, supers + r * row_supers + at / KQUANT_BLOCK * kquant_supers(f), within / f.sub,
                         &factor, &shift);
            for (int i = 0; i < f.sub; i += VL)
                v_store(out + r * step + (at - first) + i,
                        v_fma(kquant_codes(f, block, run, within % KQUANT_RUN + i), factor, shift));
        }
}

#define KQUANT_TILE(type, format, C)                                                                                   \
    static VTARGET void KERNEL_TILE(gemv, type, n, C)(float *y, const void *w, const uint16_t *s, const float *x,      \
                                                      int64_t step, int64_t k, int rows) {                             \
        kquant_rows(format, y, w, s, x, step, k, rows, C);                                                             \
    }
#define KQUANT(NAME, name, low, high, sub, minimum, bias)                                                              \
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
