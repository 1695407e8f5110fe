/* SPDX-License-Identifier: MIT
 * Reductions and softmax in terms of vec_*.h; included once by each kernels_*.c.
 *
 * Contiguous rows use four vectors of partial results over a block, added as a tree; the sums of the blocks are added
 * in double. Columns are processed CPU_REDUCE_INNER at a time in arrays that stay in L1, with sums of
 * CPU_REDUCE_STRIDED rows each.
 */
#ifndef CPU_SIMD_BODY_REDUCE_BODY_H
#define CPU_SIMD_BODY_REDUCE_BODY_H

#include "cpu/simd/reduce.h"
#include "cpu/simd/vec_math.h"

enum { CPU_REDUCE_STRIDED = 64 };

/* ---- reductions -------------------------------------------------------------------------------------------------- */

VFN vf same_(vf x) { return x; }
VFN vf square_(vf x) { return v_mul(x, x); }

VFN float lanes_max(vf v) {
    float lanes[VL], best;
    v_store(lanes, v);
    best = lanes[0];
    for (int i = 1; i < VL; i++) best = lanes[i] > best || lanes[i] != lanes[i] ? lanes[i] : best;
    return best;
}
VFN float lanes_min(vf v) { return -lanes_max(v_neg(v)); }
VFN float lanes_prod(vf v) {
    float lanes[VL], product = 1;
    v_store(lanes, v);
    for (int i = 0; i < VL; i++) product *= lanes[i];
    return product;
}

/* Loads n lanes; those beyond n are `start`. */
VFN vf load_or(const float *x, int64_t n, float start) {
    float lanes[VL];
    for (int i = 0; i < VL; i++) lanes[i] = i < n ? x[i] : start;
    return v_load(lanes);
}

static inline double join_sum(double a, double b) { return a + b; }
static inline double join_prod(double a, double b) { return (double)((float)a * (float)b); }
static inline double join_max(double a, double b) { return a != a || a > b ? a : b; }
static inline double join_min(double a, double b) { return a != a || a < b ? a : b; }

/* `pre` is applied to each element first, `op` joins vectors, `lanes` joins lanes, and `start` is the result for no
 * elements. */
#define REDUCE(name, pre, op, lanes, join, start)                                                                      \
    VFN float name##_block(const float *x, int64_t n) {                                                                \
        vf s0 = v_set(start), s1 = s0, s2 = s0, s3 = s0;                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + 4 * VL <= n; i += 4 * VL) {                                                                         \
            s0 = op(s0, pre(v_load(x + i)));                                                                           \
            s1 = op(s1, pre(v_load(x + i + VL)));                                                                      \
            s2 = op(s2, pre(v_load(x + i + 2 * VL)));                                                                  \
            s3 = op(s3, pre(v_load(x + i + 3 * VL)));                                                                  \
        }                                                                                                              \
        for (; i + VL <= n; i += VL) s0 = op(s0, pre(v_load(x + i)));                                                  \
        if (i < n) s1 = op(s1, pre(load_or(x + i, n - i, start)));                                                     \
        return lanes(op(op(s0, s1), op(s2, s3)));                                                                      \
    }                                                                                                                  \
    static VTARGET void KERNEL(reduce_##name, f32)(float *y, const float *x, int64_t rows, int64_t length,             \
                                                   int64_t stride) {                                                   \
        for (int64_t r = 0; r < rows; r++, x += stride) {                                                              \
            double total = start;                                                                                      \
            for (int64_t i = 0; i < length; i += CPU_REDUCE_BLOCK) {                                                   \
                int64_t n = length - i < CPU_REDUCE_BLOCK ? length - i : CPU_REDUCE_BLOCK;                             \
                total = join(total, (double)name##_block(x + i, n));                                                   \
            }                                                                                                          \
            y[r] = (float)total;                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    static VTARGET void KERNEL(reduce_strided_##name, f32)(float *y, const float *x, int64_t length, int64_t width,    \
                                                           int64_t stride) {                                           \
        for (int64_t j = 0; j < width; j += CPU_REDUCE_INNER) {                                                        \
            int64_t n = width - j < CPU_REDUCE_INNER ? width - j : CPU_REDUCE_INNER;                                   \
            float total[CPU_REDUCE_INNER], part[CPU_REDUCE_INNER];                                                     \
            for (int64_t c = 0; c < CPU_REDUCE_INNER; c += VL) v_store(total + c, v_set(start));                       \
            for (int64_t i = 0; i < length; i += CPU_REDUCE_STRIDED) {                                                 \
                int64_t end = length - i < CPU_REDUCE_STRIDED ? length : i + CPU_REDUCE_STRIDED, c = 0;                \
                for (; c < CPU_REDUCE_INNER; c += VL) v_store(part + c, v_set(start));                                 \
                int64_t k = i;                                                                                         \
                for (; n % VL == 0 && k + 4 <= end; k += 4) {                                                          \
                    const float *row = x + k * stride + j;                                                             \
                    for (c = 0; c < n; c += VL) {                                                                      \
                        vf sum = op(op(v_load(part + c), pre(v_load(row + c))), pre(v_load(row + stride + c)));        \
                        sum = op(sum, pre(v_load(row + 2 * stride + c)));                                              \
                        v_store(part + c, op(sum, pre(v_load(row + 3 * stride + c))));                                 \
                    }                                                                                                  \
                }                                                                                                      \
                for (; k < end; k++) {                                                                                 \
                    const float *row = x + k * stride + j;                                                             \
                    for (c = 0; c + VL <= n; c += VL) v_store(part + c, op(v_load(part + c), pre(v_load(row + c))));   \
                    if (c < n) v_store(part + c, op(v_load(part + c), pre(load_or(row + c, n - c, start))));           \
                }                                                                                                      \
                for (c = 0; c < CPU_REDUCE_INNER; c += VL)                                                             \
                    v_store(total + c, op(v_load(total + c), v_load(part + c)));                                       \
            }                                                                                                          \
            for (int64_t c = 0; c < n; c++) y[j + c] = total[c];                                                       \
        }                                                                                                              \
    }

REDUCE(sum, same_, v_add, v_sum, join_sum, 0.0f)
REDUCE(sumsq, square_, v_add, v_sum, join_sum, 0.0f)
REDUCE(sumabs, v_abs, v_add, v_sum, join_sum, 0.0f)
REDUCE(max, same_, v_max_nan, lanes_max, join_max, -INFINITY)
REDUCE(min, same_, v_min_nan, lanes_min, join_min, INFINITY)
REDUCE(prod, same_, v_mul, lanes_prod, join_prod, 1.0f)

/* ---- softmax ----------------------------------------------------------------------------------------------------- */

/* Computes y = exp(x - top) and its sum; y may be NULL. */
VFN float exp_sum(float *y, const float *x, int64_t length, float top) {
    double total = 0;
    vf high = v_set(top);
    for (int64_t from = 0; from < length; from += CPU_REDUCE_BLOCK) {
        int64_t end = length - from < CPU_REDUCE_BLOCK ? length : from + CPU_REDUCE_BLOCK, i = from;
        vf s0 = v_set(0), s1 = s0;
        for (; i + 2 * VL <= end; i += 2 * VL) {
            vf a = v_exp(v_sub(v_load(x + i), high)), b = v_exp(v_sub(v_load(x + i + VL), high));
            if (y) {
                v_store(y + i, a);
                v_store(y + i + VL, b);
            }
            s0 = v_add(s0, a);
            s1 = v_add(s1, b);
        }
        for (; i < end; i += VL) {
            int64_t n = end - i < VL ? end - i : VL;
            vf a = v_exp(v_sub(n == VL ? v_load(x + i) : load_or(x + i, n, -INFINITY), high));
            if (y) v_store_n(y + i, a, n);
            /* The padding lanes are exp(-inf - top) = 0. */
            s0 = v_add(s0, a);
        }
        total += (double)v_sum(v_add(s0, s1));
    }
    return (float)total;
}

VFN float top_of(const float *x, int64_t length) {
    float top;
    KERNEL(reduce_max, f32)(&top, x, 1, length, 0);
    return top;
}

static VTARGET void KERNEL(softmax, f32)(float *y, const float *x, int64_t rows, int64_t length, int64_t y_stride,
                                         int64_t x_stride) {
    for (int64_t r = 0; r < rows; r++, x += x_stride, y += y_stride) {
        vf factor = v_set(1.0f / exp_sum(y, x, length, top_of(x, length)));
        int64_t i = 0;
        for (; i + VL <= length; i += VL) v_store(y + i, v_mul(v_load(y + i), factor));
        if (i < length) v_store_n(y + i, v_mul(v_load_n(y + i, length - i), factor), length - i);
    }
}

static VTARGET void KERNEL(log_sum_exp, f32)(float *y, const float *x, int64_t rows, int64_t length, int64_t stride) {
    for (int64_t r = 0; r < rows; r++, x += stride) {
        float top = top_of(x, length);
        y[r] = isinf(top) ? top : top + logf(exp_sum(NULL, x, length, top));
    }
}

/* For columns j .. j+n-1 with n <= CPU_REDUCE_INNER, computes the maxima and the sums of exp(x - max), and stores the
 * exponentials if y is not NULL. */
VFN void columns_exp(float *y, const float *x, int64_t length, int64_t n, int64_t y_stride, int64_t x_stride,
                     float *top, float *sum) {
    KERNEL(reduce_strided_max, f32)(top, x, length, n, x_stride);
    for (int64_t c = 0; c < CPU_REDUCE_INNER; c++) sum[c] = 0;
    float part[CPU_REDUCE_INNER];
    for (int64_t i = 0; i < length; i += CPU_REDUCE_STRIDED) {
        int64_t end = length - i < CPU_REDUCE_STRIDED ? length : i + CPU_REDUCE_STRIDED, c = 0;
        for (; c < CPU_REDUCE_INNER; c += VL) v_store(part + c, v_set(0));
        for (int64_t k = i; k < end; k++) {
            const float *row = x + k * x_stride;
            for (c = 0; c < n; c += VL) {
                int64_t lanes = n - c < VL ? n - c : VL;
                vf e = v_exp(v_sub(v_load_n(row + c, lanes), v_load_n(top + c, lanes)));
                if (y) v_store_n(y + k * y_stride + c, e, lanes);
                v_store(part + c, v_add(v_load(part + c), e));
            }
        }
        for (c = 0; c < CPU_REDUCE_INNER; c += VL) v_store(sum + c, v_add(v_load(sum + c), v_load(part + c)));
    }
}

static VTARGET void KERNEL(softmax_strided, f32)(float *y, const float *x, int64_t length, int64_t width,
                                                 int64_t y_stride, int64_t x_stride) {
    float top[CPU_REDUCE_INNER], sum[CPU_REDUCE_INNER];
    for (int64_t j = 0; j < width; j += CPU_REDUCE_INNER) {
        int64_t n = width - j < CPU_REDUCE_INNER ? width - j : CPU_REDUCE_INNER;
        columns_exp(y + j, x + j, length, n, y_stride, x_stride, top, sum);
        for (int64_t c = 0; c < n; c++) sum[c] = 1.0f / sum[c];
        for (int64_t i = 0; i < length; i++) {
            float *row = y + i * y_stride + j;
            for (int64_t c = 0; c < n; c += VL) {
                int64_t lanes = n - c < VL ? n - c : VL;
                v_store_n(row + c, v_mul(v_load_n(row + c, lanes), v_load(sum + c)), lanes);
            }
        }
    }
}

static VTARGET void KERNEL(log_sum_exp_strided, f32)(float *y, const float *x, int64_t length, int64_t width,
                                                     int64_t stride) {
    float top[CPU_REDUCE_INNER], sum[CPU_REDUCE_INNER];
    for (int64_t j = 0; j < width; j += CPU_REDUCE_INNER) {
        int64_t n = width - j < CPU_REDUCE_INNER ? width - j : CPU_REDUCE_INNER;
        columns_exp(NULL, x + j, length, n, 0, stride, top, sum);
        for (int64_t c = 0; c < n; c++) y[j + c] = isinf(top[c]) ? top[c] : top[c] + logf(sum[c]);
    }
}

/* ---- dot products ------------------------------------------------------------------------------------------------ */

VFN float dot_block(const float *x, const float *y, int64_t n) {
    vf s0 = v_set(0), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = 0;
    for (; i + 4 * VL <= n; i += 4 * VL) {
        s0 = v_fma(v_load(x + i), v_load(y + i), s0);
        s1 = v_fma(v_load(x + i + VL), v_load(y + i + VL), s1);
        s2 = v_fma(v_load(x + i + 2 * VL), v_load(y + i + 2 * VL), s2);
        s3 = v_fma(v_load(x + i + 3 * VL), v_load(y + i + 3 * VL), s3);
    }
    for (; i < n; i += VL) {
        int64_t lanes = n - i < VL ? n - i : VL;
        s0 = v_fma(v_load_n(x + i, lanes), v_load_n(y + i, lanes), s0);
    }
    return v_sum(v_add(v_add(s0, s1), v_add(s2, s3)));
}

/* Adds the products of columns j .. j+n-1 in rows i .. end-1 to part. */
VFN void columns_dot_part(float *part, const float *x, const float *z, int64_t i, int64_t end, int64_t n,
                          int64_t x_stride, int64_t z_stride) {
    for (; n % VL == 0 && i + 4 <= end; i += 4)
        for (int64_t c = 0; c < n; c += VL) {
            const float *a = x + i * x_stride + c, *b = z + i * z_stride + c;
            vf sum = v_fma(v_load(a), v_load(b), v_load(part + c));
            for (int k = 1; k < 4; k++) sum = v_fma(v_load(a + k * x_stride), v_load(b + k * z_stride), sum);
            v_store(part + c, sum);
        }
    for (; i < end; i++)
        for (int64_t c = 0; c < n; c += VL) {
            const int64_t lanes = n - c < VL ? n - c : VL;
            const vf a = v_load_n(x + i * x_stride + c, lanes), b = v_load_n(z + i * z_stride + c, lanes);
            v_store(part + c, v_fma(a, b, v_load(part + c)));
        }
}

static VTARGET void KERNEL(dot_strided, f32)(float *y, const float *x, const float *z, int64_t length, int64_t width,
                                             int64_t x_stride, int64_t z_stride) {
    for (int64_t j = 0; j < width; j += CPU_REDUCE_INNER) {
        const int64_t n = width - j < CPU_REDUCE_INNER ? width - j : CPU_REDUCE_INNER;
        float total[CPU_REDUCE_INNER], part[CPU_REDUCE_INNER];
        for (int64_t c = 0; c < CPU_REDUCE_INNER; c += VL) v_store(total + c, v_set(0));
        for (int64_t i = 0; i < length; i += CPU_REDUCE_STRIDED) {
            const int64_t end = length - i < CPU_REDUCE_STRIDED ? length : i + CPU_REDUCE_STRIDED;
            for (int64_t c = 0; c < CPU_REDUCE_INNER; c += VL) v_store(part + c, v_set(0));
            columns_dot_part(part, x + j, z + j, i, end, n, x_stride, z_stride);
            for (int64_t c = 0; c < CPU_REDUCE_INNER; c += VL)
                v_store(total + c, v_add(v_load(total + c), v_load(part + c)));
        }
        for (int64_t c = 0; c < n; c++) y[j + c] = total[c];
    }
}

static VTARGET float KERNEL(dot, f32)(const float *x, const float *y, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; i += CPU_REDUCE_BLOCK)
        total += (double)dot_block(x + i, y + i, count - i < CPU_REDUCE_BLOCK ? count - i : CPU_REDUCE_BLOCK);
    return (float)total;
}

static const cpu_reduce_kernels KERNEL(reduce, f32) = {
    .reduce = {KERNEL(reduce_sum, f32), KERNEL(reduce_sumsq, f32), KERNEL(reduce_sumabs, f32), KERNEL(reduce_max, f32),
               KERNEL(reduce_min, f32), KERNEL(reduce_prod, f32)},
    .reduce_strided = {KERNEL(reduce_strided_sum, f32), KERNEL(reduce_strided_sumsq, f32),
                       KERNEL(reduce_strided_sumabs, f32), KERNEL(reduce_strided_max, f32),
                       KERNEL(reduce_strided_min, f32), KERNEL(reduce_strided_prod, f32)},
    .softmax = KERNEL(softmax, f32),
    .softmax_strided = KERNEL(softmax_strided, f32),
    .log_sum_exp = KERNEL(log_sum_exp, f32),
    .log_sum_exp_strided = KERNEL(log_sum_exp_strided, f32),
    .dot_strided = KERNEL(dot_strided, f32),
    .dot = KERNEL(dot, f32),
};

#endif
