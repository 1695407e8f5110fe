/* SPDX-License-Identifier: MIT
 * The matrix kernels in terms of vec_*.h; included once by each kernels_*.c, after these are defined:
 *   GEMM_TYPE            the type of the factors: f32 or bf16
 *   GEMM_HEIGHTS(X)      X(height) for each height of a tile, ascending by the step
 *   GEMM_HEIGHTS_IN_C(X) those defined here; the others exist already. If undefined: all
 *   GEMM_STEP, GEMM_MR   smallest and largest height
 *   GEMM_NRV, GEMM_NR    vectors (1 to 4) and numbers in a row of a tile
 *   GEMM_PACKING         1: the tiles that pack, for both source types, exist already (gemm_tile_avx512.h);
 *                        GEMM_COPIES: gemm_tile_copy.h makes these tiles; neither: there are no such tiles
 *   GEMM_PAIR            1, or 2 with GEMM_DOT, gemm_pack_along, gemm_pack_across for bfloat16 pairs
 *
 * A tile keeps height x NRV accumulators in registers; each step of k loads NRV vectors of B and broadcasts one word of
 * each row of A. Each element is one chain of fused multiply-adds in the order of k, whichever tile it is in.
 */
#ifndef CPU_SIMD_BODY_GEMM_BODY_H
#define CPU_SIMD_BODY_GEMM_BODY_H

#include <string.h>

#include "core/base/float16.h"
#include "cpu/simd/gemm_ukernel.h"

_Static_assert(GEMM_NR == GEMM_NRV * VL, "a row of a tile is whole vectors");

#ifndef GEMM_HEIGHTS_IN_C
#define GEMM_HEIGHTS_IN_C GEMM_HEIGHTS
#endif

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static inline float scalar_at(const void *data, cpu_dtype dtype, int64_t index) {
    return dtype == CPU_F16 ? fp16_to_f32(((const uint16_t *)data)[index]) : ((const float *)data)[index];
}

VFN vf load_any(const void *p, cpu_dtype dtype) {
    return dtype == CPU_F16 ? v_load_f16((const uint16_t *)p) : v_load((const float *)p);
}

VFN vf load_any_n(const void *p, cpu_dtype dtype, int64_t n) {
    return dtype == CPU_F16 ? v_load_f16_n((const uint16_t *)p, n) : v_load_n((const float *)p, n);
}

static VTARGET void KERNEL(load_strided, GEMM_TYPE)(float *y, const void *x, cpu_dtype dtype, int64_t step,
                                                    int64_t count, bool round) {
    int64_t i = 0;
    if (step == 1)
        for (; i + VL <= count; i += VL) v_store(y + i, load_any(cpu_element(x, dtype, i), dtype));
    for (; i < count; i++) y[i] = scalar_at(x, dtype, i * step);
    if (round)
        for (i = 0; i < count; i += VL) {
            int64_t n = count - i < VL ? count - i : VL;
            v_store_n(y + i, v_round_bf16(v_load_n(y + i, n)), n);
        }
}

#if GEMM_PAIR == 1
/* Load up to VL words from neighbours in k (of which n elements exist; the rest is zero), or from one k across rows or
 * columns. */
VFN vf gemm_pack_along(const void *p, cpu_dtype dtype, int64_t n, bool round) {
    vf v = n >= VL ? load_any(p, dtype) : load_any_n(p, dtype, n > 0 ? n : 0);
    return round ? v_round_bf16(v) : v;
}
VFN vf gemm_pack_across(const void *p, const void *next, cpu_dtype dtype, int64_t n, bool round) {
    (void)next;
    return gemm_pack_along(p, dtype, n, round);
}
#define GEMM_DOT(x, y, sum) v_fma(x, y, sum)
#endif

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Packs [k][width] from a source whose neighbours run across, if all columns exist. Inlined with constants for width,
 * dtype and round. */
VFN void move_across(float *target, int width, const void *data, cpu_dtype dtype, int64_t stride, int64_t count,
                     bool round) {
    int rest = width % VL;
    for (int64_t k = 0; k < count; k++, target += width, data = cpu_element(data, dtype, stride)) {
        for (int c = 0; c < width; c += 16) __builtin_prefetch(cpu_element(data, dtype, GEMM_STRIP * stride + c), 0, 2);
        int c = 0;
        for (; c + VL <= width; c += VL) {
            vf v = load_any(cpu_element(data, dtype, c), dtype);
            v_store(target + c, round ? v_round_bf16(v) : v);
        }
        if (rest) {
            vf v = load_any_n(cpu_element(data, dtype, c), dtype, rest);
            v_store_n(target + c, round ? v_round_bf16(v) : v, rest);
        }
    }
}

#define MOVE_ACROSS(DTYPE, ROUND)                                                                                      \
    if (width == GEMM_MR)                                                                                              \
        move_across(target, GEMM_MR, first, DTYPE, stride, k1 - k0, ROUND);                                            \
    else if (width == GEMM_NR)                                                                                         \
        move_across(target, GEMM_NR, first, DTYPE, stride, k1 - k0, ROUND);                                            \
    else                                                                                                               \
        move_across(target, width, first, DTYPE, stride, k1 - k0, ROUND);

/* Packs [kw][width] from a source whose neighbours run across: element (k, c) is at k*stride + c. */
static VTARGET void pack_across(float *target, int width, const void *data, cpu_dtype dtype, int64_t stride,
                                int64_t cols, int64_t k0, int64_t k1, bool round) {
    if (GEMM_PAIR == 1 && cols >= width) {
        const void *first = cpu_element(data, dtype, k0 * stride);
        if (dtype == CPU_F16) {
            MOVE_ACROSS(CPU_F16, round)
        } else if (round) {
            MOVE_ACROSS(CPU_F32, true)
        } else {
            MOVE_ACROSS(CPU_F32, false)
        }
        return;
    }
    for (int64_t k = k0; k < k1; k += GEMM_PAIR, target += width) {
        const char *row = (const char *)cpu_element(data, dtype, k * stride);
        const char *next =
            GEMM_PAIR == 2 && k + 1 < k1 ? (const char *)cpu_element(data, dtype, (k + 1) * stride) : NULL;
        for (int c = 0; c < width; c += VL) {
            const void *second = next ? cpu_element(next, dtype, c) : NULL;
            vf v = gemm_pack_across(cpu_element(row, dtype, c), second, dtype, cols - c, round);
            if (width - c >= VL)
                v_store(target + c, v);
            else
                v_store_n(target + c, v, width - c);
        }
    }
}

/* Packs a source with any other strides. Each k (or pair) is gathered first. */
static VTARGET void pack_across_strided(float *target, int width, const void *data, cpu_dtype dtype, int64_t k_stride,
                                        int64_t c_stride, int64_t cols, int64_t k0, int64_t k1, bool round) {
    float rows[2][64];
    for (int64_t k = k0; k < k1; k += GEMM_PAIR, target += width) {
        int64_t pair = k + 1 < k1 && GEMM_PAIR == 2 ? 2 : 1;
        for (int64_t p = 0; p < pair; p++)
            for (int64_t c = 0; c < cols; c++) rows[p][c] = scalar_at(data, dtype, (k + p) * k_stride + c * c_stride);
        pack_across(target, width, rows, CPU_F32, 64, cols, 0, pair, round);
    }
}

/* Packs [kw][width] from a source whose neighbours run along k: element (k, c) is at c*stride + k. VL columns at a time
 * are transposed in registers. */
static VTARGET void pack_transposed(float *target, int width, const void *data, cpu_dtype dtype, int64_t stride,
                                    int64_t cols, int64_t k0, int64_t k1, bool round) {
    for (int c = 0; c < width; c += VL)
        for (int64_t k = k0; k < k1; k += VL * GEMM_PAIR) {
            vf x[VL];
            for (int i = 0; i < VL; i++)
                __builtin_prefetch(cpu_element(data, dtype, (c + i + width) * stride + k), 0, 2);
            for (int i = 0; i < VL; i++)
                x[i] = c + i < cols
                           ? gemm_pack_along(cpu_element(data, dtype, (c + i) * stride + k), dtype, k1 - k, round)
                           : v_set(0);
            v_transpose(x);
            float *out = target + (k - k0) / GEMM_PAIR * width + c;
            int64_t words = (k1 - k + GEMM_PAIR - 1) / GEMM_PAIR;
            if (width - c >= VL && words >= VL)
                for (int i = 0; i < VL; i++) v_store(out + (int64_t)i * width, x[i]);
            else
                for (int i = 0; i < VL && i < words; i++)
                    v_store_n(out + (int64_t)i * width, x[i], width - c < VL ? width - c : VL);
        }
}

/* `across` and `along` are the strides of columns (or rows of A) and of k. */
static VTARGET void KERNEL(pack, GEMM_TYPE)(float *target, int width, const void *data, cpu_dtype dtype, int64_t across,
                                            int64_t along, int64_t cols, int64_t k0, int64_t k1, bool round) {
    if (across == 1)
        pack_across(target, width, data, dtype, along, cols, k0, k1, round);
    else if (along == 1)
        pack_transposed(target, width, data, dtype, across, cols, k0, k1, round);
    else
        pack_across_strided(target, width, data, dtype, along, across, cols, k0, k1, round);
}

/* Stores a vector of a row of A, starting at element j, in quads: groups of four, `step` floats apart. */
VFN void store_quads(float *row, int64_t step, int64_t j, vf v) {
    v_store_quads(row + j / GEMM_QUAD * step + j % GEMM_QUAD, step, v);
}

/* Packs [kw / GEMM_QUAD][height][GEMM_QUAD] from a source whose neighbours run along k. Nothing is transposed. */
static VTARGET void KERNEL(pack_quads, GEMM_TYPE)(float *target, int height, const void *data, cpu_dtype dtype,
                                                  int64_t stride, int64_t rows, int64_t k0, int64_t k1, bool round) {
    for (int64_t k = k0; k < k1; k += GEMM_BLOCK * GEMM_PAIR, target += height * GEMM_BLOCK)
        for (int r = 0; r < height; r++) {
            __builtin_prefetch(cpu_element(data, dtype, (r + height) * stride + k), 0, 2);
            for (int w = 0; w < GEMM_BLOCK; w += VL) {
                int64_t first = k + w * GEMM_PAIR;
                vf v = v_set(0);
                if (r < rows && first < k1)
                    v = gemm_pack_along(cpu_element(data, dtype, r * stride + first), dtype, k1 - first, round);
                store_quads(target + r * GEMM_QUAD, height * GEMM_QUAD, w, v);
            }
        }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

#define COLS_1(op, r) op(r, 0)
#define COLS_2(op, r) op(r, 0) op(r, 1)
#define COLS_3(op, r) COLS_2(op, r) op(r, 2)
#define COLS_4(op, r) COLS_3(op, r) op(r, 3)
#define COLS_JOIN(n)  COLS_##n
#define COLS_OF(n)    COLS_JOIN(n)
#define COLS          COLS_OF(GEMM_NRV)

#define ROWS_2(op)  op(0) op(1)
#define ROWS_4(op)  ROWS_2(op) op(2) op(3)
#define ROWS_6(op)  ROWS_4(op) op(4) op(5)
#define ROWS_8(op)  ROWS_6(op) op(6) op(7)
#define ROWS_10(op) ROWS_8(op) op(8) op(9)
#define ROWS_12(op) ROWS_10(op) op(10) op(11)
#define ROWS_14(op) ROWS_12(op) op(12) op(13)

#define TILE_ZERO(r, j)  vf c##r##_##j = v_set(0);
#define TILE_LOAD(r, j)  vf b##j = v_load(b + at_b + (j) * VL);
#define TILE_FMA(r, j)   c##r##_##j = GEMM_DOT(x, b##j, c##r##_##j);
#define TILE_STORE(r, j) v_store(c + (r) * ldc + (j) * VL, v_mul(c##r##_##j, scale));
#define TILE_ADD(r, j)                                                                                                 \
    v_store(c + (r) * ldc + (j) * VL, v_fma(c##r##_##j, scale, v_load(c + behind + (r) * ldc + (j) * VL)));
#define ROW_ZERO(r)  COLS(TILE_ZERO, r)
#define ROW_STORE(r) COLS(TILE_STORE, r)
#define ROW_ADD(r)   COLS(TILE_ADD, r)
#define TILE_AHEAD(r, j)                                                                                               \
    if ((j) * VL % 16 == 0) __builtin_prefetch(b + ahead_b + at_b + (j) * VL);
#define ROW_FMA(r)                                                                                                     \
    {                                                                                                                  \
        vf x = v_set(A_WORD(r));                                                                                       \
        COLS(TILE_FMA, r)                                                                                              \
    }
#define TILE_STEP(ROWS, w)                                                                                             \
    {                                                                                                                  \
        enum { at_k = (w), at_b = (w) * GEMM_NR };                                                                     \
        COLS(TILE_LOAD, 0)                                                                                             \
        COLS(TILE_AHEAD, 0)                                                                                            \
        if (height > 8 || at_k % 2 == 0) __builtin_prefetch(a + ahead_a + at_k * height);                              \
        TURN_STEP_END                                                                                                  \
        ROWS(ROW_FMA)                                                                                                  \
    }
#define TILE_STEPS_4(ROWS, w)                                                                                          \
    TILE_STEP(ROWS, w) TILE_STEP(ROWS, (w) + 1) TILE_STEP(ROWS, (w) + 2) TILE_STEP(ROWS, (w) + 3)
/* Steps of k by which the panels are prefetched ahead. B comes from L2, A at first from L3. */
enum { AHEAD_B = 8, AHEAD_A = 24 };

/* AVX-512 uses exactly four steps per iteration. Short code with one-byte offsets is decoded as fast as it executes. So
 * the prefetched data has separate addresses, which the compiler may not merge with those of the panels, and it may not
 * group the prefetches of several steps. On other sets, a long iteration costs less than its branch. */
#if VL == 16
#define GEMM_TURN        4
#define TURN_BEGIN       __asm__("" : "+r"(ahead_a), "+r"(ahead_b));
#define TURN_STEP_END    __asm__ volatile("");
#define TURN_STEPS(ROWS) TILE_STEPS_4(ROWS, 0)
#else
#define GEMM_TURN 16
#define TURN_BEGIN
#define TURN_STEP_END
#define TURN_STEPS(ROWS) TILE_STEPS_4(ROWS, 0) TILE_STEPS_4(ROWS, 4) TILE_STEPS_4(ROWS, 8) TILE_STEPS_4(ROWS, 12)
#endif
/* The parts of a tile other than its steps. In addition to the arithmetic, each iteration prefetches a line that is
 * needed soon, and each of the last iterations prefetches a row of C. Prefetched all at once, these rows would delay
 * the panels. */
#define TILE_START(HEIGHT)                                                                                             \
    enum { height = HEIGHT };                                                                                          \
    const float *row = fetch->row;                                                                                     \
    const char *now = fetch->at, *then = now + fetch->second;                                                          \
    int64_t behind = !fetch->addend ? 0 : (int64_t)((uintptr_t)fetch->addend - (uintptr_t)c) / 4;                      \
    int64_t next = fetch->step, row_step = fetch->row_step, ahead_a = AHEAD_A * HEIGHT, ahead_b = AHEAD_B * GEMM_NR;   \
    TURN_BEGIN                                                                                                         \
    ROWS_##HEIGHT(ROW_ZERO)
#define TILE_STREAMS                                                                                                   \
    {                                                                                                                  \
        const char *after = now + next;                                                                                \
        __builtin_prefetch(now, 0, 2);                                                                                 \
        now = then, then = after;                                                                                      \
    }
#define TILE_FETCH_ROW                                                                                                 \
    if (kw <= height * GEMM_BLOCK && row) {                                                                            \
        for (int j = 0; j < GEMM_NR; j += 16) __builtin_prefetch(row + j);                                             \
        for (int j = 0; behind && j < GEMM_NR; j += 16) __builtin_prefetch(row + behind + j);                          \
        row += row_step;                                                                                               \
    }
#define TILE_FINISH(HEIGHT)                                                                                            \
    vf scale = v_set(alpha);                                                                                           \
    if (add) {                                                                                                         \
        ROWS_##HEIGHT(ROW_ADD)                                                                                         \
    } else {                                                                                                           \
        ROWS_##HEIGHT(ROW_STORE)                                                                                       \
    }
#define TILE_NAMED(NAME, HEIGHT)                                                                                       \
    static VTARGET void NAME(const float *a, const float *b, int64_t kw, float *c, int64_t ldc, float alpha, bool add, \
                             const gemm_next *fetch) {                                                                 \
        TILE_START(HEIGHT)                                                                                             \
        for (; kw >= GEMM_TURN; kw -= GEMM_TURN, a += GEMM_TURN * HEIGHT, b += GEMM_TURN * GEMM_NR) {                  \
            TURN_STEPS(ROWS_##HEIGHT)                                                                                  \
            TILE_STREAMS                                                                                               \
            if (!(kw & (GEMM_BLOCK - GEMM_TURN))) TILE_FETCH_ROW                                                       \
        }                                                                                                              \
        for (; GEMM_TURN > GEMM_QUAD && kw >= GEMM_QUAD;                                                               \
             kw -= GEMM_QUAD, a += GEMM_QUAD * HEIGHT, b += GEMM_QUAD * GEMM_NR) {                                     \
            TILE_STEPS_4(ROWS_##HEIGHT, 0)                                                                             \
        }                                                                                                              \
        for (; kw > 0; kw--, a += A_STEP, b += GEMM_NR) {                                                              \
            TILE_STEP(ROWS_##HEIGHT, 0)                                                                                \
        }                                                                                                              \
        TILE_FINISH(HEIGHT)                                                                                            \
    }
#define TILE(HEIGHT)       TILE_NAMED(KERNEL_TILE(gemm, GEMM_TYPE, HEIGHT, GEMM_NR), HEIGHT)
#define TILE_QUADS(HEIGHT) TILE_NAMED(KERNEL_TILE(gemm_quads, GEMM_TYPE, HEIGHT, GEMM_NR), HEIGHT)

/* A as [k][height]. */
#define A_WORD(r) a[at_k * height + (r)]
#define A_STEP    height
GEMM_HEIGHTS_IN_C(TILE)
#undef A_WORD
#undef A_STEP

/* A in quads. */
#define A_WORD(r) a[at_k / GEMM_QUAD * GEMM_QUAD * height + at_k % GEMM_QUAD + (r) * GEMM_QUAD]
#define A_STEP    1
GEMM_HEIGHTS_IN_C(TILE_QUADS)
#undef A_WORD
#undef A_STEP

#ifdef GEMM_COPIES
#include "cpu/simd/body/gemm_tile_copy.h"
#endif

/* ---- finishing --------------------------------------------------------------------------------------------------- */

static VTARGET void add_row(float *row, const cpu_matrix_view *m, int64_t i, int64_t j, int64_t cols) {
    const void *from = cpu_element(m->data, m->dtype, i * m->row_stride + j * m->col_stride);
    if (m->col_stride != 1) {
        for (int64_t c = 0; c < cols; c++) row[c] += scalar_at(from, m->dtype, c * m->col_stride);
        return;
    }
    int64_t c = 0;
    for (; c + VL <= cols; c += VL)
        v_store(row + c, v_add(v_load(row + c), load_any(cpu_element(from, m->dtype, c), m->dtype)));
    if (c < cols)
        v_store_n(row + c,
                  v_add(v_load_n(row + c, cols - c), load_any_n(cpu_element(from, m->dtype, c), m->dtype, cols - c)),
                  cols - c);
}

static VTARGET void store_row(const cpu_matrix_view *m, const float *row, int64_t i, int64_t j, int64_t cols) {
    int64_t index = i * m->row_stride + j * m->col_stride;
    if (m->dtype == CPU_F32) {
        float *to = (float *)(uintptr_t)m->data + index;
        int64_t c = 0;
        if (m->col_stride == 1)
            for (; c + VL <= cols; c += VL) v_store(to + c, v_load(row + c));
        for (; c < cols; c++) to[c * m->col_stride] = row[c];
        return;
    }
    uint16_t *to = (uint16_t *)(uintptr_t)m->data + index;
    if (m->col_stride != 1) {
        for (int64_t c = 0; c < cols; c++) to[c * m->col_stride] = fp16_from_f32(row[c]);
        return;
    }
    for (int64_t c = 0; c < cols; c += VL) {
        if (cols - c >= VL)
            v_store_f16(to + c, v_load(row + c));
        else
            v_store_f16_n(to + c, v_load_n(row + c, cols - c), cols - c);
    }
}

static VTARGET void KERNEL(gemm_finish, GEMM_TYPE)(const gemm_finish *f, float *tile, int64_t stride, int64_t i,
                                                   int64_t j, int64_t rows, int64_t cols) {
    cpu_matrix_view partial = {f->partial, CPU_F32, f->partial_stride, 1};
    for (int64_t r = 0; r < rows; r++, tile += stride) {
        if (!f->first) add_row(tile, &partial, i + r, j, cols);
        /* If the partial sums are C itself, they include the old content of C after the first block. */
        if (f->accumulate && (f->partial == f->c.data ? f->first : f->last)) add_row(tile, &f->c, i + r, j, cols);
        if (f->first && f->residual_first) add_row(tile, &f->residual, i + r, j, cols);
        if (!f->last) {
            store_row(&partial, tile, i + r, j, cols);
            continue;
        }
        if (f->has_residual && !f->residual_first) add_row(tile, &f->residual, i + r, j, cols);
        store_row(&f->c, tile, i + r, j, cols);
    }
}

#define SQUARE(r, j)                                                                                                   \
    {                                                                                                                  \
        vf x = v_load(c + (r) * stride + (j) * VL);                                                                    \
        c##r##_##j = v_fma(x, x, c##r##_##j);                                                                          \
    }
#define SQUARE_JOIN(r, j) sum = v_add(sum, c##r##_##j);

/* Processes full rows in pairs, to have enough independent chains for the depth of the units. */
static VTARGET void KERNEL(gemm_squares, GEMM_TYPE)(double *lanes, const float *c, int64_t stride, int64_t rows,
                                                    int64_t cols) {
    float sums[VL];
    vf sum = v_set(0);
    COLS(TILE_ZERO, 0)
    COLS(TILE_ZERO, 1)
    for (; cols == GEMM_NR && rows > 1; rows -= 2, c += 2 * stride) {
        COLS(SQUARE, 0)
        COLS(SQUARE, 1)
    }
    COLS(SQUARE_JOIN, 0)
    COLS(SQUARE_JOIN, 1)
    for (int64_t r = 0; r < rows; r++, c += stride)
        for (int64_t j = 0; j < cols; j += VL) {
            vf x = v_load_n(c + j, cols - j < VL ? cols - j : VL);
            sum = v_fma(x, x, sum);
        }
    v_store(sums, sum);
    for (int i = 0; i < VL; i++) lanes[i] += (double)sums[i];
}

/* ---- matrix times vector ----------------------------------------------------------------------------------------- */

enum { DOT_VECTORS = 4 };

/* Computes one row with four parallel sums, added pairwise. */
VFN float dot_row(const void *w, cpu_dtype dtype, const float *x, int64_t k, bool round) {
    vf s[DOT_VECTORS];
    for (int i = 0; i < DOT_VECTORS; i++) s[i] = v_set(0);
    int64_t j = 0;
    for (; j + DOT_VECTORS * VL <= k; j += DOT_VECTORS * VL)
        for (int i = 0; i < DOT_VECTORS; i++) {
            vf v = load_any(cpu_element(w, dtype, j + i * VL), dtype);
            s[i] = v_fma(round ? v_round_bf16(v) : v, v_load(x + j + i * VL), s[i]);
        }
    for (int i = 0; j < k; j += VL, i++) {
        int64_t n = k - j < VL ? k - j : VL;
        vf v = load_any_n(cpu_element(w, dtype, j), dtype, n);
        s[i] = v_fma(round ? v_round_bf16(v) : v, v_load_n(x + j, n), s[i]);
    }
    return v_sum(v_add(v_add(s[0], s[1]), v_add(s[2], s[3])));
}

static VTARGET void KERNEL(dot_rows, GEMM_TYPE)(float *y, const void *w, cpu_dtype dtype, int64_t stride,
                                                const float *x, int64_t rows, int64_t k, bool round) {
    for (int64_t r = 0; r < rows; r++) {
        const void *row = cpu_element(w, dtype, r * stride);
        if (dtype == CPU_F16)
            y[r] = dot_row(row, CPU_F16, x, k, round);
        else if (round)
            y[r] = dot_row(row, CPU_F32, x, k, true);
        else
            y[r] = dot_row(row, CPU_F32, x, k, false);
    }
}

/* y[c] = sum over k of w[k*stride + c] x[k]. 4 vectors of sums stay in registers over all of k. */
static VTARGET void KERNEL(sum_columns, GEMM_TYPE)(float *y, const void *w, cpu_dtype dtype, int64_t stride,
                                                   const float *x, int64_t count, int64_t k, bool round) {
    for (int64_t c = 0; c < count; c += DOT_VECTORS * VL) {
        int64_t width = count - c < DOT_VECTORS * VL ? count - c : DOT_VECTORS * VL;
        vf s[DOT_VECTORS];
        for (int i = 0; i < DOT_VECTORS; i++) s[i] = v_set(0);
        for (int64_t j = 0; j < k; j++) {
            const void *row = cpu_element(w, dtype, j * stride + c);
            vf factor = v_set(x[j]);
            for (int i = 0; i < DOT_VECTORS; i++) {
                int64_t n = width - i * VL;
                if (n <= 0) break;
                vf v = n >= VL ? load_any(cpu_element(row, dtype, i * VL), dtype)
                               : load_any_n(cpu_element(row, dtype, i * VL), dtype, n);
                s[i] = v_fma(round ? v_round_bf16(v) : v, factor, s[i]);
            }
        }
        for (int i = 0; i < DOT_VECTORS && width > i * VL; i++) {
            int64_t n = width - i * VL;
            v_store_n(y + c + i * VL, s[i], n < VL ? n : VL);
        }
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

#define TILE_ENTRY(HEIGHT)       KERNEL_TILE(gemm, GEMM_TYPE, HEIGHT, GEMM_NR),
#define TILE_QUADS_ENTRY(HEIGHT) KERNEL_TILE(gemm_quads, GEMM_TYPE, HEIGHT, GEMM_NR),
static const cpu_gemm_kernels KERNEL(gemm, GEMM_TYPE) = {
    .mr = GEMM_MR,
    .nr = GEMM_NR,
    .row_step = GEMM_STEP,
    .pair = GEMM_PAIR,
    .tiles = {GEMM_HEIGHTS(TILE_ENTRY)},
    .quad_tiles = {GEMM_HEIGHTS(TILE_QUADS_ENTRY)},
#if defined(GEMM_PACKING) || defined(GEMM_COPIES)
    .pack_a_tile = KERNEL_TILE(gemm_pack_a, f32, GEMM_MR, GEMM_NR),
    .pack_a_tile_f16 = KERNEL_TILE(gemm_pack_a, f16, GEMM_MR, GEMM_NR),
    .pack_next_tile = KERNEL_TILE(gemm_pack_next, f32, GEMM_MR, GEMM_NR),
    .pack_next_tile_f16 = KERNEL_TILE(gemm_pack_next, f16, GEMM_MR, GEMM_NR),
#endif
#ifdef GEMM_COPIES
    .pack_b_tile = {KERNEL_TILE(gemm_pack_b, f32, GEMM_MR, GEMM_NR),
                    KERNEL_TILE(gemm_quads_pack_b, f32, GEMM_MR, GEMM_NR)},
    .pack_b_tile_f16 = {KERNEL_TILE(gemm_pack_b, f16, GEMM_MR, GEMM_NR),
                        KERNEL_TILE(gemm_quads_pack_b, f16, GEMM_MR, GEMM_NR)},
#endif
    .pack = KERNEL(pack, GEMM_TYPE),
    .pack_quads = KERNEL(pack_quads, GEMM_TYPE),
    .finish = KERNEL(gemm_finish, GEMM_TYPE),
    .squares = KERNEL(gemm_squares, GEMM_TYPE),
    .dot_rows = KERNEL(dot_rows, GEMM_TYPE),
    .sum_columns = KERNEL(sum_columns, GEMM_TYPE),
    .load_strided = KERNEL(load_strided, GEMM_TYPE),
};

#endif
