/* SPDX-License-Identifier: MIT
 * AdamW against the formula in double.
 */
#include <math.h>

#include "base/float16.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/rng.h"
#include "support/test.h"
#include "train/optim/adamw.h"

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
    adamw_tensor list[2] = {{.weight = t->w,
                             .moment1 = t->m,
                             .moment2 = t->v,
                             .gradient = t->g,
                             .count = BIG,
                             .decay = true,
                             .device = t->half,
                             .device_fp16 = true,
                             .row = BIG,
                             .row_stride = (int64_t)BIG * 2},
                            {.weight = t->ws,
                             .moment1 = t->ms,
                             .moment2 = t->vs,
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

/* The same in double; returns the largest difference. */
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
        for (int i = ROW * 4; i < STRIDE; i++) EXPECT(t.padded[row * STRIDE + i] == 0xAB); /* the padding is not ours */
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

SUITE("train/adamw", T(equals_the_formula_in_double), T(writes_what_the_device_reads), T(does_not_depend_on_threads),
      T(norm_shows_a_gradient_that_is_not_finite))
