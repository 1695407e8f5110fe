/* SPDX-License-Identifier: MIT
 * The elementwise kernels in terms of vec_*.h; included once by each kernels_*.c. There is one expression per row of
 * elementwise.h. The macros add the loop and the remainder of fewer than VL elements.
 */
#ifndef CPU_SIMD_BODY_ELEMENTWISE_BODY_H
#define CPU_SIMD_BODY_ELEMENTWISE_BODY_H

#include "core/base/modulo.h"
#include "cpu/simd/elementwise.h"
#include "cpu/simd/vec_math.h"

VFN vf v_bool(vm m) { return v_select(m, v_set(1), v_set(0)); }
VFN vf v_not_zero(vf x) { return v_bool(v_ne(x, v_set(0))); }
VFN vf v_sign(vf x) {
    vf one = v_select(v_lt(v_set(0), x), v_set(1), v_select(v_lt(x, v_set(0)), v_set(-1), v_set(0)));
    return v_select(v_nan(x, x), x, one);
}

/* Below 2^29, the quotient of two floats rounds to an integer double only if it is an integer. So floor() is right,
 * and a double holds whole * y exactly. */
static inline int quotient_fits(float x, float y, double *whole) {
    const double q = (double)x / (double)y;
    *whole = floor(q);
    return fabs(q) < 0x1p29 && !isinf(y);
}
static inline float quotient_of(float x, float y) {
    double whole;
    return (float)(quotient_fits(x, y, &whole) ? whole : floor_quotient((double)x, (double)y));
}
static inline float remainder_of(float x, float y) {
    double whole;
    if (!quotient_fits(x, y, &whole)) return (float)floor_remainder((double)x, (double)y);
    const double r = (double)x - whole * (double)y;
    return r == 0 ? copysignf(0, y) : (float)r;
}

#ifdef VEC_PLAIN
VFN vf v_floor_div(vf x, vf y) { return quotient_of(x, y); }
VFN vf v_mod(vf x, vf y) { return remainder_of(x, y); }
#else
/* If a quotient below 2^24 is rounded up to an integer, its floor is one too large; it is never too small. The
 * remainder x - y floor(x / y), rounded once, is exact or, where the definition itself rounds a sum, has the right
 * sign. If its sign differs from that of y, the floor is too large. If a quotient is larger, all lanes are computed one
 * by one. */
VFN vm v_quotient_is_far(vf q, vf y) { return vm_or(v_le(v_set(0x1p+24f), v_abs(q)), v_eq(v_abs(y), v_set(INFINITY))); }
VFN vm v_opposes(vf r, vf y) { /* neither is zero, and their signs differ */
    return vm_or(vm_and(v_lt(r, v_set(0)), v_lt(v_set(0), y)), vm_and(v_lt(v_set(0), r), v_lt(y, v_set(0))));
}
VFN vf v_floor_div(vf x, vf y) {
    const vf q = v_div(x, y), whole = v_floor(q);
    if (vm_any(v_quotient_is_far(q, y))) return v_each2(quotient_of, x, y);
    return v_select(v_opposes(v_fnma(y, whole, x), y), v_sub(whole, v_set(1)), whole);
}
VFN vf v_mod(vf x, vf y) {
    const vf q = v_div(x, y), r = v_fnma(y, v_floor(q), x);
    if (vm_any(v_quotient_is_far(q, y))) return v_each2(remainder_of, x, y);
    return v_select(v_eq(r, v_set(0)), v_copysign(r, y), v_select(v_opposes(r, y), v_add(r, y), r));
}
#endif

#define UNARY(name, expression)                                                                                        \
    VFN vf op_##name(vf x, vf p, vf q) {                                                                               \
        (void)x, (void)p, (void)q;                                                                                     \
        return expression;                                                                                             \
    }                                                                                                                  \
    static VTARGET void KERNEL(elementwise_##name, f32)(float *y, const float *x, int64_t count, float p_, float q_) { \
        vf p = v_set(p_), q = v_set(q_);                                                                               \
        int64_t i = 0;                                                                                                 \
        for (; i + VL <= count; i += VL) v_store(y + i, op_##name(v_load(x + i), p, q));                               \
        if (i < count) v_store_n(y + i, op_##name(v_load_n(x + i, count - i), p, q), count - i);                       \
    }

UNARY(copy, x)
UNARY(neg, v_neg(x))
UNARY(abs, v_abs(x))
UNARY(sign, v_sign(x))
UNARY(floor, v_floor(x))
UNARY(ceil, v_ceil(x))
UNARY(round, v_round(x))
UNARY(trunc, v_trunc(x))
UNARY(square, v_mul(x, x))
UNARY(affine, v_fma(x, p, q))
UNARY(sqrt, v_sqrt(x))
UNARY(rsqrt, v_div(v_set(1), v_sqrt(v_add(x, p))))
UNARY(inverse, v_div(v_set(1), v_add(x, p)))
UNARY(exp, v_exp(x))
UNARY(exp2, v_exp2(x))
UNARY(log, v_log(v_add(x, p)))
UNARY(sin, v_sin(x))
UNARY(cos, v_cos(x))
UNARY(tanh, v_tanh(x))
UNARY(erf, v_erf(x))
UNARY(gelu, v_gelu(x))
UNARY(gelu_tanh, v_gelu_tanh(x))
UNARY(gelu_sigmoid, v_mul(v_max(v_set(-200.0f), x), v_sigmoid(v_mul(v_set(1.702f), x))))
UNARY(softplus, v_softplus(x))
UNARY(softsign, v_div(x, v_add(v_set(1), v_abs(x))))
UNARY(relu, v_max(v_set(0), x))
UNARY(relu6, v_min(v_set(6), v_max(v_set(0), x)))
UNARY(leaky_relu, v_select(v_lt(x, v_set(0)), v_mul(p, x), x))
UNARY(elu, v_select(v_lt(x, v_set(0)), v_mul(p, v_expm1(v_min(v_set(0), x))), x))
UNARY(sigmoid_hard, v_min(v_set(1), v_max(v_set(0), v_fma(p, x, q))))
UNARY(clip, v_min(q, v_max(p, x)))
UNARY(not, v_bool(v_eq(x, v_set(0))))
UNARY(to_bool, v_not_zero(x))
UNARY(round_f16, v_round_f16(x))

#ifdef VEC_PLAIN
UNARY(sigmoid, v_sigmoid(x))
UNARY(silu, v_silu(x))
#else
static VTARGET void KERNEL(elementwise_sigmoid, f32)(float *y, const float *x, int64_t count, float p, float q) {
    int64_t i = 0;
    (void)p, (void)q;
    for (; i + 4 * VL <= count; i += 4 * VL) {
        const vf a[4] = {v_load(x + i), v_load(x + i + VL), v_load(x + i + 2 * VL), v_load(x + i + 3 * VL)};
        vf s[4];
        v_sigmoid_four(s, a);
        for (int k = 0; k < 4; k++) v_store(y + i + k * VL, s[k]);
    }
    for (; i < count; i += VL) {
        const int64_t n = count - i < VL ? count - i : VL;
        v_store_n(y + i, v_sigmoid(v_load_n(x + i, n)), n);
    }
}

static VTARGET void KERNEL(elementwise_silu, f32)(float *y, const float *x, int64_t count, float p, float q) {
    int64_t i = 0;
    const vf least = v_set(-200.0f);
    (void)p, (void)q;
    for (; i + 4 * VL <= count; i += 4 * VL) {
        const vf a[4] = {v_load(x + i), v_load(x + i + VL), v_load(x + i + 2 * VL), v_load(x + i + 3 * VL)};
        vf s[4];
        v_sigmoid_four(s, a);
        for (int k = 0; k < 4; k++) v_store(y + i + k * VL, v_mul(v_max(least, a[k]), s[k]));
    }
    for (; i < count; i += VL) {
        const int64_t n = count - i < VL ? count - i : VL;
        v_store_n(y + i, v_silu(v_load_n(x + i, n)), n);
    }
}
#endif

static VTARGET void KERNEL(elementwise_fill, f32)(float *y, const float *x, int64_t count, float p,
                                                  float q) { /* x may be NULL */
    int64_t i = 0;
    for (; i + VL <= count; i += VL) v_store(y + i, v_set(p));
    if (i < count) v_store_n(y + i, v_set(p), count - i);
}

/* Stores a vector and prefetches ahead. Results often go to memory that is not cached, and no hardware prefetcher
 * fetches it in time. Nothing beyond the array is accessed, because a failed prefetch has no effect. */
enum { STORE_AHEAD = 128 };
VFN void v_store_ahead(float *z, vf v) {
    __builtin_prefetch(z + STORE_AHEAD, 1);
    v_store(z, v);
}

#define BINARY_LOOP(name, pattern, first, second, first_rest, second_rest)                                             \
    static VTARGET void KERNEL(elementwise_##name##_##pattern, f32)(float *z, const float *x, const float *y,          \
                                                                    int64_t count) {                                   \
        if (count <= 0) return;                                                                                        \
        int64_t i = 0, n = count % VL;                                                                                 \
        vf one = v_set(pattern##_ONE);                                                                                 \
        (void)one;                                                                                                     \
        for (; i + VL <= count; i += VL) v_store_ahead(z + i, op_##name(first, second));                               \
        if (n) v_store_n(z + i, op_##name(first_rest, second_rest), n);                                                \
    }
#define VV_ONE 0
#define VS_ONE *y
#define SV_ONE *x
#define BINARY(name, expression)                                                                                       \
    VFN vf op_##name(vf x, vf y) { return expression; }                                                                \
    BINARY_LOOP(name, VV, v_load(x + i), v_load(y + i), v_load_n(x + i, n), v_load_n(y + i, n))                        \
    BINARY_LOOP(name, VS, v_load(x + i), one, v_load_n(x + i, n), one)                                                 \
    BINARY_LOOP(name, SV, one, v_load(y + i), one, v_load_n(y + i, n))

BINARY(add, v_add(x, y))
BINARY(sub, v_sub(x, y))
BINARY(mul, v_mul(x, y))
BINARY(div, v_div(x, y))
BINARY(floor_div, v_floor_div(x, y))
BINARY(mod, v_mod(x, y))
BINARY(pow, v_each2(powf, x, y))
BINARY(max, v_max_nan(x, y))
BINARY(min, v_min_nan(x, y))
BINARY(eq, v_bool(v_eq(x, y)))
BINARY(ne, v_bool(v_ne(x, y)))
BINARY(lt, v_bool(v_lt(x, y)))
BINARY(le, v_bool(v_le(x, y)))
BINARY(gt, v_bool(v_lt(y, x)))
BINARY(ge, v_bool(v_le(y, x)))
BINARY(and, v_mul(v_not_zero(x), v_not_zero(y)))
BINARY(or, v_max(v_not_zero(x), v_not_zero(y)))
BINARY(xor, v_abs(v_sub(v_not_zero(x), v_not_zero(y))))

static VTARGET void KERNEL(elementwise_select, f32)(float *z, const float *cond, int cond_step, const float *x,
                                                    int x_step, const float *y, int y_step, int64_t count) {
    if (count <= 0) return;
    vf c1 = v_set(*cond), x1 = v_set(*x), y1 = v_set(*y), zero = v_set(0);
    int64_t i = 0;
    for (; i + VL <= count; i += VL) {
        vf c = cond_step ? v_load(cond + i) : c1, a = x_step ? v_load(x + i) : x1, b = y_step ? v_load(y + i) : y1;
        v_store(z + i, v_select(v_ne(c, zero), a, b));
    }
    int64_t n = count - i;
    if (!n) return;
    vf c = cond_step ? v_load_n(cond + i, n) : c1, a = x_step ? v_load_n(x + i, n) : x1;
    v_store_n(z + i, v_select(v_ne(c, zero), a, y_step ? v_load_n(y + i, n) : y1), n);
}

#define FMA(name)                                                                                                      \
    static VTARGET void KERNEL(elementwise_##name, f32)(float *z, const float *x, const float *y, int y_step,          \
                                                        const float *w, int w_step, int64_t count) {                   \
        if (count <= 0) return;                                                                                        \
        const vf y1 = v_set(*y), w1 = v_set(*w);                                                                       \
        int64_t i = 0, n = count % VL;                                                                                 \
        if (y_step && w_step)                                                                                          \
            for (; i + VL <= count; i += VL) v_store(z + i, v_##name(v_load(x + i), v_load(y + i), v_load(w + i)));    \
        else                                                                                                           \
            for (; i + VL <= count; i += VL)                                                                           \
                v_store(z + i, v_##name(v_load(x + i), y_step ? v_load(y + i) : y1, w_step ? v_load(w + i) : w1));     \
        if (n)                                                                                                         \
            v_store_n(                                                                                                 \
                z + i,                                                                                                 \
                v_##name(v_load_n(x + i, n), y_step ? v_load_n(y + i, n) : y1, w_step ? v_load_n(w + i, n) : w1), n);  \
    }

FMA(fma)
FMA(fnma)

#define UNARY_ENTRY(name) [CPU_ELEMENTWISE_##name] = KERNEL(elementwise_##name, f32),
#define BINARY_ENTRY(name)                                                                                             \
    [CPU_ELEMENTWISE_##name - CPU_ELEMENTWISE_UNARY_END] = {KERNEL(elementwise_##name##_VV, f32),                      \
                                                            KERNEL(elementwise_##name##_VS, f32),                      \
                                                            KERNEL(elementwise_##name##_SV, f32)},
static const cpu_elementwise_kernels KERNEL(elementwise, f32) = {
    .unary = {CPU_ELEMENTWISE_UNARY(UNARY_ENTRY)},
    .binary = {CPU_ELEMENTWISE_BINARY(BINARY_ENTRY)},
    .select = KERNEL(elementwise_select, f32),
    .fma = {KERNEL(elementwise_fma, f32), KERNEL(elementwise_fnma, f32)},
};

#endif
