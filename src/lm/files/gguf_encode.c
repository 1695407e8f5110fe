/* SPDX-License-Identifier: MIT
 * Owns the encoding of GGUF's blocks. Types with one scale per block are encoded as ggml does, to the bit. Q4_K and
 * Q6_K are searched: several step widths near the obvious one are refined by least squares, and the one with the
 * smallest weighted error is kept. All numbers must be finite.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "lm/files/gguf_quant.h"

/* Walks blocks of a type: v points to each block's elements, b to its bytes. */
#define EACH_BLOCK(NAME) for (; blocks > 0; blocks--, b += GGUF_BYTES_##NAME, v += GGUF_BLOCK_##NAME)

static void gguf_encode_half(uint8_t *p, float value) {
    uint16_t bits = fp16_from_f32(value);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* Returns the value that a reader will see. */
static float gguf_encode_rounded(float value) { return fp16_to_f32(fp16_from_f32(value)); }

static int gguf_encode_nearest(float value, int low, int high) {
    return (int)fmaxf((float)low, fminf((float)high, roundf(value)));
}

/* ---- single numbers ---------------------------------------------------------------------------------------------- */

void gguf_encode_f32(const float *v, int64_t blocks, uint8_t *b) { memcpy(b, v, (size_t)blocks * 4); }

void gguf_encode_f16(const float *v, int64_t blocks, uint8_t *b) { EACH_BLOCK(F16) gguf_encode_half(b, *v); }

void gguf_encode_bf16(const float *v, int64_t blocks, uint8_t *b) {
    EACH_BLOCK(BF16) {
        uint16_t bits = bf16_from_f32(*v);
        b[0] = (uint8_t)bits;
        b[1] = (uint8_t)(bits >> 8);
    }
}

/* ---- blocks of 32 ----------------------------------------------------------------------------------------------------------- */

static float gguf_encode_extreme(const float *v, int count) { /* the first value with the largest magnitude */
    float extreme = 0;
    for (int i = 0; i < count; i++)
        if (fabsf(v[i]) > fabsf(extreme)) extreme = v[i];
    return extreme;
}

static void gguf_encode_range(const float *v, int count, float *low, float *high) {
    *low = *high = v[0];
    for (int i = 1; i < count; i++) *low = fminf(*low, v[i]), *high = fmaxf(*high, v[i]);
}

/* Packs q[32]: elements 0 .. 15 as low nibbles, 16 .. 31 as high ones. */
static void gguf_encode_nibbles(const int q[32], uint8_t *b) {
    for (int i = 0; i < 16; i++) b[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void gguf_encode_fifths(const int q[32], uint8_t *b) {
    memset(b, 0, 4);
    for (int i = 0; i < 32; i++) b[i / 8] |= (uint8_t)((q[i] >> 4) << (i % 8));
}

/* Maps the value with the largest magnitude to -half, whatever its sign. Halves are rounded up, as in ggml. Returns
 * the step. */
static float gguf_encode_signed(const float *v, int half, int q[32]) {
    float d = gguf_encode_extreme(v, 32) / (float)-half, inverse = fabsf(d) > 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++) q[i] = (int)fminf((float)(2 * half - 1), v[i] * inverse + ((float)half + 0.5f));
    return d;
}

/* Maps the smallest value to 0 and the largest to `most`. Returns the step. */
static float gguf_encode_from_low(const float *v, int most, int q[32], float *low) {
    float high;
    gguf_encode_range(v, 32, low, &high);
    float d = (high - *low) / (float)most, inverse = d > 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++) q[i] = (int)fminf((float)most, (v[i] - *low) * inverse + 0.5f);
    return d;
}

void gguf_encode_q4_0(const float *v, int64_t blocks, uint8_t *b) {
    int q[32];
    EACH_BLOCK(Q4_0) {
        gguf_encode_half(b, gguf_encode_signed(v, 8, q));
        gguf_encode_nibbles(q, b + 2);
    }
}

void gguf_encode_q4_1(const float *v, int64_t blocks, uint8_t *b) {
    int q[32];
    float low;
    EACH_BLOCK(Q4_1) {
        gguf_encode_half(b, gguf_encode_from_low(v, 15, q, &low));
        gguf_encode_half(b + 2, low);
        gguf_encode_nibbles(q, b + 4);
    }
}

void gguf_encode_q5_0(const float *v, int64_t blocks, uint8_t *b) {
    int q[32];
    EACH_BLOCK(Q5_0) {
        gguf_encode_half(b, gguf_encode_signed(v, 16, q));
        gguf_encode_fifths(q, b + 2);
        gguf_encode_nibbles(q, b + 6);
    }
}

void gguf_encode_q5_1(const float *v, int64_t blocks, uint8_t *b) {
    int q[32];
    float low;
    EACH_BLOCK(Q5_1) {
        gguf_encode_half(b, gguf_encode_from_low(v, 31, q, &low));
        gguf_encode_half(b + 2, low);
        gguf_encode_fifths(q, b + 4);
        gguf_encode_nibbles(q, b + 8);
    }
}

/* Maps the largest magnitude to 127; ties are rounded away from zero, as in ggml. */
void gguf_encode_q8_0(const float *v, int64_t blocks, uint8_t *b) {
    EACH_BLOCK(Q8_0) {
        float d = fabsf(gguf_encode_extreme(v, 32)) / 127, inverse = d > 0 ? 1 / d : 0;
        gguf_encode_half(b, d);
        for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)gguf_encode_nearest(v[i] * inverse, -127, 127);
    }
}

/* ---- blocks of 256 -------------------------------------------------------------------------------------------------------- */

enum { GGUF_ENCODE_TRIES = 19 }; /* step widths to try; at the end of the range they are a tenth of a step apart */

static float gguf_encode_try(int k) { return 0.1f * (float)(k - GGUF_ENCODE_TRIES / 2); }

/* Returns the step d with the smallest sum of v^2 (v - d q)^2 over integers q from -32 to 31; 0 if all values are
 * zero. */
static float gguf_encode_symmetric(const float *v, int count) {
    float extreme = gguf_encode_extreme(v, count), best = 0, most = 0;
    for (int k = 0; k < GGUF_ENCODE_TRIES && fabsf(extreme) > 0; k++) {
        float inverse = -(32 + gguf_encode_try(k)) / extreme, vq = 0, qq = 0;
        for (int i = 0; i < count; i++) {
            float q = (float)gguf_encode_nearest(v[i] * inverse, -32, 31), weight = v[i] / extreme * (v[i] / extreme);
            vq += weight * v[i] * q;
            qq += weight * q * q;
        }
        float gain = qq > 0 ? vq / qq * vq : 0; /* the decrease of the sum */
        if (gain > most) most = gain, best = vq / qq;
    }
    return best;
}

void gguf_encode_q6_k(const float *v, int64_t blocks, uint8_t *b) {
    EACH_BLOCK(Q6_K) {
        float steps[16];
        for (int j = 0; j < 16; j++) steps[j] = gguf_encode_symmetric(v + 16 * j, 16);
        float d = gguf_encode_extreme(steps, 16) / -128, inverse = fabsf(d) > 0 ? 1 / d : 0;
        memset(b, 0, GGUF_BYTES_Q6_K);
        gguf_encode_half(b + 208, d);
        d = gguf_encode_rounded(d);
        for (int i = 0; i < 256; i++) {
            int part = i / 128, k = i % 128 / 32, l = i % 32;
            int scale = gguf_encode_nearest(steps[i / 16] * inverse, -128, 127);
            float step = d * (float)scale;
            int q = fabsf(step) > 0 ? gguf_encode_nearest(v[i] / step, -32, 31) + 32 : 32;
            b[192 + i / 16] = (uint8_t)(int8_t)scale;
            b[64 * part + 32 * (k % 2) + l] |= (uint8_t)((q & 15) << (4 * (k / 2)));
            b[128 + 32 * part + l] |= (uint8_t)((q >> 4) << (2 * k));
        }
    }
}

/* Weighted sums over 32 elements, for v approximated by step * q - shift. */
typedef struct gguf_encode_sums {
    float w, q, qq, v, vq;
} gguf_encode_sums;

/* Solves for step and shift by least squares; a negative shift becomes 0. */
static void gguf_encode_solve(const gguf_encode_sums *s, float *step, float *shift) {
    float determinant = s->w * s->qq - s->q * s->q;
    *step = determinant > 0 ? (s->w * s->vq - s->q * s->v) / determinant : 0;
    *shift = determinant > 0 ? (s->q * s->vq - s->qq * s->v) / determinant : 0;
    if (*shift > 0 && *step > 0) return;
    *shift = 0;
    *step = s->qq > 0 ? fmaxf(0, s->vq / s->qq) : 0;
}

/* Finds step and shift, neither negative, for integers q from 0 to 15. Large values have more weight. */
static void gguf_encode_shifted(const float v[32], float *step, float *shift) {
    float low, high, least = INFINITY, mean = 0, weight[32];
    gguf_encode_range(v, 32, &low, &high);
    low = fminf(low, 0);
    *step = 0;
    *shift = -low;
    if (!(high > low)) return; /* all are zero, or all are the same negative number */
    for (int i = 0; i < 32; i++) mean += v[i] * v[i] / 32;
    for (int i = 0; i < 32; i++) weight[i] = sqrtf(mean) + fabsf(v[i]);
    for (int k = 0; k < GGUF_ENCODE_TRIES; k++) {
        float inverse = (15 + gguf_encode_try(k)) / (high - low), error = 0, at, below, q[32];
        gguf_encode_sums s = {0};
        for (int i = 0; i < 32; i++) {
            q[i] = (float)gguf_encode_nearest((v[i] - low) * inverse, 0, 15);
            s.w += weight[i], s.q += weight[i] * q[i], s.qq += weight[i] * q[i] * q[i];
            s.v += weight[i] * v[i], s.vq += weight[i] * v[i] * q[i];
        }
        gguf_encode_solve(&s, &at, &below);
        for (int i = 0; i < 32; i++) {
            float off = at * q[i] - below - v[i];
            error += weight[i] * off * off;
        }
        if (error < least) least = error, *step = at, *shift = below;
    }
}

/* Packs scale and minimum j of eight into twelve bytes, with six bits each. */
static void gguf_encode_scale_min(uint8_t *s, int j, int scale, int min) {
    if (j < 4) {
        s[j] |= (uint8_t)scale;
        s[j + 4] |= (uint8_t)min;
        return;
    }
    s[j + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
    s[j - 4] |= (uint8_t)(scale >> 4 << 6);
    s[j] |= (uint8_t)(min >> 4 << 6);
}

void gguf_encode_q4_k(const float *v, int64_t blocks, uint8_t *b) {
    EACH_BLOCK(Q4_K) {
        float steps[8], shifts[8], zero, d, dmin;
        for (int j = 0; j < 8; j++) gguf_encode_shifted(v + 32 * j, &steps[j], &shifts[j]);
        gguf_encode_range(steps, 8, &zero, &d);
        gguf_encode_range(shifts, 8, &zero, &dmin);
        memset(b, 0, GGUF_BYTES_Q4_K);
        gguf_encode_half(b, d / 63);
        gguf_encode_half(b + 2, dmin / 63);
        d = gguf_encode_rounded(d / 63);
        dmin = gguf_encode_rounded(dmin / 63);
        for (int j = 0; j < 8; j++) {
            int scale = d > 0 ? gguf_encode_nearest(steps[j] / d, 0, 63) : 0;
            int min = dmin > 0 ? gguf_encode_nearest(shifts[j] / dmin, 0, 63) : 0;
            float step = d * (float)scale, shift = dmin * (float)min;
            gguf_encode_scale_min(b + 4, j, scale, min);
            for (int i = 0; i < 32; i++) {
                int q = step > 0 ? gguf_encode_nearest((v[32 * j + i] + shift) / step, 0, 15) : 0;
                b[16 + j / 2 * 32 + i] |= (uint8_t)(q << (j % 2 * 4));
            }
        }
    }
}
