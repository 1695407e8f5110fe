/* SPDX-License-Identifier: MIT
 * Owns the construction of a language model's run: its initial weights, the ids and tensors that are trained, and the
 * training step.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/temporary.h"
#include "core/base/words.h"
#include "lm/arch/stored_weights.h"
#include "lm/run/language_run_internal.h"
#include "lm/run/memory_estimate.h"
#include "lm/run/plan_choice.h"
#include "train/weight_mode_check.h"

/* ---- outer steps -------------------------------------------------------------------------------------------------------------- */

static propane_status language_check_outer(const train_options *o, propane_error *err) {
    const int lonely = o->outer > 0                            ? -1
                       : o->outer_warmup > 0                   ? TRAIN_OPTION_outer_warmup
                       : o->node_ranks > 0                     ? TRAIN_OPTION_node_ranks
                       : o->resume                             ? -1
                       : o->given[TRAIN_OPTION_outer_lr]       ? TRAIN_OPTION_outer_lr
                       : o->given[TRAIN_OPTION_outer_momentum] ? TRAIN_OPTION_outer_momentum
                                                               : -1;
    if (lonely < 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "--%s applies only to training with few messages; give --outer H, too",
                        train_option_rows[lonely].name);
}

/* On the first rank, logs notes about outer steps that have no effect, or less effect than they could have. */
static void language_note_outer(const language_run *t) {
    const train_options *o = &t->run.options;
    const workers *w = &t->run.who;
    if (o->outer == 0 || !train_run_writes(&t->run)) return;
    if (w->count == 1 && w->size > 1)
        log_print("--outer %lld has no effect: all %d ranks form one worker%s and add up their gradients in every step",
                  (long long)o->outer, w->size,
                  o->node_ranks > 0
                      ? " (--node-ranks)"
                      : ", because --shard combines the ranks of a machine (--node-ranks N: N ranks each)");
    if (w->count > 1 && o->outer_warmup >= o->steps)
        log_print("--outer %lld has no effect: --outer-warmup %lld covers the whole run of %lld steps",
                  (long long)o->outer, (long long)o->outer_warmup, (long long)o->steps);
    if (w->count > 1 && !*o->init && !o->resume && !o->given[TRAIN_OPTION_outer_warmup])
        log_print(
            "--outer %lld from random weights ends at a higher loss than data-parallel training; --outer-warmup N "
            "makes the first N steps data-parallel, and --init starts from a trained model",
            (long long)o->outer);
}

static propane_status language_form_workers(language_run *t, propane_error *err) {
    const train_options *o = &t->run.options;
    workers *w = &t->run.who;
    const workers_options how = {o->outer > 0, o->shard, o->node_ranks};
    PROPANE_TRY(data_parallel_share(o->mpi, o->batch, &t->share, err));
    PROPANE_TRY(workers_form(o->mpi, &how, w, err));
    t->worker_share = t->share * w->size;
    t->worker_first = t->worker_share * w->index;
    t->first = t->worker_first + t->share * w->place;
    language_note_outer(t);
    return PROPANE_OK;
}

/* Checks --method against the data and the other options. */
static propane_status language_check_pairs(const train_options *o, const train_input *in, propane_error *err) {
    const bool pairs = in->examples && in->examples->pairs, prefers = strcmp(o->method, "dpo") == 0;
    if (pairs && !prefers)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%.300s contains pairs (\"chosen\" and \"rejected\"); give --method dpo", in->source);
    if (!prefers) return PROPANE_OK;
    if (!pairs)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--method dpo trains on pairs, but %.300s has none; give lines with \"prompt\", \"chosen\" "
                            "and \"rejected\"",
                            in->source);
    if (!in->initial && !o->resume)
        return propane_fail(err, PROPANE_ERR_INVALID, "--method dpo trains an existing model; give it with --init");
    if (o->mpi && mpi_size(o->mpi) > 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "--method dpo runs in one process; leave out mpirun");
    if (o->batch % 2)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--batch is %lld; with --method dpo it must be even, because a pair takes two sequences",
                            (long long)o->batch);
    return PROPANE_OK;
}

/* Checks constraints on the options that their rows do not express. */
static propane_status language_check_options(const train_options *o, const model_config *c, propane_error *err) {
    if (o->mpi && strcmp(o->weights, "baked") == 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--weights baked restarts the process when the compile budget is used up, which is not "
                            "possible under mpirun; use --weights inputs");
    PROPANE_TRY(language_check_outer(o, err));
    if (o->lora_rank > 0 && (*o->trainable || *o->freeze))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--lora-rank trains only adapters; leave out --trainable and --freeze");
    if (o->context > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--context is %lld, but the model's max_position_embeddings is %lld", (long long)o->context,
                            (long long)c->max_position_embeddings);
    if (o->eval_interval > 0 && o->held_out <= 0 && !*o->val_data)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--held-out is 0, so there is nothing to evaluate on; give --eval-every 0");
    return PROPANE_OK;
}

/* ---- the step ---------------------------------------------------------------------------------------------------------------- */

static propane_status language_choose_trained(language_run *t, propane_error *err) {
    const train_options *o = &t->run.options;
    const model_weights *w = t->weights;
    if (!*o->trainable && !*o->freeze) return PROPANE_OK;
    t->trained = ARENA_ARRAY(t->run.arena, w->count, bool);
    if (!t->trained) return propane_fail_memory(err, (size_t)w->count);
    int count = 0;
    for (int i = 0; i < w->count; i++) {
        t->trained[i] = (!*o->trainable || words_match_any(o->trainable, w->tensors[i].name)) &&
                        !words_match_any(o->freeze, w->tensors[i].name);
        count += t->trained[i];
    }
    if (count > 0) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "--trainable '%.100s' and --freeze '%.100s' leave nothing to train; tensors have names such as '%s'",
        o->trainable, o->freeze, w->tensors[w->count / 2].name);
}

static propane_status language_make_step(language_run *t, propane_error *err) {
    const train_options *o = &t->run.options;
    PROPANE_TRY(language_form_workers(t, err));
    train_step_options how = {.partition = {.name = o->plan,
                                            .precision = strcmp(o->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32,
                                            .half_stream = strcmp(o->stream, "fp16") == 0,
                                            .batch = t->share,
                                            .context = o->context,
                                            .head = partition_head_find(o->head),
                                            .gradients = strcmp(o->gradients, "device") == 0,
                                            /* ranks sum the gradients after the kernels have run */
                                            .squares = o->mpi ? 0 : PARTITION_SQUARES},
                              .shared = o->shared,
                              .device = o->device,
                              .two_queues = o->two_queues,
                              .weights = weight_mode_find(o->weights),
                              .bf16 = strcmp(o->precision, "bf16") == 0,
                              .accumulate = o->accumulate > 1,
                              .moments = moment_form_of(o->moments),
                              .overlap = strcmp(o->overlap, "off") != 0,
                              .early = train_options_speculates(o),
                              .timeline = t->run.timeline,
                              .recompute = o->recompute,
                              .bisect = t->run.refused};
    PROPANE_TRY(language_choose_trained(t, err));
    how.trained = t->trained;
    PROPANE_TRY(train_step_create(&how, t->weights, &t->step, err));
    if (strcmp(o->method, "dpo") == 0) {
        PROPANE_TRY(language_pairs_create(t->run.arena, &t->data, (int)o->batch, o->beta, &t->pairs, err));
        train_step_prefer(t->step, &t->pairs->preference);
    }
    const data_parallel_options sums = {.sums = {allreduce_wire_find(o->wire), o->shard, o->bucket},
                                        .outer = {.every = o->outer,
                                                  .lr = o->outer_lr,
                                                  .momentum = o->outer_momentum,
                                                  .schedule = &t->run.schedule,
                                                  .first = o->outer_warmup},
                                        .done = t->run.state.step};
    PROPANE_TRY(data_parallel_create(&t->run.who, &sums, t->step, t->weights, &t->group, err));
    t->run.group = data_parallel_group(t->group);
    t->budget = o->compile_budget > 0 ? o->compile_budget : train_step_compile_limit(t->step);
    if (t->budget > 0 && train_step_compiles(t->step) > t->budget)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "the plan needs %d programs, but one process may compile %lld; give a "
                            "larger --compile-budget, --weights inputs or a smaller model",
                            train_step_compiles(t->step), (long long)t->budget);
    return PROPANE_OK;
}

/* Loads a resumed run's state and makes the step. The weights are loaded before the programs are compiled, because
 * baked programs contain them. The moments are loaded afterwards, because they belong to the step. */
static propane_status language_load_and_make(language_run *t, propane_error *err) {
    PROPANE_TRY(train_run_load(&t->run, 0, 0, err));
    PROPANE_TRY(language_make_step(t, err));
    PROPANE_TRY(train_run_load(&t->run, 1, TRAIN_BLOCKS - 1, err));
    data_parallel_release(t->group);
    return PROPANE_OK;
}

/* ---- fewer ids ------------------------------------------------------------------------------------------------------------ */

static void language_mark_id(uint8_t *used, int64_t vocab, int64_t id) {
    if (id >= 0 && id < vocab) used[id] = 1; /* invalid ids are reported when their batch is made */
}

/* Collects the ids of all data, including held-out data. */
static propane_status language_choose_ids(language_run *t, const train_input *in, propane_error *err) {
    int64_t vocab = t->whole.vocab_size;
    uint8_t *used = mem_array((size_t)vocab, 1);
    if (!used) return propane_fail_memory(err, (size_t)vocab);
    int64_t count = in->examples ? in->examples->start[in->examples->count] : in->token_count;
    for (int64_t i = 0; i < count; i++)
        language_mark_id(used, vocab,
                         in->examples           ? (int64_t)in->examples->ids[i]
                         : in->token_bytes == 2 ? (int64_t)((const uint16_t *)in->tokens)[i]
                                                : (int64_t)((const uint32_t *)in->tokens)[i]);
    propane_status status = compact_vocab_create(used, &t->whole, &t->compact, err);
    mem_free(used);
    return status;
}

static propane_status language_begin_compact(language_run *t, const train_input *input, propane_error *err) {
    model_weights *whole = input->initial;
    if (!whole) {
        PROPANE_TRY(model_weights_create(&t->whole, &whole, err));
        model_weights_init(whole, (uint64_t)t->run.options.seed, 0);
    }
    propane_status status = compact_vocab_take(t->compact, whole, t->weights, err);
    if (whole != input->initial) model_weights_free(whole);
    return status;
}

/* ---- weights ----------------------------------------------------------------------------------------------------------------- */

/* Makes the initial weights, either random or taken over from a model. */
static propane_status language_begin_weights(language_run *t, const train_input *input, propane_error *err) {
    const train_options *o = &t->run.options;
    if (!input->initial) {
        if (o->lora_rank > 0)
            return propane_fail(err, PROPANE_ERR_INVALID, "--lora-rank adapts an existing model; give it with --init");
        if (t->compact) return language_begin_compact(t, input, err);
        model_weights_init(t->weights, (uint64_t)o->seed, 0);
        return PROPANE_OK;
    }
    if (!model_config_equal(&input->initial->config, input->config))
        return propane_fail(err, PROPANE_ERR_INVALID, "the initial weights belong to a model of another configuration");
    if (t->compact) return language_begin_compact(t, input, err);
    stored_weights_take(t->weights, input->initial);
    return PROPANE_OK;
}

static propane_status language_add_adapters(language_run *t, propane_error *err) {
    const train_options *o = &t->run.options;
    model_lora l = {.rank = o->lora_rank, .alpha = o->lora_alpha, .dropout = o->lora_dropout};
    if (o->lora_rank == 0) return PROPANE_OK;
    if (*o->adapter && !o->resume) {
        PROPANE_TRY(model_adapter_read(t->weights, o->adapter, err));
        t->weights->lora.dropout = o->lora_dropout;
        return PROPANE_OK;
    }
    PROPANE_TRY(model_lora_choose(&l, &t->weights->config, o->lora_targets, err));
    PROPANE_TRY(model_weights_add_lora(t->weights, &l, err));
    model_lora_init(t->weights, (uint64_t)o->seed);
    return PROPANE_OK;
}

/* Makes the folder last, so that a run that cannot begin leaves nothing behind. */
static propane_status language_make_folder(language_run *t, const model_config *config, propane_error *err) {
    if (!t->run.options.run_dir || !train_run_writes(&t->run)) return PROPANE_OK;
    PROPANE_TRY(file_make_dir(t->run.options.run_dir, err));
    temporary_sweep_folder(t->run.options.run_dir);
    if (t->compact && t->run.options.lora_rank == 0)
        PROPANE_TRY(compact_vocab_write(t->compact, t->vocabulary_path, err));
    return model_config_write(config, t->config_path, err);
}

/* ---- all steps of making ----------------------------------------------------------------------------------------- */

static propane_status language_make_paths(language_run *t, propane_error *err) {
    PROPANE_TRY(train_run_path(&t->run, TRAIN_MODEL, &t->model_path, err));
    PROPANE_TRY(train_run_path(&t->run, TRAIN_CONFIG, &t->config_path, err));
    return train_run_path(&t->run, TRAIN_VOCABULARY, &t->vocabulary_path, err);
}

static propane_status language_make_windows(language_run *t, const train_input *input, propane_error *err) {
    const train_options *o = &t->run.options;
    const int vocab = (int)input->config->vocab_size, context = (int)o->context;
    const uint64_t seed = (uint64_t)o->seed;
    const size_t window = (size_t)(o->batch * o->context);
    const int64_t train = input->train_count;
    if (train && input->examples)
        PROPANE_TRY(token_windows_init_examples_split(&t->data, input->examples, train, vocab, context, o->pack, true,
                                                      seed, input->source, err));
    else if (train)
        PROPANE_TRY(token_windows_init_split(&t->data, input->tokens, input->token_bytes, input->token_count, train,
                                             vocab, context, seed, input->source, err));
    else if (input->examples)
        PROPANE_TRY(token_windows_init_examples(&t->data, input->examples, vocab, context, o->pack, o->held_out, seed,
                                                input->source, err));
    else
        PROPANE_TRY(token_windows_init(&t->data, input->tokens, input->token_bytes, input->token_count, vocab, context,
                                       o->held_out, seed, input->source, err));
    t->inputs = ARENA_ARRAY(t->run.arena, window, int32_t);
    t->targets = ARENA_ARRAY(t->run.arena, window, int32_t);
    t->nats = ARENA_ARRAY(t->run.arena, window, double);
    return t->inputs && t->targets && t->nats ? PROPANE_OK : propane_fail_memory(err, window * 16);
}

/* Returns a checksum of every 64th number of the model's own weights, which distinguishes models of the same shape at
 * little cost. */
static uint64_t language_sum_base(const model_weights *w) {
    enum { STRIDE = 64, MOST = 256 };
    float piece[MOST];
    uint64_t sum = (uint64_t)w->floats;
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        const int64_t block = model_packing_block(t->form);
        assert(block <= MOST);
        for (int64_t k = (STRIDE - t->offset % STRIDE) % STRIDE, held = -1; k < t->count; k += STRIDE) {
            uint32_t bits;
            if (k / block != held) stored_weights_read(w, t, k / block * block, block, piece);
            held = k / block;
            memcpy(&bits, piece + k % block, sizeof bits);
            sum = (sum ^ bits) * 0x9e3779b97f4a7c15u;
            sum ^= sum >> 32;
        }
    }
    return sum;
}

static void language_make_fingerprints(language_run *t) {
    const train_input *in = &t->input;
    const uint64_t sum = in->examples ? train_examples_sum(in->examples)
                                      : token_windows_sum(in->tokens, in->token_bytes, in->token_count);
    snprintf(t->token_count, sizeof t->token_count, "%lld", (long long)in->token_count);
    snprintf(t->token_sum, sizeof t->token_sum, "%016llx", (unsigned long long)sum);
    if (t->weights->adapter_count > 0)
        snprintf(t->base_sum, sizeof t->base_sum, "%016llx", (unsigned long long)language_sum_base(t->weights));
}

/* Sets the number of steps, from the number of epochs or to a default. A model soon memorises a small data set, so by
 * default fine-tuning makes only EPOCHS passes over the data. */
static void language_count_steps(language_run *t, const train_input *in) {
    enum { EPOCHS = 3, STEPS = 1000 };
    train_options *o = &t->run.options;
    const bool tunes = in->initial || *o->base || in->examples || o->lora_rank > 0;
    const double epochs = o->epochs > 0 ? o->epochs : o->steps == 0 && tunes ? EPOCHS : 0;
    const double windows = epochs * (double)token_windows_count(&t->data), step = (double)(o->batch * o->accumulate);
    if (epochs > 0)
        o->steps = (int64_t)fmax(1, ceil(windows / step - 1e-9));
    else if (o->steps == 0)
        o->steps = STEPS;
    train_run_plan(&t->run);
}

static propane_status language_make_weights(language_run *t, const train_input *input, model_config config,
                                            propane_error *err) {
    const train_options *o = &t->run.options;
    partition_split_head(&config, o->batch, o->context);
    PROPANE_TRY(model_weights_create(&config, &t->weights, err));
    if (!o->resume || o->lora_rank > 0) PROPANE_TRY(language_begin_weights(t, input, err));
    PROPANE_TRY(language_add_adapters(t, err));
    language_make_fingerprints(t);
    return o->resume && t->compact && o->lora_rank == 0 ? compact_vocab_read(t->compact, t->vocabulary_path, err)
                                                        : PROPANE_OK;
}

/* Returns the bytes of the initial model if the step will use it in the form of its file, otherwise 0. */
static size_t language_base_bytes(const train_options *o, const model_weights *initial) {
    const mil_dtype precision = strcmp(o->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32;
    const bool keeps = initial && initial->stored &&
                       train_step_keeps_base(o->device, o->two_queues, weight_mode_find(o->weights), precision);
    return keeps ? initial->stored_bytes : 0;
}

propane_status language_begin(language_run *t, const train_input *input, propane_error *err) {
    train_options *o = &t->run.options;
    PROPANE_TRY(train_choose_precision(o, input->config, err));
    PROPANE_TRY(language_check_options(o, input->config, err));
    PROPANE_TRY(language_check_pairs(o, input, err));
    if (o->outer > 0 && (!o->mpi || mpi_size(o->mpi) == 1))
        log_print("--outer %lld has no effect in a single process; start several with mpirun", (long long)o->outer);
    const bool open = strcmp(o->weights, "auto") == 0;
    if (open) PROPANE_TRY(weight_mode_choose(o->device, &o->weights, input->tried, err));
    t->input = *input;
    t->input.initial = NULL; /* `initial` and `config` are needed only while the run is made */
    t->input.config = NULL;
    t->whole = *input->config;
    t->run.units = o->batch * o->context * o->accumulate;
    train_scaler_init(&t->run.state.scaler, strcmp(o->precision, "fp16") == 0);
    PROPANE_TRY(language_make_paths(t, err));
    if (o->compact_vocab) PROPANE_TRY(language_choose_ids(t, input, err));
    const model_config config = t->compact ? compact_vocab_config(t->compact, &t->whole) : t->whole;
    PROPANE_TRY(train_choose_plan(o, &config, err));
    if (open) PROPANE_TRY(train_choose_base(o, &config, err));
    o->base_bytes = language_base_bytes(o, input->initial);
    PROPANE_TRY(memory_estimate_check(&config, o, err));
    PROPANE_TRY(language_make_windows(t, input, err));
    language_count_steps(t, input);
    PROPANE_TRY(language_make_weights(t, input, config, err));
    if (o->resume) return language_load_and_make(t, err);
    if (o->run_dir && train_run_writes(&t->run) && file_exists(t->run.checkpoint))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s already exists; give --resume to continue that run, or another folder",
                            t->run.checkpoint);
    PROPANE_TRY(language_make_step(t, err));
    return language_make_folder(t, input->config, err);
}
