/* SPDX-License-Identifier: MIT
 * The kernels for attention's scores in terms of vec_*.h; included once by each kernels_*.c after gemm_body.h, in whose
 * panels the scores are stored.
 */
#ifndef CPU_SIMD_BODY_ATTENTION_BODY_H
#define CPU_SIMD_BODY_ATTENTION_BODY_H

#include "cpu/simd/attention_ukernel.h"
#include "cpu/simd/vec_math.h"

/* Returns the address of a score. Panel widths are multiples of VL, so a vector is never split between two panels. The
 * width is a constant, so no division remains. */
VFN float *score_at(attention_row r, int64_t j) {
    return r.at + (int64_t)((uint64_t)j / GEMM_NR) * r.step + (int64_t)((uint64_t)j % GEMM_NR);
}

/* ---- 2^x --------------------------------------------------------------------------------------------------------- */

/* A score this far below the maximum has the probability 0. Even with a million keys, its probability would be lost in
 * the rounding of the sum. A product of two larger factors is never subnormal, which would cost the processor a hundred
 * cycles. */
#define ATTENTION_LEAST  (-50.0f)
#define ATTENTION_UNSEEN (-1e30f)
#define ATTENTION_NONE   (-1e29f) /* the maximum of an empty set */

#ifdef VEC_PLAIN

VFN vf attention_power(vf x) { return x < ATTENTION_LEAST ? 0 : exp2f(x); }
VFN void attention_power_four(vf y[4], const vf x[4]) { EACH_OF_FOUR(y[k] = attention_power(x[k])); }

#else

/* Coefficients of 2^x for x <= 0, with a relative error of at most 1.1e-7. The integer part is rounded by adding a
 * large number, which leaves it in the last bits, and is moved to the exponent from there. */
#define POWER_ROUND 0x1.8p+23f
#define POWER_Q5    0x1.5bba46p-10f
#define POWER_Q4    0x1.3cea9ep-7f
#define POWER_Q3    0x1.c6b754p-5f
#define POWER_Q2    0x1.ebf9bcp-3f
#define POWER_Q1    0x1.62e42ap-1f

VFN vf attention_power(vf x) {
    vf n = v_add(x, v_set(POWER_ROUND)), r = v_sub(x, v_sub(n, v_set(POWER_ROUND)));
    vf q = v_fma(v_set(POWER_Q5), r, v_set(POWER_Q4));
    q = v_fma(q, r, v_set(POWER_Q3));
    q = v_fma(q, r, v_set(POWER_Q2));
    q = v_fma(q, r, v_set(POWER_Q1));
    q = v_fma(q, r, v_set(1));
    q = v_of_bits(vi_add(vi_of_bits(q), vi_shl(vi_of_bits(n), 23)));
    return v_select(v_lt(x, v_set(ATTENTION_LEAST)), v_set(0), q);
}

/* Computes four independent chains in parallel, like v_sigmoid_four. */
VFN void attention_power_four(vf y[4], const vf x[4]) {
    vf n[4], r[4], q[4];
    EACH_OF_FOUR(n[k] = v_add(x[k], v_set(POWER_ROUND)));
    EACH_OF_FOUR(r[k] = v_sub(n[k], v_set(POWER_ROUND)));
    EACH_OF_FOUR(r[k] = v_sub(x[k], r[k]));
    EACH_OF_FOUR(q[k] = v_fma(v_set(POWER_Q5), r[k], v_set(POWER_Q4)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(POWER_Q3)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(POWER_Q2)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(POWER_Q1)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(1)));
    EACH_OF_FOUR(q[k] = v_of_bits(vi_add(vi_of_bits(q[k]), vi_shl(vi_of_bits(n[k]), 23))));
    EACH_OF_FOUR(y[k] = v_select(v_lt(x[k], v_set(ATTENTION_LEAST)), v_set(0), q[k]));
}

#endif

/* ---- one query row per column ------------------------------------------------------------------------------------ */

static const float attention_lanes[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                          32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                          48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

/* Updates `largest` with the maximum of the visible part of each column. The invisible part becomes
 * ATTENTION_UNSEEN. */
VFN void columns_top(float *s, int64_t rows, int64_t first, float *largest) {
    vf top[GEMM_NRV];
    int64_t whole = first + 1 < 0 ? 0 : first + 1 < rows ? first + 1 : rows;
    for (int v = 0; v < GEMM_NRV; v++) top[v] = v_load(largest + v * VL);
    for (int64_t j = 0; j < whole; j++)
        for (int v = 0; v < GEMM_NRV; v++) top[v] = v_max(top[v], v_load(s + j * GEMM_NR + v * VL));
    for (int64_t j = whole; j < rows; j++)
        for (int v = 0; v < GEMM_NRV; v++) {
            float *at_v = s + j * GEMM_NR + v * VL;
            vm sees = v_le(v_set((float)(j - first)), v_load(attention_lanes + v * VL));
            vf x = v_select(sees, v_load(at_v), v_set(ATTENTION_UNSEEN));
            top[v] = v_max(top[v], x);
            v_store(at_v, x);
        }
    for (int v = 0; v < GEMM_NRV; v++) v_store(largest + v * VL, top[v]);
}

static VTARGET void KERNEL(attention_columns, f32)(float *s, int64_t rows, int64_t first, float *largest, float *sums,
                                                   float *factor) {
    for (int v = 0; v < GEMM_NRV; v++) v_store(factor + v * VL, v_load(largest + v * VL));
    columns_top(s, rows, first, largest);
    for (int v = 0; v < GEMM_NRV; v++) {
        vf f = attention_power(v_sub(v_load(factor + v * VL), v_load(largest + v * VL)));
        v_store(factor + v * VL, f);
        v_store(sums + v * VL, v_mul(v_load(sums + v * VL), f));
    }
    int64_t j = 0;
    for (; j + 4 <= rows; j += 4)
        for (int v = 0; v < GEMM_NRV; v++) {
            float *at_v = s + j * GEMM_NR + v * VL;
            vf x[4], top = v_load(largest + v * VL);
            EACH_OF_FOUR(x[k] = v_sub(v_load(at_v + k * GEMM_NR), top));
            attention_power_four(x, x);
            EACH_OF_FOUR(v_store(at_v + k * GEMM_NR, x[k]));
            vf four = v_add(v_add(x[0], x[1]), v_add(x[2], x[3]));
            v_store(sums + v * VL, v_add(v_load(sums + v * VL), four));
        }
    for (; j < rows; j++)
        for (int v = 0; v < GEMM_NRV; v++) {
            float *at_v = s + j * GEMM_NR + v * VL;
            vf e = attention_power(v_sub(v_load(at_v), v_load(largest + v * VL)));
            v_store(at_v, e);
            v_store(sums + v * VL, v_add(v_load(sums + v * VL), e));
        }
}

static VTARGET void KERNEL(attention_scale, f32)(float *to, int64_t step, const float *from, const float *factor,
                                                 int64_t width, int64_t cols) {
    for (int64_t c = 0; c < width; c++, to += step, from += GEMM_NR)
        for (int64_t v = 0; v < cols; v += VL) {
            vf x = v_mul(v_load(from + v), v_load(factor + v));
            if (cols - v >= VL)
                v_store(to + v, x);
            else
                v_store_n(to + v, x, cols - v);
        }
}

/* ---- a row ------------------------------------------------------------------------------------------------------- */

/* Returns the maximum of each lane and of `top`. Columns from `count` to the end of the panel become
 * ATTENTION_UNSEEN. */
VFN vf row_top(attention_row s, int64_t count, vf top) {
    vf other = top;
    int64_t j = 0;
    for (; j + 2 * VL <= count; j += 2 * VL) {
        top = v_max(top, v_load(score_at(s, j)));
        other = v_max(other, v_load(score_at(s, j + VL)));
    }
    for (; j < count || (uint64_t)j % GEMM_NR; j += VL) {
        vm sees = v_lt(v_load(attention_lanes), v_set((float)(count - j)));
        vf x = v_select(sees, v_load(score_at(s, j)), v_set(ATTENTION_UNSEEN));
        top = v_max(top, x);
        v_store(score_at(s, j), x);
    }
    return v_max(top, other);
}

static VTARGET void KERNEL(attention_begin, f32)(attention_row s, attention_row dp, int64_t count, const float *before,
                                                 float *largest, float *sums) {
    vf old = before ? v_load(before) : v_set(ATTENTION_NONE), sum = v_set(0), dot = v_set(0);
    vf top = row_top(s, count, old);
    v_store(largest, top);
    if (before) {
        vf f = attention_power(v_sub(old, top));
        sum = v_mul(v_load(sums), f);
        dot = v_mul(v_load(sums + VL), f);
    }
    int64_t j = 0, there = (int64_t)(((uint64_t)count + GEMM_NR - 1) / GEMM_NR) * GEMM_NR;
    for (; j + 4 * VL <= there; j += 4 * VL) {
        vf e[4];
        EACH_OF_FOUR(e[k] = v_sub(v_load(score_at(s, j + k * VL)), top));
        attention_power_four(e, e);
        EACH_OF_FOUR(v_store(score_at(s, j + k * VL), e[k]));
        sum = v_add(sum, v_add(v_add(e[0], e[1]), v_add(e[2], e[3])));
        EACH_OF_FOUR(dot = v_fma(e[k], v_load(score_at(dp, j + k * VL)), dot));
    }
    for (; j < count; j += VL) {
        float *at_s = score_at(s, j);
        vf e = attention_power(v_sub(v_load(at_s), top));
        sum = v_add(sum, e);
        dot = v_fma(e, v_load(score_at(dp, j)), dot);
        v_store(at_s, e);
    }
    v_store(sums, sum);
    v_store(sums + VL, dot);
}

/* Combines the lanes of VL rows at a time. The rows are transposed first, so that nothing is summed across lanes. */
static VTARGET void KERNEL(attention_join, f32)(const float *largest, const float *sums, float *totals, int64_t step,
                                                int64_t rows) {
    for (int64_t i = 0; i < rows; i += VL) {
        vf top[VL], sum[VL], dot[VL], most = v_set(ATTENTION_NONE), all = v_set(0), mean = v_set(0);
        for (int n = 0; n < VL; n++) {
            top[n] = v_load(largest + (i + n) * ATTENTION_LANES);
            sum[n] = v_load(sums + (i + n) * 2 * ATTENTION_LANES);
            dot[n] = v_load(sums + (i + n) * 2 * ATTENTION_LANES + VL);
        }
        v_transpose(top), v_transpose(sum), v_transpose(dot);
        for (int n = 0; n < VL; n++) most = v_max(most, top[n]);
        for (int n = 0; n < VL; n++) {
            vf f = attention_power(v_sub(top[n], most));
            all = v_fma(sum[n], f, all);
            mean = v_fma(dot[n], f, mean);
        }
        all = v_div(v_set(1), all);
        v_store(totals + i, most);
        v_store(totals + step + i, all);
        v_store(totals + 2 * step + i, v_mul(mean, all));
    }
}

static VTARGET void KERNEL(attention_finish, f32)(attention_row s, attention_row dp, attention_row copy, int64_t count,
                                                  int64_t width, const float *largest, const float *totals,
                                                  int64_t step) {
    vf f = v_mul(attention_power(v_sub(v_load(largest), v_set(totals[0]))), v_set(totals[step]));
    vf mean = v_set(totals[2 * step]);
    int64_t j = 0;
    for (; j < count; j += VL) { /* p is 0 for the columns beyond `count` */
        float *at_s = score_at(s, j), *at_d = score_at(dp, j);
        vf p = v_mul(v_load(at_s), f), g = v_mul(p, v_sub(v_load(at_d), mean));
        v_store(at_s, p);
        v_store(at_d, g);
        store_quads(copy.at, copy.step, j, g);
    }
    for (; j < width; j += VL) {
        v_store(score_at(s, j), v_set(0));
        v_store(score_at(dp, j), v_set(0));
        store_quads(copy.at, copy.step, j, v_set(0));
    }
}

/* ---- streamed ---------------------------------------------------------------------------------------------------- */

/* Stores whole vectors. The last vector of a line overlaps the beginning of the next line, which is written later. For
 * a panel's last line, only the remaining floats are stored, because what follows has already been written. */
static VTARGET void KERNEL(attention_strips, f32)(float *to, const float *from, int64_t step, int64_t rows,
                                                  int64_t depth) {
    enum { REST = GEMM_MR % VL };
    for (int64_t k = 0; k < depth; k++, from += step)
        for (int64_t i = 0; i + GEMM_MR <= rows; i += GEMM_MR) {
            float *out = to + i * depth + k * GEMM_MR;
            int c = 0;
            for (; c + VL <= GEMM_MR; c += VL) v_store(out + c, v_load(from + i + c));
            if (REST > 0 && k + 1 < depth)
                v_store(out + c, v_load_n(from + i + c, REST));
            else if (REST > 0)
                v_store_n(out + c, v_load_n(from + i + c, REST), REST);
        }
}

static VTARGET void KERNEL(attention_turn, f32)(float *to, int64_t step, const float *from, int64_t from_step,
                                                int64_t rows, int64_t width) {
    for (int64_t c = 0; c < width; c += VL)
        for (int64_t i = 0; i < rows; i += VL) {
            vf x[VL];
            int64_t there = rows - i < VL ? rows - i : VL, lines = width - c < VL ? width - c : VL;
            for (int n = 0; n < VL; n++) x[n] = v_load(from + (i + n) * from_step + c);
            v_transpose(x);
            for (int n = 0; n < lines; n++)
                if (there == VL)
                    v_store(to + (c + n) * step + i, x[n]);
                else
                    v_store_n(to + (c + n) * step + i, x[n], there);
        }
}

static const cpu_attention_kernels KERNEL(attention, f32) = {
    .columns = KERNEL(attention_columns, f32),
    .scale = KERNEL(attention_scale, f32),
    .begin = KERNEL(attention_begin, f32),
    .join = KERNEL(attention_join, f32),
    .finish = KERNEL(attention_finish, f32),
    .strips = KERNEL(attention_strips, f32),
    .turn = KERNEL(attention_turn, f32),
};

#endif
