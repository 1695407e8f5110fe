/* SPDX-License-Identifier: MIT
 * How a language model's run uses its data: the weights of targets, batches and validations, pairs and their reference,
 * dropout, and checkpoints of other data or models. Programs are computed by the slow reference of their operations;
 * the model is tiny.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/rng.h"
#include "core/files/safetensors.h"
#include "lm/run/language_run_internal.h"
#include "support/test.h"
#include "train/eval_driver.h"

enum { VOCAB = 12, CONTEXT = 6, EXAMPLES = 26, TOKENS = 240, STEPS = 6 };

static propane_error err;
static model_config config;
static int32_t ids[EXAMPLES * CONTEXT], bytes_of_token[VOCAB];
static uint8_t learn[EXAMPLES * CONTEXT];
static int64_t start[EXAMPLES + 1];
static uint16_t tokens[TOKENS];
static train_examples examples;

static void make_config(void) {
    model_config_default(&config);
    config.hidden_size = 8, config.intermediate_size = 12, config.num_hidden_layers = 1, config.num_attention_heads = 2;
    config.num_key_value_heads = 1, config.head_dim = 4, config.vocab_size = VOCAB, config.max_position_embeddings = 16;
    config.bos_token_id = config.eos_token_id = -1;
    config.tie_word_embeddings = true;
}

/* Examples of different lengths, with one to three targets each. A chosen answer counts up, a rejected one down. */
static train_input input_of_examples(bool pairs) {
    rng r;
    rng_init(&r, 5);
    make_config();
    for (int i = 0; i < EXAMPLES; i++) {
        const int prompt = 2 + i / 2 % 2, count = 1 + (i / 2 + i % 2) % 3;
        int id = (int)rng_below(&r, VOCAB);
        start[i + 1] = start[i];
        for (int k = 0; k < prompt + count; k++) {
            ids[start[i + 1]] = id, learn[start[i + 1]++] = k >= prompt;
            id = (id + (k + 1 < prompt || i % 2 == 0 ? 1 : VOCAB - 1)) % VOCAB;
        }
    }
    for (int i = 0; i < VOCAB; i++) bytes_of_token[i] = 1 + i % 3;
    examples = (train_examples){.count = EXAMPLES, .start = start, .ids = ids, .learn = learn, .pairs = pairs};
    return (train_input){.config = &config,
                         .examples = &examples,
                         .token_count = start[EXAMPLES],
                         .source = "examples",
                         .tokenizer_hash = "abc",
                         .bytes_of_token = bytes_of_token};
}

/* A text of one letter: every window is the same. */
static train_input input_of_one_letter(void) {
    make_config();
    for (int i = 0; i < TOKENS; i++) tokens[i] = 3;
    return (train_input){.config = &config,
                         .tokens = tokens,
                         .token_bytes = 2,
                         .token_count = TOKENS,
                         .source = "text",
                         .tokenizer_hash = "abc"};
}

static model_weights *initial(uint64_t seed) {
    model_weights *w = NULL;
    EXPECT_OK(model_weights_create(&config, &w, &err));
    model_weights_init(w, seed, 0.5);
    return w;
}

static train_options options(const char *run_dir) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = STEPS, o.batch = 2, o.context = CONTEXT, o.lr = 1e-2, o.min_lr = 1e-3, o.warmup = 2, o.held_out = 0.3;
    o.eval_interval = 2, o.eval_batches = 1000, o.checkpoint_interval = 0, o.run_dir = run_dir, o.pack = false;
    o.keep = "last";
    return o;
}

/* Makes a run; `from` above 0 is the seed of the model that it starts with. */
static train_run *made(const train_options *o, train_input in, uint64_t from) {
    train_run *t = NULL;
    in.initial = from ? initial(from) : NULL;
    EXPECT_OK(language_run_create(o, &in, &t, &err));
    model_weights_free(in.initial);
    return t;
}

typedef struct book {
    double loss[STEPS + 1], norm[STEPS + 1], val[STEPS + 1], accuracy[STEPS + 1];
} book;

static void on_step(void *context, const train_report *r) {
    ((book *)context)->loss[r->step] = r->loss, ((book *)context)->norm[r->step] = r->gradient_norm;
}

static void on_evaluation(void *context, const train_evaluation *e) {
    ((book *)context)->val[e->step] = e->val_loss, ((book *)context)->accuracy[e->step] = e->val_accuracy;
}

static void go(train_run *t, int64_t until, book *b) {
    bool restart;
    const train_callbacks c = {.context = b, .on_step = on_step, .on_evaluation = on_evaluation};
    EXPECT_OK(train_run_go_until(t, until, &c, NULL, &restart, &err));
}

/* ---- weights of targets ------------------------------------------------------------------------------------------ */

/* Examples that are longer than a window, and those whose targets are cut off, are counted in both parts. */
TEST(data_that_do_not_fit_are_counted) {
    static const struct {
        int first, last;
        int64_t cut;
    } cases[] = {{0, 0, 1}, {25, 25, 1}, {3, 24, 2}};
    for (int i = 0; i < 3; i++)
        for (int targets = 0; targets < 2; targets++) {
            train_options o = options(NULL);
            train_input in = input_of_examples(false);
            int64_t windows = 0, cut = -1, empty = -1;
            o.context = 5;
            for (int k = 0; k < EXAMPLES; k++) { /* five tokens each, but eight in the long ones */
                const bool is_long = k == cases[i].first || k == cases[i].last;
                start[k + 1] = start[k] + (is_long ? 8 : 5);
                for (int64_t j = start[k]; j < start[k + 1]; j++)
                    learn[j] = j >= start[k] + (is_long && !targets ? 7 : 2), ids[j] = (int32_t)j % VOCAB;
            }
            in.token_count = start[EXAMPLES];
            train_run *t = made(&o, in, 0);
            language_run_count_data(t, &windows, &cut, &empty);
            EXPECT_MSG(cut == cases[i].cut && empty == (targets ? 0 : cut), "case %d: %d cut, %d empty", i, (int)cut,
                       (int)empty);
            EXPECT(windows == token_windows_count(&language_run_of(t)->data));
            train_run_free(t);
        }
}

/* However the six sequences of a step are cut into batches, every target counts equally. */
TEST(a_step_is_the_mean_over_its_targets) {
    static const int64_t sizes[] = {6, 3, 2, 1};
    static book b[4];
    for (int i = 0; i < 4; i++) {
        train_options o = options(NULL);
        o.batch = sizes[i], o.accumulate = 6 / sizes[i];
        train_run *t = made(&o, input_of_examples(false), 0);
        go(t, INT64_MAX, &b[i]);
        EXPECT(t->state.position == 6 * STEPS && t->units == 6 * CONTEXT);
        train_run_free(t);
        for (int k = 1; k <= STEPS; k++) /* observed 5e-7 */
            EXPECT_MSG(fabs(b[i].loss[k] - b[0].loss[k]) < 1e-5 && fabs(b[i].norm[k] / b[0].norm[k] - 1) < 1e-4,
                       "batch %d, step %d: %.9g, %.9g; norm %.9g, %.9g", (int)sizes[i], k, b[i].loss[k], b[0].loss[k],
                       b[i].norm[k], b[0].norm[k]);
        for (int k = 2; k <= STEPS; k += 2) EXPECT(fabs(b[i].val[k] - b[0].val[k]) < 1e-5 && b[i].accuracy[k] == -1);
    }
}

/* A validation against the windows one by one, of examples and with the last batch in part. */
TEST(a_validation_is_the_mean_over_its_targets) {
    for (int64_t size = 2; size < 6; size++) {
        train_options o = options(NULL);
        o.batch = size;
        train_run *t = made(&o, input_of_examples(false), 0);
        language_run *l = language_run_of(t);
        train_evaluation e;
        int32_t inputs[5 * CONTEXT] = {0}, targets[5 * CONTEXT];
        double nats[5 * CONTEXT], mean, sum = 0, bytes = 0;
        int64_t count = 0;
        const int64_t windows = token_windows_held_out_windows(&l->data);
        EXPECT_MSG(windows == 7, "%d windows", (int)windows);
        for (int64_t w = 0; w < windows; w++) {
            for (int k = 0; k < 5 * CONTEXT; k++) targets[k] = -1;
            EXPECT_OK(token_windows_held_out(&l->data, w, windows, inputs, targets, &err));
            EXPECT_OK(train_step_evaluate(l->step, inputs, targets, nats, &mean, &err));
            for (int k = 0; k < CONTEXT; k++)
                if (targets[k] >= 0) sum += nats[k], bytes += bytes_of_token[targets[k]], count++;
        }
        EXPECT_OK(train_run_evaluate(t, &e, &err));
        EXPECT_MSG(fabs(e.val_loss - sum / (double)count) < 1e-6, "%.9g, want %.9g", e.val_loss, sum / (double)count);
        EXPECT_MSG(fabs(e.val_nats_per_byte - sum / bytes) < 1e-6, "%.9g, want %.9g", e.val_nats_per_byte, sum / bytes);
        train_run_free(t);
    }
}

/* With fewer batches than there are windows, only those are read. */
TEST(a_validation_reads_no_more_than_is_asked_for) {
    double val[3];
    static const int64_t sizes[] = {2, 4, 4}, batches[] = {2, 1, 2};
    for (int i = 0; i < 3; i++) {
        train_options o = options(NULL);
        train_evaluation e;
        o.batch = sizes[i], o.eval_batches = batches[i];
        train_run *t = made(&o, input_of_examples(false), 0);
        EXPECT_OK(train_run_evaluate(t, &e, &err));
        val[i] = e.val_loss;
        train_run_free(t);
    }
    EXPECT(fabs(val[0] - val[1]) < 1e-6 && fabs(val[1] - val[2]) > 1e-4);
}

/* A held-out text with room for one window gives that window, whatever number is requested. */
TEST(one_held_out_window_is_read_once) {
    double val[2];
    for (int i = 0; i < 2; i++) {
        train_input in = input_of_one_letter();
        for (int k = 0; k < TOKENS; k++) tokens[k] = (uint16_t)(k * k % VOCAB);
        in.train_count = TOKENS - (CONTEXT + 3);
        train_options o = options(NULL);
        train_evaluation e;
        o.batch = 1, o.eval_batches = i ? 1000 : 1;
        train_run *t = made(&o, in, 7);
        EXPECT(token_windows_held_out_windows(&language_run_of(t)->data) == 1);
        EXPECT_OK(train_run_evaluate(t, &e, &err));
        val[i] = e.val_loss;
        EXPECT(e.val_nats_per_byte == -1);
        train_run_free(t);
    }
    EXPECT_MSG(val[0] == val[1], "%.9g, %.9g", val[0], val[1]);
}

/* The device's and the host's time of a validation are not added to the step after it. */
TEST(the_times_of_a_step_are_its_own) {
    train_options o = options(NULL);
    train_run *t = made(&o, input_of_examples(false), 0);
    train_evaluation e;
    train_report r;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 5; k++) EXPECT_OK(train_run_evaluate(t, &e, &err)); /* longer than a step */
        const int64_t began = clock_ns();
        EXPECT_OK(train_run_step(t, &r, &err));
        const double ms = (double)(clock_ns() - began) / 1e6;
        EXPECT_MSG(r.device_ms > 0 && r.host_ms >= 0 && r.device_ms + r.host_ms <= ms, "%g + %g of %g ms", r.device_ms,
                   r.host_ms, ms);
        EXPECT(r.tokens_per_s >= 2 * CONTEXT / (ms / 1e3));
    }
    train_run_free(t);
}

/* ---- pairs ------------------------------------------------------------------------------------------------------- */

static train_options options_of_pairs(const char *run_dir) {
    train_options o = options(run_dir);
    o.method = "dpo", o.batch = 4, o.beta = 2;
    return o;
}

/* Every pair begins with a loss of log 2, because the model is its own reference. */
TEST(the_reference_is_the_initial_model) {
    train_options o = options_of_pairs(NULL);
    o.lr = o.min_lr = 0;
    static book b;
    train_run *t = made(&o, input_of_examples(true), 7);
    train_evaluation e;
    EXPECT_OK(train_run_evaluate(t, &e, &err));
    EXPECT_MSG(fabs(e.val_loss - log(2)) < 1e-5 && e.val_nats_per_byte == -1, "%.9g", e.val_loss);
    go(t, INT64_MAX, &b);
    for (int i = 1; i <= STEPS; i++) EXPECT_MSG(fabs(b.loss[i] - log(2)) < 1e-5, "step %d: %.9g", i, b.loss[i]);
    train_run_free(t);
}

/* Sets the nats of each held-out answer; returns their number. */
static int held_out_answers(train_run *t, double out[EXAMPLES]) {
    language_run *l = language_run_of(t);
    const int windows = (int)token_windows_held_out_windows(&l->data);
    int32_t inputs[8 * CONTEXT] = {0}, targets[8 * CONTEXT];
    double nats[8 * CONTEXT], mean;
    train_step_prefer(l->step, NULL);
    for (int w = 0; w < windows; w++) {
        for (int k = 0; k < 8 * CONTEXT; k++) targets[k] = -1;
        EXPECT_OK(token_windows_held_out(&l->data, w, windows, inputs, targets, &err));
        EXPECT_OK(train_step_evaluate(l->step, inputs, targets, nats, &mean, &err));
        out[w] = preference_sum(nats, targets, CONTEXT);
    }
    train_step_prefer(l->step, &l->pairs->preference);
    return windows;
}

/* A validation against the formula, pair by pair, before and after some steps, with the last batch in part. */
TEST(a_validation_of_pairs_is_the_mean_over_pairs) {
    static book b;
    for (int i = 0; i < 2; i++) {
        train_options o = options_of_pairs(NULL);
        o.lr = o.min_lr = 0.02, o.batch = i ? 8 : 4;
        train_run *t = made(&o, input_of_examples(true), 7);
        double before[EXAMPLES], after[EXAMPLES], loss = 0, right = 0;
        const int windows = held_out_answers(t, before);
        go(t, INT64_MAX, &b);
        EXPECT(windows % 2 == 0 && windows % o.batch && held_out_answers(t, after) == windows);
        for (int w = 0; w < windows; w += 2) {
            const double margin = before[w] - after[w] - (before[w + 1] - after[w + 1]);
            loss += log(1 + exp(-o.beta * margin)) / (windows / 2);
            right += (margin > 0) / (double)(windows / 2);
        }
        EXPECT_MSG(fabs(b.val[STEPS] - loss) < 1e-5 && fabs(b.accuracy[STEPS] - right) < 1e-9,
                   "%.9g, want %.9g; %g, %g", b.val[STEPS], loss, b.accuracy[STEPS], right);
        EXPECT(b.loss[STEPS] < b.loss[1] - 0.1 && right > 0 && right < 1);
        train_run_free(t);
    }
}

static void path_of(char out[1200], const char *dir, const char *name) { snprintf(out, 1200, "%s/%s", dir, name); }

/* The reference is kept in the folder: a resumed run has other weights by then. */
TEST(resumed_pairs_keep_their_reference) {
    static book whole, pieces;
    char *one = test_temp_dir(), *many = test_temp_dir(), path[1200], copy[1200];
    train_options o = options_of_pairs(one);
    train_run *t = made(&o, input_of_examples(true), 7);
    path_of(path, one, LANGUAGE_PAIRS_FILE);
    EXPECT(!file_exists(path));
    go(t, INT64_MAX, &whole);
    EXPECT(file_exists(path));
    train_run_free(t);
    o.run_dir = many;
    path_of(path, many, LANGUAGE_PAIRS_FILE);
    for (int step = 1; step <= STEPS; step++) {
        t = made(&o, input_of_examples(true), o.resume ? 0 : 7);
        go(t, step, &pieces);
        if (step < STEPS) EXPECT_OK(train_run_save(t, &err));
        if (step == STEPS) go(t, INT64_MAX, &pieces); /* the last validation */
        train_run_free(t);
        o.resume = true;
    }
    EXPECT(memcmp(&whole, &pieces, sizeof whole) == 0);
    o.steps += 1;
    path_of(copy, many, "kept");
    EXPECT(rename(path, copy) == 0);
    t = made(&o, input_of_examples(true), 0);
    train_report r;
    EXPECT_FAIL(train_run_step(t, &r, &err), PROPANE_ERR_NOT_FOUND,
                "is missing; it contains the reference log-probabilities of the initial model. Start another run");
    EXPECT(strstr(err.text, path));
    EXPECT_OK(file_write(path, "short", 5, &err));
    EXPECT(train_run_step(t, &r, &err) == PROPANE_ERR_INVALID && strstr(err.text, path));
    EXPECT(rename(copy, path) == 0);
    EXPECT_OK(train_run_step(t, &r, &err));
    EXPECT(r.step == STEPS + 1);
    train_run_free(t);
    mem_free(one), mem_free(many);
}

/* A run of pairs that is stopped before its reference is known has written nothing, and computes it when it resumes. */
TEST(a_reference_that_was_stopped_is_computed_again) {
    static book stopped, whole;
    char *dir = test_temp_dir(), path[1200];
    atomic_bool cancel = true;
    bool restart;
    train_options o = options_of_pairs(dir);
    path_of(path, dir, LANGUAGE_PAIRS_FILE);
    train_run *t = made(&o, input_of_examples(true), 7);
    EXPECT_FAIL(train_run_go_until(t, INT64_MAX, NULL, &cancel, &restart, &err), PROPANE_ERR_CANCELLED, "after step 0");
    EXPECT(!file_exists(path));
    eval_stop_in = 3; /* inside the reference model's programs */
    EXPECT_FAIL(train_run_go_until(t, INT64_MAX, NULL, NULL, &restart, &err), PROPANE_ERR_CANCELLED, "after step 0");
    EXPECT(!file_exists(path) && !language_run_of(t)->pairs->ready);
    go(t, INT64_MAX, &stopped);
    EXPECT(file_exists(path));
    train_run_free(t);
    o.run_dir = NULL;
    t = made(&o, input_of_examples(true), 7);
    go(t, INT64_MAX, &whole);
    EXPECT(memcmp(&whole, &stopped, sizeof whole) == 0);
    train_run_free(t);
    mem_free(dir);
}

/* ---- dropout ----------------------------------------------------------------------------------------------------- */

/* Writes an adapter that was trained for some steps, so that dropout has an effect. */
static void train_adapter(const char *dir) {
    static book b;
    train_options o = options(dir);
    o.lora_rank = 2, o.lora_alpha = 8, o.lora_targets = "all", o.lr = o.min_lr = 0.1;
    train_run *t = made(&o, input_of_examples(false), 7);
    go(t, INT64_MAX, &b);
    train_run_free(t);
}

/* Without learning and on equal windows, only the dropped elements differ: in every batch of one sequence, and by
 * seed. */
TEST(every_batch_drops_other_elements) {
    char *dir = test_temp_dir();
    static book b[4], full;
    train_adapter(dir);
    train_options o = options(NULL);
    o.lora_rank = 2, o.lora_alpha = 8, o.adapter = dir, o.lr = o.min_lr = 0, o.batch = 1, o.eval_interval = 0;
    o.lora_targets = "all";
    train_run *t = made(&o, input_of_one_letter(), 7);
    go(t, INT64_MAX, &full);
    train_run_free(t);
    o.lora_dropout = 0.5, o.eval_interval = 1;
    static const int64_t seeds[] = {1, 1, 2, 3};
    for (int i = 0; i < 4; i++) {
        o.seed = seeds[i];
        t = made(&o, input_of_one_letter(), 7);
        go(t, INT64_MAX, &b[i]);
        train_run_free(t);
        for (int k = 1; k <= STEPS; k++) {
            EXPECT_MSG(fabs(b[i].loss[k] - full.loss[k]) > 1e-4, "step %d drops nothing", k);
            for (int j = 1; j < k; j++) EXPECT_MSG(b[i].loss[k] != b[i].loss[j], "steps %d and %d drop the same", j, k);
            EXPECT_MSG(fabs(b[i].val[k] - full.loss[k]) < 1e-6, "validation %d: %.9g, want %.9g", k, b[i].val[k],
                       full.loss[k]);
        }
    }
    EXPECT(memcmp(b[0].loss, b[1].loss, sizeof b[0].loss) == 0);
    for (int k = 1; k <= STEPS; k++) EXPECT(b[1].loss[k] != b[2].loss[k] && b[2].loss[k] != b[3].loss[k]);
    mem_free(dir);
}

/* What a rank drops depends on the number of its first sequence in the data: ranks differ, and a rank of another share
 * that begins there drops the same. */
TEST(ranks_drop_other_elements) {
    char *dir = test_temp_dir();
    double loss[7] = {0};
    train_adapter(dir);
    train_options o = options(NULL);
    o.lora_rank = 2, o.lora_alpha = 8, o.adapter = dir, o.lr = o.min_lr = 0, o.eval_interval = 0;
    o.lora_targets = "all", o.lora_dropout = 0.5;
    for (int position = 0; position < 4; position++)
        for (int first = 0; first < 4; first++) {
            train_run *t = made(&o, input_of_one_letter(), 7);
            language_run *l = language_run_of(t);
            int32_t inputs[6 * CONTEXT], targets[6 * CONTEXT];
            train_report r;
            for (int k = 0; k < 6 * CONTEXT; k++) inputs[k] = targets[k] = 3;
            l->inputs = inputs, l->targets = targets, l->first = first, t->state.position = position;
            EXPECT_OK(train_run_step(t, &r, &err));
            if (loss[position + first] == 0) loss[position + first] = r.loss;
            EXPECT_MSG(loss[position + first] == r.loss, "%d + %d: %.9g, %.9g", position, first, r.loss,
                       loss[position + first]);
            train_run_free(t);
        }
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < i; j++) EXPECT(loss[i] != loss[j]);
    mem_free(dir);
}

/* Adapters are in the folder as soon as there is a checkpoint, without a model; the whole model has them merged. */
TEST(adapters_are_written_with_every_checkpoint) {
    char *dir = test_temp_dir(), path[1200];
    static book b;
    train_options o = options(dir);
    model_weights *merged = NULL;
    train_evaluation with, without;
    o.lora_rank = 2, o.lora_alpha = 8, o.lora_targets = "all", o.lr = o.min_lr = 0.1, o.checkpoint_interval = 2;
    train_run *t = made(&o, input_of_examples(false), 7);
    path_of(path, dir, MODEL_ADAPTER_WEIGHTS);
    go(t, 1, &b);
    EXPECT(!file_exists(path));
    go(t, 2, &b);
    EXPECT(file_exists(path));
    EXPECT_OK(train_run_evaluate(t, &with, &err));
    EXPECT_OK(language_run_model(t, &merged, &err));
    EXPECT(unlink(path) == 0);
    go(t, INT64_MAX, &b);
    EXPECT(file_exists(path));
    path_of(path, dir, TRAIN_MODEL);
    EXPECT(!file_exists(path));
    train_run_free(t);
    o = options(NULL);
    train_input in = input_of_examples(false);
    in.initial = merged;
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    EXPECT_OK(train_run_evaluate(t, &without, &err));
    EXPECT_MSG(fabs(with.val_loss - without.val_loss) < 1e-5, "%.9g, %.9g", with.val_loss, without.val_loss);
    train_run_free(t);
    model_weights_free(merged);
    mem_free(dir);
}

/* ---- checkpoints of something else ------------------------------------------------------------------------------- */

static void refuse(const train_options *o, train_input in, const char *message) {
    train_run *t = NULL;
    EXPECT_FAIL(language_run_create(o, &in, &t, &err), PROPANE_ERR_INVALID, message);
    EXPECT(!t);
}

TEST(a_checkpoint_of_other_data_or_another_model_is_refused) {
    char *dir = test_temp_dir(), path[1200];
    static book b;
    train_options o = options(dir);
    train_input in = input_of_examples(false);
    train_run *t = made(&o, in, 0);
    go(t, 2, &b);
    EXPECT_OK(train_run_save(t, &err));
    train_run_free(t);
    o.resume = true;
    in.tokenizer_hash = "abd";
    refuse(&o, in, "the tokenizer abc, not abd");
    in.tokenizer_hash = "abc";
    ids[start[EXAMPLES] - 1] = (ids[start[EXAMPLES] - 1] + 1) % VOCAB;
    refuse(&o, in, "data with the checksum");
    in = input_of_examples(false);
    in.token_count--;
    refuse(&o, in, "data with this number of tokens: ");
    in = input_of_examples(false);
    config.intermediate_size = 16;
    refuse(&o, in, "holds a different model from the one to train; resume with the configuration of its run folder");
    in = input_of_examples(false);
    t = made(&o, in, 0);
    EXPECT(t->state.step == 2 && t->saved == 2);
    train_run_free(t);
    safetensors_writer *w = NULL;
    path_of(path, dir, TRAIN_CHECKPOINT);
    EXPECT_OK(safetensors_writer_open(path, &w, &err));
    EXPECT_OK(safetensors_writer_commit(w, &err));
    refuse(&o, in, "this is not a checkpoint of a training run");
    mem_free(dir);
}

/* The checkpoint of adapters belongs to one model. */
TEST(adapters_of_another_model_are_refused) {
    char *dir = test_temp_dir();
    static book b;
    train_options o = options(dir);
    o.lora_rank = 2, o.lora_alpha = 8;
    train_run *t = made(&o, input_of_examples(false), 7);
    go(t, 2, &b);
    EXPECT_OK(train_run_save(t, &err));
    train_run_free(t);
    o.resume = true;
    train_input in = input_of_examples(false);
    in.initial = initial(8);
    refuse(&o, in, "a model with the checksum");
    model_weights_free(in.initial);
    t = made(&o, input_of_examples(false), 7);
    EXPECT(t->state.step == 2);
    train_run_free(t);
    mem_free(dir);
}

/* ---- weights that are not finite --------------------------------------------------------------------------------- */

TEST(weights_of_a_file_that_are_not_finite_are_named) {
    char *dir = test_temp_dir(), path[1200];
    train_options o = options(dir);
    train_input in = input_of_examples(false);
    train_run *t = NULL;
    bool restart;
    in.initial = initial(7);
    model_weights_data(in.initial, model_weights_param(in.initial, MODEL_ATTN, 0, "q_proj"))[5] = NAN;
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    model_weights_free(in.initial);
    EXPECT_FAIL(train_run_go_until(t, INT64_MAX, NULL, NULL, &restart, &err), PROPANE_ERR_LIMIT,
                "since step 1: the weights 'model.layers.0.self_attn.q_proj.weight' contain NaN or infinity");
    path_of(path, dir, TRAIN_MODEL);
    EXPECT(!file_exists(path));
    train_run_free(t);
    mem_free(dir);
}

/* ---- the budget of compiles -------------------------------------------------------------------------------------- */

/* One layer has five baked kernels, and sdpaBwd2 is compiled once. A process refreshes them as often as its budget
 * allows, to the last compile, and no further. */
TEST(a_budget_is_used_up_to_the_last_compile) {
    static const struct {
        int64_t budget, step;
    } cases[] = {{10, 1}, {11, 2}, {12, 2}, {15, 2}, {16, 3}, {0, STEPS}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = test_temp_dir();
        bool restart = false;
        train_options o = options(dir);
        o.plan = "six", o.weights = "baked", o.compile_budget = cases[i].budget, o.eval_interval = 0;
        train_run *t = made(&o, input_of_examples(false), 0);
        const int first = train_step_compiles(language_run_of(t)->step);
        EXPECT_OK(train_run_go_until(t, INT64_MAX, NULL, NULL, &restart, &err));
        EXPECT_MSG(first == 6 && t->state.step == cases[i].step && restart == (cases[i].budget > 0),
                   "budget %d: %d compiles at first, step %d", (int)cases[i].budget, first, (int)t->state.step);
        train_run_free(t);
        mem_free(dir);
    }
}

SUITE("train/language-data", T(data_that_do_not_fit_are_counted), T(a_step_is_the_mean_over_its_targets),
      T(a_validation_is_the_mean_over_its_targets), T(a_validation_reads_no_more_than_is_asked_for),
      T(one_held_out_window_is_read_once), T(the_times_of_a_step_are_its_own), T(the_reference_is_the_initial_model),
      T(a_validation_of_pairs_is_the_mean_over_pairs), T(resumed_pairs_keep_their_reference),
      T(a_reference_that_was_stopped_is_computed_again), T(every_batch_drops_other_elements),
      T(ranks_drop_other_elements), T(adapters_are_written_with_every_checkpoint),
      T(a_checkpoint_of_other_data_or_another_model_is_refused), T(adapters_of_another_model_are_refused),
      T(weights_of_a_file_that_are_not_finite_are_named), T(a_budget_is_used_up_to_the_last_compile))
