/* SPDX-License-Identifier: MIT
 * Owns the random number generator: xoshiro256** 1.0, seeded by splitmix64.
 */
#include "core/base/rng.h"

#include <math.h>

static uint64_t rng_rotate_left(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

uint64_t rng_mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void rng_init(rng *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) r->s[i] = rng_mix(seed += 0x9e3779b97f4a7c15u);
}

uint64_t rng_next(rng *r) {
    uint64_t *s = r->s;
    uint64_t result = rng_rotate_left(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rng_rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(rng *r, uint64_t n) {
    uint64_t reject = (0 - n) % n; /* 2^64 mod n; without the values below it, all remainders are equally likely */
    for (;;) {
        uint64_t x = rng_next(r);
        if (x >= reject) return x % n;
    }
}

double rng_unit(rng *r) { return (double)(rng_next(r) >> 11) * 0x1p-53; }

double rng_normal(rng *r) {
    double u = 1.0 - rng_unit(r), v = rng_unit(r); /* u in (0, 1]: its logarithm is finite */
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}

/* ---- orders: a keyed permutation (a Feistel network that walks until the index is below n) ----------------------- */

static uint64_t rng_permute(uint64_t index, uint64_t n, uint64_t key) {
    int half = 1;
    while (half < 31 && (uint64_t)1 << 2 * half < n) half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (int round = 0; round < 4; round++) {
            uint64_t next = left ^ (rng_mix(key + (uint64_t)round * 0x9e3779b97f4a7c15u + right) & mask);
            left = right;
            right = next;
        }
        index = left << half | right;
    } while (index >= n);
    return index;
}

uint64_t rng_epoch_key(uint64_t seed, uint64_t epoch) { return rng_mix(seed * 0x9e3779b97f4a7c15u + epoch + 1); }

int64_t rng_shuffled(uint64_t seed, uint64_t n, int64_t count) {
    const uint64_t all = (uint64_t)count;
    return (int64_t)rng_permute(n % all, all, rng_epoch_key(seed, n / all));
}
