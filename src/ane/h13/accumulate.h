/* SPDX-License-Identifier: MIT
 * The arithmetic of the multiply-add array. Each product is rounded to a multiple of 2^-16, half away from zero. It is
 * dropped if the exponents of its factors add up to -17 or less. Sums have 16 bits after the point and 15 before it,
 * and a sum that reaches 32768 stays infinite. Results are rounded half away from zero.
 *
 * A public bit-level study (751K, chapter 8) saw this on M4 and M6; on M5 Pro, 13 of 7.2 million outputs differ
 * (cadamcat). Outputs recorded on an M3 Max are multiples of the same step. Sources contradict each other about the M1,
 * so its behaviour is unknown. Floats and doubles represent all of it exactly: a product of two fp16 has 22 bits, a
 * sum 32.
 */
#ifndef ANE_H13_ACCUMULATE_H
#define ANE_H13_ACCUMULATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Converts a number as the array reads it: fp16, except that infinity is one binade higher and nothing is NaN. */
float accumulate_read(float v);
/* Sets n sums to a bias or 0, in units of 2^-16; `worst` receives the largest magnitude of each sum so far. */
void accumulate_begin(double *sum, double *worst, int64_t n, float bias);
/* sum[j] += a * b[j]; accumulate_read must have converted a and b. */
void accumulate_add(double *restrict sum, double *restrict worst, float a, const float *restrict b, int64_t n);
/* Returns the sum, infinite if it was ever too large; not yet rounded to fp16. */
double accumulate_value(double sum, double worst);
/* Rounds to fp16, half away from zero, for |v| below 65504. Keeps the sign of 0, infinity and NaN. Works on bits so
 * that the compiler can vectorise it: the first 10 bits of the fraction are kept, and below 2^-14 fp16 has steps of
 * 2^-24. */
static inline float accumulate_away(double v) {
    uint64_t bits;
    double kept;
    const double steps = fabs(v) * 0x1p24;
    const int32_t whole = steps < 1024 ? (int32_t)steps : 0;
    memcpy(&bits, &v, sizeof bits);
    bits = (bits + (UINT64_C(1) << 41)) & ~((UINT64_C(1) << 42) - 1);
    memcpy(&kept, &bits, sizeof kept);
    const float small = (float)(whole + (steps - whole >= 0.5)) * 0x1p-24f;
    return steps < 1024 ? copysignf(small, (float)v) : isnan(v) ? (float)v : (float)kept;
}

/* Does the same, but turns -0 into 0 as the array does. */
static inline float accumulate_round(double v) { return v == 0 ? 0 : accumulate_away(v); }

#endif
