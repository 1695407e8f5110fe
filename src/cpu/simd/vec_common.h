/* SPDX-License-Identifier: MIT
 * Definitions shared by all vec_*.h; included after one of them.
 */
#ifndef CPU_SIMD_VEC_COMMON_H
#define CPU_SIMD_VEC_COMMON_H

/* Names of kernels, for debuggers and profiles: operation, type, instruction set and, if it has one, tile. The file
 * that includes the bodies defines KERNEL_ISA. */
#define KERNEL_JOIN(op, type, isa)            cpu_##op##_##type##_##isa
#define KERNEL_OF(op, type, isa)              KERNEL_JOIN(op, type, isa)
#define KERNEL(op, type)                      KERNEL_OF(op, type, KERNEL_ISA)
#define KERNEL_TILE_JOIN(op, type, isa, h, w) cpu_##op##_##type##_##isa##_##h##x##w
#define KERNEL_TILE_OF(op, type, isa, h, w)   KERNEL_TILE_JOIN(op, type, isa, h, w)
#define KERNEL_TILE(op, type, height, width)  KERNEL_TILE_OF(op, type, KERNEL_ISA, height, width)

/* Rounds to bfloat16 and back: nearest, ties to even; NaN stays NaN. */
VFN vf v_round_bf16(vf v) {
    vi u = vi_of_bits(v), odd = vi_and(vi_shr(u, 16), vi_set(1));
    vf rounded = v_of_bits(vi_and(vi_add(u, vi_add(odd, vi_set(0x7fff))), vi_set(-65536)));
    return v_select(v_nan(v, v), v_of_bits(vi_or(u, vi_set(0x400000))), rounded);
}

VFN vf v_abs(vf a) { return v_of_bits(vi_and(vi_of_bits(a), vi_set(0x7fffffff))); }
VFN vf v_neg(vf a) { return v_of_bits(vi_xor(vi_of_bits(a), vi_set(INT32_MIN))); }
/* |a| with the sign of b */
VFN vf v_copysign(vf a, vf b) {
    return v_of_bits(vi_or(vi_and(vi_of_bits(a), vi_set(0x7fffffff)), vi_and(vi_of_bits(b), vi_set(INT32_MIN))));
}
/* NaN if either is NaN */
VFN vf v_max_nan(vf a, vf b) { return v_select(v_nan(a, b), v_add(a, b), v_max(a, b)); }
VFN vf v_min_nan(vf a, vf b) { return v_select(v_nan(a, b), v_add(a, b), v_min(a, b)); }

#endif
