/* SPDX-License-Identifier: MIT
 * Owns the small forms of moments. Its one idea: a small floating-point number is a float whose last bits are cut off, so rounding
 * at random is adding random bits below the cut. Vectors of the compiler's over whole blocks, from memory to memory; the same
 * bits everywhere.
 */
#include "train/optim/moments.h"

#include <string.h>

#include "base/int_math.h"

/* Of a float's bits: those that stay begin here; 3 of the mantissa, or bf16's 7. */
enum { MOMENTS_CUT = 20, MOMENTS_BF16_CUT = 16 };
/* What 1 is behind the cut; codes end there. */
enum {
    MOMENTS_ONE = 0x3f800000 >> MOMENTS_CUT,
    MOMENTS_SIGNED_ZERO = MOMENTS_ONE - 127,
    MOMENTS_ZERO = MOMENTS_ONE - 255
};

moment_form moment_form_of(const char *word) {
    if (word && strcmp(word, "bf16") == 0) return MOMENT_BF16;
    return word && strcmp(word, "int8") == 0 ? MOMENT_INT8 : MOMENT_FP32;
}

const char *moment_form_name(moment_form form) {
    return form == MOMENT_INT8 ? "int8" : form == MOMENT_BF16 ? "bf16" : "fp32";
}

size_t moment_bytes(moment_form form) { return form == MOMENT_INT8 ? 1 : form == MOMENT_BF16 ? 2 : 4; }

#define MOMENTS_INLINE static inline __attribute__((always_inline))

MOMENTS_INLINE float moments_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* Vectors as wide as the widest registers; compilers cut them for others. No function takes or returns one. */
enum { LANES = 16 };
typedef uint32_t moments_bits __attribute__((vector_size(4 * LANES)));
typedef int32_t moments_ints __attribute__((vector_size(4 * LANES)));
typedef float moments_floats __attribute__((vector_size(4 * LANES)));
typedef uint16_t moments_halves __attribute__((vector_size(2 * LANES)));
typedef uint8_t moments_bytes __attribute__((vector_size(LANES)));

#define MOMENTS_GOLDEN 0x9e3779b1u

/* Of the elements from `first` on: what the random numbers of a vector's lanes are made of; for the next vector add LANES *
 * MOMENTS_GOLDEN. */
MOMENTS_INLINE void moments_seed(moments_bits *seed, uint32_t first) {
    for (uint32_t i = 0; i < LANES; i++) (*seed)[i] = (first + i) * MOMENTS_GOLDEN;
}

/* What is added below a cut of that many bits: 32 random bits of an element (the finalizer of MurmurHash3 by Austin Appleby,
 * public domain), or with key 0 one half. */
MOMENTS_INLINE void moments_noise(moments_bits *noise, const moments_bits *seed, uint32_t key, int cut) {
    const uint32_t drawn = key ? (1u << cut) - 1 : 0, fixed = key ? 0 : 1u << (cut - 1);
    moments_bits x = *seed ^ key;
    x ^= x >> 16, x *= 0x85ebca6bu;
    x ^= x >> 13, x *= 0xc2b2ae35u;
    *noise = ((x ^ x >> 16) & drawn) | fixed;
}

/* The smallest power of two that no element exceeds; 0: all are 0. */
MOMENTS_INLINE float moments_scale(const float *x) {
    moments_ints most = {0}, size;
    uint32_t largest = 0;
    for (int i = 0; i < MOMENT_BLOCK; i += LANES) {
        memcpy(&size, x + i, sizeof size);
        size &= 0x7fffffff;
        const moments_ints larger = size > most;
        most = (size & larger) | (most & ~larger);
    }
    for (int i = 0; i < LANES; i++) largest = (uint32_t)most[i] > largest ? (uint32_t)most[i] : largest;
    return moments_float((largest + 0x7fffffu) & 0x7f800000u);
}

MOMENTS_INLINE float moments_store_block(bool second, uint8_t *codes, const float *x, uint32_t key, uint32_t first) {
    const float scale = moments_scale(x), inverse = scale > 0 ? 1 / scale : 0;
    const int32_t zero = second ? MOMENTS_ZERO : MOMENTS_SIGNED_ZERO, most = second ? 255 : 127;
    const uint32_t sign = second ? 0 : 128;
    moments_bits seed, noise, bits;
    moments_seed(&seed, first);
    for (int i = 0; i < MOMENT_BLOCK; i += LANES, seed += LANES * MOMENTS_GOLDEN) {
        memcpy(&bits, x + i, sizeof bits);
        moments_noise(&noise, &seed, key, MOMENTS_CUT);
        const moments_floats part = (moments_floats)(bits & 0x7fffffffu) * inverse;
        moments_ints code = (moments_ints)(((moments_bits)part + noise) >> MOMENTS_CUT) - zero;
        const moments_ints above = code > most;
        code = (code & ~above) | (above & most);
        code &= ~(code >> 31);
        const moments_bytes byte = __builtin_convertvector((moments_bits)code | (bits >> 24 & sign), moments_bytes);
        memcpy(codes + i, &byte, sizeof byte);
    }
    return scale;
}

MOMENTS_INLINE void moments_load_block(bool second, const uint8_t *codes, float scale, float *out) {
    moments_bytes byte;
    for (int i = 0; i < MOMENT_BLOCK; i += LANES) {
        memcpy(&byte, codes + i, sizeof byte);
        /* In two steps: gcc 12 makes one of a factor of four element by element. */
        moments_bits bits = __builtin_convertvector(__builtin_convertvector(byte, moments_halves), moments_bits);
        if (second) {
            bits = (bits + (uint32_t)MOMENTS_ZERO) << MOMENTS_CUT;
        } else {
            const moments_bits size = bits & 127u, there = (moments_bits)(size != 0);
            bits = (((size + (uint32_t)MOMENTS_SIGNED_ZERO) << MOMENTS_CUT) & there) | bits >> 7 << 31;
        }
        const moments_floats value = (moments_floats)bits * scale;
        memcpy(out + i, &value, sizeof value);
    }
}

MOMENTS_INLINE void moments_store_bf16(uint16_t *to, const float *x, uint32_t key, uint32_t first) {
    moments_bits seed, noise, bits;
    moments_seed(&seed, first);
    for (int i = 0; i < MOMENT_BLOCK; i += LANES, seed += LANES * MOMENTS_GOLDEN) {
        memcpy(&bits, x + i, sizeof bits);
        moments_noise(&noise, &seed, key, MOMENTS_BF16_CUT);
        const moments_halves half = __builtin_convertvector((bits + noise) >> MOMENTS_BF16_CUT, moments_halves);
        memcpy(to + i, &half, sizeof half);
    }
}

MOMENTS_INLINE void moments_load_bf16(const uint16_t *from, float *out) {
    moments_halves half;
    for (int i = 0; i < MOMENT_BLOCK; i += LANES) {
        memcpy(&half, from + i, sizeof half);
        const moments_bits bits = __builtin_convertvector(half, moments_bits) << 16;
        memcpy(out + i, &bits, sizeof bits);
    }
}

/* ---- blocks, the last of which may be short ------------------------------------------------------------------------------- */

MOMENTS_INLINE void moments_load_whole(const moments *m, int64_t block, const void *from, float *out) {
    if (m->form == MOMENT_INT8)
        moments_load_block(m->second, from, m->scales[block], out);
    else
        moments_load_bf16(from, out);
}

MOMENTS_INLINE void moments_store_whole(const moments *m, int64_t block, void *to, const float *x, uint32_t key) {
    const uint32_t first = (uint32_t)(block * MOMENT_BLOCK);
    if (m->form == MOMENT_INT8)
        m->scales[block] = moments_store_block(m->second, to, x, key, first);
    else
        moments_store_bf16(to, x, key, first);
}

/* A short block is a whole one whose rest is 0. */
MOMENTS_INLINE void moments_load_one(const moments *m, int64_t at, int64_t n, float *out) {
    const size_t size = moment_bytes(m->form);
    const char *from = (const char *)m->data + (size_t)at * size;
    uint16_t room[MOMENT_BLOCK];
    float whole[MOMENT_BLOCK];
    if (n == MOMENT_BLOCK) {
        moments_load_whole(m, at / MOMENT_BLOCK, from, out);
        return;
    }
    memset(room, 0, sizeof room);
    memcpy(room, from, (size_t)n * size);
    moments_load_whole(m, at / MOMENT_BLOCK, room, whole);
    memcpy(out, whole, (size_t)n * sizeof *out);
}

MOMENTS_INLINE void moments_store_one(const moments *m, int64_t at, int64_t n, const float *x, uint32_t key) {
    const size_t size = moment_bytes(m->form);
    char *to = (char *)m->data + (size_t)at * size;
    uint16_t room[MOMENT_BLOCK];
    float whole[MOMENT_BLOCK];
    if (n == MOMENT_BLOCK) {
        moments_store_whole(m, at / MOMENT_BLOCK, to, x, key);
        return;
    }
    memset(whole, 0, sizeof whole);
    memcpy(whole, x, (size_t)n * sizeof *x);
    moments_store_whole(m, at / MOMENT_BLOCK, room, whole, key);
    memcpy(to, room, (size_t)n * size);
}

MOMENTS_INLINE void moments_load_all(const moments *m, int64_t begin, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i += MOMENT_BLOCK)
        moments_load_one(m, begin + i, min_i64(MOMENT_BLOCK, count - i), out + i);
}

MOMENTS_INLINE void moments_store_all(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key) {
    for (int64_t i = 0; i < count; i += MOMENT_BLOCK)
        moments_store_one(m, begin + i, min_i64(MOMENT_BLOCK, count - i), x + i, key);
}

#if defined(__x86_64__)
#define MOMENTS_FOR(set, flags)                                                                                        \
    __attribute__((target(flags))) static void moments_load_##set(const moments *m, int64_t begin, int64_t count,      \
                                                                  float *out) {                                        \
        moments_load_all(m, begin, count, out);                                                                        \
    }                                                                                                                  \
    __attribute__((target(flags))) static void moments_store_##set(const moments *m, int64_t begin, int64_t count,     \
                                                                   const float *x, uint32_t key) {                     \
        moments_store_all(m, begin, count, x, key);                                                                    \
    }
MOMENTS_FOR(avx2, "avx2")
MOMENTS_FOR(avx512, "avx512f,avx512bw,avx512vl,avx512dq")

static bool moments_has_avx512(void) {
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
#endif

void moments_load(const moments *m, int64_t begin, int64_t count, float *out) {
#if defined(__x86_64__)
    if (moments_has_avx512())
        moments_load_avx512(m, begin, count, out);
    else if (__builtin_cpu_supports("avx2"))
        moments_load_avx2(m, begin, count, out);
    else
#endif
        moments_load_all(m, begin, count, out);
}

void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key) {
#if defined(__x86_64__)
    if (moments_has_avx512())
        moments_store_avx512(m, begin, count, x, key);
    else if (__builtin_cpu_supports("avx2"))
        moments_store_avx2(m, begin, count, x, key);
    else
#endif
        moments_store_all(m, begin, count, x, key);
}
