/* SPDX-License-Identifier: MIT
 * Weights in few bits times integers with vpdpbusd, which multiplies unsigned bytes (the weights) by signed ones and
 * adds four neighbours, exactly.
 */
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#define VEC_EXTRA_TARGET ",avx512vnni"
#include "cpu/simd/vec_avx512.h"

#include "cpu/simd/vec_common.h"

#define KERNEL_ISA avx512_vnni

enum { BIAS_INT8 = 128, BIAS_INT4 = 8, BLOCKS = 32, FULL = 127 * 256, INT4_AHEAD = 1024 };

#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* ---- the vector ------------------------------------------------------------------------------------------------------- */

/* Half a block: 16 numbers to bytes and to the sums of four; all 16 as they are then. */
VFN vi prepare_half(cpu_int_dot_step *s, int at, vf x, vf inverse, int bias) {
    vi q = vi_from(v_mul(x, inverse)), high = vi_sar(vi_add(q, vi_set(128)), 8), low = vi_sub(q, vi_shl(high, 8));
    _mm_store_si128((__m128i *)(void *)(s->high + at), _mm512_cvtepi32_epi8(high));
    _mm_store_si128((__m128i *)(void *)(s->low + at), _mm512_cvtepi32_epi8(low));
    vi two = vi_add(q, _mm512_shuffle_epi32(q, _MM_PERM_CDAB)); /* within each group of four lanes */
    vi four = vi_add(two, _mm512_shuffle_epi32(two, _MM_PERM_BADC));
    vi starts = _mm512_maskz_compress_epi32(0x1111, _mm512_mullo_epi32(four, vi_set(-bias)));
    _mm_store_si128((__m128i *)(void *)(s->start + at / 4), _mm512_castsi512_si128(starts));
    return q;
}

/* Computes the scale of 32 numbers, and returns the factor to multiply them by. Numbers without a finite scale (infinities, NaN)
 * must give NaN, which the scale carries. The maximum of two numbers drops a NaN, so that is tested for itself. */
VFN float prepare_scale(vf first, vf second, float *scale) {
    float most = _mm512_reduce_max_ps(v_max(v_abs(first), v_abs(second)));
    const bool nan = _mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q);
    *scale = most < 0x1p120f && !nan ? most / FULL : __builtin_nanf("");
    return most > 0x1p-100f && most < 0x1p120f ? FULL / most : 0;
}

#include "cpu/simd/body/kquant_dot_avx512.h"

static VTARGET void kernels_avx512_vnni_prepare(void *out, const float *x, int64_t k, cpu_weights format) {
    if (format >= CPU_WEIGHTS_KQUANT) {
        kquant_prepare(out, x, k, kquant_forms[format - CPU_WEIGHTS_KQUANT]);
        return;
    }
    cpu_int_dot_step *steps = out;
    float *scales = (float *)(void *)(steps + cpu_int_dot_steps(k));
    bool four = format == CPU_WEIGHTS_INT4;
    int bias = four ? BIAS_INT4 : BIAS_INT8;
    if (k % 64) steps[cpu_int_dot_steps(k) - 1] = (cpu_int_dot_step){.start = {0}};
    if (k % 64) scales[k / CPU_GEMV_BLOCK] = 0;
    for (int64_t b = 0; b < k / CPU_GEMV_BLOCK; b++) {
        vf first = v_load(x + b * CPU_GEMV_BLOCK), second = v_load(x + b * CPU_GEMV_BLOCK + 16);
        const float up = prepare_scale(first, second, &scales[b]);
        cpu_int_dot_step *s = &steps[b / 2];
        int odd = (int)(b % 2);
        prepare_half(s, four ? 16 * odd : 32 * odd, first, v_set(up), bias);
        prepare_half(s, four ? 32 + 16 * odd : 32 * odd + 16, second, v_set(up), bias);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------------ */

/* Loads 64 weights as unsigned bytes; `half` means that only the first 32 exist. */
VFN vi weights_of(cpu_weights format, const void *row, int64_t step, bool half) {
    if (format == CPU_WEIGHTS_INT8) {
        const int8_t *p = (const int8_t *)row + step * 64;
        vi w = half ? _mm512_maskz_loadu_epi8(0xffffffffu, p) : _mm512_loadu_si512(p);
        return vi_xor(w, _mm512_set1_epi8((char)0x80));
    }
    const uint8_t *p = (const uint8_t *)row + step * 32;
    __m256i both = half ? _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p))
                        : _mm256_loadu_si256((const __m256i *)(const void *)p);
    if (half) both = _mm256_inserti128_si256(both, _mm_setzero_si128(), 1);
    vi all = _mm512_inserti64x4(_mm512_castsi256_si512(both), _mm256_srli_epi16(both, 4), 1);
    return vi_and(all, _mm512_set1_epi8(15));
}

/* Spreads two blocks' factors to the lanes of their sums. */
VFN vf factors_of(cpu_weights format, const float *f) {
    __mmask16 second = format == CPU_WEIGHTS_INT8 ? 0xff00 : 0xf0f0;
    return _mm512_mask_broadcastss_ps(v_set(f[0]), second, _mm_load_ss(f + 1));
}

VFN void dot_step(const cpu_weights format, vf *sums, const char *row, const char *x, int64_t column_bytes,
                  int64_t step, float (*f)[BLOCKS], int64_t pair, bool half, const int C) {
    vi u = weights_of(format, row, step, half);
    EACH(j, C) {
        const cpu_int_dot_step *s = (const cpu_int_dot_step *)(const void *)(x + j * column_bytes) + step;
        vi high = _mm512_dpbusd_epi32(_mm512_setzero_si512(), u, _mm512_load_si512(s->high));
        vi low = _mm512_dpbusd_epi32(_mm512_load_si512(s->start), u, _mm512_load_si512(s->low));
        vf sum = v_from(vi_add(vi_shl(high, 8), low));
        sums[j] = v_fma(sum, factors_of(format, f[j] + 2 * pair), sums[j]);
    }
}

/* Combines both scales of up to BLOCKS blocks. */
VFN void factors(float (*f)[BLOCKS], const uint16_t *scales, const char *x, int64_t column_bytes, int64_t scales_at,
                 int64_t count, const int C) {
    for (int64_t i = 0; i < count; i += VL) {
        int64_t n = count - i < VL ? count - i : VL;
        vf own = v_load_f16_n(scales + i, n);
        EACH(j, C) {
            const float *other = (const float *)(const void *)(x + j * column_bytes + scales_at) + i;
            v_store(f[j] + i, v_mul(own, v_load_n(other, n)));
        }
    }
}

VFN void dot_row(const cpu_weights format, float *y, const char *row, const uint16_t *scales, const char *x, int64_t k,
                 const int C) {
    const int64_t blocks = k / CPU_GEMV_BLOCK, column_bytes = (int64_t)cpu_int_dot_column_bytes(k);
    const int64_t scales_at = cpu_int_dot_steps(k) * (int64_t)sizeof(cpu_int_dot_step);
    _Alignas(64) float f[CPU_GEMV_COLUMNS][BLOCKS];
    vf sums[CPU_GEMV_COLUMNS];
    EACH(j, C) sums[j] = v_set(0);
    for (int64_t first = 0; first < blocks; first += BLOCKS) {
        int64_t count = blocks - first < BLOCKS ? blocks - first : BLOCKS, step = first / 2, pair = 0;
        factors(f, scales + first, x, column_bytes, scales_at + first * (int64_t)sizeof(float), count, C);
        for (; 2 * pair + 2 <= count; pair++, step++) {
            /* With eight bits the hardware prefetcher suffices, and this would be a tenth slower. */
            if (format == CPU_WEIGHTS_INT4) __builtin_prefetch(row + step * 32 + INT4_AHEAD, 0, 3);
            dot_step(format, sums, row, x, column_bytes, step, f, pair, false, C);
        }
        if (2 * pair < count) {
            EACH(j, C) f[j][count] = 0;
            dot_step(format, sums, row, x, column_bytes, step, f, pair, true, C);
        }
    }
    EACH(j, C) y[j] = v_sum(sums[j]);
}

/* Processes row after row, as in body/gemv_body.h. */
VFN void dots(const cpu_weights format, float *y, const void *w, const uint16_t *scales, const void *x, int64_t k,
              int rows, const int C) {
    const int64_t row_bytes = cpu_weights_row_bytes(format, k);
    for (int r = 0; r < rows; r++)
        dot_row(format, y + r * C, (const char *)w + r * row_bytes, scales + r * (k / CPU_GEMV_BLOCK), x, k, C);
}

#define DOT_TILE(type, format, C)                                                                                      \
    static VTARGET void KERNEL_TILE(int_dot, type, n, C)(float *y, const void *w, const uint16_t *s, const void *x,    \
                                                         int64_t k, int rows) {                                        \
        dots(format, y, w, s, x, k, rows, C);                                                                          \
    }
#define DOT_TILES(type, format)                                                                                        \
    DOT_TILE(type, format, 1) DOT_TILE(type, format, 2) DOT_TILE(type, format, 4) DOT_TILE(type, format, 8)
DOT_TILES(i8, CPU_WEIGHTS_INT8)
DOT_TILES(i4, CPU_WEIGHTS_INT4)

#define COLUMNS(type)                                                                                                  \
    {KERNEL_TILE(int_dot, type, n, 1), KERNEL_TILE(int_dot, type, n, 2), KERNEL_TILE(int_dot, type, n, 4),             \
     KERNEL_TILE(int_dot, type, n, 8)}

void cpu_kernels_avx512_vnni(cpu_kernels *k) {
    if (!__builtin_cpu_supports("avx512vnni")) return;
    k->int_dot = (cpu_int_dot_kernels){.prepare = kernels_avx512_vnni_prepare,
                                       .tiles = {
                                           COLUMNS(i8),
                                           COLUMNS(i4),
#define KQUANT(NAME, name, low, high, sub, minimum, bias) COLUMNS(name),
#include "core/base/kquants.def"
#undef KQUANT
                                       }};
}
#else
void cpu_kernels_avx512_vnni(cpu_kernels *k) { (void)k; }
#endif
