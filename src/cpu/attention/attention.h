/* SPDX-License-Identifier: MIT
 * Attention in one step, forward and backward. The scores of a few rows are computed, turned into probabilities and
 * consumed before the next rows begin. Memory therefore grows with the context, not with its square, and scores that a
 * causal mask removes are never computed. An item is one group of query heads with its own keys and values. It has
 * `rows` query rows, one head after the other with `period` rows each, and `keys` keys, all of them `width` wide.
 *
 *   forward    O = P V,  P = softmax(scale Q K')
 *   backward   dV = P' dO,  dS = P * (dO V' - rowsum(P * dO V')),  dQ = scale dS K,  dK = scale dS' Q; P is recomputed
 *
 * One thread computes all of an item's sums over query rows, so the bits do not depend on the number of threads.
 */
#ifndef CPU_ATTENTION_ATTENTION_H
#define CPU_ATTENTION_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/simd/kernels.h"

typedef enum cpu_attention_role {
    CPU_ATTENTION_Q,
    CPU_ATTENTION_K,
    CPU_ATTENTION_V,
    CPU_ATTENTION_O, /* forward: O, written; backward: dO, read */
    CPU_ATTENTION_DQ,
    CPU_ATTENTION_DK,
    CPU_ATTENTION_DV,
    CPU_ATTENTION_ROLES
} cpu_attention_role;

/* Element (position, channel) of item i is at data + offset[i] bytes + position*row + channel*col elements. */
typedef struct cpu_attention_operand {
    void *data;
    cpu_dtype dtype;
    int64_t row, col;
    const int64_t *offset;
} cpu_attention_operand;

typedef struct cpu_attention {
    const cpu_kernels *kernels;
    int threads; /* maximum used at once; 0 means all of the pool */
    bool backward, causal;
    int64_t items, rows, period, keys, width; /* rows is a multiple of period, which equals keys if causal */
    float scale;
    cpu_attention_operand at[CPU_ATTENTION_ROLES];
    const void *mask; /* [period, keys], dense, added to the scores (attention_decode.h); NULL if there is none */
    cpu_dtype mask_dtype;
} cpu_attention;

size_t cpu_attention_scratch_bytes(const cpu_attention *a, int threads);
/* `scratch` is 64-byte aligned and sized for pool_threads(). */
void cpu_attention_run(const cpu_attention *a, void *scratch);

#endif
