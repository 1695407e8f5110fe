/* SPDX-License-Identifier: MIT
 * All kernels of an instruction set, with the sizes that gemm_body.h and conv_body.h require, and the function that
 * overlays them on a context. Included by each kernels_*.c that provides all of them.
 */
#ifndef CPU_SIMD_BODY_EVERY_BODY_H
#define CPU_SIMD_BODY_EVERY_BODY_H

#include "cpu/simd/kernels.h"

#include "cpu/simd/body/gemm_body.h"

#include "cpu/simd/body/array_body.h"
#include "cpu/simd/body/attention_body.h"
#include "cpu/simd/body/attention_decode_body.h"
#include "cpu/simd/body/conv_body.h"
#include "cpu/simd/body/elementwise_body.h"
#include "cpu/simd/body/gemv_body.h"
#include "cpu/simd/body/reduce_body.h"
#include "cpu/simd/body/window_body.h"

static void every_kernel(cpu_kernels *k) {
    k->gemm = k->gemm_bf16 = KERNEL(gemm, f32);
    k->array = KERNEL(array, f32);
    k->attention = KERNEL(attention, f32);
    k->attention_decode = KERNEL(attention_decode, f32);
    k->gemv = KERNEL(gemv, f32);
    k->conv = KERNEL(conv, f32);
    k->window = KERNEL(window, f32);
    k->elementwise = KERNEL(elementwise, f32);
    k->reduce = KERNEL(reduce, f32);
}

#endif
