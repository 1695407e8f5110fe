/* SPDX-License-Identifier: MIT
 * Sixteen rows of weights times integers with AVX-512 VNNI. This is the part of kernels_avx512_vnni.c for forms of
 * eight or four bits that have blocks of 32 and neither high bits nor minima. Each lane is a row, so the products of a
 * block are added as integers and become fp32 once. Rows are not stored in this order, so four bytes of each row are
 * brought into one vector. All vectors of activations share that work.
 */
#ifndef CPU_SIMD_BODY_ROWS_DOT_AVX512_H
#define CPU_SIMD_BODY_ROWS_DOT_AVX512_H

#include <string.h>

#include "core/base/kquant.h"

enum {
    ROWS_GROUP = 4,
    ROWS_NUMBERS = 8,
    ROWS_AHEAD = 512
}; /* columns whose integer sums are in registers; fp16 numbers at once */

/* Returns whether these kernels process the form. Forms with minima and forms with blocks of 256 were slower this way
 * with one vector, if the matrix did not fit into the L3 cache (docs/notes/decoding.md). */
VFN bool rows_take(const kquant_form f) { return f.block == KQUANT_SMALL && !f.high && !f.minimum; }

/* 32 neighbours of a vector in the form that these kernels read. The sums of products begin with `start`, which is
 * -bias times the sum of the 32. */
typedef struct rows_block {
    int8_t high[32], low[32];
    int32_t start;
    float scale;
} rows_block;

_Static_assert(2 * sizeof(rows_block) <= sizeof(cpu_int_dot_step) + 4 * sizeof(float), "a column must have room");

static VTARGET void rows_prepare(void *out, const float *x, int64_t k, kquant_form f) {
    rows_block *b = out;
    for (; k > 0; k -= 32, x += 32, b++) {
        vf first = v_load(x), second = v_load(x + 16), up = v_set(prepare_scale(first, second, &b->scale));
        const int sum = prepare_sum(vi_add(prepare_bytes(b->high, b->low, v_mul(first, up)),
                                           prepare_bytes(b->high + 16, b->low + 16, v_mul(second, up))));
        b->start = (int32_t)(0u - (uint32_t)f.bias * (uint32_t)sum);
    }
}

/* Sets lane r of words[d] to bytes 4 d to 4 d + 3 of the sixteen bytes at p + r * step. Pairs of bytes that `keep` does
 * not select become 0. If there are fewer than sixteen rows, the last row is repeated. */
VFN void rows_words(vi words[4], const char *p, int64_t step, const __mmask8 keep, const int rows) {
    vi v[4];
    EACH(i, 4) {
        __m128i part[4]; /* of rows i, i + 4, i + 8 and i + 12 */
        EACH(n, 4) {
            const char *at = p + (i + 4 * n < rows ? i + 4 * n : rows - 1) * step;
            part[n] =
                keep == 0xff ? _mm_loadu_si128((const __m128i *)(const void *)at) : _mm_maskz_loadu_epi16(keep, at);
        }
        v[i] = _mm512_inserti32x4(_mm512_castsi128_si512(part[0]), part[1], 1);
        v[i] = _mm512_inserti32x4(_mm512_inserti32x4(v[i], part[2], 2), part[3], 3);
    }
    vi a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpacklo_epi32(v[2], v[3]);
    vi c = _mm512_unpackhi_epi32(v[0], v[1]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    words[0] = _mm512_unpacklo_epi64(a, b), words[1] = _mm512_unpackhi_epi64(a, b);
    words[2] = _mm512_unpacklo_epi64(c, d), words[3] = _mm512_unpackhi_epi64(c, d);
}

/* Sets lane r of scales[n] to scale n of row r, for up to ROWS_NUMBERS scales. */
VFN void rows_scales(vf scales[ROWS_NUMBERS], const uint16_t *p, int64_t step, int64_t count, const int rows) {
    vi words[4];
    if (count == ROWS_NUMBERS)
        rows_words(words, (const char *)p, 2 * step, 0xff, rows);
    else
        rows_words(words, (const char *)p, 2 * step, (__mmask8)((1u << count) - 1), rows);
    EACH(d, 4) {
        scales[2 * d] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words[d]));
        scales[2 * d + 1] = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(vi_shr(words[d], 16)));
    }
}

typedef struct rows_place {
    const char *w, *x; /* the block */
    int64_t row_bytes, row_scales, column_bytes;
} rows_place;

/* Returns word d of a block's eight as unsigned codes. Nibbles come from four words: first the low nibbles, then the
 * high ones. */
VFN vi rows_codes(const kquant_form f, const vi *words, const int d) {
    if (f.low == 8) return vi_xor(words[d], _mm512_set1_epi8((char)0x80));
    vi nibbles = vi_and(d < 4 ? words[d] : _mm512_srli_epi16(words[d - 4], 4), _mm512_set1_epi8(15));
    return f.steps ? kquant_steps_of(nibbles) : nibbles;
}

/* Adds a block's products with up to ROWS_GROUP vectors. */
VFN void rows_add(const kquant_form f, vf *sums, const vi *words, vf scale, const char *x, int64_t column_bytes,
                  const int count) {
    const rows_block *block[ROWS_GROUP];
    vi high[ROWS_GROUP], low[ROWS_GROUP];
    EACH(j, count) {
        block[j] = (const rows_block *)(const void *)(x + j * column_bytes);
        high[j] = vi_set(0);
        low[j] = vi_set(block[j]->start);
    }
    EACH(d, 8) {
        vi u = rows_codes(f, words, d);
        EACH(j, count) {
            int32_t four[2];
            memcpy(four, block[j]->high + 4 * d, 4);
            memcpy(four + 1, block[j]->low + 4 * d, 4);
            high[j] = _mm512_dpbusd_epi32(high[j], u, vi_set(four[0]));
            low[j] = _mm512_dpbusd_epi32(low[j], u, vi_set(four[1]));
        }
    }
    EACH(j, count) {
        vf all = v_from(vi_add(vi_shl(high[j], 8), low[j]));
        sums[j] = v_fma(all, v_mul(scale, v_set(block[j]->scale)), sums[j]);
    }
}

VFN void rows_step(const kquant_form f, vf *sums, const rows_place *p, vf scale, const int rows, const int C) {
    const int count = C < ROWS_GROUP ? C : ROWS_GROUP;
    vi words[8];
    rows_words(words, p->w, p->row_bytes, 0xff, rows);
    if (f.low == 8) rows_words(words + 4, p->w + 16, p->row_bytes, 0xff, rows);
    for (int j = 0; j < C; j += count)
        rows_add(f, sums + j, words, scale, p->x + j * p->column_bytes, p->column_bytes, count);
}

/* Prefetches the bytes of these rows that are ROWS_AHEAD further on or, past their ends, those of the next sixteen
 * rows. */
VFN void rows_ahead(const char *w, int64_t at, int64_t row_bytes) {
    const int64_t ahead = ROWS_AHEAD < row_bytes ? ROWS_AHEAD : row_bytes;
    w += at + ahead < row_bytes ? ahead : ahead + (VL - 1) * row_bytes;
    for (int r = 0; r < VL; r++) __builtin_prefetch(w + r * row_bytes, 0, 3);
}

/* Multiplies up to sixteen rows by C columns: y[r * y_step + j] = row r times column j. */
VFN void rows_tile(const kquant_form f, float *y, int64_t y_step, rows_place p, const uint16_t *scales, int64_t k,
                   const int rows, const int C) {
    const int bytes = f.low == 8 ? 32 : 16;
    const char *first = p.w;
    vf sums[CPU_GEMV_COLUMNS], scale[ROWS_NUMBERS];
    EACH(j, C) sums[j] = v_set(0);
    for (int64_t left = k / f.block; left > 0; left -= ROWS_NUMBERS, scales += ROWS_NUMBERS) {
        const int count = left < ROWS_NUMBERS ? (int)left : ROWS_NUMBERS;
        rows_scales(scale, scales, p.row_scales, count, rows);
        for (int n = 0; n < count; n++, p.w += bytes, p.x += sizeof(rows_block)) {
            if (n * bytes % 64 == 0) rows_ahead(p.w, p.w - first, p.row_bytes);
            rows_step(f, sums, &p, scale[n], rows, C);
        }
    }
    EACH(j, C) {
        float lanes[VL];
        v_store(lanes, sums[j]);
        for (int r = 0; r < rows; r++) y[r * y_step + j] = lanes[r];
    }
}

#endif
