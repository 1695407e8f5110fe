/* SPDX-License-Identifier: MIT
 * propane train: text or tokens in, a run folder out (with a MODEL: cli/cmd/train_package.h). Ctrl-C finishes the step and writes a checkpoint; a compile budget
 * that is used up makes the command replace itself by exec() with --resume.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "chip/cost_model.h"
#include "cli/cli.h"
#include "cli/cmd/train_package.h"
#include "cli/corpus.h"
#include "cli/device_lab/power_meter.h"
#include "cli/device_lab/testbench.h"
#include "cli/progress.h"
#include "cli/run/run_folder.h"
#include "cli/run/telemetry.h"
#include "device/uri.h"
#include "model/files/store.h"
#include "train/checkpoint.h"
#include "train/dist/data_parallel.h"
#include "train/restart.h"
#include "train/step/weight_mode_check.h"
#include "train/trainer.h"

typedef struct train_job {
    train_options options;
    corpus_options corpus_options;
    corpus corpus;
    model_config config;
    model_weights *initial;
    int32_t *bytes_of_token;
    trainer *trainer;
    progress progress;
    char device[300];    /* with what --profile asks of it */
    energy_meter *meter; /* --power; NULL: not asked for */
    bool json, profile, report;
    const char *logdir;
    telemetry telemetry;
    int64_t start_ns, first_step;
    train_evaluation last_evaluation;
    arena *arena; /* texts of the resumed run's options */
    run_hold hold;
} train_job;

/* ---- what the run begins with ---------------------------------------------------------------------------------------------- */

typedef struct model_flags {
    const char *config, *init, *arch;
    int64_t layers, width, hidden, heads, kv_heads;
    bool tie;
    bool any_size; /* one of the sizes was given */
} model_flags;

static propane_status sizes_config(const model_flags *m, const train_job *j, model_config *c, propane_error *err) {
    PROPANE_TRY(model_config_default_of(c, m->arch, err));
    c->num_hidden_layers = m->layers;
    c->hidden_size = m->width;
    c->num_attention_heads = m->heads;
    c->num_key_value_heads = m->kv_heads ? m->kv_heads : m->heads;
    if (m->width % m->heads)
        return propane_fail(err, PROPANE_ERR_INVALID, "--width %" PRId64 " is not a multiple of --heads %" PRId64,
                            m->width, m->heads);
    c->head_dim = m->width / m->heads;
    /* A gated half's proportion, 8/3 of the width, in whole rows of 32; a plain one's is 4. */
    bool gated = model_arch_of(c)->mlp == ARCH_SILU_GATED;
    c->intermediate_size = m->hidden ? m->hidden : gated ? (m->width * 8 / 3 + 31) / 32 * 32 : 4 * m->width;
    c->tie_word_embeddings = m->tie;
    c->vocab_size = tokenizer_vocab_size(j->corpus.tokenizer);
    if (c->max_position_embeddings < j->options.context) c->max_position_embeddings = j->options.context;
    return model_config_check(c, "the model's sizes", err);
}

/* The model that a run of adapters was begun with, which may have moved since. */
static propane_status base_model(const char *init, const char *base, model_weights **out, propane_error *err) {
    propane_status status = run_model(init ? init : base, NULL, out, err);
    if (status == PROPANE_OK || init) return status;
    const propane_error why = *err;
    return propane_fail(err, status, "%.700s; the run was begun with that model: say with --init where it is",
                        why.text);
}

/* The configuration and, with --init, the weights that the run starts from. */
static propane_status choose_model(const model_flags *m, train_job *j, propane_error *err) {
    if (j->options.resume) { /* the run's own */
        char *path = run_path(j->options.run_dir, TRAIN_CONFIG);
        propane_status status = path ? model_config_read(path, &j->config, err) : propane_fail_memory(err, 0);
        mem_free(path);
        PROPANE_TRY(status);
        if (j->options.lora_rank > 0) /* the checkpoint has the adapters alone */
            PROPANE_TRY(base_model(m->init, j->options.base, &j->initial, err));
    } else if (m->init) {
        PROPANE_TRY(run_model(m->init, NULL, &j->initial, err));
        j->config = j->initial->config;
    } else if (m->config) {
        PROPANE_TRY(model_config_read(m->config, &j->config, err));
    } else {
        PROPANE_TRY(sizes_config(m, j, &j->config, err));
    }
    return run_vocabulary(m->init     ? m->init
                          : m->config ? m->config
                                      : j->options.run_dir,
                          j->config.vocab_size, j->corpus.tokenizer, err);
}

static propane_status count_bytes(train_job *j, propane_error *err) {
    size_t rows = (size_t)j->config.vocab_size; /* ids that the tokenizer lacks have no bytes */
    j->bytes_of_token = mem_array(rows, sizeof *j->bytes_of_token);
    if (!j->bytes_of_token) return propane_fail_memory(err, rows * sizeof *j->bytes_of_token);
    for (int i = 0; i < tokenizer_vocab_size(j->corpus.tokenizer); i++) {
        size_t length;
        tokenizer_piece(j->corpus.tokenizer, i, &length);
        j->bytes_of_token[i] = (int32_t)length;
    }
    return PROPANE_OK;
}

static propane_status prepare_folder(train_job *j, propane_error *err) {
    const char *dir = j->options.run_dir;
    return run_begin(dir, j->options.resume, run_holds(dir, TRAIN_MODEL), &j->hold, err);
}

/* A model that is trained further brings its tokenizer and its way to talk. */
static propane_status open_corpus(train_job *j, const char *init, propane_error *err) {
    model_form form;
    if (init && !j->options.resume) PROPANE_TRY(model_store_form(init, &form, err));
    char *vocabulary =
        j->options.resume && !j->corpus_options.tokenizer ? run_path(j->options.run_dir, RUN_TOKENIZER) : NULL;
    if (vocabulary) j->corpus_options.tokenizer = vocabulary;
    j->corpus_options.model = j->options.resume ? j->options.run_dir : init;
    j->corpus_options.chat = j->options.chat;
    propane_status status = corpus_open(&j->corpus_options, &j->corpus, err);
    if (vocabulary) j->corpus_options.tokenizer = NULL;
    mem_free(vocabulary);
    return status;
}

static propane_status save_tokenizer(const train_job *j, propane_error *err) {
    char *path = run_path(j->options.run_dir, RUN_TOKENIZER);
    propane_status status = path ? tokenizer_write(j->corpus.tokenizer, path, err) : propane_fail_memory(err, 0);
    mem_free(path);
    return status;
}

/* ---- what the run tells ---------------------------------------------------------------------------------------------------- */

/* "sim:m4?table=0": the model's roof of that chip against what the step's kernels did on it. */
static void tell_simulated(const char *uri, const train_report *r, progress_step *s) {
    char name[40];
    const chip *c = NULL;
    const char *rest = strchr(uri, ':');
    if (!rest) return;
    snprintf(name, sizeof name, "%.*s", (int)(strcspn(rest + 1, "?") < 39 ? strcspn(rest + 1, "?") : 39), rest + 1);
    if (chip_find(name, &c, NULL) != PROPANE_OK) return;
    s->simulated = c->title;
    s->energy_j = r->simulated.energy_j;
    s->utilisation =
        r->device_ms > 0 ? r->simulated.flops / (cost_constants_of(c->id)->tflops * 1e9 * r->device_ms) : 0;
}

static void on_step(void *context, const train_report *r) {
    train_job *j = context;
    double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    progress_step s = progress_of(r, seconds, j->first_step, j->options.steps);
    energy_reading used;
    propane_error ignored;
    if (j->meter && energy_read(j->meter, &used, &ignored) == PROPANE_OK) s.power = &used;
    if (r->simulated.simulated) tell_simulated(j->options.device, r, &s);
    telemetry_step(&j->telemetry, r, seconds, s.power);
    progress_show(&j->progress, &s);
    progress_flush();
}

static void on_evaluation(void *context, const train_evaluation *e) {
    train_job *j = context;
    j->last_evaluation = *e;
    telemetry_evaluation(&j->telemetry, e);
    if (j->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->val_loss);
        progress_number("val_nats_per_byte", e->val_nats_per_byte >= 0 ? e->val_nats_per_byte : NAN);
        printf("}\n");
    } else if (e->val_nats_per_byte >= 0) {
        progress_line(&j->progress, "step %" PRId64 "  validation: %.4f nats per token, %.4f nats per byte", e->step,
                      e->val_loss, e->val_nats_per_byte);
    } else {
        progress_line(&j->progress, "step %" PRId64 "  validation: %.4f nats per token", e->step, e->val_loss);
    }
    progress_flush();
}

static void on_checkpoint(void *context, int64_t step, const char *path) {
    train_job *j = context;
    progress_checkpoint(&j->progress, step, path, !j->options.checkpoint_interval || step == j->options.steps);
    progress_flush();
}

static void tell_start(const train_job *j) {
    const model_weights *w = trainer_weights(j->trainer);
    int64_t windows, cut, empty;
    if (j->json) return;
    const train_examples *e = &j->corpus.examples;
    if (j->corpus.instructions)
        printf("%s: %" PRId64 " examples, %" PRId64 " of %" PRId64 " tokens are learnt, chat format %s\n",
               j->corpus_options.text, e->count, e->learnt, j->corpus.count, chat_format_name(j->corpus.chat.format));
    trainer_tell_data(j->trainer, &windows, &cut, &empty);
    if (j->corpus.instructions)
        printf("%" PRId64 " windows of %" PRId64 " tokens; %" PRId64 " examples are longer and were cut, %" PRId64
               " of them have no answer left and are not used\n",
               windows, j->options.context, cut, empty);
    printf("%s: %" PRId64 " tokens, %s vocabulary of %d\n", j->corpus_options.text, j->corpus.count,
           tokenizer_kind_name(tokenizer_get_kind(j->corpus.tokenizer)), tokenizer_vocab_size(j->corpus.tokenizer));
    printf("model: %" PRId64 " parameters, %" PRId64 " layers, width %" PRId64 ", context %" PRId64 "\n", w->parameters,
           w->config.num_hidden_layers, w->config.hidden_size, j->options.context);
    int64_t learnt = trainer_learnt(j->trainer);
    if (w->adapter_count > 0)
        printf("adapters: rank %" PRId64 ", alpha %g, dropout %g, of %s; %" PRId64 " parameters are learnt\n",
               w->lora.rank, w->lora.alpha, w->lora.dropout, w->lora.modules, learnt);
    else if (learnt < w->parameters)
        printf("frozen: %" PRId64 " parameters are learnt, the others get no gradient and no optimizer state\n",
               learnt);
    printf("device %s, %s, plan %s, weights %s, threads %d\n", j->options.device, j->options.precision, j->options.plan,
           j->options.weights, pool_threads());
    const train_step *machine = trainer_machine(j->trainer);
    if (*train_step_device_note(machine))
        printf("kernels: %s; %s\n", train_step_sharing(machine), train_step_device_note(machine));
    if (j->options.mpi)
        printf("%d ranks, %" PRId64 " sequences of a batch each, gradients as %s%s\n", mpi_size(j->options.mpi),
               j->options.batch / mpi_size(j->options.mpi), j->options.wire,
               j->options.shard ? ", moments sharded" : "");
    if (trainer_step(j->trainer) > 0) printf("resumed after step %" PRId64 "\n", trainer_step(j->trainer));
    progress_flush();
}

/* A row for each kernel of the plan; what is no kernel (loss, embedding, AdamW, validation's part of them) is the rest. */
static void tell_profile(const train_job *j, double seconds) {
    const train_step *s = trainer_machine(j->trainer);
    double rest = seconds * 1e3, engine = 0, device = 0;
    bool given = false;
    if (!j->json)
        printf("%-14s %-6s %8s %11s %6s %9s %8s\n", "kernel", "place", "calls", "ms", "share", "GFLOP/s", "GB/s");
    for (int k = 0; k < train_step_kernel_count(s); k++) {
        train_kernel_time t = train_step_kernel_time(s, k);
        if (!t.calls) continue;
        double ns = (double)t.ns, rate = ns > 0 ? (double)t.calls / ns : 0;
        rest -= ns / 1e6;
        if (!t.host) device += ns;
        if (t.engine_ns >= 0) engine += (double)t.engine_ns, given = true;
        if (j->json) {
            printf("{\"event\":\"kernel\",\"kernel\":\"%s\",\"place\":\"%s\",\"calls\":%" PRId64
                   ",\"ms\":%.3f,\"gflops\":%.2f,\"gbytes_per_s\":%.2f",
                   t.name, t.host ? "host" : "device", t.calls, ns / 1e6, t.flops * rate, t.bytes * rate);
            if (device_is(j->options.device, "ane") && !t.host)
                progress_number("engine_ms", t.engine_ns >= 0 ? (double)t.engine_ns / 1e6 : NAN);
            printf("}\n");
        } else {
            printf("%-14s %-6s %8" PRId64 " %11.1f %5.1f%% %9.1f %8.2f\n", t.name, t.host ? "host" : "device", t.calls,
                   ns / 1e6, seconds > 0 ? ns / seconds / 1e7 : 0, t.flops * rate, t.bytes * rate);
        }
    }
    if (!j->json && seconds > 0)
        printf("%-14s %-6s %8s %11.1f %5.1f%%\n", "the rest", "host", "", rest, rest / seconds / 10);
    if (!j->json && device_is(j->options.device, "ane") && given)
        printf("the engine's own time: %.1f of the device's %.1f ms\n", engine / 1e6, device / 1e6);
    else if (!j->json && device_is(j->options.device, "ane"))
        printf("the engine's own time: not given by this engine\n");
}

static void tell_end(train_job *j) {
    double seconds = (double)(clock_ns() - j->start_ns) / 1e9;
    if (j->profile) tell_profile(j, seconds);
    if (j->json) {
        printf("{\"event\":\"done\",\"step\":%" PRId64 ",\"seconds\":%.3f", trainer_step(j->trainer), seconds);
        if (j->last_evaluation.step) progress_number("val_loss", j->last_evaluation.val_loss);
        if (j->last_evaluation.step && j->last_evaluation.val_nats_per_byte >= 0)
            progress_number("val_nats_per_byte", j->last_evaluation.val_nats_per_byte);
        if (j->corpus.unigram_nats >= 0) progress_number("unigram_nats_per_byte", j->corpus.unigram_nats);
        printf("}\n");
        return;
    }
    printf("done: %" PRId64 " steps in %.1f s; %s in %s\n", trainer_step(j->trainer) - j->first_step, seconds,
           j->options.lora_rank > 0 ? "adapter" : "model", j->options.run_dir);
    if (trainer_step(j->trainer) == j->first_step) printf("the run was complete already; a larger --steps goes on\n");
    if (j->last_evaluation.step && j->last_evaluation.val_nats_per_byte >= 0 && j->corpus.unigram_nats >= 0)
        printf("validation loss %.4f nats per byte; byte-unigram entropy of the text %.4f, half of it %.4f\n",
               j->last_evaluation.val_nats_per_byte, j->corpus.unigram_nats, j->corpus.unigram_nats / 2);
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

/* Replaces this process; returns only on an error. */
static propane_status restart(propane_error *err) {
    arena *a = arena_create();
    char **arguments = NULL;
    propane_status status =
        a ? train_restart_arguments(cli_argc, cli_argv, a, &arguments, err) : propane_fail_memory(err, 0);
    if (status == PROPANE_OK) {
        fflush(NULL);
        pool_stop();
        execvp(arguments[0], arguments);
        status = propane_fail(err, PROPANE_ERR_IO,
                              "%s cannot be started again: %s; the checkpoint is written: go on with --resume",
                              arguments[0], strerror(errno));
    }
    arena_free(a);
    return status;
}

/* --weights auto: the first mode that holds on the device. */
static propane_status choose_weights(train_job *j, propane_error *err) {
    text tried = {0};
    if (strcmp(j->options.weights, "auto") != 0) return PROPANE_OK;
    propane_status status = weight_mode_choose(j->options.device, &j->options.weights, &tried, err);
    if (status == PROPANE_OK && tried.length) fputs(tried.data, j->json ? stderr : stdout);
    text_deinit(&tried);
    return status;
}

/* An adapter that is trained further says its rank, its scale and what it adapts; the dropout is the run's. */
static propane_status take_adapter(train_job *j, propane_error *err) {
    model_lora l;
    train_options *o = &j->options;
    PROPANE_TRY(model_adapter_config(o->adapter, &j->config, &l, err));
    if (l.rank_root)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: use_rslora is set; such adapters are not trained further", o->adapter);
    if (!j->arena) j->arena = arena_create();
    o->lora_rank = l.rank;
    o->lora_alpha = l.alpha;
    o->lora_targets = j->arena ? arena_string(j->arena, l.modules) : NULL;
    return o->lora_targets ? PROPANE_OK : propane_fail_memory(err, sizeof l.modules);
}

static propane_status run(train_job *j, const model_flags *m, bool *again, propane_error *err) {
    if (j->profile) j->options.device = rig_statistics_uri(j->options.device, j->device);
    bool writes = data_parallel_writes(j->options.mpi);
    if (writes) PROPANE_TRY(prepare_folder(j, err));
    PROPANE_TRY(open_corpus(j, m->init, err));
    PROPANE_TRY(choose_model(m, j, err));
    if (*j->options.adapter && !j->options.resume) PROPANE_TRY(take_adapter(j, err));
    PROPANE_TRY(count_bytes(j, err));
    int id_bytes;
    const void *ids = corpus_ids(&j->corpus, &id_bytes);
    const train_input input = {&j->config,
                               j->initial,
                               ids,
                               id_bytes,
                               j->corpus.count,
                               j->corpus.instructions ? &j->corpus.examples : NULL,
                               j->corpus_options.text,
                               tokenizer_hash(j->corpus.tokenizer),
                               j->bytes_of_token};
    PROPANE_TRY(choose_weights(j, err));
    PROPANE_TRY(trainer_create(&j->options, &input, &j->trainer, err));
    if (writes && !j->options.resume) PROPANE_TRY(save_tokenizer(j, err));
    if (writes && !j->options.resume && m->init) PROPANE_TRY(run_copy_chat(m->init, j->options.run_dir, err));
    if (writes) PROPANE_TRY(telemetry_open(&j->telemetry, &j->options, j->logdir, j->trainer, &j->corpus, err));
    tell_start(j);
    progress_init(&j->progress, j->json, j->options.steps);
    j->start_ns = clock_ns();
    j->first_step = trainer_step(j->trainer);
    const train_callbacks callbacks = {j, on_step, on_evaluation, on_checkpoint};
    cli_catch_signals(); /* until here Ctrl-C ends the process at once: there is nothing to lose yet */
    propane_status status = trainer_run(j->trainer, &callbacks, &cli_interrupted, again, err);
    progress_end(&j->progress);
    if (status == PROPANE_OK && *again && cli_interrupted)
        status = propane_fail(err, PROPANE_ERR_CANCELLED,
                              "stopped after step %" PRId64 " of %" PRId64 "; go on with --resume",
                              trainer_step(j->trainer), j->options.steps);
    if (writes)
        telemetry_end(&j->telemetry,
                      status == PROPANE_ERR_CANCELLED ? "stopped"
                      : status != PROPANE_OK          ? "failed"
                      : *again                        ? "restart"
                                                      : "done",
                      trainer_step(j->trainer));
    if (status == PROPANE_OK && !*again && writes && j->report)
        status = telemetry_report(&j->telemetry, trainer_weights(j->trainer), &j->corpus, err);
    if (status == PROPANE_OK && !*again) tell_end(j);
    if (j->json && (status != PROPANE_OK || *again))
        printf("{\"event\":\"%s\",\"step\":%" PRId64 "}\n",
               status == PROPANE_OK              ? "restart"
               : status == PROPANE_ERR_CANCELLED ? "stopped"
                                                 : "failed",
               trainer_step(j->trainer));
    return status;
}

static void job_deinit(train_job *j) {
    telemetry_close(&j->telemetry);
    trainer_free(j->trainer);
    corpus_close(&j->corpus);
    model_weights_free(j->initial);
    mem_free(j->bytes_of_token);
    arena_free(j->arena);
    run_end(j->options.run_dir, &j->hold);
}

/* A resumed run takes up the options that it was begun with, as far as there is a run. */
static propane_status recall(train_job *j, propane_error *err) {
    if (!run_holds(j->options.run_dir, TRAIN_CHECKPOINT)) return PROPANE_OK; /* told later */
    char *path = run_path(j->options.run_dir, TRAIN_CHECKPOINT);
    j->arena = arena_create();
    propane_status status =
        path && j->arena ? train_checkpoint_recall(path, j->arena, &j->options, err) : propane_fail_memory(err, 0);
    mem_free(path);
    return status;
}

/* Where mpirun started this process: the other ranks. Rank 0 alone tells and writes. Ranks on one machine share its cores,
 * unless mpirun has given each its own. */
static propane_status join_ranks(train_options *o, int64_t *threads, propane_error *err) {
    if (!mpi_started()) return PROPANE_OK;
    PROPANE_TRY(mpi_open(&o->mpi, err));
    int usable = pool_usable_cores(), here = mpi_local_size(o->mpi);
    if (*threads == 0 && !getenv("PROPANE_THREADS") && here > 1 && usable == pool_machine_cores())
        *threads = usable / here > 0 ? usable / here : 1;
    if (data_parallel_writes(o->mpi) || freopen("/dev/null", "w", stdout)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_IO, "/dev/null: %s", strerror(errno));
}

/* One rank's failure is everybody's: the others would wait for ever. The last checkpoint stays as it is. */
static void end_ranks(mpi *m, propane_error *err) {
    propane_error told = {.status = err->status};
    snprintf(told.text, sizeof told.text, "rank %d of %d: %.900s", mpi_rank(m), mpi_size(m), err->text);
    int code = cli_error("train", &told);
    fflush(NULL);
    mpi_abort(m, code);
}

int cmd_train(int argc, char **argv) {
    if (tune_asked(argc, argv)) return tune_command(argc, argv);
    train_job j = {.report = true, .corpus_options = {.kind = "bpe"}, .hold = {.lock = -1}};
    train_options *o = &j.options;
    train_options_default(o);
    o->weights = "auto";
    o->run_dir = "propane-run";
    model_flags m = {.layers = 4, .width = 192, .heads = 6, .tie = true, .arch = "llama"};
    int64_t vocab = 1024, threads = 0;
    bool power = false, kind_given = false, vocab_given = false, pack = true, lora_given = false, recompute = false,
         compact = false, min_lr_given = false, chat_given = false;
    const cli_flag flags[] = {
        {NULL, CLI_HEADING, NULL, .help = "Text"},
        {"--data", CLI_TEXT, &j.corpus_options.text, .words = "FILE",
         .help = "a text, a token file of 'propane tokenize', or instruction data (.jsonl)", .required = true},
        {"--tokenizer", CLI_TEXT, &j.corpus_options.tokenizer, .words = "FILE",
         .help = "use this vocabulary instead of learning one"},
        {"--kind", CLI_CHOICE, &j.corpus_options.kind, .words = "bpe|chars|bytes",
         .help = "the vocabulary that is learnt", .given = &kind_given},
        {"--vocab", CLI_INT, &vocab, 257, 65536, "N", "ids that bpe may have", .given = &vocab_given},
        {"--held-out", CLI_REAL, &o->held_out, 0, 0.5, "X", "part of the text that is kept for validation"},
        {"--chat", CLI_TEXT, &o->chat, .words = "NAME",
         .help = "chat format of a .jsonl file, instead of the model's own", .given = &chat_given},
        {"--pack", CLI_SWITCH, &pack, .help = "several examples of a .jsonl file in a window (--no-pack: one)"},
        {NULL, CLI_HEADING, NULL, .help = "Model"},
        {"--init", CLI_TEXT, &m.init, .words = "MODEL", .help = "start from this model's weights"},
        {"--config", CLI_TEXT, &m.config, .words = "FILE",
         .help = "a Hugging Face config.json instead of the sizes below"},
        {"--arch", CLI_TEXT, &m.arch, .words = "NAME", .help = "llama, qwen2, qwen3 or gpt2", .given = &m.any_size},
        {"--layers", CLI_INT, &m.layers, 1, 1000, "N", "layers", .given = &m.any_size},
        {"--width", CLI_INT, &m.width, 2, 65536, "N", "hidden size", .given = &m.any_size},
        {"--hidden", CLI_INT, &m.hidden, 0, 262144, "N", "of the feed-forward half; 0: 8/3 of the width, gpt2: 4",
         .given = &m.any_size},
        {"--heads", CLI_INT, &m.heads, 1, 4096, "N", "attention heads", .given = &m.any_size},
        {"--kv-heads", CLI_INT, &m.kv_heads, 0, 4096, "N", "key and value heads; 0: as many as heads",
         .given = &m.any_size},
        {"--tie", CLI_SWITCH, &m.tie, .help = "the output head is the embedding (--no-tie: its own)",
         .given = &m.any_size},
        {NULL, CLI_HEADING, NULL, .help = "What is learnt"},
        {"--trainable", CLI_TEXT, &o->trainable, .words = "LIST",
         .help = "only tensors with such names: parts of them, or patterns with *, separated by commas"},
        {"--freeze", CLI_TEXT, &o->freeze, .words = "LIST", .help = "not these: no gradient, no optimizer state"},
        {"--adapter", CLI_TEXT, &o->adapter, .words = "DIR", .help = "go on training this LoRA adapter"},
        {"--lora-rank", CLI_INT, &o->lora_rank, 0, 4096, "N", "adapters of that rank instead of the weights; 0: none",
         .given = &lora_given},
        {"--lora-alpha", CLI_REAL, &o->lora_alpha, 1e-6, 1e6, "X", "the adapters' scale is alpha / rank",
         .given = &lora_given},
        {"--lora-dropout", CLI_REAL, &o->lora_dropout, 0, 0.99, "X", "of what the adapters read"},
        {"--lora-targets", CLI_TEXT, &o->lora_targets, .words = "LIST",
         .help = "matrices that get one, or all; else q_proj,v_proj (gpt2: c_attn)", .given = &lora_given},
        {"--compact-vocab", CLI_SWITCH, &compact, .help = "learn and predict only ids that occur in the data"},
        {NULL, CLI_HEADING, NULL, .help = "Training"},
        {"--steps", CLI_INT, &o->steps, 1, 1e12, "N", "optimiser steps"},
        {"--batch", CLI_INT, &o->batch, 1, 65536, "N", "sequences at a time"},
        {"--context", CLI_INT, &o->context, 1, 1048576, "N", "tokens of a sequence"},
        {"--accumulate", CLI_INT, &o->accumulate, 1, 65536, "N", "batches whose gradients make one step"},
        {"--lr", CLI_REAL, &o->lr, 0, 100, "X", "peak learning rate"},
        {"--min-lr", CLI_REAL, &o->min_lr, 0, 100, "X",
         "where the cosine ends; not given: that, or a tenth of a smaller --lr", .given = &min_lr_given},
        {"--warmup", CLI_INT, &o->warmup, 0, 1e12, "N", "steps of linear rise"},
        {"--weight-decay", CLI_REAL, &o->weight_decay, 0, 10, "X", "of matrices, not of norms"},
        {"--beta1", CLI_REAL, &o->beta1, 0, 0.999999, "X", "AdamW"},
        {"--beta2", CLI_REAL, &o->beta2, 0, 0.999999, "X", "AdamW"},
        {"--epsilon", CLI_REAL, &o->epsilon, 0, 1, "X", "AdamW"},
        {"--clip", CLI_REAL, &o->clip, 0, 1e9, "X", "largest length of the gradient; 0: any"},
        {"--seed", CLI_INT, &o->seed, 0, 9e15, "N", "of weights and of the data's order"},
        {NULL, CLI_HEADING, NULL, .help = "Machine"},
        {"--device", CLI_TEXT, &o->device, .words = "URI", .help = "see 'propane devices'"},
        {"--precision", CLI_CHOICE, &o->precision, .words = "fp32|fp16|bf16",
         .help = "of the device's programs; bf16: of the products' operands"},
        {"--plan", CLI_TEXT, &o->plan, .words = "NAME", .help = "layer, six or ten: see 'propane plan'"},
        {"--weights", CLI_CHOICE, &o->weights, .words = "auto|inputs|packed|baked|reload",
         .help = "how programs get their weights; auto: the first way that holds on the device"},
        {"--compile-budget", CLI_INT, &o->compile_budget, 0, 1e9, "N",
         "programs a process may compile; 0: the device's limit"},
        {"--recompute", CLI_SWITCH, &recompute,
         .help = "compute activations again for the backward pass: less memory, more time, the same numbers"},
        {"--threads", CLI_INT, &threads, 0, 256, "N", "0: one per core"},
        {NULL, CLI_HEADING, NULL, .help = "Several processes: mpirun -n N propane train ... (Open MPI)"},
        {"--wire", CLI_CHOICE, &o->wire, .words = "fp32|bf16|fp16", .help = "how gradients travel between the ranks"},
        {"--shard", CLI_SWITCH, &o->shard, .help = "each rank keeps its part of the moments only (ZeRO stage 1)"},
        {"--bucket", CLI_INT, &o->bucket, 0, 1 << 30, "N", "bytes of gradients that travel together; 0: 4 MB"},
        {NULL, CLI_HEADING, NULL, .help = "Run"},
        {"--run", CLI_TEXT, &o->run_dir, .words = "DIR", .help = "folder for checkpoint, tokenizer and model"},
        {"--resume", CLI_SWITCH, &o->resume, .help = "go on from the folder's checkpoint"},
        {"--eval-every", CLI_INT, &o->eval_interval, 0, 1e12, "N", "steps between validations; 0: at the end only"},
        {"--eval-batches", CLI_INT, &o->eval_batches, 1, 1e9, "N", "batches of a validation"},
        {"--checkpoint-every", CLI_INT, &o->checkpoint_interval, 0, 1e12, "N", "steps; 0: at the end only"},
        {"--power", CLI_SWITCH, &power,
         .help = "tell the joules that the machine used for each step, see 'propane power'"},
        {"--profile", CLI_SWITCH, &j.profile,
         .help = "at the end tell where the time went: calls and rates of each kernel"},
        {"--json", CLI_SWITCH, &j.json, .help = "one JSON object a line instead of text"},
        {"--logdir", CLI_TEXT, &j.logdir, .words = "DIR",
         .help = "TensorBoard event files, in a folder of the run's name"},
        {"--report", CLI_SWITCH, &j.report, .help = "report.html in the run's folder at the end"},
    };
    static const char usage[] = "train --data FILE [flags]  (a Core ML model: propane train MODEL --help)";
    static const char about[] = "Trains a language model on a text. Every device computation is a MIL program. "
                                "Ctrl-C writes a checkpoint after the batch at hand; --resume goes on from it bit for "
                                "bit, with the options that the run was begun with.";
    propane_error err = {0};
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], usage, about);
    if (code < 0 && o->resume) { /* what the command line says goes over what the run's checkpoint says */
        if (recall(&j, &err) != PROPANE_OK) {
            code = cli_error("train", &err);
        } else {
            pack = o->pack != 0;
            recompute = o->recompute != 0;
            compact = o->compact_vocab != 0;
            code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], usage, about);
        }
    }
    if (code >= 0) {
        arena_free(j.arena);
        return code;
    }
    if (vocab_given && strcmp(j.corpus_options.kind, "bpe") != 0)
        return cli_misuse("train", "--vocab is for --kind bpe; %s has as many ids as it needs", j.corpus_options.kind);
    if (j.corpus_options.tokenizer && (kind_given || vocab_given))
        return cli_misuse("train", "--tokenizer takes a vocabulary that exists; %s would learn one",
                          kind_given ? "--kind" : "--vocab");
    if (m.init && (kind_given || vocab_given))
        return cli_misuse("train", "--init brings the model's own vocabulary; %s would learn another",
                          kind_given ? "--kind" : "--vocab");
    if (*o->adapter && (lora_given || !(m.init || o->resume)))
        return cli_misuse("train", lora_given ? "--adapter says the adapter's rank, alpha and targets"
                                              : "--adapter needs the model that it is for: give --init");
    if (m.init && m.config) return cli_misuse("train", "--init brings its own configuration; leave out --config");
    if ((m.init || m.config) && m.any_size)
        return cli_misuse(
            "train",
            "%s says the model's sizes; leave out --arch, --layers, --width, --hidden, --heads, --kv-heads, --tie",
            m.init ? "--init" : "--config");
    if (!min_lr_given && !o->resume) o->min_lr = fmin(o->min_lr, o->lr / 10);
    if (chat_given && !train_jsonl_is(j.corpus_options.text))
        return cli_misuse("train", "--chat is for instruction data (.jsonl); %s is a text", j.corpus_options.text);
    j.corpus_options.vocab = (int)vocab;
    if (m.init) o->base = m.init;
    o->pack = pack;
    o->recompute = recompute;
    o->compact_vocab = compact;

    bool again = false;
    propane_status status = join_ranks(o, &threads, &err);
    if (status == PROPANE_OK) status = pool_set_threads((int)threads, &err);
    if (status == PROPANE_OK && power) status = power_open(&j.meter, &err);
    if (status == PROPANE_OK) status = run(&j, &m, &again, &err);
    energy_close(j.meter);
    if (o->mpi && status != PROPANE_OK && status != PROPANE_ERR_CANCELLED) end_ranks(o->mpi, &err);
    job_deinit(&j);
    bool told = data_parallel_writes(o->mpi);
    mpi_close(o->mpi);
    if (status == PROPANE_ERR_CANCELLED && !told) return CLI_OK; /* rank 0 has said it */
    if (status == PROPANE_OK && again) status = restart(&err);
    return status == PROPANE_OK ? CLI_OK : cli_error("train", &err);
}
