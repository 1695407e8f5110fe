/* SPDX-License-Identifier: MIT
 * AdamW against the formula in double.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "support/test.h"
#include "train/optim/adamw.h"
#include "train/optim/moments_kernels.h"

enum { BIG = 3 * 16384 + 77, SMALL = 21, STEPS = 20, ROWS = 3, ROW = 7, STRIDE = 64 };

typedef struct tensors {
    float *w, *m, *v, *g;
    uint16_t *half;
    float ws[SMALL], ms[SMALL], vs[SMALL], gs[SMALL];
    unsigned char padded[ROWS * STRIDE];
    adamw *a;
} tensors;

static void setup(tensors *t) {
    propane_error err = {0};
    rng r;
    rng_init(&r, 7);
    *t = (tensors){.w = mem_array(BIG, 4),
                   .m = mem_array(BIG, 4),
                   .v = mem_array(BIG, 4),
                   .g = mem_array(BIG, 4),
                   .half = mem_array(BIG, 2)};
    EXPECT(t->w && t->m && t->v && t->g && t->half);
    for (int i = 0; i < BIG; i++) t->w[i] = (float)rng_normal(&r);
    for (int i = 0; i < SMALL; i++) t->ws[i] = (float)rng_normal(&r);
    memset(t->padded, 0xAB, sizeof t->padded);
    adamw_tensor list[2] = {{.state.weight = t->w,
                             .state.moment1 = t->m,
                             .state.moment2 = t->v,
                             .gradient = t->g,
                             .count = BIG,
                             .decay = true,
                             .device = t->half,
                             .device_fp16 = true,
                             .row = BIG,
                             .row_stride = (int64_t)BIG * 2},
                            {.state.weight = t->ws,
                             .state.moment1 = t->ms,
                             .state.moment2 = t->vs,
                             .gradient = t->gs,
                             .count = SMALL,
                             .device = t->padded,
                             .row = ROW,
                             .row_stride = STRIDE}};
    EXPECT_OK(adamw_create(list, 2, &t->a, &err));
}

static void teardown(tensors *t) {
    adamw_free(t->a);
    mem_free(t->w), mem_free(t->m), mem_free(t->v), mem_free(t->g), mem_free(t->half);
}

static void fill(float *g, int count, rng *r) {
    for (int i = 0; i < count; i++) g[i] = (float)(rng_normal(r) * 300);
}

static void run(tensors *t) {
    rng r;
    rng_init(&r, 11);
    for (int step = 1; step <= STEPS; step++) {
        fill(t->g, BIG, &r), fill(t->gs, SMALL, &r);
        adamw_step s = {.lr = 1e-2 / step,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .weight_decay = 0.1,
                        .gradient_scale = 1.0 / 256,
                        .step = step};
        adamw_update(t->a, &s);
    }
}

/* ---- moments in fewer bytes -------------------------------------------------------------------------------------- */

enum { FEW = 2 * MOMENT_BLOCK + 37, DRAWS = 4000 };

typedef struct stored {
    uint16_t data[FEW];
    float scales[3], x[FEW], back[FEW], again[FEW];
} stored;

/* Numbers over eight orders of magnitude, different in each block. */
static void spread(stored *s, bool second) {
    rng r;
    rng_init(&r, 3);
    for (int i = 0; i < FEW; i++) {
        const double size = pow(10, -4 * rng_unit(&r)) * (i < MOMENT_BLOCK ? 1e-6 : 30);
        s->x[i] = (float)(second || rng_below(&r, 2) ? size : -size);
    }
    s->x[5] = 0;
    for (int i = 2 * MOMENT_BLOCK; i < FEW; i++) s->x[i] = 0; /* a block of zeros */
}

/* To nearest: the error is at most half of the last bit, 1/16 of a number in 8 bits and 1/256 in 16. If nothing
 * changes, they keep their values. */
TEST(moments_are_rounded_to_the_nearest) {
    static stored s;
    for (int form = MOMENT_BF16; form <= MOMENT_INT8; form++)
        for (int second = 0; second < 2; second++) {
            const moments m = {(moment_form)form, s.data, s.scales, second};
            double worst = 0;
            spread(&s, second);
            moments_store(&m, 0, FEW, s.x, 0);
            moments_load(&m, 0, FEW, s.back);
            for (int i = 0; i < FEW; i++)
                if (s.x[i] != 0) worst = fmax(worst, fabs((double)s.back[i] - (double)s.x[i]) / fabs((double)s.x[i]));
            EXPECT_MSG(worst <= (form == MOMENT_INT8 ? 1.0 / 16 : 1.0 / 256), "form %d: %g", form,
                       worst); /* observed 0.0588, 0.0038 */
            if (getenv("TEST_VERBOSE")) printf("form %d: rounding %g\n", form, worst);
            EXPECT(s.back[FEW - 1] == 0 && (second ? s.back[5] < 1e-15f : s.back[5] == 0));
            moments_store(&m, 0, FEW, s.back, 0);
            moments_load(&m, 0, FEW, s.again);
            EXPECT(memcmp(s.back, s.again, sizeof s.back) == 0);
            moments_store(&m, 0, FEW, s.back, 77); /* randomness does not change exact values either */
            moments_load(&m, 0, FEW, s.again);
            EXPECT(memcmp(s.back, s.again, sizeof s.back) == 0);
        }
}

/* Stochastic rounding: the mean of many draws is the number. Bound: 5 deviations; observed: at most 0.48 of that. */
TEST(moments_rounded_at_random_have_no_bias) {
    static stored s;
    static double sum[FEW];
    for (int form = MOMENT_BF16; form <= MOMENT_INT8; form++) {
        const moments m = {(moment_form)form, s.data, s.scales, true};
        const double step = form == MOMENT_INT8 ? 1.0 / 8 : 1.0 / 128;
        double worst = 0;
        spread(&s, true);
        memset(sum, 0, sizeof sum);
        for (uint32_t key = 1; key <= DRAWS; key++) {
            moments_store(&m, 0, FEW, s.x, key * 0x9e3779b1u | 1);
            moments_load(&m, 0, FEW, s.back);
            for (int i = 0; i < FEW; i++) sum[i] += (double)s.back[i];
        }
        for (int i = 0; i < 2 * MOMENT_BLOCK; i++) {
            const double x = (double)s.x[i], error = fabs(sum[i] / DRAWS - x);
            if (i != 5) worst = fmax(worst, error / (5 * step * x / 2 / sqrt(DRAWS)));
            EXPECT_MSG(i == 5 || error <= 5 * step * x / 2 / sqrt(DRAWS), "form %d, element %d: %g off %g", form, i,
                       error, x);
        }
        if (getenv("TEST_VERBOSE")) printf("form %d: bias %g of the bound\n", form, worst);
    }
}

/* Both moments at once or one at a time, with the vectors of every available instruction set: the codes and values are
 * the same. */
TEST(every_instruction_set_stores_the_same_moments) {
    static float x[2][FEW], back[2][FEW];
    static unsigned char data[2][2 * FEW], one[2][2 * FEW];
    float scales[2][FEW / MOMENT_BLOCK + 1] = {{0}}, first[2][FEW / MOMENT_BLOCK + 1] = {{0}};
    const moments_kernels *sets[3] = {&moments_plain};
    int count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) sets[count++] = &moments_avx2;
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        sets[count++] = &moments_avx512;
#endif
    rng r;
    rng_init(&r, 3);
    for (int i = 0; i < FEW; i++) x[0][i] = (float)(rng_normal(&r) * 1e-4), x[1][i] = x[0][i] * x[0][i];
    for (int form = MOMENT_BF16; form <= MOMENT_INT8; form++)
        for (int i = 0; i < count; i++) {
            const moments_pair p = {{(moment_form)form, data[0], scales[0], false},
                                    {(moment_form)form, data[1], scales[1], true}};
            const size_t size = FEW * moment_bytes((moment_form)form);
            sets[i]->store(&p.first, 0, FEW, x[0], 99);
            sets[i]->store(&p.second, 0, FEW, x[1], 99);
            if (i == 0) memcpy(one, data, sizeof one), memcpy(first, scales, sizeof first);
            EXPECT(memcmp(one[0], data[0], size) == 0 && memcmp(one[1], data[1], size) == 0);
            EXPECT(memcmp(first, scales, sizeof first) == 0);
            memset(data, 0, sizeof data);
            sets[i]->store_two(&p, MOMENT_BLOCK, x[0] + MOMENT_BLOCK, x[1] + MOMENT_BLOCK, 99);
            sets[i]->load_two(&p, MOMENT_BLOCK, back[0], back[1]);
            const size_t at = MOMENT_BLOCK * moment_bytes((moment_form)form);
            EXPECT(memcmp(one[0] + at, data[0] + at, at) == 0 && memcmp(one[1] + at, data[1] + at, at) == 0);
            for (int k = 0; k < MOMENT_BLOCK; k++) {
                const double most = form == MOMENT_INT8 ? 1.0 / 8 : 1.0 / 128;
                EXPECT(fabs((double)back[0][k] - (double)x[0][MOMENT_BLOCK + k]) <=
                       most * fabs((double)x[0][MOMENT_BLOCK + k]) + 1e-8);
                EXPECT(fabs((double)back[1][k] - (double)x[1][MOMENT_BLOCK + k]) <=
                       most * (double)x[1][MOMENT_BLOCK + k] + 1e-16);
            }
        }
}

static double moved(const float *w, const float *from, const float *other) {
    double difference = 0, length = 0;
    for (int i = 0; i < BIG; i++) {
        difference += ((double)w[i] - (double)other[i]) * ((double)w[i] - (double)other[i]);
        length += ((double)other[i] - (double)from[i]) * ((double)other[i] - (double)from[i]);
    }
    return sqrt(difference / length);
}

/* Compares the path of the weights with that of fp32 moments; it does not depend on the number of threads. Observed
 * deviation: 0.0214 of its length in 8 bits, 0.0013 in 16. */
TEST(steps_with_small_moments) {
    static uint16_t data[2][BIG];
    static float scales[2][BIG / MOMENT_BLOCK + 1], other[BIG], start[BIG], one[BIG];
    propane_error err = {0};
    tensors t;
    setup(&t);
    memcpy(start, t.w, sizeof start);
    run(&t);
    memcpy(other, t.w, sizeof other);
    teardown(&t);
    for (int form = MOMENT_BF16; form <= MOMENT_INT8; form++)
        for (int threads = 1; threads <= 3; threads += 2) {
            pool_stop();
            EXPECT_OK(pool_set_threads(threads, &err));
            setup(&t);
            memset(data, 0, sizeof data), memset(scales, 0, sizeof scales);
            adamw_tensor *a = adamw_tensor_at(t.a, 0);
            a->form = (moment_form)form;
            a->state.moment1 = data[0], a->state.moment2 = data[1], a->state.scale1 = scales[0],
            a->state.scale2 = scales[1];
            run(&t);
            const double off = moved(t.w, start, other);
            if (getenv("TEST_VERBOSE")) printf("form %d: way off %g\n", form, off);
            EXPECT_MSG(off > 0 && off < (form == MOMENT_INT8 ? 0.1 : 0.01), "form %d: %g", form, off);
            if (threads == 1) memcpy(one, t.w, sizeof one);
            EXPECT(memcmp(one, t.w, sizeof one) == 0);
            teardown(&t);
        }
}

/* A rank with part of a tensor updates it exactly like a rank with all of it. */
TEST(a_part_of_a_tensor_moves_as_in_the_whole) {
    enum { ELEMENTS = 40 * MOMENT_BLOCK + 9, CUT = 7 * MOMENT_BLOCK };
    static uint16_t data[2][2][ELEMENTS];
    static float scales[2][2][ELEMENTS / MOMENT_BLOCK + 1], w[2][ELEMENTS], g[ELEMENTS];
    propane_error err = {0};
    for (int form = MOMENT_BF16; form <= MOMENT_INT8; form++) {
        adamw *ways[2] = {NULL};
        rng r;
        rng_init(&r, 5);
        memset(data, 0, sizeof data), memset(scales, 0, sizeof scales);
        for (int i = 0; i < ELEMENTS; i++) w[0][i] = w[1][i] = (float)rng_normal(&r);
        for (int way = 0; way < 2; way++) {
            adamw_tensor whole = {.state.weight = w[way],
                                  .form = (moment_form)form,
                                  .state.moment1 = data[way][0],
                                  .state.moment2 = data[way][1],
                                  .state.scale1 = scales[way][0],
                                  .state.scale2 = scales[way][1],
                                  .number = 3,
                                  .gradient = g,
                                  .count = ELEMENTS,
                                  .decay = true};
            adamw_tensor parts[2] = {whole, whole};
            parts[0].count = CUT, parts[1].count = ELEMENTS - CUT;
            parts[1].state.weight += CUT, parts[1].gradient += CUT, parts[1].place = CUT;
            EXPECT_OK(adamw_create(way ? parts : &whole, way ? 2 : 1, &ways[way], &err));
        }
        for (int step = 1; step <= 5; step++) {
            const adamw_step s = {1e-2, 0.9, 0.95, 1e-8, 0.1, 1, step, false};
            fill(g, ELEMENTS, &r);
            for (int way = 0; way < 2; way++) adamw_update(ways[way], &s);
        }
        EXPECT(memcmp(w[0], w[1], sizeof w[0]) == 0);
        EXPECT(memcmp(data[0], data[1], sizeof data[0]) == 0);
        EXPECT(memcmp(scales[0], scales[1], sizeof scales[0]) == 0);
        adamw_free(ways[0]), adamw_free(ways[1]);
    }
}

typedef struct whole_state {
    float w[3 * MOMENT_BLOCK * 64 + 9], scales[2][3 * 64 + 1];
    float moments[2][3 * MOMENT_BLOCK * 64 + 9]; /* space for the widest form */
} whole_state;

static adamw_state state_of(whole_state *s) {
    return (adamw_state){s->w, s->moments[0], s->moments[1], s->scales[0], s->scales[1]};
}

/* From one state to the other, after a wrong step: the bits equal those of the right step, and the initial state is
 * unchanged. */
TEST(an_update_apart_is_one_in_place) {
    enum { ELEMENTS = sizeof((whole_state *)0)->w / sizeof(float) };
    static whole_state in_place, one, other, before;
    static float g[ELEMENTS];
    propane_error err = {0};
    for (int form = MOMENT_FP32; form <= MOMENT_INT8; form++) {
        adamw *a = NULL, *b = NULL;
        rng r;
        rng_init(&r, 5);
        memset(&one, 0, sizeof one), memset(&other, 0, sizeof other);
        for (int i = 0; i < ELEMENTS; i++) one.w[i] = (float)rng_normal(&r);
        in_place = one;
        adamw_tensor t = {.state = state_of(&in_place), .form = (moment_form)form, .gradient = g, .count = ELEMENTS};
        EXPECT_OK(adamw_create(&t, 1, &a, &err));
        t.state = state_of(&one), t.other = state_of(&other);
        EXPECT_OK(adamw_create(&t, 1, &b, &err));
        for (int step = 1; step <= 6; step++) {
            const adamw_step s = {1e-2, 0.9, 0.95, 1e-8, 0.1, 1, step, false},
                             wrong = {1, 0.5, 0.5, 1e-8, 0, 7, 9, true};
            fill(g, ELEMENTS, &r);
            adamw_update(a, &s);
            whole_state *from = step % 2 ? &one : &other, *to = step % 2 ? &other : &one;
            before = *from;
            adamw_exchange(b);
            if (step > 3) adamw_begin(b, &wrong, true), adamw_update_tensors(b, (const int[]){0}, 1);
            adamw_begin(b, &s, true);
            adamw_update_tensors(b, (const int[]){0}, 1);
            EXPECT(memcmp(&before, from, sizeof before) == 0);
            EXPECT(memcmp(in_place.w, to->w, sizeof to->w) == 0);
            EXPECT(memcmp(in_place.moments, to->moments, sizeof to->moments) == 0);
            EXPECT(memcmp(in_place.scales, to->scales, sizeof to->scales) == 0);
        }
        adamw_free(a), adamw_free(b);
    }
}

/* Computes the same in double; returns the largest difference. */
static double difference(const float *got, const float *start, int count, int offset, bool decay) {
    rng r;
    double worst = 0, *m = mem_array((size_t)count, 8), *v = mem_array((size_t)count, 8);
    double *w = mem_array((size_t)count, 8);
    float *g = mem_array(BIG + SMALL, 4);
    EXPECT(m && v && w && g);
    for (int i = 0; i < count; i++) w[i] = (double)start[i];
    rng_init(&r, 11);
    for (int step = 1; step <= STEPS; step++) {
        fill(g, BIG + SMALL, &r);
        double lr = 1e-2 / step;
        for (int i = 0; i < count; i++) {
            double gi = (double)g[offset + i] / 256;
            m[i] = 0.9 * m[i] + 0.1 * gi;
            v[i] = 0.95 * v[i] + 0.05 * gi * gi;
            if (decay) w[i] -= lr * 0.1 * w[i];
            w[i] -= lr * (m[i] / (1 - pow(0.9, step))) / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-8);
        }
    }
    for (int i = 0; i < count; i++) worst = fmax(worst, fabs(w[i] - (double)got[i]));
    mem_free(m), mem_free(v), mem_free(w), mem_free(g);
    return worst;
}

TEST(equals_the_formula_in_double) {
    tensors t;
    setup(&t);
    float *start = mem_array(BIG, 4), small[SMALL];
    EXPECT(start);
    memcpy(start, t.w, BIG * 4), memcpy(small, t.ws, sizeof small);
    run(&t);
    double big = difference(t.w, start, BIG, 0, true), little = difference(t.ws, small, SMALL, BIG, false);
    EXPECT_MSG(big < 2e-6, "worst %g", big); /* observed 7e-7 */
    EXPECT_MSG(little < 2e-6, "worst %g", little);
    mem_free(start);
    teardown(&t);
}

TEST(writes_what_the_device_reads) {
    tensors t;
    setup(&t);
    run(&t);
    for (int i = 0; i < BIG; i++) EXPECT(t.half[i] == fp16_from_f32(t.w[i]));
    for (int row = 0; row < ROWS; row++) {
        EXPECT(memcmp(t.padded + row * STRIDE, t.ws + row * ROW, ROW * 4) == 0);
        /* the padding must not change */
        for (int i = ROW * 4; i < STRIDE; i++) EXPECT(t.padded[row * STRIDE + i] == 0xAB);
    }
    memset(t.half, 0, BIG * 2);
    adamw_publish(t.a);
    for (int i = 0; i < BIG; i++) EXPECT(t.half[i] == fp16_from_f32(t.w[i]));
    teardown(&t);
}

TEST(does_not_depend_on_threads) {
    propane_error err = {0};
    tensors one, three;
    double norms[2];
    EXPECT_OK(pool_set_threads(1, &err));
    setup(&one), run(&one);
    norms[0] = adamw_gradient_norm(one.a);
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    setup(&three), run(&three);
    norms[1] = adamw_gradient_norm(three.a);
    EXPECT(memcmp(one.w, three.w, BIG * 4) == 0 && memcmp(one.v, three.v, BIG * 4) == 0);
    EXPECT(memcmp(&norms[0], &norms[1], sizeof norms[0]) == 0);
    double sum = 0;
    for (int i = 0; i < BIG; i++) sum += (double)one.g[i] * (double)one.g[i];
    for (int i = 0; i < SMALL; i++) sum += (double)one.gs[i] * (double)one.gs[i];
    EXPECT(fabs(norms[0] - sqrt(sum)) < 1e-12 * norms[0]);
    teardown(&one), teardown(&three);
}

/* Rows first, then one tensor, then both: each element moves exactly once. */
TEST(in_parts_it_is_the_same) {
    static const int32_t rows[] = {2, 40, 7, 2, 1000000, -1};
    const adamw_step s = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 0.1, .step = 3};
    const int lists[][2] = {{1}, {0, 1}};
    tensors whole, parts;
    rng r;
    setup(&whole), setup(&parts);
    rng_init(&r, 9);
    fill(whole.g, BIG, &r), fill(whole.gs, SMALL, &r);
    memcpy(parts.g, whole.g, BIG * 4), memcpy(parts.gs, whole.gs, sizeof whole.gs);
    adamw_update(whole.a, &s);
    adamw_begin(parts.a, &s, false);
    adamw_update_rows(parts.a, 0, rows, 6, 0, BIG / 1000, 1000);
    for (int row = 0; row < 41; row++) {
        const bool moved = memcmp(parts.w + row * 1000, whole.w + row * 1000, 4000) == 0;
        EXPECT_MSG(moved || (row != 2 && row != 7 && row != 40), "row %d", row);
        if (row == 20) EXPECT(!moved); /* part of a piece that was not requested */
    }
    adamw_update_rows(parts.a, 1, NULL, 2, 0, ROWS, ROW);
    adamw_update_tensors(parts.a, lists[0], 1);
    adamw_update_tensors(parts.a, lists[1], 2);
    EXPECT(memcmp(parts.w, whole.w, BIG * 4) == 0 && memcmp(parts.m, whole.m, BIG * 4) == 0);
    EXPECT(memcmp(parts.v, whole.v, BIG * 4) == 0 && memcmp(parts.half, whole.half, BIG * 2) == 0);
    EXPECT(memcmp(parts.ws, whole.ws, sizeof whole.ws) == 0);
    EXPECT(memcmp(parts.padded, whole.padded, sizeof whole.padded) == 0);
    teardown(&whole), teardown(&parts);
}

/* When guarded, a piece with a non-finite gradient stays unchanged. */
TEST(what_has_no_number_does_not_move) {
    tensors guarded, free;
    adamw_step s = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1, .step = 1};
    setup(&guarded), setup(&free);
    for (int i = 0; i < BIG; i++) guarded.g[i] = free.g[i] = 1;
    guarded.g[16384 + 5] = NAN, guarded.gs[20] = INFINITY;
    float *start = mem_array(BIG, 4);
    memcpy(start, guarded.w, BIG * 4);
    s.guarded = true, adamw_update(guarded.a, &s);
    s.guarded = false, adamw_update(free.a, &s);
    EXPECT(memcmp(guarded.w + 16384, start + 16384, 16384 * 4) == 0 && guarded.v[16384] == 0 && guarded.vs[0] == 0);
    EXPECT(memcmp(guarded.w, free.w, 16384 * 4) == 0);
    EXPECT(memcmp(guarded.w + 32768, free.w + 32768, (BIG - 32768) * 4) == 0 && free.w[0] != start[0]);
    mem_free(start);
    teardown(&guarded), teardown(&free);
}

TEST(norm_shows_a_gradient_that_is_not_finite) {
    tensors t;
    setup(&t);
    EXPECT(adamw_gradient_norm(t.a) == 0);
    t.g[BIG - 1] = INFINITY;
    EXPECT(!isfinite(adamw_gradient_norm(t.a)));
    t.g[BIG - 1] = NAN;
    EXPECT(!isfinite(adamw_gradient_norm(t.a)));
    teardown(&t);
}

SUITE("train/adamw", T(moments_are_rounded_to_the_nearest), T(moments_rounded_at_random_have_no_bias),
      T(every_instruction_set_stores_the_same_moments), T(steps_with_small_moments),
      T(a_part_of_a_tensor_moves_as_in_the_whole), T(an_update_apart_is_one_in_place), T(equals_the_formula_in_double),
      T(writes_what_the_device_reads), T(does_not_depend_on_threads), T(in_parts_it_is_the_same),
      T(what_has_no_number_does_not_move), T(norm_shows_a_gradient_that_is_not_finite))
