/* SPDX-License-Identifier: MIT
 * Owns the JSON texts that the server sends.
 */
#include "apps/serve/http_reply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/memory.h"

static void http_reply_print(text *out, const char *before, json_t *o, const char *after) {
    char *dump = NULL;
    if (json_print(o, JSON_COMPACT, &dump, NULL, NULL) == PROPANE_OK) {
        text_append(out, before);
        text_append(out, dump);
        text_append(out, after);
    } else {
        out->failed = true;
    }
    mem_free(dump);
    json_decref(o);
}

static json_t *http_reply_text_or_null(const char *s) { return s && *s ? json_string(s) : json_null(); }

/* Returns a message as a JSON string. A message that was cut may end inside a character, which is then left out. */
static json_t *http_reply_message_text(const char *message) {
    size_t length = strlen(message);
    json_t *string = json_stringn(message, length);
    while (!string && length > 0) string = json_stringn(message, --length);
    return string;
}

static json_t *http_reply_problem_object(const serve_problem *p) {
    return json_pack("{s:{s:o,s:s,s:o,s:o}}", "error", "message", http_reply_message_text(p->message), "type", p->type,
                     "param", http_reply_text_or_null(p->param), "code", http_reply_text_or_null(p->code));
}

void serve_print_problem(text *out, const serve_problem *p) {
    http_reply_print(out, "", http_reply_problem_object(p), "\n");
}
void serve_stream_problem(text *out, const serve_problem *p) {
    http_reply_print(out, "data: ", http_reply_problem_object(p), "\n\n");
}
void serve_stream_done(text *out) { text_append(out, "data: [DONE]\n\n"); }

void serve_print_models(text *out, const char *model, int64_t created, bool chat, bool list) {
    json_t *m = json_pack("{s:s,s:s,s:I,s:s,s:b}", "id", model, "object", "model", "created", (json_int_t)created,
                          "owned_by", "propane", "chat", chat);
    http_reply_print(out, "", list ? json_pack("{s:s,s:[o]}", "object", "list", "data", m) : m, "\n");
}

const char *serve_finish(infer_finish finish) {
    return finish == INFER_FINISH_END || finish == INFER_FINISH_STOP ? "stop" : "length";
}

/* ---- choices -------------------------------------------------------------------------------------------------------- */

json_t *serve_choice(const serve_head *h, int index, const char *content, size_t length, json_t *calls,
                     json_t *logprobs, const char *finish) {
    json_t *string = calls && !length ? json_null() : json_stringn(content, length);
    json_t *probs = logprobs ? logprobs : json_null();
    if (!h->chat)
        return json_pack("{s:i,s:o,s:o,s:o}", "index", index, "text", string, "logprobs", probs, "finish_reason",
                         http_reply_text_or_null(finish));
    return json_pack("{s:i,s:{s:s,s:o,s:n,s:o*},s:o,s:o}", "index", index, "message", "role", "assistant", "content",
                     string, "refusal", "tool_calls", calls, "logprobs", probs, "finish_reason",
                     http_reply_text_or_null(finish));
}

/* Returns the object around `choices` for a whole answer, or for a part of a stream. Takes ownership of `choices`. */
static json_t *http_reply_envelope(const serve_head *h, json_t *choices, bool part) {
    return json_pack("{s:s,s:s,s:I,s:s,s:o}", "id", h->id, "object",
                     !h->chat ? "text_completion"
                     : part   ? "chat.completion.chunk"
                              : "chat.completion",
                     "created", (json_int_t)h->created, "model", h->model, "choices", choices);
}

static json_t *http_reply_usage_object(const serve_usage *u) {
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", (json_int_t)u->prompt, "completion_tokens",
                     (json_int_t)u->completion, "total_tokens", (json_int_t)(u->prompt + u->completion),
                     "prompt_tokens_details", "cached_tokens", (json_int_t)u->reused);
}

/* Returns the object of /v1/responses for a chat's list with one choice. */
static json_t *http_reply_response(const serve_head *h, const json_t *choices, const serve_usage *usage) {
    const json_t *choice = json_array_get(choices, 0);
    const char *finish = json_string_value(json_object_get(choice, "finish_reason"));
    const json_t *content = json_object_get(json_object_get(choice, "message"), "content");
    const bool cut = finish && strcmp(finish, "length") == 0;
    const char *status = cut ? "incomplete" : "completed";
    json_t *part = json_pack("{s:s, s:O, s:[]}", "type", "output_text", "text", content, "annotations");
    json_t *message = json_pack("{s:s, s:s, s:s, s:s, s:[o]}", "type", "message", "id", h->id, "status", status, "role",
                                "assistant", "content", part);
    json_t *why = cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null();
    json_t *used = json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", (json_int_t)usage->prompt,
                             "input_tokens_details", "cached_tokens", (json_int_t)usage->reused, "output_tokens",
                             (json_int_t)usage->completion, "output_tokens_details", "reasoning_tokens", 0,
                             "total_tokens", (json_int_t)(usage->prompt + usage->completion));
    return json_pack("{s:s, s:s, s:I, s:s, s:n, s:o, s:s, s:[o], s:b, s:s, s:[], s:o}", "id", h->id, "object",
                     "response", "created_at", (json_int_t)h->created, "status", status, "error", "incomplete_details",
                     why, "model", h->model, "output", message, "parallel_tool_calls", 0, "tool_choice", "none",
                     "tools", "usage", used);
}

void serve_print_answer(text *out, const serve_head *h, json_t *choices, const serve_usage *usage) {
    if (h->response) {
        http_reply_print(out, "", http_reply_response(h, choices, usage), "\n");
        json_decref(choices);
        return;
    }
    json_t *o = http_reply_envelope(h, choices, false);
    if (o) json_put(o, "usage", http_reply_usage_object(usage));
    http_reply_print(out, "", o, "\n");
}

/* ---- embeddings ----------------------------------------------------------------------------------------------------- */

/* Prints the text directly, because JSON objects for the numbers would need ten times as much memory. */
void serve_print_embedding(text *out, int index, const float *vector, int64_t width, bool base64) {
    text_printf(out, "%s{\"object\":\"embedding\",\"index\":%d,\"embedding\":",
                index ? "," : "{\"object\":\"list\",\"data\":[", index);
    if (base64) {
        text_append(out, "\"");
        text_append_base64(out, vector, (size_t)width * sizeof *vector);
        text_append(out, "\"}");
        return;
    }
    for (int64_t i = 0; i < width; i++) text_printf(out, "%s%.9g", i ? "," : "[", (double)vector[i]);
    text_append(out, "]}");
}

void serve_print_embeddings_end(text *out, const char *model, const serve_usage *usage) {
    text rest = {0};
    http_reply_print(&rest, "",
                     json_pack("{s:s,s:{s:I,s:I}}", "model", model, "usage", "prompt_tokens", (json_int_t)usage->prompt,
                               "total_tokens", (json_int_t)usage->prompt),
                     "\n");
    out->failed |= rest.failed;
    text_append(out, "],");
    if (!rest.failed) text_append(out, rest.data + 1); /* without the brace, because the object has already begun */
    text_deinit(&rest);
}

/* ---- streams -------------------------------------------------------------------------------------------------------- */

static void http_reply_stream(text *out, const serve_head *h, json_t *choices, json_t *usage) {
    json_t *o = http_reply_envelope(h, choices, true);
    if (o && h->usage_in_stream) json_put(o, "usage", usage);
    http_reply_print(out, "data: ", o, "\n\n");
}

/* Returns a choice of a chat's stream. Takes ownership of delta and logprobs. */
static json_t *http_reply_part_of_chat(int index, json_t *delta, json_t *logprobs, const char *finish) {
    return json_pack("{s:i,s:o,s:o,s:o}", "index", index, "delta", delta, "logprobs", logprobs ? logprobs : json_null(),
                     "finish_reason", http_reply_text_or_null(finish));
}

void serve_stream_begin(text *out, const serve_head *h, int index) {
    json_t *delta = json_pack("{s:s,s:s}", "role", "assistant", "content", "");
    http_reply_stream(out, h, json_pack("[o]", http_reply_part_of_chat(index, delta, NULL, NULL)), json_null());
}

void serve_stream_part(text *out, const serve_head *h, int index, const char *content, size_t length, json_t *logprobs,
                       const char *finish) {
    json_t *choice;
    if (h->chat) {
        json_t *delta = json_object();
        if (length || !finish) json_put(delta, "content", json_stringn(content, length));
        choice = http_reply_part_of_chat(index, delta, logprobs, finish);
    } else {
        choice = serve_choice(h, index, content, length, NULL, logprobs, finish);
    }
    http_reply_stream(out, h, json_pack("[o]", choice), json_null());
}

void serve_stream_calls(text *out, const serve_head *h, int index, json_t *calls) {
    json_t *call;
    size_t i;
    json_array_foreach(calls, i, call) json_put(call, "index", json_integer((json_int_t)i));
    json_t *delta = json_pack("{s:o}", "tool_calls", calls);
    http_reply_stream(out, h, json_pack("[o]", http_reply_part_of_chat(index, delta, NULL, NULL)), json_null());
}

void serve_stream_usage(text *out, const serve_head *h, const serve_usage *usage) {
    http_reply_stream(out, h, json_array(), http_reply_usage_object(usage));
}

/* ---- logprobs ------------------------------------------------------------------------------------------------------- */

json_t *serve_logprobs(bool chat) {
    if (chat) return json_pack("{s:[],s:n}", "content", "refusal");
    return json_pack("{s:[],s:[],s:[],s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
}

/* Returns the text of one id. Bytes that are not UTF-8 without the neighbouring ids become U+FFFD. */
static json_t *http_reply_token_text(const tokenizer *t, int32_t id) {
    text shown = {0};
    tokenizer_stream s = {.begun = true};
    tokenizer_decode(t, &s, id, &shown);
    tokenizer_decode_end(&s, &shown);
    json_t *string = json_stringn(shown.data ? shown.data : "", shown.length);
    text_deinit(&shown);
    return string;
}

static json_t *http_reply_chat_token(const tokenizer *t, infer_logprob p) {
    size_t length;
    const char *piece = tokenizer_piece(t, p.id, &length);
    json_t *bytes = json_array();
    for (size_t i = 0; i < length; i++) json_add(bytes, json_integer((unsigned char)piece[i]));
    return json_pack("{s:o,s:f,s:o}", "token", http_reply_token_text(t, p.id), "logprob", p.logprob, "bytes", bytes);
}

void serve_logprobs_add(json_t *logprobs, bool chat, const tokenizer *t, const infer_step *step, size_t offset) {
    if (chat) {
        json_t *token = http_reply_chat_token(t, step->chosen), *top = json_array();
        for (int i = 0; i < step->top_count; i++) json_add(top, http_reply_chat_token(t, step->top[i]));
        json_put(token, "top_logprobs", top);
        json_add(json_object_get(logprobs, "content"), token);
        return;
    }
    const bool known = isfinite(step->chosen.logprob); /* nothing precedes a prompt's first token */
    json_t *top = known ? json_object() : json_null();
    for (int i = 0; i < step->top_count; i++) {
        json_t *key = http_reply_token_text(t, step->top[i].id);
        json_put(top, json_string_value(key), json_real(step->top[i].logprob));
        json_decref(key);
    }
    json_add(json_object_get(logprobs, "tokens"), http_reply_token_text(t, step->id));
    json_add(json_object_get(logprobs, "token_logprobs"), known ? json_real(step->chosen.logprob) : json_null());
    json_add(json_object_get(logprobs, "top_logprobs"), top);
    json_add(json_object_get(logprobs, "text_offset"), json_integer((json_int_t)offset));
}
