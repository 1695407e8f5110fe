/* SPDX-License-Identifier: MIT
 * "Vectors" of one float in plain C, with the C library's functions: the reference for all other versions. See
 * vec_avx512.h for the names.
 */
#ifndef CPU_SIMD_VEC_PLAIN_H
#define CPU_SIMD_VEC_PLAIN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/base/float16.h"

#define VEC_PLAIN
#define VTARGET
#define VFN static inline __attribute__((always_inline, unused))
#define VL  1

typedef float vf;
typedef int32_t vi;
typedef int vm;

VFN vf v_load(const float *p) { return *p; }
VFN void v_store(float *p, vf v) { *p = v; }
VFN void v_store_quads(float *p, int64_t step, vf v) {
    /* other sets store groups of four neighbours, `step` floats apart; a plain vector is one number */
    (void)step;
    *p = v;
}
VFN vf v_load_n(const float *p, int64_t n) { return n ? *p : 0; }
VFN void v_store_n(float *p, vf v, int64_t n) {
    if (n) *p = v;
}
VFN vf v_load_f16(const uint16_t *p) { return fp16_to_f32(*p); }
VFN vf v_load_f16_n(const uint16_t *p, int64_t n) { return n ? fp16_to_f32(*p) : 0; }
VFN void v_store_f16(uint16_t *p, vf v) { *p = fp16_from_f32(v); }
VFN void v_store_f16_n(uint16_t *p, vf v, int64_t n) {
    if (n) *p = fp16_from_f32(v);
}
VFN vf v_round_f16(vf v) { return fp16_to_f32(fp16_from_f32(v)); }

VFN vf v_set(float x) { return x; }
VFN vf v_add(vf a, vf b) { return a + b; }
VFN vf v_sub(vf a, vf b) { return a - b; }
VFN vf v_mul(vf a, vf b) { return a * b; }
VFN vf v_div(vf a, vf b) { return a / b; }
/* Rounds twice, because fmaf is a slow call on machines without FMA. */
VFN vf v_fma(vf a, vf b, vf c) { return a * b + c; }
VFN vf v_fnma(vf a, vf b, vf c) { return c - a * b; }
VFN vf v_max(vf a, vf b) { return a > b ? a : b; }
VFN vf v_min(vf a, vf b) { return a < b ? a : b; }
VFN vf v_sqrt(vf a) { return sqrtf(a); }
VFN vf v_floor(vf a) { return floorf(a); }
VFN vf v_ceil(vf a) { return ceilf(a); }
VFN vf v_round(vf a) { return rintf(a); }
VFN vf v_trunc(vf a) { return truncf(a); }

VFN vi vi_of_bits(vf a) {
    vi bits;
    memcpy(&bits, &a, 4);
    return bits;
}
VFN vf v_of_bits(vi a) {
    vf value;
    memcpy(&value, &a, 4);
    return value;
}
VFN vi vi_set(int32_t x) { return x; }
VFN vi vi_add(vi a, vi b) { return (vi)((uint32_t)a + (uint32_t)b); }
VFN vi vi_and(vi a, vi b) { return a & b; }
VFN vi vi_or(vi a, vi b) { return a | b; }
VFN vi vi_xor(vi a, vi b) { return a ^ b; }
#define vi_shl(a, n) ((vi)((uint32_t)(a) << (n)))
#define vi_shr(a, n) ((vi)((uint32_t)(a) >> (n)))

VFN vm v_lt(vf a, vf b) { return a < b; }
VFN vm v_le(vf a, vf b) { return a <= b; }
VFN vm v_eq(vf a, vf b) { return a == b; }
VFN vm v_ne(vf a, vf b) { return a != b; }
VFN vm v_nan(vf a, vf b) { return a != a || b != b; }
VFN vm vm_and(vm a, vm b) { return a && b; }
VFN vm vm_or(vm a, vm b) { return a || b; }
VFN vm vm_xor(vm a, vm b) { return !a != !b; }
VFN int vm_any(vm a) { return a; }
VFN vf v_select(vm m, vf a, vf b) { return m ? a : b; }

VFN float v_sum(vf v) { return v; }

VFN void v_transpose(vf x[VL]) { (void)x; }

#endif
