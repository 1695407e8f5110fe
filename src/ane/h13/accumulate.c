/* SPDX-License-Identifier: MIT
 * Owns the sums of the multiply-add array, for the sim driver and for the interpreter of registers.
 */
#include "ane/h13/accumulate.h"

#include "core/base/float16.h"

#define ACCUMULATE_STEP 65536.0f     /* 2^16: a sum in units of 2^-16 is an integer */
#define ACCUMULATE_TOP  2147483648.0 /* 32768 in those units */
enum { ACCUMULATE_LEAST = -16 };     /* a product is dropped if the exponents of its factors add up to less */

float accumulate_read(float v) {
    v = fp16_to_f32(fp16_from_f32(v));
    return isnan(v) ? 98304.0f : isinf(v) ? copysignf(65536.0f, v) : v;
}

/* Returns the exponent of v. An fp16 subnormal has the exponent of the smallest normal number. */
static inline int accumulate_exponent(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const int e = (int)(bits >> 23 & 255) - 127;
    return e < -14 ? -14 : e;
}

void accumulate_begin(double *sum, double *worst, int64_t n, float bias) {
    const double start = round((double)bias * (double)ACCUMULATE_STEP);
    for (int64_t j = 0; j < n; j++) {
        sum[j] = start;
        worst[j] = fabs(start);
    }
}

void accumulate_add(double *restrict sum, double *restrict worst, float a, const float *restrict b, int64_t n) {
    const int least = ACCUMULATE_LEAST - accumulate_exponent(a);
    const float scaled = a * ACCUMULATE_STEP;
    for (int64_t j = 0; j < n; j++) {
        const float p = scaled * b[j];
        const float whole = truncf(p + copysignf(0.5f, p));
        sum[j] += accumulate_exponent(b[j]) >= least ? (double)whole : 0.0;
        worst[j] = fmax(worst[j], fabs(sum[j]));
    }
}

double accumulate_value(double sum, double worst) {
    return worst >= ACCUMULATE_TOP ? copysign((double)INFINITY, sum) : sum / (double)ACCUMULATE_STEP;
}
