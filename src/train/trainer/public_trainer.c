/* SPDX-License-Identifier: MIT
 * Owns the public trainer: its life, its loop and steps, cancelling, and its description.
 * lm/run/public_trainer_language.c and public_trainer_program.c create the run, and train/train_run.h declares its
 * loop.
 */
#include "train/trainer/public_trainer.h"

#include <stdlib.h>
#include <string.h>

#include "ane/chip/cost_model.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/sized.h"
#include "core/files/safetensors.h"
#include "core/run/public.h"
#include "cpu/blas.h"

void propane_set_verify(bool verify) { safetensors_verify_models(verify); }

/* ---- making ------------------------------------------------------------------------------------------------------------------ */

/* Sets the number of threads. Ranks on one machine divide its cores among themselves, unless mpirun has assigned cores
 * to each rank. */
static propane_status api_trainer_threads(const train_options *o, propane_error *err) {
    int64_t threads = o->threads;
    const int usable = pool_usable_cores(), here = o->mpi ? mpi_local_size(o->mpi) : 1;
    if (!threads && !getenv("PROPANE_THREADS") && here > 1 && usable == pool_machine_cores())
        threads = usable / here > 0 ? usable / here : 1;
    return threads || o->given[TRAIN_OPTION_threads] ? pool_set_threads((int)threads, err) : PROPANE_OK;
}

static propane_status api_trainer_take_data(const propane_data *given, const train_options *o, propane_data *out,
                                            bool *in_memory, propane_error *err) {
    PROPANE_TRY(api_take(out, sizeof *out, given, "propane_data", err));
    PROPANE_TRY(need_list(err, "propane_data", "ids", "id_count", out->ids, out->id_count));
    PROPANE_TRY(need_list(err, "propane_data", "arrays", "array_count", out->arrays, out->array_count));
    PROPANE_TRY(
        need_list(err, "propane_data", "validation", "validation_count", out->validation, out->validation_count));
    const bool language = out->text || out->ids, samples = out->arrays && out->array_count;
    if (o->kind == TRAIN_LANGUAGE ? samples : language)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "propane_data: a language model is trained on a text or ids, a program on arrays");
    if (out->text && out->ids)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_data: both a text and ids are set; set only one");
    *in_memory = language || samples;
    return PROPANE_OK;
}

/* Returns the chip that a uri such as "sim:m4?table=0" names, or NULL. */
static const chip *api_trainer_chip(const char *uri) {
    char name[40];
    const chip *found = NULL;
    const char *rest = strchr(uri, ':');
    const size_t length = rest ? strcspn(rest + 1, "?") : 0;
    if (!length || length >= sizeof name) return NULL;
    memcpy(name, rest + 1, length);
    name[length] = 0;
    return chip_find(name, &found, NULL) == PROPANE_OK ? found : NULL;
}

static propane_status api_trainer_open(propane_trainer *t, const propane_options *options, const propane_data *given,
                                       propane_error *err) {
    propane_data data = {0};
    bool in_memory = false;
    PROPANE_TRY(api_options_copy(options, &t->own, err));
    t->options = &t->own->o;
    PROPANE_TRY(api_trainer_take_data(given, t->options, &data, &in_memory, err));
    PROPANE_TRY(propane_options_recall(t->own, err));
    PROPANE_TRY(api_options_check(t->options, in_memory, err));
    if (t->options->given[TRAIN_OPTION_verify]) safetensors_verify_models(t->options->verify);
    PROPANE_TRY(api_trainer_threads(t->options, err));
    if (*t->options->blas) PROPANE_TRY(cpu_blas_choose(t->options->blas, err));
    t->source = in_memory ? "the data" : t->options->sources;
    PROPANE_TRY(t->kind->open(t, &data, err));
    t->chip = api_trainer_chip(t->options->device);
    train_run_cancel_by(t->run, &t->cancel);
    train_run_save_by(t->run, &t->save);
    return api_trainer_record_write(t, err);
}

propane_status propane_trainer_create(const propane_options *options, const propane_data *data, propane_trainer **out,
                                      propane_error *err) {
    if (out) *out = NULL;
    NEED(err, options, out);
    API_ERROR(err);
    propane_trainer *t = mem_alloc(sizeof *t);
    if (!t) return propane_fail_memory(err, sizeof *t);
    t->kind = api_trainer_kinds[options->o.kind];
    t->hold.lock = -1;
    atomic_init(&t->cancel, false);
    atomic_init(&t->save, false);
    t->part = mem_alloc(t->kind->bytes);
    propane_status status =
        t->part ? api_trainer_open(t, options, data, err) : propane_fail_memory(err, t->kind->bytes);
    if (status)
        propane_trainer_free(t);
    else
        *out = t;
    return status;
}

void propane_trainer_free(propane_trainer *t) {
    if (!t) return;
    train_run_free(t->run);
    if (t->options && t->options->run_dir) run_end(t->options->run_dir, &t->hold);
    if (t->part) t->kind->close(t); /* only now, because the run borrows from the part */
    mem_free(t->part);
    propane_options_free(t->own);
    mem_free(t);
}

/* ---- running ----------------------------------------------------------------------------------------------------------------- */

void propane_trainer_cancel(propane_trainer *trainer) {
    if (trainer) atomic_store(&trainer->cancel, true);
}
void propane_trainer_ask_save(propane_trainer *trainer) {
    if (trainer) atomic_store(&trainer->save, true);
}

static propane_step api_trainer_step_of(const propane_trainer *t, const train_report *r) {
    propane_step step = {.size = sizeof step,
                         .step = r->step,
                         .loss = r->loss,
                         .lr = r->lr,
                         .loss_scale = r->loss_scale,
                         .gradient_norm = r->gradient_norm,
                         .skipped = r->skipped,
                         .rate = r->tokens_per_s,
                         .device_ms = r->device_ms,
                         .host_ms = r->host_ms,
                         .outer_bytes = r->outer_bytes,
                         .staleness = r->staleness,
                         .outer_ms = r->outer_ms};
    if (!r->simulated.simulated) return step;
    step.simulated = t->chip ? t->chip->title : "a chip";
    step.energy_j = r->simulated.energy_j;
    step.flops = r->simulated.flops;
    if (t->chip && r->device_ms > 0)
        step.utilisation = r->simulated.flops / (cost_constants_of(t->chip->id)->tflops * 1e9 * r->device_ms);
    return step;
}

static propane_evaluation api_trainer_evaluation_of(const train_evaluation *e) {
    return (propane_evaluation){.size = sizeof(propane_evaluation),
                                .step = e->step,
                                .loss = e->val_loss,
                                .nats_per_byte = e->val_nats_per_byte,
                                .accuracy = e->val_accuracy};
}

static void api_trainer_on_step(void *context, const train_report *r) {
    const propane_trainer *t = context;
    const propane_step step = api_trainer_step_of(t, r);
    if (t->callbacks.on_step) t->callbacks.on_step(t->callbacks.context, &step);
}

static void api_trainer_on_evaluation(void *context, const train_evaluation *e) {
    const propane_trainer_callbacks *c = &((const propane_trainer *)context)->callbacks;
    const propane_evaluation evaluation = api_trainer_evaluation_of(e);
    if (c->on_evaluation) c->on_evaluation(c->context, &evaluation);
}

static void api_trainer_on_checkpoint(void *context, int64_t step, const char *path) {
    const propane_trainer_callbacks *c = &((const propane_trainer *)context)->callbacks;
    if (c->on_checkpoint) c->on_checkpoint(c->context, step, path);
}

static propane_status api_trainer_over_budget(propane_trainer *t, propane_error *err) {
    t->restart = true;
    return propane_fail(err, PROPANE_ERR_LIMIT,
                        "the compile budget is used up after step %lld, and the checkpoint is written; continue in a "
                        "new process with: propane train --resume %.400s",
                        (long long)train_run_steps_done(t->run), train_run_options(t->run)->run_dir);
}

propane_status api_trainer_begin(propane_trainer *t, propane_error *err) {
    if (!atomic_exchange(&t->busy, true)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID,
                        "the trainer is in use by another call: only one thread at a time may use it, and its "
                        "callbacks may only query or cancel it");
}

/* Ends exclusive use. The function that a cancel request has stopped clears the request. */
propane_status api_trainer_end(propane_trainer *t, propane_status status) {
    if (status == PROPANE_ERR_CANCELLED) atomic_store(&t->cancel, false);
    atomic_store(&t->busy, false);
    return status;
}

propane_status propane_trainer_run(propane_trainer *t, const propane_trainer_callbacks *callbacks, propane_error *err) {
    NEED_AS(err, "trainer", t);
    return propane_trainer_advance(t, 0, callbacks, err);
}

static propane_status api_trainer_advance(propane_trainer *t, int64_t steps, const propane_trainer_callbacks *callbacks,
                                          propane_error *err) {
    bool restart = false;
    const int64_t done = train_run_steps_done(t->run),
                  until = steps > 0 && steps < INT64_MAX - done ? done + steps : INT64_MAX;
    t->callbacks = (propane_trainer_callbacks){0};
    PROPANE_TRY(api_take(&t->callbacks, sizeof t->callbacks, callbacks, "propane_trainer_callbacks", err));
    const train_callbacks to = {t, api_trainer_on_step, api_trainer_on_evaluation, api_trainer_on_checkpoint};
    const propane_status status = train_run_go_until(t->run, until, &to, &t->cancel, &restart, err);
    train_run_cancel_by(t->run, &t->cancel);
    return restart && status == PROPANE_OK ? api_trainer_over_budget(t, err) : status;
}

propane_status propane_trainer_advance(propane_trainer *t, int64_t steps, const propane_trainer_callbacks *callbacks,
                                       propane_error *err) {
    NEED_AS(err, "trainer", t);
    API_ERROR(err);
    PROPANE_TRY(api_trainer_begin(t, err));
    return api_trainer_end(t, api_trainer_advance(t, steps, callbacks, err));
}

/* Brings programs up to date with the weights. If the compile budget is used up, saves the weights for another process
 * and fails. */
static propane_status api_trainer_ready(propane_trainer *t, propane_error *err) {
    bool restart = false;
    PROPANE_TRY(train_run_ready(t->run, &restart, err));
    if (!restart) return PROPANE_OK;
    PROPANE_TRY(train_run_save(t->run, err));
    return api_trainer_over_budget(t, err);
}

static propane_status api_trainer_one_step(propane_trainer *t, train_report *r, propane_error *err) {
    const int64_t steps = train_run_options(t->run)->steps;
    if (train_run_steps_done(t->run) >= steps)
        return propane_fail(err, PROPANE_ERR_INVALID, "all %lld steps are done; set a larger 'steps' to continue",
                            (long long)steps);
    PROPANE_TRY(api_trainer_ready(t, err));
    return train_run_step(t->run, r, err);
}

propane_status propane_trainer_step(propane_trainer *t, propane_step *out, propane_error *err) {
    NEED_AS(err, "trainer", t);
    API_ERROR(err);
    train_report r;
    PROPANE_TRY(sized_check(out, "propane_step", err));
    PROPANE_TRY(api_trainer_begin(t, err));
    PROPANE_TRY(api_trainer_end(t, api_trainer_one_step(t, &r, err)));
    const propane_step mine = api_trainer_step_of(t, &r);
    (void)api_give(out, &mine, sizeof mine);
    return PROPANE_OK;
}

static propane_status api_trainer_evaluate(propane_trainer *t, train_evaluation *out, propane_error *err) {
    PROPANE_TRY(api_trainer_ready(t, err));
    return train_run_evaluate(t->run, out, err);
}

propane_status propane_trainer_evaluate(propane_trainer *t, propane_evaluation *out, propane_error *err) {
    NEED_AS(err, "trainer", t);
    API_ERROR(err);
    train_evaluation e;
    PROPANE_TRY(sized_check(out, "propane_evaluation", err));
    PROPANE_TRY(api_trainer_begin(t, err));
    PROPANE_TRY(api_trainer_end(t, api_trainer_evaluate(t, &e, err)));
    const propane_evaluation mine = api_trainer_evaluation_of(&e);
    (void)api_give(out, &mine, sizeof mine);
    return PROPANE_OK;
}

static propane_status api_trainer_save(propane_trainer *t, propane_error *err) {
    if (train_run_options(t->run)->run_dir) return train_run_save(t->run, err);
    return propane_fail(err, PROPANE_ERR_INVALID, "there is no run folder to save to; set the option 'run'");
}

propane_status propane_trainer_save(propane_trainer *t, propane_error *err) {
    NEED_AS(err, "trainer", t);
    API_ERROR(err);
    PROPANE_TRY(api_trainer_begin(t, err));
    return api_trainer_end(t, api_trainer_save(t, err));
}

propane_status propane_trainer_write(propane_trainer *t, const char *path, propane_error *err) {
    NEED_AS(err, "trainer, path", t, path);
    NEED_TEXT(err, path);
    API_ERROR(err);
    PROPANE_TRY(api_trainer_begin(t, err));
    return api_trainer_end(t, t->kind->write(t, path, err));
}

/* ---- reports ---------------------------------------------------------------------------------------------------- */

bool propane_trainer_describe(const propane_trainer *t, propane_trainer_info *out) {
    if (!t || !out) return false;
    propane_trainer_info mine = {.unit = t->kind->unit,
                                 .step = train_run_steps_done(t->run),
                                 .steps = train_run_options(t->run)->steps,
                                 .writes = train_run_writes(t->run),
                                 .restart = t->restart,
                                 .kept = train_run_keeps_best(t->run),
                                 .over = train_run_is_over(t->run)};
    mine.best_step = train_run_best(t->run, &mine.best_loss);
    t->kind->describe(t, &mine);
    return api_give(out, &mine, sizeof mine);
}

propane_status propane_trainer_facts(const propane_trainer *t, char **out, propane_error *err) {
    if (out) *out = NULL;
    NEED_AS(err, "trainer, out", t, out);
    const train_options *o = train_run_options(t->run);
    json_t *facts = json_object(), *log = json_object(), *options = json_object();
    for (int i = 0; i < TRAIN_OPTIONS; i++) {
        const train_option *row = &train_option_rows[i];
        if (!row->use[o->kind].help) continue;
        json_put(options, row->name ? row->name : row->key, api_trainer_option_value(row, o));
        if (row->use[o->kind].log == TRAIN_LOGGED || (row->use[o->kind].log == TRAIN_ADAPTERS && o->lora_rank > 0))
            json_put(log, row->key, api_trainer_option_value(row, o));
    }
    json_put(facts, "unit", json_string(t->kind->unit));
    json_put(facts, "source", json_string(t->source));
    /* whether checkpoints are written before the end of the run */
    json_put(facts, "checkpoints", json_boolean(o->checkpoint_interval > 0));
    t->kind->facts(t, log, facts);
    json_put(facts, "options", options);
    json_put(facts, "log", log);
    propane_status status = json_print(facts, JSON_COMPACT, out, NULL, err);
    json_decref(facts);
    return status;
}

int propane_trainer_profile_count(const propane_trainer *t) {
    if (!t) return 0;
    return train_run_options(t->run)->profile ? t->kind->profile_count(t) : 0;
}

bool propane_trainer_profile_get(const propane_trainer *t, int index, propane_profile_row *out) {
    if (!t || !out) return false;
    propane_profile_row row = {.engine_ns = -1};
    if (index < 0 || index >= propane_trainer_profile_count(t)) return false;
    t->kind->profile_row(t, index, &row);
    return api_give(out, &row, sizeof row);
}

/* ---- several processes --------------------------------------------------------------------------------------------------------- */

propane_status propane_ranks_open(propane_ranks **out, propane_error *err) {
    if (out) *out = NULL;
    NEED(err, out);
    return mpi_started() ? mpi_open(out, err) : PROPANE_OK;
}

int propane_ranks_rank(const propane_ranks *ranks) { return mpi_rank(ranks); }
int propane_ranks_count(const propane_ranks *ranks) { return ranks ? mpi_size(ranks) : 1; }
void propane_ranks_abort(propane_ranks *ranks, int code) {
    if (ranks) mpi_abort(ranks, code);
}
void propane_ranks_close(propane_ranks *ranks) { mpi_close(ranks); }
