/* SPDX-License-Identifier: MIT
 * Multiplies weights of few bits by integers with vpdpbusd, which multiplies unsigned bytes (the weights) by signed
 * bytes and adds four neighbouring products exactly.
 */
#include "cpu/simd/kernels.h"

#if defined(__x86_64__)
#include <string.h>

#define VEC_EXTRA_TARGET ",avx512vnni"
#include "cpu/simd/vec_avx512.h"

#include "core/base/kquant.h"
#include "cpu/simd/vec_common.h"

#define KERNEL_ISA avx512_vnni

enum { FULL = 127 * 256, AHEAD = 1024 };

#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* ---- the vector -------------------------------------------------------------------------------------------------- */

/* Stores the high and low bytes of 16 numbers, and returns the numbers as integers. */
VFN vi prepare_bytes(int8_t *high_bytes, int8_t *low_bytes, vf x) {
    vi q = vi_from(x), high = vi_sar(vi_add(q, vi_set(128)), 8), low = vi_sub(q, vi_shl(high, 8));
    _mm_storeu_si128((__m128i *)(void *)high_bytes, _mm512_cvtepi32_epi8(high));
    _mm_storeu_si128((__m128i *)(void *)low_bytes, _mm512_cvtepi32_epi8(low));
    return q;
}

/* Multiplies 16 numbers (half a block) by `inverse`, rounds them to integers, and stores their high and low bytes. For
 * each group of four integers, stores -bias times their sum in s->start. Returns the integers. */
VFN vi prepare_half(cpu_int_dot_step *s, int at, vf x, vf inverse, int bias) {
    vi q = prepare_bytes(s->high + at, s->low + at, v_mul(x, inverse));
    vi two = vi_add(q, _mm512_shuffle_epi32(q, _MM_PERM_CDAB)); /* within each group of four lanes */
    vi four = vi_add(two, _mm512_shuffle_epi32(two, _MM_PERM_BADC));
    vi starts = _mm512_maskz_compress_epi32(0x1111, _mm512_mullo_epi32(four, vi_set(-bias)));
    _mm_store_si128((__m128i *)(void *)(s->start + at / 4), _mm512_castsi512_si128(starts));
    return q;
}

/* Returns the sum of the integers of a half. Without a finite scale they can be any integers, and their sum may wrap,
 * which is undefined in GCC's _mm512_reduce_add_epi32. */
VFN int prepare_sum(vi q) {
    __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(q), _mm512_extracti64x4_epi64(q, 1));
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, _MM_PERM_BADC));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, _MM_PERM_CDAB)));
}

/* Computes the scale of 32 numbers, and returns the factor to multiply them by. Infinities, NaN and numbers from 2^120
 * on must result in NaN, so the scale is NaN. The maximum of two numbers drops a NaN, so NaN is tested separately. */
VFN float prepare_scale(vf first, vf second, float *scale) {
    float most = _mm512_reduce_max_ps(v_max(v_abs(first), v_abs(second)));
    const bool nan = _mm512_cmp_ps_mask(first, second, _CMP_UNORD_Q);
    *scale = most < 0x1p120f && !nan ? most / FULL : __builtin_nanf("");
    return most > 0x1p-100f && most < 0x1p120f ? FULL / most : 0;
}

/* Returns the sums of four products of a step's weights `u`. Without a bias, the products with the low bytes are added
 * to those with the high bytes in place. */
VFN vf dot_sums(const kquant_form f, vi u, const cpu_int_dot_step *s) {
    vi high = vi_shl(_mm512_dpbusd_epi32(_mm512_setzero_si512(), u, _mm512_load_si512(s->high)), 8);
    if (!f.bias) return v_from(_mm512_dpbusd_epi32(high, u, _mm512_load_si512(s->low)));
    return v_from(vi_add(high, _mm512_dpbusd_epi32(_mm512_load_si512(s->start), u, _mm512_load_si512(s->low))));
}

#include "cpu/simd/body/kquant_dot_avx512.h"
#include "cpu/simd/body/rows_dot_avx512.h"

/* INT4 is a form of kquants.def in all but the name. For INT8, `low` is the number of bits of a byte. */
VFN kquant_form form_of(const cpu_weights format) {
    if (format == CPU_WEIGHTS_INT8) return (kquant_form){.block = KQUANT_SMALL, .low = 8, .sub = 32, .bias = 128};
    if (format == CPU_WEIGHTS_INT4) return (kquant_form){.block = KQUANT_SMALL, .low = 4, .sub = 32, .bias = 8};
    return kquant_forms[format - CPU_WEIGHTS_KQUANT];
}

static VTARGET void kernels_avx512_vnni_prepare(void *out, const float *x, int64_t k, cpu_weights format) {
    const kquant_form f = form_of(format);
    if (rows_take(f)) {
        rows_prepare(out, x, k, f);
        return;
    }
    if (f.block == KQUANT_SUPER) {
        kquant_prepare(out, x, k, f);
        return;
    }
    const int each = kquant_supers(f);
    cpu_int_dot_step *steps = out;
    float *beside = (float *)(void *)(steps + cpu_int_dot_steps(k));
    if (k % 64) steps[cpu_int_dot_steps(k) - 1] = (cpu_int_dot_step){.start = {0}};
    for (int64_t b = 0; b < k / CPU_GEMV_BLOCK; b++, beside += each) {
        vf first = v_load(x + b * CPU_GEMV_BLOCK), second = v_load(x + b * CPU_GEMV_BLOCK + 16);
        const float up = prepare_scale(first, second, beside);
        cpu_int_dot_step *s = &steps[b / 2];
        const int odd = (int)(b % 2);
        vi q = prepare_half(s, 16 * odd, first, v_set(up), f.bias);
        q = vi_add(q, prepare_half(s, 32 + 16 * odd, second, v_set(up), f.bias));
        if (f.minimum) beside[1] = -*beside * (float)prepare_sum(q);
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

VFN __m256i half_step(const void *low, const void *high) {
    __m256i both = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)low));
    return _mm256_inserti128_si256(both, high ? _mm_loadu_si128((const __m128i *)high) : _mm_setzero_si128(), 1);
}

/* Returns the fifth bits of two blocks in the order of a step, 16 bits each: the first block's first half, the second
 * block's first half, the first block's second half, the second block's second half. Without a second block, its bits
 * are 0. */
VFN __mmask64 fifths_of(const uint8_t *first, const uint8_t *second) {
    uint32_t a, b = 0;
    memcpy(&a, first, sizeof a);
    if (second) memcpy(&b, second, sizeof b);
    const uint32_t low = (a & 0xffff) | b << 16, high = a >> 16 | (b & 0xffff0000u);
    return (uint64_t)high << 32 | low;
}

/* Loads a step of 64 weights as unsigned bytes; `half` means that only the first 32 exist. */
VFN vi weights_of(const kquant_form f, const char *row, int64_t step, bool half) {
    const int bytes = kquant_bytes(f);
    const uint8_t *first = (const uint8_t *)row + step * 2 * bytes, *second = half ? NULL : first + bytes;
    __m256i both = f.high || half ? half_step(first, second) : _mm256_loadu_si256((const __m256i *)(const void *)first);
    vi all = _mm512_inserti64x4(_mm512_castsi256_si512(both), _mm256_srli_epi16(both, 4), 1);
    vi nibbles = vi_and(all, _mm512_set1_epi8(15));
    if (f.steps) return kquant_steps_of(nibbles);
    if (!f.high) return nibbles;
    return _mm512_mask_add_epi8(nibbles, fifths_of(first + 16, half ? NULL : second + 16), nibbles,
                                _mm512_set1_epi8(16));
}

/* Returns, for each sum of four, the lane of its factor among 16 fp16 numbers of the blocks. `at` is the lane of the
 * step's first factor. */
VFN vi factor_lanes(const kquant_form f, int at) {
    return vi_add(vi_set(at), _mm512_maskz_mov_epi32(0xf0f0, vi_set(kquant_supers(f))));
}

VFN void dot_step(const kquant_form f, vf *sums, const vf *factor, const char *row, const char *x, int64_t column_bytes,
                  int64_t step, int at, bool half, const int C) {
    vi u = weights_of(f, row, step, half), lanes = factor_lanes(f, at);
    EACH(j, C) {
        const cpu_int_dot_step *s = (const cpu_int_dot_step *)(const void *)(x + j * column_bytes) + step;
        sums[j] = v_fma(dot_sums(f, u, s), _mm512_permutexvar_ps(lanes, factor[j]), sums[j]);
    }
}

/* Multiplies up to 16 fp16 numbers of the weights by the corresponding numbers of the vectors: scales by scales, and
 * minima by sums. */
VFN void dot_factors(const kquant_form f, vf *sums, vf *factor, const uint16_t *scales, const float *beside,
                     int64_t column_bytes, int64_t count, const int C) {
    vf own = v_load_f16_n(scales, count);
    EACH(j, C) {
        const float *other = (const float *)(const void *)((const char *)beside + j * column_bytes);
        factor[j] = v_mul(own, v_load_n(other, count));
        if (f.minimum) sums[j] = _mm512_mask_add_ps(sums[j], 0xaaaa, sums[j], factor[j]);
    }
}

VFN void dot_row(const kquant_form f, float *y, const char *row, const uint16_t *scales, const char *x, int64_t k,
                 const int C) {
    const int each = kquant_supers(f), blocks_at_once = VL / each;
    const int64_t column_bytes = (int64_t)cpu_int_dot_column_bytes(k);
    const float *beside =
        (const float *)(const void *)((const cpu_int_dot_step *)(const void *)x + cpu_int_dot_steps(k));
    vf sums[CPU_GEMV_COLUMNS], factor[CPU_GEMV_COLUMNS];
    EACH(j, C) sums[j] = v_set(0);
    int64_t left = k / CPU_GEMV_BLOCK, step = 0;
    for (; left >= blocks_at_once; left -= blocks_at_once, scales += VL, beside += VL) {
        dot_factors(f, sums, factor, scales, beside, column_bytes, VL, C);
        EACH(pair, blocks_at_once / 2) {
            __builtin_prefetch(row + step * 2 * kquant_bytes(f) + AHEAD, 0, 3);
            dot_step(f, sums, factor, row, x, column_bytes, step++, 2 * each * pair, false, C);
        }
    }
    if (left) dot_factors(f, sums, factor, scales, beside, column_bytes, left * each, C);
    for (int at = 0; left > 0; left -= 2, at += 2 * each)
        dot_step(f, sums, factor, row, x, column_bytes, step++, at, left == 1, C);
    EACH(j, C) y[j] = v_sum(sums[j]);
}

/* Only the last tile of a matrix has fewer than sixteen rows. */
VFN void rows_dots(const kquant_form f, float *y, rows_place p, const uint16_t *scales, int64_t k, int rows,
                   const int C) {
    if (rows == VL)
        rows_tile(f, y, C, p, scales, k, VL, C);
    else
        for (int j = 0; j < C; j++, p.x += p.column_bytes) rows_tile(f, y + j, C, p, scales, k, rows, 1);
}

/* Processes row after row, as in body/gemv_body.h, or all rows at once. */
VFN void dots(const cpu_weights format, float *y, const void *w, const uint16_t *scales, const void *x, int64_t k,
              int rows, const int C) {
    const kquant_form f = form_of(format);
    const int64_t row_bytes = cpu_weights_row_bytes(format, k), row_scales = cpu_weights_row_scales(format, k);
    if (rows_take(f)) {
        const rows_place p = {w, x, row_bytes, row_scales, (int64_t)cpu_int_dot_column_bytes(k)};
        rows_dots(f, y, p, scales, k, rows, C);
        return;
    }
    for (int r = 0; r < rows; r++) {
        const char *row = (const char *)w + r * row_bytes;
        if (f.block == KQUANT_SUPER)
            kquant_dot_row(f, y + r * C, (const uint8_t *)row, scales + r * row_scales, x, k, C);
        else
            dot_row(f, y + r * C, row, scales + r * row_scales, x, k, C);
    }
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
#define KQUANT(NAME, name, ...) DOT_TILES(name, CPU_WEIGHTS_##NAME)
#include "core/base/kquants.def"
#undef KQUANT

#define COLUMNS(type)                                                                                                  \
    {KERNEL_TILE(int_dot, type, n, 1), KERNEL_TILE(int_dot, type, n, 2), KERNEL_TILE(int_dot, type, n, 4),             \
     KERNEL_TILE(int_dot, type, n, 8)}

void cpu_kernels_avx512_vnni(cpu_kernels *k) {
    if (!__builtin_cpu_supports("avx512vnni")) return;
    k->int_dot = (cpu_int_dot_kernels){.prepare = kernels_avx512_vnni_prepare,
                                       .tiles = {
                                           COLUMNS(i8),
                                           COLUMNS(i4),
#define KQUANT(NAME, name, ...) COLUMNS(name),
#include "core/base/kquants.def"
#undef KQUANT
                                       }};
}
#else
void cpu_kernels_avx512_vnni(cpu_kernels *k) { (void)k; }
#endif
