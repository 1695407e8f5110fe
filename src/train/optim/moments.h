/* SPDX-License-Identifier: MIT
 * How AdamW's moments are stored: as they are, in 16 bits, or in 8 with a scale for each block, as 8-bit optimisers
 * have them.
 *
 *   fp32   4 bytes
 *   bf16   2 bytes
 *   int8   1 byte and 1/64 of one: small floating-point numbers times the block's scale, a power of two. First moments: a sign, 4 bits of
 *          exponent, 3 of mantissa; second ones: 5 of exponent, 3 of mantissa
 *
 * What is stored after a step is rounded at random, up as often as it is near: a mean that moves by less than the last
 * bit still moves in the long run. The random numbers come from the step, the tensor and the element, so results do not
 * depend on threads, and a resumed run draws the same. A first moment below 2^-16 of its block's largest becomes 0; a
 * second one that small stays at the smallest number there is, so that no step divides by nothing.
 *
 * What was loaded and is stored again unchanged has the same values: a checkpoint of fp32 numbers loses nothing.
 */
#ifndef TRAIN_OPTIM_MOMENTS_H
#define TRAIN_OPTIM_MOMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOMENT_BLOCK 256
#define MOMENT_WORDS "fp32|bf16|int8"

typedef enum moment_form { MOMENT_FP32, MOMENT_BF16, MOMENT_INT8 } moment_form;

/* One of MOMENT_WORDS; NULL and others: fp32. */
moment_form moment_form_of(const char *word);
const char *moment_form_name(moment_form form);
/* Of an element, without scales. */
static inline size_t moment_bytes(moment_form form) { return form == MOMENT_INT8 ? 1 : form == MOMENT_BF16 ? 2 : 4; }

typedef struct moments {
    moment_form form;
    void *data;
    float *scales; /* int8: one for each MOMENT_BLOCK elements */
    bool second;
} moments;

/* Both of one tensor, of the same form. */
typedef struct moments_pair {
    moments first, second; /* `second` is false and true in them */
} moments_pair;

/* Elements [begin, begin + count): `begin` is a multiple of MOMENT_BLOCK. Form bf16 or int8. */
void moments_load(const moments *m, int64_t begin, int64_t count, float *out);
/* `key` 0: to the nearest; else rounded at random, drawn from the key and each element's place. Finite numbers only. */
void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key);
/* The same of both, at most MOMENT_BLOCK elements, in one go: they share what is drawn for an element, half of its bits
 * each. */
void moments_pair_load(const moments_pair *p, int64_t begin, int64_t count, float *x1, float *x2);
void moments_pair_store(const moments_pair *p, int64_t begin, int64_t count, const float *x1, const float *x2,
                        uint32_t key);

#endif
