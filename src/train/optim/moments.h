/* SPDX-License-Identifier: MIT
 * The forms in which AdamW's moments are stored: in fp32, in 16 bits, or in 8 bits with one scale per block, as in 8-bit optimisers.
 *
 *   fp32   4 bytes
 *   bf16   2 bytes
 *   int8   1 1/64 bytes: small floating-point numbers times the block's scale, a power of two. First moments have a sign,
 *          4 bits of exponent and 3 of mantissa; second moments 5 of exponent and 3 of mantissa
 *
 * After a step, values are rounded stochastically, so a mean that changes by less than the last bit still changes in
 * the long run. The random numbers depend on the step, the tensor and the element. Results therefore do not depend on
 * threads, and a resumed run draws the same ones. A first moment below 2^-16 of its block's largest becomes 0. A second
 * moment that small becomes the smallest representable number, so that no step divides by zero.
 *
 * Values that were loaded and are stored again unchanged stay the same: a checkpoint of fp32 numbers loses nothing.
 */
#ifndef TRAIN_OPTIM_MOMENTS_H
#define TRAIN_OPTIM_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOMENT_BLOCK 256
#define MOMENT_WORDS "fp32|bf16|int8"

typedef enum moment_form { MOMENT_FP32, MOMENT_BF16, MOMENT_INT8 } moment_form;

/* Returns the form for one of MOMENT_WORDS; fp32 for NULL and others. */
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
    moments first, second; /* their `second` is false and true */
} moments_pair;

/* Loads elements [begin, begin + count). `begin` must be a multiple of MOMENT_BLOCK and the form bf16 or int8. */
void moments_load(const moments *m, int64_t begin, int64_t count, float *out);
/* Stores elements. With `key` 0 it rounds to nearest, otherwise stochastically, from the key and each element's place.
 * Finite numbers only. */
void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key);
/* Do the same for both moments at once, at most MOMENT_BLOCK elements. The two share an element's random number, half
 * of its bits each. */
void moments_pair_load(const moments_pair *p, int64_t begin, int64_t count, float *x1, float *x2);
void moments_pair_store(const moments_pair *p, int64_t begin, int64_t count, const float *x1, const float *x2,
                        uint32_t key);

#endif
