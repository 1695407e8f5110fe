/* SPDX-License-Identifier: MIT
 * Direct preference optimization against a slow version of its formula, and against slopes of the loss.
 */
#include <math.h>

#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/data/jsonl.h"
#include "lm/data/packed_windows.h"
#include "lm/step/step.h"
#include "support/test.h"

enum { BATCH = 6, CONTEXT = 7, COUNT = BATCH * CONTEXT, VOCAB = 48 };

static propane_error err;

/* -mean log(sigmoid(beta * ((pi_c - ref_c) - (pi_r - ref_r)))), with pi and ref as log-probabilities: trl's `sigmoid`
 * loss. */
static double slow_loss(double beta, const float *reference, const double *nats, const int32_t *targets, int batch,
                        int context) {
    double loss = 0;
    int pairs = 0;
    for (int k = 0; k < batch / 2; k++) {
        double logp[2] = {0, 0};
        int there[2] = {0, 0};
        for (int side = 0; side < 2; side++)
            for (int i = 0; i < context; i++)
                if (targets[(2 * k + side) * context + i] >= 0)
                    logp[side] -= nats[(2 * k + side) * context + i], there[side]++;
        if (!there[0] || !there[1]) continue;
        const double ratio = (logp[0] + (double)reference[2 * k]) - (logp[1] + (double)reference[2 * k + 1]);
        loss -= log(1 / (1 + exp(-beta * ratio)));
        pairs++;
    }
    return pairs ? loss / pairs : 0;
}

static void draw(rng *r, double *nats, int32_t *targets, float *reference, double size) {
    for (int i = 0; i < COUNT; i++) {
        nats[i] = size * fabs(rng_normal(r));
        targets[i] = (int32_t)rng_below(r, VOCAB + 12);
        if (targets[i] >= VOCAB) targets[i] = -1;
    }
    for (int b = 0; b < BATCH; b++) reference[b] = (float)(5 * size * fabs(rng_normal(r)));
}

TEST(the_loss_and_its_scales_are_the_formulas) {
    double nats[COUNT];
    int32_t targets[COUNT];
    float reference[BATCH], scales[BATCH], none[BATCH];
    rng r;
    rng_init(&r, 8);
    for (int round = 0; round < 50; round++) {
        preference p = {.beta = round % 2 ? 0.1 : 2, .reference = reference};
        draw(&r, nats, targets, reference, 1);
        if (round % 5 == 0)
            for (int i = CONTEXT; i < 2 * CONTEXT; i++) targets[i] = -1; /* a pair whose second answer was cut off */
        const double loss = preference_loss(&p, nats, targets, BATCH, CONTEXT, scales);
        const double want = slow_loss(p.beta, reference, nats, targets, BATCH, CONTEXT);
        EXPECT_MSG(fabs(loss - want) < 1e-12, "%.15g, want %.15g", loss, want);
        EXPECT(p.pairs == (round % 5 == 0 ? 2 : 3));
        for (int i = 0; i < COUNT; i++) { /* the derivative with respect to each position's nats */
            const double h = 1e-4, before = nats[i];
            nats[i] = before + h;
            const double up = preference_loss(&p, nats, targets, BATCH, CONTEXT, none);
            nats[i] = before - h;
            const double down = preference_loss(&p, nats, targets, BATCH, CONTEXT, none);
            nats[i] = before;
            const double slope = targets[i] >= 0 ? (double)scales[i / CONTEXT] : 0;
            EXPECT_MSG(fabs((up - down) / (2 * h) - slope) < 1e-6, "position %d: %.9g, want %.9g", i, slope,
                       (up - down) / (2 * h));
        }
    }
}

TEST(large_margins_stay_finite) {
    double nats[2] = {1e5, 0};
    const int32_t targets[2] = {1, 1};
    const float reference[2] = {0, 0};
    float scales[2];
    preference p = {.beta = 1, .reference = reference};
    EXPECT(preference_loss(&p, nats, targets, 2, 1, scales) == 1e5);
    EXPECT(scales[0] == 1 && scales[1] == -1 && p.preferred == 0);
    nats[0] = 0, nats[1] = 1e5;
    EXPECT(preference_loss(&p, nats, targets, 2, 1, scales) == 0);
    EXPECT(scales[0] == 0 && p.preferred == 1 && p.margin == 1e5);
    EXPECT(preference_loss(&p, nats, (const int32_t[]){-1, 1}, 2, 1, scales) == 0);
    EXPECT(scales[0] == 0 && scales[1] == 0 && p.pairs == 0);
}

/* ---- a model's step --------------------------------------------------------------------------------------------------------- */

static model_weights *model(int64_t piece) {
    model_config c;
    model_weights *w = NULL;
    model_config_default(&c);
    c.hidden_size = 16, c.intermediate_size = 24, c.num_hidden_layers = 2, c.num_attention_heads = 2;
    c.num_key_value_heads = 1, c.head_dim = 8, c.vocab_size = VOCAB, c.max_position_embeddings = 16;
    c.bos_token_id = c.eos_token_id = -1;
    c.tie_word_embeddings = false;
    c.vocab_piece = piece;
    EXPECT_OK(model_weights_create(&c, &w, &err));
    model_weights_init(w, 5, 0.5);
    return w;
}

static void check_step(int64_t piece) {
    model_weights *w = model(piece);
    train_step *s = NULL;
    rng r;
    int32_t inputs[COUNT], targets[COUNT];
    double nats[COUNT], loss = 0, unused[COUNT];
    float reference[BATCH];
    rng_init(&r, 3);
    draw(&r, unused, targets, reference, 1);
    for (int i = 0; i < COUNT; i++) inputs[i] = (int32_t)rng_below(&r, VOCAB);
    const train_step_options o = {
        .partition = {.name = "layer", .precision = MIL_fp32, .batch = BATCH, .context = CONTEXT}, .device = "cpu"};
    EXPECT_OK(train_step_create(&o, w, &s, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, nats, &loss, &err));
    for (int b = 0; b < BATCH; b++) /* close to the model's own, as in training */
        reference[b] = (float)(preference_sum(nats + b * CONTEXT, targets + b * CONTEXT, CONTEXT) + rng_normal(&r));
    preference p = {.beta = 0.7, .reference = reference};
    train_step_prefer(s, &p);
    for (int i = 0; i < w->count; i++) {
        EXPECT_OK(train_step_publish(s, &err));
        EXPECT_OK(train_step_batch(s, inputs, targets, true, 1, &loss, &err));
        EXPECT(fabs(loss - slow_loss(p.beta, reference, nats, targets, BATCH, CONTEXT)) < 1e-5);
        const model_tensor *t = &w->tensors[i];
        const size_t n = (size_t)t->count;
        float *data = model_weights_data(w, t), *kept = mem_array(n, 4), *gradient = mem_array(n, 4);
        EXPECT(kept && gradient);
        memcpy(kept, data, n * 4);
        EXPECT_OK(train_step_gradient(s, i, gradient, &err));
        double length = 0, side[4];
        for (size_t k = 0; k < n; k++) length += (double)gradient[k] * (double)gradient[k];
        static const double at[] = {1, -1, 2, -2}; /* fourth order, along the gradient */
        const double h = 2e-3;
        for (int e = 0; e < 4; e++) {
            for (size_t k = 0; k < n; k++) data[k] = kept[k] + (float)(at[e] * h * (double)gradient[k] / sqrt(length));
            EXPECT_OK(train_step_publish(s, &err));
            EXPECT_OK(train_step_evaluate(s, inputs, targets, NULL, &side[e], &err));
        }
        const double slope = (8 * (side[0] - side[1]) - (side[2] - side[3])) / (12 * h);
        EXPECT_MSG(fabs(slope - sqrt(length)) < 1e-3 * sqrt(length), "%s: %.7g, measured %.7g", t->name, sqrt(length),
                   slope);
        memcpy(data, kept, n * 4);
        mem_free(kept), mem_free(gradient);
    }
    train_step_prefer(s, NULL); /* cross-entropy again */
    double again[COUNT], mean = 0;
    EXPECT_OK(train_step_publish(s, &err));
    EXPECT_OK(train_step_evaluate(s, inputs, targets, again, &mean, &err));
    for (int i = 0; i < COUNT; i++) EXPECT(fabs(again[i] - nats[i]) < 1e-5);
    train_step_free(s);
    model_weights_free(w);
}

TEST(gradients_are_slopes) { check_step(0); }
TEST(gradients_are_slopes_with_a_head_in_pieces) { check_step(16); }

/* ---- windows ---------------------------------------------------------------------------------------------------------------- */

TEST(pairs_stay_together) {
    enum { PAIRS = 9 };
    int64_t start[2 * PAIRS + 1];
    int32_t ids[4 * PAIRS * 2], inputs[4], targets[4], other[4];
    uint8_t learn[4 * PAIRS * 2];
    for (int i = 0; i < 2 * PAIRS; i++) {
        start[i] = 4 * i;
        for (int k = 0; k < 4; k++) ids[4 * i + k] = k < 2 ? i / 2 : i, learn[4 * i + k] = k >= 2;
    }
    start[2 * PAIRS] = 8 * PAIRS;
    memset(learn + 4 * 5, 0, 4); /* pair 2: one answer has no target, so both are left out */
    const train_examples e = {.count = 2 * PAIRS, .start = start, .ids = ids, .learn = learn, .pairs = true};
    packed_windows p;
    EXPECT_OK(packed_windows_init(&p, &e, 0, e.count, 4, true, 7, &err));
    EXPECT(p.windows == 2 * (PAIRS - 1));
    bool seen[PAIRS] = {false}, moved = false;
    for (uint64_t at = 0; at < (uint64_t)p.windows; at += 2) {
        const int64_t w = packed_windows_shuffled(&p, 5, at);
        EXPECT(w % 2 == 0 && packed_windows_shuffled(&p, 5, at + 1) == w + 1);
        packed_windows_get(&p, w, inputs, targets);
        packed_windows_get(&p, w + 1, other, targets);
        EXPECT(inputs[0] == other[0] && inputs[2] == 2 * inputs[0] && other[2] == 2 * inputs[0] + 1);
        EXPECT(!seen[inputs[0]] && inputs[0] != 2);
        seen[inputs[0]] = true;
        moved |= inputs[0] != (int32_t)(at / 2);
    }
    EXPECT(moved);
    for (int64_t i = 0; i < 6; i += 2) {
        const int64_t w = packed_windows_evenly(&p, i, 6);
        EXPECT(w % 2 == 0 && packed_windows_evenly(&p, i + 1, 6) == w + 1);
    }
    packed_windows_deinit(&p);
}

SUITE("train/preference", T(the_loss_and_its_scales_are_the_formulas), T(large_margins_stay_finite),
      T(gradients_are_slopes), T(gradients_are_slopes_with_a_head_in_pieces), T(pairs_stay_together))
