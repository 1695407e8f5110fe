/* SPDX-License-Identifier: MIT
 * GGUF's blocks in the forms that are kept: each number has the bits that the fp32 reading gives it, for any bytes and
 * for the extremes of scales and codes; a tensor that no form can hold stays fp32.
 */
#include "lm/files/gguf_keep.h"

#include <string.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/files/gguf_quant.h"
#include "support/test.h"

/* Zero, its negative, the smallest, the largest subnormal, one, a negative, the largest and its negative. */
static const uint16_t extremes[] = {0, 0x8000, 1, 0x83ff, 0x3c00, 0xb555, 0x7bff, 0xfbff};
enum { EXTREMES = 8, WEIGHTS = 3 * 256 };

static const struct {
    gguf_type type;
    model_packing form;
    int half[2]; /* offsets of fp16 numbers in a block; -1 if there is none */
} kinds[] = {
    {GGUF_TYPE_Q8_0, MODEL_INT8, {0, -1}},   {GGUF_TYPE_Q4_0, MODEL_INT4, {0, -1}},
    {GGUF_TYPE_Q4_1, MODEL_Q4_1, {0, 2}},    {GGUF_TYPE_Q5_0, MODEL_Q5_0, {0, -1}},
    {GGUF_TYPE_Q5_1, MODEL_Q5_1, {0, 2}},    {GGUF_TYPE_IQ4_NL, MODEL_IQ4_NL, {0, -1}},
    {GGUF_TYPE_Q2_K, MODEL_Q2_K, {80, 82}},  {GGUF_TYPE_Q3_K, MODEL_Q3_K, {108, -1}},
    {GGUF_TYPE_Q4_K, MODEL_Q4_K, {0, 2}},    {GGUF_TYPE_Q5_K, MODEL_Q5_K, {0, 2}},
    {GGUF_TYPE_Q6_K, MODEL_Q6_K, {208, -1}}, {GGUF_TYPE_IQ4_XS, MODEL_IQ4_XS, {0, -1}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void check_blocks(int kind, const uint8_t *raw, int64_t blocks, const char *what) {
    const gguf_type_info *info = gguf_type_get((int)kinds[kind].type);
    int64_t scale_bytes, bytes = model_packing_bytes(kinds[kind].form, WEIGHTS, &scale_bytes);
    float want[WEIGHTS], got[WEIGHTS];
    uint8_t *data = mem_alloc((size_t)bytes);
    uint16_t *scales = mem_alloc((size_t)scale_bytes);
    info->decode(raw, blocks, want);
    gguf_keep_blocks(kinds[kind].type, raw, blocks, data, scales);
    model_unpack(kinds[kind].form, data, scales, 0, WEIGHTS, got);
    for (int i = 0; i < WEIGHTS; i++)
        EXPECT_MSG(memcmp(&want[i], &got[i], sizeof got[i]) == 0, "%s, %s, element %d: %g, want %g", info->name, what,
                   i, (double)got[i], (double)want[i]);
    mem_free(data);
    mem_free(scales);
}

/* `fill` is the value of every byte; -1 means any value. */
static void check_kind(int kind, int fill, int scale, int minimum, rng *r) {
    const gguf_type_info *info = gguf_type_get((int)kinds[kind].type);
    const int64_t blocks = WEIGHTS / info->block;
    char what[80];
    uint8_t *raw = mem_alloc((size_t)(blocks * info->bytes));
    for (int64_t i = 0; i < blocks * info->bytes; i++)
        raw[i] = (uint8_t)(fill < 0 ? rng_below(r, 256) : (uint64_t)fill);
    for (int64_t b = 0; b < blocks; b++)
        for (int h = 0; h < 2; h++)
            if (kinds[kind].half[h] >= 0)
                memcpy(raw + b * info->bytes + kinds[kind].half[h], &extremes[((h ? minimum : scale) + b) % EXTREMES],
                       2);
    snprintf(what, sizeof what, "bytes %d, scale %d, minimum %d", fill, scale, minimum);
    check_blocks(kind, raw, blocks, what);
    mem_free(raw);
}

TEST(every_number_is_that_of_the_fp32_reading) {
    static const int fills[] = {-1, 0, 255, 0x80, 0x7f, 0x0f};
    rng r;
    rng_init(&r, 4);
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t f = 0; f < sizeof fills / sizeof fills[0]; f++)
            for (int scale = 0; scale < EXTREMES; scale++)
                for (int minimum = 0; minimum < (kinds[kind].half[1] < 0 ? 1 : EXTREMES); minimum++)
                    check_kind(kind, fills[f], scale, minimum, &r);
}

TEST(rows_decide_the_form) {
    for (int kind = 0; kind < KINDS; kind++) {
        EXPECT(gguf_keep_form(kinds[kind].type, 512) == kinds[kind].form);
        EXPECT(gguf_keep_form(kinds[kind].type, 528) == MODEL_UNPACKED); /* not a multiple of 32 */
        EXPECT(gguf_keep_form(kinds[kind].type, 288) ==
               (gguf_type_get((int)kinds[kind].type)->block == 32 ? kinds[kind].form : MODEL_UNPACKED));
    }
    EXPECT(gguf_keep_form(GGUF_TYPE_F32, 512) == MODEL_UNPACKED &&
           gguf_keep_form(GGUF_TYPE_MXFP4, 512) == MODEL_UNPACKED);
    EXPECT(gguf_keep_form(GGUF_TYPE_F16, 5) == MODEL_FP16 && gguf_keep_form(GGUF_TYPE_BF16, 5) == MODEL_BF16);
}

SUITE("model/gguf_keep", T(every_number_is_that_of_the_fp32_reading), T(rows_decide_the_form))
