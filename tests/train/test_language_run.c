/* SPDX-License-Identifier: MIT
 * A run from start to end: progress, evaluation, checkpoints, resuming at any step, cancelling, restarts when a compile
 * budget is used up. Programs are computed by the slow reference of their operations; the model is tiny.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/pool.h"
#include "core/base/rng.h"
#include "core/files/safetensors.h"
#include "lm/run/language_run.h"
#include "support/test.h"
#include "train/eval_driver.h"
#include "train/restart.h"

enum { VOCAB = 12, TOKENS = 600, STEPS = 12 };

static uint16_t tokens[TOKENS];
static int32_t bytes_of_token[VOCAB];
static model_config config;

typedef struct log {
    double losses[64], val[64], per_byte[64], device_ms, host_ms;
    int steps, evaluations, checkpoints;
    int64_t last_step;
    atomic_bool *cancel;
    int cancel_at;
    bool skipped[64];
} log_book;

static void on_step(void *context, const train_report *r) {
    log_book *l = context;
    l->losses[r->step] = r->loss;
    l->skipped[r->step] = r->skipped;
    l->device_ms += r->device_ms, l->host_ms += r->host_ms;
    l->steps++;
    l->last_step = r->step;
    if (l->cancel && r->step == l->cancel_at) *l->cancel = true;
}
static void on_evaluation(void *context, const train_evaluation *e) {
    log_book *l = context;
    l->val[e->step] = e->val_loss;
    l->per_byte[e->step] = e->val_nats_per_byte;
    l->evaluations++;
}
static void on_checkpoint(void *context, int64_t step, const char *path) { ((log_book *)context)->checkpoints++; }

static train_options options(const char *run_dir) {
    train_options o;
    train_options_default(&o, TRAIN_LANGUAGE);
    o.steps = STEPS, o.batch = 2, o.context = 6, o.lr = 1e-2, o.min_lr = 1e-3, o.warmup = 3;
    o.eval_interval = 5, o.eval_batches = 2, o.checkpoint_interval = 4, o.run_dir = run_dir;
    return o;
}

static train_input input(void) {
    rng r;
    rng_init(&r, 5);
    for (int i = 0, t = 0; i < TOKENS; i++) {
        t = rng_below(&r, 10) == 0 ? (int)rng_below(&r, VOCAB) : (t * 5 + 1) % VOCAB;
        tokens[i] = (uint16_t)t;
    }
    for (int i = 0; i < VOCAB; i++) bytes_of_token[i] = 1 + i % 3;
    model_config_default(&config);
    config.hidden_size = 8, config.intermediate_size = 12, config.num_hidden_layers = 2, config.num_attention_heads = 2;
    config.num_key_value_heads = 1, config.head_dim = 4, config.vocab_size = VOCAB, config.max_position_embeddings = 16;
    config.bos_token_id = config.eos_token_id = -1;
    config.tie_word_embeddings = true;
    return (train_input){.config = &config,
                         .tokens = tokens,
                         .token_bytes = 2,
                         .token_count = TOKENS,
                         .source = "text",
                         .tokenizer_hash = "abc",
                         .bytes_of_token = bytes_of_token};
}

/* Makes a whole run; *cancel_at > 0 stops it there. Returns the run's status. */
static propane_status run(const train_options *o, log_book *l, int cancel_at, bool *restart, propane_error *err) {
    train_input in = input();
    train_run *t = NULL;
    atomic_bool cancel = false;
    train_callbacks c = {
        .context = l, .on_step = on_step, .on_evaluation = on_evaluation, .on_checkpoint = on_checkpoint};
    propane_status status = language_run_create(o, &in, &t, err);
    l->cancel = &cancel, l->cancel_at = cancel_at;
    if (status == PROPANE_OK) status = train_run_go_until(t, INT64_MAX, &c, &cancel, restart, err);
    train_run_free(t);
    return status;
}

static void expect_same(const log_book *a, const log_book *b) {
    for (int i = 1; i <= STEPS; i++)
        EXPECT_MSG(memcmp(&a->losses[i], &b->losses[i], sizeof(double)) == 0, "step %d: loss %.17g and %.17g", i,
                   a->losses[i], b->losses[i]);
    EXPECT(memcmp(a->val, b->val, sizeof a->val) == 0);
}

static void expect_same_file(const char *a, const char *b, const char *name) {
    propane_error err = {0};
    char path[2][1200], *data[2];
    size_t length[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", i ? b : a, name);
        EXPECT_OK(file_read(path[i], 1 << 24, &data[i], &length[i], &err));
    }
    EXPECT_MSG(length[0] == length[1] && memcmp(data[0], data[1], length[0]) == 0, "%s and %s differ", path[0],
               path[1]);
    mem_free(data[0]), mem_free(data[1]);
}

TEST(a_run_learns_evaluates_and_saves) {
    propane_error err = {0};
    static log_book l;
    bool restart = true;
    char *dir = test_temp_dir();
    train_options o = options(dir);
    o.steps = 40;
    EXPECT_OK(run(&o, &l, 0, &restart, &err));
    EXPECT(!restart && l.steps == 40 && l.evaluations == 8 && l.checkpoints == 10);
    EXPECT(fabs(l.losses[1] - log(VOCAB)) < 0.5);
    EXPECT_MSG(l.val[40] < l.val[5] - 0.3, "%g, %g", l.val[5], l.val[40]);
    EXPECT(l.per_byte[40] > 0 && l.per_byte[40] < l.val[40] && l.device_ms > 0 && l.host_ms > 0);
    char path[1200];
    safetensors *s;
    snprintf(path, sizeof path, "%s/%s", dir, TRAIN_MODEL);
    EXPECT_OK(safetensors_open(path, &s, &err));
    EXPECT(safetensors_find(s, "model.embed_tokens.weight") && !safetensors_find(s, "optimizer.1.model.norm.weight"));
    safetensors_close(s);
    mem_free(dir);
}

/* With one byte per token, whichever token it is, the loss per byte is the loss per token. */
TEST(every_target_counts_with_its_bytes) {
    propane_error err = {0};
    static log_book l;
    bool restart;
    train_options o = options(NULL);
    train_input in = input();
    train_run *t = NULL;
    const train_callbacks c = {.context = &l, .on_step = on_step, .on_evaluation = on_evaluation};
    for (int i = 0; i < VOCAB; i++) bytes_of_token[i] = 1;
    o.eval_batches = 50; /* all of the held-out text, in which each token occurs */
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    EXPECT_OK(train_run_go_until(t, 5, &c, NULL, &restart, &err));
    EXPECT_OK(train_run_go_until(t, 6, &c, NULL, &restart, &err));
    EXPECT_MSG(l.evaluations == 1 && fabs(l.per_byte[5] - l.val[5]) < 1e-12, "%g, %g", l.per_byte[5], l.val[5]);
    train_run_free(t);
}

/* Whatever the number and size of the requested batches, each held-out window counts once. */
TEST(a_validation_reads_each_held_out_window_once) {
    propane_error err = {0};
    static const int64_t batches[] = {50, 1000, 30}, sizes[] = {2, 2, 5};
    double val[3], bytes[3];
    for (int i = 0; i < 3; i++) {
        train_options o = options(NULL);
        train_input in = input();
        train_run *t = NULL;
        train_evaluation e;
        o.eval_batches = batches[i], o.batch = sizes[i];
        EXPECT_OK(language_run_create(&o, &in, &t, &err));
        EXPECT_OK(train_run_evaluate(t, &e, &err));
        val[i] = e.val_loss, bytes[i] = e.val_nats_per_byte;
        EXPECT(e.val_accuracy == -1);
        train_run_free(t);
    }
    EXPECT(val[0] == val[1] && bytes[0] == bytes[1]);
    EXPECT_MSG(fabs(val[2] - val[0]) < 1e-6 && fabs(bytes[2] - bytes[0]) < 1e-6, "%.9g, %.9g", val[0], val[2]);
}

/* The model that a run returns is a copy of its weights, and its settings are reference-counted. */
TEST(a_run_gives_its_model_away) {
    propane_error err = {0};
    train_options o = options(NULL);
    train_input in = input();
    train_run *t = NULL;
    train_report report;
    model_weights *copy = NULL;
    int64_t windows = 0, cut = -1, empty = -1;
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    EXPECT_OK(train_run_step(t, &report, &err));
    EXPECT_OK(language_run_model(t, &copy, &err));
    const model_weights *own = language_run_weights(t);
    EXPECT(copy != own && copy->floats == own->floats);
    EXPECT(memcmp(copy->data, own->data, (size_t)own->floats * sizeof *own->data) == 0);
    EXPECT(language_run_trained(t) == own->parameters);
    language_run_count_data(t, &windows, &cut, &empty);
    EXPECT(windows > 0 && cut == 0 && empty == 0);
    model_weights_free(copy);
    train_run_free(t);
    o.freeze = "embed_tokens";
    EXPECT_OK(language_run_create(&o, &in, &t, &err));
    EXPECT(language_run_trained(t) == language_run_weights(t)->parameters - VOCAB * 8);
    train_run_free(t);
}

static void resume_at_every_step(const char *precision, int accumulate) {
    propane_error err = {0};
    static log_book whole, pieces;
    bool restart;
    char *one = test_temp_dir(), *many = test_temp_dir();
    memset(&whole, 0, sizeof whole), memset(&pieces, 0, sizeof pieces);
    train_options o = options(one);
    o.precision = precision, o.accumulate = accumulate;
    EXPECT_OK(run(&o, &whole, 0, &restart, &err));
    o.run_dir = many;
    for (int step = 1; step < STEPS; step++) {
        EXPECT_FAIL(run(&o, &pieces, step, &restart, &err), PROPANE_ERR_CANCELLED, "stopped after step");
        o.resume = true;
    }
    EXPECT_OK(run(&o, &pieces, 0, &restart, &err));
    EXPECT(pieces.steps == STEPS && pieces.evaluations == whole.evaluations);
    expect_same(&whole, &pieces);
    expect_same_file(one, many, TRAIN_CHECKPOINT);
    expect_same_file(one, many, TRAIN_MODEL);
    mem_free(one), mem_free(many);
}

TEST(resumed_at_every_step_it_is_the_same_run) { resume_at_every_step("fp32", 1); }
TEST(resumed_with_fp16_and_accumulation) { resume_at_every_step("fp16", 2); }

/* Three batches of two equal one of six: the same windows, and the same mean. Seen: 5e-7 in the losses of 12 steps. */
TEST(accumulation_is_a_larger_batch) {
    propane_error err = {0};
    static log_book large, parts;
    bool restart;
    memset(&large, 0, sizeof large), memset(&parts, 0, sizeof parts);
    train_options o = options(NULL);
    o.batch = 6, o.eval_batches = 1;
    EXPECT_OK(run(&o, &large, 0, &restart, &err));
    o.batch = 2, o.accumulate = 3, o.eval_batches = 3;
    EXPECT_OK(run(&o, &parts, 0, &restart, &err));
    for (int i = 1; i <= STEPS; i++)
        EXPECT_MSG(fabs(large.losses[i] - parts.losses[i]) < 1e-5, "step %d: %.9g, %.9g", i, large.losses[i],
                   parts.losses[i]);
}

/* If a run is stopped in any batch of a step, the data continue from the beginning of that step. */
TEST(stopped_inside_a_step_it_is_the_same_run) {
    propane_error err = {0};
    static log_book whole, pieces;
    bool restart;
    char *one = test_temp_dir(), *many = test_temp_dir();
    memset(&whole, 0, sizeof whole), memset(&pieces, 0, sizeof pieces);
    train_options o = options(one);
    o.accumulate = 3, o.eval_interval = 0;
    EXPECT_OK(run(&o, &whole, 0, &restart, &err));
    o.run_dir = many;
    char checkpoint[1200];
    snprintf(checkpoint, sizeof checkpoint, "%s/%s", many, TRAIN_CHECKPOINT);
    int stopped = 0;
    for (int runs = 20; runs < 300; runs += 23) {
        eval_stop_in = runs;
        propane_status status = run(&o, &pieces, 0, &restart, &err);
        o.resume = file_exists(checkpoint);
        if (status == PROPANE_OK) break;
        EXPECT_FAIL(status, PROPANE_ERR_CANCELLED, "stopped");
        stopped++;
    }
    eval_stop_in = 0;
    EXPECT(stopped > 5);
    EXPECT_OK(run(&o, &pieces, 0, &restart, &err));
    expect_same(&whole, &pieces);
    expect_same_file(one, many, TRAIN_CHECKPOINT);
    mem_free(one), mem_free(many);
}

TEST(baked_weights_give_the_same_run) {
    propane_error err = {0};
    static log_book inputs, baked;
    bool restart;
    train_options o = options(NULL);
    o.checkpoint_interval = 0, o.plan = "six";
    EXPECT_OK(run(&o, &inputs, 0, &restart, &err));
    o.weights = "baked";
    EXPECT_OK(run(&o, &baked, 0, &restart, &err));
    expect_same(&inputs, &baked);
}

TEST(restarts_of_the_compile_budget_give_the_same_run) {
    propane_error err = {0};
    static log_book inputs, baked;
    bool restart = true;
    char *one = test_temp_dir(), *many = test_temp_dir();
    train_options o = options(one);
    o.plan = "six";
    EXPECT_OK(run(&o, &inputs, 0, &restart, &err));
    o.run_dir = many, o.weights = "baked", o.compile_budget = 30; /* 2 layers x 5 kernels, and sdpaBwd2 */
    restart = true;
    int restarts = 0;
    while (restart) {
        EXPECT_OK(run(&o, &baked, 0, &restart, &err));
        o.resume = true;
        restarts += restart;
    }
    EXPECT_MSG(restarts >= 3, "%d restarts", restarts);
    EXPECT(baked.steps == STEPS && baked.evaluations == inputs.evaluations);
    expect_same(&inputs, &baked);
    expect_same_file(one, many, TRAIN_MODEL);
    mem_free(one), mem_free(many);
}

TEST(a_budget_that_is_too_small_is_refused) {
    propane_error err = {0};
    static log_book l;
    bool restart;
    train_options o = options(NULL);
    o.plan = "six", o.weights = "baked", o.compile_budget = 5;
    EXPECT_FAIL(run(&o, &l, 0, &restart, &err), PROPANE_ERR_LIMIT, "may compile 5; give a larger --compile-budget");
    o.compile_budget = 15;
    EXPECT_FAIL(run(&o, &l, 0, &restart, &err), PROPANE_ERR_LIMIT, "there is no run folder to restart from");
}

TEST(does_not_depend_on_threads) {
    propane_error err = {0};
    static log_book one, three;
    bool restart;
    train_options o = options(NULL);
    o.checkpoint_interval = 0;
    EXPECT_OK(pool_set_threads(1, &err));
    EXPECT_OK(run(&o, &one, 0, &restart, &err));
    pool_stop();
    EXPECT_OK(pool_set_threads(3, &err));
    EXPECT_OK(run(&o, &three, 0, &restart, &err));
    expect_same(&one, &three);
}

static void refuse(train_options *o, const char *message) {
    propane_error err = {0};
    static log_book l;
    bool restart;
    EXPECT_FAIL(run(o, &l, 0, &restart, &err), PROPANE_ERR_INVALID, message);
}

TEST(a_checkpoint_of_another_run_is_refused) {
    propane_error err = {0};
    static log_book l;
    bool restart;
    char *dir = test_temp_dir(), path[1200];
    train_options o = options(dir), other;
    o.steps = 3;
    EXPECT_OK(run(&o, &l, 0, &restart, &err));
    refuse(&o, "already exists; give --resume");
    o.resume = true;
    other = o, other.lr = 0.5;
    refuse(&other, "was written with --lr 0.01, not 0.5");
    other = o, other.batch = 3;
    refuse(&other, "was written with --batch 2, not 3");
    other = o, other.min_lr = 0;
    refuse(&other, "--min-lr 0.001, not 0");
    other = o, other.precision = "fp16";
    refuse(&other, "--precision fp32, not fp16");
    other = o, other.steps = 5; /* more steps are allowed */
    EXPECT_OK(run(&other, &l, 0, &restart, &err));
    snprintf(path, sizeof path, "%s/%s", dir, TRAIN_CHECKPOINT);
    EXPECT(truncate(path, 3000) == 0);
    EXPECT(run(&o, &l, 0, &restart, &err) == PROPANE_ERR_INVALID && strstr(err.text, path));
    EXPECT(unlink(path) == 0);
    EXPECT_FAIL(run(&o, &l, 0, &restart, &err), PROPANE_ERR_NOT_FOUND, TRAIN_CHECKPOINT);
    mem_free(dir);
}

TEST(what_killed_writers_left_behind_is_removed) {
    propane_error err = {0};
    static log_book l;
    bool restart;
    char *dir = test_temp_dir(), path[1200];
    train_options o = options(dir);
    o.steps = 2;
    EXPECT_OK(run(&o, &l, 0, &restart, &err));
    snprintf(path, sizeof path, "%s/model.safetensors.tmp-0123456789abcdef", dir);
    EXPECT_OK(file_write(path, "half", 4, &err));
    o.resume = true, o.steps = 3;
    EXPECT_OK(run(&o, &l, 0, &restart, &err));
    EXPECT(!file_exists(path));
    mem_free(dir);
}

TEST(wrong_options_are_named) {
    train_options o = options(NULL);
    o.batch = 0;
    refuse(&o, "--batch is 0; it must be 1 to 65536");
    o = options(NULL), o.context = 17;
    refuse(&o, "--context is 17, but the model's max_position_embeddings is 16");
    o = options(NULL), o.min_lr = 1;
    refuse(&o, "--min-lr is 1; it must be 0 to 0.01");
    o = options(NULL), o.held_out = 0;
    refuse(&o, "--held-out is 0, so there is nothing to evaluate on");
    o = options(NULL), o.lr = NAN;
    refuse(&o, "--lr is nan");
    o = options(NULL), o.resume = true;
    refuse(&o, "--resume needs the run's folder");
    o = options(NULL), o.precision = "fp8";
    refuse(&o, "--precision is 'fp8'; it must be standard, auto, fp32, fp16 or bf16");
    propane_error err = {0};
    static log_book l;
    bool restart;
    o = options(NULL), o.plan = "seven";
    EXPECT_FAIL(run(&o, &l, 0, &restart, &err), PROPANE_ERR_NOT_FOUND,
                "there is no plan 'seven'; the plans are layer, six, ten");
}

TEST(the_restart_command_line_resumes_once) {
    propane_error err = {0};
    arena *a = arena_create();
    char words[9][10] = {"propane", "train", "--init", "m.bin", "--lr=1", "--resume", "--init=x", "--", "--resume"};
    char *before[9], **after;
    EXPECT(a);
    for (int i = 0; i < 9; i++) before[i] = words[i];
    EXPECT_OK(train_restart_arguments(9, before, a, &after, &err));
    static const char *const want[] = {"propane", "train", "--lr=1", "--resume", "--", "--resume"};
    for (int i = 0; i < 6; i++) EXPECT_TEXT(after[i], want[i]);
    EXPECT(after[6] == NULL);
    arena_free(a);
}

/* The program's name is never a flag, --init takes the next word unless it has its value, other flags stay. */
TEST(the_restart_command_line_keeps_everything_else) {
    propane_error err = {0};
    static const struct {
        const char *before[7], *after[8];
    } cases[] = {{{"--", "train"}, {"--", "train", "--resume"}},
                 {{"--init", "train", "--init", "m"}, {"--init", "train", "--resume"}},
                 {{"--resume", "x", "--resume", "--no-resume", "--resume=1"}, {"--resume", "x", "--resume"}},
                 {{"p", "train", "--initx", "--resumes", "y"}, {"p", "train", "--initx", "--resumes", "y", "--resume"}},
                 {{"p", "train", "--init"}, {"p", "train", "--resume"}},
                 {{"p", "--init", "--", "--lr", "1"}, {"p", "--lr", "1", "--resume"}},
                 {{"p", "--", "--init", "m"}, {"p", "--resume", "--", "--init", "m"}},
                 {{"p"}, {"p", "--resume"}}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        arena *a = arena_create();
        char words[7][20], *before[7], **after = NULL;
        int count = 0;
        for (; count < 7 && cases[k].before[count]; count++) {
            snprintf(words[count], sizeof words[count], "%s", cases[k].before[count]);
            before[count] = words[count];
        }
        EXPECT_OK(train_restart_arguments(count, before, a, &after, &err));
        for (int i = 0; i < 8; i++) {
            const char *want = cases[k].after[i];
            EXPECT_MSG(want ? after[i] && strcmp(after[i], want) == 0 : !after[i], "case %zu: word %d is '%s'", k, i,
                       after[i]);
            if (!want) break;
        }
        arena_free(a);
    }
}

SUITE("train/trainer", T(a_run_learns_evaluates_and_saves), T(every_target_counts_with_its_bytes),
      T(a_validation_reads_each_held_out_window_once), T(a_run_gives_its_model_away),
      T(resumed_at_every_step_it_is_the_same_run), T(resumed_with_fp16_and_accumulation),
      T(accumulation_is_a_larger_batch), T(stopped_inside_a_step_it_is_the_same_run),
      T(baked_weights_give_the_same_run), T(restarts_of_the_compile_budget_give_the_same_run),
      T(a_budget_that_is_too_small_is_refused), T(does_not_depend_on_threads),
      T(a_checkpoint_of_another_run_is_refused), T(what_killed_writers_left_behind_is_removed),
      T(wrong_options_are_named), T(the_restart_command_line_resumes_once),
      T(the_restart_command_line_keeps_everything_else))
