/* SPDX-License-Identifier: MIT
 * The multiply-add array's arithmetic: each product is rounded to a multiple of 2^-16, half away from zero, and dropped
 * where the exponents of its factors add up to -17 or less; sums have 16 bits after the point and 15 before it, and
 * what reaches 32768 stays infinite; results are rounded half away from zero.
 *
 * Seen on M4 and M6 by a public bit-level study (751K, chapter 8), on M5 Pro with 13 differences in 7.2 million outputs
 * (cadamcat); outputs recorded on an M3 Max are multiples of the same step. Of the M1 other things are said: not
 * settled. All of it is exact in floats and doubles: a product of two fp16 has 22 bits, a sum 32.
 */
#ifndef ANE_H13_ACCUMULATE_H
#define ANE_H13_ACCUMULATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* As the array reads a number: fp16, where infinity is one binade more and nothing is NaN. */
float accumulate_read(float v);
/* What sums begin with, a bias or 0, in units of 2^-16; `worst` the largest that a sum has been. */
void accumulate_begin(double *sum, double *worst, int64_t n, float bias);
/* sum[j] += a * b[j]; a and b as accumulate_read gives them. */
void accumulate_add(double *restrict sum, double *restrict worst, float a, const float *restrict b, int64_t n);
/* The sum itself, infinite where it has been too large: not yet rounded to fp16. */
double accumulate_value(double sum, double worst);
/* To fp16, half away from zero; |v| below 65504. The sign of 0, infinity and NaN stay. By bits, so that the compiler
 * makes vectors of it: the first 10 bits of the fraction are kept; below 2^-14 fp16 has steps of 2^-24. */
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

/* The same; -0 becomes 0, as in the array. */
static inline float accumulate_round(double v) { return v == 0 ? 0 : accumulate_away(v); }

#endif
