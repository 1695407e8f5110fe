/* SPDX-License-Identifier: MIT
 * Declares the replies to clients: OpenAI's objects for answers, parts of answers in a stream, models and errors.
 */
#ifndef APPS_SERVE_HTTP_REPLY_H
#define APPS_SERVE_HTTP_REPLY_H

#include "apps/serve/http_request.h"
#include "core/base/text.h"
#include "lm/infer/complete.h"

/* The facts that all objects of one answer share. */
typedef struct serve_head {
    char id[48];
    int64_t created; /* seconds since 1970 */
    const char *model;
    bool chat, usage_in_stream;
    bool response; /* a chat requested through /v1/responses */
} serve_head;

typedef struct serve_usage {
    int64_t prompt, completion, reused;
} serve_usage;

/* The functions serve_print_* append a JSON text to `out`, and serve_stream_* an event of a stream, which is "data: ",
 * a JSON text and two newlines. They set out->failed if memory runs out. */
void serve_print_problem(text *out, const serve_problem *p);
/* Prints the model, or a list with the model if `list` is set. `chat` means that the model's chat format is known. */
void serve_print_models(text *out, const char *model, int64_t created, bool chat, bool list);
/* Prints a complete answer. Takes ownership of `choices`, a JSON array of results of serve_choice. */
void serve_print_answer(text *out, const serve_head *h, json_t *choices, const serve_usage *usage);
/* Print a list of embeddings piece by piece. serve_print_embedding prints one item, and for index 0 the start of the
 * list before it. serve_print_embeddings_end prints the end of the list. */
void serve_print_embedding(text *out, int index, const float *vector, int64_t width, bool base64);
void serve_print_embeddings_end(text *out, const char *model, const serve_usage *usage);
/* Returns the object of a choice, or NULL if memory runs out. `finish` is NULL for a part of a stream that is not the
 * last one. Takes ownership of `logprobs` (may be NULL) and of a chat's tool calls `calls` (NULL for none). If there
 * are calls, an empty content becomes null. */
json_t *serve_choice(const serve_head *h, int index, const char *content, size_t length, json_t *calls,
                     json_t *logprobs, const char *finish);
void serve_stream_calls(text *out, const serve_head *h, int index, json_t *calls); /* takes ownership of calls */
void serve_stream_begin(text *out, const serve_head *h, int index);                /* prints a chat's role */
void serve_stream_part(text *out, const serve_head *h, int index, const char *content, size_t length, json_t *logprobs,
                       const char *finish);
void serve_stream_usage(text *out, const serve_head *h, const serve_usage *usage);
void serve_stream_problem(text *out, const serve_problem *p);
void serve_stream_done(text *out);

/* serve_logprobs returns an empty logprobs object, to which serve_logprobs_add adds one step. `offset` is the number of
 * bytes of text before the step's token (for completions only). */
json_t *serve_logprobs(bool chat);
void serve_logprobs_add(json_t *logprobs, bool chat, const tokenizer *t, const infer_step *step, size_t offset);
const char *serve_finish(infer_finish finish); /* returns "stop" or "length" */

#endif
