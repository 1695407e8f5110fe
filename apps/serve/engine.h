/* SPDX-License-Identifier: MIT
 * Requests carried out: from what clients asked for to the bytes of the answers. As many go on at once as the machine
 * has sequences; their tokens are read together. Knows nothing of connections: what is ready is handed to an outlet.
 */
#ifndef APPS_SERVE_ENGINE_H
#define APPS_SERVE_ENGINE_H

#include "apps/serve/http_reply.h"
#include "lm/infer/converse.h"

typedef struct serve_engine {
    infer *machine;
    const tokenizer *tokenizer;
    const infer_chat *chat; /* NULL: not known; chats are refused */
    const char *name;       /* of the model */
    int64_t created;        /* when it was loaded, seconds since 1970 */
    uint64_t next_seed;     /* for requests without one */
    bool busy[INFER_MAX_SEQUENCES];
    /* bytes of the vocabulary's longest token: a text has at least its length through that many; 0: not known */
    size_t longest_piece;
    bool shortest; /* whose prompt is read next: what has least left, or what began first, in turns */
} serve_engine;

/* An engine over what the library has opened, which must outlive it; name, created and next_seed are the caller's to
 * set. */
serve_engine serve_engine_of(const propane_generator *generator, const propane_chat *chat);

/* Where an answer goes. The first call of `begin` decides about the status; then come bytes. */
typedef struct serve_outlet {
    void *context;
    void (*begin)(void *context, int http, bool stream);
    bool (*write)(void *context, const char *bytes, size_t length); /* false: the client has gone */
    bool (*wanted)(void *context);                                  /* asked at each token */
    void (*used)(void *context, const serve_usage *usage);          /* at the end; NULL: not wanted */
} serve_outlet;

/* An answer that is on its way. */
typedef struct serve_answer serve_answer;
/* Begins one; fewer than infer_sequences(e->machine) are on their way. `r` and what `out` names must stay until it is
 * freed. NULL: no memory; that was answered. */
serve_answer *serve_begin(serve_engine *e, const serve_request *r, const serve_outlet *out);
/* A token further, all of them whose prompt was read; then one part of one prompt (infer_job_read), in turns of the
 * answer that began first and of the one that has least left: so a long prompt holds up the others, those that have a
 * short one to read included, by one part at a time. */
void serve_advance(serve_engine *e, serve_answer *const *answers, int count);
bool serve_is_done(const serve_answer *a); /* all was handed out */
void serve_free(serve_answer *a);
/* An answer that is an error. */
void serve_answer_problem(const serve_problem *p, const serve_outlet *out);
/* Whether the context has room for what is known before the prompts are encoded: ids; and whether embeddings are as
 * wide as asked. */
bool serve_check_sizes(const serve_engine *e, const serve_request *r, serve_problem *p);
/* Whether the model is the one that is asked for. */
bool serve_model_is(const serve_engine *e, const char *model, serve_problem *p);

#endif
