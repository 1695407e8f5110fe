/* SPDX-License-Identifier: MIT
 * Matrix products of pairs of bfloat16 with AVX512_BF16's vdpbf16ps: gemm_body.h with words that hold two neighbours in
 * k. This file is separate from kernels_avx512_bf16.c, so that a test can compile it with these instructions emulated.
 */
#ifndef CPU_SIMD_BODY_GEMM_BF16_AVX512_H
#define CPU_SIMD_BODY_GEMM_BF16_AVX512_H

#include "cpu/simd/vec_avx512.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA      avx512
#define GEMM_TYPE       bf16
#define GEMM_HEIGHTS(X) X(2) X(4) X(6) X(8) X(10) X(12) X(14)
#define GEMM_STEP       2
#define GEMM_MR         14
#define GEMM_NRV        2
#define GEMM_NR         32
#define GEMM_PAIR       2

/* Loads words of 2 neighbours in k, with the first one in the low half. n is the number of available elements, up to
 * 32. */
VFN vf gemm_pack_along(const void *p, int half, int64_t n, int round) {
    (void)round;
    int64_t low = n < 0 ? 0 : n < 16 ? n : 16, high = n < 16 ? 0 : n < 32 ? n - 16 : 16;
    vf first, second;
    if (half) {
        first = v_load_f16_n((const uint16_t *)p, low);
        second = v_load_f16_n((const uint16_t *)p + 16, high);
    } else {
        first = v_load_n((const float *)p, low);
        second = v_load_n((const float *)p + 16, high);
    }
    return (vf)_mm512_cvtne2ps_pbh(second, first);
}

/* Loads words that combine an element of row `p` with the element below it in row `next` (0 if NULL), for n columns. */
VFN vf gemm_pack_across(const void *p, const void *next, int half, int64_t n, int round) {
    (void)round;
    n = n < 0 ? 0 : n < 16 ? n : 16;
    vf first, second = v_set(0);
    if (half) {
        first = v_load_f16_n((const uint16_t *)p, n);
        if (next) second = v_load_f16_n((const uint16_t *)next, n);
    } else {
        first = v_load_n((const float *)p, n);
        if (next) second = v_load_n((const float *)next, n);
    }
    __m512i low = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(first));
    __m512i high = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(second));
    return v_of_bits(vi_or(low, vi_shl(high, 16)));
}

#define GEMM_DOT(x, y, sum) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(y))
#include "cpu/simd/body/gemm_body.h"

#endif
