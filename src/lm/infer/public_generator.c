/* SPDX-License-Identifier: MIT
 * Owns the public generator: a running model that passes its text to a callback as the text becomes final.
 * lm/infer/complete.h writes texts, and lm/infer/converse.h formats conversations.
 */
#include <string.h>

#include "core/base/memory.h"
#include "core/base/sized.h"
#include "core/base/words.h"
#include "core/run/public.h"
#include "lm/infer/public_generator.h"
#include "lm/infer/weight_format.h"

const char *propane_weight_forms(void) { return FORM_WORDS; }

static propane_status api_generator_start(propane_generator *g, const propane_generator_options *o,
                                          propane_error *err) {
    const char *precision = o->precision ? o->precision : "fp32", *form = o->weights ? o->weights : "auto";
    if (!words_have("fp32|fp16", '|', precision))
        return propane_fail(err, PROPANE_ERR_INVALID, "precision '%.40s' is not one of fp32, fp16", precision);
    if (!words_have(FORM_WORDS, '|', form))
        return propane_fail(err, PROPANE_ERR_INVALID, "weights '%.40s' is not one of " FORM_WORDS, form);
    if (o->parallel < 0 || o->parallel > INFER_MAX_SEQUENCES)
        return propane_fail(err, PROPANE_ERR_INVALID, "parallel is %d; the maximum is %d", o->parallel,
                            INFER_MAX_SEQUENCES);
    if (g->tokenizer) PROPANE_TRY(propane_model_takes(g->model, g->tokenizer, err));
    if (!o->device) PROPANE_TRY(propane_device_open(o->uri ? o->uri : "cpu", &g->own, err));
    g->device = o->device ? o->device : g->own;
    const mil_dtype dtype = strcmp(precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32;
    const infer_options own = {.dtype = dtype,
                               .context = o->context,
                               .chunk = o->chunk,
                               .weights = form_of(form),
                               .exact = form_is_exact(form, propane_device_describe(g->device)->uri, dtype),
                               .sequences = o->parallel ? o->parallel : 1};
    return infer_create(g->device, g->model->weights, &own, &g->machine, err);
}

propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *t,
                                        const propane_generator_options *options, propane_generator **out,
                                        propane_error *err) {
    if (out) *out = NULL;
    NEED(err, model, out);
    API_ERROR(err);
    propane_generator_options o = {0};
    PROPANE_TRY(api_take(&o, sizeof o, options, "propane_generator_options", err));
    propane_generator *g = mem_alloc(sizeof *g);
    if (!g) return propane_fail_memory(err, sizeof *g);
    g->model = model;
    g->tokenizer = t;
    propane_status status = api_generator_start(g, &o, err);
    if (status)
        propane_generator_free(g);
    else
        *out = g;
    return status;
}

void propane_generator_free(propane_generator *generator) {
    if (!generator) return;
    infer_free(generator->machine);
    propane_device_close(generator->own);
    mem_free(generator);
}

const char *propane_generator_weights(const propane_generator *generator) {
    return generator ? infer_weight_forms(generator->machine) : NULL;
}

int64_t propane_generator_context(const propane_generator *generator) {
    return generator ? infer_context(generator->machine) : 0;
}

int propane_generator_parallel(const propane_generator *generator) {
    return generator ? infer_sequences(generator->machine) : 0;
}

void propane_sampling_default(propane_sampling *sampling) {
    const propane_sampling mine = {
        .count = 200, .temperature = 0.8, .top_p = 0.95, .repetition = 1, .seed = 1, .logprobs = -1};
    (void)api_give(sampling, &mine, sizeof mine);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

bool api_generator_on_step(void *context, const infer_step *step) {
    const generator_task *to = context;
    propane_logprob top[INFER_MAX_LOGPROBS];
    if (!to->callback) return true;
    for (int i = 0; i < step->top_count; i++) top[i] = (propane_logprob){step->top[i].id, step->top[i].logprob};
    const propane_token token = {.size = sizeof token,
                                 .id = step->id,
                                 .end = step->end,
                                 .logprob = step->chosen.logprob,
                                 .top = top,
                                 .top_count = step->top_count,
                                 .text = step->text,
                                 .length = step->length};
    return to->callback(to->context, &token);
}

static infer_sampling api_generator_draws(const propane_sampling *s) {
    return (infer_sampling){.temperature = s->temperature,
                            .top_k = s->top_k,
                            .top_p = s->top_p,
                            .min_p = s->min_p,
                            .repetition = s->repetition,
                            .frequency = s->frequency,
                            .presence = s->presence,
                            .seed = s->seed};
}

static propane_status api_generator_sampling(const propane_sampling *given, propane_sampling *out, propane_error *err) {
    *out = (propane_sampling){.size = sizeof *out};
    propane_sampling_default(out);
    PROPANE_TRY(api_take(out, sizeof *out, given, "propane_sampling", err));
    PROPANE_TRY(need_list(err, "propane_sampling", "stops", "stop_count", out->stops, out->stop_count));
    if (out->stop_count > PROPANE_MAX_STOPS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%d stop strings; the maximum is %d", out->stop_count,
                            PROPANE_MAX_STOPS);
    PROPANE_TRY(need_names(err, "propane_sampling", "stops", "stop_count", out->stops, out->stop_count));
    if (out->logprobs < -1 || out->logprobs > INFER_MAX_LOGPROBS || out->count < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "logprobs must be -1 to %d, and count must not be negative",
                            INFER_MAX_LOGPROBS);
    const infer_sampling draws = api_generator_draws(out);
    return infer_sampling_check(&draws, err);
}

propane_status propane_sampling_check(const propane_sampling *sampling, propane_error *err) {
    propane_sampling own;
    return api_generator_sampling(sampling, &own, err);
}

propane_status api_generator_task(const propane_generator *g, const int32_t *ids, int64_t count,
                                  const propane_sampling *given, propane_on_token callback, void *context,
                                  generator_task *out, propane_error *err) {
    *out = (generator_task){.callback = callback, .context = context};
    propane_sampling *s = &out->sampling;
    int stops = 0;
    PROPANE_TRY(api_generator_sampling(given, s, err));
    if (count < 1) return propane_fail(err, PROPANE_ERR_INVALID, "the prompt is empty: give at least one id");
    const infer_chat *chat = s->chat ? &s->chat->chat : NULL;
    out->eos = g->tokenizer && !s->ignore_end ? tokenizer_eos(g->tokenizer) : -1;
    for (int i = 0; i < s->stop_count; i++) out->stops[stops++] = s->stops[i];
    for (int i = 0; chat && i < chat->stop_count; i++) out->stops[stops++] = chat->stops[i];
    out->task = (infer_task){.tokenizer = g->tokenizer,
                             .prompt = ids,
                             .prompt_count = count,
                             .count = s->count,
                             .ends = chat ? chat->ends : &out->eos,
                             .end_count = chat ? chat->end_count : out->eos >= 0,
                             .stops = out->stops,
                             .stop_count = stops,
                             .logprobs = s->logprobs,
                             .sampling = api_generator_draws(s)};
    return PROPANE_OK;
}

static const struct {
    propane_finish out;
    const char *name;
} api_generator_finishes[] = {[INFER_FINISH_LENGTH] = {PROPANE_FINISH_LENGTH, "length"},
                              [INFER_FINISH_CONTEXT] = {PROPANE_FINISH_CONTEXT, "context"},
                              [INFER_FINISH_END] = {PROPANE_FINISH_END, "end"},
                              [INFER_FINISH_STOP] = {PROPANE_FINISH_STOP, "stop"},
                              [INFER_FINISH_CALLER] = {PROPANE_FINISH_CALLER, "cancelled"}};

const char *propane_finish_name(propane_finish finish) {
    for (size_t i = 0; i < sizeof api_generator_finishes / sizeof api_generator_finishes[0]; i++)
        if (api_generator_finishes[i].out == finish) return api_generator_finishes[i].name;
    return "unknown";
}

void api_generator_give(const infer_result *result, int64_t prompt_count, propane_generation *out) {
    const propane_generation mine = {.finish = api_generator_finishes[result->finish].out,
                                     .prompt_count = prompt_count,
                                     .made = result->made,
                                     .reused = result->reused};
    (void)api_give(out, &mine, sizeof mine);
}

propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                    const propane_sampling *sampling, propane_on_token callback, void *context,
                                    propane_generation *out, propane_error *err) {
    NEED(err, generator);
    NEED_LIST(err, ids, count);
    API_ERROR(err);
    generator_task t;
    infer_result result = {0};
    PROPANE_TRY(sized_check(out, "propane_generation", err));
    PROPANE_TRY(api_generator_task(generator, ids, count, sampling, callback, context, &t, err));
    if (generator->streams[0])
        return propane_fail(err, PROPANE_ERR_LIMIT, "a stream of this generator is still active; free it first");
    PROPANE_TRY(infer_complete(generator->machine, &t.task, api_generator_on_step, &t, &result, err));
    api_generator_give(&result, count, out);
    return PROPANE_OK;
}

static propane_status api_generator_needs_text(const propane_generator *g, propane_error *err) {
    if (g->tokenizer) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "the generator has no tokenizer; give ids instead");
}

propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                const propane_sampling *sampling, propane_on_token callback, void *context,
                                propane_generation *out, propane_error *err) {
    NEED(err, generator);
    NEED_LIST(err, prompt, length);
    API_ERROR(err);
    token_list ids = {0};
    PROPANE_TRY(sized_check(out, "propane_generation", err));
    PROPANE_TRY(api_generator_needs_text(generator, err));
    const int bos = tokenizer_bos(generator->tokenizer);
    propane_status status = bos >= 0 ? token_list_add(&ids, bos, err) : PROPANE_OK;
    if (!status) status = tokenizer_encode(generator->tokenizer, prompt, length, &ids, err);
    if (!status)
        status = propane_generate_ids(generator, ids.ids, (int64_t)ids.count, sampling, callback, context, out, err);
    token_list_deinit(&ids);
    return status;
}

propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                     const propane_chat_message *messages, int count, const propane_sampling *sampling,
                                     propane_on_token callback, void *context, propane_generation *out,
                                     propane_error *err) {
    NEED(err, generator);
    NEED_LIST(err, messages, count);
    API_ERROR(err);
    propane_sampling s;
    propane_chat *chat = NULL;
    int32_t *ids = NULL;
    int64_t id_count = 0;
    PROPANE_TRY(sized_check(out, "propane_generation", err));
    PROPANE_TRY(api_generator_needs_text(generator, err));
    PROPANE_TRY(api_generator_sampling(sampling, &s, err));
    PROPANE_TRY(propane_chat_open(generator->model, generator->tokenizer, format, &chat, err));
    const int64_t room = infer_context(generator->machine), space = s.count < room / 4 ? s.count : room / 4;
    propane_status status = propane_chat_encode(chat, messages, count, room - space, &ids, &id_count, NULL, err);
    s.chat = chat;
    if (!status) status = propane_generate_ids(generator, ids, id_count, &s, callback, context, out, err);
    propane_free(ids);
    propane_chat_free(chat);
    return status;
}
