/* SPDX-License-Identifier: MIT
 * Vectors of 4 floats for NEON on aarch64. See vec_avx512.h for the names.
 */
#ifndef CPU_SIMD_VEC_NEON_H
#define CPU_SIMD_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define VTARGET
#define VFN static inline __attribute__((always_inline, unused))
#define VL  4

typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm;

VFN vf v_load(const float *p) { return vld1q_f32(p); }
VFN void v_store(float *p, vf v) { vst1q_f32(p, v); }
VFN void v_store_quads(float *p, int64_t step, vf v) { /* groups of four neighbours, `step` floats apart */
    (void)step;
    vst1q_f32(p, v);
}
VFN vf v_load_n(const float *p, int64_t n) {
    float lanes[4] = {0};
    memcpy(lanes, p, (size_t)n * 4);
    return vld1q_f32(lanes);
}
VFN void v_store_n(float *p, vf v, int64_t n) {
    float lanes[4];
    vst1q_f32(lanes, v);
    memcpy(p, lanes, (size_t)n * 4);
}
VFN vf v_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
VFN vf v_load_f16_n(const uint16_t *p, int64_t n) {
    uint16_t lanes[4] = {0};
    memcpy(lanes, p, (size_t)n * 2);
    return v_load_f16(lanes);
}
VFN void v_store_f16(uint16_t *p, vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }
VFN void v_store_f16_n(uint16_t *p, vf v, int64_t n) {
    uint16_t lanes[4];
    v_store_f16(lanes, v);
    memcpy(p, lanes, (size_t)n * 2);
}
VFN vf v_round_f16(vf v) { return vcvt_f32_f16(vcvt_f16_f32(v)); }

VFN vf v_set(float x) { return vdupq_n_f32(x); }
VFN vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
VFN vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
VFN vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
VFN vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
VFN vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
VFN vf v_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
VFN vf v_max(vf a, vf b) { return vmaxq_f32(a, b); }
VFN vf v_min(vf a, vf b) { return vminq_f32(a, b); }
VFN vf v_sqrt(vf a) { return vsqrtq_f32(a); }
VFN vf v_floor(vf a) { return vrndmq_f32(a); }
VFN vf v_ceil(vf a) { return vrndpq_f32(a); }
VFN vf v_round(vf a) { return vrndnq_f32(a); }
VFN vf v_trunc(vf a) { return vrndq_f32(a); }

VFN vi vi_of_bits(vf a) { return vreinterpretq_s32_f32(a); }
VFN vf v_of_bits(vi a) { return vreinterpretq_f32_s32(a); }
VFN vi vi_set(int32_t x) { return vdupq_n_s32(x); }
VFN vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
VFN vi vi_sub(vi a, vi b) { return vsubq_s32(a, b); }
VFN vi vi_and(vi a, vi b) { return vandq_s32(a, b); }
VFN vi vi_or(vi a, vi b) { return vorrq_s32(a, b); }
VFN vi vi_xor(vi a, vi b) { return veorq_s32(a, b); }
#define vi_shl(a, n) vshlq_n_s32(a, n)
#define vi_shr(a, n) vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(a), n))
#define vi_sar(a, n) vshrq_n_s32(a, n)
VFN vi vi_from(vf a) { return vcvtnq_s32_f32(a); }
VFN vf v_from(vi a) { return vcvtq_f32_s32(a); }

VFN vm v_lt(vf a, vf b) { return vcltq_f32(a, b); }
VFN vm v_le(vf a, vf b) { return vcleq_f32(a, b); }
VFN vm v_eq(vf a, vf b) { return vceqq_f32(a, b); }
VFN vm v_ne(vf a, vf b) { return vmvnq_u32(vceqq_f32(a, b)); }
VFN vm v_nan(vf a, vf b) { return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))); }
VFN vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
VFN vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
VFN vm vm_xor(vm a, vm b) { return veorq_u32(a, b); }
VFN int vm_any(vm a) { return vmaxvq_u32(a) != 0; }
VFN vf v_fma_where(vm m, vf a, vf b, vf c) {
    return v_fma(a, vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(b))), c);
}
VFN vf v_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
VFN vf v_scale(vf a, vf n) { /* in two steps, so that subnormal results are correct; |n| <= 252 */
    vi whole = vi_from(n), half = vi_sar(whole, 1), rest = vi_sub(whole, half), bias = vi_set(127);
    vf scaled = v_mul(a, v_of_bits(vi_shl(vi_add(half, bias), 23)));
    return v_mul(scaled, v_of_bits(vi_shl(vi_add(rest, bias), 23)));
}

VFN float v_sum(vf v) {
    float32x2_t h = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

VFN void v_transpose(vf x[VL]) {
    float32x4x2_t a = vtrnq_f32(x[0], x[1]), b = vtrnq_f32(x[2], x[3]);
    x[0] = vcombine_f32(vget_low_f32(a.val[0]), vget_low_f32(b.val[0]));
    x[1] = vcombine_f32(vget_low_f32(a.val[1]), vget_low_f32(b.val[1]));
    x[2] = vcombine_f32(vget_high_f32(a.val[0]), vget_high_f32(b.val[0]));
    x[3] = vcombine_f32(vget_high_f32(a.val[1]), vget_high_f32(b.val[1]));
}

#endif
