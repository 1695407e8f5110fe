/* SPDX-License-Identifier: MIT
 * Executes requests: from clients' requests to the bytes of the answers. As many run at once as the decoder has
 * sequences, and one pass reads all their tokens. It does not handle connections: bytes that are ready are passed to
 * an outlet.
 */
#ifndef APPS_SERVE_ENGINE_H
#define APPS_SERVE_ENGINE_H

#include "apps/serve/http_reply.h"
#include "lm/infer/converse.h"

typedef struct serve_engine {
    infer *decoder;
    const tokenizer *tokenizer;
    const infer_chat *chat; /* NULL if not known; chats are then refused */
    const char *name;       /* name of the model */
    int64_t created;        /* when it was loaded, seconds since 1970 */
    uint64_t next_seed;     /* for requests without one */
    bool busy[INFER_MAX_SEQUENCES];
    uint64_t begun[INFER_MAX_SEQUENCES], begins; /* number of the last text that each sequence began */
    /* bytes of the vocabulary's longest token: a text has at least its length divided by this many tokens; 0 if not
     * known */
    size_t longest_piece;
    /* which prompt is read next: alternately the one with the least left, and the one that began first */
    bool shortest;
} serve_engine;

/* Makes an engine from objects that the library has opened, which must outlive it. The caller sets name, created and
 * next_seed. */
serve_engine serve_engine_of(const propane_generator *generator, const propane_chat *chat);

/* The destination of an answer. `begin` is called first and sets the status; then come bytes. */
typedef struct serve_outlet {
    void *context;
    void (*begin)(void *context, int http, bool stream);
    bool (*write)(void *context, const char *bytes, size_t length); /* returns false if the client has gone */
    bool (*wanted)(void *context);                                  /* called for each token */
    void (*used)(void *context, const serve_usage *usage);          /* called at the end; NULL if not wanted */
} serve_outlet;

/* An answer in progress. */
typedef struct serve_answer serve_answer;
/* Begins an answer; fewer than infer_sequences(e->decoder) may be in progress. `r` and everything that `out` refers to
 * must stay valid until it is freed. Returns NULL if memory ran out; the error was then sent. */
serve_answer *serve_begin(serve_engine *e, const serve_request *r, const serve_outlet *out);
/* Advances all answers whose prompts are read by one token, then reads one part of one prompt (infer_job_read),
 * alternately of the answer that began first and of the one with the least left. A long prompt therefore delays the
 * others, including those with a short prompt to read, by only one part at a time. */
void serve_advance(serve_engine *e, serve_answer *const *answers, int count);
bool serve_is_done(const serve_answer *a); /* true if everything has been passed on */
void serve_free(serve_answer *a);
/* Sends an error as the answer. */
void serve_answer_problem(const serve_problem *p, const serve_outlet *out);
/* Checks, before the prompts are encoded, whether the context has room for the known ids, and whether embeddings have
 * the requested size. */
bool serve_check_sizes(const serve_engine *e, const serve_request *r, serve_problem *p);
/* Returns whether the model is the requested one. */
bool serve_model_is(const serve_engine *e, const char *model, serve_problem *p);

#endif
