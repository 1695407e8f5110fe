/* SPDX-License-Identifier: MIT
 * The replies to clients: OpenAI's objects for answers, parts of answers in a stream, models and errors.
 */
#ifndef APPS_SERVE_HTTP_REPLY_H
#define APPS_SERVE_HTTP_REPLY_H

#include "apps/serve/http_request.h"
#include "core/base/text.h"
#include "lm/infer/complete.h"

/* The part that all objects of one answer share. */
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

/* Each appends a JSON text to `out`; out->failed is set if memory ran out. In a stream it is preceded by "data: " and
 * followed by two newlines. */
void serve_print_problem(text *out, const serve_problem *p);
/* `chat` means that its chat format is known. */
void serve_print_models(text *out, const char *model, int64_t created, bool chat, bool list);
/* `choices` is a list of serve_choice, of which this takes ownership. */
void serve_print_answer(text *out, const serve_head *h, json_t *choices, const serve_usage *usage);
/* Prints an embedding as the index-th item of a list that is printed piece by piece: the list's start comes before the
 * first, its end after the last. */
void serve_print_embedding(text *out, int index, const float *vector, int64_t width, bool base64);
void serve_print_embeddings_end(text *out, const char *model, const serve_usage *usage);
/* Returns NULL if memory runs out. `finish` is NULL if it is not finished (streams). Takes ownership of `logprobs` (may
 * be NULL) and of a chat's `calls` (NULL for none). If there are calls, an empty content becomes null. */
json_t *serve_choice(const serve_head *h, int index, const char *content, size_t length, json_t *calls,
                     json_t *logprobs, const char *finish);
void serve_stream_calls(text *out, const serve_head *h, int index, json_t *calls); /* takes ownership of calls */
void serve_stream_begin(text *out, const serve_head *h, int index);                /* chat: sends the role */
void serve_stream_part(text *out, const serve_head *h, int index, const char *content, size_t length, json_t *logprobs,
                       const char *finish);
void serve_stream_usage(text *out, const serve_head *h, const serve_usage *usage);
void serve_stream_problem(text *out, const serve_problem *p);
void serve_stream_done(text *out);

/* The logprobs object, which grows by one step at a time. `offset` is the number of bytes of text before this token
 * (completions only). */
json_t *serve_logprobs(bool chat);
void serve_logprobs_add(json_t *logprobs, bool chat, const tokenizer *t, const infer_step *step, size_t offset);
const char *serve_finish(infer_finish finish); /* "stop", "length" */

#endif
