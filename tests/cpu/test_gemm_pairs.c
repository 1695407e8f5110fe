/* SPDX-License-Identifier: MIT
 * The kernels for vdpbf16ps on a machine without it: the same source, compiled with its three instructions replaced by
 * AVX-512 code. That code rounds and adds as Intel's manual specifies: both products of a pair are added one after the
 * other, the upper one first, each rounded to nearest. This cannot test the instruction itself, but it tests packing,
 * pairs and tiles.
 */
#include "support/test.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"

#define EMULATED                                                                                                       \
    static inline __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))

EMULATED __m512i round_words(__m512 v) { /* bf16 in the low half of each word; these tests have no NaN */
    __m512i u = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    return _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
}
EMULATED __m256i emulate_narrow(__m512 v) { return _mm512_cvtepi32_epi16(round_words(v)); }
EMULATED __m512i emulate_narrow2(__m512 high, __m512 low) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(emulate_narrow(low)), emulate_narrow(high), 1);
}
EMULATED __m512 emulate_dot(__m512 sum, __m512i a, __m512i b) {
    __m512i upper = _mm512_set1_epi32((int)0xffff0000u);
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(a, upper)),
                          _mm512_castsi512_ps(_mm512_and_si512(b, upper)), sum);
    return _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(a, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(b, 16)),
                           sum);
}

#define VEC_EXTRA_TARGET            ""
#define _mm512_cvtneps_pbh          emulate_narrow
#define _mm512_cvtne2ps_pbh         emulate_narrow2
#define _mm512_dpbf16_ps(sum, x, y) emulate_dot(sum, (__m512i)(x), (__m512i)(y))
#define __m512bh                    __m512i
#include "cpu/simd/body/gemm_bf16_avx512.h"

#include "cpu/simd/kernels.h"

static float bf16(float x) { return bf16_to_f32(bf16_from_f32(x)); }

/* Packs and multiplies one tile, and compares the sums with double. Observed: 0.2 of the bound. */
static void check_tile(int64_t rows, int64_t cols, int64_t k, bool turn_a, bool turn_b, bool half) {
    const cpu_gemm_kernels *t = &cpu_gemm_bf16_avx512;
    int64_t size = half ? 2 : 4, kw = (k + 1) / 2, room = (kw + 15) / 16 * 16;
    int height = (int)((rows + t->row_step - 1) / t->row_step) * t->row_step;
    char *a = mem_array((size_t)(rows * k), 4), *b = mem_array((size_t)(k * cols), 4);
    float *pa = mem_pages_alloc((size_t)(room * height) * 4), *pb = mem_pages_alloc((size_t)(room * t->nr) * 4);
    EXPECT(a && b && pa && pb);
    rng r;
    rng_init(&r, (uint64_t)(rows * 1000 + cols * 10 + k));
    for (int64_t i = 0; i < rows * k + k * cols; i++) {
        float v = (float)(rng_unit(&r) * 2 - 1);
        char *to = i < rows * k ? a + i * size : b + (i - rows * k) * size;
        if (half)
            *(uint16_t *)(void *)to = fp16_from_f32(v);
        else
            *(float *)(void *)to = v;
    }
    cpu_dtype dtype = half ? CPU_F16 : CPU_F32;
    t->pack(pa, height, a, dtype, turn_a ? 1 : k, turn_a ? rows : 1, rows, 0, k, true);
    t->pack(pb, t->nr, b, dtype, turn_b ? k : 1, turn_b ? 1 : cols, cols, 0, k, true);
    float c[16 * 64];
    t->tiles[height / t->row_step - 1](pa, pb, kw, c, t->nr, 1, false,
                                       &(gemm_next){(const char *)a, 0, 0, NULL, 0, NULL});
    for (int64_t i = 0; i < height; i++)
        for (int64_t j = 0; j < t->nr; j++) {
            double want = 0, magnitude = 0;
            for (int64_t l = 0; i < rows && j < cols && l < k; l++) {
                int64_t at_x = turn_a ? l * rows + i : i * k + l, at_y = turn_b ? j * k + l : l * cols + j;
                float x = half ? fp16_to_f32(((uint16_t *)(void *)a)[at_x]) : ((float *)(void *)a)[at_x];
                float y = half ? fp16_to_f32(((uint16_t *)(void *)b)[at_y]) : ((float *)(void *)b)[at_y];
                want += (double)bf16(x) * (double)bf16(y);
                magnitude += fabs((double)bf16(x) * (double)bf16(y));
            }
            double error = fabs((double)c[i * t->nr + j] - want);
            EXPECT_MSG(error <= (double)(k + 1) * 0x1p-24 * magnitude, "%dx%dx%d %d%d%d (%d,%d): %g, want %g",
                       (int)rows, (int)cols, (int)k, turn_a, turn_b, half, (int)i, (int)j, (double)c[i * t->nr + j],
                       want);
        }
    mem_free(a), mem_free(b);
    mem_pages_free(pa, (size_t)(room * height) * 4), mem_pages_free(pb, (size_t)(room * t->nr) * 4);
}

TEST(tiles) {
    if (!cpu_isa_available(CPU_ISA_AVX512)) SKIP("this machine has no AVX-512");
    static const int64_t ks[] = {1, 2, 3, 4, 7, 15, 16, 17, 31, 32, 33, 64, 65, 100};
    for (int64_t rows = 1; rows <= 14; rows++)
        for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
            for (int form = 0; form < 8; form++)
                check_tile(rows, 1 + (rows * 7 + (int64_t)i * 5) % 32, ks[i], form & 1, form & 2, form & 4);
}
#else
TEST(tiles) { SKIP("AVX-512 is another machine's"); }
#endif

SUITE("cpu gemm pairs", T(tiles))
