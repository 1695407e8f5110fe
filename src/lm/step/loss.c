/* SPDX-License-Identifier: MIT
 * Owns the cross-entropy. The vocabulary is the slow axis, so a task handles LANES neighbouring positions and processes
 * the vocabulary in chunks that stay in L1. Each lane keeps a running maximum and a sum that is rescaled when the
 * maximum grows. A second pass writes the gradient. The work on one chunk is in loss_body.h, which is compiled once per
 * instruction set.
 */
#include "lm/step/loss.h"

#include <math.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/isa.h"
#include "core/base/pool.h"
#include "core/base/unroll.h"

#define LANES  64
#define CHUNK  32 /* rows of the vocabulary at a time */
#define INLINE static inline __attribute__((always_inline))

typedef struct loss_context {
    const train_logits *logits;
    const int32_t *targets;
    double *nats;
    const train_loss_sums *sums; /* sums over the head's pieces; NULL if these are all the logits */
    int first;                   /* the piece's first row */
    float gradient;              /* factor of the gradient */
    const float *scales;         /* [batch], further factors; NULL means 1 */
    bool add, write;             /* whether to add to the pieces' sums, and whether to write the gradient */
    int groups;                  /* groups of LANES positions per sequence */
} loss_context;

static int loss_size_of(const train_logits *l) { return l->dtype == PROPANE_FP16 ? 2 : 4; }

static char *loss_row_of(const train_logits *l, int b, int v, int s) {
    return (char *)l->data + b * l->batch_stride + v * l->row_stride + (int64_t)s * loss_size_of(l);
}

/* Returns whether a row is processed in place: a full row of fp32 is. */
INLINE bool in_place(const train_logits *l, int count) { return l->dtype == PROPANE_FP32 && count == LANES; }

/* Returns row `v` of `count` positions as fp32, either in place or in `room`, where lanes beyond `count` are 0. */
INLINE float *load_row(const train_logits *l, int b, int v, int s, int count, float room[LANES]) {
    char *row = loss_row_of(l, b, v, s);
    if (in_place(l, count)) return (float *)(void *)row;
    if (l->dtype == PROPANE_FP16)
        fp16_to_f32_array(room, (const uint16_t *)(const void *)row, (size_t)count);
    else
        memcpy(room, row, (size_t)count * 4);
    for (int i = count; i < LANES; i++) room[i] = 0;
    return room;
}

/* Prefetches row `v`. It is called while the row one chunk before `v` is processed. */
INLINE void fetch_row(const train_logits *l, int b, int v, int s, int count) {
    if (v >= l->vocab) return;
    const char *row = loss_row_of(l, b, v, s);
    for (int i = 0; i < count * loss_size_of(l); i += 64) __builtin_prefetch(row + i, 1);
}

INLINE void store_row(const train_logits *l, int b, int v, int s, int count, const float room[LANES]) {
    char *row = loss_row_of(l, b, v, s);
    if (l->dtype == PROPANE_FP16)
        fp16_from_f32_array((uint16_t *)(void *)row, room, (size_t)count);
    else if (!in_place(l, count))
        memcpy(row, room, (size_t)count * 4);
}

/* A group of up to LANES positions of one sequence. */
typedef struct group {
    int b, s, count;
    const int32_t *targets;
    float gradient; /* the loss_context's factor times the sequence's scale */
    float top[LANES], goal[LANES], factor[LANES];
    double sum[LANES];
} group;

/* Returns the target's row in these logits, or -1 if the position does not count or the target is in another piece. */
INLINE int row_in(const loss_context *c, int32_t target) {
    return target >= c->first && target - c->first < c->logits->vocab ? target - c->first : -1;
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

/* The same C is compiled for each instruction set. Without contraction to fused multiply-adds, all versions produce the
 * same bits. */
#define LOSS_NAME(name) name##_plain
#define LOSS_TARGET
#define LOSS_BYTES 16
#include "lm/step/loss_body.h"
#undef LOSS_NAME
#undef LOSS_TARGET
#undef LOSS_BYTES

#if defined(__x86_64__)
#define LOSS_NAME(name) name##_avx2
#define LOSS_TARGET     __attribute__((target("avx2")))
#define LOSS_BYTES      32
#include "lm/step/loss_body.h"
#undef LOSS_NAME
#undef LOSS_TARGET
#undef LOSS_BYTES

#define LOSS_NAME(name) name##_avx512
#define LOSS_TARGET     __attribute__((target("avx512f")))
#define LOSS_BYTES      64
#include "lm/step/loss_body.h"
#undef LOSS_NAME
#undef LOSS_TARGET
#undef LOSS_BYTES

static pool_task loss_best_task(void) {
    if (cpu_isa_allows(CPU_ISA_AVX512)) return loss_task_avx512;
    return cpu_isa_allows(CPU_ISA_AVX2) ? loss_task_avx2 : loss_task_plain;
}
#else
static pool_task loss_best_task(void) { return loss_task_plain; }
#endif

static propane_status loss_check(const train_logits *l, int vocab, const int32_t *targets, int64_t *counted,
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

static void loss_run(loss_context *c) {
    c->groups = (c->logits->context + LANES - 1) / LANES;
    pool_run(loss_best_task(), c, c->logits->batch * c->groups);
}

static double loss_mean_of(const double *nats, int64_t positions, int64_t counted) {
    double sum = 0;
    for (int64_t i = 0; i < positions; i++) sum += nats[i];
    return counted ? sum / (double)counted : 0;
}

propane_status train_loss(const train_logits *l, const int32_t *targets, double gradient_scale, double *nats,
                          double *mean, propane_error *err) {
    int64_t counted;
    PROPANE_TRY(loss_check(l, l->vocab, targets, &counted, err));
    loss_context c = {.logits = l,
                      .targets = targets,
                      .nats = nats,
                      .write = gradient_scale != 0,
                      .gradient = counted ? (float)(gradient_scale / (double)counted) : 0};
    loss_run(&c);
    *mean = loss_mean_of(nats, (int64_t)l->batch * l->context, counted);
    return PROPANE_OK;
}

propane_status train_loss_add(const train_logits *piece, int first, const int32_t *targets, const train_loss_sums *sums,
                              propane_error *err) {
    int64_t counted;
    PROPANE_TRY(loss_check(piece, sums->vocab, targets, &counted, err));
    loss_context c = {.logits = piece, .targets = targets, .sums = sums, .first = first, .add = true};
    loss_run(&c);
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
    *mean = loss_mean_of(nats, positions, counted);
}

propane_status train_loss_gradient(const train_logits *piece, int first, const int32_t *targets, double gradient_scale,
                                   const float *scales, const train_loss_sums *sums, propane_error *err) {
    int64_t counted;
    PROPANE_TRY(loss_check(piece, sums->vocab, targets, &counted, err));
    if (scales) counted = 1; /* the caller computes the mean */
    loss_context c = {.logits = piece,
                      .targets = targets,
                      .sums = sums,
                      .first = first,
                      .write = true,
                      .scales = scales,
                      .gradient = counted ? (float)(gradient_scale / (double)counted) : 0};
    loss_run(&c);
    return PROPANE_OK;
}
