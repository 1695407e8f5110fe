/* SPDX-License-Identifier: MIT
 * Owns the decoding of GGUF's number formats: blocks to floats. The layouts are ggml's. Products and sums are computed
 * in fp32 in the same order as in ggml, so values have the same bits. `low` and `high` are a byte's two nibbles.
 */
#include <string.h>

#include "core/base/float16.h"
#include "core/base/kquant.h"
#include "lm/files/gguf_quant.h"

/* Loops over blocks of a type; b points to the current block's bytes, and out to its elements. */
#define EACH_BLOCK(NAME) for (; blocks > 0; blocks--, b += GGUF_BYTES_##NAME, out += GGUF_BLOCK_##NAME)

static float gguf_decode_half(const uint8_t *p) { return fp16_to_f32((uint16_t)(p[0] | p[1] << 8)); }
static uint32_t gguf_decode_word(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float gguf_decode_single(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- single numbers ---------------------------------------------------------------------------------------------- */

void gguf_decode_f32(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    memcpy(out, b, (size_t)blocks * 4);
}

/* Decodes fp16 numbers, which need not be aligned in a file. */
void gguf_decode_f16(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    if ((uintptr_t)b % 2 == 0)
        fp16_to_f32_array(out, (const void *)b, (size_t)blocks);
    else
        EACH_BLOCK(F16) *out = gguf_decode_half(b);
}

void gguf_decode_bf16(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(BF16) *out = bf16_to_f32((uint16_t)(b[0] | b[1] << 8));
}

/* ---- blocks of 32 ----------------------------------------------------------------------------------------------------------- */

/* fp16 d; 16 bytes, whose low nibbles are elements 0 .. 15 and whose high nibbles are 16 .. 31; 8 is subtracted from
 * each */
void gguf_decode_q4_0(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q4_0) {
        float d = gguf_decode_half(b);
        for (int i = 0; i < 16; i++) {
            out[i] = (float)((b[2 + i] & 15) - 8) * d;
            out[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
        }
    }
}

/* fp16 d, fp16 minimum, nibbles as in Q4_0 */
void gguf_decode_q4_1(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q4_1) {
        float d = gguf_decode_half(b), min = gguf_decode_half(b + 2);
        for (int i = 0; i < 16; i++) {
            out[i] = (float)(b[4 + i] & 15) * d + min;
            out[i + 16] = (float)(b[4 + i] >> 4) * d + min;
        }
    }
}

/* fp16 d; 32 bits with the fifth bit of each element; nibbles; 16 is subtracted from each element */
void gguf_decode_q5_0(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q5_0) {
        float d = gguf_decode_half(b);
        uint32_t fifth = gguf_decode_word(b + 2);
        for (int i = 0; i < 16; i++) {
            int low = (b[6 + i] & 15) | (int)(fifth >> i & 1) << 4, high = b[6 + i] >> 4 | (int)(fifth >> (i + 16) & 1)
                                                                                               << 4;
            out[i] = (float)(low - 16) * d;
            out[i + 16] = (float)(high - 16) * d;
        }
    }
}

/* fp16 d, fp16 minimum, fifth bits, nibbles */
void gguf_decode_q5_1(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q5_1) {
        float d = gguf_decode_half(b), min = gguf_decode_half(b + 2);
        uint32_t fifth = gguf_decode_word(b + 4);
        for (int i = 0; i < 16; i++) {
            int low = (b[8 + i] & 15) | (int)(fifth >> i & 1) << 4, high = b[8 + i] >> 4 | (int)(fifth >> (i + 16) & 1)
                                                                                               << 4;
            out[i] = (float)low * d + min;
            out[i + 16] = (float)high * d + min;
        }
    }
}

/* fp16 d; 32 signed bytes */
void gguf_decode_q8_0(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q8_0) {
        float d = gguf_decode_half(b);
        for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)b[2 + i] * d;
    }
}

static float gguf_decode_step(int nibble) { return (float)(kquant_steps[nibble] - KQUANT_STEP_BIAS); }

/* fp16 d; nibbles that choose a step (kquant_steps) */
void gguf_decode_iq4_nl(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(IQ4_NL) {
        float d = gguf_decode_half(b);
        for (int i = 0; i < 16; i++) {
            out[i] = d * gguf_decode_step(b[2 + i] & 15);
            out[i + 16] = d * gguf_decode_step(b[2 + i] >> 4);
        }
    }
}

/* a byte e for the scale 2^(e - 128), half of the OCP format's scale because the values in the table are doubled;
 * nibbles are E2M1 numbers */
void gguf_decode_mxfp4(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    static const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    EACH_BLOCK(MXFP4) {
        float d = gguf_decode_single(b[0] < 2 ? UINT32_C(0x00200000) << b[0] : (uint32_t)(b[0] - 1) << 23);
        for (int i = 0; i < 16; i++) {
            out[i] = d * (float)doubled[b[1 + i] & 15];
            out[i + 16] = d * (float)doubled[b[1 + i] >> 4];
        }
    }
}

/* ---- blocks of 256 -------------------------------------------------------------------------------------------------------- */

/* 16 bytes of scale and minimum (nibbles), 64 bytes of bit pairs, fp16 d, fp16 dmin. Each 32 bytes hold 128
 * elements, two bits per pass; each scale applies to 16 elements. */
void gguf_decode_q2_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q2_K) {
        float d = gguf_decode_half(b + 80), dmin = gguf_decode_half(b + 82);
        for (int i = 0; i < 256; i++) {
            uint8_t scale = b[i / 16];
            int q = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
            out[i] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
        }
    }
}

/* 12 bytes: low nibbles in the first eight, bit pairs in the last four. */
int gguf_q3_k_scale(const uint8_t *packed, int s) {
    return ((s < 8 ? packed[s] & 15 : packed[s - 8] >> 4) | (packed[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
}

/* 32 bytes of third bits, 64 bytes of bit pairs, 12 bytes of scales (16 of six bits), fp16 d. Four is subtracted if
 * the third bit is not set. */
void gguf_decode_q3_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q3_K) {
        float d = gguf_decode_half(b + 108);
        for (int i = 0; i < 256; i++) {
            int pair = i / 32;
            int q = b[32 + i / 128 * 32 + i % 32] >> (pair % 4 * 2) & 3;
            if (!(b[i % 32] >> pair & 1)) q -= 4;
            out[i] = d * (float)gguf_q3_k_scale(b + 96, i / 16) * (float)q;
        }
    }
}

void gguf_k_scale_min(const uint8_t *packed, int s, uint8_t *scale, uint8_t *min) {
    *scale = s < 4 ? packed[s] & 63 : (packed[s + 4] & 15) | (packed[s - 4] >> 6) << 4;
    *min = s < 4 ? packed[s + 4] & 63 : packed[s + 4] >> 4 | (packed[s] >> 6) << 4;
}

/* fp16 d, fp16 dmin, 12 bytes of scales and minima, 128 bytes of nibbles; each 32 bytes hold two runs of 32 elements */
void gguf_decode_q4_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q4_K) {
        float d = gguf_decode_half(b), dmin = gguf_decode_half(b + 2);
        uint8_t scale, min;
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = b + 16 + j / 2 * 32;
            gguf_k_scale_min(b + 4, j, &scale, &min);
            float factor = d * scale, shift = dmin * min;
            for (int i = 0; i < 32; i++) out[32 * j + i] = factor * (float)(q[i] >> (j % 2 * 4) & 15) - shift;
        }
    }
}

/* Q4_K with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to element i of run j */
void gguf_decode_q5_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q5_K) {
        float d = gguf_decode_half(b), dmin = gguf_decode_half(b + 2);
        uint8_t scale, min;
        for (int j = 0; j < 8; j++) {
            const uint8_t *fifth = b + 16, *q = b + 48 + j / 2 * 32;
            gguf_k_scale_min(b + 4, j, &scale, &min);
            float factor = d * scale, shift = dmin * min;
            for (int i = 0; i < 32; i++)
                out[32 * j + i] = factor * (float)((q[i] >> (j % 2 * 4) & 15) | (fifth[i] >> j & 1) << 4) - shift;
        }
    }
}

/* 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, fp16 d */
void gguf_decode_q6_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q6_K) {
        const uint8_t *low = b, *high = b + 128, *scales = b + 192;
        float d = gguf_decode_half(b + 208), *to = out;
        for (int half = 0; half < 2; half++, low += 64, high += 32, scales += 8, to += 128)
            for (int i = 0; i < 32; i++)
                for (int k = 0; k < 4; k++) {
                    int nibble = k < 2 ? low[i + 32 * k] & 15 : low[i + 32 * (k - 2)] >> 4;
                    int q = (nibble | (high[i] >> (2 * k) & 3) << 4) - 32;
                    to[i + 32 * k] = d * (float)(int8_t)scales[i / 16 + 2 * k] * (float)q;
                }
    }
}

/* fp32 d; 256 signed bytes; sums of 16 elements each, which only matrix products need */
void gguf_decode_q8_k(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(Q8_K) {
        float d = gguf_decode_single(gguf_decode_word(b));
        for (int i = 0; i < 256; i++) out[i] = d * (float)(int8_t)b[4 + i];
    }
}

int gguf_iq4_xs_scale(const uint8_t *b, int s) {
    const int pairs = b[2] | b[3] << 8;
    return ((b[4 + s / 2] >> (s % 2 * 4) & 15) | (pairs >> (2 * s) & 3) << 4) - 32;
}

/* fp16 d; two bytes of high bit pairs and four of low nibbles, for eight scales of six bits; 128 bytes of nibbles,
 * 16 per run of 32, which choose a step */
void gguf_decode_iq4_xs(const uint8_t *restrict b, int64_t blocks, float *restrict out) {
    EACH_BLOCK(IQ4_XS) {
        float d = gguf_decode_half(b);
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = b + 8 + 16 * j;
            float scale = d * (float)gguf_iq4_xs_scale(b, j);
            for (int i = 0; i < 16; i++) {
                out[32 * j + i] = scale * gguf_decode_step(q[i] & 15);
                out[32 * j + i + 16] = scale * gguf_decode_step(q[i] >> 4);
            }
        }
    }
}
