/* SPDX-License-Identifier: MIT
 * Random numbers: xoshiro256** seeded by splitmix64 (Blackman and Vigna, public domain algorithm). The state is plain
 * data, so a checkpoint can hold it.
 */
#ifndef CORE_BASE_RNG_H
#define CORE_BASE_RNG_H

#include <stdint.h>

typedef struct rng {
    uint64_t s[4];
} rng;

void rng_init(rng *r, uint64_t seed);
uint64_t rng_next(rng *r);
uint64_t rng_below(rng *r, uint64_t n); /* 0 .. n-1, unbiased; n >= 1 */
double rng_unit(rng *r);                /* [0, 1), 53 bits */
double rng_normal(rng *r); /* mean 0, variance 1; Box-Muller with two draws per call, so there is no hidden state */

uint64_t rng_mix(uint64_t x); /* splitmix64's finaliser: scatters bits */
uint64_t rng_epoch_key(uint64_t seed, uint64_t epoch);

/* Returns element n of an endless sequence of indices below `count` (at least 1). Each epoch contains every index once,
 * in a new order. Nothing is stored, so a sequence resumes from n. */
int64_t rng_shuffled(uint64_t seed, uint64_t n, int64_t count);

#endif
