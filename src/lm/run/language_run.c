/* SPDX-License-Identifier: MIT
 * Owns a language model's training steps and evaluations, and the contents of its checkpoint. Of the data, the
 * checkpoint holds only the position.
 */
#include "lm/run/language_run.h"
#include "lm/arch/stored_weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/poll.h"
#include "lm/files/store.h"
#include "lm/run/language_run_internal.h"

model_weights *language_run_weights(const train_run *r) { return language_run_of(r)->weights; }
train_step *language_run_step(const train_run *r) { return language_run_of(r)->step; }

void language_run_count_data(const train_run *r, int64_t *windows, int64_t *cut, int64_t *empty) {
    const packed_windows *p = language_run_of(r)->data.packs;
    *windows = token_windows_count(&language_run_of(r)->data);
    *cut = p[0].cut + p[1].cut;
    *empty = p[0].empty + p[1].empty;
}

int64_t language_run_trained(const train_run *r) {
    const language_run *t = language_run_of(r);
    int64_t sum = 0;
    for (int i = 0; i < model_weights_total(t->weights); i++)
        if (train_step_trains(t->step, i)) sum += t->weights->tensors[i].count;
    return sum;
}

static propane_status language_copy(const model_weights *w, model_weights **out, propane_error *err) {
    PROPANE_TRY(model_weights_create(&w->config, out, err));
    for (int i = 0; i < w->count; i++) {
        const model_tensor *t = &w->tensors[i];
        stored_weights_read(w, t, 0, t->count, (*out)->data + t->offset);
    }
    if (!w->adapter_count) return PROPANE_OK;
    PROPANE_TRY(model_weights_add_lora(*out, &w->lora, err));
    memcpy((*out)->adapter_data, w->adapter_data, (size_t)w->adapter_floats * sizeof *w->adapter_data);
    return model_lora_merge(*out, err);
}

propane_status language_run_model(const train_run *r, model_weights **out, propane_error *err) {
    const language_run *t = language_run_of(r);
    model_weights *copy = NULL;
    *out = NULL;
    PROPANE_TRY(train_step_settle(t->step, err));
    propane_status status = language_copy(t->weights, &copy, err);
    if (status == PROPANE_OK && t->compact) {
        status = compact_vocab_restore(t->compact, &t->whole, copy, out, err);
    } else if (status == PROPANE_OK) {
        *out = copy;
        return PROPANE_OK;
    }
    model_weights_free(copy);
    return status;
}

/* ---- batches ----------------------------------------------------------------------------------------------------------------- */

static propane_status language_to_rows(language_run *t, int64_t begin, int64_t count, propane_error *err) {
    if (!t->compact) return PROPANE_OK;
    PROPANE_TRY(compact_vocab_map(t->compact, t->inputs + begin, count, err));
    return compact_vocab_map(t->compact, t->targets + begin, count, err);
}

/* Returns the number of targets that count in windows [first, first + count) of a batch or, for pairs, the number of
 * pairs that count. */
static int64_t language_count_targets(const language_run *t, int64_t first, int64_t count) {
    const int64_t context = t->run.options.context;
    int64_t n = 0;
    if (t->pairs) return language_pairs_count(t->targets + first * context, count, context);
    for (int64_t i = first * context; i < (first + count) * context; i++) n += t->targets[i] >= 0;
    return n;
}

/* ---- pairs: the reference model before the first step ------------------------------------------------------------ */

static propane_status language_refer_batch(language_run *t, int pack, int64_t begin, propane_error *err) {
    const packed_windows *p = &t->data.packs[pack];
    const int64_t context = t->run.options.context;
    double mean;
    for (int64_t b = 0; b < t->share; b++) {
        int32_t *inputs = t->inputs + b * context, *targets = t->targets + b * context;
        if (begin + b < p->windows) packed_windows_get(p, begin + b, inputs, targets);
        for (int64_t k = 0; begin + b >= p->windows && k < context; k++) inputs[k] = 0, targets[k] = -1;
    }
    PROPANE_TRY(language_to_rows(t, 0, t->share * context, err));
    PROPANE_TRY(train_step_dropout(t->step, 0, err));
    PROPANE_TRY(train_step_evaluate(t->step, t->inputs, t->targets, t->nats, &mean, err));
    for (int64_t b = 0; b < t->share && begin + b < p->windows; b++)
        t->pairs->reference[pack][begin + b] =
            (float)preference_sum(t->nats + b * context, t->targets + b * context, (int)context);
    return PROPANE_OK;
}

static propane_status language_refer_all(language_run *t, propane_error *err) {
    propane_status status = PROPANE_OK;
    train_step_prefer(t->step, NULL);
    for (int pack = 0; pack < 2; pack++)
        for (int64_t w = 0; status == PROPANE_OK && w < t->data.packs[pack].windows; w += t->share) {
            status = train_run_check_cancel(&t->run, err);
            if (status == PROPANE_OK) status = language_refer_batch(t, pack, w, err);
        }
    train_step_prefer(t->step, &t->pairs->preference);
    return status;
}

/* Computes the reference losses before the first batch or validation. A resumed run reads them from the file, because
 * its weights have changed since. */
static propane_status language_refer(language_run *t, propane_error *err) {
    char *path = NULL;
    if (!t->pairs || t->pairs->ready) return PROPANE_OK;
    PROPANE_TRY(train_run_path(&t->run, LANGUAGE_PAIRS_FILE, &path, err));
    if (path && t->run.state.updates > 0 && !file_exists(path))
        return propane_fail(
            err, PROPANE_ERR_NOT_FOUND,
            "%s is missing; it contains the reference log-probabilities of the initial model. Start another run", path);
    if (path && t->run.state.updates > 0) {
        PROPANE_TRY(language_pairs_read(t->pairs, path, err));
    } else {
        PROPANE_TRY(language_refer_all(t, err));
        if (path) PROPANE_TRY(language_pairs_write(t->pairs, path, err));
    }
    t->pairs->ready = true;
    return PROPANE_OK;
}

/* ---- validation -------------------------------------------------------------------------------------------------------- */

/* Returns the number of windows of a validation. No held-out window is used twice. */
static int64_t language_held_out(const language_run *t) {
    const int64_t asked = t->run.options.eval_batches * t->run.options.batch;
    const int64_t there = token_windows_held_out_windows(&t->data);
    return there > 0 && there < asked ? there : asked;
}

/* Makes this rank's windows of a batch in a validation. Windows beyond the last one have no targets. */
static propane_status language_held_out_batch(language_run *t, int64_t batch, int64_t windows, propane_error *err) {
    const train_options *o = &t->run.options;
    for (int64_t i = t->first; i < t->first + t->share; i++) {
        const int64_t index = batch * o->batch + i, at = i * o->context;
        if (index < windows)
            PROPANE_TRY(token_windows_held_out(&t->data, index, windows, t->inputs + at, t->targets + at, err));
        language_pairs_held_out(t->pairs, i, index, windows);
        for (int64_t k = at; index >= windows && k < at + o->context; k++) t->inputs[k] = 0, t->targets[k] = -1;
    }
    return PROPANE_OK;
}

static propane_status language_evaluate(train_run *run, train_evaluation *out, propane_error *err) {
    language_run *t = language_run_of(run);
    const train_options *o = &run->options;
    const int64_t windows = language_held_out(t), own = t->first * o->context, positions = t->share * o->context;
    /* this rank's nats, targets, bytes of text and correctly ordered pairs; then the totals over all ranks */
    double sums[4] = {0};
    PROPANE_TRY(language_refer(t, err));
    for (int64_t b = 0; b * o->batch < windows; b++) {
        double mean = 0;
        PROPANE_TRY(train_run_check_cancel(run, err));
        PROPANE_TRY(language_held_out_batch(t, b, windows, err));
        const double targets = (double)language_count_targets(t, t->first, t->share);
        if (targets == 0) continue;
        for (int64_t i = own; !t->pairs && t->input.bytes_of_token && i < own + positions; i++)
            if (t->targets[i] >= 0) sums[2] += t->input.bytes_of_token[t->targets[i]];
        PROPANE_TRY(language_to_rows(t, own, positions, err));
        PROPANE_TRY(train_step_dropout(t->step, 0, err));
        PROPANE_TRY(train_step_evaluate(t->step, t->inputs + own, t->targets + own, t->nats, &mean, err));
        sums[0] += mean * targets;
        sums[1] += targets;
        if (t->pairs) sums[3] += t->pairs->preference.preferred * t->pairs->preference.pairs;
    }
    PROPANE_TRY(data_parallel_sum(t->group, sums, 4, err));
    out->val_loss = sums[1] > 0 ? sums[0] / sums[1] : 0;
    if (t->pairs && sums[1] > 0) out->val_accuracy = sums[3] / sums[1];
    out->val_nats_per_byte = sums[2] > 0 ? sums[0] / sums[2] : -1;
    int64_t device_ns, host_ns;
    train_step_times(t->step, &device_ns, &host_ns); /* resets the times, which do not belong to the next step */
    (void)train_step_simulated(t->step);
    return PROPANE_OK;
}

/* Makes the batch `ahead` batches after the position and counts its targets for an update: those of this worker's ranks
 * or, in the warm-up, of all ranks. The position does not change. */
static propane_status language_next_count(language_run *t, int64_t ahead, int64_t *out, propane_error *err) {
    const train_options *o = &t->run.options;
    PROPANE_TRY(token_windows_batch(&t->data, (uint64_t)(t->run.state.position + ahead * o->batch), (int)o->batch,
                                    t->inputs, t->targets, err));
    language_pairs_batch(t->pairs, (uint64_t)(t->run.state.position + ahead * o->batch));
    *out = data_parallel_warms(t->group) ? language_count_targets(t, 0, o->batch)
                                         : language_count_targets(t, t->worker_first, t->worker_share);
    return PROPANE_OK;
}

/* Returns the dropout key of this rank's first window. It depends on the position in the data, so a resumed run drops
 * the same elements, and so do several ranks. */
static uint64_t language_dropout_key(const language_run *t) {
    return ((uint64_t)t->run.options.seed << 40) + (uint64_t)(t->run.state.position + t->first) + 1;
}

/* Prepares the last batch of a step, which completes the step's gradients, so the update may begin during the batch. */
static void language_last_batch(language_run *t, const train_ahead *ahead) {
    t->scale = 1 / (t->run.state.scaler.scale * (double)t->run.options.accumulate);
    data_parallel_listen(t->group);
    if (!ahead) return;
    adamw_step how = ahead->how;
    how.gradient_scale *= t->scale;
    if (ahead->speculative)
        train_step_update_speculative(t->step, &how);
    else
        train_step_update_in_batch(t->step, &how);
}

/* Runs one batch. With `ends_early`, a request to stop interrupts the batch; this requires that no update is part of
 * the batch and that no other rank waits for it. */
static propane_status language_batch(language_run *t, bool first, bool ends_early, double scale, double *loss,
                                     propane_error *err) {
    const int64_t own = t->first * t->run.options.context;
    poll_scope scope;
    if (ends_early) poll_begin(&scope);
    propane_status status = train_step_batch(t->step, t->inputs + own, t->targets + own, first, scale, loss, err);
    if (ends_early) status = poll_end(&scope, status, err);
    data_parallel_rest(t->group);
    return status;
}

/* Computes the gradients of a step. All targets count equally, in all batches of the step and on all ranks, because
 * each batch is weighted by its number of targets. With plain text and a single process, all these factors are exactly
 * 1. If the step is stopped, no weights have changed, and the position in the data is reset. */
static propane_status language_gradients(train_run *run, const train_ahead *ahead, double *loss, double *norm,
                                         propane_error *err) {
    language_run *t = language_run_of(run);
    const train_options *o = &t->run.options;
    const bool moves = ahead && !ahead->speculative;
    int64_t total = 0, counted = 0, own = t->first * o->context;
    double sum = 0;
    PROPANE_TRY(language_refer(t, err));
    for (int64_t i = 0; i < o->accumulate; i++) {
        PROPANE_TRY(language_next_count(t, i, &counted, err));
        total += counted;
    }
    for (int64_t i = 0; i < o->accumulate; i++) {
        double part = 0;
        const propane_status well = i > 0 ? train_run_check_cancel(&t->run, err) : PROPANE_OK;
        if (well != PROPANE_OK) {
            t->run.state.position -= i * o->batch;
            return well;
        }
        const bool last = i == o->accumulate - 1;
        PROPANE_TRY(language_next_count(t, 0, &counted, err));
        PROPANE_TRY(language_to_rows(t, own, t->share * o->context, err));
        PROPANE_TRY(train_step_dropout(t->step, language_dropout_key(t), err));
        double weight = (double)(language_count_targets(t, t->first, t->share) * o->accumulate) / (double)total;
        if (last) language_last_batch(t, ahead);
        propane_status status =
            language_batch(t, i == 0, !(last && moves) && !t->group, t->run.state.scaler.scale * weight, &part, err);
        if (status == PROPANE_ERR_CANCELLED) t->run.state.position -= i * o->batch;
        PROPANE_TRY(status);
        t->run.state.position += o->batch;
        sum += part * weight;
    }
    PROPANE_TRY(data_parallel_sum_inside(t->group, &sum, 1, err));
    *loss = sum / (double)o->accumulate;
    PROPANE_TRY(data_parallel_norm(t->group, t->step, norm, err));
    *norm *= t->scale;
    return moves ? data_parallel_updated(t->group, err) : PROPANE_OK;
}

static propane_status language_settle(train_run *run, propane_error *err) {
    return train_step_settle(language_run_of(run)->step, err);
}

static propane_status language_update(train_run *run, adamw_step *how, propane_error *err) {
    language_run *t = language_run_of(run);
    how->gradient_scale *= t->scale;
    PROPANE_TRY(train_step_update(t->step, how, err));
    return data_parallel_updated(t->group, err);
}

static void language_times(train_run *run, double seconds, train_report *report) {
    train_step *step = language_run_of(run)->step;
    int64_t device_ns, host_ns;
    (void)seconds;
    train_step_times(step, &device_ns, &host_ns);
    report->device_ms = (double)device_ns / 1e6;
    report->host_ms = (double)host_ns / 1e6;
    report->simulated = train_step_simulated(step);
}

static bool language_evaluates(const train_run *run) { return run->options.eval_interval > 0 && run->state.step > 0; }

/* Compiles baked programs again after an update, or sets *over_budget if a new process must do so. */
static propane_status language_refresh(train_run *run, bool *over_budget, propane_error *err) {
    language_run *t = language_run_of(run);
    const int cost = train_step_refresh_cost(t->step);
    *over_budget = cost > 0 && t->budget > 0 && train_step_compiles(t->step) + cost > t->budget;
    if (!*over_budget) return train_step_refresh(t->step, err);
    if (run->checkpoint) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "%d of %lld compiles have been used, and there is no run folder to "
                        "restart from",
                        train_step_compiles(t->step), (long long)t->budget);
}

static propane_status language_publish(train_run *run, propane_error *err) {
    return train_step_publish(language_run_of(run)->step, err);
}

static const char *language_not_finite(const train_run *run) {
    return stored_weights_not_finite(language_run_of(run)->weights);
}

/* Writes the adapters with each checkpoint. They are small, and can then be tried while the run continues or after it
 * was stopped. */
static propane_status language_draft(train_run *run, propane_error *err) {
    const train_options *o = &run->options;
    if (o->lora_rank == 0) return PROPANE_OK;
    return model_adapter_write(language_run_of(run)->weights, o->run_dir, o->base, err);
}

static propane_status language_finish(train_run *run, propane_error *err) {
    const language_run *t = language_run_of(run);
    model_weights *whole = NULL;
    if (run->options.lora_rank > 0) return language_draft(run, err);
    if (t->compact) PROPANE_TRY(compact_vocab_restore(t->compact, &t->whole, t->weights, &whole, err));
    propane_status status =
        model_store_write(whole ? whole : t->weights, t->model_path, MODEL_FORM_SAFETENSORS, ST_F32, err);
    model_weights_free(whole);
    return status;
}

/* ---- contents of its checkpoint ---------------------------------------------------------------------------------- */

static propane_status language_describe(const train_run *run, safetensors_writer *w, propane_error *err) {
    return model_store_describe(&language_run_of(run)->weights->config, w, err);
}

static propane_status language_recognise(const train_run *run, const safetensors *file, propane_error *err) {
    const char *config = safetensors_metadata(file, MODEL_STORE_CONFIG), *source = safetensors_source(file);
    model_config stored;
    if (!config)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "%s: its metadata has no '%s'; this is not a checkpoint of a training run", source,
                            MODEL_STORE_CONFIG);
    PROPANE_TRY(model_config_parse(config, strlen(config), source, &stored, err));
    if (model_config_equal(&stored, &language_run_of(run)->weights->config)) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_INVALID,
        "%s holds a different model from the one to train; resume with the configuration of its run folder", source);
}

static int language_fingerprints(const train_run *run, train_fingerprint out[TRAIN_FINGERPRINTS]) {
    const language_run *t = language_run_of(run);
    int n = 0;
    out[n++] = (train_fingerprint){"tokens", t->token_count, "data with this number of tokens:"};
    out[n++] = (train_fingerprint){"token_sum", t->token_sum, "data with the checksum"};
    if (*t->base_sum) out[n++] = (train_fingerprint){"base_sum", t->base_sum, "a model with the checksum"};
    out[n++] =
        (train_fingerprint){"tokenizer", t->input.tokenizer_hash ? t->input.tokenizer_hash : "", "the tokenizer"};
    return n;
}

/* Returns the first tensor of the checkpoint. With adapters, only their tensors are stored, because the model itself
 * does not change. */
static int language_first_tensor(const model_weights *w) { return w->adapter_count > 0 ? w->count : 0; }

static int language_tensor_count(const train_run *run) {
    const model_weights *w = language_run_of(run)->weights;
    return model_weights_total(w) - language_first_tensor(w);
}

/* Returns the momentum that outer steps keep for a tensor, or NULL if there is none. */
static float *language_outer(const language_run *t, int tensor) {
    const outer *o = data_parallel_outer(t->group);
    int i = 0;
    while (o && i < train_step_updated_count(t->step) && train_step_updated(t->step, i) != tensor) i++;
    if (!o || i == train_step_updated_count(t->step)) return NULL;
    return outer_momentum(o, i);
}

static train_tensor language_tensor(const train_run *run, int block, int index) {
    const language_run *t = language_run_of(run);
    const int i = language_first_tensor(t->weights) + index;
    const model_tensor *m = &t->weights->tensors[i];
    if (t->step) (void)!train_step_settle(t->step, NULL); /* the next save or batch reports a failure */
    return (train_tensor){m->name, m->rank, m->dim, m->count,
                          block == 0                   ? model_weights_data(t->weights, m)
                          : block >= TRAIN_OUTER_BLOCK ? language_outer(t, i)
                                                       : train_step_moment(t->step, block, i)};
}

static bool language_learns(const train_run *run, int index) {
    const language_run *t = language_run_of(run);
    return train_step_trains(t->step, language_first_tensor(t->weights) + index);
}

static void language_keep(train_run *run, int block, int index) {
    const language_run *t = language_run_of(run);
    if (block > 0 && block < TRAIN_OUTER_BLOCK)
        train_step_moment_keep(t->step, block, language_first_tensor(t->weights) + index);
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

static void language_free(train_run *run) {
    language_run *t = language_run_of(run);
    train_step_free(t->step);
    token_windows_deinit(&t->data);
    model_weights_free(t->weights);
    compact_vocab_free(t->compact);
}

static const train_run_kind language_run_kind = {
    .free = language_free,
    .gradients = language_gradients,
    .update = language_update,
    .times = language_times,
    .settle = language_settle,
    .evaluates = language_evaluates,
    .evaluate = language_evaluate,
    .refresh = language_refresh,
    .publish = language_publish,
    .not_finite = language_not_finite,
    .draft = language_draft,
    .finish = language_finish,
    .describe = language_describe,
    .recognise = language_recognise,
    .fingerprints = language_fingerprints,
    .tensor_count = language_tensor_count,
    .tensor = language_tensor,
    .learns = language_learns,
    .keep = language_keep,
};

propane_status language_run_create(const train_options *options, const train_input *input, train_run **out,
                                   propane_error *err) {
    *out = NULL;
    PROPANE_TRY(model_config_check(input->config, "the model", err));
    language_run *t = mem_alloc(sizeof *t);
    if (!t) return propane_fail_memory(err, sizeof *t);
    propane_status status = train_run_begin(&t->run, &language_run_kind, options, err);
    if (status == PROPANE_OK) status = language_begin(t, input, err);
    if (status == PROPANE_OK)
        *out = &t->run;
    else
        train_run_free(&t->run);
    return status;
}
