/* SPDX-License-Identifier: MIT
 * Owns the number formats of GGUF's tensors: blocks to floats and back. The layouts are ggml's; sums are taken in fp32 in
 * the same order as there, so that values are equal to the bit.
 */
#include <math.h>
#include <string.h>

#include "base/float16.h"
#include "model/files/gguf.h"

static float gguf_quant_half_at(const uint8_t *p) { return fp16_to_f32((uint16_t)(p[0] | p[1] << 8)); }

static void gguf_quant_put_half(uint8_t *p, uint16_t bits) {
    p[0] = (uint8_t)bits;
    p[1] = (uint8_t)(bits >> 8);
}

/* fp16 d; 16 bytes: low nibbles are elements 0 .. 15, high ones 16 .. 31; minus 8 */
static void gguf_quant_decode_q4_0(const uint8_t *b, float *out) {
    float d = gguf_quant_half_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = (float)((b[2 + i] & 15) - 8) * d;
        out[i + 16] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

/* fp16 d; 32 signed bytes */
static void gguf_quant_decode_q8_0(const uint8_t *b, float *out) {
    float d = gguf_quant_half_at(b);
    for (int i = 0; i < 32; i++) out[i] = (float)(int8_t)b[2 + i] * d;
}

/* Scale and minimum j of eight: six bits each, packed into twelve bytes. */
static void gguf_quant_scale_min(const uint8_t *s, int j, float *scale, float *min) {
    *scale = (float)(j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4);
    *min = (float)(j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4);
}

/* fp16 d, fp16 dmin, 12 bytes of scales, 128 bytes: each 32 hold two runs of 32 elements */
static void gguf_quant_decode_q4_k(const uint8_t *b, float *out) {
    float d = gguf_quant_half_at(b), dmin = gguf_quant_half_at(b + 2), scale, min;
    const uint8_t *q = b + 16;
    for (int j = 0; j < 8; j++) {
        gguf_quant_scale_min(b + 4, j, &scale, &min);
        float factor = d * scale, shift = dmin * min;
        for (int i = 0; i < 32; i++) *out++ = factor * (float)(j % 2 ? q[i] >> 4 : q[i] & 15) - shift;
        if (j % 2) q += 32;
    }
}

/* 128 bytes of low nibbles, 64 of high pairs, 16 signed scales, fp16 d */
static void gguf_quant_decode_q6_k(const uint8_t *b, float *out) {
    const uint8_t *low = b, *high = b + 128, *scales = b + 192;
    float d = gguf_quant_half_at(b + 208);
    for (int half = 0; half < 2; half++, low += 64, high += 32, scales += 8, out += 128)
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < 4; k++) {
                int nibble = k < 2 ? low[i + 32 * k] & 15 : low[i + 32 * (k - 2)] >> 4;
                int q = (nibble | (high[i] >> (2 * k) & 3) << 4) - 32;
                out[i + 32 * k] = d * (float)(int8_t)scales[i / 16 + 2 * k] * (float)q;
            }
}

void gguf_decode_blocks(gguf_type type, const uint8_t *p, int64_t count, float *out) {
    const gguf_type_info *info = gguf_type_get(type);
    for (int64_t i = 0; i < count; i += info->block, p += info->bytes) {
        switch (type) {
        case GGUF_TYPE_F32: memcpy(out + i, p, 4); break;
        case GGUF_TYPE_F16: out[i] = gguf_quant_half_at(p); break;
        case GGUF_TYPE_BF16: out[i] = bf16_to_f32((uint16_t)(p[0] | p[1] << 8)); break;
        case GGUF_TYPE_Q4_0: gguf_quant_decode_q4_0(p, out + i); break;
        case GGUF_TYPE_Q8_0: gguf_quant_decode_q8_0(p, out + i); break;
        case GGUF_TYPE_Q4_K: gguf_quant_decode_q4_k(p, out + i); break;
        case GGUF_TYPE_Q6_K: gguf_quant_decode_q6_k(p, out + i); break;
        }
    }
}

propane_status gguf_f32(const gguf *g, const gguf_tensor *t, float *out, propane_error *err) {
    if (!t->type->readable)
        return propane_fail(
            err, PROPANE_ERR_UNSUPPORTED,
            "%s: tensor %.80s is %s, which Propane does not read; F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K can be",
            gguf_source(g), t->name, t->type->name);
    gguf_decode_blocks((gguf_type)t->type->type, t->data, t->count, out);
    return PROPANE_OK;
}

/* The largest magnitude becomes 127; ties away from zero, as ggml rounds. */
static void gguf_quant_encode_q8_0(const float *v, uint8_t *b) {
    float largest = 0;
    for (int i = 0; i < 32; i++) largest = fmaxf(largest, fabsf(v[i]));
    float d = largest / 127, inverse = d > 0 ? 1 / d : 0;
    gguf_quant_put_half(b, fp16_from_f32(d));
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)fmaxf(-127, fminf(127, roundf(v[i] * inverse)));
}

/* What has the largest magnitude becomes -8, whatever its sign; halves go up, as ggml rounds. */
static void gguf_quant_encode_q4_0(const float *v, uint8_t *b) {
    float extreme = 0;
    for (int i = 0; i < 32; i++)
        if (fabsf(v[i]) > fabsf(extreme)) extreme = v[i];
    float d = extreme / -8, inverse = fabsf(d) > 0 ? 1 / d : 0;
    gguf_quant_put_half(b, fp16_from_f32(d));
    for (int i = 0; i < 16; i++) {
        int low = (int)fminf(15, v[i] * inverse + 8.5f), high = (int)fminf(15, v[i + 16] * inverse + 8.5f);
        b[2 + i] = (uint8_t)(low | high << 4);
    }
}

size_t gguf_encode_blocks(gguf_type type, const float *v, int64_t count, uint8_t *out) {
    const gguf_type_info *info = gguf_type_get(type);
    uint8_t *p = out;
    for (int64_t i = 0; i < count; i += info->block, p += info->bytes) {
        if (type == GGUF_TYPE_Q8_0)
            gguf_quant_encode_q8_0(v + i, p);
        else if (type == GGUF_TYPE_Q4_0)
            gguf_quant_encode_q4_0(v + i, p);
        else if (type == GGUF_TYPE_F16)
            gguf_quant_put_half(p, fp16_from_f32(v[i]));
        else if (type == GGUF_TYPE_BF16)
            gguf_quant_put_half(p, bf16_from_f32(v[i]));
        else
            memcpy(p, v + i, 4);
    }
    return (size_t)(p - out);
}
