/* SPDX-License-Identifier: MIT
 * Owns the conversion of GGUF blocks to the forms in which models keep them. Numbers are moved, never rounded. Two
 * types become fp32 instead: MXFP4, whose scales exceed fp16's range, and Q8_K, which files do not contain.
 */
#include "lm/files/gguf_keep.h"

#include <string.h>

#include "lm/files/gguf_quant.h"

/* Converts one block: writes its quantised numbers to `out` and its fp16 scales to `scales`. */
typedef void (*gguf_keep_block)(const uint8_t *b, uint8_t *out, uint16_t *scales);

static void gguf_keep_numbers(const uint8_t *b, uint8_t *out, size_t bytes, uint16_t *scales) {
    memcpy(scales, b, 2);
    memcpy(out, b + 2, bytes);
}

static void gguf_keep_q8_0(const uint8_t *b, uint8_t *out, uint16_t *scales) { gguf_keep_numbers(b, out, 32, scales); }
static void gguf_keep_q4_0(const uint8_t *b, uint8_t *out, uint16_t *scales) { gguf_keep_numbers(b, out, 16, scales); }

static void gguf_keep_iq4_nl(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    gguf_keep_numbers(b, out, 16, scales);
}

static void gguf_keep_fifths(const uint8_t *b, uint8_t *out) {
    memcpy(out, b + 4, 16);
    memcpy(out + 16, b, 4);
}

static void gguf_keep_q5_0(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(scales, b, 2);
    gguf_keep_fifths(b + 2, out);
}

/* Copies scale and minimum. The file's minimum is added, but the kept form subtracts it, so its sign changes. */
static void gguf_keep_added(const uint8_t *b, uint16_t *scales) {
    memcpy(scales, b, 4);
    scales[1] ^= 0x8000;
}

static void gguf_keep_q4_1(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    gguf_keep_added(b, scales);
    memcpy(out, b + 4, 16);
}

static void gguf_keep_q5_1(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    gguf_keep_added(b, scales);
    gguf_keep_fifths(b + 4, out);
}

/* The block begins with 16 bytes whose nibbles are scales and minima. */
static void gguf_keep_q2_k(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(out, b + 16, 64);
    for (int s = 0; s < 16; s++) {
        out[64 + s] = b[s] & 15;
        out[80 + s] = b[s] >> 4;
    }
    memcpy(scales, b + 80, 4);
}

static void gguf_keep_q3_k(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(out, b + 32, 64);
    memcpy(out + 64, b, 32);
    for (int s = 0; s < 16; s++) out[96 + s] = (uint8_t)(gguf_q3_k_scale(b + 96, s) + KQUANT_SCALE_BIAS);
    memcpy(scales, b + 108, 2);
}

static void gguf_keep_scales_and_minima(const uint8_t *b, uint8_t *out) {
    for (int s = 0; s < 8; s++) gguf_k_scale_min(b, s, &out[s], &out[8 + s]);
}

static void gguf_keep_q4_k(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(scales, b, 4);
    memcpy(out, b + 16, 128);
    gguf_keep_scales_and_minima(b + 4, out + 128);
}

static void gguf_keep_q5_k(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(scales, b, 4);
    memcpy(out, b + 48, 128);
    memcpy(out + 128, b + 16, 32);
    gguf_keep_scales_and_minima(b + 4, out + 160);
}

/* Sorts the nibbles of `bytes` bytes (a multiple of 8) of each source: low nibbles into `low`, high nibbles into
 * `high`, with those of `first` below those of `second`. Eight bytes are processed at a time, because this is a large
 * part of the time to the first token. */
static void gguf_keep_nibbles(const uint8_t *first, const uint8_t *second, size_t bytes, uint8_t *low, uint8_t *high) {
    const uint64_t lower = 0x0f0f0f0f0f0f0f0fu;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t a, b;
        memcpy(&a, first + i, 8);
        memcpy(&b, second + i, 8);
        const uint64_t below = (a & lower) | (b & lower) << 4, above = (a >> 4 & lower) | (b & ~lower);
        memcpy(low + i, &below, 8);
        memcpy(high + i, &above, 8);
    }
}

/* The file stores runs k and k + 2 of four in the same bytes. In the kept form, each 32 bytes hold two consecutive
 * runs. */
static void gguf_keep_q6_k(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    for (int at = 0; at < 128; at += 64) gguf_keep_nibbles(b + at, b + at + 32, 32, out + at, out + at + 32);
    memcpy(out + 128, b + 128, 64);
    for (int s = 0; s < 16; s++) out[192 + s] = b[192 + s] ^ KQUANT_SCALE_BIAS;
    memcpy(scales, b + 208, 2);
}

/* In the file, 16 bytes hold a run of 32 elements. In the kept form, 32 bytes hold two runs, one in the low and one in
 * the high nibbles. */
static void gguf_keep_iq4_xs(const uint8_t *b, uint8_t *out, uint16_t *scales) {
    memcpy(scales, b, 2);
    for (int at = 0; at < 128; at += 32) {
        const uint8_t *codes = b + 8 + at;
        gguf_keep_nibbles(codes, codes + 16, 16, out + at, out + at + 16);
    }
    for (int s = 0; s < 8; s++) out[128 + s] = (uint8_t)(gguf_iq4_xs_scale(b, s) + KQUANT_SCALE_BIAS);
}

static const struct {
    gguf_type type;
    model_packing form;
    gguf_keep_block block;
} gguf_keeps[] = {
    {GGUF_TYPE_F16, MODEL_FP16, NULL}, /* NULL means copied unchanged */
    {GGUF_TYPE_BF16, MODEL_BF16, NULL},
    {GGUF_TYPE_Q8_0, MODEL_INT8, gguf_keep_q8_0},
    {GGUF_TYPE_Q4_0, MODEL_INT4, gguf_keep_q4_0},
    {GGUF_TYPE_Q4_1, MODEL_Q4_1, gguf_keep_q4_1},
    {GGUF_TYPE_Q5_0, MODEL_Q5_0, gguf_keep_q5_0},
    {GGUF_TYPE_Q5_1, MODEL_Q5_1, gguf_keep_q5_1},
    {GGUF_TYPE_IQ4_NL, MODEL_IQ4_NL, gguf_keep_iq4_nl},
    {GGUF_TYPE_Q2_K, MODEL_Q2_K, gguf_keep_q2_k},
    {GGUF_TYPE_Q3_K, MODEL_Q3_K, gguf_keep_q3_k},
    {GGUF_TYPE_Q4_K, MODEL_Q4_K, gguf_keep_q4_k},
    {GGUF_TYPE_Q5_K, MODEL_Q5_K, gguf_keep_q5_k},
    {GGUF_TYPE_Q6_K, MODEL_Q6_K, gguf_keep_q6_k},
    {GGUF_TYPE_IQ4_XS, MODEL_IQ4_XS, gguf_keep_iq4_xs},
};
enum { KEEPS = sizeof gguf_keeps / sizeof gguf_keeps[0] };

static int gguf_keep_find(gguf_type type) {
    int i = 0;
    while (i < KEEPS && gguf_keeps[i].type != type) i++;
    return i;
}

model_packing gguf_keep_form(gguf_type type, int64_t row) {
    const int i = gguf_keep_find(type);
    return i == KEEPS || row % model_packing_block(gguf_keeps[i].form) ? MODEL_UNPACKED : gguf_keeps[i].form;
}

void gguf_keep_blocks(gguf_type type, const uint8_t *from, int64_t blocks, void *data, uint16_t *scales) {
    const int i = gguf_keep_find(type);
    const size_t bytes = (size_t)gguf_type_get((int)type)->bytes;
    const model_packing form = gguf_keeps[i].form;
    int64_t scale_bytes;
    const int64_t own = model_packing_bytes(form, model_packing_block(form), &scale_bytes);
    if (!gguf_keeps[i].block) {
        memcpy(data, from, (size_t)blocks * bytes);
        return;
    }
    for (int64_t k = 0; k < blocks; k++)
        gguf_keeps[i].block(from + (size_t)k * bytes, (uint8_t *)data + k * own, scales + k * scale_bytes / 2);
}
