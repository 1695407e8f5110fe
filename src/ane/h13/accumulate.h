/* SPDX-License-Identifier: MIT
 * Models the arithmetic of the multiply-add array. Each product is rounded to a multiple of 2^-16, half away from zero.
 * It is dropped if the exponents of its factors add up to -17 or less. Sums have 16 bits after the point and 15 before
 * it, and a sum that reaches 32768 stays infinite. Results are rounded half away from zero.
 *
 * A public bit-level study (751K, chapter 8) saw this on M4 and M6; on M5 Pro, 13 of 7.2 million outputs differ
 * (cadamcat). Outputs recorded on an M3 Max are multiples of the same step. Sources contradict each other about the M1,
 * so its behaviour is unknown. Floats represent every product exactly (22 bits), and doubles every sum (32 bits).
 */
#ifndef ANE_H13_ACCUMULATE_H
#define ANE_H13_ACCUMULATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Returns v as the array reads it: rounded to fp16, with infinities as +-65536 and NaN as 98304. */
float accumulate_read(float v);
/* Sets n sums to `bias` in units of 2^-16, and `worst` to their magnitudes. */
void accumulate_begin(double *sum, double *worst, int64_t n, float bias);
/* Adds a * b[j] to sum[j], and keeps the sum's largest magnitude so far in worst[j]. accumulate_read must have
 * converted a and b. */
void accumulate_add(double *restrict sum, double *restrict worst, float a, const float *restrict b, int64_t n);
/* Returns the sum before it is rounded to fp16. The sum is infinite if its magnitude ever reached 32768. */
double accumulate_value(double sum, double worst);
/* Rounds to fp16, half away from zero, for |v| below 65504. Keeps the sign of 0, infinity and NaN. Works on bits so
 * that compilers can vectorise loops around it: the first 10 bits of the fraction are kept, and below 2^-14 fp16 has
 * steps of 2^-24. */
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

/* Rounds like accumulate_away, but turns -0 into 0 as the array does. */
static inline float accumulate_round(double v) { return v == 0 ? 0 : accumulate_away(v); }

#endif
