/* SPDX-License-Identifier: MIT
 * Reductions, softmax and dot products against sums in double, for every instruction set of this machine: lengths
 * around the vector and block sizes, strides, special values, in place.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "cpu/simd/kernels.h"
#include "support/test.h"

enum { MOST = 5200, WIDE = 300 };
static const int64_t lengths[] = {1,  2,  3,  4,  5,   7,   8,   9,   15,   16,   17,   31,   32,
                                  33, 63, 64, 65, 127, 128, 129, 255, 1023, 1024, 1025, 2047, 5000};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static int each_isa(int i) { return cpu_isa_available((cpu_isa)i) && i != CPU_ISA_AVX512_BF16; }

static void fill(float *x, int64_t n, uint64_t seed) {
    rng r;
    rng_init(&r, seed);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rng_unit(&r) * 2 - 0.8);
}

static double reference(int code, const float *x, int64_t length, int64_t stride, double *magnitude) {
    double r = code == CPU_REDUCE_MAX   ? (double)-INFINITY
               : code == CPU_REDUCE_MIN ? (double)INFINITY
                                        : code == CPU_REDUCE_PROD;
    *magnitude = 0;
    for (int64_t i = 0; i < length; i++) {
        double v = (double)x[i * stride];
        switch (code) {
        case CPU_REDUCE_SUM: r += v; break;
        case CPU_REDUCE_SUMSQ: r += v * v; break;
        case CPU_REDUCE_SUMABS: r += fabs(v); break;
        case CPU_REDUCE_MAX: r = r != r || r > v ? r : v; break;
        case CPU_REDUCE_MIN: r = r != r || r < v ? r : v; break;
        default: r *= v;
        }
        *magnitude += code == CPU_REDUCE_SUMSQ ? v * v : fabs(v);
    }
    if (code == CPU_REDUCE_PROD) *magnitude = fabs(r) * (double)length;
    if (code == CPU_REDUCE_MAX || code == CPU_REDUCE_MIN) *magnitude = 0;
    return r;
}

/* Bound: 16 eps of the sum of magnitudes. Observed: 1.3e-7 (2.2 eps); for products, eps per factor. */
TEST(reduce_contiguous) {
    float *x = mem_array(MOST * 3 + 64, 4), y[3];
    EXPECT(x);
    fill(x, MOST * 3 + 64, 1);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int code = 0; each_isa(isa) && code < CPU_REDUCE_COUNT; code++)
            for (int l = 0; l < LENGTHS; l++) {
                int64_t n = code == CPU_REDUCE_PROD && lengths[l] > 64 ? 64 : lengths[l], stride = n + l % 3;
                const float *from = x + l % 5;
                cpu_kernels_of((cpu_isa)isa)->reduce.reduce[code](y, from, 3, n, stride);
                for (int r = 0; r < 3; r++) {
                    double magnitude, want = reference(code, from + r * stride, n, 1, &magnitude);
                    EXPECT_MSG(fabs((double)y[r] - want) <= 16 * 0x1p-24 * magnitude,
                               "%s code %d length %d: %.9g, want %.9g", cpu_isa_name((cpu_isa)isa), code, (int)n,
                               (double)y[r], want);
                }
            }
    mem_free(x);
}

TEST(reduce_strided) {
    float *x = mem_array(1100 * (WIDE + 4), 4), y[WIDE];
    EXPECT(x);
    fill(x, 1100 * (WIDE + 4), 2);
    static const int64_t widths[] = {1, 3, 16, 17, 255, 256, 257, 300};
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int code = 0; each_isa(isa) && code < CPU_REDUCE_COUNT; code++)
            for (int w = 0; w < 8; w++)
                for (int l = 0; l < LENGTHS && lengths[l] < 1100; l += 2) {
                    int64_t n = code == CPU_REDUCE_PROD && lengths[l] > 64 ? 64 : lengths[l],
                            stride = widths[w] + l % 4;
                    cpu_kernels_of((cpu_isa)isa)->reduce.reduce_strided[code](y, x + 1, n, widths[w], stride);
                    for (int64_t j = 0; j < widths[w]; j++) {
                        double magnitude, want = reference(code, x + 1 + j, n, stride, &magnitude);
                        EXPECT_MSG(fabs((double)y[j] - want) <= 16 * 0x1p-24 * magnitude,
                                   "%s code %d length %d column %d: %.9g, want %.9g", cpu_isa_name((cpu_isa)isa), code,
                                   (int)n, (int)j, (double)y[j], want);
                    }
                }
    mem_free(x);
}

TEST(dot_strided) {
    enum { ROWS = 130, STRIDE = WIDE + 3 };
    float *x = mem_array(ROWS * STRIDE, 4), *z = mem_array(ROWS * STRIDE, 4), y[WIDE];
    static const int64_t widths[] = {1, 3, 16, 17, 255, 256, 257, 300}, rows[] = {0, 1, 3, 4, 7, 64, 65, ROWS};
    EXPECT(x && z);
    fill(x, ROWS * STRIDE, 5);
    fill(z, ROWS * STRIDE, 6);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int k = 0; each_isa(isa) && k < 64; k++) {
            const int64_t width = widths[k % 8], length = rows[k / 8], step = width + k % 3;
            cpu_kernels_of((cpu_isa)isa)->reduce.dot_strided(y, x, z, length, width, STRIDE, step);
            for (int64_t j = 0; j < width; j++) {
                double want = 0, magnitude = 0;
                for (int64_t i = 0; i < length; i++) {
                    double term = (double)x[i * STRIDE + j] * (double)z[i * step + j];
                    want += term;
                    magnitude += fabs(term);
                }
                EXPECT_MSG(fabs((double)y[j] - want) <= 16 * 0x1p-24 * magnitude,
                           "%s %d rows of %d, column %d: %.9g, want %.9g", cpu_isa_name((cpu_isa)isa), (int)length,
                           (int)width, (int)j, (double)y[j], want);
            }
        }
    mem_free(x);
    mem_free(z);
}

TEST(reduce_specials) {
    float x[70], y, column;
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!each_isa(isa)) continue;
        const cpu_reduce_kernels *t = &cpu_kernels_of((cpu_isa)isa)->reduce;
        static const float empty[CPU_REDUCE_COUNT] = {0, 0, 0, -INFINITY, INFINITY, 1};
        for (int code = 0; code < CPU_REDUCE_COUNT; code++) {
            t->reduce[code](&y, x, 1, 0, 0);
            t->reduce_strided[code](&column, x, 0, 1, 1);
            EXPECT(y == empty[code] && column == empty[code]);
            for (int at = 0; at < 70; at++) { /* a single NaN anywhere makes the result NaN */
                for (int i = 0; i < 70; i++) x[i] = i == at ? NAN : (float)i - 35;
                t->reduce[code](&y, x, 1, 70, 0);
                t->reduce_strided[code](&column, x, 70, 1, 1);
                EXPECT_MSG(y != y && column != column, "%s code %d NaN at %d", cpu_isa_name((cpu_isa)isa), code, at);
            }
        }
    }
}

/* Compares one row with double. The scale determines how peaked it is. Bound: 2e-6 relative + 1e-37. Observed
 * 4.2e-7. */
static void check_softmax(const float *got, int64_t got_stride, const float *x, int64_t x_stride, int64_t n,
                          const char *what) {
    double top = (double)-INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)x[i * x_stride]);
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i * x_stride] - top);
    for (int64_t i = 0; i < n; i++) {
        double want = exp((double)x[i * x_stride] - top) / sum, e = fabs((double)got[i * got_stride] - want);
        /* x - top is rounded to fp32: a relative error of eps |x - top| in addition to the kernel's. */
        double bound = want * (2e-6 + 0x1p-24 * (top - (double)x[i * x_stride])) + 1e-37;
        EXPECT_MSG(e <= bound, "%s: length %d element %d: %.9g, want %.9g", what, (int)n, (int)i,
                   (double)got[i * got_stride], want);
    }
}

TEST(softmax) {
    enum { N = 1300 };
    float *x = mem_array(3 * N, 4), *y = mem_array(3 * N, 4);
    EXPECT(x && y);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int l = 0; each_isa(isa) && l < LENGTHS && lengths[l] < N; l++)
            for (int scale = 1; scale <= 100; scale *= 10) {
                int64_t n = lengths[l], stride = n + l % 3;
                fill(x, 3 * N, (uint64_t)l);
                for (int64_t i = 0; i < 3 * N; i++) x[i] *= (float)scale;
                x[n / 2] = -1e4f; /* masked */
                cpu_kernels_of((cpu_isa)isa)->reduce.softmax(y, x, 3, n, stride, n);
                for (int r = 0; r < 3; r++)
                    check_softmax(y + r * stride, 1, x + r * n, 1, n, cpu_isa_name((cpu_isa)isa));
                cpu_kernels_of((cpu_isa)isa)->reduce.softmax(x, x, 1, n, n, n);
                EXPECT(memcmp(x, y, (size_t)n * 4) == 0);
            }
    mem_free(x);
    mem_free(y);
}

TEST(softmax_columns) {
    enum { N = 130 };
    float *x = mem_array(N * 304, 4), *y = mem_array(N * 304, 4);
    EXPECT(x && y);
    fill(x, N * 304, 9);
    static const int64_t widths[] = {1, 15, 16, 33, 256, 300};
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int w = 0; each_isa(isa) && w < 6; w++)
            for (int64_t n = 1; n <= N; n += 43) {
                cpu_kernels_of((cpu_isa)isa)->reduce.softmax_strided(y, x, n, widths[w], widths[w] + 1, widths[w] + 3);
                for (int64_t j = 0; j < widths[w]; j++)
                    check_softmax(y + j, widths[w] + 1, x + j, widths[w] + 3, n, cpu_isa_name((cpu_isa)isa));
            }
    mem_free(x);
    mem_free(y);
}

TEST(softmax_specials) {
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++) {
        if (!each_isa(isa)) continue;
        const cpu_reduce_kernels *t = &cpu_kernels_of((cpu_isa)isa)->reduce;
        float x[37], y[37];
        for (int i = 0; i < 37; i++) x[i] = i == 5 ? 2.0f : -INFINITY;
        t->softmax(y, x, 1, 37, 37, 37);
        for (int i = 0; i < 37; i++) EXPECT(y[i] == (i == 5));
        for (int i = 0; i < 37; i++) x[i] = 3e38f;
        t->softmax(y, x, 1, 37, 37, 37);
        for (int i = 0; i < 37; i++) EXPECT(fabsf(y[i] - 1.0f / 37) < 1e-8f);
        for (int i = 0; i < 37; i++) x[i] = -INFINITY;
        t->softmax(y, x, 1, 37, 37, 37);
        for (int i = 0; i < 37; i++) EXPECT(y[i] != y[i]);
        t->log_sum_exp(y, x, 1, 37, 37);
        EXPECT(y[0] == -INFINITY);
    }
}

/* Observed 1.2e-7 relative to the largest summand. */
TEST(log_sum_exp) {
    float *x = mem_array(MOST * 2, 4), y[2], columns[2];
    EXPECT(x);
    fill(x, MOST * 2, 4);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int l = 0; each_isa(isa) && l < LENGTHS; l++) {
            int64_t n = lengths[l];
            cpu_kernels_of((cpu_isa)isa)->reduce.log_sum_exp(y, x, 2, n, n);
            cpu_kernels_of((cpu_isa)isa)->reduce.log_sum_exp_strided(columns, x, n, 2, 2);
            for (int r = 0; r < 2; r++) {
                double rows = 0, strided = 0;
                for (int64_t i = 0; i < n; i++) rows += exp((double)x[r * n + i]), strided += exp((double)x[i * 2 + r]);
                EXPECT(fabs((double)y[r] - log(rows)) < 1e-6 * (1 + fabs(log(rows))));
                EXPECT(fabs((double)columns[r] - log(strided)) < 1e-6 * (1 + fabs(log(strided))));
            }
        }
    mem_free(x);
}

TEST(dot) {
    float *x = mem_array(MOST, 4), *y = mem_array(MOST, 4);
    EXPECT(x && y);
    fill(x, MOST, 7);
    fill(y, MOST, 8);
    for (int isa = 0; isa < CPU_ISA_COUNT; isa++)
        for (int l = 0; each_isa(isa) && l < LENGTHS; l++) {
            double want = 0, magnitude = 0;
            for (int64_t i = 0; i < lengths[l]; i++) {
                want += (double)x[i + 3] * (double)y[i];
                magnitude += fabs((double)x[i + 3] * (double)y[i]);
            }
            double got = (double)cpu_kernels_of((cpu_isa)isa)->reduce.dot(x + 3, y, lengths[l]);
            EXPECT(fabs(got - want) <= 16 * 0x1p-24 * magnitude);
        }
    mem_free(x);
    mem_free(y);
}

SUITE("cpu reduce", T(reduce_contiguous), T(reduce_strided), T(dot_strided), T(reduce_specials), T(softmax),
      T(softmax_columns), T(softmax_specials), T(log_sum_exp), T(dot))
