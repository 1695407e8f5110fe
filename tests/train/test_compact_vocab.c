/* SPDX-License-Identifier: MIT
 * Training on the ids that occur: the loss equals that of the whole model's logits over those ids, other rows stay
 * unchanged, a stopped run resumes to the same end, and nothing changes if all ids occur.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/rng.h"
#include "lm/data/compact_vocab.h"
#include "lm/data/token_windows.h"
#include "lm/files/store.h"
#include "lm/infer/generate.h"
#include "lm/run/language_run.h"
#include "support/test.h"

static propane_error err;

enum { VOCAB = 300, STEP = 7, COUNT = 900, CONTEXT = 12, STEPS = 4 };

static uint16_t tokens[COUNT];
static model_config config;

/* Ids are multiples of STEP; with `all`, every id occurs. */
static train_input input(bool tied, bool all) {
    rng r;
    rng_init(&r, 2);
    for (int i = 0; i < COUNT; i++)
        tokens[i] = (uint16_t)(all && i < VOCAB ? (uint64_t)i : STEP * rng_below(&r, VOCAB / STEP));
    model_config_default(&config);
    config.hidden_size = 16, config.intermediate_size = 24, config.num_hidden_layers = 1;
    config.num_attention_heads = config.num_key_value_heads = 2, config.head_dim = 8, config.vocab_size = VOCAB;
    config.max_position_embeddings = 16, config.tie_word_embeddings = tied;
    return (train_input){.config = &config, .tokens = tokens, .token_bytes = 2, .token_count = COUNT, .source = "text"};
}

static model_weights *model(void) {
    model_weights *w = NULL;
    EXPECT_OK(model_weights_create(&config, &w, &err));
    model_weights_init(w, 8, 0.4);
    return w;
}

typedef struct log_book {
    double losses[STEPS + 1];
    atomic_bool cancel;
    int64_t stop;
} log_book;

static void on_step(void *context, const train_report *r) {
    log_book *l = context;
    l->losses[r->step] = r->loss;
    l->cancel = r->step == l->stop;
}

static train_options options(const char *dir, bool compact) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = STEPS, o.batch = 1, o.context = CONTEXT, o.lr = 1e-2, o.min_lr = 1e-2, o.warmup = 0;
    o.eval_interval = 0, o.held_out = 0, o.checkpoint_interval = 1, o.run_dir = dir, o.compact_vocab = compact;
    return o;
}

static propane_status run(train_options o, const train_input *in, bool resume, log_book *l) {
    train_input with = *in;
    train_run *t = NULL;
    bool restart = false;
    with.initial = resume ? NULL : model();
    o.resume = resume;
    propane_status status = language_run_create(&o, &with, &t, &err);
    train_callbacks c = {.context = l, .on_step = on_step};
    if (!status) status = train_run_go_until(t, INT64_MAX, &c, &l->cancel, &restart, &err);
    train_run_free(t);
    model_weights_free(with.initial);
    return status;
}

TEST(rows_go_there_and_back) {
    for (int tied = 0; tied < 2; tied++) {
        uint8_t used[VOCAB] = {0};
        vocab_map *c = NULL;
        model_weights *small = NULL, *back = NULL;
        (void)input(tied, false);
        for (int i = 0; i < VOCAB; i += STEP) used[i] = 1;
        model_weights *whole = model();
        EXPECT_OK(compact_vocab_create(used, &config, &c, &err));
        EXPECT(c->count == 64 && c->ids[0] == 0 && c->map[VOCAB - 1] == -1); /* 43, padded */
        model_config fewer = compact_vocab_config(c, &config);
        fewer.vocab_piece = 16;
        EXPECT_OK(model_weights_create(&fewer, &small, &err));
        EXPECT_OK(compact_vocab_take(c, whole, small, &err));
        int32_t ids[] = {0, 7, 294, -1};
        EXPECT_OK(compact_vocab_map(c, ids, 4, &err));
        EXPECT(ids[3] == -1 && c->ids[ids[1]] == 7);
        const float *row =
            model_weights_data(small, model_weights_param(small, MODEL_HEAD, -1, "lm_head")) + ids[2] * 16;
        const float *want = model_weights_data(whole, model_weights_param(whole, MODEL_HEAD, -1, "lm_head")) + 294 * 16;
        EXPECT(memcmp(row, want, 16 * sizeof *row) == 0);
        EXPECT_OK(compact_vocab_restore(c, &config, small, &back, &err));
        EXPECT(memcmp(back->data, whole->data, (size_t)whole->floats * sizeof(float)) == 0);
        int32_t other = VOCAB - 1;
        EXPECT_FAIL(compact_vocab_map(c, &other, 1, &err), PROPANE_ERR_INVALID, "token 299 is not among the 64");
        model_weights_free(whole);
        model_weights_free(small);
        model_weights_free(back);
        compact_vocab_free(c);
    }
}

/* Returns -log p of the first batch's targets among the ids in `among`, from the whole model's logits. */
static double loss_among(const train_input *in, const bool *among) {
    int32_t inputs[CONTEXT], targets[CONTEXT];
    float logits[VOCAB];
    token_windows data;
    propane_device *device = NULL;
    infer *m = NULL;
    double sum = 0;
    model_weights *w = model();
    infer_options o = {.dtype = MIL_fp32};
    EXPECT_OK(token_windows_init(&data, in->tokens, 2, COUNT, VOCAB, CONTEXT, 0, 1, "text", &err));
    EXPECT_OK(token_windows_batch(&data, 0, 1, inputs, targets, &err));
    EXPECT_OK(propane_device_open("cpu", &device, &err));
    EXPECT_OK(infer_create(device, w, &o, &m, &err));
    for (int s = 0; s < CONTEXT; s++) {
        double total = 0;
        EXPECT_OK(infer_read(m, inputs + s, 1, logits, &err));
        for (int v = 0; v < VOCAB; v++)
            if (among[v]) total += exp((double)logits[v]);
        sum += log(total) - (double)logits[targets[s]];
    }
    infer_free(m);
    propane_device_close(device);
    model_weights_free(w);
    token_windows_deinit(&data);
    return sum / CONTEXT;
}

TEST(the_loss_is_that_of_the_ids_that_occur) {
    for (int tied = 0; tied < 2; tied++) {
        train_input in = input(tied, false);
        bool among[VOCAB] = {false};
        static log_book l;
        int spare = 64 - VOCAB / STEP;
        for (int i = 0; i < VOCAB; i++) among[i] = (i % STEP == 0 && i / STEP < VOCAB / STEP) || spare-- > 0;
        EXPECT_OK(run(options(NULL, true), &in, false, &l));
        double want = loss_among(&in, among);
        EXPECT_MSG(fabs(l.losses[1] - want) < 1e-5, "%.9g, want %.9g", l.losses[1], want); /* observed 4e-7 */
    }
}

TEST(where_all_ids_occur_nothing_changes) {
    train_input in = input(true, true);
    static log_book with, without;
    char *a = test_temp_dir(), *b = test_temp_dir(), path[300];
    model_weights *x = NULL, *y = NULL;
    EXPECT_OK(run(options(a, true), &in, false, &with));
    EXPECT_OK(run(options(b, false), &in, false, &without));
    for (int i = 1; i <= STEPS; i++) EXPECT(fabs(with.losses[i] - without.losses[i]) < 1e-9);
    snprintf(path, sizeof path, "%s/%s", a, TRAIN_MODEL);
    EXPECT_OK(model_store_read(path, false, &x, &err));
    EXPECT_OK(model_store_read(b, false, &y, &err));
    EXPECT(memcmp(x->data, y->data, (size_t)x->floats * sizeof(float)) == 0);
    model_weights_free(x);
    model_weights_free(y);
    mem_free(a);
    mem_free(b);
}

/* A model that a run gives away has all ids, as the file has. */
TEST(the_model_of_a_run_has_all_ids) {
    train_input in = input(false, false);
    char *dir = test_temp_dir();
    train_run *t = NULL;
    bool restart;
    model_weights *given = NULL, *written = NULL;
    in.initial = model();
    train_options o = options(dir, true);
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    EXPECT_OK(train_run_go_until(t, INT64_MAX, NULL, NULL, &restart, &err));
    EXPECT_OK(language_run_model(t, &given, &err));
    EXPECT_OK(model_store_read(dir, false, &written, &err));
    EXPECT(model_config_equal(&given->config, &config) && given->floats == written->floats);
    EXPECT(memcmp(given->data, written->data, (size_t)given->floats * sizeof(float)) == 0);
    EXPECT(language_run_weights(t)->floats < given->floats);
    train_run_free(t);
    model_weights_free(in.initial);
    model_weights_free(given);
    model_weights_free(written);
    mem_free(dir);
}

TEST(a_run_goes_on_and_leaves_other_rows) {
    for (int tied = 0; tied < 2; tied++) {
        train_input in = input(tied, false);
        static log_book l;
        char *dirs[2] = {test_temp_dir(), test_temp_dir()};
        model_weights *done[2] = {NULL, NULL}, *before = model();
        l = (log_book){.stop = 0};
        EXPECT_OK(run(options(dirs[0], true), &in, false, &l));
        l.stop = 2;
        EXPECT_FAIL(run(options(dirs[1], true), &in, false, &l), PROPANE_ERR_CANCELLED, "step 2");
        l = (log_book){.stop = 0};
        EXPECT_OK(run(options(dirs[1], true), &in, true, &l));
        for (int i = 0; i < 2; i++) EXPECT_OK(model_store_read(dirs[i], false, &done[i], &err));
        EXPECT(model_config_equal(&done[0]->config, &config));
        EXPECT(memcmp(done[0]->data, done[1]->data, (size_t)before->floats * sizeof(float)) == 0);
        const float *rows = model_weights_data(done[0], model_weights_param(done[0], MODEL_HEAD, -1, "lm_head"));
        const float *old = model_weights_data(before, model_weights_param(before, MODEL_HEAD, -1, "lm_head"));
        EXPECT(memcmp(rows + 299 * 16, old + 299 * 16, 64) == 0 && memcmp(rows + 7 * 16, old + 7 * 16, 64) != 0);
        tokens[5] = 299; /* a different text */
        EXPECT_FAIL(run(options(dirs[1], true), &in, true, &l), PROPANE_ERR_INVALID, "");
        for (int i = 0; i < 2; i++) {
            model_weights_free(done[i]);
            mem_free(dirs[i]);
        }
        model_weights_free(before);
    }
}

SUITE("train/compact", T(rows_go_there_and_back), T(the_loss_is_that_of_the_ids_that_occur),
      T(where_all_ids_occur_nothing_changes), T(the_model_of_a_run_has_all_ids), T(a_run_goes_on_and_leaves_other_rows))
