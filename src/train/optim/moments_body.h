/* SPDX-License-Identifier: MIT
 * Owns the small forms of moments in the vectors of one instruction set. A file that includes this header first defines
 * LANES (of 32 bits), MOMENTS_TARGET (an attribute) and MOMENTS_KERNELS (the name of the table that this header
 * defines). A small floating-point number is a float with its last bits cut off, so stochastic rounding adds random
 * bits below the cut. The code uses the compiler's vector types over whole blocks, from memory to memory. The results
 * have the same bits for every LANES.
 *
 * The codes of 64 elements are stored as 16 words of four: byte k of word i is element 16 k + i. Bytes and words are
 * then converted with shifts only. bf16's halves are stored in the same way: 32 elements are 16 words of two.
 */
#include <string.h>

#include "core/base/int_math.h"
#include "train/optim/moments_kernels.h"

enum { WORDS = 16 };
/* The lowest bit of a float that is kept: 3 bits of the mantissa remain, or 7 for bf16. */
enum { MOMENTS_CUT = 20, MOMENTS_BF16_CUT = 16 };
/* The bit pattern of 1 after the cut, which is the largest code, and the patterns that code 0 represents. */
enum {
    MOMENTS_ONE = 0x3f800000 >> MOMENTS_CUT,
    MOMENTS_SIGNED_ZERO = MOMENTS_ONE - 127,
    MOMENTS_ZERO = MOMENTS_ONE - 255
};

#define MOMENTS_INLINE static inline __attribute__((always_inline))

MOMENTS_INLINE float moments_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* No function passes or returns a vector by value, because a compiler without the instruction set passes such vectors
 * through memory. */
typedef uint32_t moments_bits __attribute__((vector_size(4 * LANES)));
typedef int32_t moments_ints __attribute__((vector_size(4 * LANES)));
typedef float moments_floats __attribute__((vector_size(4 * LANES)));

#define MOMENTS_GOLDEN 0x9e3779b1u

/* Seeds the random numbers of LANES elements from `first` on. The seeds of the elements N places later are larger by N
 * * MOMENTS_GOLDEN. */
MOMENTS_INLINE void moments_seed(moments_bits *seed, uint32_t first) {
    for (uint32_t i = 0; i < LANES; i++) (*seed)[i] = (first + i) * MOMENTS_GOLDEN;
}

/* Computes 32 random bits per element (the finalizer of MurmurHash3 by Austin Appleby, public domain). The lower half
 * is for the first moment, the upper for the second. */
MOMENTS_INLINE void moments_random(moments_bits *random, const moments_bits *seed, uint32_t later, uint32_t key) {
    moments_bits x = (*seed + later * MOMENTS_GOLDEN) ^ key;
    x ^= x >> 16, x *= 0x85ebca6bu;
    x ^= x >> 13, x *= 0xc2b2ae35u;
    *random = x ^ x >> 16;
}

/* Computes the noise that is added below a cut of `cut` bits: 16 random bits plus half a unit of their last bit or,
 * with key 0, half a unit of the last bit that is kept. */
MOMENTS_INLINE void moments_noise(moments_bits *noise, const moments_bits *random, bool second, uint32_t key, int cut) {
    const uint32_t drawn = key ? 0xffff : 0, fixed = key ? (1u << (cut - 16)) >> 1 : 1u << (cut - 1);
    *noise = ((second ? *random >> 16 : *random) & drawn) << (cut - 16) | fixed;
}

/* Returns the smallest power of two that no element exceeds, or 0 if all are 0. */
MOMENTS_INLINE float moments_scale(const float *x) {
    uint32_t largest = 0, size;
    for (int i = 0; i < MOMENT_BLOCK; i++) {
        memcpy(&size, x + i, sizeof size);
        size &= 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    return moments_float((largest + 0x7fffffu) & 0x7f800000u);
}

/* Encodes a vector of elements. No code exceeds the largest one, because no element exceeds the block's scale and the
 * noise stays below the cut. */
MOMENTS_INLINE void moments_encode(bool second, moments_bits *codes, const float *x, float inverse,
                                   const moments_bits *noise) {
    const int32_t zero = second ? MOMENTS_ZERO : MOMENTS_SIGNED_ZERO;
    moments_bits bits;
    memcpy(&bits, x, sizeof bits);
    const moments_floats part = (moments_floats)(bits & 0x7fffffffu) * inverse;
    moments_ints code = (moments_ints)(((moments_bits)part + *noise) >> MOMENTS_CUT) - zero;
    code &= ~(code >> 31);
    *codes = (moments_bits)code;
    if (!second) *codes |= bits >> 24 & 128u;
}

MOMENTS_INLINE void moments_decode(bool second, const moments_bits *words, int byte, float scale, float *out) {
    moments_bits bits;
    if (second) {
        bits = ((*words >> 8 * byte & 255u) + (uint32_t)MOMENTS_ZERO) << MOMENTS_CUT;
    } else {
        const moments_bits size = *words >> 8 * byte & 127u, there = (moments_bits)(size != 0);
        bits =
            ((size + (uint32_t)MOMENTS_SIGNED_ZERO) << MOMENTS_CUT & there) | (*words << (24 - 8 * byte) & 0x80000000u);
    }
    const moments_floats value = (moments_floats)bits * scale;
    memcpy(out, &value, sizeof value);
}

MOMENTS_INLINE float moments_inverse(float scale) { return scale > 0 ? 1 / scale : 0; }

/* The destination of a whole block of a moment. */
typedef struct moments_target {
    bool second;
    void *to;
    float *scale; /* int8 */
    const float *x;
} moments_target;

MOMENTS_INLINE void moments_add_codes(const moments_target *t, int i, int byte, float inverse, uint32_t key,
                                      const moments_bits *random, moments_bits *words) {
    moments_bits noise, codes;
    moments_noise(&noise, random, t->second, key, MOMENTS_CUT);
    moments_encode(t->second, &codes, t->x + i, inverse, &noise);
    *words |= codes << 8 * byte;
}

/* Stores one moment of a block, or both if `other` is not NULL. Both moments share the random numbers. */
MOMENTS_INLINE void moments_store_int8(const moments_target *one, const moments_target *other, uint32_t key,
                                       uint32_t first) {
    const float inverse = moments_inverse(*one->scale = moments_scale(one->x));
    const float other_inverse = other ? moments_inverse(*other->scale = moments_scale(other->x)) : 0;
    moments_bits seed, random;
    moments_seed(&seed, first);
    for (int i = 0; i < MOMENT_BLOCK; i += 4 * WORDS)
        for (int word = 0; word < WORDS; word += LANES) {
            moments_bits words = {0}, other_words = {0};
#pragma GCC unroll 4
            for (int byte = 0; byte < 4; byte++) {
                const int at = i + byte * WORDS + word;
                moments_random(&random, &seed, (uint32_t)at, key);
                moments_add_codes(one, at, byte, inverse, key, &random, &words);
                if (other) moments_add_codes(other, at, byte, other_inverse, key, &random, &other_words);
            }
            memcpy((uint8_t *)one->to + i + 4 * word, &words, sizeof words);
            if (other) memcpy((uint8_t *)other->to + i + 4 * word, &other_words, sizeof other_words);
        }
}

MOMENTS_INLINE void moments_load_int8(bool second, const uint8_t *codes, float scale, float *out) {
    moments_bits words;
    for (int i = 0; i < MOMENT_BLOCK; i += 4 * WORDS)
        for (int word = 0; word < WORDS; word += LANES) {
            memcpy(&words, codes + i + 4 * word, sizeof words);
#pragma GCC unroll 4
            for (int byte = 0; byte < 4; byte++)
                moments_decode(second, &words, byte, scale, out + i + byte * WORDS + word);
        }
}

/* Writes a vector of elements to the lower halves of words (`half` 0), or adds it in their upper halves (`half` 1). */
MOMENTS_INLINE void moments_add_halves(const moments_target *t, int i, int half, uint32_t key,
                                       const moments_bits *random, moments_bits *words) {
    moments_bits noise, bits;
    moments_noise(&noise, random, t->second, key, MOMENTS_BF16_CUT);
    memcpy(&bits, t->x + i, sizeof bits);
    bits += noise;
    *words = half ? *words | (bits & 0xffff0000u) : bits >> MOMENTS_BF16_CUT;
}

MOMENTS_INLINE void moments_store_bf16(const moments_target *one, const moments_target *other, uint32_t key,
                                       uint32_t first) {
    moments_bits seed, random;
    moments_seed(&seed, first);
    for (int i = 0; i < MOMENT_BLOCK; i += 2 * WORDS)
        for (int word = 0; word < WORDS; word += LANES) {
            moments_bits words = {0}, other_words = {0};
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const int at = i + half * WORDS + word;
                moments_random(&random, &seed, (uint32_t)at, key);
                moments_add_halves(one, at, half, key, &random, &words);
                if (other) moments_add_halves(other, at, half, key, &random, &other_words);
            }
            memcpy((char *)one->to + 2 * (i + 2 * word), &words, sizeof words);
            if (other) memcpy((char *)other->to + 2 * (i + 2 * word), &other_words, sizeof other_words);
        }
}

MOMENTS_INLINE void moments_load_bf16(const char *from, float *out) {
    moments_bits words;
    for (int i = 0; i < MOMENT_BLOCK; i += 2 * WORDS)
        for (int word = 0; word < WORDS; word += LANES) {
            memcpy(&words, from + 2 * (i + 2 * word), sizeof words);
            const moments_bits lower = words << MOMENTS_BF16_CUT, upper = words & 0xffff0000u;
            memcpy(out + i + word, &lower, sizeof lower);
            memcpy(out + i + WORDS + word, &upper, sizeof upper);
        }
}

/* ---- blocks, the last of which may be short ---------------------------------------------------------------------- */

MOMENTS_INLINE void moments_load_whole(const moments *m, int64_t block, const void *from, float *out) {
    if (m->form == MOMENT_INT8)
        moments_load_int8(m->second, from, m->scales[block], out);
    else
        moments_load_bf16(from, out);
}

MOMENTS_INLINE void moments_store_whole(const moments *m, int64_t block, void *to, const float *x, uint32_t key) {
    const uint32_t first = (uint32_t)(block * MOMENT_BLOCK);
    const moments_target t = {m->second, to, m->scales ? m->scales + block : NULL, x};
    if (m->form == MOMENT_INT8)
        moments_store_int8(&t, NULL, key, first);
    else
        moments_store_bf16(&t, NULL, key, first);
}

/* Returns an element's position in a block with `per` elements per word. */
MOMENTS_INLINE int64_t moments_place(int64_t per, int64_t element) {
    return element / (per * WORDS) * (per * WORDS) + element % WORDS * per + element / WORDS % per;
}

/* A short block is processed as a whole block padded with zeros, but its elements are stored in memory in their
 * order. */

MOMENTS_INLINE void moments_load_one(const moments *m, int64_t at, int64_t n, float *out) {
    const size_t size = moment_bytes(m->form);
    const char *from = (const char *)m->data + (size_t)at * size;
    char room[2 * MOMENT_BLOCK];
    float whole[MOMENT_BLOCK];
    if (n == MOMENT_BLOCK) {
        moments_load_whole(m, at / MOMENT_BLOCK, from, out);
        return;
    }
    memset(room, 0, sizeof room);
    for (int64_t i = 0; i < n; i++)
        memcpy(room + (size_t)moments_place((int64_t)(4 / size), i) * size, from + (size_t)i * size, size);
    moments_load_whole(m, at / MOMENT_BLOCK, room, whole);
    memcpy(out, whole, (size_t)n * sizeof *out);
}

MOMENTS_INLINE void moments_store_one(const moments *m, int64_t at, int64_t n, const float *x, uint32_t key) {
    const size_t size = moment_bytes(m->form);
    char *to = (char *)m->data + (size_t)at * size;
    char room[2 * MOMENT_BLOCK];
    float whole[MOMENT_BLOCK];
    if (n == MOMENT_BLOCK) {
        moments_store_whole(m, at / MOMENT_BLOCK, to, x, key);
        return;
    }
    memset(whole, 0, sizeof whole);
    memcpy(whole, x, (size_t)n * sizeof *x);
    moments_store_whole(m, at / MOMENT_BLOCK, room, whole, key);
    for (int64_t i = 0; i < n; i++)
        memcpy(to + (size_t)i * size, room + (size_t)moments_place((int64_t)(4 / size), i) * size, size);
}

MOMENTS_INLINE void moments_load_all(const moments *m, int64_t begin, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += MOMENT_BLOCK)
        moments_load_one(m, begin + i, min_i64(MOMENT_BLOCK, count - i), out + i);
}

MOMENTS_INLINE void moments_store_all(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key) {
    for (int64_t i = 0; i < count; i += MOMENT_BLOCK)
        moments_store_one(m, begin + i, min_i64(MOMENT_BLOCK, count - i), x + i, key);
}

/* Stores a block of both moments. `second` is a compile-time constant for each, so the compiler removes its
 * branches. */
MOMENTS_INLINE void moments_store_two(const moments_pair *p, int64_t at, const float *x1, const float *x2,
                                      uint32_t key) {
    const int64_t block = at / MOMENT_BLOCK;
    const size_t offset = (size_t)at * moment_bytes(p->first.form);
    const moments_target one = {false, (char *)p->first.data + offset, p->first.scales ? p->first.scales + block : NULL,
                                x1};
    const moments_target other = {true, (char *)p->second.data + offset,
                                  p->second.scales ? p->second.scales + block : NULL, x2};
    if (p->first.form == MOMENT_INT8)
        moments_store_int8(&one, &other, key, (uint32_t)at);
    else
        moments_store_bf16(&one, &other, key, (uint32_t)at);
}

MOMENTS_INLINE void moments_load_two(const moments_pair *p, int64_t at, float *x1, float *x2) {
    const int64_t block = at / MOMENT_BLOCK;
    const size_t offset = (size_t)at * moment_bytes(p->first.form);
    const char *from1 = (const char *)p->first.data + offset, *from2 = (const char *)p->second.data + offset;
    if (p->first.form == MOMENT_INT8) {
        moments_load_int8(false, (const uint8_t *)from1, p->first.scales[block], x1);
        moments_load_int8(true, (const uint8_t *)from2, p->second.scales[block], x2);
    } else {
        moments_load_bf16(from1, x1);
        moments_load_bf16(from2, x2);
    }
}

/* ------------------------------------------------------------------------------------------------------------------ */

MOMENTS_TARGET static void moments_load_these(const moments *m, int64_t begin, int64_t count, float *out) {
    moments_load_all(m, begin, count, out);
}

MOMENTS_TARGET static void moments_store_these(const moments *m, int64_t begin, int64_t count, const float *x,
                                               uint32_t key) {
    moments_store_all(m, begin, count, x, key);
}

MOMENTS_TARGET static void moments_load_both(const moments_pair *p, int64_t at, float *x1, float *x2) {
    moments_load_two(p, at, x1, x2);
}

MOMENTS_TARGET static void moments_store_both(const moments_pair *p, int64_t at, const float *x1, const float *x2,
                                              uint32_t key) {
    moments_store_two(p, at, x1, x2, key);
}

const moments_kernels MOMENTS_KERNELS = {moments_load_these, moments_store_these, moments_load_both,
                                         moments_store_both};
