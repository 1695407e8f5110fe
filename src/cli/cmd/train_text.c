/* SPDX-License-Identifier: MIT
 * propane train without a MODEL: text or tokens in, a language model's run folder out.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/run_folder.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/pool.h"
#include "cli/cmd/train_command.h"
#include "cli/cmd/train_job.h"
#include "cli/device_lab/power_meter.h"
#include "cli/device_lab/testbench.h"
#include "device/uri.h"
#include "model/files/model_tokenizer.h"
#include "model/files/store.h"
#include "train/data/corpus.h"
#include "train/dist/data_parallel.h"
#include "train/language_run.h"
#include "train/step/weight_mode_check.h"

typedef struct text_job {
    train_job job;
    corpus_options corpus_options;
    corpus corpus;
    model_config config;
    model_weights *initial;
    int32_t *bytes_of_token;
    char device[300]; /* with what --profile asks of it */
} text_job;

/* ---- what the run begins with ---------------------------------------------------------------------------------------------- */

typedef struct text_model_flags {
    int64_t vocab;
    bool power, kind_given, vocab_given;
    const char *config, *init, *arch;
    int64_t layers, width, hidden, heads, kv_heads;
    bool tie;
    bool any_size; /* one of the sizes was given */
} text_model_flags;

static propane_status train_text_sizes_config(const text_model_flags *m, const text_job *j, model_config *c,
                                              propane_error *err) {
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
    if (c->max_position_embeddings < j->job.options.context) c->max_position_embeddings = j->job.options.context;
    return model_config_check(c, "the model's sizes", err);
}

/* The model that a run of adapters was begun with, which may have moved since. */
static propane_status train_text_base_model(const char *init, const char *base, model_weights **out,
                                            propane_error *err) {
    propane_status status = run_model(init ? init : base, NULL, out, err);
    if (status == PROPANE_OK || init) return status;
    const propane_error why = *err;
    return propane_fail(err, status, "%.700s; the run was begun with that model: say with --init where it is",
                        why.text);
}

/* The configuration and, with --init, the weights that the run starts from. */
static propane_status train_text_choose_model(const text_model_flags *m, text_job *j, propane_error *err) {
    if (j->job.options.resume) { /* the run's own */
        char *path = run_path(j->job.options.run_dir, TRAIN_CONFIG);
        propane_status status = path ? model_config_read(path, &j->config, err) : propane_fail_memory(err, 0);
        mem_free(path);
        PROPANE_TRY(status);
        if (j->job.options.lora_rank > 0) /* the checkpoint has the adapters alone */
            PROPANE_TRY(train_text_base_model(m->init, j->job.options.base, &j->initial, err));
    } else if (m->init) {
        PROPANE_TRY(run_model(m->init, NULL, &j->initial, err));
        j->config = j->initial->config;
    } else if (m->config) {
        PROPANE_TRY(model_config_read(m->config, &j->config, err));
    } else {
        PROPANE_TRY(train_text_sizes_config(m, j, &j->config, err));
    }
    return run_vocabulary(m->init     ? m->init
                          : m->config ? m->config
                                      : j->job.options.run_dir,
                          j->config.vocab_size, j->corpus.tokenizer, err);
}

static propane_status train_text_count_bytes(text_job *j, propane_error *err) {
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

static propane_status train_text_prepare_folder(text_job *j, propane_error *err) {
    const char *dir = j->job.options.run_dir;
    return run_begin(dir, j->job.options.resume, run_holds(dir, TRAIN_MODEL), &j->job.hold, err);
}

/* A model that is trained further brings its tokenizer and its way to talk. */
static propane_status train_text_open_corpus(text_job *j, const char *init, propane_error *err) {
    model_form form;
    if (init && !j->job.options.resume) PROPANE_TRY(model_store_form(init, &form, err));
    char *vocabulary = j->job.options.resume && !j->corpus_options.tokenizer
                           ? run_path(j->job.options.run_dir, MODEL_TOKENIZER)
                           : NULL;
    if (vocabulary) j->corpus_options.tokenizer = vocabulary;
    j->corpus_options.model = j->job.options.resume ? j->job.options.run_dir : init;
    j->corpus_options.chat = j->job.options.chat;
    propane_status status = corpus_open(&j->corpus_options, &j->corpus, err);
    if (vocabulary) j->corpus_options.tokenizer = NULL;
    mem_free(vocabulary);
    return status;
}

static propane_status train_text_save_tokenizer(const text_job *j, propane_error *err) {
    char *path = run_path(j->job.options.run_dir, MODEL_TOKENIZER);
    propane_status status = path ? tokenizer_write(j->corpus.tokenizer, path, err) : propane_fail_memory(err, 0);
    mem_free(path);
    return status;
}

/* ---- what the run tells ---------------------------------------------------------------------------------------------------- */

static void train_text_tell_evaluation(train_job *job, const train_evaluation *e) {
    if (job->json) {
        printf("{\"step\":%" PRId64, e->step);
        progress_number("val_loss", e->val_loss);
        progress_number("val_nats_per_byte", e->val_nats_per_byte >= 0 ? e->val_nats_per_byte : NAN);
        printf("}\n");
    } else if (e->val_nats_per_byte >= 0) {
        progress_line(&job->progress, "step %" PRId64 "  validation: %.4f nats per token, %.4f nats per byte", e->step,
                      e->val_loss, e->val_nats_per_byte);
    } else {
        progress_line(&job->progress, "step %" PRId64 "  validation: %.4f nats per token", e->step, e->val_loss);
    }
}

static void train_text_tell_start(const train_job *job) {
    const text_job *j = (const text_job *)job;
    const model_weights *w = language_run_weights(j->job.run);
    int64_t windows, cut, empty;
    const train_examples *e = &j->corpus.examples;
    if (j->corpus.instructions)
        printf("%s: %" PRId64 " examples, %" PRId64 " of %" PRId64 " tokens are learnt, chat format %s\n",
               j->corpus_options.text, e->count, e->learnt, j->corpus.count, chat_format_name(j->corpus.chat.format));
    language_run_tell_data(j->job.run, &windows, &cut, &empty);
    if (j->corpus.instructions)
        printf("%" PRId64 " windows of %" PRId64 " tokens; %" PRId64 " examples are longer and were cut, %" PRId64
               " of them have no answer left and are not used\n",
               windows, j->job.options.context, cut, empty);
    printf("%s: %" PRId64 " tokens, %s vocabulary of %d\n", j->corpus_options.text, j->corpus.count,
           tokenizer_kind_name(tokenizer_get_kind(j->corpus.tokenizer)), tokenizer_vocab_size(j->corpus.tokenizer));
    printf("model: %" PRId64 " parameters, %" PRId64 " layers, width %" PRId64 ", context %" PRId64 "\n", w->parameters,
           w->config.num_hidden_layers, w->config.hidden_size, j->job.options.context);
    int64_t learnt = language_run_learnt(j->job.run);
    if (w->adapter_count > 0)
        printf("adapters: rank %" PRId64 ", alpha %g, dropout %g, of %s; %" PRId64 " parameters are learnt\n",
               w->lora.rank, w->lora.alpha, w->lora.dropout, w->lora.modules, learnt);
    else if (learnt < w->parameters)
        printf("frozen: %" PRId64 " parameters are learnt, the others get no gradient and no optimizer state\n",
               learnt);
    printf("device %s, %s, plan %s, weights %s, threads %d\n", j->job.options.device, j->job.options.precision,
           j->job.options.plan, j->job.options.weights, pool_threads());
    const train_step *machine = language_run_step(j->job.run);
    if (*train_step_device_note(machine))
        printf("kernels: %s; %s\n", train_step_sharing(machine), train_step_device_note(machine));
    if (j->job.options.mpi)
        printf("%d ranks, %" PRId64 " sequences of a batch each, gradients as %s%s\n", mpi_size(j->job.options.mpi),
               j->job.options.batch / mpi_size(j->job.options.mpi), j->job.options.wire,
               j->job.options.shard ? ", moments sharded" : "");
    if (train_run_steps_done(j->job.run) > 0)
        printf("resumed after step %" PRId64 "\n", train_run_steps_done(j->job.run));
    progress_flush();
}

/* A row for each kernel of the plan; what is no kernel (loss, embedding, AdamW, validation's part of them) is the rest. */
static void train_text_tell_profile(const text_job *j, double seconds) {
    const train_step *s = language_run_step(j->job.run);
    double rest = seconds * 1e3, engine = 0, device = 0;
    bool given = false;
    if (!j->job.json)
        printf("%-14s %-6s %8s %11s %6s %9s %8s\n", "kernel", "place", "calls", "ms", "share", "GFLOP/s", "GB/s");
    for (int k = 0; k < train_step_kernel_count(s); k++) {
        train_kernel_time t = train_step_kernel_time(s, k);
        if (!t.calls) continue;
        double ns = (double)t.ns, rate = ns > 0 ? (double)t.calls / ns : 0;
        rest -= ns / 1e6;
        if (!t.host) device += ns;
        if (t.engine_ns >= 0) engine += (double)t.engine_ns, given = true;
        if (j->job.json) {
            printf("{\"event\":\"kernel\",\"kernel\":\"%s\",\"place\":\"%s\",\"calls\":%" PRId64
                   ",\"ms\":%.3f,\"gflops\":%.2f,\"gbytes_per_s\":%.2f",
                   t.name, t.host ? "host" : "device", t.calls, ns / 1e6, t.flops * rate, t.bytes * rate);
            if (device_is(j->job.options.device, "ane") && !t.host)
                progress_number("engine_ms", t.engine_ns >= 0 ? (double)t.engine_ns / 1e6 : NAN);
            printf("}\n");
        } else {
            printf("%-14s %-6s %8" PRId64 " %11.1f %5.1f%% %9.1f %8.2f\n", t.name, t.host ? "host" : "device", t.calls,
                   ns / 1e6, seconds > 0 ? ns / seconds / 1e7 : 0, t.flops * rate, t.bytes * rate);
        }
    }
    if (!j->job.json && seconds > 0)
        printf("%-14s %-6s %8s %11.1f %5.1f%%\n", "the rest", "host", "", rest, rest / seconds / 10);
    if (!j->job.json && device_is(j->job.options.device, "ane") && given)
        printf("the engine's own time: %.1f of the device's %.1f ms\n", engine / 1e6, device / 1e6);
    else if (!j->job.json && device_is(j->job.options.device, "ane"))
        printf("the engine's own time: not given by this engine\n");
}

static propane_status train_text_tell_end(train_job *job, double seconds, propane_error *err) {
    const text_job *j = (const text_job *)job;
    const train_evaluation *e = &job->last;
    const double unigram = j->corpus.unigram_nats;
    char what[1200];
    (void)err;
    if (job->profile) train_text_tell_profile(j, seconds);
    if (job->json) {
        printf("{\"event\":\"done\",\"step\":%" PRId64 ",\"seconds\":%.3f", train_run_steps_done(job->run), seconds);
        if (e->step) progress_number("val_loss", e->val_loss);
        if (e->step && e->val_nats_per_byte >= 0) progress_number("val_nats_per_byte", e->val_nats_per_byte);
        if (unigram >= 0) progress_number("unigram_nats_per_byte", unigram);
        printf("}\n");
        return PROPANE_OK;
    }
    snprintf(what, sizeof what, "%s in %s", job->options.lora_rank > 0 ? "adapter" : "model", job->options.run_dir);
    train_job_tell_done(job, seconds, what);
    if (e->step && e->val_nats_per_byte >= 0 && unigram >= 0)
        printf("validation loss %.4f nats per byte; byte-unigram entropy of the text %.4f, half of it %.4f\n",
               e->val_nats_per_byte, unigram, unigram / 2);
    return PROPANE_OK;
}

static propane_status train_text_report(train_job *job, propane_error *err) {
    return telemetry_report(&job->telemetry, language_run_weights(job->run), &((text_job *)job)->corpus, err);
}

static void train_text_put_facts(const train_job *job, json_t *record) {
    const text_job *j = (const text_job *)job;
    const train_options *o = train_run_options(job->run);
    const model_weights *w = language_run_weights(job->run);
    const model_config *c = &w->config;
    const train_step *step = language_run_step(job->run);
    json_put(record, "tokens_per_step", json_integer(o->batch * o->context * o->accumulate));
    json_put(record, "architecture", json_string(c->model_type));
    json_put(record, "parameters", json_integer(w->parameters));
    json_put(record, "learnt", json_integer(language_run_learnt(job->run)));
    json_put(record, "layers", json_integer(c->num_hidden_layers));
    json_put(record, "width", json_integer(c->hidden_size));
    json_put(record, "heads", json_integer(c->num_attention_heads));
    json_put(record, "kv_heads", json_integer(c->num_key_value_heads));
    json_put(record, "vocabulary", json_integer(c->vocab_size));
    if (w->adapter_count > 0) /* those that were meant, where the option left it open */
        json_put(record, train_option_rows[TRAIN_OPTION_lora_targets].key, json_string(w->lora.modules));
    json_put(record, "tokens", json_integer(j->corpus.count));
    if (j->corpus.instructions) json_put(record, "examples", json_integer(j->corpus.examples.count));
    if (!*train_step_device_note(step)) return;
    json_put(record, "programs", json_string(train_step_sharing(step)));
    json_put(record, "device_note", json_string(train_step_device_note(step)));
}

static const train_job_kind text_kind = {
    "tokens",          train_text_tell_start, train_text_tell_evaluation, train_text_put_facts, train_text_tell_end,
    train_text_report,
};

/* ---- making the run ------------------------------------------------------------------------------------------------------------ */

/* --weights auto: the first mode that holds on the device. */
static propane_status train_text_choose_weights(text_job *j, propane_error *err) {
    text tried = {0};
    if (strcmp(j->job.options.weights, "auto") != 0) return PROPANE_OK;
    propane_status status = weight_mode_choose(j->job.options.device, &j->job.options.weights, &tried, err);
    if (status == PROPANE_OK && tried.length) fputs(tried.data, j->job.json ? stderr : stdout);
    text_deinit(&tried);
    return status;
}

/* An adapter that is trained further says its rank, its scale and what it adapts; the dropout is the run's. */
static propane_status train_text_take_adapter(text_job *j, propane_error *err) {
    model_lora l;
    train_options *o = &j->job.options;
    PROPANE_TRY(model_adapter_config(o->adapter, &j->config, &l, err));
    if (l.rank_root)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "%s: use_rslora is set; such adapters are not trained further", o->adapter);
    o->lora_rank = l.rank;
    o->lora_alpha = l.alpha;
    o->lora_targets = arena_string(j->job.arena, l.modules);
    return o->lora_targets ? PROPANE_OK : propane_fail_memory(err, sizeof l.modules);
}

/* Where mpirun started this process: the other ranks. Rank 0 alone tells and writes. Ranks on one machine share its cores,
 * unless mpirun has given each its own. */
static propane_status train_text_join_ranks(train_options *o, int64_t *threads, propane_error *err) {
    if (!mpi_started()) return PROPANE_OK;
    PROPANE_TRY(mpi_open(&o->mpi, err));
    int usable = pool_usable_cores(), here = mpi_local_size(o->mpi);
    if (*threads == 0 && !getenv("PROPANE_THREADS") && here > 1 && usable == pool_machine_cores())
        *threads = usable / here > 0 ? usable / here : 1;
    if (data_parallel_writes(o->mpi) || freopen("/dev/null", "w", stdout)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_IO, "/dev/null: %s", strerror(errno));
}

/* One rank's failure is everybody's: the others would wait for ever. The last checkpoint stays as it is. */
static void train_text_end_ranks(mpi *m, propane_error *err) {
    propane_error told = {.status = err->status};
    snprintf(told.text, sizeof told.text, "rank %d of %d: %.900s", mpi_rank(m), mpi_size(m), err->text);
    int code = cli_error("train", &told);
    fflush(NULL);
    mpi_abort(m, code);
}

/* ---- the command ------------------------------------------------------------------------------------------------------------- */

static propane_status train_text_run(text_job *j, const text_model_flags *m, bool *again, propane_error *err) {
    train_options *o = &j->job.options;
    if (j->job.profile) o->device = rig_statistics_uri(o->device, j->device);
    const bool writes = data_parallel_writes(o->mpi);
    if (writes) PROPANE_TRY(train_text_prepare_folder(j, err));
    PROPANE_TRY(train_text_open_corpus(j, m->init, err));
    PROPANE_TRY(train_text_choose_model(m, j, err));
    if (*o->adapter && !o->resume) PROPANE_TRY(train_text_take_adapter(j, err));
    PROPANE_TRY(train_text_count_bytes(j, err));
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
    PROPANE_TRY(train_text_choose_weights(j, err));
    PROPANE_TRY(language_run_create(o, &input, &j->job.run, err));
    if (writes && !o->resume) PROPANE_TRY(train_text_save_tokenizer(j, err));
    if (writes && !o->resume && m->init) PROPANE_TRY(run_copy_chat(m->init, o->run_dir, err));
    return train_job_go(&j->job, again, err);
}

static int train_text_parse(text_job *j, text_model_flags *m, int argc, char **argv) {
    const cli_flag data[] = {
        {"--data", CLI_TEXT, &j->corpus_options.text, .words = "FILE",
         .help = "a text, a token file of 'propane tokenize', or instruction data (.jsonl)", .required = true},
        {"--tokenizer", CLI_TEXT, &j->corpus_options.tokenizer, .words = "FILE",
         .help = "use this vocabulary instead of learning one"},
        {"--kind", CLI_CHOICE, &j->corpus_options.kind, .words = "bpe|chars|bytes",
         .help = "the vocabulary that is learnt", .given = &m->kind_given},
        {"--vocab", CLI_INT, &m->vocab, 257, 65536, "N", "ids that bpe may have", .given = &m->vocab_given},
    };
    const cli_flag model[] = {
        {"--init", CLI_TEXT, &m->init, .words = "MODEL", .help = "start from this model's weights"},
        {"--config", CLI_TEXT, &m->config, .words = "FILE",
         .help = "a Hugging Face config.json instead of the sizes below"},
        {"--arch", CLI_TEXT, &m->arch, .words = "NAME", .help = "llama, qwen2, qwen3 or gpt2", .given = &m->any_size},
        {"--layers", CLI_INT, &m->layers, 1, 1000, "N", "layers", .given = &m->any_size},
        {"--width", CLI_INT, &m->width, 2, 65536, "N", "hidden size", .given = &m->any_size},
        {"--hidden", CLI_INT, &m->hidden, 0, 262144, "N", "of the feed-forward half; 0: 8/3 of the width, gpt2: 4",
         .given = &m->any_size},
        {"--heads", CLI_INT, &m->heads, 1, 4096, "N", "attention heads", .given = &m->any_size},
        {"--kv-heads", CLI_INT, &m->kv_heads, 0, 4096, "N", "key and value heads; 0: as many as heads",
         .given = &m->any_size},
        {"--tie", CLI_SWITCH, &m->tie, .help = "the output head is the embedding (--no-tie: its own)",
         .given = &m->any_size},
    };
    const cli_flag threads = train_job_threads(&j->job);
    cli_flag shown[1 + TRAIN_JOB_SHOW_FLAGS] = {
        {"--power", CLI_SWITCH, &m->power,
         .help = "tell the joules that the machine used for each step, see 'propane power'"}};
    train_job_show_flags(&j->job, shown + 1, "at the end tell where the time went: calls and rates of each kernel");
    const train_flags groups[] = {
        {"Text", TRAIN_DATA, data, sizeof data / sizeof data[0], NULL, 0},
        {"Model", -1, model, sizeof model / sizeof model[0], NULL, 0},
        {"What is learnt", TRAIN_LEARNT, NULL, 0, NULL, 0},
        {"Training", TRAIN_TRAINING, NULL, 0, NULL, 0},
        {"Machine", TRAIN_MACHINE, NULL, 0, &threads, 1},
        {"Several processes: mpirun -n N propane train ... (Open MPI)", TRAIN_RANKS, NULL, 0, NULL, 0},
        {"Run", TRAIN_RUN, NULL, 0, shown, 1 + TRAIN_JOB_SHOW_FLAGS},
    };
    return train_job_parse(&j->job, argc, argv, groups, sizeof groups / sizeof groups[0],
                           "train --data FILE [flags]  (a Core ML model: propane train MODEL --help)",
                           "Trains a language model on a text. Every device computation is a MIL program. "
                           "Ctrl-C writes a checkpoint after the batch at hand; --resume goes on from it bit for "
                           "bit, with the options that the run was begun with.");
}

/* What does not go together on one command line; -1: nothing. */
static int train_text_check(const text_job *j, const text_model_flags *m) {
    const train_options *o = &j->job.options;
    const char *learnt = m->kind_given ? "--kind" : "--vocab";
    const bool lora_given =
        o->given[TRAIN_OPTION_lora_rank] || o->given[TRAIN_OPTION_lora_alpha] || o->given[TRAIN_OPTION_lora_targets];
    if (m->vocab_given && strcmp(j->corpus_options.kind, "bpe") != 0)
        return cli_misuse("train", "--vocab is for --kind bpe; %s has as many ids as it needs", j->corpus_options.kind);
    if (j->corpus_options.tokenizer && (m->kind_given || m->vocab_given))
        return cli_misuse("train", "--tokenizer takes a vocabulary that exists; %s would learn one", learnt);
    if (m->init && (m->kind_given || m->vocab_given))
        return cli_misuse("train", "--init brings the model's own vocabulary; %s would learn another", learnt);
    if (*o->adapter && lora_given) return cli_misuse("train", "--adapter says the adapter's rank, alpha and targets");
    if (*o->adapter && !(m->init || o->resume))
        return cli_misuse("train", "--adapter needs the model that it is for: give --init");
    if (m->init && m->config) return cli_misuse("train", "--init brings its own configuration; leave out --config");
    if ((m->init || m->config) && m->any_size)
        return cli_misuse(
            "train",
            "%s says the model's sizes; leave out --arch, --layers, --width, --hidden, --heads, --kv-heads, --tie",
            m->init ? "--init" : "--config");
    if (o->given[TRAIN_OPTION_chat] && !train_jsonl_is(j->corpus_options.text))
        return cli_misuse("train", "--chat is for instruction data (.jsonl); %s is a text", j->corpus_options.text);
    return -1;
}

static void train_text_job_deinit(text_job *j) {
    train_job_deinit(&j->job); /* it borrows from the rest */
    corpus_close(&j->corpus);
    model_weights_free(j->initial);
    mem_free(j->bytes_of_token);
}

static int train_text_start(text_job *j, const text_model_flags *m, bool *again) {
    train_options *o = &j->job.options;
    propane_error err = {0};
    propane_status status = train_text_join_ranks(o, &j->job.threads, &err);
    if (status == PROPANE_OK) status = pool_set_threads((int)j->job.threads, &err);
    if (status == PROPANE_OK && m->power) status = power_open(&j->job.meter, &err);
    if (status == PROPANE_OK) status = train_text_run(j, m, again, &err);
    energy_close(j->job.meter);
    if (o->mpi && status != PROPANE_OK && status != PROPANE_ERR_CANCELLED) train_text_end_ranks(o->mpi, &err);
    mpi *ranks = o->mpi;
    const bool told = data_parallel_writes(ranks);
    train_text_job_deinit(j);
    mpi_close(ranks);
    if (status == PROPANE_OK || (status == PROPANE_ERR_CANCELLED && !told)) return CLI_OK; /* rank 0 has said it */
    *again = false;
    return cli_error("train", &err);
}

int train_text_command(int argc, char **argv, bool *again) {
    text_job j = {.corpus_options = {.kind = "bpe"}};
    text_model_flags m = {.layers = 4, .width = 192, .heads = 6, .tie = true, .arch = "llama", .vocab = 1024};
    train_options *o = &j.job.options;
    train_job_init(&j.job, &text_kind, TRAIN_LANGUAGE);
    int code = train_text_parse(&j, &m, argc, argv);
    if (code < 0) code = train_text_check(&j, &m);
    if (code >= 0) {
        train_text_job_deinit(&j);
        return code;
    }
    if (!o->given[TRAIN_OPTION_min_lr] && !o->resume) o->min_lr = fmin(o->min_lr, o->lr / 10);
    if (m.init) o->base = m.init;
    j.corpus_options.vocab = (int)m.vocab;
    return train_text_start(&j, &m, again);
}
