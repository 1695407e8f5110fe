/* SPDX-License-Identifier: MIT
 * Multiplies blocks of 256 (core/base/kquant.h) by integers with AVX-512 VNNI. This is the part of
 * kernels_avx512_vnni.c for these forms; that file itself handles blocks of 32. All scales of a block are converted to
 * fp32 at once and multiplied by the vector's scales; codes are multiplied as bytes, 64 at a time. Minima are
 * multiplied by the sums of the vector's numbers, and biases are in `start` as for the other forms.
 */
#ifndef CPU_SIMD_BODY_KQUANT_DOT_AVX512_H
#define CPU_SIMD_BODY_KQUANT_DOT_AVX512_H

#include <string.h>

#include "core/base/kquant.h"

enum { KQUANT_STEPS = KQUANT_SUPER / 64, KQUANT_AHEAD = 1024 };

/* ---- the vector -------------------------------------------------------------------------------------------------- */

/* Sets the factors for a block's scales, then for its minima; each of `sums` covers 16 numbers. */
VFN void kquant_prepare_beside(const kquant_form f, cpu_int_dot_block *block, const float scales[8],
                               const float sums[16]) {
    const int subs = kquant_subs(f);
    memset(block, 0, sizeof *block);
    for (int s = 0; s < subs; s++) {
        block->beside[s] = scales[s * 8 / subs];
        if (f.minimum) block->beside[subs + s] = subs == 16 ? sums[s] : sums[2 * s] + sums[2 * s + 1];
    }
}

static VTARGET void kquant_prepare(void *out, const float *x, int64_t k, kquant_form f) {
    cpu_int_dot_step *step = out;
    cpu_int_dot_block *block = (cpu_int_dot_block *)(void *)(step + k / 64);
    for (; k > 0; k -= KQUANT_SUPER, block++) {
        float scales[8], sums[16];
        for (int b = 0; b < 8; b++, x += 32) {
            const int at = b % 2 * 32;
            vf first = v_load(x), second = v_load(x + 16);
            const float up = prepare_scale(first, second, &scales[b]);
            vi q0 = prepare_half(step, at, first, v_set(up), f.bias),
               q1 = prepare_half(step, at + 16, second, v_set(up), f.bias);
            sums[2 * b] = scales[b] * (float)prepare_sum(q0);
            sums[2 * b + 1] = scales[b] * (float)prepare_sum(q1);
            step += b % 2;
        }
        kquant_prepare_beside(f, block, scales, sums);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

/* Returns one plane's bits of 64 weights, shifted left by `up` in their bytes; the bits around them are not cleared.
 * Two consecutive runs of 32 are in the same bytes, because planes have at most four bits. */
VFN vi kquant_plane_at(const kquant_form f, const uint8_t *plane, const int bits, const int step, const int up) {
    const int first = kquant_up(f, bits, 64 * step), second = kquant_up(f, bits, 64 * step + 32);
    vi both = _mm512_broadcast_i64x4(
        _mm256_loadu_si256((const __m256i *)(const void *)(plane + kquant_byte(f, bits, 64 * step))));
    vi down = _mm512_inserti64x4(_mm512_set1_epi32((first - up) & 31), _mm256_set1_epi32((second - up) & 31), 1);
    return _mm512_rorv_epi32(both, down);
}

/* Looks up kquant_steps for nibbles, one per byte. */
VFN vi kquant_steps_of(vi nibbles) {
    __m128i steps = _mm_loadu_si128((const __m128i *)(const void *)kquant_steps);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(steps), nibbles);
}

/* Returns the codes of 64 weights as bytes. */
VFN vi kquant_bytes_of(const kquant_form f, const uint8_t *block, const int step) {
    vi low = vi_and(kquant_plane_at(f, block, f.low, step, 0), _mm512_set1_epi8((char)((1 << f.low) - 1)));
    if (f.steps) return kquant_steps_of(low);
    if (!f.high) return low;
    vi high = kquant_plane_at(f, block + kquant_plane_bytes(f, f.low), f.high, step, f.low);
    return vi_or(low, vi_and(high, _mm512_set1_epi8((char)(((1 << f.high) - 1) << f.low))));
}

/* Returns, for each sum of four, the lane of its factor among a block's 16 numbers. */
VFN vi kquant_factor_lanes(const kquant_form f, const int step) {
    if (f.sub == 32) return _mm512_inserti64x4(vi_set(2 * step), _mm256_set1_epi32(2 * step + 1), 1);
    return vi_add(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3), vi_set(4 * step));
}

/* Loads `count` bytes, 8 or 16, pads 8 with zeros, and subtracts a bias. */
VFN vf kquant_sixteen(const uint8_t *bytes, const int count, const int bias) {
    __m128i own = count == 8 ? _mm_loadl_epi64((const __m128i *)(const void *)bytes)
                             : _mm_loadu_si128((const __m128i *)(const void *)bytes);
    vi v = _mm512_cvtepu8_epi32(own);
    return v_from(bias ? vi_sub(v, vi_set(bias)) : v);
}

/* Sets `factor` to the products of a block's scales and the vectors' scales, and adds to `sums` what the minima of the
 * block subtract. */
VFN void kquant_dot_scales(const kquant_form f, vf *sums, vf *factor, const uint8_t *block, const uint16_t *supers,
                           const char *beside, int64_t column_bytes, const int C) {
    const uint8_t *scales = block + kquant_scales_at(f);
    uint32_t bits = 0;
    memcpy(&bits, supers, f.minimum ? 4 : 2);
    __m128 d = _mm_cvtph_ps(_mm_cvtsi32_si128((int)bits));
    vf scale = _mm512_broadcastss_ps(d), less = v_set(0);
    if (f.minimum) less = v_neg(_mm512_broadcastss_ps(_mm_movehdup_ps(d)));
    vf own = v_mul(kquant_sixteen(scales, f.sub == 32 && !f.minimum ? 8 : 16, f.minimum ? 0 : KQUANT_SCALE_BIAS),
                   f.sub == 32 ? _mm512_mask_mov_ps(scale, 0xff00, less) : scale);
    EACH(j, C) {
        const float *at = (const float *)(const void *)(beside + j * column_bytes);
        factor[j] = v_mul(own, v_load(at));
        if (f.sub == 32 && f.minimum) sums[j] = _mm512_mask_add_ps(sums[j], 0xff00, sums[j], factor[j]);
        if (f.sub == 16 && f.minimum)
            sums[j] = v_fma(v_mul(kquant_sixteen(scales + 16, 16, 0), less), v_load(at + 16), sums[j]);
    }
}

VFN void kquant_dot_step(const kquant_form f, vf *sums, const vf *factor, const uint8_t *block, const char *x,
                         int64_t column_bytes, const int step, const int C) {
    vi u = kquant_bytes_of(f, block, step), lanes = kquant_factor_lanes(f, step);
    EACH(j, C) {
        const cpu_int_dot_step *s = (const cpu_int_dot_step *)(const void *)(x + j * column_bytes) + step;
        sums[j] = v_fma(dot_sums(f, u, s), _mm512_permutexvar_ps(lanes, factor[j]), sums[j]);
    }
}

VFN void kquant_dot_row(const kquant_form f, float *y, const uint8_t *block, const uint16_t *supers, const char *x,
                        int64_t k, const int C) {
    const int64_t column_bytes = (int64_t)cpu_int_dot_block_bytes(k);
    const char *beside = x + k / 64 * (int64_t)sizeof(cpu_int_dot_step);
    vf sums[CPU_GEMV_COLUMNS], factor[CPU_GEMV_COLUMNS];
    EACH(j, C) sums[j] = v_set(0);
    for (; k > 0; k -= KQUANT_SUPER) {
        EACH(line, kquant_bytes(f) / 64) __builtin_prefetch(block + KQUANT_AHEAD + 64 * line, 0, 3);
        kquant_dot_scales(f, sums, factor, block, supers, beside, column_bytes, C);
        EACH(step, KQUANT_STEPS) kquant_dot_step(f, sums, factor, block, x, column_bytes, step, C);
        block += kquant_bytes(f);
        supers += kquant_supers(f);
        x += KQUANT_STEPS * sizeof(cpu_int_dot_step);
        beside += sizeof(cpu_int_dot_block);
    }
    EACH(j, C) y[j] = v_sum(sums[j]);
}

#endif
