/* SPDX-License-Identifier: MIT
 * Owns the public generator: a model that runs, what it writes given to a callback as it becomes certain. The work is
 * infer/complete.h's, the words of a conversation infer/converse.h's.
 */
#include <string.h>

#include "api/api.h"
#include "api/api_model.h"
#include "api/run_folder.h"
#include "api/weight_format.h"
#include "base/memory.h"
#include "infer/complete.h"
#include "infer/converse.h"

struct propane_generator {
    const propane_model *model;
    const tokenizer *tokenizer; /* NULL: ids alone */
    propane_device *device, *own;
    infer *machine;
};

static bool api_generator_is_one_of(const char *word, const char *words) {
    const size_t n = strlen(word);
    for (const char *at = words; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == n && memcmp(at, word, n) == 0) return true;
    return false;
}

static propane_status api_generator_start(propane_generator *g, const propane_generator_options *o,
                                          propane_error *err) {
    const char *precision = o->precision ? o->precision : "fp32", *form = o->weights ? o->weights : "auto";
    if (!api_generator_is_one_of(precision, "fp32|fp16"))
        return propane_fail(err, PROPANE_ERR_INVALID, "precision '%.40s' is not one of fp32, fp16", precision);
    if (!api_generator_is_one_of(form, FORM_WORDS))
        return propane_fail(err, PROPANE_ERR_INVALID, "weights '%.40s' is not one of " FORM_WORDS, form);
    if (g->tokenizer)
        PROPANE_TRY(run_vocabulary(g->model->path, g->model->weights->config.vocab_size, g->tokenizer, err));
    if (!o->device) PROPANE_TRY(propane_device_open(o->uri ? o->uri : "cpu", &g->own, err));
    g->device = o->device ? o->device : g->own;
    const mil_dtype dtype = strcmp(precision, "fp16") == 0 ? MIL_fp16 : MIL_fp32;
    const infer_options own = {.dtype = dtype,
                               .context = o->context,
                               .chunk = o->chunk,
                               .weights =
                                   form_of(form, propane_device_describe(g->device)->uri, dtype, g->model->weights),
                               .sequences = 1};
    return infer_create(g->device, g->model->weights, &own, &g->machine, err);
}

propane_status propane_generator_create(const propane_model *model, const propane_tokenizer *t,
                                        const propane_generator_options *options, propane_generator **out,
                                        propane_error *err) {
    API_ERROR(err);
    propane_generator_options o = {0};
    *out = NULL;
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

int64_t propane_generator_context(const propane_generator *generator) { return infer_context(generator->machine); }

void propane_sampling_default(propane_sampling *sampling) {
    const propane_sampling mine = {
        .count = 200, .temperature = 0.8, .top_p = 0.95, .repetition = 1, .seed = 1, .logprobs = -1};
    (void)api_give(sampling, &mine, sizeof mine);
}

/* ---- writing ---------------------------------------------------------------------------------------------------------------- */

typedef struct generation {
    propane_on_token callback;
    void *context;
} generation;

static bool api_generator_on_step(void *context, const infer_step *step) {
    const generation *to = context;
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

static propane_status api_generator_run(propane_generator *g, const token_list *ids, const propane_sampling *s,
                                        const infer_chat *chat, generation *to, propane_generation *out,
                                        propane_error *err) {
    static const propane_finish finishes[] = {[INFER_FINISH_LENGTH] = PROPANE_FINISH_LENGTH,
                                              [INFER_FINISH_CONTEXT] = PROPANE_FINISH_CONTEXT,
                                              [INFER_FINISH_END] = PROPANE_FINISH_END,
                                              [INFER_FINISH_STOP] = PROPANE_FINISH_STOP,
                                              [INFER_FINISH_CALLER] = PROPANE_FINISH_CALLER};
    const char *stops[PROPANE_MAX_STOPS + INFER_MAX_ENDS];
    const int32_t eos = g->tokenizer && !s->ignore_end ? tokenizer_eos(g->tokenizer) : -1;
    int stop_count = 0;
    if (s->stop_count < 0 || s->stop_count > PROPANE_MAX_STOPS)
        return propane_fail(err, PROPANE_ERR_INVALID, "%d stop strings; the most is %d", s->stop_count,
                            PROPANE_MAX_STOPS);
    if (s->logprobs < -1 || s->logprobs > INFER_MAX_LOGPROBS || s->count < 0)
        return propane_fail(err, PROPANE_ERR_INVALID, "logprobs is -1 to %d and count not negative",
                            INFER_MAX_LOGPROBS);
    for (int i = 0; i < s->stop_count; i++) stops[stop_count++] = s->stops[i];
    for (int i = 0; chat && i < chat->stop_count; i++) stops[stop_count++] = chat->stops[i];
    const infer_task task = {.tokenizer = g->tokenizer,
                             .prompt = ids->ids,
                             .prompt_count = (int64_t)ids->count,
                             .count = s->count,
                             .ends = chat ? chat->ends : &eos,
                             .end_count = chat ? chat->end_count : eos >= 0,
                             .stops = stops,
                             .stop_count = stop_count,
                             .logprobs = s->logprobs,
                             .sampling = {.temperature = s->temperature,
                                          .top_k = s->top_k,
                                          .top_p = s->top_p,
                                          .min_p = s->min_p,
                                          .repetition = s->repetition,
                                          .frequency = s->frequency,
                                          .presence = s->presence,
                                          .seed = s->seed}};
    infer_result result = {0};
    PROPANE_TRY(infer_sampling_check(&task.sampling, err));
    if (!ids->count) return propane_fail(err, PROPANE_ERR_INVALID, "the prompt is empty: give at least one id");
    PROPANE_TRY(infer_complete(g->machine, &task, api_generator_on_step, to, &result, err));
    const propane_generation mine = {.finish = finishes[result.finish],
                                     .prompt_count = task.prompt_count,
                                     .made = result.made,
                                     .reused = result.reused};
    if (out) (void)api_give(out, &mine, sizeof mine);
    return PROPANE_OK;
}

static propane_status api_generator_sampling(const propane_sampling *given, propane_sampling *out, propane_error *err) {
    *out = (propane_sampling){.size = sizeof *out};
    propane_sampling_default(out);
    return api_take(out, sizeof *out, given, "propane_sampling", err);
}

propane_status propane_generate_ids(propane_generator *generator, const int32_t *ids, int64_t count,
                                    const propane_sampling *sampling, propane_on_token callback, void *context,
                                    propane_generation *out, propane_error *err) {
    API_ERROR(err);
    propane_sampling s;
    generation to = {callback, context};
    PROPANE_TRY(api_generator_sampling(sampling, &s, err));
    if (count < 0) return propane_fail(err, PROPANE_ERR_INVALID, "a prompt of %lld ids", (long long)count);
    const token_list list = {.ids = (int32_t *)(uintptr_t)ids, .count = (size_t)count};
    return api_generator_run(generator, &list, &s, NULL, &to, out, err);
}

static propane_status api_generator_needs_text(const propane_generator *g, propane_error *err) {
    if (g->tokenizer) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "the generator has no tokenizer: it takes ids alone");
}

propane_status propane_generate(propane_generator *generator, const char *prompt, size_t length,
                                const propane_sampling *sampling, propane_on_token callback, void *context,
                                propane_generation *out, propane_error *err) {
    API_ERROR(err);
    propane_sampling s;
    generation to = {callback, context};
    token_list ids = {0};
    PROPANE_TRY(api_generator_needs_text(generator, err));
    PROPANE_TRY(api_generator_sampling(sampling, &s, err));
    const int bos = tokenizer_bos(generator->tokenizer);
    propane_status status = bos >= 0 ? token_list_add(&ids, bos, err) : PROPANE_OK;
    if (!status) status = tokenizer_encode(generator->tokenizer, prompt, length, &ids, err);
    if (!status) status = api_generator_run(generator, &ids, &s, NULL, &to, out, err);
    token_list_deinit(&ids);
    return status;
}

propane_status propane_generate_chat(propane_generator *generator, const char *format,
                                     const propane_chat_message *messages, int count, const propane_sampling *sampling,
                                     propane_on_token callback, void *context, propane_generation *out,
                                     propane_error *err) {
    API_ERROR(err);
    propane_sampling s;
    infer_chat chat;
    generation to = {callback, context};
    token_list ids = {0};
    PROPANE_TRY(api_generator_needs_text(generator, err));
    PROPANE_TRY(api_generator_sampling(sampling, &s, err));
    if (count < 1) return propane_fail(err, PROPANE_ERR_INVALID, "a conversation of %d messages", count);
    PROPANE_TRY(infer_chat_open(generator->model->path, generator->tokenizer, format, &chat, err));
    chat_message *own = mem_array((size_t)count, sizeof *own);
    if (!own) return propane_fail_memory(err, (size_t)count * sizeof *own);
    for (int i = 0; i < count; i++) own[i] = (chat_message){messages[i].role, messages[i].content};
    const int64_t room = infer_context(generator->machine);
    const int64_t space = s.count < room / 4 ? s.count : room / 4;
    int kept = count, dropped = 0;
    propane_status status = infer_chat_fit(&chat, generator->tokenizer, own, &kept, room - space, &ids, &dropped, err);
    if (!status) status = api_generator_run(generator, &ids, &s, &chat, &to, out, err);
    token_list_deinit(&ids);
    mem_free(own);
    return status;
}

propane_status propane_generator_score(propane_generator *generator, const int32_t *ids, int64_t count, double *nll,
                                       propane_error *err) {
    API_ERROR(err);
    if (count < 2) return propane_fail(err, PROPANE_ERR_INVALID, "%lld ids: nothing is predicted", (long long)count);
    return infer_score(generator->machine, ids, count, nll, err);
}
