/* SPDX-License-Identifier: MIT
 * Owns the packed forms: packing, sizes, unpacking, and the operations that reconstruct a matrix.
 */
#include "lm/arch/quantize.h"

#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/pool.h"
#include "core/mil/kquant_weights.h"

enum { BLOCK = 32, TASK_BLOCKS = 1024 };

static bool quantize_is_kquant(model_packing packing) { return packing >= MODEL_KQUANT; }
static kquant quantize_kquant(model_packing packing) { return (kquant)(packing - MODEL_KQUANT); }

const char *model_packing_name(model_packing packing) {
    static const char *const names[] = {
        "fp32", "fp16", "bf16", "int8", "int4",
#define KQUANT(NAME, name, ...) #name,
#include "core/base/kquants.def"
#undef KQUANT
    };
    return names[packing];
}

int64_t model_packing_block(model_packing packing) {
    return packing < MODEL_INT8          ? 1
           : quantize_is_kquant(packing) ? kquant_forms[quantize_kquant(packing)].block
                                         : BLOCK;
}

model_packing model_packing_for(model_packing wanted, int64_t in) {
    return in % model_packing_block(wanted) ? MODEL_FP16 : wanted;
}

int64_t model_packing_bytes(model_packing packing, int64_t count, int64_t *scales) {
    const int64_t blocks = count / model_packing_block(packing);
    *scales = packing < MODEL_INT8 ? 0 : 2 * blocks;
    if (packing < MODEL_INT8) return packing == MODEL_UNPACKED ? 4 * count : 2 * count;
    if (!quantize_is_kquant(packing)) return packing == MODEL_INT8 ? count : count / 2;
    const kquant_form f = kquant_forms[quantize_kquant(packing)];
    *scales *= kquant_supers(f);
    return blocks * kquant_bytes(f);
}

/* Returns the bits of the largest magnitude. The bits of magnitudes sort in the same order as integers, and loops over
 * integers vectorise. */
static uint32_t quantize_largest(const uint32_t bits[BLOCK]) {
    uint32_t most = 0;
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffff;
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

/* Returns the first number of largest magnitude, with its sign. */
static float quantize_extreme(const float *w) {
    uint32_t bits[BLOCK];
    memcpy(bits, w, sizeof bits);
    const uint32_t most = quantize_largest(bits);
    for (int i = 0; i < BLOCK; i++)
        if ((bits[i] & 0x7fffffff) == most) return w[i];
    return 0;
}

/* Clamps and rounds, with halves away from zero. The code avoids roundf, a call that keeps loops scalar. NaN becomes
 * `low`. */
static int quantize_clamp(float x, int low, int high) {
    const float inside = x > (float)low ? (x < (float)high ? x : (float)high) : (float)low;
    const int whole = (int)inside;
    const float part = inside - (float)whole;
    return whole + (part >= 0.5f) - (part <= -0.5f);
}

static void quantize_pack_int8(const float *w, int8_t *q, uint16_t *scale) {
    *scale = fp16_from_f32(fabsf(quantize_extreme(w)) / 127);
    float d = fp16_to_f32(*scale), inverse = d > 0 ? 1 / d : 0; /* the scale as it is stored */
    for (int i = 0; i < BLOCK; i++) q[i] = (int8_t)quantize_clamp(w[i] * inverse, -127, 127);
}

/* Packs a block. The weight of largest magnitude becomes -8, because the negative side has one more step. */
static void quantize_pack_int4(const float *w, uint8_t *q, uint16_t *scale) {
    *scale = fp16_from_f32(quantize_extreme(w) / -8);
    float d = fp16_to_f32(*scale), inverse = fabsf(d) > 0 ? 1 / d : 0;
    for (int i = 0; i < BLOCK / 2; i++) {
        int low = quantize_clamp(w[i] * inverse, -8, 7) + 8,
            high = quantize_clamp(w[i + BLOCK / 2] * inverse, -8, 7) + 8;
        q[i] = (uint8_t)(low | high << 4);
    }
}

typedef struct quantize_blocks {
    model_packing packing;
    const float *w;
    int64_t blocks;
    void *data;
    uint16_t *scales;
} quantize_blocks;

static void quantize_task(void *context, int task, int worker) {
    (void)worker;
    const quantize_blocks *q = context;
    const int64_t first = (int64_t)task * TASK_BLOCKS, end = first + TASK_BLOCKS;
    for (int64_t b = first; b < end && b < q->blocks; b++) {
        if (q->packing == MODEL_INT8)
            quantize_pack_int8(q->w + b * BLOCK, (int8_t *)q->data + b * BLOCK, q->scales + b);
        else
            quantize_pack_int4(q->w + b * BLOCK, (uint8_t *)q->data + b * (BLOCK / 2), q->scales + b);
    }
}

void model_pack(model_packing packing, const float *w, int64_t out, int64_t in, void *data, uint16_t *scales) {
    quantize_blocks q = {packing, w, out * in / BLOCK, data, scales};
    if (packing == MODEL_FP16) fp16_from_f32_array(data, w, (size_t)(out * in));
    if (packing == MODEL_BF16) bf16_from_f32_array(data, w, (size_t)(out * in));
    if (packing == MODEL_INT8 || packing == MODEL_INT4)
        pool_run(quantize_task, &q, (int)((q.blocks + TASK_BLOCKS - 1) / TASK_BLOCKS));
}

/* ---- taking apart ------------------------------------------------------------------------------------------------------- */

static void quantize_unpack_int8(const int8_t *q, const uint16_t *scales, int64_t blocks, float *out) {
    for (; blocks > 0; blocks--, q += BLOCK, out += BLOCK, scales++) {
        const float d = fp16_to_f32(*scales);
        for (int i = 0; i < BLOCK; i++) out[i] = (float)q[i] * d;
    }
}

static void quantize_unpack_int4(const uint8_t *q, const uint16_t *scales, int64_t blocks, float *out) {
    for (; blocks > 0; blocks--, q += BLOCK / 2, out += BLOCK, scales++) {
        const float d = fp16_to_f32(*scales);
        for (int i = 0; i < BLOCK / 2; i++) {
            out[i] = (float)((q[i] & 15) - 8) * d;
            out[i + BLOCK / 2] = (float)((q[i] >> 4) - 8) * d;
        }
    }
}

static void quantize_unpack_kquant(kquant kind, const uint8_t *block, const uint16_t *supers, int64_t blocks,
                                   float *out) {
    const kquant_form f = kquant_forms[kind];
    for (; blocks > 0; blocks--, block += kquant_bytes(f), supers += kquant_supers(f))
        for (int s = 0; s < kquant_subs(f); s++) {
            float factor, shift;
            kquant_factors(f, block, supers, s, &factor, &shift);
            for (int i = s * f.sub; i < (s + 1) * f.sub; i++)
                *out++ = (float)(kquant_code(f, block, i) - f.bias) * factor - shift;
        }
}

void model_unpack(model_packing packing, const void *data, const uint16_t *scales, int64_t first, int64_t count,
                  float *out) {
    int64_t scale_bytes;
    const uint8_t *at = (const uint8_t *)data + model_packing_bytes(packing, first, &scale_bytes);
    const int64_t blocks = count / model_packing_block(packing);
    if (scale_bytes) scales += scale_bytes / 2;
    if (packing == MODEL_UNPACKED)
        memcpy(out, at, (size_t)count * sizeof *out);
    else if (packing == MODEL_FP16)
        fp16_to_f32_array(out, (const void *)at, (size_t)count);
    else if (packing == MODEL_BF16)
        bf16_to_f32_array(out, (const void *)at, (size_t)count);
    else if (packing == MODEL_INT8)
        quantize_unpack_int8((const int8_t *)at, scales, blocks, out);
    else if (packing == MODEL_INT4)
        quantize_unpack_int4(at, scales, blocks, out);
    else
        quantize_unpack_kquant(quantize_kquant(packing), at, scales, blocks, out);
}

/* ---- programs ----------------------------------------------------------------------------------------------------------- */

static mil_value *quantize_param(mil_builder *b, const char *name, mil_dtype dtype, int64_t d0, int64_t d1,
                                 int64_t d2) {
    const int64_t dim[] = {d0, d1, d2};
    return mil_build_param(b, name, mil_type_tensor(dtype, d2 ? 3 : 2, dim));
}

static mil_value *quantize_cast(mil_builder *b, mil_value *v, mil_dtype dtype) {
    return !v || v->type.dtype == dtype ? v : mil_build_cast(b, v, dtype);
}

mil_value *model_pack_build(mil_builder *b, model_packing packing, mil_dtype dtype, const char *name, int64_t out,
                            int64_t in) {
    const int64_t shape[] = {out, in};
    packing = model_packing_for(packing, in);
    if (packing == MODEL_UNPACKED) return quantize_param(b, name, dtype, out, in, 0);
    if (packing < MODEL_INT8)
        return quantize_cast(b, quantize_param(b, name, packing == MODEL_BF16 ? MIL_bf16 : MIL_fp16, out, in, 0),
                             dtype);
    if (quantize_is_kquant(packing)) {
        const kquant kind = quantize_kquant(packing);
        const char *supers_name = arena_printf(b->module->arena, "%s_scale", name);
        mil_value *data = mil_build_param(b, name, kquant_data_type(kind, out, in));
        mil_value *supers = supers_name ? mil_build_param(b, supers_name, kquant_supers_type(kind, out, in)) : NULL;
        return kquant_build(b, kind, dtype, data, supers);
    }
    bool four = packing == MODEL_INT4;
    mil_value *q = quantize_param(b, name, four ? MIL_uint8 : MIL_int8, out, in / BLOCK, four ? BLOCK / 2 : BLOCK);
    const char *scale_name = arena_printf(b->module->arena, "%s_scale", name);
    mil_value *scale = scale_name ? quantize_param(b, scale_name, MIL_fp16, out, in / BLOCK, 1) : NULL;
    mil_value *w = quantize_cast(b, q, dtype);
    if (four) {
        mil_value *high = mil_build_unary(b, MIL_OP_floor, mil_build_binary_scalar(b, MIL_OP_mul, w, 0.0625));
        mil_value *low = mil_build_binary(b, MIL_OP_sub, w, mil_build_binary_scalar(b, MIL_OP_mul, high, 16));
        mil_value *halves[] = {low, high};
        w = mil_build_binary_scalar(b, MIL_OP_sub, mil_build_concat(b, halves, 2, 2), 8);
    }
    w = mil_build_binary(b, MIL_OP_mul, w, quantize_cast(b, scale, dtype));
    return mil_build_reshape(b, w, shape, 2);
}
