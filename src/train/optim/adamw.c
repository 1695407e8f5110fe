/* SPDX-License-Identifier: MIT
 * Owns the optimiser's sweep. Memory bandwidth limits its speed (28 bytes per parameter), so all work on a weight is
 * done while its cache line is loaded. The code uses no fused multiply-adds, so plain C and SIMD round alike.
 */
#include "train/optim/adamw.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/float16.h"
#include "core/base/isa.h"
#include "core/base/memory.h"
#include "core/base/pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define PIECE 16384 /* elements per task: 64 KB of each array */

typedef struct piece {
    int tensor;
    int64_t begin, end;
} piece;

/* The factors for one element, rounded to float once. */
typedef struct factors {
    float gradient, beta1, one_beta1, beta2, one_beta2, keep, rate, root, epsilon;
} factors;

/* State of one update. */
typedef struct update_context {
    factors decayed, plain;
    uint32_t key; /* key of this step's random numbers */
    bool guarded;
    bool apart; /* the update reads the tensors' `other` and writes `state` */
} update_context;

/* State of a piece in an update in parts. The thread that takes a piece updates it. */
enum { PIECE_WAITS, PIECE_TAKEN, PIECE_MOVED };

struct adamw {
    adamw_tensor *tensors;
    int tensor_count;
    piece *pieces;
    int *first;   /* [tensor_count + 1], index of each tensor's first piece */
    double *sums; /* [piece_count], sums of squares */
    /* [piece_count], pieces whose squares are to be summed; in adamw_update_rows, the pieces that the function took */
    int *unknown;
    int *listed;         /* [piece_count], for adamw_update_tensors */
    atomic_uchar *state; /* [piece_count] */
    int piece_count;
    update_context update;
};

propane_status adamw_create(const adamw_tensor *tensors, int count, adamw **out, propane_error *err) {
    *out = NULL;
    int64_t pieces = 0;
    for (int i = 0; i < count; i++) pieces += (tensors[i].count + PIECE - 1) / PIECE;
    if (pieces > INT32_MAX) return propane_fail(err, PROPANE_ERR_LIMIT, "optimizer: too many parameters");
    adamw *a = mem_alloc(sizeof *a);
    if (!a) return propane_fail_memory(err, sizeof *a);
    a->tensors = mem_array((size_t)count, sizeof *a->tensors);
    a->pieces = mem_array((size_t)pieces, sizeof *a->pieces);
    a->sums = mem_array((size_t)pieces, sizeof *a->sums);
    a->unknown = mem_array((size_t)pieces, sizeof *a->unknown);
    a->listed = mem_array((size_t)pieces, sizeof *a->listed);
    a->state = mem_array((size_t)pieces, sizeof *a->state);
    a->first = mem_array((size_t)count + 1, sizeof *a->first);
    if (!a->tensors || !a->pieces || !a->sums || !a->unknown || !a->listed || !a->state || !a->first) {
        adamw_free(a);
        return propane_fail_memory(err, (size_t)pieces * sizeof(piece));
    }
    for (int i = 0; i < count; i++) {
        a->tensors[i] = tensors[i];
        for (int64_t begin = 0; begin < tensors[i].count; begin += PIECE) {
            int64_t end = begin + PIECE < tensors[i].count ? begin + PIECE : tensors[i].count;
            a->pieces[a->piece_count++] = (piece){i, begin, end};
        }
        a->first[i + 1] = a->piece_count;
    }
    a->tensor_count = count;
    *out = a;
    return PROPANE_OK;
}

void adamw_free(adamw *a) {
    if (!a) return;
    mem_free(a->tensors);
    mem_free(a->pieces);
    mem_free(a->sums);
    mem_free(a->unknown);
    mem_free(a->listed);
    mem_free(a->state);
    mem_free(a->first);
    mem_free(a);
}

adamw_tensor *adamw_tensor_at(adamw *a, int index) {
    assert(index >= 0 && index < a->tensor_count);
    return &a->tensors[index];
}

/* ---- the norm, from eight partial sums in double, added in a fixed order ----------------------------------------- */

#define SIDE 4 /* strands per piece, each with eight sums, because a single chain of additions is slower than memory */

static inline __attribute__((always_inline)) void adamw_add_squares(double lane[8], const float *g) {
    for (int k = 0; k < 8; k++) lane[k] += (double)g[k] * (double)g[k];
}

static inline __attribute__((always_inline)) void adamw_norm_piece(adamw *a, int task) {
    const piece *p = &a->pieces[a->unknown[task]];
    const adamw_tensor *t = &a->tensors[p->tensor];
    const float *g = (t->measured ? t->measured : t->gradient) + p->begin;
    const int64_t count = p->end - p->begin, strand = count / SIDE / 8 * 8;
    double lane0[8] = {0}, lane1[8] = {0}, lane2[8] = {0}, lane3[8] = {0};
    for (int64_t i = 0; i < strand; i += 8) {
        adamw_add_squares(lane0, g + i);
        adamw_add_squares(lane1, g + strand + i);
        adamw_add_squares(lane2, g + 2 * strand + i);
        adamw_add_squares(lane3, g + 3 * strand + i);
    }
    for (int64_t i = SIDE * strand; i < count; i++) lane0[i % 8] += (double)g[i] * (double)g[i];
    for (int k = 0; k < 8; k++) lane0[k] = (lane0[k] + lane1[k]) + (lane2[k] + lane3[k]);
    a->sums[task] = ((lane0[0] + lane0[4]) + (lane0[1] + lane0[5])) + ((lane0[2] + lane0[6]) + (lane0[3] + lane0[7]));
}

static void adamw_norm_task(void *context, int task, int worker) {
    (void)worker;
    adamw_norm_piece(context, task);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void norm_task_avx2(void *context, int task, int worker) {
    (void)worker;
    adamw_norm_piece(context, task);
}

__attribute__((target("avx512f"))) static void norm_task_avx512(void *context, int task, int worker) {
    (void)worker;
    adamw_norm_piece(context, task);
}
#endif

double adamw_gradient_norm(adamw *a) {
    pool_task norm = adamw_norm_task;
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX512))
        norm = norm_task_avx512;
    else if (cpu_isa_allows(CPU_ISA_AVX2))
        norm = norm_task_avx2;
#endif
    int count = 0;
    for (int i = 0; i < a->piece_count; i++)
        if (!a->tensors[a->pieces[i].tensor].squared) a->unknown[count++] = i;
    pool_run(norm, a, count);
    double sum = 0;
    for (int i = 0; i < count; i++) sum += a->sums[i];
    for (int i = 0; i < a->tensor_count; i++)
        if (a->tensors[i].squared) sum += a->tensors[i].squares;
    return sqrt(sum);
}

/* ---- the update ------------------------------------------------------------------------------------------------------ */

/* The arrays of one state that an update reads or writes. */
typedef struct moving {
    float *w, *m, *v;
} moving;

static moving adamw_moving_at(const moving *x, int64_t i) { return (moving){x->w + i, x->m + i, x->v + i}; }

/* `to` may equal `from`. */
static void adamw_update_plain(const moving *from, const moving *to, const float *g, int64_t count, const factors *f) {
    for (int64_t i = 0; i < count; i++) {
        float gi = g[i] * f->gradient;
        float mi = from->m[i] * f->beta1 + gi * f->one_beta1;
        float vi = from->v[i] * f->beta2 + (gi * gi) * f->one_beta2;
        to->m[i] = mi;
        to->v[i] = vi;
        to->w[i] = from->w[i] * f->keep - (mi * f->rate) / (sqrtf(vi) * f->root + f->epsilon);
    }
}

#if defined(__x86_64__)
typedef struct factors_avx2 {
    __m256 gradient, beta1, one_beta1, beta2, one_beta2, keep, rate, root, epsilon;
} factors_avx2;

__attribute__((target("avx2"), always_inline)) static inline void update_8(moving from, moving to, const float *g,
                                                                           const factors_avx2 *f) {
    __m256 gi = _mm256_mul_ps(_mm256_loadu_ps(g), f->gradient);
    __m256 mi = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(from.m), f->beta1), _mm256_mul_ps(gi, f->one_beta1));
    __m256 vi = _mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(from.v), f->beta2),
                              _mm256_mul_ps(_mm256_mul_ps(gi, gi), f->one_beta2));
    _mm256_storeu_ps(to.m, mi);
    _mm256_storeu_ps(to.v, vi);
    __m256 below = _mm256_add_ps(_mm256_mul_ps(_mm256_sqrt_ps(vi), f->root), f->epsilon);
    __m256 wi = _mm256_mul_ps(_mm256_loadu_ps(from.w), f->keep);
    _mm256_storeu_ps(to.w, _mm256_sub_ps(wi, _mm256_div_ps(_mm256_mul_ps(mi, f->rate), below)));
}

/* Prefetches lines AHEAD of their use, because hardware prefetching stops at each page of each of the four arrays. */
__attribute__((target("avx2"))) static int64_t update_avx2(const moving *from, const moving *to, const float *g,
                                                           int64_t count, const factors *f) {
    enum { AHEAD = 256 };
    const factors_avx2 all = {_mm256_set1_ps(f->gradient), _mm256_set1_ps(f->beta1),     _mm256_set1_ps(f->one_beta1),
                              _mm256_set1_ps(f->beta2),    _mm256_set1_ps(f->one_beta2), _mm256_set1_ps(f->keep),
                              _mm256_set1_ps(f->rate),     _mm256_set1_ps(f->root),      _mm256_set1_ps(f->epsilon)};
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        const int64_t soon = i + AHEAD < count ? i + AHEAD : i;
        __builtin_prefetch(from->w + soon, 1), __builtin_prefetch(from->m + soon, 1);
        __builtin_prefetch(from->v + soon, 1), __builtin_prefetch(g + soon);
        update_8(adamw_moving_at(from, i), adamw_moving_at(to, i), g + i, &all);
        update_8(adamw_moving_at(from, i + 8), adamw_moving_at(to, i + 8), g + i + 8, &all);
    }
    for (; i + 8 <= count; i += 8) update_8(adamw_moving_at(from, i), adamw_moving_at(to, i), g + i, &all);
    return i;
}
#elif defined(__aarch64__)
static int64_t update_neon(const moving *from, const moving *to, const float *g, int64_t count, const factors *f) {
    const float32x4_t eps = vdupq_n_f32(f->epsilon);
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {
        float32x4_t gi = vmulq_n_f32(vld1q_f32(g + i), f->gradient);
        float32x4_t mi = vaddq_f32(vmulq_n_f32(vld1q_f32(from->m + i), f->beta1), vmulq_n_f32(gi, f->one_beta1));
        float32x4_t vi =
            vaddq_f32(vmulq_n_f32(vld1q_f32(from->v + i), f->beta2), vmulq_n_f32(vmulq_f32(gi, gi), f->one_beta2));
        vst1q_f32(to->m + i, mi);
        vst1q_f32(to->v + i, vi);
        float32x4_t below = vaddq_f32(vmulq_n_f32(vsqrtq_f32(vi), f->root), eps);
        float32x4_t wi = vmulq_n_f32(vld1q_f32(from->w + i), f->keep);
        vst1q_f32(to->w + i, vsubq_f32(wi, vdivq_f32(vmulq_n_f32(mi, f->rate), below)));
    }
    return i;
}
#endif

/* Writes elements [begin, end) of the master weight to the device's copy, row by row. */
static void adamw_do_publish(const adamw_tensor *t, int64_t begin, int64_t end) {
    if (!t->device) return;
    int64_t size = t->device_fp16 ? 2 : 4;
    bool dense = t->row_stride == t->row * size;
    while (begin < end) {
        int64_t row = dense ? 0 : begin / t->row, column = dense ? begin : begin % t->row;
        int64_t count = dense || end - begin < t->row - column ? end - begin : t->row - column;
        char *target = (char *)t->device + row * t->row_stride + column * size;
        if (t->device_fp16) {
            fp16_from_f32_array((uint16_t *)(void *)target, t->state.weight + begin, (size_t)count);
        } else {
            float *copy = (float *)(void *)target;
            for (int64_t i = 0; i < count; i++) copy[i] = t->state.weight[begin + i];
        }
        begin += count;
    }
}

static void adamw_update_some(const moving *from, const moving *to, const float *g, int64_t count, const factors *f) {
    int64_t done = 0;
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX2)) done = update_avx2(from, to, g, count, f);
#elif defined(__aarch64__)
    if (cpu_isa_allows(CPU_ISA_NEON)) done = update_neon(from, to, g, count, f);
#endif
    const moving rest = adamw_moving_at(from, done), left = adamw_moving_at(to, done);
    adamw_update_plain(&rest, &left, g + done, count - done, f);
}

/* Prefetches the lines of the next block, because blocks are too short for the prefetch in the update's loop. */
static void adamw_fetch(const adamw_tensor *t, const adamw_state *from, int64_t at) {
    enum { LINE = 64 };
    const size_t size = moment_bytes(t->form);
    const size_t in = (size_t)(t->place + at) * size;
    const char *w = (const char *)(from->weight + at), *g = (const char *)(t->gradient + at);
    const char *m = (const char *)from->moment1 + in, *v = (const char *)from->moment2 + in;
    for (size_t i = 0; i < MOMENT_BLOCK * sizeof(float); i += LINE)
        __builtin_prefetch(w + i, 1), __builtin_prefetch(g + i);
    for (size_t i = 0; i < MOMENT_BLOCK * size; i += LINE) __builtin_prefetch(m + i, 1), __builtin_prefetch(v + i, 1);
}

static moments_pair adamw_moments(const adamw_tensor *t, const adamw_state *s) {
    return (moments_pair){{t->form, s->moment1, s->scale1, false}, {t->form, s->moment2, s->scale2, true}};
}

/* Updates a piece block by block: moments are converted to fp32, updated, and stored again. */
static void adamw_update_small(const adamw_tensor *t, const adamw_state *from, const piece *p, const factors *f,
                               uint32_t key) {
    float m[MOMENT_BLOCK], v[MOMENT_BLOCK];
    const moments_pair read = adamw_moments(t, from), written = adamw_moments(t, &t->state);
    uint32_t own = (key + (uint32_t)t->number * 0x632be5abu) * 0x85157af5u;
    own |= 1; /* 0 would mean rounding to nearest */
    for (int64_t at = p->begin; at < p->end; at += MOMENT_BLOCK) {
        const int64_t n = p->end - at < MOMENT_BLOCK ? p->end - at : MOMENT_BLOCK;
        if (at + 2 * MOMENT_BLOCK <= p->end) adamw_fetch(t, from, at + MOMENT_BLOCK);
        moments_pair_load(&read, t->place + at, n, m, v);
        adamw_update_some(&(moving){from->weight + at, m, v}, &(moving){t->state.weight + at, m, v}, t->gradient + at,
                          n, f);
        moments_pair_store(&written, t->place + at, n, m, v, own);
    }
}

/* Multiplies each element by 0 and sums the products. The sums are 0 only if all elements are finite. */
#if defined(__x86_64__)
__attribute__((target("avx2"))) static int64_t zeros_avx2(const float *g, int64_t count, float lane[16]) {
    const __m256 zero = _mm256_setzero_ps();
    __m256 a = zero, b = zero;
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        a = _mm256_add_ps(a, _mm256_mul_ps(_mm256_loadu_ps(g + i), zero));
        b = _mm256_add_ps(b, _mm256_mul_ps(_mm256_loadu_ps(g + i + 8), zero));
    }
    _mm256_storeu_ps(lane, a);
    _mm256_storeu_ps(lane + 8, b);
    return i;
}
#endif

static bool adamw_is_finite(const float *g, int64_t count) {
    float lane[16] = {0};
    int64_t i = 0;
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX2)) i = zeros_avx2(g, count, lane);
#endif
    for (; i + 16 <= count; i += 16)
        for (int k = 0; k < 16; k++) lane[k] += g[i + k] * 0;
    for (; i < count; i++) lane[i % 16] += g[i] * 0;
    float sum = 0;
    for (int k = 0; k < 16; k++) sum += lane[k];
    return sum == 0;
}

/* Copies a piece that is not updated from `other` to `state`. */
static void adamw_copy_piece(const adamw_tensor *t, const piece *p) {
    const size_t size = moment_bytes(t->form), in = (size_t)(t->place + p->begin), count = (size_t)(p->end - p->begin);
    const size_t block = in / MOMENT_BLOCK, blocks = (count + MOMENT_BLOCK - 1) / MOMENT_BLOCK;
    memcpy(t->state.weight + p->begin, t->other.weight + p->begin, count * sizeof(float));
    memcpy((char *)t->state.moment1 + in * size, (const char *)t->other.moment1 + in * size, count * size);
    memcpy((char *)t->state.moment2 + in * size, (const char *)t->other.moment2 + in * size, count * size);
    if (t->form != MOMENT_INT8) return;
    memcpy(t->state.scale1 + block, t->other.scale1 + block, blocks * sizeof(float));
    memcpy(t->state.scale2 + block, t->other.scale2 + block, blocks * sizeof(float));
}

static moving adamw_floats(const adamw_state *s, int64_t weight, int64_t moment) {
    return (moving){s->weight + weight, (float *)s->moment1 + moment, (float *)s->moment2 + moment};
}

static void adamw_update_piece(adamw *a, const piece *p) {
    const update_context *c = &a->update;
    const adamw_tensor *t = &a->tensors[p->tensor];
    const factors *f = t->decay ? &c->decayed : &c->plain;
    const adamw_state *from = c->apart ? &t->other : &t->state;
    if (c->guarded && !adamw_is_finite(t->gradient + p->begin, p->end - p->begin)) {
        if (c->apart) adamw_copy_piece(t, p);
        return;
    }
    if (t->form == MOMENT_FP32) {
        const moving read = adamw_floats(from, p->begin, t->place + p->begin),
                     written = adamw_floats(&t->state, p->begin, t->place + p->begin);
        adamw_update_some(&read, &written, t->gradient + p->begin, p->end - p->begin, f);
    } else {
        adamw_update_small(t, from, p, f, c->key);
    }
    adamw_do_publish(t, p->begin, p->end);
}

static void adamw_update_task(void *context, int task, int worker) {
    (void)worker;
    adamw *a = context;
    adamw_update_piece(a, &a->pieces[task]);
}

static void adamw_take(adamw *a, const adamw_step *s) {
    double correct1 = 1 - pow(s->beta1, (double)s->step), correct2 = 1 - pow(s->beta2, (double)s->step);
    factors f = {.gradient = (float)s->gradient_scale,
                 .beta1 = (float)s->beta1,
                 .one_beta1 = (float)(1 - s->beta1),
                 .beta2 = (float)s->beta2,
                 .one_beta2 = (float)(1 - s->beta2),
                 .keep = 1,
                 .rate = (float)(s->lr / correct1),
                 .root = (float)(1 / sqrt(correct2)),
                 .epsilon = (float)s->epsilon};
    a->update =
        (update_context){.plain = f, .decayed = f, .key = (uint32_t)s->step * 0x9e3779b1u, .guarded = s->guarded};
    a->update.decayed.keep = (float)(1 - s->lr * s->weight_decay);
}

void adamw_update(adamw *a, const adamw_step *s) {
    adamw_take(a, s);
    pool_run(adamw_update_task, a, a->piece_count);
}

/* ---- the update in parts ------------------------------------------------------------------------------------------------ */

static void adamw_mark(adamw *a, unsigned char state) {
    for (int i = 0; i < a->piece_count; i++) atomic_store_explicit(&a->state[i], state, memory_order_relaxed);
}

void adamw_begin(adamw *a, const adamw_step *s, bool apart) {
    adamw_take(a, s);
    a->update.apart = apart;
    adamw_mark(a, PIECE_WAITS);
}

void adamw_abandon(adamw *a) { adamw_mark(a, PIECE_MOVED); }

void adamw_exchange(adamw *a) {
    for (int i = 0; i < a->tensor_count; i++) {
        const adamw_state state = a->tensors[i].state;
        a->tensors[i].state = a->tensors[i].other;
        a->tensors[i].other = state;
    }
}

static bool adamw_take_piece(adamw *a, int index) {
    unsigned char waits = PIECE_WAITS;
    return atomic_compare_exchange_strong(&a->state[index], &waits, PIECE_TAKEN);
}

/* A list of pieces that the calling thread took. */
typedef struct taken {
    adamw *a;
    const int *list;
} taken;

static void adamw_taken_task(void *context, int task, int worker) {
    (void)worker;
    const taken *t = context;
    adamw_update_piece(t->a, &t->a->pieces[t->list[task]]);
    atomic_store(&t->a->state[t->list[task]], PIECE_MOVED);
}

static void adamw_await_piece(const adamw *a, int index) {
    while (atomic_load(&a->state[index]) != PIECE_MOVED) sched_yield();
}

/* Updates at most MOST pieces at a time, because other work also needs the threads of the pool. */
void adamw_update_tensors(adamw *a, const int *tensors, int count) {
    enum { MOST = 64 };
    taken t = {a, a->listed};
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int p = a->first[tensors[i]]; p < a->first[tensors[i] + 1]; p++) {
            if (adamw_take_piece(a, p)) a->listed[n++] = p;
            if (n < MOST) continue;
            pool_run(adamw_taken_task, &t, n);
            n = 0;
        }
    pool_run(adamw_taken_task, &t, n);
    for (int i = 0; i < count; i++)
        for (int p = a->first[tensors[i]]; p < a->first[tensors[i] + 1]; p++) adamw_await_piece(a, p);
}

void adamw_update_rows(adamw *a, int tensor, const int32_t *rows, int64_t count, int64_t first_row, int64_t row_count,
                       int64_t width) {
    const int first = a->first[tensor];
    taken t = {a, a->unknown};
    for (int wait = 0; wait < 2; wait++) {
        int n = 0;
        for (int64_t i = 0; i < count; i++) {
            const int64_t row = rows ? rows[i] - first_row : i;
            if (row < 0 || row >= row_count) continue;
            for (int64_t p = row * width / PIECE; p * PIECE < (row + 1) * width; p++)
                if (wait)
                    adamw_await_piece(a, first + (int)p);
                else if (adamw_take_piece(a, first + (int)p))
                    a->unknown[n++] = first + (int)p;
        }
        pool_run(adamw_taken_task, &t, n);
    }
}

/* ------------------------------------------------------------------------------------------------------------------------- */

static void adamw_publish_task(void *context, int task, int worker) {
    (void)worker;
    adamw *a = context;
    const piece *p = &a->pieces[task];
    adamw_do_publish(&a->tensors[p->tensor], p->begin, p->end);
}

void adamw_publish(adamw *a) { pool_run(adamw_publish_task, a, a->piece_count); }
