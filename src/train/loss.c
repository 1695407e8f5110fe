/* SPDX-License-Identifier: MIT
 * Owns the cross-entropy. Its one idea: the vocabulary runs along the slow axis, so a task takes LANES neighbouring
 * positions and walks down the vocabulary in chunks that stay in the first cache, each lane keeping a running maximum
 * and a sum that is rescaled when the maximum grows. A second walk writes the gradient.
 */
#include "train/loss.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/pool.h"

#define LANES  32
#define CHUNK  64                                           /* rows of the vocabulary at a time */
#define INLINE static inline __attribute__((always_inline)) /* compiled once for each instruction set, see the end */

typedef struct loss_context {
    const train_logits *logits;
    const int32_t *targets;
    double *nats;
    float gradient; /* scale of the gradient */
    bool write;     /* the gradient is wanted */
    int groups;     /* of LANES positions in a sequence */
} loss_context;

/* exp for x <= 0, relative error below 2e-7 (2^(x/ln 2): a polynomial of degree 6 on [-0.5, 0.5] and the exponent's
 * bits); below -87 it is 0. Straight code that compilers turn into vectors. */
INLINE float exp_negative(float x) {
    float clamped = x < -87.0f ? -87.0f : x;
    float n = clamped * 1.44269504f + 12582912.0f; /* rounds to a whole number in the low bits */
    uint32_t bits;
    memcpy(&bits, &n, 4);
    n -= 12582912.0f;
    float r = clamped - n * 0.693145752f; /* ln 2 in two parts */
    r = r - n * 1.42860677e-6f;
    float p = 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t power = (bits + 127u) << 23;
    float scale;
    memcpy(&scale, &power, 4);
    return x < -87.0f ? 0.0f : p * scale;
}

static char *row_of(const train_logits *l, int b, int v, int s) {
    return (char *)l->data + b * l->batch_stride + v * l->row_stride + (int64_t)s * (l->dtype == PROPANE_FP16 ? 2 : 4);
}

/* Rows [v, v+rows) of `count` positions into a dense block; lanes beyond `count` are 0. */
INLINE void load_chunk(const train_logits *l, int b, int v, int rows, int s, int count, float block[CHUNK][LANES]) {
    for (int r = 0; r < rows; r++) {
        const char *row = row_of(l, b, v + r, s);
        if (l->dtype == PROPANE_FP16)
            fp16_to_f32_array(block[r], (const uint16_t *)(const void *)row, (size_t)count);
        else if (count == LANES) /* a size that the compiler knows: no call */
            memcpy(block[r], row, sizeof block[r]);
        else
            memcpy(block[r], row, (size_t)count * 4);
        for (int i = count; i < LANES; i++) block[r][i] = 0;
    }
}

INLINE void store_chunk(const train_logits *l, int b, int v, int rows, int s, int count, float block[CHUNK][LANES]) {
    for (int r = 0; r < rows; r++) {
        char *row = row_of(l, b, v + r, s);
        if (l->dtype == PROPANE_FP16)
            fp16_from_f32_array((uint16_t *)(void *)row, block[r], (size_t)count);
        else if (count == LANES)
            memcpy(row, block[r], sizeof block[r]);
        else
            memcpy(row, block[r], (size_t)count * 4);
    }
}

/* Adds a chunk to the running maximum and sum of each lane. */
INLINE void chunk_sum(float block[CHUNK][LANES], int rows, float top[LANES], double sum[LANES]) {
    float peak[LANES], part[LANES] = {0};
    memcpy(peak, top, sizeof peak);
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < LANES; i++) peak[i] = block[r][i] > peak[i] ? block[r][i] : peak[i];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < LANES; i++) part[i] += exp_negative(block[r][i] - peak[i]);
    for (int i = 0; i < LANES; i++) {
        if (peak[i] > top[i]) sum[i] *= exp((double)top[i] - (double)peak[i]);
        sum[i] += (double)part[i];
        top[i] = peak[i];
    }
}

INLINE void chunk_gradient(float block[CHUNK][LANES], int rows, const float top[LANES], const float factor[LANES]) {
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < LANES; i++) block[r][i] = exp_negative(block[r][i] - top[i]) * factor[i];
}

INLINE void loss_work(void *context, int task) {
    const loss_context *c = context;
    const train_logits *l = c->logits;
    int b = task / c->groups, s = task % c->groups * LANES, count = l->context - s < LANES ? l->context - s : LANES;
    const int32_t *targets = c->targets + (int64_t)b * l->context + s;
    float block[CHUNK][LANES], top[LANES], factor[LANES], goal[LANES];
    double sum[LANES] = {0};
    for (int i = 0; i < LANES; i++) top[i] = -INFINITY, factor[i] = 0;
    for (int i = 0; i < count; i++) { /* before the gradient takes the place of the logits */
        const char *at = row_of(l, b, targets[i] < 0 ? 0 : targets[i], s + i);
        uint16_t half;
        memcpy(&half, at, 2);
        if (l->dtype == PROPANE_FP16)
            goal[i] = fp16_to_f32(half);
        else
            memcpy(&goal[i], at, 4);
    }
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, b, v, rows, s, count, block);
        chunk_sum(block, rows, top, sum);
    }
    for (int i = 0; i < count; i++) {
        bool counts = targets[i] >= 0;
        c->nats[(int64_t)b * l->context + s + i] = counts ? log(sum[i]) + (double)top[i] - (double)goal[i] : 0;
        factor[i] = counts ? (float)((double)c->gradient / sum[i]) : 0;
    }
    if (!c->write) return;
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, b, v, rows, s, count, block);
        chunk_gradient(block, rows, top, factor);
        for (int i = 0; i < count; i++)
            if (targets[i] >= v && targets[i] < v + rows) block[targets[i] - v][i] -= c->gradient;
        store_chunk(l, b, v, rows, s, count, block);
    }
}

/* The same C for each instruction set; without contraction to fused multiply-adds all give the same bits. */
static void loss_task(void *context, int task, int worker) {
    (void)worker;
    loss_work(context, task);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void loss_task_avx2(void *context, int task, int worker) {
    (void)worker;
    loss_work(context, task);
}

__attribute__((target("avx512f"))) static void loss_task_avx512(void *context, int task, int worker) {
    (void)worker;
    loss_work(context, task);
}

static pool_task best_task(void) {
    if (__builtin_cpu_supports("avx512f")) return loss_task_avx512;
    return __builtin_cpu_supports("avx2") ? loss_task_avx2 : loss_task;
}
#else
static pool_task best_task(void) { return loss_task; }
#endif

propane_status train_loss(const train_logits *l, const int32_t *targets, double gradient_scale, double *nats,
                          double *mean, propane_error *err) {
    int64_t positions = (int64_t)l->batch * l->context, counted = 0;
    if (l->dtype != PROPANE_FP16 && l->dtype != PROPANE_FP32)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "loss: logits must be fp16 or fp32");
    for (int64_t i = 0; i < positions; i++) counted += targets[i] >= 0;
    for (int64_t i = 0; i < positions; i++)
        if (targets[i] < -1 || targets[i] >= l->vocab)
            return propane_fail(err, PROPANE_ERR_INVALID, "loss: token %d is outside the vocabulary of %d",
                                (int)targets[i], l->vocab);
    loss_context c = {.logits = l,
                      .targets = targets,
                      .nats = nats,
                      .write = gradient_scale != 0,
                      .gradient = counted ? (float)(gradient_scale / (double)counted) : 0,
                      .groups = (l->context + LANES - 1) / LANES};
    pool_run(best_task(), &c, l->batch * c.groups);
    double sum = 0;
    for (int64_t i = 0; i < positions; i++) sum += nats[i];
    *mean = counted ? sum / (double)counted : 0;
    return PROPANE_OK;
}
