/* SPDX-License-Identifier: MIT
 * Elementwise kernels against the C library in double, over the whole range of floats with special values, for every
 * instruction set of this machine; every length of the remainder, misaligned and in place.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "cpu/simd/kernels.h"
#include "support/test.h"

/* ---- the reference ---------------------------------------------------------------------------------------------------- */

static double sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

static double truth1(cpu_elementwise_code code, double x, double p, double q) {
    switch (code) {
    case CPU_ELEMENTWISE_copy: return x;
    case CPU_ELEMENTWISE_fill: return p;
    case CPU_ELEMENTWISE_neg: return -x;
    case CPU_ELEMENTWISE_abs: return fabs(x);
    case CPU_ELEMENTWISE_sign: return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
    case CPU_ELEMENTWISE_floor: return floor(x);
    case CPU_ELEMENTWISE_ceil: return ceil(x);
    case CPU_ELEMENTWISE_round: return rint(x);
    case CPU_ELEMENTWISE_trunc: return trunc(x);
    case CPU_ELEMENTWISE_square: return x * x;
    case CPU_ELEMENTWISE_affine: return x * p + q;
    case CPU_ELEMENTWISE_sqrt: return sqrt(x);
    case CPU_ELEMENTWISE_rsqrt: return 1 / sqrt((double)((float)x + (float)p));
    case CPU_ELEMENTWISE_inverse: return 1 / (double)((float)x + (float)p);
    case CPU_ELEMENTWISE_exp: return exp(x);
    case CPU_ELEMENTWISE_exp2: return exp2(x);
    case CPU_ELEMENTWISE_log: return log((double)((float)x + (float)p));
    case CPU_ELEMENTWISE_sin: return sin(x);
    case CPU_ELEMENTWISE_cos: return cos(x);
    case CPU_ELEMENTWISE_tanh: return tanh(x);
    case CPU_ELEMENTWISE_erf: return erf(x);
    case CPU_ELEMENTWISE_sigmoid: return sigmoid(x);
    case CPU_ELEMENTWISE_silu: return x == -INFINITY ? 0 : x * sigmoid(x);
    case CPU_ELEMENTWISE_gelu: return x == -INFINITY ? 0 : x * 0.5 * erfc(-x / sqrt(2));
    case CPU_ELEMENTWISE_gelu_tanh:
        return x == -INFINITY ? 0 : x * sigmoid(2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
    case CPU_ELEMENTWISE_gelu_sigmoid: return x == -INFINITY ? 0 : x * sigmoid(1.702 * x);
    case CPU_ELEMENTWISE_softplus: return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
    case CPU_ELEMENTWISE_softsign: return isinf(x) ? (double)NAN : x / (1 + fabs(x));
    case CPU_ELEMENTWISE_relu: return x != x ? x : x > 0 ? x : 0;
    case CPU_ELEMENTWISE_relu6: return x != x ? x : fmin(fmax(x, 0), 6);
    case CPU_ELEMENTWISE_leaky_relu: return x < 0 ? p * x : x;
    case CPU_ELEMENTWISE_elu: return x < 0 ? p * expm1(x) : x;
    case CPU_ELEMENTWISE_sigmoid_hard: return x != x ? x : fmin(fmax(p * x + q, 0), 1);
    case CPU_ELEMENTWISE_clip: return x != x ? x : fmin(fmax(x, p), q);
    case CPU_ELEMENTWISE_not: return x == 0;
    case CPU_ELEMENTWISE_to_bool: return x != 0;
    case CPU_ELEMENTWISE_round_f16: return (double)fp16_to_f32(fp16_from_f64(x));
    default: return (double)NAN;
    }
}

/* As NumPy defines them, step by step (npy_divmod). */
static double truth_mod(double x, double y) {
    double r = fmod(x, y);
    if (r != 0 && (y < 0) != (r < 0)) r += y;
    return r == 0 ? copysign(0, y) : r;
}

static double truth_floor_div(double x, double y) {
    if (y == 0) return x / y;
    const double r = fmod(x, y);
    double q = (x - r) / y;
    if (r != 0 && (y < 0) != (r < 0)) q -= 1;
    if (q == 0) return copysign(0, x / y);
    return floor(q) + (q - floor(q) > 0.5);
}

static double truth2(cpu_elementwise_code code, double x, double y) {
    switch ((int)code) {
    case CPU_ELEMENTWISE_add: return x + y;
    case CPU_ELEMENTWISE_sub: return x - y;
    case CPU_ELEMENTWISE_mul: return x * y;
    case CPU_ELEMENTWISE_div: return x / y;
    case CPU_ELEMENTWISE_floor_div: return truth_floor_div(x, y);
    case CPU_ELEMENTWISE_mod: return truth_mod(x, y);
    case CPU_ELEMENTWISE_pow: return pow(x, y);
    case CPU_ELEMENTWISE_max: return x != x || y != y ? (double)NAN : fmax(x, y);
    case CPU_ELEMENTWISE_min: return x != x || y != y ? (double)NAN : fmin(x, y);
    case CPU_ELEMENTWISE_eq: return x == y;
    case CPU_ELEMENTWISE_ne: return x != y;
    case CPU_ELEMENTWISE_lt: return x < y;
    case CPU_ELEMENTWISE_le: return x <= y;
    case CPU_ELEMENTWISE_gt: return x > y;
    case CPU_ELEMENTWISE_ge: return x >= y;
    case CPU_ELEMENTWISE_and: return x != 0 && y != 0;
    case CPU_ELEMENTWISE_or: return x != 0 || y != 0;
    case CPU_ELEMENTWISE_xor: return (x != 0) != (y != 0);
    default: return (double)NAN;
    }
}

/* ---- error in units of the last place ---------------------------------------------------------------------------------- */

static double ulp_of(double x) {
    double a = fabs(x);
    if (a < (double)FLT_MIN) return 0x1p-149;
    int e;
    frexp(a, &e);
    return ldexp(1, e - 24);
}

/* `floor_abs`: smaller errors do not count (functions that pass through zero away from x = 0). */
static double error_ulp(float got, double want, double floor_abs) {
    float rounded = (float)want;
    if (rounded != rounded) return got != got ? 0 : 1e30;
    if (got != got) return 1e30;
    if (isinf(rounded) || isinf(got)) {
        if (got == rounded) return 0;
        double limit = (double)FLT_MAX;
        return fabs(want) > limit * 0.999999 && fabs((double)got) > limit * 0.999999 && (want > 0) == (got > 0) ? 1
                                                                                                                : 1e30;
    }
    double e = fabs((double)got - want);
    return e <= floor_abs ? 0 : e / ulp_of(want);
}

/* Bounds in ulp. The list shows errors observed with AVX-512 (AVX2 and NEON are the same) and, in brackets, with plain
 * C and glibc 2.36. TEST_VERBOSE=1 prints all.
 *  rsqrt 1.47 (1.47), exp 1.02 (0.50), exp2 1.02 (0.50), log 0.76 (0.82), tanh 1.25 (2.03), erf 1.15 (0.82), sigmoid
 *  2.38 (2.35), gelu 17.8 (17.6: x/sqrt(2) is rounded, and Phi falls steeply), gelu_tanh 12.6 (15.2), gelu_sigmoid 6.8,
 *  softplus 1.84 (1.43), softsign 1.46, elu 0.87 (0.74); all others are rounded correctly. silu: 2.8 if sigmoid is
 *  normal. */
typedef struct bound {
    cpu_elementwise_code code;
    double ulp, floor_abs, p, q;
} bound;

static const bound unary_bounds[] = {
    {CPU_ELEMENTWISE_copy, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_fill, 0, 0, 0.1f, 0},
    {CPU_ELEMENTWISE_neg, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_abs, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_sign, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_floor, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_ceil, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_round, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_trunc, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_square, 0.501, 0, 0, 0},
    {CPU_ELEMENTWISE_affine, 1.01, 2e-7, 1.5, 0.25},
    {CPU_ELEMENTWISE_sqrt, 0.501, 0, 0, 0},
    {CPU_ELEMENTWISE_rsqrt, 1.6, 0, 0, 0},
    {CPU_ELEMENTWISE_inverse, 0.501, 0, 0, 0},
    {CPU_ELEMENTWISE_exp, 1.3, 0, 0, 0},
    {CPU_ELEMENTWISE_exp2, 1.5, 0, 0, 0},
    {CPU_ELEMENTWISE_log, 1.5, 0, 0, 0},
    {CPU_ELEMENTWISE_sin, 1.5, 1.2e-7, 0, 0},
    {CPU_ELEMENTWISE_cos, 1.5, 1.2e-7, 0, 0},
    {CPU_ELEMENTWISE_tanh, 2.5, 0, 0, 0},
    {CPU_ELEMENTWISE_erf, 2, 0, 0, 0},
    {CPU_ELEMENTWISE_sigmoid, 3, 0, 0, 0},
    {CPU_ELEMENTWISE_silu, 4, 1e-41, 0, 0},
    {CPU_ELEMENTWISE_gelu, 20, 1e-9, 0, 0},
    {CPU_ELEMENTWISE_gelu_tanh, 20, 1e-7, 0, 0},
    {CPU_ELEMENTWISE_gelu_sigmoid, 10, 1e-9, 0, 0},
    {CPU_ELEMENTWISE_softplus, 3, 0, 0, 0},
    {CPU_ELEMENTWISE_softsign, 1.5, 0, 0, 0},
    {CPU_ELEMENTWISE_relu, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_relu6, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_leaky_relu, 0.501, 0, 0.01f, 0},
    {CPU_ELEMENTWISE_elu, 3, 0, 0.5, 0},
    {CPU_ELEMENTWISE_sigmoid_hard, 0.501, 6e-8, 0.2f, 0.5},
    {CPU_ELEMENTWISE_clip, 0, 0, -0.5, 3},
    {CPU_ELEMENTWISE_not, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_to_bool, 0, 0, 0, 0},
    {CPU_ELEMENTWISE_round_f16, 0, 0, 0, 0},
};
enum { UNARY_BOUNDS = sizeof unary_bounds / sizeof unary_bounds[0] };

static const float specials[] = {
    0.0f,    -0.0f,      INFINITY,      -INFINITY, NAN,        1e-45f,      -1e-45f, 1e-40f, -1e-40f,
    FLT_MIN, -FLT_MIN,   FLT_MAX,       -FLT_MAX,  1,          -1,          0.5f,    -0.5f,  1.5f,
    2.5f,    -2.5f,      88.72283f,     88.72284f, -87.33654f, -103.97208f, -104,    89,     -88.8f,
    128,     127.99999f, -126,          -149,      -150,       0.625f,      0.93f,   10,     -10,
    65504,   65520,      5.9604645e-8f, 2.9e-8f,   30000,      1e10f,       16777216};
enum { SPECIALS = sizeof specials / sizeof specials[0] };

/* Fills every 997th float of both signs (4.3 million), the special values, and the range with the largest curvature. */
static size_t fill_domain(float *x, size_t max) {
    size_t n = 0;
    for (int i = 0; i < SPECIALS; i++) x[n++] = specials[i];
    for (uint64_t u = 0; u <= 0xffffffffu && n < max; u += 9973) {
        uint32_t bits = (uint32_t)u;
        memcpy(x + n++, &bits, 4);
    }
    rng r;
    rng_init(&r, 3);
    while (n < max) x[n++] = (float)(rng_unit(&r) * 40 - 20);
    return n;
}

static const char *name_of(cpu_elementwise_code code) {
#define NAME(name) [CPU_ELEMENTWISE_##name] = #name,
    static const char *const names[CPU_ELEMENTWISE_COUNT] = {CPU_ELEMENTWISE_UNARY(NAME) CPU_ELEMENTWISE_BINARY(NAME)};
    return names[code];
}

static int each_isa(int i) { return cpu_isa_available((cpu_isa)i) && i != CPU_ISA_AVX512_BF16; }

TEST(unary_accuracy) {
    size_t max = 700000;
    float *x = mem_array(max, 4), *y = mem_array(max, 4);
    EXPECT(x && y);
    size_t n = fill_domain(x, max);
    int covered = 0;
    for (int b = 0; b < UNARY_BOUNDS; b++, covered++) {
        const bound *w = &unary_bounds[b];
        for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
            if (!each_isa(isa)) continue;
            cpu_kernels_of((cpu_isa)isa)->elementwise.unary[w->code](y, x, (int64_t)n, (float)w->p, (float)w->q);
            double worst = 0;
            size_t where = 0;
            for (size_t i = 0; i < n; i++) {
                double e = error_ulp(y[i], truth1(w->code, (double)x[i], w->p, w->q), w->floor_abs);
                if (e > worst) worst = e, where = i;
            }
            if (getenv("TEST_VERBOSE"))
                printf("%-12s %-7s %8.3f ulp at %.9g\n", name_of(w->code), cpu_isa_name((cpu_isa)isa), worst,
                       (double)x[where]);
            EXPECT_MSG(worst <= w->ulp, "%s %s: %g ulp at %.9g: got %.9g, want %.17g", cpu_isa_name((cpu_isa)isa),
                       name_of(w->code), worst, (double)x[where], (double)y[where],
                       truth1(w->code, (double)x[where], w->p, w->q));
        }
    }
    EXPECT_MSG(covered == CPU_ELEMENTWISE_UNARY_END, "%d of %d functions are tested", covered,
               CPU_ELEMENTWISE_UNARY_END);
    mem_free(x);
    mem_free(y);
}

TEST(signs_of_zero) {
    static const cpu_elementwise_code odd[] = {CPU_ELEMENTWISE_copy,     CPU_ELEMENTWISE_floor, CPU_ELEMENTWISE_ceil,
                                               CPU_ELEMENTWISE_round,    CPU_ELEMENTWISE_trunc, CPU_ELEMENTWISE_sqrt,
                                               CPU_ELEMENTWISE_sin,      CPU_ELEMENTWISE_tanh,  CPU_ELEMENTWISE_erf,
                                               CPU_ELEMENTWISE_softsign, CPU_ELEMENTWISE_silu,  CPU_ELEMENTWISE_gelu,
                                               CPU_ELEMENTWISE_round_f16};
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (size_t i = 0; each_isa(isa) && i < sizeof odd / sizeof odd[0]; i++) {
            float x[2] = {-0.0f, 0.0f}, y[2];
            cpu_kernels_of((cpu_isa)isa)->elementwise.unary[odd[i]](y, x, 2, 0, 0);
            EXPECT_MSG(y[0] == 0 && signbit(y[0]) && y[1] == 0 && !signbit(y[1]), "%s %s: %g %g",
                       cpu_isa_name((cpu_isa)isa), name_of(odd[i]), (double)y[0], (double)y[1]);
        }
}

/* Every count from 0 to 67 at every misalignment produces the same results as each element alone, also in place,
 * and writes nothing past the end. */
TEST(unary_lengths) {
    float x[96], y[96], one[1];
    rng r;
    rng_init(&r, 5);
    for (int i = 0; i < 96; i++) x[i] = (float)(rng_unit(&r) * 8 - 4);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int code = 0; each_isa(isa) && code < CPU_ELEMENTWISE_UNARY_END; code++)
            for (int n = 0; n <= 67; n++) {
                int offset = n % 17;
                cpu_elementwise_unary f = cpu_kernels_of((cpu_isa)isa)->elementwise.unary[code];
                for (int i = 0; i < 96; i++) y[i] = -77;
                f(y + offset, x + (n * 5) % 19, n, 0.5f, 0.75f);
                float in_place[96];
                memcpy(in_place, x, sizeof x);
                f(in_place + (n * 5) % 19, in_place + (n * 5) % 19, n, 0.5f, 0.75f);
                for (int i = 0; i < 96; i++) {
                    float want = -77;
                    if (i >= offset && i < offset + n) {
                        f(one, x + (n * 5) % 19 + i - offset, 1, 0.5f, 0.75f);
                        want = one[0];
                        EXPECT(memcmp(&in_place[(n * 5) % 19 + i - offset], &want, 4) == 0);
                    }
                    EXPECT_MSG(memcmp(&y[i], &want, 4) == 0, "%s %s n=%d i=%d: %g, want %g", cpu_isa_name((cpu_isa)isa),
                               name_of((cpu_elementwise_code)code), n, i, (double)y[i], (double)want);
                }
            }
}

/* All pairs of specials and random numbers, in the three patterns. Observed: pow 0.52 ulp. */
TEST(binary_accuracy) {
    enum { N = SPECIALS + 60 };
    float v[N], got[N], single[1];
    rng r;
    rng_init(&r, 7);
    for (int i = 0; i < N; i++) v[i] = i < SPECIALS ? specials[i] : (float)(rng_unit(&r) * 20 - 10);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int code = CPU_ELEMENTWISE_UNARY_END; each_isa(isa) && code < CPU_ELEMENTWISE_COUNT; code++) {
            const cpu_elementwise_binary *f =
                cpu_kernels_of((cpu_isa)isa)->elementwise.binary[code - CPU_ELEMENTWISE_UNARY_END];
            for (int j = 0; j < N; j++) {
                float other[N];
                for (int i = 0; i < N; i++) other[i] = v[(i + j) % N];
                f[CPU_ELEMENTWISE_VV](got, v, other, N);
                for (int i = 0; i < N; i++) {
                    double want = truth2((cpu_elementwise_code)code, (double)v[i], (double)other[i]);
                    double e = error_ulp(got[i], want, 0);
                    EXPECT_MSG(e <= 1, "%s %s(%.9g, %.9g): %.9g, want %.17g", cpu_isa_name((cpu_isa)isa),
                               name_of((cpu_elementwise_code)code), (double)v[i], (double)other[i], (double)got[i],
                               want);
                }
                f[CPU_ELEMENTWISE_VS](got, v, &v[j], N);
                for (int i = 0; i < N; i++) {
                    f[CPU_ELEMENTWISE_VV](single, &v[i], &v[j], 1);
                    EXPECT(memcmp(&got[i], single, 4) == 0 || (got[i] != got[i] && single[0] != single[0]));
                }
                f[CPU_ELEMENTWISE_SV](got, &v[j], v, N);
                for (int i = 0; i < N; i++) {
                    f[CPU_ELEMENTWISE_VV](single, &v[j], &v[i], 1);
                    EXPECT(memcmp(&got[i], single, 4) == 0 || (got[i] != got[i] && single[0] != single[0]));
                }
            }
        }
}

static bool same_float(float got, float want) {
    return got != got ? want != want : got == want && !signbit(got) == !signbit(want);
}

/* Fills numbers whose quotients are close to integers: multiples of decimal fractions, integers near 2^24, and powers
 * of two one unit in the last place apart; then specials, and floats of random bits. */
static int fill_near_multiples(float *v) {
    static const float steps[] = {0.1f, 0.01f, 0.7f, 0.3f, 3, 1e10f, 1e-40f, 1e38f};
    static const float wide[] = {16777215, 16777216, 16777218, 33554432, 3.4e38f, 1e10f, 7, 0x1p-126f, 0x1.fffffep-1f};
    int n = 0;
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++)
        for (int i = 1; i <= 12; i++) v[n++] = (float)(i % 4 ? i : 83 * i) * steps[s] * (i % 3 ? 1 : -1);
    for (size_t s = 0; s < sizeof wide / sizeof wide[0]; s++) v[n++] = wide[s], v[n++] = -wide[s];
    for (int i = 0; i < SPECIALS; i++) v[n++] = specials[i];
    rng r;
    rng_init(&r, 11);
    for (int i = 0; i < 60; i++) {
        const uint32_t bits = (uint32_t)rng_below(&r, UINT32_MAX);
        memcpy(v + n++, &bits, 4);
    }
    return n;
}

/* floor_div and mod of all pairs, exact to the bit, including the sign of zero. */
TEST(exact_quotients) {
    enum { ROOM = 300 };
    float v[ROOM], other[ROOM], got[ROOM];
    const int n = fill_near_multiples(v);
    EXPECT(n <= ROOM);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int code = CPU_ELEMENTWISE_floor_div; each_isa(isa) && code <= CPU_ELEMENTWISE_mod; code++) {
            const cpu_elementwise_binary *f =
                cpu_kernels_of((cpu_isa)isa)->elementwise.binary[code - CPU_ELEMENTWISE_UNARY_END];
            for (int j = 0; j < n; j++)
                for (int pattern = 0; pattern < 3; pattern++) {
                    /* Lines of all lengths: one unusual number sends its whole vector to the slow path. */
                    const int count = pattern == CPU_ELEMENTWISE_VV ? n : 1 + (j * 7) % 67;
                    for (int i = 0; i < n; i++) other[i] = v[(i + j) % n];
                    const float *x = pattern == CPU_ELEMENTWISE_SV ? v + j : v,
                                *y = pattern == CPU_ELEMENTWISE_VS ? v + j : other;
                    f[pattern](got, x, y, count);
                    for (int i = 0; i < count; i++) {
                        const float a = x[pattern == CPU_ELEMENTWISE_SV ? 0 : i],
                                    b = y[pattern == CPU_ELEMENTWISE_VS ? 0 : i],
                                    want = (float)truth2((cpu_elementwise_code)code, (double)a, (double)b);
                        EXPECT_MSG(same_float(got[i], want), "%s %s(%.9g, %.9g): %.9g, want %.9g",
                                   cpu_isa_name((cpu_isa)isa), name_of((cpu_elementwise_code)code), (double)a,
                                   (double)b, (double)got[i], (double)want);
                    }
                }
        }
}

/* Multiples of a step divided by the step: no quotient may be one too large, no remainder outside [0, step). */
TEST(multiples_of_a_step) {
    static const float steps[] = {0.1f, 0.01f, 0.7f, 1e-3f, 1e-40f};
    enum { N = 2000 };
    float x[N], got[N];
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (size_t s = 0; each_isa(isa) && s < sizeof steps / sizeof steps[0]; s++) {
            const cpu_elementwise_kernels *t = &cpu_kernels_of((cpu_isa)isa)->elementwise;
            for (int i = 0; i < N; i++) x[i] = (float)((double)steps[s] * (i - N / 4));
            for (int code = CPU_ELEMENTWISE_floor_div; code <= CPU_ELEMENTWISE_mod; code++) {
                t->binary[code - CPU_ELEMENTWISE_UNARY_END][CPU_ELEMENTWISE_VS](got, x, &steps[s], N);
                for (int i = 0; i < N; i++) {
                    const float want = (float)truth2((cpu_elementwise_code)code, (double)x[i], (double)steps[s]);
                    EXPECT_MSG(same_float(got[i], want), "%s %s(%.9g, %.9g): %.9g, want %.9g",
                               cpu_isa_name((cpu_isa)isa), name_of((cpu_elementwise_code)code), (double)x[i],
                               (double)steps[s], (double)got[i], (double)want);
                }
            }
        }
}

TEST(binary_lengths) {
    float x[80], y[80], z[80];
    for (int i = 0; i < 80; i++) x[i] = (float)i - 30.5f, y[i] = 40.25f - (float)i;
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int n = 0; each_isa(isa) && n < 60; n++)
            for (int pattern = 0; pattern < 3; pattern++) {
                for (int i = 0; i < 80; i++) z[i] = -77;
                cpu_kernels_of((cpu_isa)isa)
                    ->elementwise.binary[CPU_ELEMENTWISE_sub - CPU_ELEMENTWISE_UNARY_END][pattern](z + 3, x + 1, y + 2,
                                                                                                   n);
                for (int i = 0; i < 80; i++) {
                    float a = x[pattern == CPU_ELEMENTWISE_SV ? 1 : i - 2 < 0 ? 0 : i - 2];
                    float b = y[pattern == CPU_ELEMENTWISE_VS ? 2 : i - 1 < 0 ? 0 : i - 1];
                    EXPECT(z[i] == (i >= 3 && i < 3 + n ? a - b : -77));
                }
                memcpy(z, x, sizeof z);
                cpu_kernels_of((cpu_isa)isa)
                    ->elementwise.binary[CPU_ELEMENTWISE_mul - CPU_ELEMENTWISE_UNARY_END][CPU_ELEMENTWISE_VV](z, z, z,
                                                                                                              n);
                for (int i = 0; i < 80; i++) EXPECT(z[i] == (i < n ? x[i] * x[i] : x[i]));
            }
}

TEST(select_and_fma) {
    float c[50], x[50], y[50], z[50];
    for (int i = 0; i < 50; i++) c[i] = (float)(i % 3), x[i] = (float)i, y[i] = (float)-i;
    c[4] = NAN; /* not zero */
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!each_isa(isa)) continue;
        const cpu_elementwise_kernels *t = &cpu_kernels_of((cpu_isa)isa)->elementwise;
        for (int n = 0; n < 50; n++)
            for (int steps = 0; steps < 8; steps++) {
                int cs = steps & 1, xs = steps >> 1 & 1, ys = steps >> 2;
                for (int i = 0; i < 50; i++) z[i] = -77;
                t->select(z, c + 1, cs, x + 1, xs, y + 1, ys, n);
                for (int i = 0; i < 50; i++) {
                    int k = i + 1 < 50 ? i + 1 : 49;
                    EXPECT(z[i] == (i >= n ? -77 : c[cs ? k : 1] != 0 ? x[xs ? k : 1] : y[ys ? k : 1]));
                }
                for (int i = 0; i < 50; i++) z[i] = -77;
                t->fma[0](z, x, y + 1, xs, x + 2, ys, n > 47 ? 47 : n);
                for (int i = 0; i < n && i < 47; i++)
                    EXPECT(z[i] == x[i] * y[xs ? i + 1 : 1] + x[ys ? i + 2 : 2]); /* integers: exact */
                t->fma[1](z, x, y + 1, xs, x + 2, ys, n > 47 ? 47 : n);
                for (int i = 0; i < 50; i++)
                    EXPECT(z[i] == (i < n && i < 47 ? x[ys ? i + 2 : 2] - x[i] * y[xs ? i + 1 : 1] : -77));
            }
    }
}

SUITE("cpu elementwise", T(unary_accuracy), T(signs_of_zero), T(unary_lengths), T(binary_accuracy), T(exact_quotients),
      T(multiples_of_a_step), T(binary_lengths), T(select_and_fma))
