/* SPDX-License-Identifier: MIT
 * Owns the conversions between float or double and the 16-bit formats. The scalar code is plain bit arithmetic, the
 * same everywhere. The array functions use F16C or NEON (FCVT, and BFCVT on processors that have it, such as the M2 but
 * not the M1) and produce the same bits.
 */
#include "core/base/float16.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

static uint32_t float16_bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static float float16_float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint16_t fp16_from_f32(float value) {
    uint32_t u = float16_bits_of(value);
    uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu)); /* NaN */
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65536 or more */
    if (magnitude < 0x38800000u) { /* subnormal in fp16: adding 0.5 aligns the last kept bit with float's last bit */
        float shifted = float16_float_of(magnitude) + 0.5f;
        return (uint16_t)(sign | (float16_bits_of(shifted) - float16_bits_of(0.5f)));
    }
    uint32_t odd = (magnitude >> 13) & 1;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

uint16_t fp16_from_f64(double value) {
    float narrow = (float)value;
    if (isfinite(narrow) && (double)narrow != value) { /* force the sticky bit, so that the second rounding is right */
        uint32_t u = float16_bits_of(narrow);
        if (fabs((double)narrow) > fabs(value)) u--; /* truncate toward zero */
        narrow = float16_float_of(u | 1);
    }
    return fp16_from_f32(narrow);
}

float fp16_to_f32(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
    if (exponent == 31) return float16_float_of(sign | 0x7f800000u | (fraction ? 0x400000u | fraction << 13 : 0));
    if (exponent) return float16_float_of(sign | (exponent + 112) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}

/* Both bfloat16 conversions are free of branches, so compilers vectorize them. */
static inline uint16_t float16_bf16_of_bits(uint32_t u) {
    uint32_t nan = (u & 0x7fffffffu) > 0x7f800000u, up = 0x7fffu + ((u >> 16) & 1);
    return (uint16_t)(((u + (up & (nan - 1))) >> 16) | nan << 6);
}

uint16_t bf16_from_f32(float value) { return float16_bf16_of_bits(float16_bits_of(value)); }

float bf16_to_f32(uint16_t bits) { return float16_float_of((uint32_t)bits << 16); }

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) static size_t from_f32_f16c(uint16_t *target, const float *source, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(target + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    return i;
}

__attribute__((target("avx,f16c"))) static size_t to_f32_f16c(float *target, const uint16_t *source, size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(target + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(source + i))));
    return i;
}

#endif

void fp16_from_f32_array(uint16_t *target, const float *source, size_t count) {
    size_t i = 0;
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX2)) i = from_f32_f16c(target, source, count);
#elif defined(__aarch64__)
    for (; cpu_isa_allows(CPU_ISA_NEON) && i + 4 <= count; i += 4)
        vst1_u16(target + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(source + i))));
#endif
    for (; i < count; i++) target[i] = fp16_from_f32(source[i]);
}

void fp16_to_f32_array(float *target, const uint16_t *source, size_t count) {
    size_t i = 0;
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX2)) i = to_f32_f16c(target, source, count);
#elif defined(__aarch64__)
    for (; cpu_isa_allows(CPU_ISA_NEON) && i + 4 <= count; i += 4)
        vst1q_f32(target + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(source + i))));
#endif
    for (; i < count; i++) target[i] = fp16_to_f32(source[i]);
}

#if defined(__aarch64__)
bool float16_has_bfcvt(void) {
#if defined(__APPLE__)
    int has = 0;
    size_t size = sizeof has;
    return sysctlbyname("hw.optional.arm.FEAT_BF16", &has, &size, NULL, 0) == 0 && has;
#elif defined(__linux__)
    enum { FEATURE_BF16 = 1 << 14 }; /* HWCAP2_BF16 */
    return getauxval(AT_HWCAP2) & FEATURE_BF16;
#else
    return false;
#endif
}

/* Written in assembly, because compilers name the bfloat16 vector types differently. Returns how many elements were
 * converted. */
__attribute__((target("arch=armv8.2-a+bf16"))) static size_t from_f32_bfcvt(uint16_t *target, const float *source,
                                                                            size_t count) {
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const float32x4_t low = vld1q_f32(source + i), high = vld1q_f32(source + i + 4);
        uint16x8_t both;
        __asm__("bfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s" : "=&w"(both) : "w"(low), "w"(high));
        vst1q_u16(target + i, both);
    }
    return i;
}
#else
bool float16_has_bfcvt(void) { return false; }
#endif

/* The loops below work in blocks of constant size, which compilers vectorize at -O2. */
enum { BLOCK = 32 };

void bf16_from_f32_array(uint16_t *target, const float *source, size_t count) {
    size_t i = 0;
#if defined(__aarch64__)
    static atomic_int has; /* 0: not checked yet, 1: no, 2: yes */
    if (atomic_load_explicit(&has, memory_order_relaxed) == 0)
        atomic_store(&has, float16_has_bfcvt() && cpu_isa_allows(CPU_ISA_NEON) ? 2 : 1);
    if (atomic_load_explicit(&has, memory_order_relaxed) == 2) i = from_f32_bfcvt(target, source, count);
#endif
    for (; i + BLOCK <= count; i += BLOCK)
        for (size_t k = 0; k < BLOCK; k++) target[i + k] = float16_bf16_of_bits(float16_bits_of(source[i + k]));
    for (; i < count; i++) target[i] = bf16_from_f32(source[i]);
}

void bf16_to_f32_array(float *target, const uint16_t *source, size_t count) {
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        for (size_t k = 0; k < BLOCK; k++) target[i + k] = float16_float_of((uint32_t)source[i + k] << 16);
    for (; i < count; i++) target[i] = bf16_to_f32(source[i]);
}
