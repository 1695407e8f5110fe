/* SPDX-License-Identifier: MIT
 * The kernels of attention's scores in terms of vec_*.h; included once by each kernels_*.c with ATTENTION_NAME, the table's
 * name, behind gemm_body.h, whose panels the scores lie in.
 */
#ifndef DRIVERS_CPU_ATTENTION_BODY_H
#define DRIVERS_CPU_ATTENTION_BODY_H

#include "drivers/cpu/attention.h"
#include "drivers/cpu/vec_math.h"

/* Panels are multiples of VL wide, so a vector never lies in two of them. Their width is a constant: no division is left. */
VFN float *score_at(attention_row r, int64_t j) {
    return r.at + (int64_t)((uint64_t)j / GEMM_NR) * r.step + (int64_t)((uint64_t)j % GEMM_NR);
}

/* ---- a query row in each column --------------------------------------------------------------------------------------- */

#define ATTENTION_UNSEEN (-1e30f)

static const float attention_lanes[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                          16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                          32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                          48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

static VTARGET void attention_columns(float *s, int64_t rows, int64_t first, float *inverse) {
    vf top[GEMM_NRV], sum[GEMM_NRV];
    int64_t whole = first + 1 < rows ? first + 1 : rows;
    for (int v = 0; v < GEMM_NRV; v++) top[v] = v_set(ATTENTION_UNSEEN), sum[v] = v_set(0);
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
    for (int64_t j = 0; j < rows; j++)
        for (int v = 0; v < GEMM_NRV; v++) {
            float *at_v = s + j * GEMM_NR + v * VL;
            vf e = v_exp(v_sub(v_load(at_v), top[v]));
            sum[v] = v_add(sum[v], e);
            v_store(at_v, e);
        }
    for (int v = 0; v < GEMM_NRV; v++) v_store(inverse + v * VL, v_div(v_set(1), sum[v]));
}

static VTARGET void attention_scale(float *to, int64_t step, const float *from, const float *factor, int64_t width,
                                    int64_t cols) {
    for (int64_t c = 0; c < width; c++, to += step, from += GEMM_NR)
        for (int64_t v = 0; v < cols; v += VL) {
            vf x = v_mul(v_load(from + v), v_load(factor + v));
            if (cols - v >= VL)
                v_store(to + v, x);
            else
                v_store_n(to + v, x, cols - v);
        }
}

/* ---- a row ------------------------------------------------------------------------------------------------------------ */

/* The largest lane. The two halves of what is stored are read back as vectors, so that no lane waits for another. */
VFN float attention_max(vf v) {
    float lanes[2 * VL];
    for (int step = VL / 2; step > 0; step /= 2) {
        v_store(lanes, v);
        v_store(lanes + VL, v);
        v = v_max(v, v_load(lanes + step));
    }
    v_store(lanes, v);
    return lanes[0];
}

VFN float row_max(attention_row s, int64_t count) {
    vf best = v_set(*s.at);
    int64_t j = 0;
    for (; j + VL <= count; j += VL) best = v_max(best, v_load(score_at(s, j)));
    if (j < count)
        best = v_max(best,
                     v_select(v_lt(v_load(attention_lanes), v_set((float)(count - j))), v_load(score_at(s, j)), best));
    return attention_max(best);
}

static VTARGET void attention_gradient(attention_row s, attention_row dp, attention_row copy, int64_t count,
                                       int64_t width) {
    vf top = v_set(row_max(s, count)), sum = v_set(0), dot = v_set(0);
    int64_t j = 0;
    for (; j < count; j += VL) {
        float *at_s = score_at(s, j);
        vf e = v_exp(v_sub(v_load(at_s), top));
        if (count - j < VL) e = v_select(v_lt(v_load(attention_lanes), v_set((float)(count - j))), e, v_set(0));
        sum = v_add(sum, e);
        dot = v_fma(e, v_load(score_at(dp, j)), dot);
        v_store(at_s, e);
    }
    float one = 1.0f / v_sum(sum);
    vf inverse = v_set(one), mean = v_set(v_sum(dot) * one);
    for (j = 0; j < count; j += VL) { /* behind `count` p is 0 */
        float *at_s = score_at(s, j), *at_d = score_at(dp, j);
        vf p = v_mul(v_load(at_s), inverse), g = v_mul(p, v_sub(v_load(at_d), mean));
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

const attention_kernels ATTENTION_NAME = {attention_columns, attention_scale, attention_gradient};

#endif
