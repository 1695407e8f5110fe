/* SPDX-License-Identifier: MIT
 * Owns the run. Everything that a later process must know is in train_state; the loop below reads top down as the life of
 * a run: bring the programs up to date, evaluate, save, step.
 */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/temporary.h"
#include "train/checkpoint.h"
#include "train/data/compact_vocab.h"
#include "train/data/token_windows.h"
#include "train/dist/data_parallel.h"
#include "train/memory_estimate.h"
#include "train/optim/schedule.h"

struct trainer {
    arena *arena;
    train_options options;
    train_input input;
    model_weights *weights;
    train_step *step;
    data_parallel *group; /* NULL: alone */
    int64_t share, first; /* windows of a batch that are this rank's */
    token_windows data;
    train_schedule schedule;
    train_state state;
    vocab_map *compact; /* NULL: the model is trained with all its ids */
    model_config whole; /* the model's; `weights` may have fewer ids */
    int64_t saved;      /* step of the newest checkpoint; -1: none */
    int64_t lost;       /* steps in a row whose loss was not a number */
    int64_t budget;
    bool *trained;             /* [tensor]; NULL: all */
    int32_t *inputs, *targets; /* [batch][context] */
    double *nats;
    const volatile bool *cancel;                                        /* while it runs; NULL: never */
    char *checkpoint_path, *model_path, *config_path, *vocabulary_path; /* NULL without a run folder */
};

void train_options_default(train_options *o) {
    *o = (train_options){.steps = 1000,
                         .batch = 8,
                         .context = 128,
                         .accumulate = 1,
                         .lr = 1e-3,
                         .min_lr = 1e-4,
                         .warmup = 50,
                         .weight_decay = 0.1,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .epsilon = 1e-8,
                         .clip = 1,
                         .seed = 1,
                         .held_out = 0.1,
                         .precision = "fp32",
                         .plan = "layer",
                         .weights = "inputs",
                         .wire = "fp32",
                         .device = "cpu",
                         .eval_interval = 250,
                         .eval_batches = 20,
                         .checkpoint_interval = 500,
                         .pack = 1,
                         .chat = "",
                         .trainable = "",
                         .freeze = "",
                         .lora_alpha = 16,
                         .lora_targets = "",
                         .adapter = "",
                         .base = ""};
}

int64_t trainer_step(const trainer *t) { return t->state.step; }
model_weights *trainer_weights(trainer *t) { return t->weights; }
void trainer_tell_data(const trainer *t, int64_t *windows, int64_t *cut, int64_t *empty) {
    const packed_windows *p = t->data.packs;
    *windows = p[0].windows;
    *cut = p[0].cut + p[1].cut;
    *empty = p[0].empty + p[1].empty;
}

int64_t trainer_learnt(const trainer *t) {
    int64_t sum = 0;
    for (int i = 0; i < model_weights_total(t->weights); i++)
        if (train_step_trains(t->step, i)) sum += t->weights->tensors[i].count;
    return sum;
}

train_step *trainer_machine(trainer *t) { return t->step; }

/* ---- options ------------------------------------------------------------------------------------------------------------- */

static propane_status whole(const char *flag, int64_t value, int64_t min, int64_t max, propane_error *err) {
    if (value >= min && value <= max) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--%s is %lld; give %lld to %lld", flag, (long long)value,
                        (long long)min, (long long)max);
}

static propane_status real(const char *flag, double value, double min, double max, propane_error *err) {
    if (value >= min && value <= max) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "--%s is %g; give %g to %g", flag, value, min, max);
}

static propane_status check_options(const train_options *o, const model_config *c, propane_error *err) {
    const int64_t many = INT64_C(1) << 40;
    PROPANE_TRY(whole("steps", o->steps, 0, many, err));
    PROPANE_TRY(whole("batch", o->batch, 1, 65536, err));
    PROPANE_TRY(whole("context", o->context, 1, 1 << 20, err));
    PROPANE_TRY(whole("accumulate", o->accumulate, 1, 1 << 20, err));
    PROPANE_TRY(whole("warmup", o->warmup, 0, many, err));
    PROPANE_TRY(whole("compile-budget", o->compile_budget, 0, 1 << 30, err));
    PROPANE_TRY(whole("eval-every", o->eval_interval, 0, many, err));
    PROPANE_TRY(whole("eval-batches", o->eval_batches, o->eval_interval > 0, 1 << 30, err));
    PROPANE_TRY(whole("checkpoint-every", o->checkpoint_interval, 0, many, err));
    PROPANE_TRY(real("lr", o->lr, 0, 100, err));
    PROPANE_TRY(real("min-lr", o->min_lr, 0, o->lr, err));
    PROPANE_TRY(real("weight-decay", o->weight_decay, 0, 100, err));
    PROPANE_TRY(real("beta1", o->beta1, 0, 0.9999999, err));
    PROPANE_TRY(real("beta2", o->beta2, 0, 0.9999999, err));
    PROPANE_TRY(real("epsilon", o->epsilon, 0, 1, err));
    PROPANE_TRY(real("clip", o->clip, 0, 1e30, err));
    PROPANE_TRY(real("held-out", o->held_out, 0, 0.5, err));
    const char *p = o->precision ? o->precision : "";
    if (strcmp(p, "fp32") != 0 && strcmp(p, "fp16") != 0 && strcmp(p, "bf16") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "--precision is '%.40s'; give fp32, fp16 or bf16", p);
    if (allreduce_wire_find(o->wire) == ALLREDUCE_WIRES)
        return propane_fail(err, PROPANE_ERR_INVALID, "--wire is '%.40s'; give fp32, bf16 or fp16", o->wire);
    if (o->mpi && strcmp(o->weights, "baked") == 0)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "--weights baked starts its process again when the compile budget is used up, which a rank "
                            "of an mpirun cannot; take --weights inputs");
    if (!o->weights || weight_mode_find(o->weights) == WEIGHT_MODE_COUNT)
        return propane_fail(err, PROPANE_ERR_INVALID, "--weights is '%.40s'; give inputs, packed, baked or reload",
                            o->weights ? o->weights : "");
    PROPANE_TRY(whole("lora-rank", o->lora_rank, 0, 4096, err));
    if (o->lora_rank > 0 && (*o->trainable || *o->freeze))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--lora-rank trains adapters and nothing else; leave out --trainable and --freeze");
    if (o->context > c->max_position_embeddings)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--context is %lld, but the model's max_position_embeddings is %lld", (long long)o->context,
                            (long long)c->max_position_embeddings);
    if (o->eval_interval > 0 && o->held_out <= 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "--held-out is 0, so there is nothing to evaluate on; give --eval-every 0");
    if (o->resume && !o->run_dir) return propane_fail(err, PROPANE_ERR_INVALID, "--resume needs the run's folder");
    return PROPANE_OK;
}

/* ---- making -------------------------------------------------------------------------------------------------------------- */

static propane_status copy_options(trainer *t, const train_options *o, const train_input *input, propane_error *err) {
    arena *a = t->arena;
    t->options = *o;
    t->input = *input;
    t->input.initial = NULL; /* both are needed while the trainer is made only */
    t->input.config = NULL;
    t->input.token_sum = input->examples ? train_examples_sum(input->examples)
                                         : token_windows_sum(input->tokens, input->token_bytes, input->token_count);
    t->options.precision = arena_string(a, o->precision);
    t->options.plan = arena_string(a, o->plan);
    t->options.weights = arena_string(a, o->weights);
    t->options.wire = arena_string(a, o->wire);
    t->options.device = arena_string(a, o->device ? o->device : "cpu");
    t->options.chat = arena_string(a, o->chat ? o->chat : "");
    t->options.trainable = arena_string(a, o->trainable ? o->trainable : "");
    t->options.freeze = arena_string(a, o->freeze ? o->freeze : "");
    t->options.lora_targets = arena_string(a, o->lora_targets ? o->lora_targets : "");
    t->options.adapter = arena_string(a, o->adapter ? o->adapter : "");
    t->options.base = arena_string(a, o->base ? o->base : "");
    bool ok =
        t->options.trainable && t->options.freeze && t->options.lora_targets && t->options.base && t->options.adapter;
    ok = ok && t->options.chat && t->options.precision && t->options.plan && t->options.weights && t->options.device &&
         t->options.wire;
    if (o->run_dir) {
        t->options.run_dir = arena_string(a, o->run_dir);
        t->checkpoint_path = arena_printf(a, "%s/%s", o->run_dir, TRAIN_CHECKPOINT);
        t->model_path = arena_printf(a, "%s/%s", o->run_dir, TRAIN_MODEL);
        t->config_path = arena_printf(a, "%s/%s", o->run_dir, TRAIN_CONFIG);
        t->vocabulary_path = arena_printf(a, "%s/%s", o->run_dir, TRAIN_VOCABULARY);
        ok &= t->options.run_dir && t->checkpoint_path && t->model_path && t->config_path && t->vocabulary_path;
    }
    size_t window = (size_t)(o->batch * o->context);
    t->inputs = ARENA_ARRAY(a, window, int32_t);
    t->targets = ARENA_ARRAY(a, window, int32_t);
    t->nats = ARENA_ARRAY(a, window, double);
    return ok && t->inputs && t->targets && t->nats ? PROPANE_OK : propane_fail_memory(err, window * 16);
}

static propane_status choose_trained(trainer *t, propane_error *err) {
    const train_options *o = &t->options;
    const model_weights *w = t->weights;
    if (!*o->trainable && !*o->freeze) return PROPANE_OK;
    t->trained = ARENA_ARRAY(t->arena, w->count, bool);
    if (!t->trained) return propane_fail_memory(err, (size_t)w->count);
    int count = 0;
    for (int i = 0; i < w->count; i++) {
        t->trained[i] = (!*o->trainable || model_name_listed(o->trainable, w->tensors[i].name)) &&
                        !model_name_listed(o->freeze, w->tensors[i].name);
        count += t->trained[i];
    }
    if (count > 0) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "--trainable '%.100s' and --freeze '%.100s' leave nothing to train; tensors are called like '%s'", o->trainable,
        o->freeze, w->tensors[w->count / 2].name);
}

static propane_status make_machine(trainer *t, propane_error *err) {
    const train_options *o = &t->options;
    PROPANE_TRY(data_parallel_share(o->mpi, o->batch, &t->share, err));
    t->first = t->share * data_parallel_rank(o->mpi);
    train_step_options how = {
        .partition = {.name = o->plan,
                      .precision = strcmp(o->precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32,
                      .batch = t->share,
                      .context = o->context,
                      .squares = o->mpi ? 0 : PARTITION_SQUARES}, /* ranks add up gradients first */
        .device = o->device,
        .two_queues = o->two_queues,
        .weights = weight_mode_find(o->weights),
        .bf16 = strcmp(o->precision, "bf16") == 0,
        .accumulate = o->accumulate > 1,
        .recompute = o->recompute != 0};
    PROPANE_TRY(choose_trained(t, err));
    how.trained = t->trained;
    PROPANE_TRY(train_step_create(&how, t->weights, &t->step, err));
    const allreduce_options wires = {allreduce_wire_find(o->wire), o->shard, o->bucket};
    PROPANE_TRY(data_parallel_create(o->mpi, &wires, t->step, t->weights, &t->group, err));
    t->budget = o->compile_budget > 0 ? o->compile_budget : train_step_compile_limit(t->step);
    if (t->budget > 0 && train_step_compiles(t->step) > t->budget)
        return propane_fail(err, PROPANE_ERR_LIMIT,
                            "the plan needs %d programs, but one process may compile %lld; give a "
                            "larger --compile-budget, --weights inputs or a smaller model",
                            train_step_compiles(t->step), (long long)t->budget);
    return PROPANE_OK;
}

/* The weights are there before the programs are compiled, because baked programs contain them; the moments belong to the
 * step. */
static propane_status load_and_make(trainer *t, propane_error *err) {
    if (data_parallel_writes(t->options.mpi)) temporary_sweep_folder(t->options.run_dir);
    PROPANE_TRY(train_checkpoint_read(t->checkpoint_path, &t->options, &t->input, &t->state, t->weights, err));
    PROPANE_TRY(make_machine(t, err));
    PROPANE_TRY(train_checkpoint_moments(t->checkpoint_path, t->weights, t->step, err));
    data_parallel_release(t->group);
    t->saved = t->state.step;
    if (t->state.step > t->options.steps)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: the run has done %lld steps; --steps %lld is fewer",
                            t->checkpoint_path, (long long)t->state.step, (long long)t->options.steps);
    return PROPANE_OK;
}

/* ---- fewer ids ------------------------------------------------------------------------------------------------------------ */

static void mark(uint8_t *used, int64_t vocab, int64_t id) {
    if (id >= 0 && id < vocab) used[id] = 1; /* others are told when their batch is made */
}

/* The ids of all data, what is held out included. */
static propane_status choose_ids(trainer *t, const train_input *in, propane_error *err) {
    int64_t vocab = t->whole.vocab_size;
    uint8_t *used = mem_array((size_t)vocab, 1);
    if (!used) return propane_fail_memory(err, (size_t)vocab);
    int64_t count = in->examples ? in->examples->start[in->examples->count] : in->token_count;
    for (int64_t i = 0; i < count; i++)
        mark(used, vocab,
             in->examples           ? (int64_t)in->examples->ids[i]
             : in->token_bytes == 2 ? (int64_t)((const uint16_t *)in->tokens)[i]
                                    : (int64_t)((const uint32_t *)in->tokens)[i]);
    propane_status status = compact_vocab_create(used, &t->whole, &t->compact, err);
    mem_free(used);
    return status;
}

static propane_status begin_compact(trainer *t, const train_input *input, propane_error *err) {
    model_weights *whole = input->initial;
    if (!whole) {
        PROPANE_TRY(model_weights_create(&t->whole, &whole, err));
        model_weights_init(whole, (uint64_t)t->options.seed, 0);
    }
    propane_status status = compact_vocab_take(t->compact, whole, t->weights, err);
    if (whole != input->initial) model_weights_free(whole);
    return status;
}

static propane_status to_rows(trainer *t, int64_t begin, int64_t count, propane_error *err) {
    if (!t->compact) return PROPANE_OK;
    PROPANE_TRY(compact_vocab_map(t->compact, t->inputs + begin, count, err));
    return compact_vocab_map(t->compact, t->targets + begin, count, err);
}

static propane_status write_whole(trainer *t, propane_error *err) {
    model_weights *whole = NULL;
    propane_status status = compact_vocab_restore(t->compact, &t->whole, t->weights, &whole, err);
    if (!status) status = train_checkpoint_write(t->model_path, &t->options, &t->input, NULL, whole, NULL, err);
    model_weights_free(whole);
    return status;
}

/* What the run begins with: random weights, or a model's, whose memory is taken over. */
static propane_status begin_weights(trainer *t, const train_input *input, propane_error *err) {
    const train_options *o = &t->options;
    if (!input->initial) {
        if (o->lora_rank > 0)
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "--lora-rank adapts a model that exists; give it with --init");
        if (t->compact) return begin_compact(t, input, err);
        model_weights_init(t->weights, (uint64_t)o->seed, 0);
        return PROPANE_OK;
    }
    if (!model_config_equal(&input->initial->config, input->config))
        return propane_fail(err, PROPANE_ERR_INVALID, "the initial weights belong to a model of another configuration");
    if (t->compact) return begin_compact(t, input, err);
    model_weights_swap(t->weights, input->initial);
    return PROPANE_OK;
}

static propane_status add_adapters(trainer *t, propane_error *err) {
    const train_options *o = &t->options;
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

/* The last thing that making does, so that a run that could not begin leaves nothing behind. */
static propane_status make_folder(trainer *t, const model_config *config, propane_error *err) {
    if (!t->options.run_dir || !data_parallel_writes(t->options.mpi)) return PROPANE_OK;
    PROPANE_TRY(file_make_dir(t->options.run_dir, err));
    temporary_sweep_folder(t->options.run_dir);
    if (t->compact && t->options.lora_rank == 0) PROPANE_TRY(compact_vocab_write(t->compact, t->vocabulary_path, err));
    return model_config_write(config, t->config_path, err);
}

static propane_status make_all(trainer *t, const train_options *o, const train_input *input, propane_error *err) {
    PROPANE_TRY(copy_options(t, o, input, err));
    t->whole = *input->config;
    if (o->compact_vocab) PROPANE_TRY(choose_ids(t, input, err));
    model_config config = t->compact ? compact_vocab_config(t->compact, &t->whole) : t->whole;
    PROPANE_TRY(memory_estimate_check(&config, o, err));
    int vocab = (int)input->config->vocab_size, context = (int)o->context;
    uint64_t seed = (uint64_t)o->seed;
    if (input->examples)
        PROPANE_TRY(token_windows_init_examples(&t->data, input->examples, vocab, context, o->pack != 0, o->held_out,
                                                seed, input->source, err));
    else
        PROPANE_TRY(token_windows_init(&t->data, input->tokens, input->token_bytes, input->token_count, vocab, context,
                                       o->held_out, seed, input->source, err));
    t->schedule = (train_schedule){.peak = o->lr, .floor = o->min_lr, .warmup = o->warmup, .steps = o->steps};
    partition_split_head(&config, o->batch, o->context);
    PROPANE_TRY(model_weights_create(&config, &t->weights, err));
    t->state.evaluated = t->saved = -1;
    train_scaler_init(&t->state.scaler, strcmp(o->precision, "fp16") == 0);
    if (!o->resume || o->lora_rank > 0) PROPANE_TRY(begin_weights(t, input, err));
    PROPANE_TRY(add_adapters(t, err));
    if (o->resume && t->compact && o->lora_rank == 0)
        PROPANE_TRY(compact_vocab_read(t->compact, t->vocabulary_path, err));
    if (o->resume) return load_and_make(t, err);
    if (o->run_dir && data_parallel_writes(o->mpi) && file_exists(t->checkpoint_path))
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s is there already; give --resume to go on with that run, or "
                            "another folder",
                            t->checkpoint_path);
    PROPANE_TRY(make_machine(t, err));
    return make_folder(t, input->config, err);
}

propane_status trainer_create(const train_options *options, const train_input *input, trainer **out,
                              propane_error *err) {
    *out = NULL;
    PROPANE_TRY(model_config_check(input->config, "the model", err));
    PROPANE_TRY(check_options(options, input->config, err));
    trainer *t = mem_alloc(sizeof *t);
    if (!t) return propane_fail_memory(err, sizeof *t);
    t->arena = arena_create();
    propane_status status = t->arena ? make_all(t, options, input, err) : propane_fail_memory(err, 0);
    if (status != PROPANE_OK)
        trainer_free(t);
    else
        *out = t;
    return status;
}

void trainer_free(trainer *t) {
    if (!t) return;
    train_step_free(t->step);
    token_windows_deinit(&t->data);
    model_weights_free(t->weights);
    compact_vocab_free(t->compact);
    arena_free(t->arena);
    mem_free(t);
}

/* ---- running ------------------------------------------------------------------------------------------------------------- */

static propane_status save(trainer *t, const train_callbacks *c, propane_error *err) {
    if (!t->checkpoint_path || t->saved == t->state.step) return PROPANE_OK;
    PROPANE_TRY(data_parallel_collect(t->group, err));
    if (data_parallel_writes(t->options.mpi))
        PROPANE_TRY(
            train_checkpoint_write(t->checkpoint_path, &t->options, &t->input, &t->state, t->weights, t->step, err));
    data_parallel_release(t->group);
    t->saved = t->state.step;
    if (c && c->on_checkpoint) c->on_checkpoint(c->context, t->state.step, t->checkpoint_path);
    return PROPANE_OK;
}

/* The work at hand is given up: the caller goes back to the end of the last step. All ranks stop where one was told to. */
static propane_status check_cancel(const trainer *t, propane_error *err) {
    double told = t->cancel && *t->cancel;
    PROPANE_TRY(data_parallel_sum(t->group, &told, 1, err));
    return told > 0 ? propane_fail(err, PROPANE_ERR_CANCELLED, "stopped") : PROPANE_OK;
}

/* Targets that count, in windows [first, first + count) of a batch. */
static int64_t count_targets(const trainer *t, int64_t first, int64_t count) {
    int64_t context = t->options.context, n = 0;
    for (int64_t i = first * context; i < (first + count) * context; i++) n += t->targets[i] >= 0;
    return n;
}

static propane_status evaluate(trainer *t, const train_callbacks *c, propane_error *err) {
    const train_options *o = &t->options;
    int64_t windows = o->eval_batches * o->batch, own = t->first * o->context, positions = t->share * o->context;
    double sums[3] = {0}; /* nats, targets, bytes of this rank's windows; then of all */
    for (int64_t b = 0; b < o->eval_batches; b++) {
        double mean = 0;
        PROPANE_TRY(check_cancel(t, err));
        for (int64_t i = t->first; i < t->first + t->share; i++)
            PROPANE_TRY(token_windows_held_out(&t->data, b * o->batch + i, windows, t->inputs + i * o->context,
                                               t->targets + i * o->context, err));
        for (int64_t i = own; t->input.bytes_of_token && i < own + positions; i++)
            if (t->targets[i] >= 0) sums[2] += t->input.bytes_of_token[t->targets[i]];
        PROPANE_TRY(to_rows(t, own, positions, err));
        PROPANE_TRY(train_step_dropout(t->step, 0, err));
        PROPANE_TRY(train_step_evaluate(t->step, t->inputs + own, t->targets + own, t->nats, &mean, err));
        double targets = (double)count_targets(t, t->first, t->share);
        sums[0] += mean * targets;
        sums[1] += targets;
    }
    PROPANE_TRY(data_parallel_sum(t->group, sums, 3, err));
    t->state.evaluated = t->state.step;
    train_evaluation e = {.step = t->state.step,
                          .val_loss = sums[1] > 0 ? sums[0] / sums[1] : 0,
                          .val_nats_per_byte = sums[2] > 0 ? sums[0] / sums[2] : -1};
    if (c && c->on_evaluation) c->on_evaluation(c->context, &e);
    int64_t device_ns, host_ns;
    train_step_times(t->step, &device_ns, &host_ns); /* they are not the next step's */
    (void)train_step_simulated(t->step);
    return PROPANE_OK;
}

/* The next batch's targets that count; its position stays. */
static propane_status next_count(trainer *t, int64_t ahead, int64_t *out, propane_error *err) {
    const train_options *o = &t->options;
    PROPANE_TRY(token_windows_batch(&t->data, (uint64_t)(t->state.position + ahead * o->batch), (int)o->batch,
                                    t->inputs, t->targets, err));
    *out = count_targets(t, 0, o->batch);
    return PROPANE_OK;
}

/* The position in the data is the dropout's seed, too: a resumed run drops the same, and so do the ranks of several. */
static uint64_t dropout_key(const trainer *t) {
    return ((uint64_t)t->options.seed << 40) + (uint64_t)(t->state.position + t->first) + 1;
}

/* Every target counts alike, whichever batch of the step and whichever rank's it is: a part weighs as much as it has
 * targets. With plain text and alone all weights are exactly 1. Stopped between two batches, nothing has moved but the
 * position in the data. */
static propane_status gradients(trainer *t, double *loss, propane_error *err) {
    const train_options *o = &t->options;
    int64_t total = 0, counted = 0, own = t->first * o->context;
    double sum = 0;
    for (int64_t i = 0; i < o->accumulate; i++) {
        PROPANE_TRY(next_count(t, i, &counted, err));
        total += counted;
    }
    for (int64_t i = 0; i < o->accumulate; i++) {
        double part = 0;
        if (i > 0 && check_cancel(t, err) != PROPANE_OK) {
            t->state.position -= i * o->batch;
            return PROPANE_ERR_CANCELLED;
        }
        PROPANE_TRY(next_count(t, 0, &counted, err));
        PROPANE_TRY(to_rows(t, own, t->share * o->context, err));
        PROPANE_TRY(train_step_dropout(t->step, dropout_key(t), err));
        double weight = (double)(count_targets(t, t->first, t->share) * o->accumulate) / (double)total;
        if (i == o->accumulate - 1) data_parallel_listen(t->group);
        propane_status status = train_step_batch(t->step, t->inputs + own, t->targets + own, i == 0,
                                                 t->state.scaler.scale * weight, &part, err);
        data_parallel_rest(t->group);
        PROPANE_TRY(status);
        t->state.position += o->batch;
        sum += part * weight;
    }
    PROPANE_TRY(data_parallel_sum(t->group, &sum, 1, err));
    *loss = sum / (double)o->accumulate;
    return PROPANE_OK;
}

/* The weights are those of the last good update; a tensor of them that is no number comes out of a file. */
static propane_status tell_lost(const trainer *t, propane_error *err) {
    const char *name = model_weights_not_finite(t->weights);
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the loss has not been a number since step %lld%s%.200s%s; no model is written%s",
                        (long long)(t->state.step - t->lost + 1), name ? ": the weights '" : "", name ? name : "",
                        name ? "' hold some that are none" : ": the training has diverged; use a smaller --lr",
                        t->checkpoint_path ? ", the last checkpoint stays" : "");
}

/* A gradient that overflows is the loss scale's business; a loss that does not come back is the run's end. */
static propane_status check_divergence(trainer *t, double loss, propane_error *err) {
    enum { PATIENCE = 20 };
    t->lost = isfinite(loss) ? 0 : t->lost + 1;
    if (t->lost < PATIENCE) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the loss has not been a number since step %lld: the training has diverged; start "
                        "again with a smaller --lr%s",
                        (long long)(t->state.step - PATIENCE + 1),
                        strcmp(t->options.precision, "fp16") == 0 ? " or with --precision fp32" : "");
}

static propane_status one_step(trainer *t, const train_callbacks *c, propane_error *err) {
    const train_options *o = &t->options;
    int64_t start = clock_ns(), device_ns, host_ns;
    double norm = 0;
    train_report r = {.lr = train_schedule_at(&t->schedule, t->state.step), .loss_scale = t->state.scaler.scale};
    PROPANE_TRY(gradients(t, &r.loss, err));
    PROPANE_TRY(file_map_check(err)); /* before what was read there changes a weight */
    PROPANE_TRY(data_parallel_norm(t->group, t->step, &norm, err));
    double scale = 1 / (t->state.scaler.scale * (double)o->accumulate);
    r.gradient_norm = norm * scale;
    r.skipped = !train_scaler_step(&t->state.scaler, isfinite(norm) && isfinite(r.loss));
    if (!r.skipped) {
        double clip = o->clip > 0 && r.gradient_norm > o->clip ? o->clip / (r.gradient_norm + 1e-6) : 1;
        adamw_step how = {.lr = r.lr,
                          .beta1 = o->beta1,
                          .beta2 = o->beta2,
                          .epsilon = o->epsilon,
                          .weight_decay = o->weight_decay,
                          .gradient_scale = scale * clip,
                          .step = ++t->state.updates};
        PROPANE_TRY(train_step_update(t->step, &how, err));
        PROPANE_TRY(data_parallel_updated(t->group, err));
    }
    r.step = ++t->state.step;
    train_step_times(t->step, &device_ns, &host_ns);
    r.device_ms = (double)device_ns / 1e6;
    r.host_ms = (double)host_ns / 1e6;
    r.simulated = train_step_simulated(t->step);
    r.tokens_per_s = (double)(o->batch * o->context * o->accumulate) / ((double)(clock_ns() - start) / 1e9);
    if (c && c->on_step) c->on_step(c->context, &r);
    return check_divergence(t, r.loss, err);
}

static bool evaluation_due(const trainer *t) {
    int64_t interval = t->options.eval_interval, step = t->state.step;
    if (interval == 0 || step == 0 || t->state.evaluated == step) return false;
    return step % interval == 0 || step >= t->options.steps;
}

/* Baked programs after an update: compiled again, or left to a new process. */
static propane_status bring_up_to_date(trainer *t, bool *over_budget, propane_error *err) {
    int cost = train_step_refresh_cost(t->step);
    *over_budget = cost > 0 && t->budget > 0 && train_step_compiles(t->step) + cost > t->budget;
    return *over_budget ? PROPANE_OK : train_step_refresh(t->step, err);
}

/* A clean end before the last step. */
static propane_status stop(trainer *t, const train_callbacks *c, propane_error *err) {
    PROPANE_TRY(save(t, c, err));
    return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped after step %lld of %lld%s", (long long)t->state.step,
                        (long long)t->options.steps, t->checkpoint_path ? "; go on with --resume" : "");
}

static propane_status run_loop(trainer *t, const train_callbacks *c, bool *restart, propane_error *err) {
    const train_options *o = &t->options;
    for (;;) {
        bool more = t->state.step < o->steps, over_budget = false;
        if (more || evaluation_due(t)) PROPANE_TRY(bring_up_to_date(t, &over_budget, err));
        if (over_budget) {
            if (!t->checkpoint_path)
                return propane_fail(err, PROPANE_ERR_LIMIT,
                                    "%d of %lld compiles are used, and there is no run folder to "
                                    "restart from",
                                    train_step_compiles(t->step), (long long)t->budget);
            *restart = true;
            return save(t, c, err);
        }
        if (evaluation_due(t)) PROPANE_TRY(evaluate(t, c, err));
        if (!more) break;
        PROPANE_TRY(check_cancel(t, err));
        if (t->lost == 0 && o->checkpoint_interval > 0 && t->state.step > 0 &&
            t->state.step % o->checkpoint_interval == 0)
            PROPANE_TRY(save(t, c, err));
        PROPANE_TRY(one_step(t, c, err));
    }
    if (t->lost > 0) return tell_lost(t, err);
    PROPANE_TRY(save(t, c, err));
    if (!t->model_path || !data_parallel_writes(o->mpi)) return PROPANE_OK;
    if (o->lora_rank > 0) return model_adapter_write(t->weights, o->run_dir, o->base, err);
    if (t->compact) return write_whole(t, err);
    return train_checkpoint_write(t->model_path, o, &t->input, NULL, t->weights, NULL, err);
}

propane_status trainer_run(trainer *t, const train_callbacks *c, const volatile bool *cancel, bool *restart,
                           propane_error *err) {
    *restart = false;
    t->cancel = cancel;
    propane_status status = run_loop(t, c, restart, err);
    t->cancel = NULL;
    return status == PROPANE_ERR_CANCELLED ? stop(t, c, err) : status;
}
