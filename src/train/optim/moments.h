/* SPDX-License-Identifier: MIT
 * The forms in which AdamW's moments are stored: fp32, 16 bits, or 8 bits with one scale per block, as in 8-bit
 * optimisers.
 *
 *   fp32   4 bytes
 *   bf16   2 bytes
 *   int8   1 1/64 bytes: small floating-point numbers times the block's scale, a power of two. First moments have a sign,
 *          4 bits of exponent and 3 of mantissa; second moments 5 of exponent and 3 of mantissa
 *
 * After a step, values are rounded stochastically, so changes below the last bit still accumulate in the long run. The
 * random numbers depend only on the step, the tensor and the element. Results therefore do not depend on threads, and a
 * resumed run draws the same random numbers. A first moment below 2^-16 of the largest in its block becomes 0. A second
 * moment that small becomes the smallest representable number, so that no step divides by zero.
 *
 * Values that are loaded and stored again do not change, so a checkpoint in fp32 loses nothing.
 */
#ifndef TRAIN_OPTIM_MOMENTS_H
#define TRAIN_OPTIM_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOMENT_BLOCK 256
#define MOMENT_WORDS "fp32|bf16|int8"

typedef enum moment_form { MOMENT_FP32, MOMENT_BF16, MOMENT_INT8 } moment_form;

/* Returns the form for one of MOMENT_WORDS. Returns MOMENT_FP32 for NULL and for other words. */
moment_form moment_form_of(const char *word);
const char *moment_form_name(moment_form form);
/* Returns the bytes per element, without scales. */
static inline size_t moment_bytes(moment_form form) { return form == MOMENT_INT8 ? 1 : form == MOMENT_BF16 ? 2 : 4; }

typedef struct moments {
    moment_form form;
    void *data;
    float *scales; /* int8: one per MOMENT_BLOCK elements */
    bool second;
} moments;

/* Both moments of one tensor, in the same form. */
typedef struct moments_pair {
    moments first, second; /* `first.second` is false, `second.second` is true */
} moments_pair;

/* Loads elements [begin, begin + count) as fp32. `begin` must be a multiple of MOMENT_BLOCK, and the form must be bf16
 * or int8. */
void moments_load(const moments *m, int64_t begin, int64_t count, float *out);
/* Stores elements, which must be finite. Key 0 rounds to nearest. Other keys round stochastically, with random numbers
 * from the key and each element's place. */
void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key);
/* Load and store both moments at once, at most MOMENT_BLOCK elements. Each of the two moments uses half of the bits of
 * an element's random number. */
void moments_pair_load(const moments_pair *p, int64_t begin, int64_t count, float *x1, float *x2);
void moments_pair_store(const moments_pair *p, int64_t begin, int64_t count, const float *x1, const float *x2,
                        uint32_t key);

#endif
