/* SPDX-License-Identifier: MIT
 * Owns the sizes of weights as they are stored. Not inline: where compilers know that the bytes of a row follow from k they
 * spill in the integer kernels' loops, which were 5 to 8 % slower so (GCC 12, bench_decode with int8 and int4).
 */
#include "cpu/simd/gemv_ukernel.h"

int64_t cpu_weights_row_bytes(cpu_weights format, int64_t k) {
    switch (format) {
    case CPU_WEIGHTS_F32: return 4 * k;
    case CPU_WEIGHTS_F16:
    case CPU_WEIGHTS_BF16: return 2 * k;
    case CPU_WEIGHTS_INT8: return k;
    default: return k / 2;
    }
}
