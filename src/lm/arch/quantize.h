/* SPDX-License-Identifier: MIT
 * Weights in fewer bits, for programs that only read them. A matrix [O, I] becomes
 *
 *   fp16   NAME [O, I] fp16
 *   bf16   NAME [O, I] bf16
 *   int8   NAME [O, I/32, 32] int8     and NAME_scale [O, I/32, 1] fp16:  w = q * scale         (GGUF's Q8_0)
 *   int4   NAME [O, I/32, 16] uint8    and NAME_scale [O, I/32, 1] fp16:  w = (q - 8) * scale   (GGUF's Q4_0)
 *
 *   q4_k, ...  NAME [O, I/block, bytes] uint8 and NAME_scale [O, I/block, 1 or 2] fp16: core/base/kquant.h
 *
 * In int4, the low nibbles hold the first 16 of 32 weights, and the high nibbles hold the other 16. Rows whose length
 * is not a multiple of the block stay fp16. Programs express the unpacking as plain operations (model_pack_build), so
 * every device that supports these operations can run such programs; the cpu driver recognises the operations and reads
 * the stored form. The forms q4_k, ... are only read from files, never made.
 */
#ifndef LM_ARCH_QUANTIZE_H
#define LM_ARCH_QUANTIZE_H

#include "core/base/kquant.h"
#include "core/mil/build.h"

typedef enum model_packing {
    MODEL_UNPACKED,
    MODEL_FP16,
    MODEL_BF16,
    MODEL_INT8,
    MODEL_INT4,
#define KQUANT(NAME, name, ...) MODEL_##NAME,
#include "core/base/kquants.def"
#undef KQUANT
    MODEL_PACKINGS,
    MODEL_KQUANT = MODEL_INT4 + 1 /* the first form of kquants.def */
} model_packing;

/* Returns "fp16", "int8", "q4_k" and so on; for MODEL_UNPACKED, "fp32". */
const char *model_packing_name(model_packing packing);
/* Returns the number of weights per block; 1 for a form without blocks. */
int64_t model_packing_block(model_packing packing);
/* Returns the bytes of `count` weights without scales, and sets *scales to the bytes of the fp16 scales of their
 * blocks. */
int64_t model_packing_bytes(model_packing packing, int64_t count, int64_t *scales);
/* Converts weights [first, first + count) to fp32. `data` and `scales` begin at weight 0; `first` and `count` are
 * multiples of the block. */
void model_unpack(model_packing packing, const void *data, const uint16_t *scales, int64_t first, int64_t count,
                  float *out);

/* Returns `wanted` if its blocks divide rows of `in` weights, otherwise MODEL_FP16. */
model_packing model_packing_for(model_packing wanted, int64_t in);
/* Packs a matrix [out, in] into `data` and `scales` (NULL if the form has no scales), in the layouts above. Does not
 * support the forms of kquants.def. */
void model_pack(model_packing packing, const float *w, int64_t out, int64_t in, void *data, uint16_t *scales);
/* Declares the parameters of a packed matrix and returns the matrix [out, in] in `dtype`. Returns NULL if the builder
 * has failed. */
mil_value *model_pack_build(mil_builder *b, model_packing packing, mil_dtype dtype, const char *name, int64_t out,
                            int64_t in);

#endif
