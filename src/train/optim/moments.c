/* SPDX-License-Identifier: MIT
 * Owns the small forms of moments. Its one idea: a small floating-point number is a float whose last bits are cut off, so rounding
 * at random is adding random bits below the cut. Plain C over whole blocks, which compilers make vectors of; the same bits
 * everywhere.
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

/* 32 random bits of an element (the finalizer of MurmurHash3 by Austin Appleby, public domain). */
MOMENTS_INLINE uint32_t moments_random(uint32_t key, uint32_t element) {
    uint32_t x = element * 0x9e3779b1u ^ key;
    x ^= x >> 16, x *= 0x85ebca6bu;
    x ^= x >> 13, x *= 0xc2b2ae35u;
    return x ^ x >> 16;
}

/* What is added below a cut of that many bits. */
MOMENTS_INLINE uint32_t moments_noise(uint32_t key, uint32_t element, int cut) {
    const uint32_t drawn = key ? (1u << cut) - 1 : 0, fixed = key ? 0 : 1u << (cut - 1);
    return (moments_random(key, element) & drawn) | fixed;
}

/* The smallest power of two that no element exceeds; 0: all are 0. */
MOMENTS_INLINE float moments_scale(const uint32_t *bits) {
    uint32_t most = 0;
    for (int i = 0; i < MOMENT_BLOCK; i++) {
        const uint32_t size = bits[i] & 0x7fffffffu;
        most = size > most ? size : most;
    }
    return moments_float((most + 0x7fffffu) & 0x7f800000u);
}

/* In loops over arrays of one width each, none of which is the caller's: what compilers make vectors of at -O2. */
MOMENTS_INLINE float moments_store_block(bool second, uint8_t codes[MOMENT_BLOCK], const float x[MOMENT_BLOCK],
                                         uint32_t key, uint32_t first) {
    uint32_t bits[MOMENT_BLOCK], sizes[MOMENT_BLOCK];
    float parts[MOMENT_BLOCK];
    memcpy(bits, x, sizeof bits);
    const float scale = moments_scale(bits), inverse = scale > 0 ? 1 / scale : 0;
    const int32_t zero = second ? MOMENTS_ZERO : MOMENTS_SIGNED_ZERO, most = second ? 255 : 127;
    const uint32_t sign = second ? 0 : 128;
    for (int i = 0; i < MOMENT_BLOCK; i++) sizes[i] = bits[i] & 0x7fffffffu;
    memcpy(parts, sizes, sizeof parts);
    for (int i = 0; i < MOMENT_BLOCK; i++) parts[i] *= inverse;
    memcpy(sizes, parts, sizeof parts);
    for (int i = 0; i < MOMENT_BLOCK; i++) {
        int32_t code =
            (int32_t)((sizes[i] + moments_noise(key, first + (uint32_t)i, MOMENTS_CUT)) >> MOMENTS_CUT) - zero;
        code = code < 0 ? 0 : code > most ? most : code;
        sizes[i] = (uint32_t)code | (bits[i] >> 24 & sign);
    }
    for (int i = 0; i < MOMENT_BLOCK; i++) codes[i] = (uint8_t)sizes[i];
    return scale;
}

MOMENTS_INLINE void moments_load_block(bool second, const uint8_t codes[MOMENT_BLOCK], float scale,
                                       float out[MOMENT_BLOCK]) {
    uint32_t bits[MOMENT_BLOCK];
    const uint32_t zero = second ? MOMENTS_ZERO : MOMENTS_SIGNED_ZERO;
    for (int i = 0; i < MOMENT_BLOCK; i++) bits[i] = codes[i];
    if (second)
        for (int i = 0; i < MOMENT_BLOCK; i++) bits[i] = (bits[i] + zero) << MOMENTS_CUT;
    else
        for (int i = 0; i < MOMENT_BLOCK; i++) {
            const uint32_t size = bits[i] & 127u, there = size ? 0xffffffffu : 0;
            bits[i] = (((size + zero) << MOMENTS_CUT) & there) | bits[i] >> 7 << 31;
        }
    memcpy(out, bits, sizeof bits);
    for (int i = 0; i < MOMENT_BLOCK; i++) out[i] *= scale;
}

MOMENTS_INLINE void moments_store_bf16(uint16_t *to, const float *x, uint32_t key, uint32_t first) {
    uint32_t bits[MOMENT_BLOCK];
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < MOMENT_BLOCK; i++)
        to[i] = (uint16_t)((bits[i] + moments_noise(key, first + (uint32_t)i, MOMENTS_BF16_CUT)) >> MOMENTS_BF16_CUT);
}

/* ---- blocks, the last of which may be short ------------------------------------------------------------------------------- */

MOMENTS_INLINE void moments_load_whole(const moments *m, int64_t block, const void *from, float *out) {
    uint8_t codes[MOMENT_BLOCK];
    uint16_t halves[MOMENT_BLOCK];
    uint32_t bits[MOMENT_BLOCK];
    if (m->form == MOMENT_INT8) {
        memcpy(codes, from, sizeof codes);
        moments_load_block(m->second, codes, m->scales[block], out);
        return;
    }
    memcpy(halves, from, sizeof halves);
    for (int i = 0; i < MOMENT_BLOCK; i++) bits[i] = (uint32_t)halves[i] << 16;
    memcpy(out, bits, sizeof bits);
}

MOMENTS_INLINE void moments_store_whole(const moments *m, int64_t block, void *to, const float *x, uint32_t key) {
    uint8_t codes[MOMENT_BLOCK];
    uint16_t halves[MOMENT_BLOCK];
    const uint32_t first = (uint32_t)(block * MOMENT_BLOCK);
    if (m->form == MOMENT_INT8) {
        m->scales[block] = moments_store_block(m->second, codes, x, key, first);
        memcpy(to, codes, sizeof codes);
        return;
    }
    moments_store_bf16(halves, x, key, first);
    memcpy(to, halves, sizeof halves);
}

/* A short block is a whole one whose rest is 0. */
MOMENTS_INLINE void moments_load_one(const moments *m, int64_t at, int64_t n, float *out) {
    const size_t size = moment_bytes(m->form);
    const char *from = (const char *)m->data + (size_t)at * size;
    uint16_t room[MOMENT_BLOCK] = {0};
    float whole[MOMENT_BLOCK];
    if (n == MOMENT_BLOCK) {
        moments_load_whole(m, at / MOMENT_BLOCK, from, out);
        return;
    }
    memcpy(room, from, (size_t)n * size);
    moments_load_whole(m, at / MOMENT_BLOCK, room, whole);
    memcpy(out, whole, (size_t)n * sizeof *out);
}

MOMENTS_INLINE void moments_store_one(const moments *m, int64_t at, int64_t n, const float *x, uint32_t key) {
    const size_t size = moment_bytes(m->form);
    char *to = (char *)m->data + (size_t)at * size;
    uint16_t room[MOMENT_BLOCK];
    float whole[MOMENT_BLOCK] = {0};
    if (n == MOMENT_BLOCK) {
        moments_store_whole(m, at / MOMENT_BLOCK, to, x, key);
        return;
    }
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
#define MOMENTS_FOR(set)                                                                                               \
    __attribute__((target(#set))) static void moments_load_##set(const moments *m, int64_t begin, int64_t count,       \
                                                                 float *out) {                                         \
        moments_load_all(m, begin, count, out);                                                                        \
    }                                                                                                                  \
    __attribute__((target(#set))) static void moments_store_##set(const moments *m, int64_t begin, int64_t count,      \
                                                                  const float *x, uint32_t key) {                      \
        moments_store_all(m, begin, count, x, key);                                                                    \
    }
MOMENTS_FOR(avx2)
MOMENTS_FOR(avx512f)
#endif

void moments_load(const moments *m, int64_t begin, int64_t count, float *out) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        moments_load_avx512f(m, begin, count, out);
    else if (__builtin_cpu_supports("avx2"))
        moments_load_avx2(m, begin, count, out);
    else
#endif
        moments_load_all(m, begin, count, out);
}

void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        moments_store_avx512f(m, begin, count, x, key);
    else if (__builtin_cpu_supports("avx2"))
        moments_store_avx2(m, begin, count, x, key);
    else
#endif
        moments_store_all(m, begin, count, x, key);
}
