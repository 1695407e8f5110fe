/* SPDX-License-Identifier: MIT
 * Owns the execution of requests: encodes prompts, generates the choices of a request one after the other, and makes
 * OpenAI's objects from the text.
 */
#include "apps/serve/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "apps/serve/tool_calls.h"
#include "core/base/memory.h"
#include "lm/infer/public_generator.h"

typedef struct serve_answer answer;

static size_t engine_longest_piece(const tokenizer *t) {
    size_t longest = 1;
    for (int32_t id = 0; id < tokenizer_vocab_size(t); id++) {
        size_t length = 0;
        (void)tokenizer_piece(t, id, &length);
        if (length > longest) longest = length;
    }
    return longest;
}

serve_engine serve_engine_of(const propane_generator *generator, const propane_chat *chat) {
    return (serve_engine){.decoder = generator->machine,
                          .tokenizer = generator->tokenizer,
                          .chat = chat ? &chat->chat : NULL,
                          .longest_piece = engine_longest_piece(generator->tokenizer)};
}

struct serve_answer {
    serve_engine *e;
    const serve_request *r;
    serve_outlet out;
    serve_head head;
    serve_usage usage;
    bool begun, gone;
    int index;        /* number of the current choice */
    text content;     /* text of the choice; in a stream, the part to send next */
    size_t sent;      /* bytes of the choice's text so far */
    json_t *logprobs; /* logprobs of the choice; in a stream, those since the last part */
    json_t *choices;
    text bytes;         /* bytes that are not yet written */
    int prompt, choice; /* index of the prompt, and of the choice for this prompt */
    token_list ids;     /* ids of the prompt */
    const char *stops[SERVE_MAX_STOPS + INFER_MAX_ENDS];
    int32_t eos;
    float *vector; /* the embedding; NULL for other requests */
    int sequence;
    infer_job *job; /* job of the choice, or NULL */
    uint64_t seed;
    bool done;
};

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

static void engine_write_out(answer *a) {
    if (!a->begun) {
        a->begun = true;
        a->out.begin(a->out.context, 200, a->r->stream);
    }
    if (a->bytes.length && !a->out.write(a->out.context, a->bytes.data, a->bytes.length)) a->gone = true;
    text_clear(&a->bytes);
}

/* ---- one choice ----------------------------------------------------------------------------------------------------- */

static void engine_send_part(answer *a, const char *finish) {
    serve_stream_part(&a->bytes, &a->head, a->index, a->content.data ? a->content.data : "", a->content.length,
                      a->logprobs, finish);
    a->logprobs = a->r->logprobs >= 0 && !finish ? serve_logprobs(a->r->chat) : NULL;
    text_clear(&a->content);
    engine_write_out(a);
}

/* Handles a step in an echoed prompt whose logprobs are requested. The prompt's text was sent before. */
static bool engine_on_prompt_step(answer *a, const infer_step *step) {
    size_t length = 0;
    if (a->logprobs) serve_logprobs_add(a->logprobs, a->r->chat, a->e->tokenizer, step, a->sent);
    (void)tokenizer_piece(a->e->tokenizer, step->id, &length);
    a->sent += length;
    if (!a->out.wanted(a->out.context)) a->gone = true;
    return !a->gone;
}

static bool engine_on_step(void *context, const infer_step *step) {
    answer *a = context;
    if (step->prompt) return engine_on_prompt_step(a, step);
    if (a->logprobs && step->id >= 0 && !step->end)
        serve_logprobs_add(a->logprobs, a->r->chat, a->e->tokenizer, step, a->sent);
    text_append_n(&a->content, step->text, step->length);
    a->sent += step->length;
    /* with tools nothing is sent before the end, because only the whole text shows whether it calls a tool */
    const bool now = a->r->stream && !a->r->tools;
    if (now && (step->length || (a->logprobs && step->id >= 0 && !step->end))) engine_send_part(a, NULL);
    if (!a->out.wanted(a->out.context)) a->gone = true;
    return !a->gone;
}

/* A sequence that holds less than one part in SHARED_PART of a prompt is not chosen because of it. Otherwise the few
 * ids with which all chats begin could overwrite a text that another client's next request continues. */
enum { SHARED_PART = 8 };

/* Returns the free sequence that already holds most of the prompt. If none holds enough of it, returns the free
 * sequence that was used least recently, or -1 if none is free. */
static int engine_choose_sequence(const serve_engine *e, const token_list *ids) {
    int best = -1, oldest = -1;
    int64_t most = (int64_t)ids->count / SHARED_PART;
    for (int i = 0; i < infer_sequences(e->decoder); i++) {
        if (e->busy[i]) continue;
        const int64_t shared = infer_shared(e->decoder, i, ids->ids, (int64_t)ids->count);
        if (shared > most) most = shared, best = i;
        if (oldest < 0 || e->begun[i] < e->begun[oldest]) oldest = i;
    }
    return best >= 0 ? best : oldest;
}

static infer_task engine_task_of(answer *a) {
    const serve_request *r = a->r;
    const infer_chat *chat = a->e->chat;
    int stop_count = 0;
    a->eos = tokenizer_eos(a->e->tokenizer);
    for (; stop_count < r->stop_count; stop_count++) a->stops[stop_count] = r->stops[stop_count];
    for (int i = 0; r->chat && i < chat->stop_count; i++) a->stops[stop_count++] = chat->stops[i];
    infer_task task = {.tokenizer = a->e->tokenizer,
                       .prompt = a->ids.ids,
                       .prompt_count = (int64_t)a->ids.count,
                       .count = r->max_tokens >= 0 ? r->max_tokens : INT64_MAX,
                       .ends = r->chat ? chat->ends : &a->eos,
                       .end_count = r->chat ? chat->end_count : a->eos >= 0,
                       .stops = a->stops,
                       .stop_count = stop_count,
                       .logprobs = r->logprobs,
                       .prompt_logprobs = r->echo && r->logprobs >= 0,
                       .json = r->json,
                       .embedding = a->vector,
                       .sampling = r->sampling};
    task.sampling.seed = (r->seeded ? r->sampling.seed : a->seed) + (uint64_t)a->index;
    return task;
}

static bool engine_begin_choice(answer *a, serve_problem *p) {
    propane_error err = {0};
    const serve_request *r = a->r;
    const serve_prompt *prompt = r->chat ? NULL : &r->prompts[a->prompt];
    const infer_task task = engine_task_of(a);
    a->sent = 0;
    text_clear(&a->content);
    a->logprobs = r->logprobs >= 0 ? serve_logprobs(r->chat) : NULL;
    if (r->echo && prompt->text) text_append_n(&a->content, prompt->text, (size_t)prompt->count);
    if (r->echo && !prompt->text) tokenizer_decode_bytes(a->e->tokenizer, a->ids.ids, a->ids.count, &a->content);
    if (r->stream && r->chat) serve_stream_begin(&a->bytes, &a->head, a->index);
    if (r->stream && a->content.length) engine_send_part(a, NULL);
    a->sequence = engine_choose_sequence(a->e, &a->ids);
    if (a->sequence < 0)
        return serve_refuse(p, 500, "server_error", NULL, NULL, "no more texts can be generated at once");
    if (infer_job_begin(a->e->decoder, a->sequence, &task, engine_on_step, a, &a->job, &err))
        return serve_refuse(p, 500, "server_error", NULL, NULL, "%s", err.text);
    a->e->busy[a->sequence] = true;
    a->e->begun[a->sequence] = ++a->e->begins;
    return true;
}

static void engine_drop_job(answer *a) {
    if (!a->job) return;
    infer_job_free(a->job);
    a->job = NULL;
    a->e->busy[a->sequence] = false;
}

static bool engine_end_choice(answer *a, serve_problem *p) {
    const infer_result result = infer_job_result(a->job);
    engine_drop_job(a);
    a->usage.completion += result.made;
    if (a->index == 0) a->usage.reused = result.reused;
    if (result.finish == INFER_FINISH_LOST)
        return serve_refuse(p, 500, "server_error", NULL, NULL, "the model's %s are NaN or infinite",
                            a->vector ? "embeddings" : "scores");
    if (result.finish == INFER_FINISH_STUCK)
        return serve_refuse(
            p, 400, "invalid_request_error", "response_format", NULL,
            "no token of this model can complete the JSON object within the remaining tokens; raise max_tokens");
    if (a->vector && !a->gone)
        serve_print_embedding(&a->bytes, a->index, a->vector, infer_width(a->e->decoder), a->r->base64);
    if (a->gone || a->vector) return true;
    json_t *calls =
        a->r->tools && !a->content.failed ? serve_tool_calls(&a->content, a->seed + (uint64_t)a->index) : NULL;
    const char *finish = calls ? "tool_calls" : serve_finish(result.finish);
    if (a->r->stream) {
        if (a->r->tools && a->content.length) engine_send_part(a, NULL);
        if (calls) serve_stream_calls(&a->bytes, &a->head, a->index, calls);
        engine_send_part(a, finish);
    } else {
        json_t *choice = serve_choice(&a->head, a->index, a->content.data ? a->content.data : "", a->content.length,
                                      calls, a->logprobs, finish);
        a->logprobs = NULL;
        if (!choice || json_array_append_new(a->choices, choice))
            return serve_refuse(p, 500, "server_error", NULL, NULL, "not enough memory for the answer");
    }
    return true;
}

/* ---- prompts -------------------------------------------------------------------------------------------------------- */

static bool engine_encode_prompt(const serve_engine *e, const serve_prompt *prompt, token_list *ids,
                                 propane_error *err) {
    if (!prompt->text) {
        for (int64_t i = 0; i < prompt->count; i++)
            if (token_list_add(ids, prompt->ids[i], err)) return false;
        return true;
    }
    int bos = tokenizer_bos(e->tokenizer);
    if (bos >= 0 && token_list_add(ids, bos, err)) return false;
    return tokenizer_encode(e->tokenizer, prompt->text, (size_t)prompt->count, ids, err) == PROPANE_OK;
}

static bool engine_check_ids(const answer *a, const token_list *ids, const char *param, serve_problem *p) {
    int64_t room = infer_context(a->e->decoder);
    if (ids->count == 0)
        return serve_refuse(p, 400, "invalid_request_error", param, NULL,
                            "the prompt is empty and this model has no token for the beginning of a text");
    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] < 0 || ids->ids[i] >= infer_vocab(a->e->decoder))
            return serve_refuse(p, 400, "invalid_request_error", param, NULL,
                                "token id number %zu is not in the model's vocabulary of %d", i + 1,
                                infer_vocab(a->e->decoder));
    if ((int64_t)ids->count <= room) return true;
    return serve_refuse(p, 400, "invalid_request_error", param, "context_length_exceeded",
                        "the prompt has %zu tokens, but the model's context has room for %" PRId64 "; shorten it",
                        ids->count, room);
}

/* Refuses a text that is much too long for the context, before time is spent on encoding it. A text may have twice as
 * many bytes as the context's tokens can hold, because some tokenizers drop blanks and marks. */
static bool engine_check_length(const serve_engine *e, size_t bytes, const char *param, serve_problem *p) {
    const int64_t room = infer_context(e->decoder);
    if (!e->longest_piece || bytes / e->longest_piece / 2 <= (size_t)room) return true;
    return serve_refuse(p, 400, "invalid_request_error", param, "context_length_exceeded",
                        "the text has %zu bytes, but the model's context has room for %" PRId64 " tokens; shorten it",
                        bytes, room);
}

static bool engine_check_messages(const serve_engine *e, const serve_request *r, serve_problem *p) {
    const int64_t room = infer_context(e->decoder);
    size_t bytes = 0;
    if (r->message_count > room)
        return serve_refuse(p, 400, "invalid_request_error", "messages", "context_length_exceeded",
                            "there are %d messages, but the model's context has room for %" PRId64
                            " tokens; leave some out",
                            r->message_count, room);
    for (int i = 0; i < r->message_count; i++) bytes += r->messages[i].content ? strlen(r->messages[i].content) : 0;
    return engine_check_length(e, bytes, "messages", p);
}

bool serve_check_sizes(const serve_engine *e, const serve_request *r, serve_problem *p) {
    const int64_t room = infer_context(e->decoder), width = infer_width(e->decoder);
    if (r->dimensions && r->dimensions != width)
        return serve_refuse(p, 400, "invalid_request_error", "dimensions", NULL,
                            "'dimensions' is %" PRId64 ", but this model's embeddings have %" PRId64
                            " numbers; leave it out",
                            r->dimensions, width);
    for (int i = 0; i < r->prompt_count; i++)
        if (!r->prompts[i].text && r->prompts[i].count > room)
            return serve_refuse(p, 400, "invalid_request_error", serve_request_key(r), "context_length_exceeded",
                                "the prompt has %" PRId64 " tokens, but the model's context has room for %" PRId64
                                "; shorten it",
                                r->prompts[i].count, room);
        else if (r->prompts[i].text && !engine_check_length(e, (size_t)r->prompts[i].count, serve_request_key(r), p))
            return false;
    return !r->chat || engine_check_messages(e, r, p);
}

/* Encodes prompt i of the request. A chat has one prompt, its messages. */
static bool engine_prompt_ids(const answer *a, int i, token_list *ids, serve_problem *p) {
    propane_error err = {0};
    const char *param = serve_request_key(a->r);
    if (a->r->chat && !a->e->chat)
        return serve_refuse(p, 400, "invalid_request_error", "messages", NULL,
                            "this model's chat template cannot be run here: install Python's jinja2 on the server, or "
                            "start it with --chat FORMAT; /v1/completions works without it");
    if (a->r->tools && !chat_template_calls_tools(&a->e->chat->format))
        return serve_refuse(p, 400, "invalid_request_error", "tools", "unsupported_parameter",
                            "this model's chat template does not use <tool_call>, the only supported form of tool "
                            "calls; leave 'tools' out");
    bool good = a->r->chat ? infer_chat_encode(a->e->chat, a->e->tokenizer, a->r->messages, a->r->message_count,
                                               a->r->tools, ids, &err) == PROPANE_OK
                           : engine_encode_prompt(a->e, &a->r->prompts[i], ids, &err);
    if (good) return engine_check_ids(a, ids, param, p);
    bool own = err.status == PROPANE_ERR_MEMORY;
    return serve_refuse(p, own ? 500 : 400, own ? "server_error" : "invalid_request_error", param, NULL, "%s",
                        err.text);
}

/* Begins the next choice of the request. Returns false if there are no more choices, or after an error, for which
 * p->http is not 0. */
static bool engine_next_choice(answer *a, serve_problem *p) {
    int prompts = a->r->chat ? 1 : a->r->prompt_count;
    if (a->choice == a->r->choices) {
        a->choice = 0;
        a->prompt++;
    }
    if (a->gone || a->prompt >= prompts || a->r->choices < 1) return false;
    if (a->choice == 0) {
        a->ids.count = 0;
        bool good = engine_prompt_ids(a, a->prompt, &a->ids, p);
        a->usage.prompt += (int64_t)a->ids.count;
        if (!good) return false;
    }
    return engine_begin_choice(a, p);
}

/* ---- all answers ------------------------------------------------------------------------------------------------- */

/* Ends an answer with an error. In a stream that has begun, the error is the last event. */
static void engine_end_with_problem(answer *a, const serve_problem *p) {
    if (!a->begun) {
        serve_answer_problem(p, &a->out);
        return;
    }
    text_clear(&a->bytes);
    serve_stream_problem(&a->bytes, p);
    engine_write_out(a);
}

static void engine_end_well(answer *a) {
    if (a->r->stream) {
        if (a->r->include_usage) serve_stream_usage(&a->bytes, &a->head, &a->usage);
        serve_stream_done(&a->bytes);
    } else if (a->vector) {
        serve_print_embeddings_end(&a->bytes, a->head.model, &a->usage);
    } else {
        serve_print_answer(&a->bytes, &a->head, a->choices, &a->usage);
        a->choices = NULL;
    }
    engine_write_out(a);
}

static bool engine_has_memory(const answer *a) {
    return !a->content.failed && !a->bytes.failed && a->choices && (!a->r->embedding || a->vector);
}

static void engine_end(answer *a, serve_problem *p) {
    bool good = !p->http;
    engine_drop_job(a);
    if (good && a->gone) good = serve_refuse(p, 503, "server_error", NULL, NULL, "the server is shutting down");
    if (good && !engine_has_memory(a))
        good = serve_refuse(p, 500, "server_error", NULL, NULL, "not enough memory for the answer");
    if (good)
        engine_end_well(a);
    else
        engine_end_with_problem(a, p);
    if (a->out.used) a->out.used(a->out.context, &a->usage);
    a->done = true;
}

/* Begins the next choice for which tokens must be generated. Ends the answer if there is none. */
static void engine_go_on(answer *a) {
    serve_problem p = {0};
    while (engine_next_choice(a, &p)) {
        if (!infer_job_is_done(a->job)) return;
        a->choice++;
        if (!engine_end_choice(a, &p)) break;
        a->index++;
    }
    engine_end(a, &p);
}

answer *serve_begin(serve_engine *e, const serve_request *r, const serve_outlet *out) {
    serve_problem p = {0};
    answer *a = mem_alloc(sizeof *a);
    if (!a) {
        serve_refuse(&p, 500, "server_error", NULL, NULL, "not enough memory for the answer");
        serve_answer_problem(&p, out);
        return NULL;
    }
    *a = (answer){.e = e, .r = r, .out = *out};
    a->head = (serve_head){.created = (int64_t)time(NULL),
                           .model = e->name,
                           .chat = r->chat,
                           .usage_in_stream = r->include_usage,
                           .response = r->response};
    a->seed = e->next_seed += 0x9e3779b97f4a7c15u;
    snprintf(a->head.id, sizeof a->head.id, "%s-%016" PRIx64,
             r->response ? "resp"
             : r->chat   ? "chatcmpl"
                         : "cmpl",
             a->seed);
    a->choices = json_array();
    if (r->embedding) a->vector = mem_array((size_t)infer_width(e->decoder), sizeof *a->vector);
    if (engine_has_memory(a) && serve_model_is(e, r->model, &p))
        engine_go_on(a);
    else
        engine_end(a, &p);
    return a;
}

/* Returns the answer whose prompt is read next, or NULL. Ends answers whose clients have gone. */
static answer *engine_next_reader(serve_engine *e, answer *const *answers, int count) {
    answer *next = NULL;
    for (int i = 0; i < count; i++) {
        answer *a = answers[i];
        serve_problem p = {0};
        if (!a->job || infer_job_is_ready(a->job)) continue;
        if (!a->out.wanted(a->out.context)) {
            a->gone = true;
            engine_end(a, &p);
        } else if (!next || (e->shortest && infer_job_left(a->job) < infer_job_left(next->job))) {
            next = a;
        }
    }
    return next;
}

/* Reads the next part of a prompt. After an error, ends only the answer of that prompt. */
static void engine_read_prompt(serve_engine *e, answer *const *answers, int count) {
    answer *a = engine_next_reader(e, answers, count);
    propane_error err = {0};
    serve_problem p = {0};
    e->shortest = !e->shortest;
    if (!a || infer_job_read(a->job, &err) == PROPANE_OK) return;
    serve_refuse(&p, 500, "server_error", NULL, NULL, "%s", err.text);
    engine_end(a, &p);
}

void serve_advance(serve_engine *e, answer *const *answers, int count) {
    infer_job *jobs[INFER_MAX_SEQUENCES] = {NULL};
    propane_error err = {0};
    int n = 0;
    for (int i = 0; i < count; i++)
        if (answers[i]->job && infer_job_is_ready(answers[i]->job)) jobs[n++] = answers[i]->job;
    propane_status status = infer_advance(e->decoder, jobs, n, &err);
    for (int i = 0; i < count; i++) {
        answer *a = answers[i];
        serve_problem p = {0};
        if (!a->job || !infer_job_is_ready(a->job)) continue;
        if (status) {
            serve_refuse(&p, 500, "server_error", NULL, NULL, "%s", err.text);
            engine_end(a, &p);
        } else if (infer_job_is_done(a->job)) {
            a->choice++;
            bool good = engine_end_choice(a, &p);
            a->index++;
            if (good)
                engine_go_on(a);
            else
                engine_end(a, &p);
        }
    }
    engine_read_prompt(e, answers, count);
}

bool serve_is_done(const answer *a) { return a->done; }

void serve_free(answer *a) {
    if (!a) return;
    engine_drop_job(a);
    json_decref(a->choices);
    mem_free(a->vector);
    json_decref(a->logprobs);
    token_list_deinit(&a->ids);
    text_deinit(&a->content);
    text_deinit(&a->bytes);
    mem_free(a);
}
