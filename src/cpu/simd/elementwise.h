/* SPDX-License-Identifier: MIT
 * Elementwise kernels over short runs of floats (strips), so that a chain of operations passes strip by strip through
 * L1. Booleans are 1.0 and 0.0. The observed errors are in tests/cpu/test_elementwise.c.
 *
 * Target and sources may be the same memory, but must not overlap otherwise. No alignment is required, and any count
 * works, including 0.
 */
#ifndef CPU_SIMD_ELEMENTWISE_H
#define CPU_SIMD_ELEMENTWISE_H

#include <stdint.h>

/* One operand and at most two parameters: y = f(x; p, q). */
#define CPU_ELEMENTWISE_UNARY(X)                                                                                       \
    X(copy) /* x */                                                                                                    \
    X(fill) /* p */                                                                                                    \
    X(neg)  /* -x */                                                                                                   \
    X(abs)                                                                                                             \
    X(sign) /* -1, 0, 1; NaN stays */                                                                                  \
    X(floor)                                                                                                           \
    X(ceil)                                                                                                            \
    X(round) /* to nearest, ties to even */                                                                            \
    X(trunc)                                                                                                           \
    X(square)                                                                                                          \
    X(affine) /* fma(x, p, q) */                                                                                       \
    X(sqrt)                                                                                                            \
    X(rsqrt)   /* 1 / sqrt(x + p) */                                                                                   \
    X(inverse) /* 1 / (x + p) */                                                                                       \
    X(exp)                                                                                                             \
    X(exp2)                                                                                                            \
    X(log) /* log(x + p) */                                                                                            \
    X(sin)                                                                                                             \
    X(cos)                                                                                                             \
    X(tanh)                                                                                                            \
    X(erf)                                                                                                             \
    X(sigmoid)                                                                                                         \
    X(silu)         /* x * sigmoid(x) */                                                                               \
    X(gelu)         /* x * Phi(x) */                                                                                   \
    X(gelu_tanh)    /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */                                                \
    X(gelu_sigmoid) /* x * sigmoid(1.702 x) */                                                                         \
    X(softplus)     /* log(1 + exp(x)) */                                                                              \
    X(softsign)     /* x / (1 + |x|) */                                                                                \
    X(relu)         /* NaN stays */                                                                                    \
    X(relu6)                                                                                                           \
    X(leaky_relu)   /* x < 0 ? p x : x */                                                                              \
    X(elu)          /* x < 0 ? p (exp(x) - 1) : x */                                                                   \
    X(sigmoid_hard) /* min(max(p x + q, 0), 1) */                                                                      \
    X(clip)         /* min(max(x, p), q); NaN stays */                                                                 \
    X(not)          /* x == 0 */                                                                                       \
    X(to_bool)      /* x != 0 */                                                                                       \
    X(round_f16)    /* to the nearest fp16 and back: an fp16 tensor kept as floats */

/* Two operands; comparisons return 1 or 0. */
#define CPU_ELEMENTWISE_BINARY(X)                                                                                      \
    X(add)                                                                                                             \
    X(sub)                                                                                                             \
    X(mul)                                                                                                             \
    X(div)                                                                                                             \
    X(floor_div) /* floor of the exact x / y */                                                                        \
    X(mod)       /* the exact remainder of floor_div, rounded once; has the sign of y */                               \
    X(pow)                                                                                                             \
    X(max) /* NaN in either operand gives NaN */                                                                       \
    X(min)                                                                                                             \
    X(eq)                                                                                                              \
    X(ne)                                                                                                              \
    X(lt)                                                                                                              \
    X(le)                                                                                                              \
    X(gt)                                                                                                              \
    X(ge)                                                                                                              \
    X(and) /* x != 0 && y != 0 */                                                                                      \
    X(or)                                                                                                              \
    X(xor)

typedef enum cpu_elementwise_code {
#define CPU_ELEMENTWISE_ENUM(name) CPU_ELEMENTWISE_##name,
    CPU_ELEMENTWISE_UNARY(CPU_ELEMENTWISE_ENUM) CPU_ELEMENTWISE_UNARY_END,
    CPU_ELEMENTWISE_BINARY_BEFORE = CPU_ELEMENTWISE_UNARY_END - 1,
    CPU_ELEMENTWISE_BINARY(CPU_ELEMENTWISE_ENUM)
#undef CPU_ELEMENTWISE_ENUM
        CPU_ELEMENTWISE_COUNT
} cpu_elementwise_code;

/* Which operands are arrays: V is an array of `count`, S one float used for all. */
typedef enum cpu_elementwise_pattern {
    CPU_ELEMENTWISE_VV,
    CPU_ELEMENTWISE_VS,
    CPU_ELEMENTWISE_SV
} cpu_elementwise_pattern;

typedef void (*cpu_elementwise_unary)(float *y, const float *x, int64_t count, float p, float q);
typedef void (*cpu_elementwise_binary)(float *z, const float *x, const float *y, int64_t count);

/* A multiply-add, rounded once if the instruction set supports that. x is an array; steps are 1 (array) or 0 (one float
 * for all). */
typedef void (*cpu_elementwise_fma)(float *z, const float *x, const float *y, int y_step, const float *w, int w_step,
                                    int64_t count);

typedef struct cpu_elementwise_kernels {
    cpu_elementwise_unary unary[CPU_ELEMENTWISE_UNARY_END];
    cpu_elementwise_binary binary[CPU_ELEMENTWISE_COUNT - CPU_ELEMENTWISE_UNARY_END]
                                 [3]; /* [code - CPU_ELEMENTWISE_UNARY_END][pattern] */
    /* z = cond != 0 ? x : y. Steps are 1 (array) or 0 (one float for all). */
    void (*select)(float *z, const float *cond, int cond_step, const float *x, int x_step, const float *y, int y_step,
                   int64_t count);
    cpu_elementwise_fma fma[2]; /* z = x y + w; z = w - x y */
} cpu_elementwise_kernels;

#endif
