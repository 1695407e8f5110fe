/* SPDX-License-Identifier: MIT
 * What a client may ask for: the JSON bodies of POST /v1/completions, /v1/chat/completions, /v1/embeddings and
 * /v1/responses as OpenAI defines them, with top_k, min_p and repetition_penalty besides. Everything is checked here;
 * what would change the result and is not supported (logit_bias, a JSON schema, a tool that must be called) is refused,
 * other unknown keys are skipped.
 */
#ifndef APPS_SERVE_HTTP_REQUEST_H
#define APPS_SERVE_HTTP_REQUEST_H

#include "core/base/json.h"
#include "lm/infer/sample.h"
#include "lm/text/chat.h"

enum { SERVE_MAX_STOPS = 16, SERVE_MAX_PROMPTS = 128, SERVE_MAX_CHOICES = 128, SERVE_MAX_EMBEDDINGS = 2048 };
typedef enum serve_kind { SERVE_COMPLETION, SERVE_CHAT, SERVE_EMBEDDING, SERVE_RESPONSE } serve_kind;
/* What there is at a path; SERVE_ROUTE_POST + a serve_kind. */
typedef enum serve_route { SERVE_ROUTE_NONE, SERVE_ROUTE_GET, SERVE_ROUTE_POST } serve_route;
serve_route serve_route_of(const char *url);

/* An answer that is an error; the fields of OpenAI's error object. */
typedef struct serve_problem {
    int http; /* status code; 0: there is none */
    const char *type, *code;
    char param[40];
    char message[700];
} serve_problem;
/* Fills `p` and returns false. param, code: may be NULL. */
bool serve_refuse(serve_problem *p, int http, const char *type, const char *param, const char *code, const char *format,
                  ...) BASE_PRINTF(6, 7);

typedef struct serve_prompt {
    const char *text; /* NULL: ids */
    int32_t *ids;
    int64_t count; /* bytes or ids */
} serve_prompt;

typedef struct serve_request {
    arena *arena;
    json_t *root;  /* the strings below are its own */
    bool response; /* a chat that was asked for as /v1/responses has it */
    bool chat, embedding, base64, stream, include_usage, echo, seeded;
    bool json;         /* response_format: a JSON object */
    const char *model; /* NULL: not named */
    infer_sampling sampling;
    int64_t dimensions;    /* of an embedding; 0: not named */
    int64_t max_tokens;    /* -1: until the context is full */
    int choices, logprobs; /* -1: none */
    const char *stops[SERVE_MAX_STOPS];
    int stop_count;
    serve_prompt *prompts;
    int prompt_count;
    chat_message *messages;
    int message_count;
    const json_t *tools; /* of a chat; NULL: none, or none shall be called */
} serve_request;

/* What the texts of a request are called in it: "messages", "input" or "prompt". */
const char *serve_request_key(const serve_request *r);
/* False: `problem` is filled and there is nothing to free. */
/* Before a body is read as JSON: one with more list items than requests for `context` positions can have is refused. */
bool serve_request_check_items(const char *body, size_t length, serve_kind kind, int64_t context,
                               serve_problem *problem);
bool serve_request_parse(const char *body, size_t length, serve_kind kind, serve_request *out, serve_problem *problem);
void serve_request_deinit(serve_request *r);

#endif
