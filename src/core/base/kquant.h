/* SPDX-License-Identifier: MIT
 * How a row of weights in blocks of 256 lies in memory (kquants.def): one layout for all of them, so that one piece of code reads
 * each. A block is, in bytes:
 *
 *   the low bits of the codes, 32 * low; the high bits, 32 * high
 *   256 / sub scales; with minima as many minima
 *
 * A plane of b bits is b times 32 bytes. The 256 weights are eight runs of 32; byte i of 32 bytes holds element i of 8 / b runs, the
 * first of them in its lowest bits. Beside the blocks lie fp16 numbers: d for each block, and dmin after it where there are minima.
 *
 *   with minima   w = code * (scale * d) - minimum * dmin
 *   else          w = (code - bias) * ((scale - 128) * d)
 *
 * Each product is exact in fp32, so any order of these gives the same bits.
 */
#ifndef CORE_BASE_KQUANT_H
#define CORE_BASE_KQUANT_H

#include <stdint.h>

#include "core/base/float16.h"

typedef enum kquant {
#define KQUANT(NAME, name, low, high, sub, minimum, bias) KQUANT_##NAME,
#include "core/base/kquants.def"
#undef KQUANT
    KQUANT_COUNT
} kquant;

enum { KQUANT_BLOCK = 256, KQUANT_RUN = 32, KQUANT_RUNS = 8, KQUANT_SCALE_BIAS = 128 };

typedef struct kquant_form {
    int low, high, sub, minimum, bias;
} kquant_form;

/* In the header, so that kernels for a kind that is a constant become code without questions. */
static const kquant_form kquant_forms[KQUANT_COUNT] = {
#define KQUANT(NAME, name, low, high, sub, minimum, bias) {low, high, sub, minimum, bias},
#include "core/base/kquants.def"
#undef KQUANT
};

static inline int kquant_scales_at(kquant_form f) { return KQUANT_RUN * (f.low + f.high); }
static inline int kquant_subs(kquant_form f) { return KQUANT_BLOCK / f.sub; }
static inline int kquant_bytes(kquant_form f) { return kquant_scales_at(f) + (1 + f.minimum) * kquant_subs(f); }
static inline int kquant_supers(kquant_form f) { return 1 + f.minimum; } /* fp16 numbers of a block */

/* Where run `run` of a plane of `bits` begins, and how far its bits are up in the bytes. */
static inline int kquant_run_at(int bits, int run) { return run * bits / 8 * KQUANT_RUN; }
static inline int kquant_run_shift(int bits, int run) { return run * bits % 8; }

/* Element `i` of run `run`. */
static inline int kquant_code(kquant_form f, const uint8_t *block, int run, int i) {
    const int low = block[kquant_run_at(f.low, run) + i] >> kquant_run_shift(f.low, run) & ((1 << f.low) - 1);
    if (!f.high) return low;
    const uint8_t *high = block + KQUANT_RUN * f.low;
    return low | (high[kquant_run_at(f.high, run) + i] >> kquant_run_shift(f.high, run) & ((1 << f.high) - 1)) << f.low;
}

/* w = (code - bias) * factor - shift for sub block `s`; `supers` are the block's. */
static inline void kquant_factors(kquant_form f, const uint8_t *block, const uint16_t *supers, int s, float *factor,
                                  float *shift) {
    const uint8_t *scales = block + kquant_scales_at(f);
    *factor = (float)(scales[s] - (f.minimum ? 0 : KQUANT_SCALE_BIAS)) * fp16_to_f32(supers[0]);
    *shift = f.minimum ? (float)scales[kquant_subs(f) + s] * fp16_to_f32(supers[1]) : 0;
}

#endif
