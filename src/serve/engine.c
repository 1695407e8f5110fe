/* SPDX-License-Identifier: MIT
 * Owns the carrying out of one request at a time: prompts to ids, one completion after the other, text into objects.
 */
#include "serve/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct answer {
    serve_engine *e;
    const serve_request *r;
    const serve_outlet *out;
    serve_head head;
    serve_usage usage;
    bool begun, gone;
    int index;        /* of the choice */
    text content;     /* of the choice; in a stream: what goes out next */
    size_t told;      /* bytes of text before */
    json_t *logprobs; /* of the choice, or since the last part */
    json_t *choices;
    text bytes; /* printed, not yet written */
} answer;

void serve_answer_problem(const serve_problem *p, const serve_outlet *out) {
    text t = {0};
    serve_print_problem(&t, p);
    out->begin(out->context, p->http, false);
    (void)out->write(out->context, t.data ? t.data : "", t.length);
    text_deinit(&t);
}

bool serve_model_is(const serve_engine *e, const char *model, serve_problem *p) {
    if (!model || strcmp(model, e->name) == 0) return true;
    return serve_refuse(p, 404, "invalid_request_error", "model", "model_not_found",
                        "the model '%.200s' does not exist here; this server has '%.200s'", model, e->name);
}

static void write_out(answer *a) {
    if (!a->begun) {
        a->begun = true;
        a->out->begin(a->out->context, 200, a->r->stream);
    }
    if (a->bytes.length && !a->out->write(a->out->context, a->bytes.data, a->bytes.length)) a->gone = true;
    text_clear(&a->bytes);
}

/* ---- one choice ----------------------------------------------------------------------------------------------------- */

static void send_part(answer *a, const char *finish) {
    serve_stream_part(&a->bytes, &a->head, a->index, a->content.data ? a->content.data : "", a->content.length,
                      a->logprobs, finish);
    a->logprobs = a->r->logprobs >= 0 && !finish ? serve_logprobs(a->r->chat) : NULL;
    text_clear(&a->content);
    write_out(a);
}

static bool on_step(void *context, const infer_step *step) {
    answer *a = context;
    if (a->logprobs && step->id >= 0 && !step->end)
        serve_logprobs_add(a->logprobs, a->r->chat, a->e->tokenizer, step, a->told);
    text_append_n(&a->content, step->text, step->length);
    a->told += step->length;
    if (a->r->stream && (step->length || (a->logprobs && step->id >= 0 && !step->end))) send_part(a, NULL);
    if (!a->out->wanted(a->out->context)) a->gone = true;
    return !a->gone;
}

static bool run_choice(answer *a, const token_list *ids, const serve_prompt *prompt, serve_problem *p) {
    propane_error err = {0};
    const serve_request *r = a->r;
    const char *stops[SERVE_MAX_STOPS + INFER_MAX_ENDS];
    int32_t eos = tokenizer_eos(a->e->tokenizer);
    int stop_count = 0;
    for (; stop_count < r->stop_count; stop_count++) stops[stop_count] = r->stops[stop_count];
    for (int i = 0; r->chat && i < a->e->chat->stop_count; i++) stops[stop_count++] = a->e->chat->stops[i];
    infer_task task = {.tokenizer = a->e->tokenizer,
                       .prompt = ids->ids,
                       .prompt_count = (int64_t)ids->count,
                       .count = r->max_tokens >= 0 ? r->max_tokens : INT64_MAX,
                       .ends = r->chat ? a->e->chat->ends : &eos,
                       .end_count = r->chat ? a->e->chat->end_count : eos >= 0,
                       .stops = stops,
                       .stop_count = stop_count,
                       .logprobs = r->logprobs,
                       .sampling = r->sampling};
    infer_result result;
    task.sampling.seed = (r->seeded ? r->sampling.seed : a->e->next_seed) + (uint64_t)a->index;
    a->told = 0;
    text_clear(&a->content);
    a->logprobs = r->logprobs >= 0 ? serve_logprobs(r->chat) : NULL;
    if (r->echo && prompt->text) text_append_n(&a->content, prompt->text, (size_t)prompt->count);
    if (r->echo && !prompt->text) tokenizer_decode_bytes(a->e->tokenizer, ids->ids, ids->count, &a->content);
    if (r->stream && r->chat) serve_stream_begin(&a->bytes, &a->head, a->index);
    if (r->stream && a->content.length) send_part(a, NULL);
    if (infer_complete(a->e->machine, &task, on_step, a, &result, &err))
        return serve_refuse(p, 500, "server_error", NULL, NULL, "%s", err.text);
    a->usage.completion += result.made;
    if (a->index == 0) a->usage.reused = result.reused;
    if (a->gone) return true;
    if (r->stream) {
        send_part(a, serve_finish(result.finish));
    } else {
        json_t *choice = serve_choice(&a->head, a->index, a->content.data ? a->content.data : "", a->content.length,
                                      a->logprobs, serve_finish(result.finish));
        a->logprobs = NULL;
        if (!choice || json_array_append_new(a->choices, choice))
            return serve_refuse(p, 500, "server_error", NULL, NULL, "there is no memory for the answer");
    }
    return true;
}

/* ---- prompts -------------------------------------------------------------------------------------------------------- */

static bool encode_prompt(const serve_engine *e, const serve_prompt *prompt, token_list *ids, propane_error *err) {
    if (!prompt->text) {
        for (int64_t i = 0; i < prompt->count; i++)
            if (token_list_add(ids, prompt->ids[i], err)) return false;
        return true;
    }
    int bos = tokenizer_bos(e->tokenizer);
    if (bos >= 0 && token_list_add(ids, bos, err)) return false;
    return tokenizer_encode(e->tokenizer, prompt->text, (size_t)prompt->count, ids, err) == PROPANE_OK;
}

static bool check_ids(const answer *a, const token_list *ids, const char *param, serve_problem *p) {
    int64_t room = infer_context(a->e->machine);
    if (ids->count == 0)
        return serve_refuse(p, 400, "invalid_request_error", param, NULL,
                            "the prompt is empty and this model has no token for the beginning of a text");
    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= infer_vocab(a->e->machine))
            return serve_refuse(p, 400, "invalid_request_error", param, NULL,
                                "token id number %zu is not in the model's vocabulary of %d", i + 1,
                                infer_vocab(a->e->machine));
    if ((int64_t)ids->count <= room) return true;
    return serve_refuse(p, 400, "invalid_request_error", param, "context_length_exceeded",
                        "the prompt has %zu tokens, the model's context has room for %" PRId64 "; shorten it",
                        ids->count, room);
}

/* Ids of prompt number i; a chat has one. */
static bool prompt_ids(const answer *a, int i, token_list *ids, serve_problem *p) {
    propane_error err = {0};
    const char *param = a->r->chat ? "messages" : "prompt";
    bool good = a->r->chat ? infer_chat_encode(a->e->chat, a->e->tokenizer, a->r->messages, a->r->message_count, ids,
                                               &err) == PROPANE_OK
                           : encode_prompt(a->e, &a->r->prompts[i], ids, &err);
    if (good) return check_ids(a, ids, param, p);
    bool own = err.status == PROPANE_ERR_MEMORY;
    return serve_refuse(p, own ? 500 : 400, own ? "server_error" : "invalid_request_error", param, NULL, "%s",
                        err.text);
}

static bool run_prompts(answer *a, serve_problem *p) {
    int prompts = a->r->chat ? 1 : a->r->prompt_count;
    bool good = true;
    for (int i = 0; good && !a->gone && i < prompts; i++) {
        token_list ids = {0};
        good = prompt_ids(a, i, &ids, p);
        a->usage.prompt += (int64_t)ids.count;
        for (int n = 0; good && !a->gone && n < a->r->choices; n++, a->index++)
            good = run_choice(a, &ids, a->r->chat ? NULL : &a->r->prompts[i], p);
        token_list_deinit(&ids);
    }
    return good;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

/* An error in the middle of a stream is its last event. */
static void end_with_problem(answer *a, const serve_problem *p) {
    if (!a->begun) {
        serve_answer_problem(p, a->out);
        return;
    }
    text_clear(&a->bytes);
    serve_stream_problem(&a->bytes, p);
    write_out(a);
}

static void end_well(answer *a) {
    if (a->r->stream) {
        if (a->r->include_usage) serve_stream_usage(&a->bytes, &a->head, &a->usage);
        serve_stream_done(&a->bytes);
    } else {
        serve_print_answer(&a->bytes, &a->head, a->choices, &a->usage);
        a->choices = NULL;
    }
    write_out(a);
}

void serve_answer(serve_engine *e, const serve_request *r, const serve_outlet *out) {
    static const char cancelled[] = "the server is shutting down";
    answer a = {.e = e, .r = r, .out = out};
    serve_problem p = {0};
    a.head = (serve_head){
        .created = (int64_t)time(NULL), .model = e->name, .chat = r->chat, .usage_in_stream = r->include_usage};
    e->next_seed += 0x9e3779b97f4a7c15u;
    snprintf(a.head.id, sizeof a.head.id, "%s-%016" PRIx64, r->chat ? "chatcmpl" : "cmpl", e->next_seed);
    a.choices = json_array();
    bool good = serve_model_is(e, r->model, &p) && run_prompts(&a, &p);
    if (good && a.gone) good = serve_refuse(&p, 503, "server_error", NULL, NULL, "%s", cancelled);
    if (good && (a.content.failed || a.bytes.failed || !a.choices))
        good = serve_refuse(&p, 500, "server_error", NULL, NULL, "there is no memory for the answer");
    if (good)
        end_well(&a);
    else
        end_with_problem(&a, &p);
    json_decref(a.choices);
    json_decref(a.logprobs);
    text_deinit(&a.content);
    text_deinit(&a.bytes);
}
