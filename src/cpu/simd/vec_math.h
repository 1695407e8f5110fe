/* SPDX-License-Identifier: MIT
 * Elementary functions on vectors, in terms of vec_*.h. The coefficients come from tools/fit_polynomials.py. The plain
 * version calls the C library instead, as an independent reference. The observed errors are listed in
 * tests/cpu/test_elementwise.c.
 */
#ifndef CPU_SIMD_VEC_MATH_H
#define CPU_SIMD_VEC_MATH_H

#include <math.h>

#include "core/base/unroll.h"

/* Applies a C function to each lane of x. For rare cases. */
VFN vf v_each(float (*f)(float), vf x) {
    float lanes[VL];
    v_store(lanes, x);
    for (int i = 0; i < VL; i++) lanes[i] = f(lanes[i]);
    return v_load(lanes);
}

VFN vf v_each2(float (*f)(float, float), vf x, vf y) {
    float a[VL], b[VL];
    v_store(a, x);
    v_store(b, y);
    for (int i = 0; i < VL; i++) a[i] = f(a[i], b[i]);
    return v_load(a);
}

#ifdef VEC_PLAIN

VFN vf v_exp(vf x) { return expf(x); }
VFN vf v_exp2(vf x) { return exp2f(x); }
VFN vf v_expm1(vf x) { return expm1f(x); }
VFN vf v_log(vf x) { return logf(x); }
VFN vf v_log1p(vf x) { return log1pf(x); }
VFN vf v_tanh(vf x) { return tanhf(x); }
VFN vf v_erf(vf x) { return erff(x); }
VFN vf v_half_erfc(vf t) { return 0.5f * erfcf(t); }
VFN vf v_sin(vf x) { return sinf(x); }
VFN vf v_cos(vf x) { return cosf(x); }

#else

/* exp(x) is 0 below EXP_LEAST. ln 2 is split in two parts; the coefficients of q start with its highest power. */
#define EXP_LEAST    (-104.0f)
#define EXP_ONE_LN2  0x1.715476p+0f
#define EXP_LN2_HIGH 0x1.62e400p-1f
#define EXP_LN2_LOW  0x1.7f7d1cp-20f
#define EXP_Q5       0x1.6db962p-10f
#define EXP_Q4       0x1.123bc0p-7f
#define EXP_Q3       0x1.555458p-5f
#define EXP_Q2       0x1.55548ep-3f

/* exp(r) for |r| <= ln2/2: 1 + r + r^2 q(r) */
VFN vf exp_core(vf r) {
    vf q = v_fma(v_set(EXP_Q5), r, v_set(EXP_Q4));
    q = v_fma(q, r, v_set(EXP_Q3));
    q = v_fma(q, r, v_set(EXP_Q2));
    q = v_fma(q, r, v_set(0.5f));
    return v_add(v_fma(v_mul(r, r), q, r), v_set(1));
}

VFN vf v_exp(vf x) {
    /* Beyond these bounds the results are infinity and 0. Inputs that result in 0 (masked scores) must not reach
     * v_scale, because an underflow costs the processor a hundred cycles. */
    vm none = v_lt(x, v_set(EXP_LEAST));
    x = v_select(none, v_set(0), v_min(v_set(89.0f), x));
    vf n = v_round(v_mul(x, v_set(EXP_ONE_LN2)));
    vf r = v_fnma(n, v_set(EXP_LN2_HIGH), x);
    r = v_fnma(n, v_set(EXP_LN2_LOW), r);
    return v_select(none, v_set(0), v_scale(exp_core(r), n));
}

VFN vf v_exp2(vf x) {
    x = v_min(v_set(129.0f), v_max(v_set(-151.0f), x));
    vf n = v_round(x);
    return v_scale(exp_core(v_mul(v_sub(x, n), v_set(0x1.62e430p-1f))), n);
}

/* The polynomial q in log(1 + f) = f - f^2/2 + f^3 q(f), for sqrt(1/2) <= 1 + f <= sqrt(2). */
VFN vf log_core(vf f) {
    vf q = v_fma(v_set(0x1.1457a0p-4f), f, v_set(-0x1.de3c12p-4f));
    q = v_fma(q, f, v_set(0x1.e6f06cp-4f));
    q = v_fma(q, f, v_set(-0x1.fc220ap-4f));
    q = v_fma(q, f, v_set(0x1.233768p-3f));
    q = v_fma(q, f, v_set(-0x1.555c4ep-3f));
    q = v_fma(q, f, v_set(0x1.99a4b4p-3f));
    q = v_fma(q, f, v_set(-0x1.000006p-2f));
    q = v_fma(q, f, v_set(0x1.555548p-2f));
    return q;
}

VFN vf v_log(vf x) {
    vm tiny = v_lt(x, v_set(0x1p-126f));
    vf scaled = v_select(tiny, v_mul(x, v_set(0x1p+24f)), x);
    /* Chooses the exponent so that the mantissa is in [sqrt(1/2), sqrt(2)). */
    vi bits = vi_sub(vi_of_bits(scaled), vi_set(0x3f3504f3));
    vf e = v_sub(v_from(vi_sar(bits, 23)), v_select(tiny, v_set(24), v_set(0)));
    vf f = v_sub(v_of_bits(vi_add(vi_and(bits, vi_set(0x7fffff)), vi_set(0x3f3504f3))), v_set(1));
    vf square = v_mul(f, f);
    vf low = v_fma(v_mul(square, f), log_core(f), v_mul(e, v_set(EXP_LN2_LOW)));
    low = v_fnma(v_set(0.5f), square, low);
    vf result = v_fma(e, v_set(EXP_LN2_HIGH), v_add(f, low));
    result = v_select(v_eq(x, v_set(INFINITY)), x, result);
    result = v_select(v_eq(x, v_set(0)), v_set(-INFINITY), result);
    return v_select(v_lt(x, v_set(0)), v_set(NAN), v_select(v_nan(x, x), x, result));
}

/* log(1 + x) for x >= 0. What the rounding of 1 + x lost is added back. */
VFN vf v_log1p(vf x) {
    vf u = v_add(v_set(1), x);
    return v_add(v_log(u), v_div(v_sub(x, v_sub(u, v_set(1))), u));
}

/* exp(x) - 1 for x <= 0 */
VFN vf v_expm1(vf x) {
    x = v_max(v_set(EXP_LEAST), x);
    vf n = v_round(v_mul(x, v_set(EXP_ONE_LN2)));
    vf r = v_fnma(n, v_set(EXP_LN2_HIGH), x);
    r = v_fnma(n, v_set(EXP_LN2_LOW), r);
    vf q = v_fma(v_set(EXP_Q5), r, v_set(EXP_Q4));
    q = v_fma(q, r, v_set(EXP_Q3));
    q = v_fma(q, r, v_set(EXP_Q2));
    q = v_fma(q, r, v_set(0.5f));
    vf m = v_fma(v_mul(r, r), q, r); /* exp(r) - 1 */
    vf power = v_scale(v_set(1), n);
    return v_fma(m, power, v_sub(power, v_set(1)));
}

VFN vf v_tanh(vf x) {
    vf a = v_abs(x), z = v_mul(x, x);
    vf q = v_fma(v_set(-0x1.722afcp-8f), z, v_set(0x1.5157fcp-6f));
    q = v_fma(q, z, v_set(-0x1.b81dc2p-5f));
    q = v_fma(q, z, v_set(0x1.110646p-3f));
    q = v_fma(q, z, v_set(-0x1.55552ep-2f));
    vf small = v_fma(v_mul(q, z), a, a);
    vf large = v_sub(v_set(1), v_div(v_set(2), v_add(v_exp(v_add(a, a)), v_set(1))));
    return v_copysign(v_select(v_lt(a, v_set(0.625f)), small, large), x);
}

/* erfc(t) / 2 for t >= 0 */
VFN vf v_half_erfc(vf t) {
    t = v_min(v_set(11.0f), t);
    vf u = v_div(v_set(1), v_fma(v_set(0.5f), t, v_set(1)));
    vf q = v_set(-0x1.1b0dfap-3f);
    q = v_fma(q, u, v_set(0x1.e74fa4p-1f));
    q = v_fma(q, u, v_set(-0x1.5ec5d6p+1f));
    q = v_fma(q, u, v_set(0x1.0b44e2p+2f));
    q = v_fma(q, u, v_set(-0x1.c0733ap+1f));
    q = v_fma(q, u, v_set(0x1.a4eefcp+0f));
    q = v_fma(q, u, v_set(-0x1.6935aap-1f));
    q = v_fma(q, u, v_set(0x1.cc773p-3f));
    q = v_fma(q, u, v_set(0x1.6b0c6ep-2f));
    q = v_fma(q, u, v_set(0x1.006ef4p+0f));
    q = v_fma(q, u, v_set(-0x1.43fc98p+0f));
    vf square = v_mul(t, t), rest = v_fma(t, t, v_neg(square));
    vf low = v_sub(q, rest);
    /* The square is large if the result is small, so a separate exponential preserves the bits of `low`. */
    vf power = v_exp(v_neg(square));
    return v_mul(v_mul(v_mul(v_set(0.5f), u), v_exp(low)), power);
}

VFN vf v_erf(vf x) {
    vf a = v_abs(x), z = v_mul(x, x);
    vf q = v_fma(v_set(0x1.5cd0e0p-14f), z, v_set(-0x1.aa3e0ap-11f));
    q = v_fma(q, z, v_set(0x1.54c7d4p-8f));
    q = v_fma(q, z, v_set(-0x1.b80e8ep-6f));
    q = v_fma(q, z, v_set(0x1.ce2e0ap-4f));
    q = v_fma(q, z, v_set(-0x1.812744p-2f));
    q = v_fma(q, z, v_set(0x1.06eba8p-3f));
    vf small = v_fma(q, x, x);
    vf large = v_fnma(v_set(2), v_half_erfc(a), v_set(1));
    return v_select(v_lt(a, v_set(0.93f)), small, v_copysign(large, x));
}

/* Computes the sine (`turn` 0) or cosine (1) of x = n pi/2 + r. If an argument is too large for the three-part
 * reduction, the C library computes all lanes. */
VFN vf sin_cos(vf x, int turn) {
    if (vm_any(v_le(v_set(30000.0f), v_abs(x)))) return v_each(turn ? cosf : sinf, x);
    vf n = v_round(v_mul(x, v_set(0x1.45f306p-1f)));
    vf r = v_fnma(n, v_set(0x1.921fb0p+0f), x);
    r = v_fnma(n, v_set(0x1.5110b4p-22f), r);
    r = v_fnma(n, v_set(0x1.1846aap-48f), r);
    vf z = v_mul(r, r);
    vf s = v_fma(v_set(0x1.6cd87ap-19f), z, v_set(-0x1.a00f9ep-13f));
    s = v_fma(s, z, v_set(0x1.111108p-7f));
    s = v_fma(s, z, v_set(-0x1.555556p-3f));
    s = v_fma(v_mul(s, z), r, r);
    vf c = v_fma(v_set(-0x1.242aeep-22f), z, v_set(0x1.a01120p-16f));
    c = v_fma(c, z, v_set(-0x1.6c16b8p-10f));
    c = v_fma(c, z, v_set(0x1.555556p-5f));
    c = v_fma(v_mul(c, z), z, v_fnma(v_set(0.5f), z, v_set(1)));
    vi quadrant = vi_add(vi_from(n), vi_set(turn));
    vm odd = v_ne(v_from(vi_and(quadrant, vi_set(1))), v_set(0));
    vf result = v_select(odd, c, s);
    return v_of_bits(vi_xor(vi_of_bits(result), vi_shl(vi_and(quadrant, vi_set(2)), 30)));
}

VFN vf v_sin(vf x) { return v_select(v_eq(x, v_set(0)), x, sin_cos(x, 0)); } /* the reduction loses -0 */
VFN vf v_cos(vf x) { return sin_cos(x, 1); }

#endif

#ifdef VEC_PLAIN
VFN vf one_over_one_and(vf e) { return v_div(v_set(1), v_add(v_set(1), e)); }
#else
/* 1 / (1 + e) for 0 <= e <= 1: the minimax parabola, with error 1/99, and two Newton steps. A division takes longer
 * than all of these steps, and the instruction for an approximate reciprocal returns different bits on processors of
 * other makers. */
VFN vf one_over_one_and(vf e) {
    vf d = v_add(v_set(1), e), r = v_fma(v_fma(v_set(32.0f / 99), e, v_set(-80.0f / 99)), e, v_set(98.0f / 99));
    r = v_fma(r, v_fnma(d, r, v_set(1)), r);
    return v_fma(r, v_fnma(d, r, v_set(1)), r);
}
#endif

VFN vf v_sigmoid(vf x) {
    vf e = v_exp(v_neg(v_abs(x))), r = one_over_one_and(e);
    return v_select(v_lt(x, v_set(0)), v_mul(e, r), r);
}

#ifndef VEC_PLAIN

/* Computes four sigmoids at once, interleaved step by step. A single chain of steps is so long that a processor that
 * looks some hundred instructions ahead would wait for most of them. */
VFN void v_sigmoid_four(vf y[4], const vf x[4]) {
    vf a[4], n[4], r[4], q[4], e[4];
    vm none[4];
    EACH_OF_FOUR(a[k] = v_neg(v_abs(x[k])));
    EACH_OF_FOUR(none[k] = v_lt(a[k], v_set(EXP_LEAST)));
    EACH_OF_FOUR(a[k] = v_select(none[k], v_set(0), a[k]));
    EACH_OF_FOUR(n[k] = v_round(v_mul(a[k], v_set(EXP_ONE_LN2))));
    EACH_OF_FOUR(r[k] = v_fnma(n[k], v_set(EXP_LN2_HIGH), a[k]));
    EACH_OF_FOUR(r[k] = v_fnma(n[k], v_set(EXP_LN2_LOW), r[k]));
    EACH_OF_FOUR(q[k] = v_fma(v_set(EXP_Q5), r[k], v_set(EXP_Q4)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(EXP_Q3)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(EXP_Q2)));
    EACH_OF_FOUR(q[k] = v_fma(q[k], r[k], v_set(0.5f)));
    EACH_OF_FOUR(q[k] = v_add(v_fma(v_mul(r[k], r[k]), q[k], r[k]), v_set(1)));
    EACH_OF_FOUR(e[k] = v_select(none[k], v_set(0), v_scale(q[k], n[k])));
    EACH_OF_FOUR(a[k] = v_add(v_set(1), e[k]));
    EACH_OF_FOUR(r[k] = v_fma(v_set(32.0f / 99), e[k], v_set(-80.0f / 99)));
    EACH_OF_FOUR(r[k] = v_fma(r[k], e[k], v_set(98.0f / 99)));
    EACH_OF_FOUR(q[k] = v_fnma(a[k], r[k], v_set(1)));
    EACH_OF_FOUR(r[k] = v_fma(r[k], q[k], r[k]));
    EACH_OF_FOUR(q[k] = v_fnma(a[k], r[k], v_set(1)));
    EACH_OF_FOUR(r[k] = v_fma(r[k], q[k], r[k]));
    EACH_OF_FOUR(y[k] = v_select(v_lt(x[k], v_set(0)), v_mul(e[k], r[k]), r[k]));
}

#endif

/* -infinity results in -0, the limit */
VFN vf v_silu(vf x) { return v_mul(v_max(v_set(-200.0f), x), v_sigmoid(x)); }

VFN vf v_gelu(vf x) {
    vf tail = v_half_erfc(v_mul(v_abs(x), v_set(0x1.6a09e6p-1f))); /* Phi(-|x|) */
    vf bound = v_max(v_set(-20.0f), x);
    return v_select(v_le(x, v_set(0)), v_mul(bound, tail), v_fnma(v_min(v_set(20.0f), x), tail, x));
}

VFN vf v_gelu_tanh(vf x) { /* x/2 (1 + tanh(u)) = x sigmoid(2u) */
    vf b = v_max(v_set(-100.0f), x);
    vf u = v_mul(v_set(2 * 0.7978845608f), v_fma(v_mul(v_mul(b, b), b), v_set(0.044715f), b));
    return v_mul(b, v_sigmoid(u));
}

VFN vf v_softplus(vf x) { return v_add(v_max(v_set(0), x), v_log1p(v_exp(v_neg(v_abs(x))))); }

#endif
