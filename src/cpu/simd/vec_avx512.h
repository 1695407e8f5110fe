/* SPDX-License-Identifier: MIT
 * Vectors of 16 floats for AVX-512. Each kernels_*.c includes one of the vec_*.h files once. The bodies that are
 * included after it (vec_math.h, elementwise_body.h, reduce_body.h, gemm_body.h) use only these names.
 *
 * v_max(a, b) and v_min return b if either is NaN (or NaN on NEON), so a bound comes first: v_max(bound, x) keeps x's
 * NaN.
 */
#ifndef CPU_SIMD_VEC_AVX512_H
#define CPU_SIMD_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#ifndef VEC_EXTRA_TARGET
#define VEC_EXTRA_TARGET ""
#endif
#define VTARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c" VEC_EXTRA_TARGET)))
#define VFN     static inline __attribute__((always_inline, unused)) VTARGET
#define VL      16

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

VFN vm v_first(int64_t n) { return (vm)((1u << n) - 1); } /* the first n lanes, n <= 16 */
VFN vf v_load(const float *p) { return _mm512_loadu_ps(p); }
VFN void v_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
VFN void v_store_quads(float *p, int64_t step, vf v) { /* groups of four neighbours, `step` floats apart */
    _mm_storeu_ps(p, _mm512_castps512_ps128(v));
    _mm_storeu_ps(p + step, _mm512_extractf32x4_ps(v, 1));
    _mm_storeu_ps(p + 2 * step, _mm512_extractf32x4_ps(v, 2));
    _mm_storeu_ps(p + 3 * step, _mm512_extractf32x4_ps(v, 3));
}
VFN vf v_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
VFN void v_store_n(float *p, vf v, int64_t n) { _mm512_mask_storeu_ps(p, v_first(n), v); }
VFN vf v_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
VFN vf v_load_f16_n(const uint16_t *p, int64_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p)); }
VFN void v_store_f16(uint16_t *p, vf v) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VFN void v_store_f16_n(uint16_t *p, vf v, int64_t n) {
    _mm256_mask_storeu_epi16(p, v_first(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VFN vf v_round_f16(vf v) { return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)); }

VFN vf v_set(float x) { return _mm512_set1_ps(x); }
VFN vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
VFN vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
VFN vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
VFN vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
VFN vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a b + c */
VFN vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a b */
VFN vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
VFN vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
VFN vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
VFN vf v_floor(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
VFN vf v_ceil(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
VFN vf v_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VFN vf v_trunc(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }

VFN vi vi_of_bits(vf a) { return _mm512_castps_si512(a); }
VFN vf v_of_bits(vi a) { return _mm512_castsi512_ps(a); }
VFN vi vi_set(int32_t x) { return _mm512_set1_epi32(x); }
VFN vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
VFN vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
VFN vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
VFN vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
VFN vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
#define vi_shl(a, n) _mm512_slli_epi32(a, n)
#define vi_shr(a, n) _mm512_srli_epi32(a, n) /* shifts in zeros */
#define vi_sar(a, n) _mm512_srai_epi32(a, n)
VFN vi vi_from(vf a) { return _mm512_cvtps_epi32(a); } /* to nearest */
VFN vf v_from(vi a) { return _mm512_cvtepi32_ps(a); }

VFN vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
VFN vm v_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
VFN vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
VFN vm v_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
VFN vm v_nan(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); } /* either is NaN */
VFN vm vm_and(vm a, vm b) { return (vm)(a & b); }
VFN vm vm_or(vm a, vm b) { return (vm)(a | b); }
VFN vm vm_xor(vm a, vm b) { return (vm)(a ^ b); }
VFN int vm_any(vm a) { return a != 0; }
VFN vf v_fma_where(vm m, vf a, vf b, vf c) { return _mm512_mask3_fmadd_ps(a, b, c, m); } /* c where m is false */
VFN vf v_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }              /* m ? a : b */
VFN vf v_scale(vf a, vf n) { return _mm512_scalef_ps(a, n); }                            /* a 2^n, for an integer n */

VFN float v_sum(vf v) { /* sums halves first, in a fixed order */
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* x[i] lane j <-> x[j] lane i */
VFN void v_transpose(vf x[VL]) {
    __m512 t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        x[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        x[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i]), _mm512_castps_pd(t[i + 2])));
        x[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
        x[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(t[i + 1]), _mm512_castps_pd(t[i + 3])));
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        x[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        x[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        x[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

#endif
