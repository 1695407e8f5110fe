/* SPDX-License-Identifier: MIT
 * Declares the requests that clients may send: the JSON bodies of POST /v1/completions, /v1/chat/completions,
 * /v1/embeddings and /v1/responses as OpenAI defines them, with the additional keys top_k, min_p and
 * repetition_penalty. All keys and values are checked while a body is parsed. Unsupported keys that would change the
 * result (logit_bias, a JSON schema, a tool that must be called) are refused. Other unknown keys are ignored.
 */
#ifndef APPS_SERVE_HTTP_REQUEST_H
#define APPS_SERVE_HTTP_REQUEST_H

#include "core/base/json.h"
#include "lm/infer/sample.h"
#include "lm/text/chat.h"

enum { SERVE_MAX_STOPS = 16, SERVE_MAX_PROMPTS = 128, SERVE_MAX_CHOICES = 128, SERVE_MAX_EMBEDDINGS = 2048 };
typedef enum serve_kind { SERVE_COMPLETION, SERVE_CHAT, SERVE_EMBEDDING, SERVE_RESPONSE } serve_kind;
/* The kind of endpoint at a path. An endpoint for POST is SERVE_ROUTE_POST plus its serve_kind. */
typedef enum serve_route { SERVE_ROUTE_NONE, SERVE_ROUTE_GET, SERVE_ROUTE_POST } serve_route;
serve_route serve_route_of(const char *url);

/* An error that is sent to the client, with the fields of OpenAI's error object. */
typedef struct serve_problem {
    int http; /* status code; 0 means no error */
    const char *type, *code;
    char param[40];
    char message[700];
} serve_problem;
/* Fills in `p` and returns false. `param` and `code` may be NULL. */
bool serve_refuse(serve_problem *p, int http, const char *type, const char *param, const char *code, const char *format,
                  ...) BASE_PRINTF(6, 7);

typedef struct serve_prompt {
    const char *text; /* NULL if the prompt is given as ids */
    int32_t *ids;
    int64_t count; /* number of bytes or ids */
} serve_prompt;

typedef struct serve_request {
    arena *arena;
    json_t *root;  /* owns the strings of the following members */
    bool response; /* a chat that was requested through /v1/responses */
    bool chat, embedding, base64, stream, include_usage, echo, seeded;
    bool json;         /* response_format: a JSON object */
    const char *model; /* NULL if not given */
    infer_sampling sampling;
    int64_t dimensions;    /* size of an embedding; 0 if not given */
    int64_t max_tokens;    /* -1 means until the context is full */
    int choices, logprobs; /* logprobs: number of most likely ids; -1 if none are requested */
    const char *stops[SERVE_MAX_STOPS];
    int stop_count;
    serve_prompt *prompts;
    int prompt_count;
    chat_message *messages;
    int message_count;
    const json_t *tools; /* tools of a chat; NULL if there are none, or if none may be called */
} serve_request;

/* Returns the key of the request's texts: "messages", "input" or "prompt". */
const char *serve_request_key(const serve_request *r);
/* Refuses a body that has more list items than any request for `context` positions can have. Call it before the body is
 * parsed as JSON. Returns false if the body is refused; `problem` is then filled in. */
bool serve_request_check_items(const char *body, size_t length, serve_kind kind, int64_t context,
                               serve_problem *problem);
/* Parses a body. Returns false if the body is refused; `problem` is then filled in, and there is nothing to free. */
bool serve_request_parse(const char *body, size_t length, serve_kind kind, serve_request *out, serve_problem *problem);
void serve_request_deinit(serve_request *r);

#endif
