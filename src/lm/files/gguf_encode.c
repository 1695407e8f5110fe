/* SPDX-License-Identifier: MIT
 * Owns the encoding of GGUF's blocks. Types with one scale per block get the same bits as in ggml. Q4_K and Q6_K are
 * encoded by a search: several step widths near the obvious one are refined by least squares, and the step with the
 * smallest weighted error is kept. All numbers must be finite.
 */
#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "lm/files/gguf_quant.h"

/* Loops over blocks of a type; v points to the current block's elements, and b to its bytes. */
#define EACH_BLOCK(NAME) for (; blocks > 0; blocks--, b += GGUF_BYTES_##NAME, v += GGUF_BLOCK_##NAME)

static void gguf_encode_half(uint8_t *p, float value) {
    uint16_t bits = fp16_from_f32(value);
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* Returns a value as it is after it was stored in fp16. */
static float gguf_encode_rounded(float value) { return fp16_to_f32(fp16_from_f32(value)); }

/* Clamps and rounds, with halves away from zero; NaN becomes `high`. The code avoids roundf, a call that keeps loops
 * scalar. */
static inline int gguf_encode_nearest(float value, int low, int high) {
    const float top = (float)high, bottom = (float)low;
    const float below = value < top ? value : top, inside = below > bottom ? below : bottom;
    const int whole = (int)inside;
    const float part = inside - (float)whole;
    return whole + (part >= 0.5f) - (part <= -0.5f);
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

/* Packs q[32]: elements 0 .. 15 become low nibbles, and 16 .. 31 high nibbles. */
static void gguf_encode_nibbles(const int q[32], uint8_t *b) {
    for (int i = 0; i < 16; i++) b[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

static void gguf_encode_fifths(const int q[32], uint8_t *b) {
    memset(b, 0, 4);
    for (int i = 0; i < 32; i++) b[i / 8] |= (uint8_t)((q[i] >> 4) << (i % 8));
}

/* Maps the value with the largest magnitude to -half, so the step may be negative. Halves are rounded up, as in ggml.
 * Returns the step. */
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

/* GGUF_ENCODE_TRIES is the number of step widths that are tried; at the end of the range of integers, neighbouring
 * tries are a tenth of a step apart. All tries are computed side by side in GGUF_ENCODE_LANES lanes, a multiple of
 * vectors of four. Each try has separate sums, in the order of the elements. */
enum { GGUF_ENCODE_TRIES = 19, GGUF_ENCODE_LANES = 20 };
#define EACH_TRY(k) for (int k = 0; k < GGUF_ENCODE_LANES; k++)

static float gguf_encode_try(int k) { return 0.1f * (float)(k - GGUF_ENCODE_TRIES / 2); }

/* Returns the step d with the smallest sum of v^2 (v - d q)^2 over integers q from -32 to 31; 0 if all values are
 * zero. */
static float gguf_encode_symmetric(const float *v, int count) {
    float extreme = gguf_encode_extreme(v, count), best = 0, most = 0;
    float inverse[GGUF_ENCODE_LANES], vq[GGUF_ENCODE_LANES] = {0}, qq[GGUF_ENCODE_LANES] = {0};
    if (!(fabsf(extreme) > 0)) return 0;
    EACH_TRY(k) inverse[k] = -(32 + gguf_encode_try(k)) / extreme;
    for (int i = 0; i < count; i++) {
        const float value = v[i], weight = value / extreme * (value / extreme);
        EACH_TRY(k) {
            const float q = (float)gguf_encode_nearest(value * inverse[k], -32, 31);
            vq[k] += weight * value * q;
            qq[k] += weight * q * q;
        }
    }
    for (int k = 0; k < GGUF_ENCODE_TRIES; k++) {
        float gain = qq[k] > 0 ? vq[k] / qq[k] * vq[k] : 0; /* the decrease of the sum */
        if (gain > most) most = gain, best = vq[k] / qq[k];
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

/* For every try, weighted sums over 32 elements, where v is approximated by step * q - shift, and the integers q. */
typedef struct gguf_encode_sums {
    float w, v, q[GGUF_ENCODE_LANES], qq[GGUF_ENCODE_LANES], vq[GGUF_ENCODE_LANES];
    float all[32][GGUF_ENCODE_LANES];
} gguf_encode_sums;

static void gguf_encode_sum(gguf_encode_sums *s, const float v[32], const float weight[32], float low, float high) {
    float inverse[GGUF_ENCODE_LANES];
    EACH_TRY(k) inverse[k] = (15 + gguf_encode_try(k)) / (high - low);
    s->w = s->v = 0;
    EACH_TRY(k) s->q[k] = s->qq[k] = s->vq[k] = 0;
    for (int i = 0; i < 32; i++) {
        const float above = v[i] - low, own = weight[i], both = own * v[i];
        s->w += own;
        s->v += both;
        EACH_TRY(k) {
            const float q = (float)gguf_encode_nearest(above * inverse[k], 0, 15);
            s->all[i][k] = q;
            s->q[k] += own * q;
            s->qq[k] += own * q * q;
            s->vq[k] += both * q;
        }
    }
}

/* Solves for step and shift of try `k` by least squares; a negative shift becomes 0. */
static void gguf_encode_solve(const gguf_encode_sums *s, int k, float *step, float *shift) {
    float determinant = s->w * s->qq[k] - s->q[k] * s->q[k];
    *step = determinant > 0 ? (s->w * s->vq[k] - s->q[k] * s->v) / determinant : 0;
    *shift = determinant > 0 ? (s->q[k] * s->vq[k] - s->qq[k] * s->v) / determinant : 0;
    if (*shift > 0 && *step > 0) return;
    *shift = 0;
    *step = s->qq[k] > 0 ? fmaxf(0, s->vq[k] / s->qq[k]) : 0;
}

/* Finds step and shift, neither negative, for integers q from 0 to 15. Large values have more weight. */
static void gguf_encode_shifted(const float v[32], float *step, float *shift) {
    float low, high, least = INFINITY, mean = 0, weight[32];
    float at[GGUF_ENCODE_LANES], below[GGUF_ENCODE_LANES], error[GGUF_ENCODE_LANES] = {0};
    gguf_encode_sums s;
    gguf_encode_range(v, 32, &low, &high);
    low = fminf(low, 0);
    *step = 0;
    *shift = -low;
    if (!(high > low)) return; /* all are zero, or all are the same negative number */
    for (int i = 0; i < 32; i++) mean += v[i] * v[i] / 32;
    for (int i = 0; i < 32; i++) weight[i] = sqrtf(mean) + fabsf(v[i]);
    gguf_encode_sum(&s, v, weight, low, high);
    EACH_TRY(k) gguf_encode_solve(&s, k, &at[k], &below[k]);
    for (int i = 0; i < 32; i++) {
        const float value = v[i], own = weight[i];
        EACH_TRY(k) {
            const float off = at[k] * s.all[i][k] - below[k] - value;
            error[k] += own * off * off;
        }
    }
    for (int k = 0; k < GGUF_ENCODE_TRIES; k++)
        if (error[k] < least) least = error[k], *step = at[k], *shift = below[k];
}

/* Packs scale and minimum number j of eight into the twelve bytes, with six bits each. */
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
