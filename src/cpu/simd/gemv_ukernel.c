/* SPDX-License-Identifier: MIT
 * Owns the sizes of stored weights. The functions are not inline. If compilers can see how the bytes of a row follow
 * from k, they spill registers in the integer kernels' loops. That made them 5 to 8 % slower (GCC 12, bench_decode with
 * int8 and int4).
 */
#include "cpu/simd/gemv_ukernel.h"

#include "core/base/kquant.h"

static const kquant_form *weights_kquant(cpu_weights format) {
    return format < CPU_WEIGHTS_KQUANT ? NULL : &kquant_forms[format - CPU_WEIGHTS_KQUANT];
}

int64_t cpu_weights_block(cpu_weights format) {
    return format < CPU_WEIGHTS_INT8 ? 1 : format < CPU_WEIGHTS_KQUANT ? CPU_GEMV_BLOCK : weights_kquant(format)->block;
}

int64_t cpu_weights_row_scales(cpu_weights format, int64_t k) {
    const kquant_form *f = weights_kquant(format);
    if (f) return k / f->block * kquant_supers(*f);
    return format < CPU_WEIGHTS_INT8 ? 0 : k / CPU_GEMV_BLOCK;
}

int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k) {
    switch (format) {
    case CPU_WEIGHTS_F32: return 4 * k;
    case CPU_WEIGHTS_F16:
    case CPU_WEIGHTS_BF16: return 2 * k;
    case CPU_WEIGHTS_INT8: return k;
    case CPU_WEIGHTS_INT4: return k / 2;
    default: break;
    }
    const kquant_form *f = weights_kquant(format);
    return k / f->block * kquant_bytes(*f);
}
