/* SPDX-License-Identifier: MIT
 * Vectors of 8 floats for AVX2 with FMA and F16C. See vec_avx512.h for the names.
 */
#ifndef CPU_SIMD_VEC_AVX2_H
#define CPU_SIMD_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VTARGET __attribute__((target("avx2,fma,f16c")))
#define VFN     static inline __attribute__((always_inline, unused)) VTARGET
#define VL      8

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm; /* a lane has all bits set, or none */

VFN vi v_first(int64_t n) { /* the first n lanes, n <= 8 */
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
VFN vf v_load(const float *p) { return _mm256_loadu_ps(p); }
VFN void v_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
VFN void v_store_quads(float *p, int64_t step, vf v) { /* groups of four neighbours, `step` floats apart */
    _mm_storeu_ps(p, _mm256_castps256_ps128(v));
    _mm_storeu_ps(p + step, _mm256_extractf128_ps(v, 1));
}
VFN vf v_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, v_first(n)); }
/* Does not use maskstore, which takes some 20 operations on AMD processors up to Zen 4. */
VFN void v_store_n(float *p, vf v, int64_t n) {
    __m128 rest = _mm256_castps256_ps128(v);
    if (n >= 8) {
        v_store(p, v);
        return;
    }
    if (n >= 4) {
        _mm_storeu_ps(p, rest);
        rest = _mm256_extractf128_ps(v, 1);
        p += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)p, rest);
        rest = _mm_movehl_ps(rest, rest);
        p += 2;
    }
    if (n & 1) _mm_store_ss(p, rest);
}
VFN vf v_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
VFN vf v_load_f16_n(const uint16_t *p, int64_t n) {
    uint16_t lanes[8] = {0};
    memcpy(lanes, p, (size_t)n * 2);
    return v_load_f16(lanes);
}
/* Copy four or six neighbours, converted to fp32. */
VFN void v_copy_4(float *to, const void *from) { memcpy(to, from, 16); }
VFN void v_copy_6(float *to, const void *from) { memcpy(to, from, 24); }
VFN void v_copy_4_f16(float *to, const void *from) { _mm_storeu_ps(to, _mm_cvtph_ps(_mm_loadl_epi64(from))); }
VFN void v_copy_6_f16(float *to, const void *from) {
    int32_t last;
    memcpy(&last, (const char *)from + 8, sizeof last);
    v_copy_4_f16(to, from);
    _mm_storel_pi((__m64 *)(void *)(to + 4), _mm_cvtph_ps(_mm_cvtsi32_si128(last)));
}
VFN void v_store_f16(uint16_t *p, vf v) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VFN void v_store_f16_n(uint16_t *p, vf v, int64_t n) {
    uint16_t lanes[8];
    v_store_f16(lanes, v);
    memcpy(p, lanes, (size_t)n * 2);
}
VFN vf v_round_f16(vf v) { return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }

VFN vf v_set(float x) { return _mm256_set1_ps(x); }
VFN vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
VFN vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
VFN vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
VFN vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
VFN vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
VFN vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
VFN vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
VFN vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
VFN vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
VFN vf v_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
VFN vf v_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
VFN vf v_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VFN vf v_trunc(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

VFN vi vi_of_bits(vf a) { return _mm256_castps_si256(a); }
VFN vf v_of_bits(vi a) { return _mm256_castsi256_ps(a); }
VFN vi vi_set(int32_t x) { return _mm256_set1_epi32(x); }
VFN vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
VFN vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
VFN vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
VFN vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
VFN vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
#define vi_shl(a, n) _mm256_slli_epi32(a, n)
#define vi_shr(a, n) _mm256_srli_epi32(a, n)
#define vi_sar(a, n) _mm256_srai_epi32(a, n)
VFN vi vi_from(vf a) { return _mm256_cvtps_epi32(a); }
VFN vf v_from(vi a) { return _mm256_cvtepi32_ps(a); }

VFN vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
VFN vm v_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
VFN vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
VFN vm v_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
VFN vm v_nan(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
VFN vm vm_and(vm a, vm b) { return _mm256_and_ps(a, b); }
VFN vm vm_or(vm a, vm b) { return _mm256_or_ps(a, b); }
VFN vm vm_xor(vm a, vm b) { return _mm256_xor_ps(a, b); }
VFN int vm_any(vm a) { return _mm256_movemask_ps(a) != 0; }
VFN vf v_fma_where(vm m, vf a, vf b, vf c) { return v_fma(a, _mm256_and_ps(m, b), c); }
VFN vf v_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
VFN vf v_scale(vf a, vf n) { /* in two steps, so that subnormal results are correct; |n| <= 252 */
    vi whole = vi_from(n), half = vi_sar(whole, 1), rest = vi_sub(whole, half), bias = vi_set(127);
    vf scaled = v_mul(a, v_of_bits(vi_shl(vi_add(half, bias), 23)));
    return v_mul(scaled, v_of_bits(vi_shl(vi_add(rest, bias), 23)));
}

VFN float v_sum(vf v) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

VFN void v_transpose(vf x[VL]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++) x[i] = t[i];
}

#endif
