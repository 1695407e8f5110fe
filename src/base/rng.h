/* SPDX-License-Identifier: MIT
 * Random numbers: xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain algorithm). The state is plain
 * data, so a checkpoint can hold it.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t s[4];
} rng;

void rng_init(rng *r, uint64_t seed);
uint64_t rng_next(rng *r);
uint64_t rng_below(rng *r, uint64_t n); /* 0 .. n-1 without bias; n >= 1 */
double rng_unit(rng *r);                /* [0, 1), 53 bits */
double rng_normal(rng *r);              /* mean 0, variance 1; Box-Muller, two draws a call, so no hidden state */

#endif
