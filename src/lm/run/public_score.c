/* SPDX-License-Identifier: MIT
 * Owns the computation of losses, logits and gradients of a model on a given sequence. Logits and gradients are written
 * as safetensors, so that other programs can be compared with Propane. Logits come from the generation programs, one
 * position after the other. Gradients are those of the mean loss in one training step, with the names and in the form
 * of the model's file.
 */
#include <math.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/run/public.h"
#include "lm/arch/stored_weights.h"
#include "lm/data/jsonl.h"
#include "lm/files/store.h"
#include "lm/infer/public_generator.h"
#include "lm/step/step.h"

propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count, double *nll,
                                       propane_error *err) {
    NEED(err, generator, nll);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    if (count < 2)
        return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids are too few: there is nothing to predict",
                            (long long)count);
    return infer_score(generator->machine, ids, count, nll, err);
}

propane_status propane_generator_embed(propane_generator *generator, const int32_t *ids, int64_t count,
                                       float *embedding, propane_error *err) {
    NEED(err, generator, embedding);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    infer_result result;
    const infer_task task = {.prompt = ids, .prompt_count = count, .logprobs = -1, .embedding = embedding};
    return infer_complete(generator->machine, &task, NULL, NULL, &result, err);
}

static propane_status api_score_check(const propane_generator *g, double mean, propane_error *err) {
    if (isfinite(mean)) return PROPANE_OK;
    const char *name = stored_weights_not_finite(g->model->weights);
    return propane_fail(err, PROPANE_ERR_LIMIT, "%s: the loss is NaN or infinite%s%.200s%s", g->model->path,
                        name ? ": the weights '" : "", name ? name : "", name ? "' contain NaN or infinity" : "");
}

void propane_generator_on_progress(propane_generator *g, propane_on_progress callback, void *context) {
    if (!g) return;
    g->on_progress = callback;
    g->progress_context = context;
}

static propane_status api_score_progress(void *context, int64_t done, int64_t total, double mean, propane_error *err) {
    const propane_generator *g = context;
    if (!g->on_progress || g->on_progress(g->progress_context, done, total, mean)) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_CANCELLED, "stopped after %lld of %lld", (long long)done, (long long)total);
}

propane_status propane_generator_loss(propane_generator *g, const int32_t *ids, int64_t count, double *mean,
                                      int64_t *predictions, propane_error *err) {
    NEED_AS(err, "generator, mean", g, mean);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    if (count < 2)
        return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids are too few: there is nothing to predict",
                            (long long)count);
    PROPANE_TRY(infer_loss(g->machine, ids, count, api_score_progress, g, mean, predictions, err));
    return api_score_check(g, *mean, err);
}

/* Adds to *sum the losses of an example's ids that are to be learned, and to *predictions their number. */
static propane_status api_score_example(infer *m, const train_examples *e, int64_t index, double *nll, double *sum,
                                        int64_t *predictions, propane_error *err) {
    const int64_t begin = e->start[index], most = infer_context(m) + 1;
    const int64_t all = e->start[index + 1] - begin, count = all < most ? all : most;
    if (count < 2) return PROPANE_OK;
    PROPANE_TRY(infer_score(m, e->ids + begin, count, nll, err));
    for (int64_t k = 1; k < count; k++)
        if (e->learn[begin + k]) *sum += nll[k - 1], ++*predictions;
    return PROPANE_OK;
}

propane_status propane_generator_loss_examples(propane_generator *g, const propane_chat *chat, const char *path,
                                               double *mean, int64_t *predictions, int64_t *examples,
                                               propane_error *err) {
    NEED_AS(err, "generator, chat, path, mean", g, chat, path, mean);
    NEED_TEXT(err, path);
    API_ERROR(err);
    train_examples e;
    double sum = 0;
    int64_t count = 0;
    PROPANE_TRY(train_jsonl_read(path, chat->tokenizer, &chat->chat.format, &e, err));
    double *nll = mem_array((size_t)infer_context(g->machine) + 1, sizeof *nll);
    propane_status status = e.pairs ? propane_fail(err, PROPANE_ERR_INVALID,
                                                   "%.400s contains pairs, for which there is no loss on answers; use "
                                                   "it as --val-data of a run with --method dpo",
                                                   path)
                            : nll   ? PROPANE_OK
                                    : propane_fail_memory(err, (size_t)infer_context(g->machine) * sizeof *nll);
    for (int64_t i = 0; i < e.count && status == PROPANE_OK; i++) {
        status = api_score_example(g->machine, &e, i, nll, &sum, &count, err);
        if (status == PROPANE_OK)
            status = api_score_progress(g, i + 1, e.count, count ? sum / (double)count : NAN, err);
    }
    if (status == PROPANE_OK && count == 0)
        status = propane_fail(err, PROPANE_ERR_INVALID, "%s: no answer is within the context of %lld tokens", path,
                              (long long)infer_context(g->machine));
    *mean = count ? sum / (double)count : 0;
    if (predictions) *predictions = count;
    if (examples) *examples = e.count;
    mem_free(nll);
    train_examples_deinit(&e);
    return status == PROPANE_OK ? api_score_check(g, *mean, err) : status;
}

propane_status propane_generator_write_logits(propane_generator *g, const int32_t *ids, int64_t count, const char *path,
                                              propane_error *err) {
    NEED_AS(err, "generator, path", g, path);
    NEED_TEXT(err, path);
    NEED_LIST(err, ids, count);
    if (count < 1) return propane_fail(err, PROPANE_ERR_INVALID, "propane_generator_write_logits: count is 0");
    infer *m = g->machine;
    PROPANE_TRY(file_check_output(path, err));
    int64_t vocab = g->model->weights->config.vocab_size;
    const int64_t dim[] = {count, vocab};
    safetensors_writer *writer = NULL;
    float *logits = mem_array((size_t)vocab, sizeof *logits);
    propane_status status =
        logits ? safetensors_writer_open(path, &writer, err) : propane_fail_memory(err, (size_t)vocab * sizeof *logits);
    if (!status) status = safetensors_writer_declare(writer, "logits", ST_F32, 2, dim, err);
    infer_reset(m);
    for (int64_t i = 0; !status && i < count; i++) {
        status = infer_read(m, ids + i, 1, logits, err);
        if (!status) status = safetensors_writer_data(writer, logits, (size_t)vocab * sizeof *logits, err);
    }
    infer_reset(m);
    mem_free(logits);
    if (!status) return safetensors_writer_commit(writer, err);
    if (writer) safetensors_writer_abort(writer);
    return status;
}

/* Copies the gradients, divided by the loss scale, into a registry of the same model, which is then written like a
 * model. */
static propane_status api_score_collect(train_step *s, model_weights *gradients, double scale, propane_error *err) {
    for (int i = 0; i < gradients->count; i++) {
        const model_tensor *t = &gradients->tensors[i];
        float *to = model_weights_data(gradients, t);
        PROPANE_TRY(train_step_gradient(s, i, to, err));
        for (int64_t k = 0; k < t->count; k++) to[k] = (float)((double)to[k] / scale);
    }
    return PROPANE_OK;
}

propane_status propane_model_write_gradients(propane_model *model, const int32_t *ids, int64_t count,
                                             const propane_gradient_options *options, const char *path, double *loss,
                                             propane_error *err) {
    NEED(err, model, path);
    NEED_TEXT(err, path);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    propane_gradient_options given = {0};
    double mean = 0;
    PROPANE_TRY(api_take(&given, sizeof given, options, "propane_gradient_options", err));
    if (count < 2)
        return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids are too few: there is nothing to predict",
                            (long long)count);
    const bool half = given.precision && strcmp(given.precision, "fp16") == 0;
    if (given.precision && !half && strcmp(given.precision, "fp32") != 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "precision '%.40s' is not one of fp32, fp16", given.precision);
    const double scale = half ? 1024 : 1; /* as in training, so that small gradients stay in fp16's range */
    train_step_options o = {.partition = {.name = given.plan ? given.plan : "layer",
                                          .precision = half ? MIL_fp16 : MIL_fp32,
                                          .batch = 1,
                                          .context = count - 1},
                            .device = given.uri ? given.uri : "cpu"};
    train_step *s = NULL;
    model_weights *gradients = NULL;
    propane_status status = stored_weights_expand(model->weights, err);
    if (!status) status = train_step_create(&o, model->weights, &s, err);
    if (!status) status = train_step_batch(s, ids, ids + 1, true, scale, &mean, err);
    if (!status) status = model_weights_create(&model->weights->config, &gradients, err);
    if (!status) gradients->gradients = true;
    if (!status) status = api_score_collect(s, gradients, scale, err);
    if (!status) status = file_check_output(path, err);
    if (!status) status = model_store_write(gradients, path, MODEL_FORM_SAFETENSORS, ST_F32, err);
    if (!status && loss) *loss = mean;
    model_weights_free(gradients);
    train_step_free(s);
    return status;
}
