/* SPDX-License-Identifier: MIT
 * Declares the execution of requests, from a client's request to the bytes of the answer. As many requests run at the
 * same time as the decoder has sequences, and one pass over the weights computes the next token of each. The engine
 * does not handle connections. It passes bytes that are ready to an outlet.
 */
#ifndef APPS_SERVE_ENGINE_H
#define APPS_SERVE_ENGINE_H

#include "apps/serve/http_reply.h"
#include "lm/infer/converse.h"

typedef struct serve_engine {
    infer *decoder;
    const tokenizer *tokenizer;
    const infer_chat *chat; /* NULL if the chat format is unknown; chats are then refused */
    const char *name;       /* name of the model */
    int64_t created;        /* time at which the model was loaded, in seconds since 1970 */
    uint64_t next_seed;     /* seed of the next request that has none */
    bool busy[INFER_MAX_SEQUENCES];
    uint64_t begun[INFER_MAX_SEQUENCES], begins; /* number of the last text in each sequence; number of texts so far */
    /* The number of bytes of the vocabulary's longest token; 0 if not known. A text of n bytes has at least n /
     * longest_piece tokens. */
    size_t longest_piece;
    /* Whether the next part is read of the prompt with the least left, or of the prompt that began first.
     * Alternates. */
    bool shortest;
} serve_engine;

/* Returns an engine for objects of the library, which must outlive it. `chat` may be NULL. The caller sets name,
 * created and next_seed. */
serve_engine serve_engine_of(const propane_generator *generator, const propane_chat *chat);

/* The destination of an answer. `begin` is called first, with the HTTP status. `write` is called for each part of the
 * answer. */
typedef struct serve_outlet {
    void *context;
    void (*begin)(void *context, int http, bool stream);
    bool (*write)(void *context, const char *bytes, size_t length); /* returns false if the client has gone */
    bool (*wanted)(void *context);                                  /* called for each token; returns false to stop */
    void (*used)(void *context, const serve_usage *usage);          /* called at the end; NULL if not needed */
} serve_outlet;

/* An answer in progress. */
typedef struct serve_answer serve_answer;
/* Begins an answer. Fewer than infer_sequences(e->decoder) answers may be in progress. `r` and everything that `out`
 * refers to must stay valid until the answer is freed. Returns NULL if memory runs out, after sending the error. */
serve_answer *serve_begin(serve_engine *e, const serve_request *r, const serve_outlet *out);
/* Generates one token for each answer whose prompt has been read, then reads one part of one prompt (infer_job_read).
 * It is alternately the prompt of the answer that began first, and the prompt with the least left. A long prompt
 * therefore delays other answers by only one part at a time, even answers whose short prompts still have to be read. */
void serve_advance(serve_engine *e, serve_answer *const *answers, int count);
bool serve_is_done(const serve_answer *a); /* whether the whole answer has been passed to its outlet */
void serve_free(serve_answer *a);
/* Passes an error to the outlet as the whole answer. */
void serve_answer_problem(const serve_problem *p, const serve_outlet *out);
/* Checks sizes before the prompts are encoded. The context must have room for prompts that are ids, texts must not be
 * much too long, and embeddings must have the requested size. If not, returns false and fills in `p`. */
bool serve_check_sizes(const serve_engine *e, const serve_request *r, serve_problem *p);
/* Returns whether `model` is this server's model or NULL. If not, fills in `p`. */
bool serve_model_is(const serve_engine *e, const char *model, serve_problem *p);

#endif
