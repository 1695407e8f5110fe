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
    const train_loss_sums *sums; /* of pieces; NULL: these are all logits */
    int first;                   /* the piece's first row */
    float gradient;              /* scale of the gradient */
    bool add, write;             /* pieces: their sums, or the gradient is wanted */
    int groups;                  /* of LANES positions in a sequence */
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

/* A group of up to LANES positions of one sequence. */
typedef struct group {
    int b, s, count;
    const int32_t *targets;
    float top[LANES], goal[LANES], factor[LANES];
    double sum[LANES];
} group;

/* The target's row in these logits; -1: it counts for nothing or is another piece's. */
INLINE int row_in(const loss_context *c, int32_t target) {
    return target >= c->first && target - c->first < c->logits->vocab ? target - c->first : -1;
}

/* The targets' logits are read before the gradient takes their place. */
INLINE void group_sum(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    float block[CHUNK][LANES];
    for (int i = 0; i < g->count; i++) {
        int row = row_in(c, g->targets[i]);
        uint16_t half;
        if (row < 0) continue;
        const char *at = row_of(l, g->b, row, g->s + i);
        memcpy(&half, at, 2);
        if (l->dtype == PROPANE_FP16)
            g->goal[i] = fp16_to_f32(half);
        else
            memcpy(&g->goal[i], at, 4);
    }
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, g->b, v, rows, g->s, g->count, block);
        chunk_sum(block, rows, g->top, g->sum);
    }
}

INLINE void group_gradient(const loss_context *c, group *g) {
    const train_logits *l = c->logits;
    float block[CHUNK][LANES];
    for (int i = 0; i < LANES; i++)
        g->factor[i] = i < g->count && g->targets[i] >= 0 ? (float)((double)c->gradient / g->sum[i]) : 0;
    for (int v = 0; v < l->vocab; v += CHUNK) {
        int rows = l->vocab - v < CHUNK ? l->vocab - v : CHUNK;
        load_chunk(l, g->b, v, rows, g->s, g->count, block);
        chunk_gradient(block, rows, g->top, g->factor);
        for (int i = 0; i < g->count; i++) {
            int row = row_in(c, g->targets[i]);
            if (row >= v && row < v + rows) block[row - v][i] -= c->gradient;
        }
        store_chunk(l, g->b, v, rows, g->s, g->count, block);
    }
}

INLINE void group_load(const train_loss_sums *sums, int64_t at, group *g) {
    for (int i = 0; i < g->count; i++) {
        g->top[i] = sums->top[at + i];
        g->goal[i] = sums->goal[at + i];
        g->sum[i] = sums->sum[at + i];
    }
}

INLINE void group_store(const train_loss_sums *sums, int64_t at, const group *g) {
    for (int i = 0; i < g->count; i++) {
        sums->top[at + i] = g->top[i];
        sums->goal[at + i] = g->goal[i];
        sums->sum[at + i] = g->sum[i];
    }
}

INLINE void loss_work(void *context, int task) {
    const loss_context *c = context;
    const train_logits *l = c->logits;
    group g = {.b = task / c->groups, .s = task % c->groups * LANES};
    int64_t at = (int64_t)g.b * l->context + g.s;
    g.count = l->context - g.s < LANES ? l->context - g.s : LANES;
    g.targets = c->targets + at;
    for (int i = 0; i < LANES; i++) g.top[i] = -INFINITY;
    if (c->sums && (!c->add || c->first > 0)) group_load(c->sums, at, &g);
    if (!c->sums || c->add) group_sum(c, &g);
    if (c->sums && c->add) group_store(c->sums, at, &g);
    for (int i = 0; !c->sums && i < g.count; i++)
        c->nats[at + i] = g.targets[i] >= 0 ? log(g.sum[i]) + (double)g.top[i] - (double)g.goal[i] : 0;
    if (c->write) group_gradient(c, &g);
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

static propane_status check(const train_logits *l, int vocab, const int32_t *targets, int64_t *counted,
                            propane_error *err) {
    int64_t positions = (int64_t)l->batch * l->context;
    *counted = 0;
    if (l->dtype != PROPANE_FP16 && l->dtype != PROPANE_FP32)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "loss: logits must be fp16 or fp32");
    for (int64_t i = 0; i < positions; i++) *counted += targets[i] >= 0;
    for (int64_t i = 0; i < positions; i++)
        if (targets[i] < -1 || targets[i] >= vocab)
            return propane_fail(err, PROPANE_ERR_INVALID, "loss: token %d is outside the vocabulary of %d",
                                (int)targets[i], vocab);
    return PROPANE_OK;
}

static void run(loss_context *c) {
    c->groups = (c->logits->context + LANES - 1) / LANES;
    pool_run(best_task(), c, c->logits->batch * c->groups);
}

static double mean_of(const double *nats, int64_t positions, int64_t counted) {
    double sum = 0;
    for (int64_t i = 0; i < positions; i++) sum += nats[i];
    return counted ? sum / (double)counted : 0;
}

propane_status train_loss(const train_logits *l, const int32_t *targets, double gradient_scale, double *nats,
                          double *mean, propane_error *err) {
    int64_t counted;
    PROPANE_TRY(check(l, l->vocab, targets, &counted, err));
    loss_context c = {.logits = l,
                      .targets = targets,
                      .nats = nats,
                      .write = gradient_scale != 0,
                      .gradient = counted ? (float)(gradient_scale / (double)counted) : 0};
    run(&c);
    *mean = mean_of(nats, (int64_t)l->batch * l->context, counted);
    return PROPANE_OK;
}

propane_status train_loss_add(const train_logits *piece, int first, const int32_t *targets, const train_loss_sums *sums,
                              propane_error *err) {
    int64_t counted;
    PROPANE_TRY(check(piece, sums->vocab, targets, &counted, err));
    loss_context c = {.logits = piece, .targets = targets, .sums = sums, .first = first, .add = true};
    run(&c);
    return PROPANE_OK;
}

void train_loss_mean(const train_loss_sums *sums, const int32_t *targets, int64_t positions, double *nats,
                     double *mean) {
    int64_t counted = 0;
    for (int64_t i = 0; i < positions; i++) {
        bool counts = targets[i] >= 0;
        counted += counts;
        nats[i] = counts ? log(sums->sum[i]) + (double)sums->top[i] - (double)sums->goal[i] : 0;
    }
    *mean = mean_of(nats, positions, counted);
}

propane_status train_loss_gradient(const train_logits *piece, int first, const int32_t *targets, double gradient_scale,
                                   const train_loss_sums *sums, propane_error *err) {
    int64_t counted;
    PROPANE_TRY(check(piece, sums->vocab, targets, &counted, err));
    loss_context c = {.logits = piece,
                      .targets = targets,
                      .sums = sums,
                      .first = first,
                      .write = true,
                      .gradient = counted ? (float)(gradient_scale / (double)counted) : 0};
    run(&c);
    return PROPANE_OK;
}
