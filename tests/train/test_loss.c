/* SPDX-License-Identifier: MIT
 * Cross-entropy and embedding against slow references in double.
 */
#include <math.h>

#include "core/base/float16.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "lm/step/embed.h"
#include "lm/step/loss.h"
#include "support/test.h"

enum { MAX = 3 * 200 * 80 };

typedef struct problem {
    int batch, vocab, context, pad; /* pad: unused elements after each row */
    float values[MAX];
    int32_t targets[300];
    double nats[300], mean;
    float gradient[MAX];
} problem;

static problem p, q;

static void draw(problem *x, int batch, int vocab, int context, int pad, double size) {
    rng r;
    rng_init(&r, (uint64_t)(vocab * 1000 + context));
    *x = (problem){.batch = batch, .vocab = vocab, .context = context, .pad = pad};
    EXPECT(batch * vocab * (context + pad) <= MAX && batch * context <= 300);
    for (int i = 0; i < batch * vocab * (context + pad); i++) x->values[i] = (float)(rng_normal(&r) * size);
    for (int i = 0; i < batch * context; i++) x->targets[i] = (int32_t)rng_below(&r, (uint64_t)vocab);
}

static propane_status run(problem *x, propane_dtype dtype, double scale, propane_error *err) {
    static uint16_t half[MAX];
    int row = x->context + x->pad, size = dtype == PROPANE_FP16 ? 2 : 4, count = x->batch * x->vocab * row;
    memcpy(x->gradient, x->values, sizeof x->gradient);
    fp16_from_f32_array(half, x->values, (size_t)count);
    train_logits l = {.data = dtype == PROPANE_FP16 ? (void *)half : x->gradient,
                      .dtype = dtype,
                      .batch = x->batch,
                      .vocab = x->vocab,
                      .context = x->context,
                      .row_stride = (int64_t)row * size,
                      .batch_stride = (int64_t)x->vocab * row * size};
    propane_status status = train_loss(&l, x->targets, scale, x->nats, &x->mean, err);
    if (dtype == PROPANE_FP16) fp16_to_f32_array(x->gradient, half, (size_t)count);
    return status;
}

static void check(problem *x, double scale, double loss_tolerance, double gradient_tolerance) {
    int row = x->context + x->pad;
    double mean = 0, positions = (double)x->batch * x->context;
    for (int b = 0; b < x->batch; b++)
        for (int s = 0; s < x->context; s++) {
            const float *column = x->values + (int64_t)b * x->vocab * row + s;
            float *gradient = x->gradient + (int64_t)b * x->vocab * row + s;
            int32_t target = x->targets[b * x->context + s];
            double top = -1e300, sum = 0;
            for (int v = 0; v < x->vocab; v++) top = fmax(top, (double)column[v * row]);
            for (int v = 0; v < x->vocab; v++) sum += exp((double)column[v * row] - top);
            double nats = log(sum) + top - (double)column[target * row];
            mean += nats / positions;
            EXPECT_MSG(fabs(nats - x->nats[b * x->context + s]) < loss_tolerance, "loss of (%d,%d): %.9g, want %.9g", b,
                       s, x->nats[b * x->context + s], nats);
            for (int v = 0; v < x->vocab; v++) {
                double want = (exp((double)column[v * row] - top) / sum - (v == target)) * scale / positions;
                EXPECT_MSG(fabs(want - (double)gradient[v * row]) <= gradient_tolerance * scale / positions,
                           "gradient of (%d,%d,%d): %.9g, want %.9g", b, v, s, (double)gradient[v * row], want);
            }
        }
    EXPECT(fabs(mean - x->mean) < loss_tolerance);
}

TEST(fp32_equals_the_reference) {
    propane_error err = {0};
    static const int shapes[][4] = {{1, 2, 1, 0}, {2, 65, 31, 0}, {3, 200, 33, 5}, {1, 64, 64, 0}, {2, 63, 32, 3}};
    for (int i = 0; i < 5; i++) {
        draw(&p, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3], i == 3 ? 40 : 3);
        EXPECT_OK(run(&p, PROPANE_FP32, 8, &err));
        check(&p, 8, 1e-6, 1e-6); /* observed 2e-7, 2e-7 */
    }
}

TEST(fp16_equals_the_reference) {
    propane_error err = {0};
    draw(&p, 2, 130, 50, 7, 3);
    for (int i = 0; i < MAX; i++) p.values[i] = fp16_to_f32(fp16_from_f32(p.values[i]));
    EXPECT_OK(run(&p, PROPANE_FP16, 4096, &err));
    check(&p, 4096, 1e-6, 6e-4); /* the gradient is stored with 11 bits */
}

TEST(scale_zero_leaves_the_logits_alone) {
    propane_error err = {0};
    draw(&p, 2, 70, 20, 0, 3);
    EXPECT_OK(run(&p, PROPANE_FP32, 0, &err));
    EXPECT(memcmp(p.values, p.gradient, sizeof p.values) == 0);
}

TEST(infinite_logits_give_a_loss_that_is_not_finite) {
    propane_error err = {0};
    draw(&p, 1, 10, 3, 0, 1);
    p.values[4] = INFINITY;
    EXPECT_OK(run(&p, PROPANE_FP32, 1, &err));
    EXPECT(!isfinite(p.mean));
    bool finite = true;
    for (int i = 0; i < 30; i++) finite &= isfinite(p.gradient[i]) != 0;
    EXPECT(!finite);
}

TEST(refuses_a_token_outside_the_vocabulary) {
    propane_error err = {0};
    draw(&p, 1, 10, 3, 0, 1);
    p.targets[2] = 10;
    EXPECT_FAIL(run(&p, PROPANE_FP32, 1, &err), PROPANE_ERR_INVALID, "token 10 is outside the vocabulary of 10");
}

/* Loss and gradient equal those of a problem without the other positions: each of the k that count has weight 1/k. */
TEST(what_is_not_a_target_counts_for_nothing) {
    propane_error err = {0};
    enum { B = 2, V = 70, S = 40 };
    for (int half = 0; half < 2; half++) {
        propane_dtype dtype = half ? PROPANE_FP16 : PROPANE_FP32;
        draw(&p, B, V, S, 0, 3);
        draw(&q, B, V, S, 0, 3);
        int counted = 0;
        for (int i = 0; i < B * S; i++) {
            if (i % 3) p.targets[i] = -1;
            counted += i % 3 == 0;
        }
        EXPECT_OK(run(&p, dtype, 1024, &err));
        EXPECT_OK(run(&q, dtype, 1024, &err));
        double sum = 0;
        for (int i = 0; i < B * S; i++) {
            EXPECT(i % 3 ? p.nats[i] == 0 : p.nats[i] == q.nats[i]);
            sum += p.nats[i];
            for (int v = 0; v < V; v++) {
                int at = (i / S * V + v) * S + i % S;
                /* observed differences 7e-8, 5e-4 */
                double want = i % 3 ? 0 : (double)q.gradient[at] * (B * S) / counted;
                EXPECT(fabs((double)p.gradient[at] - want) <= (half ? 1e-3 : 2e-7) * fabs(want) + (half ? 1e-5 : 1e-9));
            }
        }
        EXPECT(fabs(sum / counted - p.mean) < 1e-12);
    }
    for (int i = 0; i < B * S; i++) p.targets[i] = -1;
    EXPECT_OK(run(&p, PROPANE_FP32, 1024, &err));
    EXPECT(p.mean == 0);
    for (int i = 0; i < B * V * S; i++) EXPECT(p.gradient[i] == 0);
    p.targets[0] = -2;
    EXPECT_FAIL(run(&p, PROPANE_FP32, 1, &err), PROPANE_ERR_INVALID, "token -2 is outside the vocabulary of 70");
}

TEST(does_not_depend_on_threads) {
    propane_error err = {0};
    draw(&p, 3, 200, 70, 3, 3);
    draw(&q, 3, 200, 70, 3, 3);
    EXPECT_OK(pool_set_threads(1, &err));
    EXPECT_OK(run(&p, PROPANE_FP32, 1, &err));
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    EXPECT_OK(run(&q, PROPANE_FP32, 1, &err));
    EXPECT(memcmp(&p, &q, sizeof p) == 0);
}

TEST(embedding_gathers_and_scatters) {
    enum { B = 2, S = 9, D = 37, V = 5, ROW = 12 };
    rng r;
    rng_init(&r, 3);
    float table[V][D], stream[B][D][ROW], gradient[V][D] = {{0}};
    double want[V][D] = {{0}};
    int32_t tokens[B * S];
    for (int i = 0; i < V * D; i++) table[i / D][i % D] = (float)rng_normal(&r);
    for (int i = 0; i < B * S; i++) tokens[i] = (int32_t)rng_below(&r, V);
    double scratch[TRAIN_EMBED_TASKS(D)], squares = 0, sum = 0;
    train_embed e = {.batch = B,
                     .context = S,
                     .width = D,
                     .batch_stride = D * ROW * 4,
                     .row_stride = ROW * 4,
                     .norm_delta = scratch};
    train_embed_gather(&e, &table[0][0], NULL, tokens, &stream[0][0][0]);
    for (int b = 0; b < B; b++)
        for (int d = 0; d < D; d++)
            for (int s = 0; s < S; s++) {
                EXPECT(stream[b][d][s] == table[tokens[b * S + s]][d]);
                stream[b][d][s] = (float)rng_normal(&r);
                want[tokens[b * S + s]][d] += (double)stream[b][d][s];
            }
    for (int times = 1; times <= 2; times++) { /* the second time it adds to the previous contents */
        squares += train_embed_scatter(&e, &gradient[0][0], tokens, &stream[0][0][0]);
        for (int i = 0; i < V * D; i++)
            EXPECT(fabs((double)gradient[i / D][i % D] - times * want[i / D][i % D]) < 2e-6 * times);
    }
    for (int i = 0; i < V * D; i++) sum += (double)gradient[i / D][i % D] * (double)gradient[i / D][i % D];
    EXPECT_MSG(fabs(squares - sum) < 1e-12 * sum, "squares %.17g, %.17g", squares, sum);
}

/* A non-finite logit is reported, with its position only. Far below the largest logit the gradient is 0. */
TEST(what_is_no_number_stays_so) {
    propane_error err = {0};
    draw(&p, 1, 70, 3, 0, 1);
    p.values[20 * 3 + 1] = NAN;
    p.values[30 * 3 + 2] = -95, p.targets[2] = 5;
    EXPECT_OK(run(&p, PROPANE_FP32, 1, &err));
    EXPECT(isfinite(p.nats[0]) && isnan(p.nats[1]) && isfinite(p.nats[2]) && isnan(p.mean));
    EXPECT(isfinite(p.gradient[20 * 3]) && isnan(p.gradient[20 * 3 + 1]));
    EXPECT(p.gradient[30 * 3 + 2] == 0);
}

SUITE("train/loss", T(what_is_no_number_stays_so), T(fp32_equals_the_reference), T(fp16_equals_the_reference),
      T(scale_zero_leaves_the_logits_alone), T(infinite_logits_give_a_loss_that_is_not_finite),
      T(refuses_a_token_outside_the_vocabulary), T(what_is_not_a_target_counts_for_nothing),
      T(does_not_depend_on_threads), T(embedding_gathers_and_scatters))
