/* SPDX-License-Identifier: MIT
 * The memory layout of a row of weights in blocks (kquants.def). All forms share one layout, so one piece of code
 * reads them all. A block is, in bytes:
 *
 *   the low bits of the codes, then the high bits: planes of block * low / 8 and block * high / 8 bytes
 *   in blocks of 256: block / sub scales, then as many minima if the form has minima
 *
 * A plane is rows of `width` bytes (kquant_width). In a row, byte i holds the bits of elements i, i + width, ..., those
 * of element i lowest. Each block also has fp16 numbers, which are stored elsewhere: d, followed by dmin if the form
 * has minima.
 *
 *   with minima   w = code * (scale * d) - minimum * dmin
 *   else          w = (code - bias) * ((scale - 128) * d)
 *
 * Blocks of 32 have neither scales nor minima: the factor is d, and the subtracted number is dmin. Each product is
 * exact in fp32, so the order in which products are computed does not change the bits.
 */
#ifndef CORE_BASE_KQUANT_H
#define CORE_BASE_KQUANT_H

#include <stdint.h>

#include "core/base/float16.h"

typedef enum kquant {
#define KQUANT(NAME, ...) KQUANT_##NAME,
#include "core/base/kquants.def"
#undef KQUANT
    KQUANT_COUNT
} kquant;

enum { KQUANT_SUPER = 256, KQUANT_SMALL = 32, KQUANT_SCALE_BIAS = 128, KQUANT_STEP_BIAS = 128 };

typedef struct kquant_form {
    int block, low, high, sub, minimum, bias, steps;
} kquant_form;

/* The table is in the header, so that kernels compiled for one kind contain no branches on its fields. */
static const kquant_form kquant_forms[KQUANT_COUNT] = {
#define KQUANT(NAME, name, block, low, high, sub, minimum, bias, steps) {block, low, high, sub, minimum, bias, steps},
#include "core/base/kquants.def"
#undef KQUANT
};

/* The values of IQ4_NL's and IQ4_XS's nibbles, plus KQUANT_STEP_BIAS. They are finer near zero. */
static const uint8_t kquant_steps[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

/* Returns whether each block has scales. */
static inline int kquant_has_scales(kquant_form f) { return f.block == KQUANT_SUPER; }
static inline int kquant_plane_bytes(kquant_form f, int bits) { return f.block * bits / 8; }
static inline int kquant_scales_at(kquant_form f) { return kquant_plane_bytes(f, f.low + f.high); }
static inline int kquant_subs(kquant_form f) { return f.block / f.sub; }
static inline int kquant_bytes(kquant_form f) {
    return kquant_scales_at(f) + (kquant_has_scales(f) ? (1 + f.minimum) * kquant_subs(f) : 0);
}
static inline int kquant_supers(kquant_form f) { return 1 + f.minimum; } /* fp16 numbers per block */

/* Returns the number of bytes in a row of a plane. In blocks of 32, single bits are stored as 32 consecutive bits, as
 * in ggml. */
static inline int kquant_width(kquant_form f, int bits) { return f.block == KQUANT_SUPER ? 32 : bits == 4 ? 16 : 1; }
/* Return the byte of a plane that holds element `i`, and the shift of the element's bits in that byte. */
static inline int kquant_byte(kquant_form f, int bits, int i) {
    const int width = kquant_width(f, bits), row = width * 8 / bits;
    return i / row * width + i % width;
}
static inline int kquant_up(kquant_form f, int bits, int i) {
    const int width = kquant_width(f, bits);
    return i % (width * 8 / bits) / width * bits;
}

/* Returns the code of element `i`, or the value from kquant_steps that the code selects. */
static inline int kquant_code(kquant_form f, const uint8_t *block, int i) {
    const int low = block[kquant_byte(f, f.low, i)] >> kquant_up(f, f.low, i) & ((1 << f.low) - 1);
    if (f.steps) return kquant_steps[low];
    if (!f.high) return low;
    const uint8_t *high = block + kquant_plane_bytes(f, f.low);
    return low | (high[kquant_byte(f, f.high, i)] >> kquant_up(f, f.high, i) & ((1 << f.high) - 1)) << f.low;
}

/* Sets *factor and *shift for sub block `s`, so that w = (code - bias) * factor - shift. `supers` points to the block's
 * fp16 numbers. */
static inline void kquant_factors(kquant_form f, const uint8_t *block, const uint16_t *supers, int s, float *factor,
                                  float *shift) {
    const uint8_t *scales = block + kquant_scales_at(f);
    *factor = fp16_to_f32(supers[0]);
    *shift = f.minimum ? fp16_to_f32(supers[1]) : 0;
    if (!kquant_has_scales(f)) return;
    *factor *= (float)(scales[s] - (f.minimum ? 0 : KQUANT_SCALE_BIAS));
    if (f.minimum) *shift *= (float)scales[kquant_subs(f) + s];
}

#endif
