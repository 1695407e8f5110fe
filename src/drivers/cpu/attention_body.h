/* SPDX-License-Identifier: MIT
 * The row kernels of attention in terms of vec_*.h; included once by each kernels_*.c with ATTENTION_NAME, the table's
 * name, behind gemm_body.h, whose panels the scores lie in.
 */
#ifndef DRIVERS_CPU_ATTENTION_BODY_H
#define DRIVERS_CPU_ATTENTION_BODY_H

#include "drivers/cpu/attention.h"
#include "drivers/cpu/vec_math.h"

VFN float attention_max(vf v) {
    float lanes[VL], best;
    v_store(lanes, v);
    best = lanes[0];
    for (int i = 1; i < VL; i++) best = lanes[i] > best ? lanes[i] : best;
    return best;
}

/* Panels are multiples of VL wide, so a vector never lies in two of them. Their width is a constant: no division is left. */
VFN float *score_at(attention_row r, int64_t j) {
    return r.at + (int64_t)((uint64_t)j / GEMM_NR) * r.step + (int64_t)((uint64_t)j % GEMM_NR);
}

VFN float row_max(attention_row s, int64_t count) {
    vf best = v_set(*s.at);
    int64_t j = 0;
    for (; j + VL <= count; j += VL) best = v_max(best, v_load(score_at(s, j)));
    float top = attention_max(best);
    for (; j < count; j++) {
        float x = *score_at(s, j);
        top = x > top ? x : top;
    }
    return top;
}

VFN void store_score(attention_row r, bool quads, int64_t j, vf v) {
    if (quads)
        store_quads(r.at, r.step, j, v);
    else
        v_store(score_at(r, j), v);
}

/* Writes exp(s - max) to p, zeros from `count` to `width`; returns the sum. */
VFN float row_exp(attention_row s, attention_row p, bool quads, int64_t count, int64_t width) {
    vf top = v_set(row_max(s, count)), sum = v_set(0);
    int64_t j = 0;
    for (; j + VL <= count; j += VL) {
        vf e = v_exp(v_sub(v_load(score_at(s, j)), top));
        sum = v_add(sum, e);
        store_score(p, quads, j, e);
    }
    if (j < count) {
        float lanes[VL] = {0};
        v_store(lanes, v_exp(v_sub(v_load_n(score_at(s, j), count - j), top)));
        for (int64_t i = count - j; i < VL; i++) lanes[i] = 0;
        vf e = v_load(lanes);
        sum = v_add(sum, e);
        store_score(p, quads, j, e);
        j += VL;
    }
    for (; j < width; j += VL) store_score(p, quads, j, v_set(0));
    return v_sum(sum);
}

static VTARGET float attention_exponentials(attention_row s, attention_row p, int64_t count, int64_t width) {
    return 1.0f / row_exp(s, p, true, count, width);
}

static VTARGET void attention_gradient(attention_row s, attention_row dp, attention_row copy, int64_t count,
                                       int64_t width) {
    vf inverse = v_set(1.0f / row_exp(s, s, false, count, width)), sum = v_set(0);
    for (int64_t j = 0; j < count; j += VL) {
        float *at = score_at(s, j);
        vf p = v_mul(v_load(at), inverse);
        v_store(at, p);
        sum = v_fma(p, v_load(score_at(dp, j)), sum);
    }
    vf mean = v_set(v_sum(sum));
    int64_t j = 0;
    for (; j < count; j += VL) { /* behind `count` p is 0 */
        float *at = score_at(dp, j);
        vf g = v_mul(v_load(score_at(s, j)), v_sub(v_load(at), mean));
        v_store(at, g);
        store_quads(copy.at, copy.step, j, g);
    }
    for (; j < width; j += VL) {
        v_store(score_at(dp, j), v_set(0));
        store_quads(copy.at, copy.step, j, v_set(0));
    }
}

static VTARGET void attention_scale(float *x, float factor, int64_t count) {
    vf f = v_set(factor);
    for (int64_t i = 0; i < count; i += VL) {
        int64_t n = count - i < VL ? count - i : VL;
        v_store_n(x + i, v_mul(v_load_n(x + i, n), f), n);
    }
}

const attention_kernels ATTENTION_NAME = {attention_exponentials, attention_gradient, attention_scale};

#endif
